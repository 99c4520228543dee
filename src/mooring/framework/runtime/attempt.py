"""What one attempt left behind, as arrays, and the Decision that it becomes if somebody asks.

Building a Decision costs milliseconds at thousands of nodes, so it is done on demand only, and
before the state moves on: the arrays belong to the attempt's snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mooring.decision import Decision, ExtenderCall, Preemption, Rejection
from mooring.errors import InvariantViolation
from mooring.framework.diagnosis import Diagnosis
from mooring.framework.runtime.filter_results import NOT_VISITED, FilterResults
from mooring.framework.status import Status
from mooring.state.snapshot import Snapshot

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Placement:
    """The node chosen for a pod; ``feasible_count`` of ``evaluated_count`` nodes were feasible."""

    node_name: str
    row: int
    feasible_count: int
    evaluated_count: int


@dataclass(slots=True)
class Attempt:
    """The arrays of one attempt, filled in as it goes.

    ``rows`` are the feasible rows that were scored, intp shape (f,); ``raw`` and ``scores`` hold
    per plugin name int64 shape (f,), ``total`` the same shape. ``final`` holds the raw scores of
    plugins that need no normalizing, by row, shape (capacity,); these are their scores too, but for
    those that have the same ``constant`` everywhere.
    """

    snapshot: Snapshot
    start_index: int = 0
    results: FilterResults | None = None
    #: Row -> status of nodes that were refused outside the walk (the nominated node, tried first).
    extra: dict[int, Status] = field(default_factory=dict)
    #: Row -> status of nodes that every filter let pass and an extender did not.
    by_extenders: dict[int, Status] = field(default_factory=dict)
    #: Name of an extender -> what it answered.
    calls: dict[str, ExtenderCall] = field(default_factory=dict)
    #: The rows that PreFilter left out, and the status they all have.
    absent_rows: Rows | None = None
    absent: Status | None = None
    #: The names joined by "," of the plugins that left nodes out.
    absent_plugins: str = ""
    pre_filter: Status | None = None
    rows: Rows | None = None
    raw: dict[str, Ints] = field(default_factory=dict)
    scores: dict[str, Ints] = field(default_factory=dict)
    final: dict[str, Ints] = field(default_factory=dict)
    constant: dict[str, int] = field(default_factory=dict)
    total: Ints | None = None
    tied_rows: Rows | None = None
    choice: str | None = None
    #: Whether every node was looked at.
    saw_all: bool = False
    #: How many nodes were looked at, if sampling ended the walk early.
    sampled: int | None = None
    durations_s: dict[str, float] = field(default_factory=dict)
    #: Makes the record of what was tried to make room; None if nothing was.
    preemption: Callable[[], Preemption] | None = None

    def refused_count(self) -> int:
        """How many nodes have a status of their own: not those that PreFilter left out."""
        if self.results is None:
            return len(self.extra)
        outside = sum(self.results.refused_by[row] in (0, NOT_VISITED) for row in self.extra)
        return self.results.refused_count() + outside

    def next_start_index(self, otherwise: int) -> int:
        """Where the next walk begins: past the nodes that this one looked at.

        ``otherwise`` if none were. So it goes after an error too: else one broken node would be met
        first for ever.
        """
        node_count = len(self.snapshot.nodes)
        if self.results is None or not node_count:
            return otherwise
        if self.saw_all and not self.extra:
            return self.start_index % node_count
        return (self.start_index + self.results.count + self.refused_count()) % node_count

    def rejected(self) -> dict[str, Rejection]:
        """Node name -> why it was ruled out, for every node that was."""
        names = self.snapshot.nodes.names
        found: dict[str, Status] = {}
        for row, status in (self.extra | self.by_extenders).items():
            found[names[row]] = status
        if self.results is not None:
            for row in self.results.refused_rows().tolist():
                first = self.results.status(row)
                assert first is not None
                found[names[row]] = first
        rejected = {name: rejection(status) for name, status in found.items()}
        if self.absent is not None and self.absent_rows is not None:
            left_out = rejection(self.absent.named(self.absent_plugins))
            for row in self.absent_rows.tolist():
                rejected.setdefault(names[row], left_out)
        return dict(sorted(rejected.items()))

    def decision(self, outcome: str, *, node: str | None, diagnosis: Diagnosis | None) -> Decision:
        """The record of this attempt; ``outcome`` is "scheduled", "unschedulable" or "error".

        Raises:
            InvariantViolation: if the cluster has changed since, so the arrays mean nothing now.
        """
        if not self.snapshot.is_current:
            raise InvariantViolation("a decision was asked for after the state had moved on")
        scored = self.total is not None
        final = {plugin: column[self.rows] for plugin, column in self.final.items()}
        same = {plugin: np.full_like(final[plugin], each) for plugin, each in self.constant.items()}
        return Decision(
            result=outcome,
            node=node,
            tied=self._tied(node),
            rejected={} if self.pre_filter is not None else self.rejected(),
            unschedulable_plugins=_sorted(diagnosis.unschedulable_plugins if diagnosis else ()),
            pending_plugins=_sorted(diagnosis.pending_plugins if diagnosis else ()),
            choice=self.choice,
            prefilter=None if self.pre_filter is None else rejection(self.pre_filter),
            raw=self._by_node(self.raw | final) if scored else None,
            scores=self._by_node(self.scores | final | same) if scored else None,
            total=self._named(self.total) if self.total is not None else None,
            reason=diagnosis.reason if diagnosis is not None else None,
            message=diagnosis.message if diagnosis is not None else None,
            preemption=self.preemption() if self.preemption is not None else None,
            durations_s=dict(self.durations_s),
            sampled=self.sampled,
            extenders=tuple(self.calls.values()),
        )

    def _tied(self, node: str | None) -> tuple[str, ...]:
        if node is None:
            return ()
        if self.tied_rows is None:
            return (node,)
        return tuple(sorted(self.snapshot.nodes.names[row] for row in self.tied_rows.tolist()))

    def _by_node(self, scores: dict[str, Ints]) -> dict[str, dict[str, int]]:
        return {plugin: self._named(scores[plugin]) for plugin in sorted(scores)}

    def _named(self, values: Ints) -> dict[str, int]:
        assert self.rows is not None
        names = self.snapshot.nodes.names
        pairs = zip(self.rows.tolist(), values.tolist(), strict=True)
        return dict(sorted((names[row], value) for row, value in pairs))


def rejection(status: Status) -> Rejection:
    """Returns a status as a Decision writes it."""
    return Rejection(status.plugin, status.code.value, tuple(sorted(status.reasons)))


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))
