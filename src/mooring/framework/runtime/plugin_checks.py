"""Validates plugins when they are loaded, so that a typo does not disable a method silently."""

from __future__ import annotations

import difflib
import inspect
from functools import lru_cache
from types import FunctionType, MethodType
from typing import Any, Final

from mooring.deprecated import rename_attributes
from mooring.errors import ConfigError
from mooring.framework.interface import (
    ASYNC_POINTS,
    COMPANIONS,
    EXTENSION_POINTS,
    MAX_SCORE,
    MIN_SCORE,
)
from mooring.state.columns.change_log import Change

#: The columns of amounts.
_AMOUNTS = int(Change.ALLOCATABLE | Change.USAGE)

#: A method name at least this similar to an extension point's is reported as a typo.
SIMILARITY = 0.8

#: Methods whose parameters are cached, and names that are compared with extension points: those of
#: the in-tree plugins, which every framework has, and of as many others.
_METHODS_CACHED: Final = 512
_NAMES_CACHED: Final = 1024


def check_plugin(plugin: Any, *, path: str | None = None) -> Any:
    """Validates a plugin against the contract of ``interface.py``, and returns it.

    Raises:
        ConfigError: if it has no name or no extension point, a method has the wrong parameters or
            is not a coroutine plugin_path it must be, or a method name is a likely typo.
    """
    name = getattr(plugin, "name", None)
    if not isinstance(name, str) or not name:
        raise ConfigError("a plugin needs a name (a non-empty str)", path=path, value=name)
    plugin_path = f"{path}: plugin {name}" if path else f"plugin {name}"
    rename_attributes(plugin)
    methods = {**EXTENSION_POINTS, **COMPANIONS}
    for attribute in _public_methods(plugin):
        if attribute not in methods:
            _check_spelling(plugin_path, attribute)
    points = [point for point in EXTENSION_POINTS if callable(getattr(plugin, point, None))]
    if not points:
        raise ConfigError(
            "has no extension point; see mooring.framework.interface",
            path=plugin_path,
            value=sorted(_public_methods(plugin)),
        )
    for attribute, parameters in methods.items():
        method = getattr(plugin, attribute, None)
        if method is not None:
            _check_method(plugin_path, attribute, method, parameters)
    _check_partners(plugin_path, plugin)
    return plugin


def _public_methods(plugin: Any) -> list[str]:
    return [
        attribute
        for attribute in dir(plugin)
        if not attribute.startswith("_") and callable(getattr(plugin, attribute, None))
    ]


def _check_spelling(plugin_path: str, attribute: str) -> None:
    similar = _similar_method(attribute)
    if similar is not None:
        raise ConfigError(
            "unknown extension point", path=plugin_path, value=attribute, suggestion=similar
        )


@lru_cache(maxsize=_NAMES_CACHED)
def _similar_method(attribute: str) -> str | None:
    methods = [*EXTENSION_POINTS, *COMPANIONS]
    close = difflib.get_close_matches(attribute, methods, n=1, cutoff=SIMILARITY)
    return close[0] if close else None


def _check_method(plugin_path: str, attribute: str, method: Any, expected: tuple[str, ...]) -> None:
    if not callable(method):
        raise ConfigError("must be a method", path=f"{plugin_path}: {attribute}", value=method)
    expected_text = f"{attribute}({', '.join(expected)})"
    try:
        if type(method) is MethodType and type(method.__func__) is FunctionType:
            parameters, is_async = _of_function(method.__func__)
        else:
            parameters, is_async = _of_callable(method)
    except (TypeError, ValueError):
        return  # a builtin without a signature: nothing to compare with
    if expected == ("cycle", "nodes") and [p.name for p in parameters] == ["pod", "node"]:
        raise ConfigError(
            f"takes (pod, node): decorate it with @per_node, or write {expected_text}",
            path=f"{plugin_path}: {attribute}",
        )
    if not _accepts(parameters, len(expected)):
        actual = f"{attribute}({', '.join(str(p) for p in parameters)})"
        raise ConfigError(
            f"must be {expected_text}", path=f"{plugin_path}: {attribute}", value=actual
        )
    if attribute in ASYNC_POINTS and not is_async:
        raise ConfigError("must be async def", path=f"{plugin_path}: {attribute}")
    if attribute not in ASYNC_POINTS and is_async:
        problem = "must not be async: the scheduling cycle never waits"
        raise ConfigError(problem, path=f"{plugin_path}: {attribute}")


@lru_cache(maxsize=_METHODS_CACHED)
def _of_function(function: FunctionType) -> tuple[list[inspect.Parameter], bool]:
    """Returns what ``_of_callable`` does for the methods that a function becomes."""
    return _of_callable(MethodType(function, object()))


def _of_callable(method: Any) -> tuple[list[inspect.Parameter], bool]:
    """Returns the parameters, and whether it is a coroutine function."""
    # Check the adapter that is called, not the method in its __wrapped__ (@per_node).
    signature = inspect.signature(method, follow_wrapped=False)
    return list(signature.parameters.values()), inspect.iscoroutinefunction(method)


def _accepts(parameters: list[inspect.Parameter], count: int) -> bool:
    """Returns True if the parameters accept ``count`` positional arguments."""
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    keyword_only = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    fits = len(required) <= count and (takes_any or count <= len(positional))
    return fits and not keyword_only


def _check_partners(plugin_path: str, plugin: Any) -> None:
    """Validates that methods which need another one have it."""
    for method, partner in (
        ("normalize", "score"),
        ("unreserve", "reserve"),
        ("reserve", "unreserve"),
        ("pre_bind_pre_flight", "pre_bind"),
        ("apply_deltas", "pre_filter"),
        ("add_pod", "pre_filter"),
        ("filter_node", "filter"),
        ("score_node", "score"),
        ("remove_pod", "add_pod"),
        ("add_pod", "remove_pod"),
    ):
        if hasattr(plugin, method) and not hasattr(plugin, partner):
            raise ConfigError(f"needs {partner} beside {method}", path=plugin_path)
    if hasattr(plugin, "reads") and not hasattr(plugin, "sign"):
        raise ConfigError("needs sign(pod) beside reads", path=plugin_path)
    if not isinstance(getattr(plugin, "reads", 0), int):
        problem = "must be columns of nodes, such as Change.LABELS | Change.USAGE"
        raise ConfigError(problem, path=f"{plugin_path}: reads", value=plugin.reads)
    if hasattr(plugin, "amounts_only"):
        _check_amounts_only(plugin_path, plugin)
    normalized_zero = getattr(plugin, "normalized_zero", None)
    if normalized_zero is None:
        return
    if not hasattr(plugin, "normalize"):
        raise ConfigError("needs normalize beside normalized_zero", path=plugin_path)
    if type(normalized_zero) is not int or not MIN_SCORE <= normalized_zero <= MAX_SCORE:
        raise ConfigError(
            f"normalized_zero must be a score, {MIN_SCORE} to {MAX_SCORE}",
            path=plugin_path,
            value=normalized_zero,
        )


def _check_amounts_only(plugin_path: str, plugin: Any) -> None:
    """Validates that a plugin whose results nodes share reads nothing else of them."""
    path, value = f"{plugin_path}: amounts_only", plugin.amounts_only
    if not isinstance(value, bool):
        raise ConfigError("must be True or False", path=path, value=value)
    reads = getattr(plugin, "reads", None)
    if value and (reads is None or reads & ~_AMOUNTS or getattr(plugin, "reads_other_nodes", 0)):
        problem = "needs reads beside it, of ALLOCATABLE and USAGE only, and no reads_other_nodes"
        raise ConfigError(problem, path=path, value=value)
