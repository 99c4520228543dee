"""Filters on worlds that differ from what is there: nominated pods, and preemption's dry runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mooring.errors import PluginError
from mooring.framework.cycle import Cycle
from mooring.framework.verdict import Status, Verdicts
from mooring.framework.view import NodeView

if TYPE_CHECKING:
    from mooring.framework.runner import Framework


def filter_one(framework: Framework, cycle: Cycle, plugin: Any, view: NodeView) -> Verdicts:
    """One filter on one view, with the state it noted in pre_filter.

    Raises:
        PluginError: if it raises, or answers something that is no verdict on these nodes.
    """
    verdicts = framework.call(plugin, "Filter", plugin.filter, cycle, view)
    if not isinstance(verdicts, Verdicts):
        raise PluginError(plugin.name, "Filter", f"returned {verdicts!r}, not Verdicts")
    return verdicts.checked(plugin.name, len(view))


def filter_worlds(framework: Framework, cycle: Cycle, view: NodeView) -> list[tuple[int, Verdicts]]:
    """Run all filters on ``view``, in plugin order, each with a state that follows its pods.

    Each filter sees only the worlds that every filter before it let pass; the verdicts returned
    with its number are for those, in order.
    """
    results = []
    for number, plugin in enumerate(framework.filters):
        if not len(view):
            break
        if plugin.name in cycle.skipped:
            continue
        verdicts = _filter_followed(framework, cycle, plugin, view)
        results.append((number, verdicts))
        view = view.where(verdicts.codes == 0)
    return results


def _filter_followed(framework: Framework, cycle: Cycle, plugin: Any, view: NodeView) -> Verdicts:
    """One filter, after its state was told which pods the worlds have more or fewer."""
    if plugin not in cycle or not view.has_deltas:
        return filter_one(framework, cycle, plugin, view)
    if hasattr(plugin, "shift"):
        state = framework.call(
            plugin, "PreFilterExtension", plugin.shift, cycle, cycle[plugin], view
        )
        return filter_one(framework, cycle.with_state(plugin.name, state), plugin, view)
    if hasattr(plugin, "add_pod") or hasattr(plugin, "remove_pod"):
        return Verdicts.of(
            _filter_one_world(framework, cycle, plugin, view, position)
            for position in range(len(view))
        )
    return filter_one(framework, cycle, plugin, view)


def _filter_one_world(
    framework: Framework, cycle: Cycle, plugin: Any, view: NodeView, position: int
) -> Status | None:
    """The scalar twin of ``shift``: pods taken away first, then added, one by one."""
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
