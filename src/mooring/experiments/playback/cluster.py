"""The cluster of a run at any virtual time.

Nothing is replayed: the state at a time is computed from the times of all pods and the versions of
all nodes, by numpy, and kept until another time is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mooring.experiments.playback.attempts import PlayedAttempt, ResultAttempts
from mooring.experiments.playback.tables import Ints, ResultTables

BOUND: Final = "bound"
ACTIVE: Final = "active"
UNSCHEDULABLE: Final = "unschedulable"
GATED: Final = "gated"
NOT_CREATED: Final = "not created yet"

Bools = NDArray[np.bool_]


class Moment(NamedTuple):
    """The cluster at a time. Arrays have one value for each pod, or for each node.

    Attributes:
        position: The time, in microseconds.
        is_bound: bool, shape (n_pods,): on a node, and not ended.
        is_pending: bool, shape (n_pods,): created, without a node, and not ended.
        is_gated: bool, shape (n_pods,): pending, and held back by scheduling gates.
        last_attempt: int64, shape (n_pods,): index of the last failed attempt; -1 = none.
        version: int64, shape (n_nodes,): index of the version; -1 = there is no such node now.
        pods: int64, shape (n_nodes,): pods on each node.
        requested: int64, shape (n_resources, n_nodes).
    """

    position: int
    is_bound: Bools
    is_pending: Bools
    is_gated: Bools
    last_attempt: Ints
    version: Ints
    pods: Ints
    requested: Ints


class ResultCluster:
    """The cluster at a position.

    Args:
        tables: The results.
        attempts: The attempts.
    """

    def __init__(self, tables: ResultTables, attempts: ResultAttempts) -> None:
        self.tables = tables
        self.attempts = attempts
        self._moment: Moment | None = None

    def at(self, position: int) -> Moment:
        """Returns the cluster at a time. Complexity: O(pods + changes), without loops in Python."""
        if self._moment is None or self._moment.position != position:
            self._moment = self._compute(position)
        return self._moment

    def _compute(self, position: int) -> Moment:
        pods, nodes, attempts = self.tables.pods, self.tables.nodes, self.attempts
        lives = (pods.submitted_us <= position) & (position < pods.finished_us)
        is_bound = lives & (pods.bound_us <= position)
        is_pending = lives & ~is_bound
        gates = _latest(attempts.gates_us, attempts.gated_pods, len(pods.names), position)
        is_gated = is_pending & (gates >= 0)
        is_gated[is_gated] = attempts.has_gates[gates[is_gated]]
        version = _latest(nodes.times_us, nodes.rows, len(nodes.names), position)
        is_gone = np.array([own is None for own in nodes.versions], bool)
        version[version >= 0] = np.where(is_gone[version[version >= 0]], -1, version[version >= 0])
        placed = np.flatnonzero(is_bound & (pods.nodes >= 0))
        rows, count = pods.nodes[placed], len(nodes.names)
        requested = np.zeros((len(pods.requests), count), np.int64)
        for number, amounts in enumerate(pods.requests):
            np.add.at(requested[number], rows, amounts[placed])
        return Moment(
            position,
            is_bound,
            is_pending,
            is_gated,
            _latest(attempts.failures_us, attempts.failed_pods, len(pods.names), position),
            version,
            np.bincount(rows, minlength=count).astype(np.int64),
            requested,
        )

    def state_of(self, row: int, position: int) -> str:
        """Returns the state of a pod."""
        moment, pods = self.at(position), self.tables.pods
        if moment.is_bound[row]:
            return BOUND
        if moment.is_gated[row]:
            return GATED
        if moment.is_pending[row]:
            return UNSCHEDULABLE if moment.last_attempt[row] >= 0 else ACTIVE
        if pods.submitted_us[row] > position:
            return NOT_CREATED
        return pods.final_states[row].lower()

    def _masks(self, position: int) -> dict[str, Bools]:
        """Returns which pods are in each state; ended ones are in none."""
        moment = self.at(position)
        waits = moment.is_pending & ~moment.is_gated
        return {
            BOUND: moment.is_bound,
            ACTIVE: waits & (moment.last_attempt < 0),
            UNSCHEDULABLE: waits & (moment.last_attempt >= 0),
            GATED: moment.is_gated,
        }

    # -- pods -------------------------------------------------------------------------------------

    def counts(self, position: int) -> dict[str, int]:
        """Returns the number of pods in each state; ended ones are in none."""
        return {state: int(mask.sum()) for state, mask in self._masks(position).items()}

    def listed(self, position: int, state: str) -> list[int]:
        """Returns the rows of pods in a state, or in any ("") of them, by name."""
        masks = self._masks(position)
        if state and state not in masks:
            return []
        mask = masks[state] if state else np.logical_or.reduce(list(masks.values()))
        order = self.tables.pods.by_name
        rows: list[int] = order[mask[order]].tolist()
        return rows

    def waiting(self, position: int, state: str) -> list[int]:
        """Returns the rows of pods in a state by priority, then by age."""
        pods = self.tables.pods
        rows = np.flatnonzero(self._masks(position)[state])
        order = np.lexsort((pods.submitted_us[rows], -pods.priorities[rows]))
        ordered: list[int] = rows[order].tolist()
        return ordered

    def nominated(self, position: int) -> list[int]:
        """Returns the rows of pending pods whose last attempt evicts others, as ``waiting``."""
        rows, last = self.waiting(position, UNSCHEDULABLE), self.at(position).last_attempt
        nominates = self.attempts.nominates[last[rows]]
        return [row for row, has_node in zip(rows, nominates.tolist(), strict=True) if has_node]

    def nominated_count(self, position: int) -> int:
        """Returns the number of pending pods whose last attempt evicts others."""
        last = self.at(position).last_attempt[self._masks(position)[UNSCHEDULABLE]]
        return int(self.attempts.nominates[last].sum())

    def reasons(self, position: int) -> list[tuple[int, list[int]]]:
        """Returns the reasons of unschedulable pods with their rows, the most frequent first."""
        rows = np.flatnonzero(self._masks(position)[UNSCHEDULABLE])
        reasons = self.attempts.reason_of[self.at(position).last_attempt[rows]]
        order = np.argsort(reasons, kind="stable")
        every, first = np.unique(reasons[order], return_index=True)
        groups = [part.tolist() for part in np.split(rows[order], first[1:])]
        pairs = list(zip(every.tolist(), groups, strict=False))  # no pods: one empty group
        return sorted(pairs, key=lambda pair: -len(pair[1]))

    def last_failure(self, position: int, row: int) -> PlayedAttempt | None:
        """Returns the last failed attempt at a pod."""
        index = int(self.at(position).last_attempt[row])
        return self.attempts.failures[index] if index >= 0 else None

    def pods_on(self, position: int, node_row: int) -> list[int]:
        """Returns the rows of the pods on a node."""
        own = self.at(position).is_bound & (self.tables.pods.nodes == node_row)
        rows: list[int] = np.flatnonzero(own).tolist()
        return rows

    # -- nodes ------------------------------------------------------------------------------------

    def node_rows(self, position: int) -> list[int]:
        """Returns the rows of the nodes that are there."""
        rows: list[int] = np.flatnonzero(self.at(position).version >= 0).tolist()
        return rows

    def versions(self, position: int, rows: Sequence[int]) -> list[int]:
        """Returns the indexes of the versions of nodes; -1 = there is no such node now."""
        indexes: list[int] = self.at(position).version[list(rows)].tolist()
        return indexes

    def usage(self, position: int, rows: Sequence[int]) -> tuple[list[int], list[list[int]]]:
        """Returns the number of pods on nodes, and what they request per resource."""
        moment, own = self.at(position), list(rows)
        return moment.pods[own].tolist(), moment.requested[:, own].tolist()

    def changed(self, since: int, position: int) -> tuple[list[int], list[int]]:
        """Returns the rows of nodes that differ since an earlier time, and those of other usage."""
        pods, nodes = self.tables.pods, self.tables.nodes
        first, last = np.searchsorted(nodes.times_us, [since, position], side="right")
        rows = np.unique(nodes.rows[first:last])
        moved = _is_within(pods.bound_us, since, position)
        moved |= _is_within(pods.finished_us, since, position)
        used = np.unique(pods.nodes[moved & (pods.nodes >= 0)])
        return rows.tolist(), np.setdiff1d(used, rows).tolist()


def _latest(times_us: Ints, rows: Ints, count: int, position: int) -> Ints:
    """Returns for each row the index of its last entry up to a time; -1 = none."""
    latest = np.full(count, -1, np.int64)
    until = int(np.searchsorted(times_us, position, side="right"))
    # Of an index that comes several times, numpy stores the last value.
    latest[rows[:until]] = np.arange(until)
    return latest


def _is_within(times_us: Ints, since: int, position: int) -> Bools:
    result: Bools = (since < times_us) & (times_us <= position)
    return result
