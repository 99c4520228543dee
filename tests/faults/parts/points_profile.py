"""A profile as a configuration has it, for the plugins of ``points_run``, and its order in words.

A plugin is in multiPoint, in the lists of its extension points, in both, or is added by the caller
beside the configuration. ``by_point`` says which plugins run at each point, in which order.

Source: pkg/scheduler/framework/runtime/framework.go (expandMultiPointPlugins, getScoreWeights). A
plugin of the caller runs after those of the profile, but binds before them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from mooring.clock import Clock, Rng
from mooring.config.types import PluginEntry, Plugins, PluginSet
from mooring.config.types import Profile as ProfileConfig
from mooring.framework import Framework
from mooring.framework.interface import EXTENSION_POINTS
from mooring.framework.runtime.registry import Registry, build
from tests.faults.parts.points_plugins import DrawnPlugins

#: Extension point of a configuration -> the methods of plugins there.
POINTS: Final[dict[str, tuple[str, ...]]] = {
    "pre_enqueue": ("pre_enqueue",),
    "pre_filter": ("pre_filter",),
    "filter": ("filter",),
    "post_filter": ("post_filter",),
    "pre_score": ("pre_score",),
    "score": ("score",),
    "reserve": ("reserve", "unreserve"),
    "permit": ("permit",),
    "pre_bind": ("pre_bind", "pre_bind_pre_flight"),
    "bind": ("bind",),
    "post_bind": ("post_bind",),
}
#: Those at which plugins of multiPoint are disabled at times; others work in pairs.
MAY_BE_DISABLED: Final = ("pre_enqueue", "post_filter", "reserve", "permit", "bind", "post_bind")
#: In multiPoint, in the list of each point, in multiPoint and some lists, or added by the caller.
MULTI, OWN, BOTH, ADDED = "multi", "own", "both", "added"
#: The plugin that sorts the queue.
SORTER: Final = "Sorter"


class Sorter:
    """Sorts the queue in no particular order."""

    name = SORTER

    def less(self, a: Any, b: Any) -> bool:
        """Returns whether a pod goes first."""
        return id(a) < id(b)


class DrawnProfile:
    """A configuration of plugins.

    Attributes:
        by_point: Method -> the plugins that have it, in the order of their calls.
        weights: Plugin -> the weight of its scores.

    Args:
        rng: Draws it.
        plugins: All plugins, in order.
        has: Returns whether a plugin has a method.
    """

    def __init__(self, rng: Rng, plugins: Sequence[Any], has: Callable[[str, str], bool]) -> None:
        self._rng, self._has = rng, has
        self._plugins = {plugin.name: plugin for plugin in plugins}
        names = list(self._plugins)
        rng.shuffle(names)
        self._kinds = {name: rng.choice((MULTI, MULTI, OWN, BOTH, ADDED)) for name in names}
        self._multi = [name for name in names if self._kinds[name] in (MULTI, BOTH)]
        self._listed = {point: self._draw_list(point) for point in POINTS}
        self._disabled = {point: self._draw_disabled(point) for point in POINTS}
        self._multi_weights = {name: rng.choice((0, 1, 4)) for name in names}
        self._own_weights = {name: rng.choice((0, 2, 5)) for name in names}
        if not self._order("bind"):
            self._disabled["bind"] = ()
        self.by_point: dict[str, list[Any]] = {method: [] for method in EXTENSION_POINTS} | {
            method: [self._plugins[name] for name in self._order(point) if has(name, method)]
            for point, methods in POINTS.items()
            for method in methods
        }
        self.weights = {name: self._weight(name) for name in names}

    def _names(self, kind: str) -> list[str]:
        return [name for name, of_name in self._kinds.items() if of_name == kind]

    def _draw_list(self, point: str) -> list[str]:
        """Draws the order of the plugins that the configuration lists at a point."""
        names = [
            name
            for name, kind in self._kinds.items()
            if self._is_at(name, point)
            and (kind == OWN or (kind == BOTH and self._rng.random() < 0.5))
        ]
        self._rng.shuffle(names)
        return names

    def _draw_disabled(self, point: str) -> tuple[str, ...]:
        if point not in MAY_BE_DISABLED or self._rng.random() < 0.6:
            return ()
        return self._rng.choice((("*",), *((name,) for name in self._kinds)))

    def _is_at(self, name: str, point: str) -> bool:
        return self._has(name, POINTS[point][0])

    # -- the rules --------------------------------------------------------------------------------

    def _order(self, point: str) -> list[str]:
        """Returns the plugins of a point: those that override multiPoint, multiPoint, the rest."""
        listed, disabled = self._listed[point], self._disabled[point]
        multi = [
            name
            for name in self._multi
            if self._is_at(name, point) and name not in disabled and "*" not in disabled
        ]
        order = [name for name in listed if name in multi]
        order += [name for name in multi if name not in listed]
        order += [name for name in listed if name not in multi]
        added = [name for name in self._names(ADDED) if self._is_at(name, point)]
        return [*added, *order] if point == "bind" else [*order, *added]

    def _weight(self, name: str) -> int:
        """Returns the weight of a plugin: that of its point, of multiPoint, or 1."""
        if self._kinds[name] == ADDED:
            return 1
        if name in self._listed["score"]:
            return self._own_weights[name] or 1
        return self._multi_weights[name] or 1

    # -- the configuration ------------------------------------------------------------------------

    def build(self, clock: Clock) -> Framework:
        """Returns a framework of these plugins."""
        added = self._names(ADDED)
        # The caller may also bring plugins that the configuration names.
        brought = [name for name in self._kinds if name in added or self._rng.random() < 0.2]
        factories = {
            name: _factory(plugin) for name, plugin in self._plugins.items() if name not in brought
        }
        sets = {
            point: PluginSet(
                enabled=tuple(
                    PluginEntry(
                        name=name, weight=self._own_weights[name] if point == "score" else 0
                    )
                    for name in self._listed[point]
                ),
                disabled=tuple(PluginEntry(name=name) for name in self._disabled[point]),
            )
            for point in POINTS
        }
        multi = tuple(
            PluginEntry(name=name, weight=self._multi_weights[name]) for name in self._multi
        )
        sorting = PluginSet(enabled=(PluginEntry(name=SORTER),))
        plugins = Plugins(**sets, queue_sort=sorting, multi_point=PluginSet(enabled=multi))
        registry = Registry({**factories, SORTER: _factory(Sorter())})
        handle: Any = None
        return build(
            ProfileConfig(scheduler_name="points", plugins=plugins),
            registry,
            handle,
            clock=clock,
            extra=[self._plugins[name] for name in brought],
        )


def drawn_profile(rng: Rng, plugins: DrawnPlugins) -> DrawnProfile | None:
    """Returns a configuration; None = a plugin does nothing, or none binds."""
    drawn = DrawnProfile(rng, plugins.all, plugins.has)
    works = all(any(plugins.has(it.name, point) for point in drawn.by_point) for it in plugins.all)
    return drawn if works and drawn.by_point["bind"] else None


def _factory(plugin: Any) -> Callable[[Any, Any], Any]:
    return lambda args, handle: plugin
