"""Plugins with drawn attributes, right or wrong: whether one is loaded, and what it is refused for.

A plugin has some extension points with all that they need; in two of three something is wrong: the
parameters of a method, a coroutine, a similar name, a method without the one that it needs, the
type of an attribute. Methods have every form that Python has. The reference is
``contract_model.py``: without a reason there is no error, else the error is one of the reasons,
with its path, value and suggestion. Old names of attributes work, with a warning.
"""

from __future__ import annotations

import functools
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from mooring.clock import seeded_random
from mooring.errors import ConfigError
from mooring.framework import per_node
from mooring.framework.runtime.plugin_checks import check_plugin
from mooring.state import Change
from tests.faults.parts.contract_model import (
    COROUTINES,
    METHODS,
    NEEDS,
    POINTS,
    RENAMED,
    Method,
    Parameters,
    Refusal,
    refusals,
)

PLUGINS: Final = 40
#: How a method is a part of its plugin.
BOUND, STATIC, OF_CLASS, OF_OBJECT, PARTIAL, CALLABLE = (
    "bound", "static", "class", "object", "partial", "callable"
)  # fmt: skip
FORMS: Final = (BOUND, BOUND, BOUND, STATIC, OF_CLASS, OF_OBJECT, PARTIAL, CALLABLE)
WRONG_NAMES: Final = (None, "", 7, ("Drawn",))
OTHER_METHODS: Final = ("weight_of", "rack", "nodes", "describe", "_filters", "_score")
OTHER_DATA: Final = ("filters", "scores", "shape", "_reads")
AMOUNTS: Final = int(Change.ALLOCATABLE | Change.USAGE)
READS: Final = (
    Change.LABELS, Change.USAGE, Change.ALLOCATABLE | Change.USAGE, Change.USAGE | Change.PORTS,
    Change.ALLOCATABLE, 0, None, "cpu", (), frozenset({"cpu"}),
)  # fmt: skip
ZEROS: Final = (0, 1, 50, 99, 100, 101, -1, "100", True, False, 50.0, None)
NOT_CALLABLE: Final = (7, "yes", (), False)


class DrawnPlugin:
    """A plugin in the making.

    Attributes:
        attributes: As the model reads them.
        of_class: Those of its class.
        of_object: Those of the object itself.

    Args:
        rng: Draws it.
    """

    def __init__(self, rng: Any) -> None:
        self._rng = rng
        self.attributes: dict[str, Any] = {}
        self.of_class: dict[str, Any] = {}
        self.of_object: dict[str, Any] = {}
        self._set("name", "Drawn")
        for name in self._drawn_methods():
            self._add(name, METHODS[name])
        if rng.random() < 0.3:
            self._read_columns()
        for name in rng.sample(OTHER_METHODS, rng.choice((0, 0, 1))):
            self._add(name, ("it",))
        for name in rng.sample(OTHER_DATA, rng.choice((0, 0, 1))):
            self._set(name, rng.choice(("a", 1)))
        wrongs: tuple[Callable[[], None], ...] = (
            *(self._change_parameters,) * 4,
            *(self._change_coroutine,) * 2,
            *(self._misspell,) * 2,
            *(self._lose,) * 3,
            self._lose_points,
            self._replace_by_data,
            self._rename,
            *(self._draw_columns,) * 3,
            *(self._draw_zero,) * 2,
            self._decorate,
            self._hide_parameters,
        )
        for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
            rng.choice(wrongs)()

    def new(self) -> Any:
        """Returns the plugin."""
        plugin: Any = type("DrawnPlugin", (), self.of_class)()
        vars(plugin).update(self.of_object)
        return plugin

    def rename_old(self) -> list[tuple[str, str]]:
        """Gives attributes with old names their new ones; returns the names."""
        renamed = [
            (old, new)
            for old, new in RENAMED.items()
            if old in self.attributes and new not in self.attributes
        ]
        self.attributes |= {new: self.attributes[old] for old, new in renamed}
        return renamed

    # -- what it has ------------------------------------------------------------------------------

    def _drawn_methods(self) -> list[str]:
        """Draws methods, with all that they need."""
        rng = self._rng
        names = set(rng.sample(list(POINTS), rng.randint(1, 3)))
        names.update(rng.sample(list(METHODS), rng.randint(0, 3)))
        for _ in NEEDS:
            names.update(other for method, other in NEEDS if method in names)
        return [name for name in METHODS if name in names]

    def _add(
        self,
        name: str,
        parameters: tuple[str, ...] | Parameters,
        *,
        is_async: bool | None = None,
    ) -> None:
        """Adds a method in a drawn form."""
        is_coroutine = name in COROUTINES if is_async is None else is_async
        if not isinstance(parameters, Parameters):
            parameters = Parameters(", ".join(parameters), parameters)
        form = self._rng.choice(FORMS)
        if form == CALLABLE and is_coroutine:
            form = BOUND  # an object is no coroutine function
        self._drop(name)
        if not name.startswith("_"):
            self.attributes[name] = Method(parameters, is_coroutine)
        holder = self.of_object if form in (OF_OBJECT, PARTIAL, CALLABLE) else self.of_class
        holder[name] = _in_form(form, parameters.source, is_async=is_coroutine)

    def _set(self, name: str, value: Any) -> None:
        """Sets an attribute that is no method."""
        self._drop(name)
        if not name.startswith("_"):
            self.attributes[name] = value
        self._rng.choice((self.of_class, self.of_object))[name] = value

    def _drop(self, name: str) -> None:
        for attributes in (self.attributes, self.of_class, self.of_object):
            attributes.pop(name, None)

    def _methods(self) -> list[str]:
        return [name for name in METHODS if isinstance(self.attributes.get(name), Method)]

    def _read_columns(self) -> None:
        if "sign" not in self.attributes:
            self._add("sign", METHODS["sign"])
        self._set("reads", self._rng.choice(READS[:5]))

    # -- what is wrong with it --------------------------------------------------------------------

    def _change_parameters(self) -> None:
        if methods := self._methods():
            name = self._rng.choice(methods)
            method = self.attributes[name]
            parameters = _changed(self._rng, METHODS[name])
            self._add(name, parameters, is_async=method.is_async)

    def _change_coroutine(self) -> None:
        if methods := self._methods():
            name = self._rng.choice(methods)
            method = self.attributes[name]
            if method.parameters is not None:
                self._add(name, method.parameters, is_async=not method.is_async)

    def _misspell(self) -> None:
        """Adds a method or data with a name that is similar to a method's."""
        name = _similar(self._rng, self._rng.choice(list(METHODS)))
        if name in METHODS or not name.isidentifier():
            return
        if self._rng.random() < 0.8:
            self._add(name, METHODS["sign"])
        else:
            self._set(name, "a")

    def _lose(self) -> None:
        """Loses a method, more often one that another one needs."""
        needed = [other for method, other in NEEDS if method in self.attributes]
        names = needed if needed and self._rng.random() < 0.7 else self._methods()
        if names:
            self._drop(self._rng.choice(names))

    def _lose_points(self) -> None:
        for name in POINTS:
            self._drop(name)

    def _replace_by_data(self) -> None:
        self._set(self._rng.choice(list(METHODS)), self._rng.choice(NOT_CALLABLE))

    def _rename(self) -> None:
        self._set("name", self._rng.choice(WRONG_NAMES))

    def _draw_columns(self) -> None:
        """Draws the columns that are read, and whether they are amounts only."""
        rng = self._rng
        if rng.random() < 0.6 and "sign" not in self.attributes:
            self._add("sign", METHODS["sign"])
        if rng.random() < 0.8:
            self._set("reads", rng.choice(READS))
        if rng.random() < 0.7:
            self._set("amounts_only", rng.choice((True, True, True, False, 1, 0, None, "yes")))
        if rng.random() < 0.3:
            name = rng.choice(("reads_other_nodes", "reads_everywhere"))
            self._set(name, rng.choice((0, Change.USAGE, Change.LABELS)))

    def _draw_zero(self) -> None:
        rng = self._rng
        if rng.random() < 0.8:
            self._add("score", METHODS["score"])
            self._add("normalize", METHODS["normalize"])
        self._set(rng.choice(("normalized_zero", "zeros_become")), rng.choice(ZEROS))
        if rng.random() < 0.3:
            self._add("shift", METHODS["apply_deltas"])

    def _decorate(self) -> None:
        """Adds a method for one pod and one node, with the decorator or without."""
        name = self._rng.choice(("filter", "score"))
        if self._rng.random() < 0.5:
            self._add(name, ("pod", "node"))
            return
        scope: dict[str, Any] = {}
        exec(f"def {name}(self, pod, node): ...", scope)
        self._drop(name)
        self.attributes[name] = Method(Parameters("cycle, nodes", ("cycle", "nodes")))
        self.of_class[name] = per_node(scope[name])

    def _hide_parameters(self) -> None:
        """Makes a method of a builtin function whose parameters are unknown."""
        if methods := self._methods():
            name = self._rng.choice(methods)
            self._drop(name)
            self.attributes[name] = Method(None)
            self.of_object[name] = max


def _in_form(form: str, source: str, *, is_async: bool) -> Any:
    """Returns a method of some form, as an attribute of a class or of an object."""
    own = {BOUND: "self", OF_CLASS: "cls", PARTIAL: "owner", CALLABLE: "self"}.get(form, "")
    scope: dict[str, Any] = {}
    text = ", ".join(part for part in (own, source) if part)
    exec(f"{'async ' if is_async else ''}def method({text}): ...", scope)
    function = scope["method"]
    if form == STATIC:
        return staticmethod(function)
    if form == OF_CLASS:
        return classmethod(function)
    if form == PARTIAL:
        return functools.partial(function, None)
    if form == CALLABLE:
        return type("Callable", (), {"__call__": function})()
    return function


def _changed(rng: Any, names: tuple[str, ...]) -> Parameters:
    """Returns other parameters than those of an extension point; some are as good."""
    sources = listed = list(names)
    match rng.choice(("more", "less", "default", "own", "rest", "all", "key", "optional", "pair")):
        case "more":
            sources = listed = [*names, "surplus"]
        case "less":
            sources = listed = sources[:-1]
        case "default":
            sources = listed = [*names[: rng.randint(0, len(names))], "depth=1"]
        case "own":
            sources = listed = [f"p{number}" for number in range(len(names))]
        case "rest":
            sources = listed = [*names[: rng.randint(0, len(names))], "*rest"]
        case "all":
            sources = listed = ["*arguments", "**more"]
        case "key":
            sources, listed = [*names, "*", "depth"], [*names, "depth"]
        case "optional":
            sources, listed = [*names, "*", "depth=1"], [*names, "depth=1"]
        case "pair":
            sources = listed = ["pod", "node"]
    if sources is listed and "*" not in "".join(sources) and listed and rng.random() < 0.2:
        sources = [*sources, "/"]
    return Parameters(", ".join(sources), tuple(listed))


def _similar(rng: Any, name: str) -> str:
    """Returns a name that is similar to another one, or not so similar."""
    at = rng.randrange(len(name))
    match rng.choice(("lost", "twice", "plain", "camel", "plural", "swapped", "two lost")):
        case "lost":
            return name[:at] + name[at + 1 :]
        case "twice":
            return name[:at] + name[at] + name[at:]
        case "plain":
            return name.replace("_", "")
        case "camel":
            first, *rest = name.split("_")
            return first + "".join(word.capitalize() for word in rest)
        case "plural":
            return f"{name}s"
        case "swapped":
            return name[:at] + name[at : at + 2][::-1] + name[at + 2 :]
    return name[:at] + name[at + 2 :]


class ContractRun:
    """One run.

    Attributes:
        problems: Differences to the model.
        paths: How often a plugin was loaded, or refused for what.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self.paths: Counter[str] = Counter()
        self._rng = seeded_random(seed)

    def run(self) -> None:
        """Loads all plugins, until one differs."""
        for _ in range(PLUGINS):
            self._load()
            if self.problems:
                return

    def _load(self) -> None:
        path = self._rng.choice((None, "--plugin"))
        drawn = DrawnPlugin(self._rng)
        plugin = drawn.new()
        is_named = bool(drawn.attributes["name"]) and isinstance(drawn.attributes["name"], str)
        renamed = drawn.rename_old() if is_named else []
        expected = refusals(drawn.attributes, path, AMOUNTS)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            actual = loaded_or_refused(lambda: check_plugin(plugin, path=path), plugin)
        self.problems += differences(drawn.attributes, actual, expected)
        self.paths["loaded" if actual is None else actual.problem[:12]] += 1
        if (texts := [str(it.message) for it in caught]) != [_warning(*it) for it in renamed]:
            self.problems.append(f"{drawn.attributes}: warnings {texts} about {renamed}")
        for old, new in renamed:
            if getattr(plugin, new, None) != getattr(plugin, old):
                self.problems.append(f"{drawn.attributes}: {new} is not {old}")


def _warning(old: str, new: str) -> str:
    return f"DrawnPlugin.{old} is now {new}; the old name will be removed in the next release"


def loaded_or_refused(load: Callable[[], Any], plugin: Any) -> Refusal | None:
    """Returns why a plugin is refused; None = it is loaded."""
    try:
        result = load()
    except ConfigError as error:
        return Refusal(error.problem, error.path, error.value, error.suggestion)
    return None if result is plugin else Refusal(f"another object: {result!r}")


def differences(what: Any, actual: Refusal | None, expected: list[Refusal]) -> list[str]:
    """Returns what is wrong if a refusal is none of those that are expected."""
    if (actual in expected) if expected else actual is None:
        return []
    return [f"{what}: {actual}, not one of {expected}"]


def run_contract(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a plugin is refused for no reason, for a wrong one, or not at all.
    """
    run = ContractRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
