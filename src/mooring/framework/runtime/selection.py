"""The plugins of each extension point, and those of them that apply to a pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mooring.errors import InvariantViolation
from mooring.framework.cycle_state import Cycle
from mooring.framework.interface import EXTENSION_POINTS

#: So many selections of the plugins that apply to a pod are kept.
SELECTIONS_MAX: Final = 256


class PluginSelection:
    """The plugins of a profile by extension point, in order.

    Args:
        plugins: Extension point -> its plugins.
    """

    def __init__(self, plugins: Mapping[str, Sequence[Any]]) -> None:
        self._plugins = {point: plugins.get(point, ()) for point in EXTENSION_POINTS}
        #: (extension point, names of the plugins that do not apply) -> the other plugins.
        self._applicable: dict[tuple[str, frozenset[str]], tuple[Any, ...]] = {}
        scorers = {plugin.name for plugin in self._plugins["score"]}
        #: The names of the score plugins without ``pre_score``.
        self.without_pre_score = frozenset(
            scorers.difference(plugin.name for plugin in self._plugins["pre_score"])
        )

    def of(self, point: str) -> Sequence[Any]:
        """Returns the plugins of an extension point."""
        plugins = self._plugins.get(point)
        if plugins is None:
            raise InvariantViolation(f"{point} unknown extension point")
        return plugins

    def applicable(self, point: str, cycle: Cycle) -> Sequence[Any]:
        """Returns the plugins of an extension point that apply to the pod."""
        idle = cycle.idle_plugins
        if not idle:
            return self.of(point)
        plugins = self._applicable.get((point, idle))
        if plugins is None:
            plugins = tuple(plugin for plugin in self.of(point) if plugin.name not in idle)
            if len(self._applicable) < SELECTIONS_MAX:
                self._applicable[point, idle] = plugins
        return plugins

    def to_call(self, point: str, cycle: Cycle) -> Sequence[Any]:
        """Returns the plugins of an extension point that are called for the pod.

        In attempts that are timed these are all plugins: metrics show each of them.
        """
        idle = cycle.idle_plugins
        if cycle.is_timed or not idle:
            return self.of(point)
        plugins = self._applicable.get((point, idle))
        return plugins if plugins is not None else self.applicable(point, cycle)
