"""Plugins of drawn parts, and the ways in which one breaks the contract."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from mooring.clock import Rng
from mooring.framework.interface import COMPANIONS, EXTENSION_POINTS
from mooring.state import Change

METHODS: Final = {**EXTENSION_POINTS, **COMPANIONS}
AWAITED: Final = ("pre_bind", "bind", "background")
#: A typo -> the extension point that is meant.
TYPOS: Final = {
    "pre_filte": "pre_filter",
    "scores": "score",
    "unreserv": "unreserve",
    "permits": "permit",
    "post_bindd": "post_bind",
    "normalise": "normalize",
    "filter_nodes": "filter_node",
}
#: A method -> the one that it needs.
PARTNERS: Final = (
    *(("normalize", "score"), ("unreserve", "reserve"), ("reserve", "unreserve")),
    *(("pre_bind_pre_flight", "pre_bind"), ("apply_deltas", "pre_filter")),
    *(("filter_node", "filter"), ("score_node", "score")),
)


class Parts:
    """The name, methods and other attributes of a plugin.

    Attributes:
        name: Of the plugin.
        methods: Name -> function.
        attributes: Name -> value.
    """

    def __init__(self, name: Any, methods: dict[str, Any]) -> None:
        self.name, self.methods = name, methods
        self.attributes: dict[str, Any] = {}

    def plugin(self) -> Any:
        """Returns an object of a new class."""
        return type("Drawn", (), {"name": self.name, **self.methods, **self.attributes})()

    def __repr__(self) -> str:
        return f"{self.name!r} with {sorted(self.methods)} and {self.attributes}"


def method_of(name: str, choice: Callable[[tuple[int, ...]], int] = lambda _: 0) -> Any:
    """Returns a function for a method, which takes its arguments in one of several ways."""
    count = len(METHODS[name])
    form = choice((0, 0, 1, 2, 3, 4))
    names = ", ".join(f"a{number}" for number in range(count))
    if form == 1:
        names = "*arguments"
    elif form == 2 and count:
        names = f"{names}, more=None, *, other=1"
    elif form == 3 and count:
        names = f"{names[: names.rfind('a')]}*rest"
    parameters = f"self, {names}" if names else "self"
    prefix = "async " if name in AWAITED else ""
    namespace: dict[str, Any] = {}
    exec(f"{prefix}def {name}({parameters}):\n    return None", namespace)
    made = namespace[name]
    if form == 4 and name not in AWAITED:
        # No function of a class, but an object that can be called.
        return functools.partial(made, None)
    return made


def function(text: str) -> Any:
    """Returns the function of a definition."""
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    return next(value for name, value in namespace.items() if name != "__builtins__")


# Each of these breaks something, and returns the text of the error.


def name_is_missing(rng: Rng, parts: Parts) -> str:
    """Gives it no name."""
    parts.name = rng.choice((None, "", 5))
    return "a plugin needs a name (a non-empty str)"


def no_point(rng: Rng, parts: Parts) -> str:
    """Leaves methods that are no extension points."""
    parts.methods.clear()
    parts.attributes.clear()
    parts.methods[rng.choice(("events", "compute"))] = method_of("events")
    return "has no extension point"


def typo(rng: Rng, parts: Parts) -> str:
    """Misspells a method."""
    name, meant = rng.choice(list(TYPOS.items()))
    parts.methods[name] = lambda self: None
    return f"unknown extension point, got {name!r} (did you mean {meant!r}?)"


def no_method(rng: Rng, parts: Parts) -> str:
    """Gives an attribute the name of an extension point."""
    parts.methods["permit"] = method_of("permit")
    name = rng.choice(("filter", "events", "score"))
    parts.methods[name] = 5
    for other in ("filter_node", "score_node", "normalize"):
        parts.methods.pop(other, None)
    parts.attributes.pop("normalized_zero", None)
    return f"plugin {parts.name}: {name}: must be a method"


def other_parameters(rng: Rng, parts: Parts) -> str:
    """Gives a method too few parameters, too many, or one that must be named."""
    name = rng.choice(("filter", "permit", "bind", "pre_filter", "less"))
    expected = ", ".join(METHODS[name])
    wrong = rng.choice(("self", f"self, {expected}, extra", f"self, {expected}, *, extra"))
    prefix = "async " if name in AWAITED else ""
    parts.methods[name] = function(f"{prefix}def {name}({wrong}): return None")
    return f"plugin {parts.name}: {name}: must be {name}({expected}), got {name!r}"[:-1]


def one_node(rng: Rng, parts: Parts) -> str:
    """Takes a pod and a node, without the decorator for that."""
    name = rng.choice(("filter", "score", "pre_score"))
    parts.methods[name] = function(f"def {name}(self, pod, node): return None")
    return f"takes (pod, node): decorate it with @per_node, or write {name}(cycle, nodes)"


def other_color(rng: Rng, parts: Parts) -> str:
    """Waits where nothing may, or does not where it must."""
    if rng.random() < 0.5:
        name = rng.choice(("bind", "pre_bind"))
        parts.methods[name] = function(f"def {name}(self, cycle, node_name): return None")
        return f"plugin {parts.name}: {name}: must be async def"
    name = rng.choice(("permit", "post_bind"))
    parts.methods[name] = function(f"async def {name}(self, cycle, node_name): return None")
    return f"plugin {parts.name}: {name}: must not be async"


def no_partner(rng: Rng, parts: Parts) -> str:
    """Leaves out a method that another one needs."""
    name, partner = rng.choice(PARTNERS)
    parts.methods.clear()
    parts.attributes.clear()
    parts.methods |= {"permit": method_of("permit"), name: method_of(name)}
    return f"plugin {parts.name}: needs {partner} beside {name}"


def half_of_deltas(rng: Rng, parts: Parts) -> str:
    """Adds pods, or removes them, but not both."""
    name, partner = rng.choice((("add_pod", "remove_pod"), ("remove_pod", "add_pod")))
    parts.methods.clear()
    parts.attributes.clear()
    parts.methods |= {"pre_filter": method_of("pre_filter"), name: method_of(name)}
    return f"plugin {parts.name}: needs {partner} beside {name}"


def unsigned(rng: Rng, parts: Parts) -> str:
    """Says what it reads, but signs no pods; or reads no columns."""
    parts.attributes.clear()
    if rng.random() < 0.5:
        parts.methods.pop("sign", None)
        parts.attributes["reads"] = Change.LABELS
        return "needs sign(pod) beside reads"
    parts.methods["sign"] = method_of("sign")
    parts.attributes["reads"] = "labels"
    return f"plugin {parts.name}: reads: must be columns of nodes"


def other_amounts(rng: Rng, parts: Parts) -> str:
    """Shares results of nodes with equal amounts, but reads more of them."""
    parts.methods["sign"] = method_of("sign")
    reads = parts.attributes["reads"] = Change.USAGE
    parts.attributes["amounts_only"] = True
    draw = rng.randrange(4)
    if draw == 0:
        parts.attributes["amounts_only"] = 1
        return f"plugin {parts.name}: amounts_only: must be True or False, got 1"
    if draw == 1:
        parts.attributes["reads"] = reads | Change.LABELS
    elif draw == 2:
        parts.attributes["reads_other_nodes"] = Change.USAGE
    else:
        del parts.attributes["reads"]
    return f"plugin {parts.name}: amounts_only: needs reads beside it, of ALLOCATABLE and USAGE"


def other_zero(rng: Rng, parts: Parts) -> str:
    """Has a score of nodes whose raw scores are 0 that is none."""
    parts.methods |= {"score": method_of("score"), "normalize": method_of("normalize")}
    if rng.random() < 0.4:
        del parts.methods["normalize"]
        parts.attributes["normalized_zero"] = rng.choice((0, 100, 101))
        return f"plugin {parts.name}: needs normalize beside normalized_zero"
    zero = parts.attributes["normalized_zero"] = rng.choice((-1, 101, True, "0"))
    return f"plugin {parts.name}: normalized_zero must be a score, 0 to 100, got {zero!r}"


FLAWS: Final[tuple[Callable[[Rng, Parts], str], ...]] = (
    name_is_missing,
    no_point,
    typo,
    no_method,
    other_parameters,
    one_node,
    other_color,
    no_partner,
    half_of_deltas,
    unsigned,
    other_amounts,
    other_zero,
)
