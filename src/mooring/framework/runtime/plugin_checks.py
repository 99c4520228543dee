"""Is this object a plugin? Asked once, at load: a typo must not make one that does nothing."""

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

#: Names this close to an extension point's are taken for a misspelling of it.
SIMILARITY = 0.8


def check_plugin(plugin: Any, *, path: str | None = None) -> Any:
    """``plugin`` itself, if it keeps the contract of ``interface.py``.

    Raises:
        ConfigError: naming what is wrong: no name, no extension point, a method with other
            parameters, a plain method where a coroutine is due, or a name that is nearly one of
            ours.
    """
    name = getattr(plugin, "name", None)
    if not isinstance(name, str) or not name:
        raise ConfigError("a plugin needs a name (a non-empty str)", path=path, value=name)
    where = f"{path}: plugin {name}" if path else f"plugin {name}"
    rename_attributes(plugin)
    known = {**EXTENSION_POINTS, **COMPANIONS}
    for attribute in _public_methods(plugin):
        if attribute not in known:
            _check_spelling(where, attribute, known)
    points = [point for point in EXTENSION_POINTS if callable(getattr(plugin, point, None))]
    if not points:
        raise ConfigError(
            "has no extension point; see mooring.framework.interface",
            path=where,
            value=sorted(_public_methods(plugin)),
        )
    for attribute, parameters in known.items():
        method = getattr(plugin, attribute, None)
        if method is not None:
            _check_method(where, attribute, method, parameters)
    _check_partners(where, plugin)
    return plugin


def _public_methods(plugin: Any) -> list[str]:
    return [
        attribute
        for attribute in dir(plugin)
        if not attribute.startswith("_") and callable(getattr(plugin, attribute, None))
    ]


def _check_spelling(where: str, attribute: str, known: dict[str, tuple[str, ...]]) -> None:
    close = difflib.get_close_matches(attribute, known, n=1, cutoff=SIMILARITY)
    if close:
        raise ConfigError(
            "unknown extension point", path=where, value=attribute, suggestion=close[0]
        )


def _check_method(where: str, attribute: str, method: Any, expected: tuple[str, ...]) -> None:
    if not callable(method):
        raise ConfigError("must be a method", path=f"{where}: {attribute}", value=method)
    wanted = f"{attribute}({', '.join(expected)})"
    try:
        # What is called counts: @per_node keeps the method it wraps in __wrapped__.
        signature = inspect.signature(method, follow_wrapped=False)
        parameters = list(signature.parameters.values())
    except (TypeError, ValueError):
        return  # a builtin without a signature: nothing to compare with
    if expected == ("cycle", "nodes") and [p.name for p in parameters] == ["pod", "node"]:
        raise ConfigError(
            f"takes (pod, node): decorate it with @per_node, or write {wanted}",
            path=f"{where}: {attribute}",
        )
    if not _accepts(parameters, len(expected)):
        found = f"{attribute}({', '.join(str(p) for p in parameters)})"
        raise ConfigError(f"must be {wanted}", path=f"{where}: {attribute}", value=found)
    is_async = inspect.iscoroutinefunction(method)
    if attribute in ASYNC_POINTS and not is_async:
        raise ConfigError("must be async def", path=f"{where}: {attribute}")
    if attribute not in ASYNC_POINTS and is_async:
        raise ConfigError("must not be async: deciding never waits", path=f"{where}: {attribute}")


def _accepts(parameters: list[inspect.Parameter], count: int) -> bool:
    """Returns whether a call with ``count`` positional arguments fits."""
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    keyword_only = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    fits = len(required) <= count and (takes_any or count <= len(positional))
    return fits and not keyword_only


def _check_partners(where: str, plugin: Any) -> None:
    """Methods that make no sense without another one."""
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
            raise ConfigError(f"needs {partner} beside {method}", path=where)
    if hasattr(plugin, "reads") and not hasattr(plugin, "sign"):
        raise ConfigError("needs sign(pod) beside reads", path=where)
    normalized_zero = getattr(plugin, "normalized_zero", None)
    if normalized_zero is None:
        return
    if not hasattr(plugin, "normalize"):
        raise ConfigError("needs normalize beside normalized_zero", path=where)
    if type(normalized_zero) is not int or not MIN_SCORE <= normalized_zero <= MAX_SCORE:
        raise ConfigError(
            f"normalized_zero must be a score, {MIN_SCORE} to {MAX_SCORE}",
            path=where,
            value=normalized_zero,
        )
