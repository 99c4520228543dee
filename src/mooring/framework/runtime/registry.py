"""Creates plugins by name, and the framework of a profile.

A name is looked up among the in-tree plugins first, then among installed packages in the
entry-point group ``mooring.plugins``. A configuration cannot import any other code.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from mooring.clock import Clock
from mooring.config import DEFAULT_PLUGINS, GATED_PLUGINS, POINTS, expand_multi_point
from mooring.config import EXTENSION_POINTS as CONFIGURED_POINTS
from mooring.config import Profile as ProfileConfig
from mooring.config.plugin_sets import camel
from mooring.errors import ConfigError, SchedulerError, exception_text
from mooring.framework.interface import EXTENSION_POINTS, Handle
from mooring.framework.runtime.framework import Framework, Profile
from mooring.framework.runtime.plugin_checks import check_plugin
from mooring.framework.waiting_pods import WaitingPods

ENTRY_POINT_GROUP = "mooring.plugins"

#: (arguments or None, handle) -> plugin.
Factory = Callable[[Any, Handle], Any]

#: Extension point of a configuration -> its methods, if their names differ.
METHODS: dict[str, tuple[str, ...]] = {
    "queue_sort": ("less",),
    "score": ("score", "normalize"),
    "reserve": ("reserve", "unreserve"),
    "pre_bind": ("pre_bind", "pre_bind_pre_flight"),
}


class Registry:
    """Plugin name -> factory. ``planned`` are in-tree names that are accepted, but do nothing."""

    def __init__(self, factories: Mapping[str, Factory]) -> None:
        self._factories = dict(factories)
        self.planned = (GATED_PLUGINS | DEFAULT_PLUGINS.keys()) - self._factories.keys()

    def __contains__(self, name: object) -> bool:
        """Returns True if an in-tree plugin has this name."""
        return name in self._factories or name in self.planned

    def create(self, name: str, args: Any, handle: Handle) -> Any:
        """Creates and validates the plugin ``name``.

        Raises:
            ConfigError: if there is no such plugin, or it breaks the contract.
        """
        factory = self._factories.get(name) or self._installed(name)
        if factory is None:
            close = difflib.get_close_matches(name, [*self._factories, *self.planned], n=1)
            raise ConfigError("unknown plugin", value=name, suggestion=close[0] if close else None)
        plugin = check_plugin(factory(args, handle))
        if plugin.name != name:
            raise ConfigError(
                "a plugin must be registered under its own name", path=name, value=plugin.name
            )
        return plugin

    def _installed(self, name: str) -> Factory | None:
        matches: tuple[EntryPoint, ...] = tuple(entry_points(group=ENTRY_POINT_GROUP, name=name))
        if not matches:
            return None
        try:
            target = matches[0].load()
        except (Exception, SystemExit) as error:  # a third-party module may raise anything
            text = f"is installed, but cannot be imported: {_problem(error)}"
            raise ConfigError(text, path=name) from error
        return lambda args, handle: instantiate(target, args, handle)


def load_plugin(spec: str, handle: Handle) -> Any:
    """Loads the plugin at ``module:attribute``: an object, a class, or a factory function.

    Raises:
        ConfigError: if the spec, the module or the attribute is wrong, or the object is not a
            plugin.
    """
    module_name, _, attribute = spec.partition(":")
    if not module_name or not attribute:
        raise ConfigError("must be MODULE:ATTRIBUTE", path="--plugin", value=spec)
    try:
        module = _import(module_name)
    except (Exception, SystemExit) as error:  # a module may raise anything
        text = f"cannot be imported: {_problem(error)}"
        raise ConfigError(text, path="--plugin", value=spec) from error
    target = getattr(module, attribute, None)
    if target is None:
        public = [name for name in vars(module) if not name.startswith("_")]
        close = difflib.get_close_matches(attribute, public, n=1)
        raise ConfigError(
            f"module {module_name} has no such attribute",
            path="--plugin",
            value=attribute,
            suggestion=close[0] if close else None,
        )
    return check_plugin(instantiate(target, None, handle), path="--plugin")


def _import(name: str) -> ModuleType:
    """Imports a module from ``sys.path``, or else from the current directory."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        directory = str(Path.cwd())
        if error.name != name.partition(".")[0] or directory in sys.path:
            raise
    sys.path.insert(0, directory)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(directory)


def instantiate(target: Any, args: Any, handle: Handle, **more: Any) -> Any:
    """Returns the plugin: ``target`` itself, or its result if it is a class or function.

    ``more`` is what default plugins may ask for beside ``args`` and ``handle``.
    """
    if not (inspect.isclass(target) or inspect.isfunction(target)):
        return target
    parameters = inspect.signature(target).parameters
    available = {"args": args, "handle": handle, **more}
    required = [
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    unknown = [name for name in required if name not in available]
    if unknown:
        raise ConfigError(
            "a plugin's constructor may ask for args and handle, nothing else",
            path=getattr(target, "__qualname__", repr(target)),
            value=unknown,
        )
    arguments = {name: value for name, value in available.items() if name in parameters}
    try:
        return target(**arguments)
    except SchedulerError:
        raise
    except (Exception, SystemExit) as error:  # a third-party constructor may raise anything
        text = f"cannot be created: {_problem(error)}"
        raise ConfigError(text, path=target.__qualname__) from error


def _problem(error: BaseException) -> str:
    """Returns the exception of a plugin's code, with file and line if it was raised there."""
    text = exception_text(error)
    if isinstance(error, SyntaxError):
        return text  # names its own file and line
    skipped = (__file__, importlib.__file__, "<frozen")
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(skipped)
    ]
    return f"{text} ({frames[-1].filename}:{frames[-1].lineno})" if frames else text


def build(
    profile: ProfileConfig,
    registry: Registry,
    handle: Handle,
    *,
    clock: Clock,
    extra: Iterable[Any] = (),
    percentage_of_nodes_to_score: int | None = None,
    cache_results: bool = True,
    waiting: WaitingPods | None = None,
) -> Framework:
    """Creates the framework of one profile.

    ``extra`` plugins that the profile configures run as configured, with the configured weight; the
    others run after the configured plugins at every extension point that they implement, with
    weight 1 (a Bind plugin before the configured ones, or it would never run).

    Raises:
        ConfigError: if the plugins of the profile cannot run together.
    """
    extra = _by_unique_name(extra, registry)
    plugins = _create(profile, registry, handle, extra)
    implements = _implementing(plugins)
    expanded = expand_multi_point(profile.plugins, CONFIGURED_POINTS, implements)
    weights: dict[str, int] = {}
    by_method: dict[str, list[Any]] = {method: [] for method in EXTENSION_POINTS}
    for point, entries in expanded.items():
        running = [plugins[name] for name, _ in entries if name in plugins]
        if point == "score":
            weights.update({name: weight for name, weight in entries if name in plugins})
        method = METHODS.get(point, (point,))[0]
        not_configured = [plugin for name, plugin in extra.items() if name not in plugins]
        added = [plugin for plugin in not_configured if hasattr(plugin, method)]
        running = [*added, *running] if point == "bind" else [*running, *added]
        for method in METHODS.get(point, (point,)):
            by_method[method] = [plugin for plugin in running if hasattr(plugin, method)]
    _check_counts(by_method)
    spec = Profile(profile.scheduler_name or "", by_method, weights, percentage_of_nodes_to_score)
    return Framework(spec, clock=clock, cache_results=cache_results, waiting=waiting)


def _by_unique_name(extra: Iterable[Any], registry: Registry) -> dict[str, Any]:
    by_name: dict[str, Any] = {}
    for plugin in extra:
        if plugin.name in by_name or plugin.name in registry:
            raise ConfigError("another plugin has this name", path="--plugin", value=plugin.name)
        by_name[plugin.name] = plugin
    return by_name


def _create(
    profile: ProfileConfig, registry: Registry, handle: Handle, extra: Mapping[str, Any]
) -> dict[str, Any]:
    """Creates every plugin that the profile enables; returns them by name."""
    plugins: dict[str, Any] = {}
    for point in (*CONFIGURED_POINTS, "multi_point"):
        for i, entry in enumerate(profile.plugins.at(point).enabled):
            if entry.name in plugins or entry.name in registry.planned:
                continue
            if entry.name in extra:
                plugins[entry.name] = extra[entry.name]
                continue
            try:
                plugins[entry.name] = registry.create(entry.name, profile.args(entry.name), handle)
            except ConfigError as error:
                path = f"plugins.{camel(point)}.enabled[{i}].name"
                raise error.located(path=path) from error
    return plugins


def _implementing(plugins: Mapping[str, Any]) -> Callable[[str, str], bool]:
    def implements(name: str, point: str) -> bool:
        if name in POINTS:
            return point in POINTS[name]  # points without a method here are removed in build()
        method = METHODS.get(point, (point,))[0]
        return callable(getattr(plugins.get(name), method, None))

    return implements


def _check_counts(by_method: Mapping[str, list[Any]]) -> None:
    sorters = [plugin.name for plugin in by_method["less"]]
    if len(sorters) != 1:
        problem = "exactly one queueSort plugin must be enabled"
        raise ConfigError(problem, path="plugins.queueSort", value=sorters)
    if not by_method["bind"]:
        raise ConfigError("at least one bind plugin must be enabled", path="plugins.bind")
