"""Which pods would have to leave a node so that a pod can come: tried on many nodes at once.

On each node all pods of a lower priority leave; if the pod fits then, they are put back one after
another, those first that a budget protects, then the others, the most important ones first. Who
cannot come back is a victim. Step k of this is one view for all nodes: each with its k-th pod back.

Source: framework/plugins/defaultpreemption/default_preemption.go (SelectVictimsOnNode,
filterPodsWithPDBViolation), framework/preemption/preemption.go (DryRunPreemption).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
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

Rows = npt.NDArray[np.intp]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NO_VICTIMS: Final = Reject("No preemption victims found for incoming pod", resolvable=False)

#: Added to each priority, so that a victim more is never better than one less.
LOWEST_PRIORITY: Final = 2**31


class DryRunCandidate(NamedTuple):
    """A node that the pod fits on once its victims are gone.

    Attributes:
        row: Of the node.
        rank: How bad it is, smallest is best: budgets violated, highest priority of a victim, sum
            of priorities, number of victims, and when those of the highest priority first started
            (later is better).
        lineup: Knows the victims.
        world: Its line there.
    """

    row: int
    rank: tuple[int, int, int, int, int]
    lineup: VictimMatrix
    world: int

    @property
    def violations(self) -> int:
        """How many victims a budget protects."""
        return self.rank[0]

    def victims(self) -> tuple[PodInfo, ...]:
        """Returns the pods that have to leave, the most important one first."""
        gone = self.lineup.removed_pods(self.world)
        return tuple(sorted(gone, key=lambda pod: (-pod.priority, pod.start_s)))


@dataclass(slots=True)
class DryRunResult:
    """What came of trying some nodes.

    Attributes:
        candidates: In the order of the nodes.
        count: How many nodes were tried.
        reasons: Why others are no candidates: reason -> number of nodes.
        errors: What went wrong, in order.
    """

    candidates: list[DryRunCandidate] = field(default_factory=list)
    count: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    def note(self, status: Status, count: int) -> None:
        """So many nodes are no candidates for this."""
        self.reasons.update(dict.fromkeys(status.reasons, count))
        if status.code is Code.ERROR:
            plugin = f'running "{status.plugin}" filter plugin: ' if status.plugin else ""
            self.errors += [f"{plugin}{status.message}"] * count


def search(cycle: Cycle, rows: Rows, wanted: int) -> DryRunResult:
    """Tries nodes in this order until ``wanted`` candidates are found, one without a violation.

    More nodes may be tried than that takes; what came of them is left out. Complexity: a view per
    victim of the fullest node, over ``wanted`` nodes the first time, then twice as many ...
    """
    tried, size, sound = DryRunResult(), wanted, None
    counts = LabelClassCounts(cycle.snapshot)
    while tried.count < len(rows):
        seen = len(tried.candidates)
        _try(cycle, rows[tried.count : tried.count + size], tried, counts)
        tried.count += size
        size *= 2
        if sound is None:
            new = enumerate(tried.candidates[seen:], start=seen)
            sound = next((at for at, each in new if not each.violations), None)
        if sound is not None and len(tried.candidates) >= wanted:
            del tried.candidates[max(wanted, sound + 1) :]
            break
    tried.count = min(tried.count, len(rows))
    tried.candidates = _without_surplus(tried.candidates, wanted)
    return tried


def _without_surplus(candidates: list[DryRunCandidate], wanted: int) -> list[DryRunCandidate]:
    """Of those with violations only so many are kept as are wanted in all."""
    if len(candidates) <= wanted:
        return candidates
    kept, n_violating = [], 0
    for candidate in candidates:
        n_violating += candidate.violations > 0
        if not candidate.violations or n_violating <= wanted:
            kept.append(candidate)
    return kept


def _try(cycle: Cycle, rows: Rows, tried: DryRunResult, counts: LabelClassCounts) -> None:
    """Finds the victims on each of these nodes."""
    lineup, is_protected = _sort_victims(cycle, rows, counts)
    there = np.flatnonzero(lineup.is_pod.any(axis=1))
    if len(there) < len(rows):
        tried.note(NO_VICTIMS, len(rows) - len(there))
    if not len(there):
        return
    nominated_pods = nominated_pods_by_row(cycle)
    verdicts = _refused(cycle, rows, lineup, there, nominated_pods, None)
    for number, count in enumerate(np.bincount(verdicts.codes).tolist()):
        if number and count:
            tried.note(verdicts.table[number - 1], count)
    worlds = there[verdicts.codes == 0]
    _reprieve(cycle, rows, lineup, worlds, nominated_pods)
    victims = lineup.removed[worlds].sum(axis=1)
    for row in rows[worlds[victims == 0]].tolist():
        name = cycle.snapshot.nodes.names[row]
        tried.note(NodeError(f'expected at least one victim pod on node "{name}"'), 1)
    worlds = worlds[victims > 0]
    ranks = _ranks(cycle.snapshot, lineup, is_protected, worlds)
    tried.candidates += [
        DryRunCandidate(row, rank, lineup, world)
        for row, rank, world in zip(rows[worlds].tolist(), ranks, worlds.tolist(), strict=True)
    ]


def _reprieve(
    cycle: Cycle, rows: Rows, lineup: VictimMatrix, worlds: Rows, nominated_pods: NominatedPods
) -> None:
    """Puts back whoever can stay, in order."""
    assert cycle.framework is not None
    only = filters_reading_pods(cycle.framework, cycle)
    for rank in range(lineup.slots.shape[1]):
        here = worlds[lineup.is_pod[worlds, rank]]
        if not len(here):
            return
        lineup.reprieve(here, rank)
        verdicts = _refused(cycle, rows, lineup, here, nominated_pods, only)
        lineup.remove_victim(here[verdicts.codes != 0], rank)


def _refused(
    cycle: Cycle,
    rows: Rows,
    lineup: VictimMatrix,
    worlds: Rows,
    nominated_pods: NominatedPods,
    only: Collection[str] | None,
) -> FilterStatuses:
    """Returns whether the pod fits in these worlds as they are now; a filter that fails refuses."""
    framework, snapshot = cycle.framework, cycle.snapshot
    assert framework is not None

    def refused(some: Rows) -> FilterStatuses:
        view = NodeView(snapshot, rows[some], removed=RemovedPods(lineup, some))
        return filter_with_nominated_pods(framework, cycle, view, nominated_pods, only=only)

    def refused_alone(world: int) -> Status | None:
        try:
            verdicts = refused(np.array([world], dtype=np.intp))
        except PluginError as error:
            return NodeError(error.problem).named(error.plugin)
        code = int(verdicts.codes[0])
        return verdicts.table[code - 1] if code else None

    try:
        return refused(worlds)
    except PluginError:
        # One node's failure is no other node's.
        return FilterStatuses.of(map(refused_alone, worlds.tolist()))


# ---------------------------------------------------------------- the order of the victims


def _sort_victims(cycle: Cycle, rows: Rows, counts: LabelClassCounts) -> tuple[VictimMatrix, Bools]:
    """The pods that may leave, in the order in which they are put back; and who is protected."""
    snapshot = cycle.snapshot
    pods = snapshot.pods
    slots, sizes = pods.slots_on(rows)
    world = np.repeat(np.arange(len(rows)), sizes)
    lower = pods.priority[slots] < cycle.pod.priority
    slots, world = slots[lower], world[lower]
    order = np.lexsort((pods.start_s[slots], -pods.priority[slots].astype(np.int64), world))
    slots, world = slots[order], world[order]
    protected = _protected(snapshot, slots, world)
    if protected.any():
        order = np.lexsort((~protected, world))
        slots, world, protected = slots[order], world[order], protected[order]
    sizes = np.bincount(world, minlength=len(rows))
    place = np.arange(len(slots)) - (np.cumsum(sizes) - sizes)[world]
    shape = len(rows), int(sizes.max(initial=0))
    matrix, marks = np.full(shape, -1, dtype=np.intp), np.zeros(shape, dtype=np.bool_)
    matrix[world, place], marks[world, place] = slots, protected
    return VictimMatrix(snapshot, matrix, counts), marks


def _protected(snapshot: Snapshot, slots: Rows, world: Rows) -> Bools:
    """Whose leaving violates a budget, if all before it on its node leave as well."""
    protected = np.zeros(len(slots), dtype=np.bool_)
    if not len(snapshot.budgets) or not len(slots):
        return protected
    kinds, kind_of = _numbered(snapshot.counters.kinds_at(slots))
    found = [snapshot.counters.kind(index) for index in kinds.tolist()]
    budgets = [snapshot.budgets.of(kind.namespace, kind.labels) for kind in found]
    known = {budget.name: budget for of_kind in budgets for budget in of_kind}
    if not known:
        return protected
    numbers = {name: number for number, name in enumerate(known)}
    victim, at = _pairs(np.array([len(each) for each in budgets], dtype=np.intp), kind_of)
    budget = np.array([numbers[each.name] for of_kind in budgets for each in of_kind])[at]
    counted = np.ones(len(victim), dtype=np.bool_)
    for number, each in enumerate(known.values()):
        for pair in np.flatnonzero(budget == number).tolist() if each.disrupted_pods else ():
            name = snapshot.pods.at(int(slots[victim[pair]])).metadata.name
            counted[pair] = name not in each.disrupted_pods
    budget, victim = budget[counted], victim[counted]
    allowed = np.array([each.disruptions_allowed for each in known.values()], dtype=np.int64)
    order = np.lexsort((budget, world[victim]))
    budget, victim = budget[order], victim[order]
    earlier = _earlier_of_group(world[victim] * len(known) + budget)
    protected[victim[earlier >= allowed[budget]]] = True
    return protected


def _numbered(ids: npt.NDArray[np.int32]) -> tuple[Rows, Rows]:
    """Returns the different ids, rising, and for each id its place among them."""
    is_there = np.zeros(int(ids.max()) + 1, dtype=np.bool_)
    is_there[ids] = True
    return np.flatnonzero(is_there), (np.cumsum(is_there) - 1)[ids]


def _pairs(sizes: Rows, kind_of: Rows) -> tuple[Rows, Rows]:
    """Each pod with each of the budgets of its kind: numbers of the pods, places of the budgets.

    The budgets of all kinds stand in one list, ``sizes[k]`` of them for kind k.
    """
    counts = sizes[kind_of]
    pod = np.repeat(np.arange(len(kind_of)), counts)
    first = (np.cumsum(sizes) - sizes)[kind_of]
    place = np.arange(len(pod)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    return pod, place


def _earlier_of_group(groups: npt.NDArray[np.intp]) -> Rows:
    """For each entry, how many entries of its group come before it; groups stand together."""
    positions = np.arange(len(groups))
    is_first = np.ones(len(groups), dtype=np.bool_)
    is_first[1:] = groups[1:] != groups[:-1]
    return positions - np.maximum.accumulate(np.where(is_first, positions, 0))


# ---------------------------------------------------------------- the choice


def _ranks(
    snapshot: Snapshot, lineup: VictimMatrix, is_protected: Bools, worlds: Rows
) -> list[tuple[int, int, int, int, int]]:
    """How bad each candidate is; see ``DryRunCandidate.rank``."""
    gone, slots = lineup.removed[worlds], lineup.slots[worlds]
    priority = snapshot.pods.priority[slots].astype(np.int64)
    highest = np.where(gone, priority, -LOWEST_PRIORITY).max(axis=1, initial=-LOWEST_PRIORITY)
    is_highest = gone & (priority == highest[:, None])
    start_s = snapshot.pods.start_s[slots]
    latest_s = np.iinfo(np.int64).max
    first_s = np.where(is_highest, start_s, latest_s).min(axis=1, initial=latest_s)
    columns = (
        (gone & is_protected[worlds]).sum(axis=1),
        highest,
        ((priority + LOWEST_PRIORITY) * gone).sum(axis=1),
        gone.sum(axis=1),
        -first_s,
    )
    return list(zip(*(column.tolist() for column in columns), strict=True))
