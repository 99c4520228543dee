"""Filters on worlds that differ from what is there: nominated pods, and preemption's dry runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mooring.errors import PluginError
from mooring.framework.cycle_state import Cycle, FilterRunner
from mooring.framework.node_view import NodeView
from mooring.framework.status import FilterStatuses, Status
from mooring.state.columns.change_log import Change
from mooring.state.tables.pods import PodInfo


def filter_one(
    framework: FilterRunner, cycle: Cycle, plugin: Any, view: NodeView
) -> FilterStatuses:
    """Returns one filter on one view, with the state it noted in pre_filter.

    Raises:
        PluginError: if it raises, or answers something that is no verdict on these nodes.
    """
    verdicts = framework.call(plugin, "Filter", plugin.filter, cycle, view)
    if not isinstance(verdicts, FilterStatuses):
        raise PluginError(plugin.name, "Filter", f"returned {verdicts!r}, not FilterStatuses")
    return verdicts.checked(plugin.name, len(view))


#: Row -> the pods nominated there that the pod must not get in the way of.
NominatedPods = Mapping[int, tuple[PodInfo, ...]]

#: What of a node changes with the pods on it.
_OF_PODS = Change.USAGE | Change.PORTS


def nominated_pods_by_row(cycle: Cycle) -> dict[int, tuple[PodInfo, ...]]:
    """Returns the other nominated pods of at least the same priority, by row."""
    nominator, pod = cycle.snapshot.nominator, cycle.pod
    found: dict[int, tuple[PodInfo, ...]] = {}
    for name in nominator.node_names():
        row = cycle.snapshot.nodes.live_row(name)
        nominated_pods = tuple(
            rival
            for rival in nominator.pods_on(name)
            if rival.priority >= pod.priority and rival.uid != pod.uid
        )
        if row >= 0 and nominated_pods:
            found[row] = nominated_pods
    return found


def filters_reading_pods(framework: FilterRunner, cycle: Cycle) -> frozenset[str]:
    """The names of the filters whose answer for a world may depend on which pods are there."""
    return frozenset(
        plugin.name
        for plugin in framework.filters
        if plugin.name not in cycle.skipped
        and (not hasattr(plugin, "reads") or plugin.reads & _OF_PODS)
    )


def filter_hypothetical(
    framework: FilterRunner, cycle: Cycle, view: NodeView, *, only: Collection[str] | None = None
) -> list[tuple[int, FilterStatuses]]:
    """Runs all filters on ``view``, in plugin order, each with a state that follows its pods.

    Each filter sees only the worlds that every filter before it let pass; the verdicts returned
    with its number are for those, in order. ``only`` names the filters to run; None = all.
    """
    results = []
    for number, plugin in enumerate(framework.filters):
        if not len(view):
            break
        if plugin.name in cycle.skipped or (only is not None and plugin.name not in only):
            continue
        verdicts = _filter_with_shifted_state(framework, cycle, plugin, view)
        results.append((number, verdicts))
        passed = verdicts.codes == 0
        if not passed.all():
            view = view.where(passed)
    return results


def filter_with_nominated_pods(
    framework: FilterRunner,
    cycle: Cycle,
    view: NodeView,
    nominated_pods: NominatedPods,
    *,
    only: Collection[str] | None = None,
) -> FilterStatuses:
    """The first refusal in each world, also if it only comes about when its rivals come, too.

    Where there are rivals, filters run with them, and where all let the pod pass, once more without
    them: affinity to a pod that may come is not enough.

    Source: framework/runtime/framework.go (RunFilterPluginsWithNominatedPods).
    """
    if not nominated_pods:
        return _first_refusals(framework, cycle, view, only)
    is_contested = np.zeros(cycle.snapshot.nodes.capacity, dtype=np.bool_)
    is_contested[list(nominated_pods)] = True
    there = view.take(is_contested).nonzero()[0]
    if not len(there):
        return _first_refusals(framework, cycle, view, only)
    part = view.where(there)
    more = part.plus([nominated_pods[row] for row in part.rows.tolist()])
    first = _first_refusals(framework, cycle, more, only)
    codes = np.zeros(len(view), dtype=np.uint16)
    codes[there] = first.codes
    left = np.flatnonzero(codes == 0)
    second = _first_refusals(framework, cycle, view.where(left), only)
    refused = second.codes != 0
    codes[left[refused]] = second.codes[refused] + len(first.table)
    return FilterStatuses(codes, [*first.table, *second.table])


def _first_refusals(
    framework: FilterRunner, cycle: Cycle, view: NodeView, only: Collection[str] | None
) -> FilterStatuses:
    """What the first filter that refuses says of each world, signed with its name."""
    codes = np.zeros(len(view), dtype=np.uint16)
    table: list[Status] = []
    left: npt.NDArray[np.intp] | None = None
    for number, verdicts in filter_hypothetical(framework, cycle, view, only=only):
        refused = verdicts.codes != 0
        if not refused.any():
            continue
        here = np.arange(len(view), dtype=np.intp) if left is None else left
        codes[here[refused]] = verdicts.codes[refused] + len(table)
        name = framework.filters[number].name
        table += [status.named(name) for status in verdicts.table]
        left = here[~refused]
    return FilterStatuses(codes, table)


def _filter_with_shifted_state(
    framework: FilterRunner, cycle: Cycle, plugin: Any, view: NodeView
) -> FilterStatuses:
    """One filter, after its state was told which pods the worlds have more or fewer."""
    if plugin not in cycle or not view.has_deltas:
        return filter_one(framework, cycle, plugin, view)
    if hasattr(plugin, "apply_deltas"):
        state = framework.call(
            plugin, "PreFilterExtension", plugin.apply_deltas, cycle, cycle[plugin], view
        )
        return filter_one(framework, cycle.with_state(plugin.name, state), plugin, view)
    if hasattr(plugin, "add_pod") or hasattr(plugin, "remove_pod"):
        return FilterStatuses.of(
            _filter_one_world(framework, cycle, plugin, view, position)
            for position in range(len(view))
        )
    return filter_one(framework, cycle, plugin, view)


def _filter_one_world(
    framework: FilterRunner, cycle: Cycle, plugin: Any, view: NodeView, position: int
) -> Status | None:
    """Filters one hypothetical node: removes its pods from the state, then adds, one by one."""
    state = cycle[plugin]
    node = view.info(position)
    for pod in view.removed[position]:
        if hasattr(plugin, "remove_pod"):
            state = framework.call(
                plugin, "PreFilterExtension", plugin.remove_pod, cycle, state, pod, node
            )
    for pod in view.added[position]:
        if hasattr(plugin, "add_pod"):
            state = framework.call(
                plugin, "PreFilterExtension", plugin.add_pod, cycle, state, pod, node
            )
    twin = cycle.with_state(plugin.name, state)
    one = view.where(np.array([position], dtype=np.intp))
    verdicts = filter_one(framework, twin, plugin, one)
    code = int(verdicts.codes[0])
    return verdicts.table[code - 1] if code else None
