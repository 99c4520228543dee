"""Validates plugins when they are loaded, so that a typo does not disable a method silently."""

from __future__ import annotations

import difflib
import inspect
from typing import Any

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
            _check_spelling(plugin_path, attribute, methods)
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


def _check_spelling(plugin_path: str, attribute: str, methods: dict[str, tuple[str, ...]]) -> None:
    close = difflib.get_close_matches(attribute, methods, n=1, cutoff=SIMILARITY)
    if close:
        raise ConfigError(
            "unknown extension point", path=plugin_path, value=attribute, suggestion=close[0]
        )


def _check_method(plugin_path: str, attribute: str, method: Any, expected: tuple[str, ...]) -> None:
    if not callable(method):
        raise ConfigError("must be a method", path=f"{plugin_path}: {attribute}", value=method)
    expected_text = f"{attribute}({', '.join(expected)})"
    try:
        # Check the adapter that is called, not the method in its __wrapped__ (@per_node).
        signature = inspect.signature(method, follow_wrapped=False)
        parameters = list(signature.parameters.values())
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
    is_async = inspect.iscoroutinefunction(method)
    if attribute in ASYNC_POINTS and not is_async:
        raise ConfigError("must be async def", path=f"{plugin_path}: {attribute}")
    if attribute not in ASYNC_POINTS and is_async:
        problem = "must not be async: the scheduling cycle never waits"
        raise ConfigError(problem, path=f"{plugin_path}: {attribute}")


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
