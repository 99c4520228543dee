"""The data of one attempt, as arrays, and its conversion to a Decision.

Building a Decision costs milliseconds at thousands of nodes, so it is built on demand, and before
the cluster state changes: the arrays belong to the attempt's snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from mooring.decision import (
    LEFT_OUT_PREFIX,
    NOT_SATISFIED,
    Decision,
    ExtenderCall,
    Preemption,
    Rejection,
)
from mooring.errors import InvariantViolation
from mooring.framework.diagnosis import Diagnosis
from mooring.framework.runtime.filter_results import NOT_VISITED, FilterResults
from mooring.framework.status import Code, Reject, Status
from mooring.state.snapshot import Snapshot
from mooring.state.types import Ints, Rows

#: Below any total of scores.
_LOWEST: Final = -(2**63)


@dataclass(frozen=True, slots=True)
class Placement:
    """The node selected for a pod; ``feasible_count`` of ``evaluated_count`` nodes are feasible."""

    node_name: str
    row: int
    feasible_count: int
    evaluated_count: int


class PreFilterOutcome(NamedTuple):
    """The merged result of PreFilter: node names (None = all) or a rejection.

    ``narrowed_by`` are the plugins that returned a PreFilterResult.
    """

    node_names: frozenset[str] | None = None
    status: Status | None = None
    narrowed_by: tuple[str, ...] = ()


#: PreFilter excluded no node, or has not run.
UNRESTRICTED: Final = PreFilterOutcome()


def excluded_by_pre_filter(plugins: Iterable[str]) -> Reject:
    """Returns the status of a node that these PreFilter plugins excluded, without a plugin name."""
    return Reject(f"{LEFT_OUT_PREFIX}{' '.join(plugins)}]", resolvable=False)


def no_node_left(plugins: Collection[str]) -> Reject:
    """Returns the rejection of a pod to which these PreFilter plugins left no node."""
    names = " ".join(sorted(plugins))
    if len(plugins) == 1:
        return Reject(f"{NOT_SATISFIED} {names}", resolvable=False)
    return Reject(f"{LEFT_OUT_PREFIX}{names}] simultaneously", resolvable=False)


@dataclass(slots=True)
class Attempt:
    """The arrays of one attempt, filled in by its stages.

    ``rows`` are the feasible rows that were scored, intp shape (f,); ``raw`` and ``scores`` hold
    per plugin name int64 shape (f,), ``total`` the same shape. ``final`` holds the raw scores of
    plugins that need no normalizing, by row, shape (capacity,); these are also their scores, except
    for plugins in ``constant``, whose score is the same on every node. Raw scores and scores of the
    plugins in ``zero`` are 0 on every node: they do not apply to the pod.
    """

    snapshot: Snapshot
    start_index: int = 0
    results: FilterResults | None = None
    #: Row -> status of nodes rejected before the filter stage (the nominated node, tried first).
    extra: dict[int, Status] = field(default_factory=dict)
    #: Row -> status of nodes that every filter accepted and an extender rejected.
    by_extenders: dict[int, Status] = field(default_factory=dict)
    #: Name of an extender -> its result.
    calls: dict[str, ExtenderCall] = field(default_factory=dict)
    pre_filtered: PreFilterOutcome = UNRESTRICTED
    rows: Rows | None = None
    raw: dict[str, Ints] = field(default_factory=dict)
    scores: dict[str, Ints] = field(default_factory=dict)
    final: dict[str, Ints] = field(default_factory=dict)
    constant: dict[str, int] = field(default_factory=dict)
    zero: frozenset[str] = frozenset()
    total: Ints | None = None
    tied_rows: Rows | None = None
    choice: str | None = None
    #: True if every node was evaluated.
    visited_all: bool = False
    #: The number of nodes visited, if sampling ended the filter stage early.
    sampled: int | None = None
    durations_s: dict[str, float] = field(default_factory=dict)
    #: Builds the record of the preemption dry run; None if there was none.
    preemption: Callable[[], Preemption] | None = None

    def included_rows(self) -> Rows:
        """Returns the rows that PreFilter did not exclude, in the table's visit order."""
        nodes, included = self.snapshot.nodes, self.pre_filtered.node_names
        order = nodes.order.array()
        if included is None:
            return order
        return np.array([row for row in order if nodes.names[row] in included], dtype=np.intp)

    def _excluded_names(self) -> list[str]:
        """Returns the names of the nodes that PreFilter excluded."""
        nodes, included = self.snapshot.nodes, self.pre_filtered.node_names
        if included is None:
            return []
        names = (nodes.names[row] for row in nodes.order.rows())
        return [name for name in names if name not in included]

    def _excluded_by(self) -> list[str]:
        """Returns the plugins that excluded nodes, sorted.

        They include the one that rejected the nominated node earlier, as upstream.
        """
        rejected_by = {status.plugin for status in self.extra.values() if status.is_rejection}
        return sorted(rejected_by.union(self.pre_filtered.narrowed_by) - {""})

    def diagnosis(self) -> Diagnosis:
        """Returns the diagnosis of an attempt in which no node was feasible."""
        node_names, pre_filter, narrowed_by = self.pre_filtered
        diagnosis = Diagnosis(
            len(self.snapshot.nodes), pre_filter=pre_filter, unschedulable_plugins=set(narrowed_by)
        )
        if pre_filter is not None:
            diagnosis.note_plugin(pre_filter)
            return diagnosis
        if node_names is not None:
            diagnosis.absent = excluded_by_pre_filter(self._excluded_by())
            diagnosis.absent_count = len(self._excluded_names())
        assert self.results is not None
        self.results.describe(diagnosis)
        for row, status in self.extra.items():
            diagnosis.note_plugin(status)
            if self.results.refused_by[row] == NOT_VISITED:
                diagnosis.reasons.update(status.reasons)
                diagnosis.absent_count -= 1
            elif self.results.refused_by[row] == 0 and row not in self.by_extenders:
                # Extenders gave a reason for the nominated node alone, and none among all nodes.
                diagnosis.reasons.update(status.reasons)
        diagnosis.statuses = statuses = _Statuses(self)
        diagnosis.find_rows = statuses.rows_of
        return diagnosis

    def refused_count(self) -> int:
        """Returns the number of rejected nodes, without those that PreFilter excluded."""
        if self.results is None:
            return len(self.extra)
        only_extra = sum(self.results.refused_by[row] in (0, NOT_VISITED) for row in self.extra)
        return self.results.refused_count() + only_extra

    def next_start_index(self, otherwise: int) -> int:
        """Returns the start index of the next attempt: after the nodes that this one visited.

        ``otherwise`` if it visited none. After an error too: otherwise every attempt would fail at
        the same broken node.
        """
        node_count = len(self.snapshot.nodes)
        if self.results is None or not node_count:
            return otherwise
        if self.visited_all and not self.extra:
            return self.start_index % node_count
        return (self.start_index + self.results.count + self.refused_count()) % node_count

    def rejected(self) -> dict[str, Rejection]:
        """Returns the rejection of every rejected node, by node name."""
        names = self.snapshot.nodes.names
        statuses: dict[str, Status] = {}
        for row, status in (self.extra | self.by_extenders).items():
            statuses[names[row]] = status
        if self.results is not None:
            for row in self.results.refused_rows().tolist():
                first = self.results.status(row)
                assert first is not None
                statuses[names[row]] = first
        rejected = {name: rejection(status) for name, status in statuses.items()}
        plugins = self._excluded_by()
        excluded = rejection(excluded_by_pre_filter(plugins).named(",".join(plugins)))
        rejected = dict.fromkeys(self._excluded_names(), excluded) | rejected
        return dict(sorted(rejected.items()))

    def decision(self, outcome: str, *, node: str | None, diagnosis: Diagnosis | None) -> Decision:
        """Returns the Decision; ``outcome`` is "scheduled", "unschedulable" or "error".

        Raises:
            InvariantViolation: if the cluster state has changed, so that the arrays are outdated.
        """
        if not self.snapshot.is_current:
            raise InvariantViolation("a Decision must be built before the cluster state changes")
        pre_filter, has_scores = self.pre_filtered.status, self.total is not None
        final = {plugin: column[self.rows] for plugin, column in self.final.items()}
        if self.total is not None:
            final |= {plugin: np.zeros_like(self.total) for plugin in self.zero}
        constant = {
            plugin: np.full_like(final[plugin], score) for plugin, score in self.constant.items()
        }
        return Decision(
            result=outcome,
            node=node,
            tied=self._tied(node),
            rejected=self.rejected() if pre_filter is None else {},
            unschedulable_plugins=_sorted(diagnosis.unschedulable_plugins if diagnosis else ()),
            pending_plugins=_sorted(diagnosis.pending_plugins if diagnosis else ()),
            choice=self.choice,
            prefilter=None if pre_filter is None else rejection(pre_filter),
            raw=self._by_plugin_and_node(self.raw | final) if has_scores else None,
            scores=self._by_plugin_and_node(self.scores | final | constant) if has_scores else None,
            total=self._by_node(self.total) if self.total is not None else None,
            reason=diagnosis.reason if diagnosis is not None else None,
            message=diagnosis.message if diagnosis is not None else None,
            preemption=self.preemption() if self.preemption is not None else None,
            durations_s=dict(self.durations_s),
            sampled=self.sampled,
            extenders=tuple(self.calls.values()),
        )

    def best_two(self, row: int) -> tuple[int, str, int] | None:
        """Returns the score of the selected row, and the next best node with its score.

        None if only one node was feasible. Scores are weighted sums. Complexity: O(feasible nodes).
        """
        if self.total is None or len(self.total) < 2:
            return None
        at = row if self.rows is None else int(self.rows.searchsorted(row))
        others = self.total.copy()
        others[at] = _LOWEST
        next_best = int(others.argmax())
        next_row = next_best if self.rows is None else self.rows.item(next_best)
        name = self.snapshot.nodes.names[next_row]
        return self.total.item(at), name, self.total.item(next_best)

    def _tied(self, node: str | None) -> tuple[str, ...]:
        if node is None:
            return ()
        if self.tied_rows is None:
            return (node,)
        return tuple(sorted(self.snapshot.nodes.names[row] for row in self.tied_rows.tolist()))

    def _by_plugin_and_node(self, scores: dict[str, Ints]) -> dict[str, dict[str, int]]:
        return {plugin: self._by_node(scores[plugin]) for plugin in sorted(scores)}

    def _by_node(self, values: Ints) -> dict[str, int]:
        assert self.rows is not None
        names = self.snapshot.nodes.names
        pairs = zip(self.rows.tolist(), values.tolist(), strict=True)
        return dict(sorted((names[row], value) for row, value in pairs))


def rejection(status: Status) -> Rejection:
    """Returns a status in the form that a Decision has."""
    return Rejection(status.plugin, status.code.value, tuple(sorted(status.reasons)))


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


class _Statuses(dict[str, Status]):
    """Node name -> status, looked up in the result table on demand."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__()
        self._nodes = attempt.snapshot.nodes
        self._attempt = attempt

    def __missing__(self, name: str) -> Status:
        raise KeyError(name)

    def rows_of(self, code: Code) -> Rows:
        """Returns the rows of the nodes rejected with this code, in visiting order from 0."""
        results, nodes = self._attempt.results, self._nodes
        has_code = np.zeros(nodes.capacity, dtype=np.bool_)
        for row, status in self._attempt.extra.items():
            has_code[row] = status.code is code
        if results is not None:
            results.mask_of_code(code, has_code)
        for row, status in self._attempt.by_extenders.items():
            has_code[row] = status.code is code
        order = nodes.order.array()
        return order[has_code[order]]

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the status of a node that a filter rejected, ``default`` for any other."""
        row = self._nodes.row(name)
        if row < 0:
            return default
        attempt = self._attempt
        status = attempt.results.status(row) if attempt.results is not None else None
        return status or attempt.by_extenders.get(row) or attempt.extra.get(row) or default
