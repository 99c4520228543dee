"""The plugins of each extension point: default list, merge with a profile, multiPoint.

::

    defaults ──┐
               ├─ merge ──▶ a set per extension point + multiPoint ─ expand_multi_point ──▶ lists
    profile  ──┘

Source: pkg/scheduler/apis/config/v1/default_plugins.go (the list, mergePluginSet) and
pkg/scheduler/framework/runtime/framework.go (expandMultiPointPlugins, getScoreWeights).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from mooring.config.plugin_defaults import DEFAULT_PLUGINS, PLUGIN_GATES
from mooring.config.types import PluginEntry, Plugins, PluginSet
from mooring.errors import ConfigError

#: A plugin and its weight at one extension point.
Enabled = tuple[str, int]
#: The points whose plugins have weights.
_SCORING: Final = ("score", "placement_score")
#: The highest score of a plugin, and the largest sum.
SCORE_MAX: Final = 100
_TOTAL_MAX: Final = (1 << 63) - 1


def default_plugins(gates: Mapping[str, bool] = MappingProxyType({})) -> Plugins:
    """Returns the plugins of a profile that names none.

    ``gates`` are the feature gates whose value is not the default.
    """
    enabled = tuple(
        PluginEntry(name=name, weight=weight)
        for name, weight in DEFAULT_PLUGINS.items()
        if gates.get(PLUGIN_GATES.get(name, ""), True)
    )
    return Plugins(multi_point=PluginSet(enabled=enabled))


def merge(defaults: Plugins, own: Plugins) -> Plugins:
    """Returns a profile's plugins over the defaults, extension point by extension point."""
    return Plugins(
        **{
            point: merge_plugin_set(defaults.at(point), own.at(point))
            for point in Plugins.__struct_fields__
        }
    )


def merge_plugin_set(defaults: PluginSet, own: PluginSet) -> PluginSet:
    """Returns one point's set over its default: replaced in place, removed, or appended.

    A default that the profile also enables keeps its position and takes the profile's weight, also
    if that is none. An entry listed twice stays twice: ``expand_multi_point`` refuses it.
    """
    disabled = tuple(PluginEntry(name=e.name) for e in (*own.disabled, *defaults.disabled))
    switched_off = {entry.name for entry in disabled}
    #: The last entry of a name is the one that takes the default's place.
    replacing = {entry.name: i for i, entry in enumerate(own.enabled)}
    used: set[int] = set()
    enabled: list[PluginEntry] = []
    for entry in () if "*" in switched_off else defaults.enabled:
        if entry.name in switched_off:
            continue
        position = replacing.get(entry.name)
        if position is not None:
            used.add(position)
        enabled.append(entry if position is None else own.enabled[position])
    enabled.extend(entry for i, entry in enumerate(own.enabled) if i not in used)
    return PluginSet(enabled=tuple(enabled), disabled=disabled)


def expand_multi_point(
    plugins: Plugins, points: Iterable[str], implements: Callable[[str, str], bool]
) -> dict[str, list[Enabled]]:
    """Returns the plugins that run at each extension point, in order, with their weights.

    At a point come first its own plugins that multiPoint lists too (in the point's order), then the
    others of multiPoint that implement the point, then the point's remaining own plugins. A set
    with "*" disabled gets nothing from multiPoint.

    Args:
        plugins: Merged with the defaults.
        points: Names in snake_case.
        implements: Whether a plugin (first) implements a point (second).

    Raises:
        ConfigError: A plugin is listed twice, or at a point that it does not implement; or the sum
            of the weights is negative before the last plugin.
    """
    weights = _weights(plugins)
    for point in _SCORING:
        _check_total(plugins, point, implements)
    expanded: dict[str, list[Enabled]] = {}
    for point in points:
        names = _expand(plugins, point, implements)
        expanded[point] = [(name, weights.get((point, name), 1)) for name in names]
    return expanded


def names_enabled(plugins: Plugins) -> set[str]:
    """Returns every plugin that is enabled somewhere."""
    return {e.name for point in Plugins.__struct_fields__ for e in plugins.at(point).enabled}


def _expand(plugins: Plugins, point: str, implements: Callable[[str, str], bool]) -> list[str]:
    own = plugins.at(point)
    listed = _listed(own, point, implements)
    if any(entry.name == "*" for entry in own.disabled):
        return listed
    from_multi_point: list[str] = []
    overridden: set[str] = set()
    for entry in plugins.multi_point.enabled:
        name = entry.name
        if not implements(name, point) or own.disables(name):
            continue
        if name in listed:
            overridden.add(name)
        elif name in from_multi_point:
            raise ConfigError(registered_twice(name, point), path="plugins.multiPoint.enabled")
        else:
            from_multi_point.append(name)
    first = [name for name in listed if name in overridden]
    last = [name for name in listed if name not in overridden]
    return [*first, *from_multi_point, *last]


def _listed(own: PluginSet, point: str, implements: Callable[[str, str], bool]) -> list[str]:
    """Returns the plugins that the point's own set names."""
    names: list[str] = []
    for i, entry in enumerate(own.enabled):
        problem = None
        if not implements(entry.name, point):
            problem = not_implemented(entry.name, point)
        elif entry.name in names:
            problem = registered_twice(entry.name, point)
        if problem:
            raise ConfigError(problem, path=f"plugins.{camel(point)}.enabled[{i}]")
        names.append(entry.name)
    return names


def _weights(plugins: Plugins) -> dict[tuple[str, str], int]:
    """Returns (point, plugin) -> weight; the point overrides multiPoint, 0 means 1."""
    weights: dict[tuple[str, str], int] = {}
    for point in _SCORING:
        for entry in (*plugins.at(point).enabled, *plugins.multi_point.enabled):
            weights.setdefault((point, entry.name), entry.weight or 1)
    return weights


def _check_total(plugins: Plugins, point: str, implements: Callable[[str, str], bool]) -> None:
    """Checks the sum of the weights, with upstream's numbers of 64 bits.

    There, what is left of the largest score overflows once the sum is negative.
    """
    total, weights = 0, _weights(plugins)
    listed = (*plugins.at(point).enabled, *plugins.multi_point.enabled)
    for name in dict.fromkeys(entry.name for entry in listed):
        if not implements(name, point):
            continue
        weight = weights[point, name]
        if total < 0 or weight * SCORE_MAX > _TOTAL_MAX - total:
            problem = "total score of Score plugins could overflow"
            raise ConfigError(problem, path=f"plugins.{camel(point)}.enabled", value=weight)
        total += weight * SCORE_MAX


def not_implemented(plugin: str, point: str) -> str:
    """Returns the error of a plugin that does not implement an extension point."""
    return f'plugin "{plugin}" does not extend {upstream_name(point)} plugin'


def registered_twice(plugin: str, point: str) -> str:
    """Returns the error of a plugin that is enabled twice at an extension point."""
    return f'plugin "{plugin}" already registered as "{upstream_name(point)}"'


def camel(point: str) -> str:
    """Returns the name of an extension point as files have it."""
    first, *rest = point.split("_")
    return first + "".join(word.capitalize() for word in rest)


def upstream_name(point: str) -> str:
    """Returns the name of the Go interface, as messages of kube-scheduler have it."""
    return "".join(word.capitalize() for word in point.split("_")) + "Plugin"
