"""The dry run of preemption: selects the victims on many nodes at once.

On each node all pods of a lower priority are removed; if the pod fits then, they are reprieved one
by one: first those whose eviction violates a PodDisruptionBudget, then the others, the most
important ones first. Pods that cannot be reprieved are the victims. Step k is one view of all
nodes, each with its k-th pod added back.

Source: framework/plugins/defaultpreemption/default_preemption.go (SelectVictimsOnNode,
filterPodsWithPDBViolation), framework/preemption/preemption.go (DryRunPreemption).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.errors import PluginError
from mooring.framework import Code, Cycle, FilterStatuses, NodeError, NodeView, Reject, Status
from mooring.framework.pod_deltas import LabelClassCounts, RemovedPods, VictimMatrix
from mooring.framework.runtime.nominated import (
    NominatedPods,
    filter_with_nominated_pods,
    filters_reading_pods,
    nominated_pods_by_row,
)
from mooring.state import PodInfo, Snapshot
from mooring.state.columns.distinct import number_distinct
from mooring.state.types import Bools, Rows

NO_VICTIMS: Final = Reject("No preemption victims found for incoming pod", resolvable=False)

#: Added to each priority, so that an additional victim never lowers the sum.
LOWEST_PRIORITY: Final = 2**31


class DryRunCandidate(NamedTuple):
    """A node on which the pod fits after its victims are evicted.

    Attributes:
        row: The node's row.
        rank: Sort key, lower is preferred: PDB violations, highest priority of a victim, sum of
            priorities, number of victims, and the earliest start time of those with the highest
            priority (later is better).
        matrix: The victims.
        line: The node's line in the matrix.
    """

    row: int
    rank: tuple[int, int, int, int, int]
    matrix: VictimMatrix
    line: int

    @property
    def violations(self) -> int:
        """The number of victims whose eviction violates a PodDisruptionBudget."""
        return self.rank[0]

    def victims(self) -> tuple[PodInfo, ...]:
        """Returns the pods to evict, the most important one first."""
        pods = self.matrix.removed_pods(self.line)
        return tuple(sorted(pods, key=lambda pod: (-pod.priority, pod.start_s)))


@dataclass(slots=True)
class DryRunResult:
    """The result of the dry run.

    Attributes:
        candidates: The candidates, in the order of the nodes.
        count: The number of nodes evaluated.
        reasons: Reason why nodes are no candidates -> number of nodes.
        errors: Errors of filters, in order, each once for the nodes that share it.
    """

    candidates: list[DryRunCandidate] = field(default_factory=list)
    count: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    def add_status(self, status: Status, count: int) -> None:
        """Counts ``count`` nodes that are no candidates, with their status."""
        self.reasons.update(dict.fromkeys(status.reasons, count))
        if status.code is Code.ERROR:
            plugin = f'running "{status.plugin}" filter plugin: ' if status.plugin else ""
            self.errors.append(f"{plugin}{status.message}")


def dry_run_preemption(cycle: Cycle, rows: Rows, limit: int) -> DryRunResult:
    """Evaluates nodes in this order up to ``limit`` candidates, one of them without a violation.

    More nodes may be evaluated than needed; their candidates are dropped. Complexity: a view per
    victim of the fullest node, over ``limit`` nodes the first time, then twice as many ...
    """
    result, size, first_sound = DryRunResult(), limit, None
    if len(rows) and not cycle.snapshot.pods.has_lower_priority(cycle.pod.priority):
        # The usual case: the victims of each node need not be looked for.
        result.count = len(rows)
        result.add_status(NO_VICTIMS, result.count)
        return result
    counts = LabelClassCounts(cycle.snapshot)
    while result.count < len(rows):
        start = len(result.candidates)
        _evaluate(cycle, rows[result.count : result.count + size], result, counts)
        result.count += size
        size *= 2
        if first_sound is None:
            new = enumerate(result.candidates[start:], start=start)
            first_sound = next((i for i, candidate in new if not candidate.violations), None)
        if first_sound is not None and len(result.candidates) >= limit:
            del result.candidates[max(limit, first_sound + 1) :]
            break
    result.count = min(result.count, len(rows))
    result.candidates = _limit_violating(result.candidates, limit)
    return result


def _limit_violating(candidates: list[DryRunCandidate], limit: int) -> list[DryRunCandidate]:
    """Drops candidates with violations beyond the first ``limit`` of them."""
    if len(candidates) <= limit:
        return candidates
    remaining, n_violating = [], 0
    for candidate in candidates:
        n_violating += candidate.violations > 0
        if not candidate.violations or n_violating <= limit:
            remaining.append(candidate)
    return remaining


def _evaluate(cycle: Cycle, rows: Rows, result: DryRunResult, counts: LabelClassCounts) -> None:
    """Selects the victims on each of these nodes, and adds the candidates to ``result``."""
    matrix, is_protected = _sort_victims(cycle, rows, counts)
    lines_with_pods = np.flatnonzero(matrix.is_pod.any(axis=1))
    if len(lines_with_pods) < len(rows):
        result.add_status(NO_VICTIMS, len(rows) - len(lines_with_pods))
    if not len(lines_with_pods):
        return
    nominated_pods = nominated_pods_by_row(cycle)
    statuses = _filter(cycle, rows, matrix, lines_with_pods, nominated_pods, None)
    for number, count in enumerate(np.bincount(statuses.codes).tolist()):
        if number and count:
            result.add_status(statuses.table[number - 1], count)
    lines = lines_with_pods[statuses.codes == 0]
    _reprieve(cycle, rows, matrix, lines, nominated_pods)
    victims = matrix.removed[lines].sum(axis=1)
    for row in rows[lines[victims == 0]].tolist():
        name = cycle.snapshot.nodes.names[row]
        result.add_status(NodeError(f'expected at least one victim pod on node "{name}"'), 1)
    lines = lines[victims > 0]
    ranks = _ranks(cycle.snapshot, matrix, is_protected, lines)
    result.candidates += [
        DryRunCandidate(row, rank, matrix, line)
        for row, rank, line in zip(rows[lines].tolist(), ranks, lines.tolist(), strict=True)
    ]


def _reprieve(
    cycle: Cycle, rows: Rows, matrix: VictimMatrix, lines: Rows, nominated_pods: NominatedPods
) -> None:
    """Reprieves the pods that need not be evicted, in order."""
    assert cycle.framework is not None
    only = filters_reading_pods(cycle.framework, cycle)
    for rank in range(matrix.slots.shape[1]):
        lines_of_rank = lines[matrix.is_pod[lines, rank]]
        if not len(lines_of_rank):
            return
        matrix.reprieve(lines_of_rank, rank)
        statuses = _filter(cycle, rows, matrix, lines_of_rank, nominated_pods, only)
        matrix.remove_victim(lines_of_rank[statuses.codes != 0], rank)


def _filter(
    cycle: Cycle,
    rows: Rows,
    matrix: VictimMatrix,
    lines: Rows,
    nominated_pods: NominatedPods,
    only: Collection[str] | None,
) -> FilterStatuses:
    """Filters these lines as they are now; an error of a filter rejects its node only."""
    framework, snapshot = cycle.framework, cycle.snapshot
    assert framework is not None

    def filter_lines(some: Rows) -> FilterStatuses:
        view = NodeView(snapshot, rows[some], removed=RemovedPods(matrix, some))
        return filter_with_nominated_pods(framework, cycle, view, nominated_pods, only=only)

    def filter_line(line: int) -> Status | None:
        try:
            statuses = filter_lines(np.array([line], dtype=np.intp))
        except PluginError as error:
            node_name = snapshot.nodes.names[rows[line]]
            framework.log_error(error, pod=cycle.pod.key, node=node_name)
            return NodeError(error.problem).named(error.plugin)
        code = int(statuses.codes[0])
        return statuses.table[code - 1] if code else None

    with suppress(PluginError):
        return filter_lines(lines)
    # An error on one node must not affect the others: filter them one by one.
    return FilterStatuses.of(map(filter_line, lines.tolist()))


# ---------------------------------------------------------------- the order of the victims


def _sort_victims(cycle: Cycle, rows: Rows, counts: LabelClassCounts) -> tuple[VictimMatrix, Bools]:
    """Returns the possible victims in the order of reprieve, and a mask of PDB violations."""
    snapshot = cycle.snapshot
    pods = snapshot.pods
    slots, sizes = pods.slots_on(rows)
    line = np.repeat(np.arange(len(rows)), sizes)
    is_lower = pods.priority[slots] < cycle.pod.priority
    slots, line = slots[is_lower], line[is_lower]
    order = np.lexsort((pods.start_s[slots], -pods.priority[slots].astype(np.int64), line))
    slots, line = slots[order], line[order]
    is_protected = _violates_budget(snapshot, slots, line)
    if is_protected.any():
        order = np.lexsort((~is_protected, line))
        slots, line, is_protected = slots[order], line[order], is_protected[order]
    sizes = np.bincount(line, minlength=len(rows))
    rank = np.arange(len(slots)) - (np.cumsum(sizes) - sizes)[line]
    shape = len(rows), int(sizes.max(initial=0))
    slots_by_line, is_protected_by_line = (
        np.full(shape, -1, dtype=np.intp),
        np.zeros(shape, dtype=np.bool_),
    )
    slots_by_line[line, rank], is_protected_by_line[line, rank] = slots, is_protected
    return VictimMatrix(snapshot, slots_by_line, counts), is_protected_by_line


def _violates_budget(snapshot: Snapshot, slots: Rows, line: Rows) -> Bools:
    """Returns the pods whose eviction violates a budget, if all before them are evicted too."""
    is_protected = np.zeros(len(slots), dtype=np.bool_)
    if not len(snapshot.budgets) or not len(slots):
        return is_protected
    class_ids, class_of = number_distinct(snapshot.counters.label_class_ids(slots))
    classes = [snapshot.counters.label_class(index) for index in class_ids.tolist()]
    budgets = [snapshot.budgets.of(item.namespace, item.labels) for item in classes]
    by_name = {item.name: item for of_class in budgets for item in of_class}
    if not by_name:
        return is_protected
    numbers = {name: number for number, name in enumerate(by_name)}
    victim, position = _pairs(
        np.array([len(of_class) for of_class in budgets], dtype=np.intp), class_of
    )
    budget = np.array([numbers[item.name] for of_class in budgets for item in of_class])[position]
    is_counted = np.ones(len(victim), dtype=np.bool_)
    for number, item in enumerate(by_name.values()):
        for pair in np.flatnonzero(budget == number).tolist() if item.disrupted_pods else ():
            name = snapshot.pods.at(int(slots[victim[pair]])).metadata.name
            is_counted[pair] = name not in item.disrupted_pods
    budget, victim = budget[is_counted], victim[is_counted]
    allowed = np.array([item.disruptions_allowed for item in by_name.values()], dtype=np.int64)
    order = np.lexsort((budget, line[victim]))
    budget, victim = budget[order], victim[order]
    earlier = _earlier_of_group(line[victim] * len(by_name) + budget)
    is_protected[victim[earlier >= allowed[budget]]] = True
    return is_protected


def _pairs(sizes: Rows, class_of: Rows) -> tuple[Rows, Rows]:
    """Pairs each pod with each budget of its label class: pod indexes, budget positions.

    The budgets of all classes are in one list, ``sizes[k]`` of them for class k.
    """
    counts = sizes[class_of]
    pod = np.repeat(np.arange(len(class_of)), counts)
    first = (np.cumsum(sizes) - sizes)[class_of]
    position = np.arange(len(pod)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    return pod, position


def _earlier_of_group(groups: npt.NDArray[np.intp]) -> Rows:
    """Returns how many entries of its group come before each entry; groups are contiguous."""
    positions = np.arange(len(groups))
    is_first = np.ones(len(groups), dtype=np.bool_)
    is_first[1:] = groups[1:] != groups[:-1]
    return positions - np.maximum.accumulate(np.where(is_first, positions, 0))


# ---------------------------------------------------------------- ranking


def _ranks(
    snapshot: Snapshot, matrix: VictimMatrix, is_protected: Bools, lines: Rows
) -> list[tuple[int, int, int, int, int]]:
    """Returns the sort key of each candidate; see ``DryRunCandidate.rank``."""
    removed, slots = matrix.removed[lines], matrix.slots[lines]
    priority = snapshot.pods.priority[slots].astype(np.int64)
    highest = np.where(removed, priority, -LOWEST_PRIORITY).max(axis=1, initial=-LOWEST_PRIORITY)
    is_highest = removed & (priority == highest[:, None])
    start_s = snapshot.pods.start_s[slots]
    latest_s = np.iinfo(np.int64).max
    first_s = np.where(is_highest, start_s, latest_s).min(axis=1, initial=latest_s)
    columns = (
        (removed & is_protected[lines]).sum(axis=1),
        highest,
        ((priority + LOWEST_PRIORITY) * removed).sum(axis=1),
        removed.sum(axis=1),
        -first_s,
    )
    return list(zip(*(column.tolist() for column in columns), strict=True))
