"""All rejections of a pod: every filter on every node or on one, past the first rejection.

The plugins are called as in an attempt, but a rejection ends nothing. Nothing is changed or cached.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mooring.decision import NOT_SATISFIED, Rejection
from mooring.errors import PluginError
from mooring.framework.cycle_state import Cycle
from mooring.framework.node_view import NodeView
from mooring.framework.runtime.attempt import rejection
from mooring.framework.runtime.framework import Framework
from mooring.framework.runtime.nominated import filter_hypothetical, nominated_pods_by_row
from mooring.framework.status import Code, FilterStatuses, PreFilterResult, Skip, Status
from mooring.objects.pod import Pod
from mooring.state import PodInfo, Snapshot
from mooring.state.types import Rows


class AllRejections(NamedTuple):
    """The rejections of a pod.

    Attributes:
        of_pod: The rejections before any node was filtered.
        of_nodes: Node -> its rejections, in the order of the plugins.
        errors: Plugin -> its error; it has no rejections.
    """

    of_pod: tuple[Rejection, ...]
    of_nodes: dict[str, tuple[Rejection, ...]]
    errors: dict[str, str]


def all_rejections(
    framework: Framework, pod: Pod, snapshot: Snapshot, *, node: str | None = None
) -> AllRejections:
    """Runs every filter on every node, or on one of them, which must exist."""
    cycle = framework.new_cycle(PodInfo(pod), snapshot)
    framework.cached_results(cycle)  # sets the plugins that do not apply to the pod
    cycle.skipped = cycle.idle_plugins
    of_pod: list[Rejection] = []
    of_nodes: dict[str, list[Rejection]] = {}
    errors: dict[str, str] = {}
    nodes = snapshot.nodes
    # Not all rows: a row whose node does not exist has pods, but no node for a filter to read.
    rows = np.array(nodes.order.rows() if node is None else [nodes.live_row(node)], dtype=np.intp)
    names = [nodes.names[row] for row in rows.tolist()]
    for plugin in framework.selection.applicable("pre_filter", cycle):
        try:
            result = _pre_filter(framework, cycle, plugin)
            included = _names_of(plugin, result)
        except PluginError as error:
            errors[plugin.name] = str(error)
            cycle.skipped |= {plugin.name}
            continue
        if result is Skip.SKIP:
            cycle.skipped |= {plugin.name}
        elif isinstance(result, PreFilterResult):
            left_out = _left_out(plugin.name)
            excluded = [name for name in names if name not in included]
            of_nodes |= {name: [*of_nodes.get(name, ()), left_out] for name in excluded}
        elif isinstance(result, Status):
            of_pod.append(rejection(framework.status_of(plugin, "PreFilter", result)))
            cycle.skipped |= {plugin.name}
    for plugin in framework.filters:
        if plugin.name not in cycle.skipped:
            _filter(framework, cycle, plugin.name, rows, of_nodes, errors)
    in_order = {name: tuple(of_nodes[name]) for name in names if name in of_nodes}
    return AllRejections(tuple(of_pod), in_order, errors)


def _names_of(plugin: Any, result: Any) -> frozenset[str]:
    return result.names_of(plugin.name) if isinstance(result, PreFilterResult) else frozenset()


def _left_out(plugin: str) -> Rejection:
    reason = f"{NOT_SATISFIED}(s) [{plugin}]"
    return Rejection(plugin, Code.UNSCHEDULABLE_AND_UNRESOLVABLE.value, (reason,))


def _pre_filter(framework: Framework, cycle: Cycle, plugin: Any) -> Any:
    cycle.writer = plugin.name
    try:
        return framework.call(plugin, "PreFilter", plugin.pre_filter, cycle)
    finally:
        cycle.writer = None


def _filter(
    framework: Framework,
    cycle: Cycle,
    name: str,
    evaluated: Rows,
    of_nodes: dict[str, list[Rejection]],
    errors: dict[str, str],
) -> None:
    """Adds the rejections of one filter, with the nominated pods and without them."""
    nominated = nominated_pods_by_row(cycle)
    nominated = {row: nominated[row] for row in evaluated.tolist() if row in nominated}
    rows = np.array(list(nominated), dtype=np.intp)
    views = [NodeView(cycle.snapshot, evaluated)]
    if nominated:
        view = NodeView(cycle.snapshot, rows)
        views.insert(0, view.plus([nominated[row] for row in rows.tolist()]))
    rejected: dict[int, Status] = {}
    try:
        for view in views:
            for _, statuses in filter_hypothetical(framework, cycle, view, only=(name,)):
                _add(rejected, view, statuses)
    except PluginError as error:
        errors[name] = str(error)
        return
    node_names = cycle.snapshot.nodes.names
    for row, status in rejected.items():
        node_rejections = of_nodes.setdefault(node_names[row], [])
        if all(earlier.plugin != name for earlier in node_rejections):
            node_rejections.append(rejection(status.named(name)))


def _add(rejected: dict[int, Status], view: NodeView, statuses: FilterStatuses) -> None:
    for position in statuses.codes.nonzero()[0].tolist():
        status = statuses.table[statuses.codes.item(position) - 1]
        rejected.setdefault(int(view.rows[position]), status)
