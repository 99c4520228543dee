"""The errors of plugins when they are loaded, by the pages of the contract, in plain Python.

A plugin is described by its attributes. Whether a method can be called with the parameters of its
extension point is found out by a call of a function with the same parameters.

Source: docs/reference/plugin-contract.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final, NamedTuple

#: Method -> the names of its parameters.
POINTS: Final[dict[str, tuple[str, ...]]] = {
    "pre_enqueue": ("pod",),
    "less": ("a", "b"),
    "pre_filter": ("cycle",),
    "filter": ("cycle", "nodes"),
    "post_filter": ("cycle", "diagnosis"),
    "pre_score": ("cycle", "nodes"),
    "score": ("cycle", "nodes"),
    "normalize": ("cycle", "scores", "nodes"),
    "reserve": ("cycle", "node_name"),
    "unreserve": ("cycle", "node_name"),
    "permit": ("cycle", "node_name"),
    "pre_bind_pre_flight": ("cycle", "node_name"),
    "pre_bind": ("cycle", "node_name"),
    "bind": ("cycle", "node_name"),
    "post_bind": ("cycle", "node_name"),
}
OPTIONAL: Final[dict[str, tuple[str, ...]]] = {
    "sign": ("pod",),
    "sort_key": ("pod",),
    "events": (),
    "background": (),
    "scheduled_note": ("pod", "node_name"),
    "filter_node": ("cycle", "node"),
    "score_node": ("cycle", "node"),
    "apply_deltas": ("cycle", "state", "nodes"),
    "add_pod": ("cycle", "state", "pod", "node"),
    "remove_pod": ("cycle", "state", "pod", "node"),
}
METHODS: Final = {**POINTS, **OPTIONAL}
COROUTINES: Final = ("pre_bind", "bind", "background")
#: A method, and another one that it needs.
NEEDS: Final = (
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
)
#: Old names of attributes that work for one more release -> new names.
RENAMED: Final = {
    "reads_everywhere": "reads_other_nodes",
    "shift": "apply_deltas",
    "zeros_become": "normalized_zero",
}
#: Names that are so similar are taken for a misspelling: of methods, and of plugins.
SIMILAR: Final = 0.8
SIMILAR_PLUGIN: Final = 0.6
BEST_SCORE: Final = 100


class Refusal(NamedTuple):
    """An error of a configuration, without the file that it is in."""

    problem: str
    path: str | None = None
    value: Any = None
    suggestion: str | None = None


class Parameters(NamedTuple):
    """The parameters of a function.

    Attributes:
        source: As in its definition.
        listed: One by one, as messages have them.
    """

    source: str
    listed: tuple[str, ...]

    def takes(self, count: int) -> bool:
        """Returns whether a function with them can be called with so many arguments."""
        scope: dict[str, Any] = {}
        exec(f"def called({self.source}): ...", scope)
        with contextlib.suppress(TypeError):
            scope["called"](*range(count))
            return True
        return False


class Method(NamedTuple):
    """A callable attribute; None = its parameters cannot be known."""

    parameters: Parameters | None
    is_async: bool = False


#: The value of an attribute, or the method that it is.
Attributes = Mapping[str, Any]


def refusals(attributes: Attributes, path: str | None, amounts: int) -> list[Refusal]:
    """Returns all that a plugin may be refused for; it is refused for one of them.

    Args:
        attributes: Its public attributes, the name included.
        path: Where it was loaded.
        amounts: The columns of amounts.
    """
    name = attributes.get("name")
    if not isinstance(name, str) or not name:
        return [Refusal("a plugin needs a name (a non-empty str)", path, name)]
    where = f"plugin {name}" if path is None else f"{path}: plugin {name}"
    methods = {key: it for key, it in attributes.items() if isinstance(it, Method)}
    return [
        *_misspelled(methods, where),
        *_without_point(methods, where),
        *_wrong_methods(attributes, where),
        *_wrong_partners(attributes, where),
        *_wrong_columns(attributes, where, amounts),
        *_wrong_zero(attributes, where),
    ]


def nearest(name: str, names: Sequence[str], least: float) -> set[str]:
    """Returns the names that are most similar to one; none if all are less similar than that."""
    ratios = {it: SequenceMatcher(None, it, name).ratio() for it in names}
    best = max(ratios.values(), default=0.0)
    return {it for it, ratio in ratios.items() if ratio == best >= least}


def suggestions(name: str, names: Sequence[str], least: float) -> set[str | None]:
    """Returns what may be suggested for an unknown name: the nearest ones, or nothing."""
    return {*nearest(name, names, least)} or {None}


def _misspelled(methods: Mapping[str, Method], where: str) -> Iterator[Refusal]:
    for attribute in methods:
        if attribute not in METHODS:
            for similar in nearest(attribute, list(METHODS), SIMILAR):
                yield Refusal("unknown extension point", where, attribute, similar)


def _without_point(methods: Mapping[str, Method], where: str) -> Iterator[Refusal]:
    if not any(method in POINTS for method in methods):
        problem = "has no extension point; see mooring.framework.interface"
        yield Refusal(problem, where, sorted(methods))


def _wrong_methods(attributes: Attributes, where: str) -> Iterator[Refusal]:
    for name, expected in METHODS.items():
        if name not in attributes:
            continue
        method, path = attributes[name], f"{where}: {name}"
        if not isinstance(method, Method):
            yield Refusal("must be a method", path, method)
        elif method.parameters is not None:
            yield from _wrong_method(name, expected, method.parameters, path)
            if name in COROUTINES and not method.is_async:
                yield Refusal("must be async def", path)
            if name not in COROUTINES and method.is_async:
                yield Refusal("must not be async: the scheduling cycle never waits", path)


def _wrong_method(
    name: str, expected: tuple[str, ...], parameters: Parameters, path: str
) -> Iterator[Refusal]:
    form = f"{name}({', '.join(expected)})"
    if expected == ("cycle", "nodes") and parameters.listed == ("pod", "node"):
        yield Refusal(f"takes (pod, node): decorate it with @per_node, or write {form}", path)
    elif not parameters.takes(len(expected)):
        actual = f"{name}({', '.join(parameters.listed)})"
        yield Refusal(f"must be {form}", path, actual)


def _wrong_partners(attributes: Attributes, where: str) -> Iterator[Refusal]:
    for method, other in NEEDS:
        if method in attributes and other not in attributes:
            yield Refusal(f"needs {other} beside {method}", where)


def _wrong_columns(attributes: Attributes, where: str, amounts: int) -> Iterator[Refusal]:
    reads = attributes.get("reads")
    has_columns = isinstance(reads, int)
    if "reads" in attributes and "sign" not in attributes:
        yield Refusal("needs sign(pod) beside reads", where)
    if "reads" in attributes and not has_columns:
        problem = "must be columns of nodes, such as Change.LABELS | Change.USAGE"
        yield Refusal(problem, f"{where}: reads", reads)
    if "amounts_only" not in attributes:
        return
    is_only, path = attributes["amounts_only"], f"{where}: amounts_only"
    if is_only is not True and is_only is not False:
        yield Refusal("must be True or False", path, is_only)
        return
    reads_more = reads is None or (isinstance(reads, int) and reads & ~amounts)
    if is_only and (reads_more or attributes.get("reads_other_nodes", 0)):
        problem = "needs reads beside it, of ALLOCATABLE and USAGE only, and no reads_other_nodes"
        yield Refusal(problem, path, True)


def _wrong_zero(attributes: Attributes, where: str) -> Iterator[Refusal]:
    zero = attributes.get("normalized_zero")
    if zero is None:
        return
    if "normalize" not in attributes:
        yield Refusal("needs normalize beside normalized_zero", where)
    if type(zero) is not int or zero not in range(BEST_SCORE + 1):
        problem = f"normalized_zero must be a score, 0 to {BEST_SCORE}"
        yield Refusal(problem, where, zero)
