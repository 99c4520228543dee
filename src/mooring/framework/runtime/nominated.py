"""Runs filters on hypothetical nodes: with nominated pods, or without victims of preemption."""

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
    """Runs one filter on one view, with its pre_filter state.

    Raises:
        PluginError: if it raises, or returns an invalid result for these nodes.
    """
    statuses = framework.call(plugin, "Filter", plugin.filter, cycle, view)
    if not isinstance(statuses, FilterStatuses):
        raise PluginError(plugin.name, "Filter", f"returned {statuses!r}, not FilterStatuses")
    return statuses.checked(plugin.name, len(view))


#: Row -> the nominated pods that count as placed there.
NominatedPods = Mapping[int, tuple[PodInfo, ...]]

#: The columns of a node that depend on the pods on it.
_OF_PODS = Change.USAGE | Change.PORTS


def nominated_pods_by_row(cycle: Cycle) -> dict[int, tuple[PodInfo, ...]]:
    """Returns the other nominated pods of at least the same priority, by row."""
    nominator, pod = cycle.snapshot.nominator, cycle.pod
    by_row: dict[int, tuple[PodInfo, ...]] = {}
    for name in nominator.node_names():
        row = cycle.snapshot.nodes.live_row(name)
        nominated_pods = tuple(
            nominated
            for nominated in nominator.pods_on(name)
            if nominated.priority >= pod.priority and nominated.uid != pod.uid
        )
        if row >= 0 and nominated_pods:
            by_row[row] = nominated_pods
    return by_row


def filters_reading_pods(framework: FilterRunner, cycle: Cycle) -> frozenset[str]:
    """Returns the names of the filters whose result may depend on the pods of a node."""
    return frozenset(
        plugin.name
        for plugin in framework.filters
        if plugin.name not in cycle.skipped
        and (not hasattr(plugin, "reads") or plugin.reads & _OF_PODS)
    )


def filter_hypothetical(
    framework: FilterRunner, cycle: Cycle, view: NodeView, *, only: Collection[str] | None = None
) -> list[tuple[int, FilterStatuses]]:
    """Runs all filters on ``view``, in plugin order, each with the state for the view's deltas.

    Each filter gets only the nodes that every filter before it accepted; the statuses returned
    with its number are for those, in order. ``only`` names the filters to run; None = all.
    """
    results = []
    for number, plugin in enumerate(framework.filters):
        if not len(view):
            break
        if plugin.name in cycle.skipped or (only is not None and plugin.name not in only):
            continue
        statuses = _filter_with_shifted_state(framework, cycle, plugin, view)
        results.append((number, statuses))
        passed = statuses.codes == 0
        if not passed.all():
            view = view.subset(passed)
    return results


def filter_with_nominated_pods(
    framework: FilterRunner,
    cycle: Cycle,
    view: NodeView,
    nominated_pods: NominatedPods,
    *,
    only: Collection[str] | None = None,
) -> FilterStatuses:
    """Returns the first rejection of each node, evaluated with and without nominated pods.

    Where there are nominated pods, the filters run with them, and where all accept, once more
    without them: affinity to a pod that is only nominated is not enough.

    Source: framework/runtime/framework.go (RunFilterPluginsWithNominatedPods).
    """
    if not nominated_pods:
        return _first_rejections(framework, cycle, view, only)
    has_nominated = np.zeros(cycle.snapshot.nodes.capacity, dtype=np.bool_)
    has_nominated[list(nominated_pods)] = True
    positions = view.take(has_nominated).nonzero()[0]
    if not len(positions):
        return _first_rejections(framework, cycle, view, only)
    part = view.subset(positions)
    with_nominated = part.plus([nominated_pods[row] for row in part.rows.tolist()])
    first = _first_rejections(framework, cycle, with_nominated, only)
    codes = np.zeros(len(view), dtype=np.uint16)
    codes[positions] = first.codes
    remaining = np.flatnonzero(codes == 0)
    second = _first_rejections(framework, cycle, view.subset(remaining), only)
    refused = second.codes != 0
    codes[remaining[refused]] = second.codes[refused] + len(first.table)
    return FilterStatuses(codes, [*first.table, *second.table])


def _first_rejections(
    framework: FilterRunner, cycle: Cycle, view: NodeView, only: Collection[str] | None
) -> FilterStatuses:
    """Returns the first rejection of each node, with the plugin's name."""
    codes = np.zeros(len(view), dtype=np.uint16)
    table: list[Status] = []
    remaining: npt.NDArray[np.intp] | None = None
    for number, statuses in filter_hypothetical(framework, cycle, view, only=only):
        framework.recorder.filtered_once(framework.filters[number].name, len(statuses.codes))
        refused = statuses.codes != 0
        if not refused.any():
            continue
        positions = np.arange(len(view), dtype=np.intp) if remaining is None else remaining
        codes[positions[refused]] = statuses.codes[refused] + len(table)
        name = framework.filters[number].name
        table += [status.named(name) for status in statuses.table]
        remaining = positions[~refused]
    return FilterStatuses(codes, table)


def _filter_with_shifted_state(
    framework: FilterRunner, cycle: Cycle, plugin: Any, view: NodeView
) -> FilterStatuses:
    """Runs one filter, with its state updated for the view's added and removed pods."""
    if plugin not in cycle or not view.has_deltas:
        return filter_one(framework, cycle, plugin, view)
    if hasattr(plugin, "apply_deltas"):
        state = framework.call(
            plugin, "PreFilterExtension", plugin.apply_deltas, cycle, cycle[plugin], view
        )
        return filter_one(framework, cycle.with_state(plugin.name, state), plugin, view)
    if hasattr(plugin, "add_pod") or hasattr(plugin, "remove_pod"):
        return FilterStatuses.of(
            _filter_one_node(framework, cycle, plugin, view, position)
            for position in range(len(view))
        )
    return filter_one(framework, cycle, plugin, view)


def _filter_one_node(
    framework: FilterRunner, cycle: Cycle, plugin: Any, view: NodeView, position: int
) -> Status | None:
    """Filters one hypothetical node: updates the state by each removed, then each added pod."""
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
    cycle = cycle.with_state(plugin.name, state)
    one_node = view.subset(np.array([position], dtype=np.intp))
    statuses = filter_one(framework, cycle, plugin, one_node)
    code = int(statuses.codes[0])
    return statuses.table[code - 1] if code else None
