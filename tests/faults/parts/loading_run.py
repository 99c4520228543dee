"""Plugins that are made from classes, functions, modules and installed packages.

Constructors ask for drawn parameters, and some raise, at a known line. Modules are files of a
temporary folder, which is the current one, or an installed package's: right ones, and such as
raise, import what is absent, or have no such attribute. What the plugin gets, and the problem, the
path, the value and the suggestion of each error are those of plain rules.

Source: docs/reference/plugin-contract.md; docs/reference/cli.md (``--plugin``).
"""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from mooring.clock import Rng, seeded_random
from mooring.config import DEFAULT_PLUGINS, GATED_PLUGINS
from mooring.errors import ConfigError, PluginError
from mooring.framework.runtime.registry import Registry, instantiate, load_plugin
from tests.faults.parts.contract_model import SIMILAR_PLUGIN, Refusal, suggestions

CONSTRUCTORS: Final = 30
SPECS: Final = 16
NAMES: Final = 10
FILE: Final = "drawn_plugin.py"
OWN_NAME: Final = "a plugin must be registered under its own name"
OTHER_NAME: Final = "Other"
#: The parameters that constructors have, and what a default plugin may ask for besides.
OFFERED: Final = ("args", "handle")
MORE: Final = "gates"
PARAMETERS: Final = (*OFFERED, *OFFERED, MORE, "depth", "cluster")
#: What a constructor does: statements, and the error that is reported; LINE is that of the fault.
RAISING: Final = (
    ("raise ValueError('too deep')", "ValueError: too deep", True),
    ("helper()", "ZeroDivisionError: division by zero", True),
    ("sys.exit('bye')", "SystemExit: bye", True),
    ("raise SyntaxError('odd')", "SyntaxError: odd", False),
    ("import no_such_module_at_all", "ModuleNotFoundError: No module named", True),
    ("importlib.import_module('no_such')", "ModuleNotFoundError: No module named", True),
)
HELPER: Final = "import importlib, sys\ndef helper():\n    return 1 / 0\n"
HELPER_LINE: Final = 3
WRONG_PLUGINS: Final = (
    ("class Rack:\n    name = 'Rack'\n", "has no extension point", "--plugin: plugin Rack"),
    ("class Rack:\n    def filter(self, cycle, nodes): ...\n", "a plugin needs a name", "--plugin"),
)
RIGHT: Final = """
class Rack:
    name = 'Rack'
    def __init__(self, args=1, handle=None):
        self.got = args, handle
    def filter(self, cycle, nodes): ...
def make(handle):
    return Rack(2, handle)
ready = Rack(3)
nothing = None
_Hidden = Rack
"""
#: Attribute of such a module -> what its constructor got; HANDLE is the handle.
HANDLE: Final = "handle"
ATTRIBUTES: Final = {"Rack": (None, HANDLE), "make": (2, HANDLE), "ready": (3, None)}
WRONG_ATTRIBUTES: Final = ("Rak", "rack", "mak", "readyy", "nothing", "Hidden", "absent", "x:y")


class Constructor(NamedTuple):
    """A class or a function that makes a plugin.

    Attributes:
        target: The class or the function.
        names: Of its parameters.
        required: Of those without a default.
        error: The error that it raises, and whether it is reported as it is; None = it does not.
    """

    target: Any
    names: list[str]
    required: list[str]
    error: tuple[str, bool] | None


class LoadingRun:
    """One run.

    Attributes:
        problems: Differences to the rules.
        paths: What happened, and how often.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self.paths: Counter[str] = Counter()
        self._seed = seed
        self._rng = seeded_random(seed)
        self._handle: Any = object()

    def run(self) -> None:
        """Makes all plugins, until one differs."""
        for _ in range(CONSTRUCTORS):
            self._construct()
        with _folder() as folder:
            self._load_all(folder)
            self._create_all(folder)

    def _check(self, what: Any, make: Callable[[], Any], expected: Any) -> None:
        """Compares a plugin, or an error: its problem may go on."""
        try:
            result: Any = make()
        except ConfigError as error:
            result = Refusal(error.problem, error.path, error.value, error.suggestion)
            self.paths[error.problem[:16]] += 1
        except PluginError as error:
            result = error
        else:
            self.paths["made"] += 1
        if isinstance(expected, list):
            is_right = isinstance(result, Refusal) and any(
                result.problem.startswith(it.problem) and result[1:] == it[1:] for it in expected
            )
        else:
            is_right = result == expected
        if not is_right:
            self.problems.append(f"{what}: {result}, not {expected}")

    # -- constructors -----------------------------------------------------------------------------

    def _construct(self) -> None:
        rng = self._rng
        if rng.random() < 0.1:
            self._use_object()
            return
        drawn = _constructor(rng)
        args = rng.choice((None, {"depth": 3}))
        more = {MORE: {"Gate": True}} if rng.random() < 0.5 else {}
        values = {"args": args, "handle": self._handle, **more}
        unknown = [name for name in drawn.required if name not in values]
        expected: Any
        if unknown:
            problem = "a plugin's constructor may ask for args and handle, nothing else"
            expected = [Refusal(problem, drawn.target.__qualname__, unknown)]
        elif drawn.error is None:
            expected = {name: values.get(name, "default") for name in drawn.names}
        elif drawn.error[1]:
            expected = [Refusal(drawn.error[0], "depth", 7)]
        else:
            expected = [Refusal(drawn.error[0], drawn.target.__qualname__)]

        def make() -> Any:
            return instantiate(drawn.target, args, self._handle, **more).got

        self._check(f"{drawn.names}, {drawn.required}", make, expected)

    def _use_object(self) -> None:
        """Uses objects that are neither classes nor functions as they are."""
        target: Any = self._rng.choice((functools.partial(dict), self.run, {"name": "x"}, 7))
        result = instantiate(target, None, self._handle)
        if result is not target:
            self.problems.append(f"{target}: {result}")

    # -- modules ----------------------------------------------------------------------------------

    def _load_all(self, folder: Path) -> None:
        """Loads plugins from modules of the current folder, which is in the path or is not."""
        cases = [self._module(folder, number) for number in range(SPECS)]
        path = [*sys.path]
        if self._rng.random() < 0.3:
            sys.path.insert(0, str(folder))
        before = [*sys.path]
        for spec, expected in cases:

            def load(spec: str = spec) -> Any:
                plugin = load_plugin(spec, self._handle)
                return tuple(HANDLE if it is self._handle else it for it in plugin.got)

            self._check(spec, load, expected)
            if sys.path != before:
                self.problems.append(f"{spec}: the path is {sys.path}")
        sys.path[:] = path

    def _module(self, folder: Path, number: int) -> tuple[str, Any]:
        """Draws a module, writes it, and returns MODULE:ATTRIBUTE and what it must give."""
        rng = self._rng
        module = f"drawn_{self._seed}_{number}"
        file, refused = folder / f"{module}.py", functools.partial(Refusal, path="--plugin")
        lines = rng.randint(0, 3)
        draw = rng.choice(("right", "right", "attribute", "attribute", "raises", "wrong", "spec"))
        if draw == "right":
            is_beside = rng.random() < 0.3
            beside = f"from {module}_beside import *\n" if is_beside else ""
            (folder / f"{module}_beside.py").write_text("depth = 1\n")
            file.write_text(beside + RIGHT)
            attribute = rng.choice(list(ATTRIBUTES))
            return f"{module}:{attribute}", ATTRIBUTES[attribute]
        if draw == "attribute":
            file.write_text(RIGHT)
            attribute = rng.choice(WRONG_ATTRIBUTES)
            near = suggestions(attribute, [*ATTRIBUTES, "nothing"], SIMILAR_PLUGIN)
            problem = f"module {module} has no such attribute"
            return f"{module}:{attribute}", [
                refused(problem, value=attribute, suggestion=it) for it in near
            ]
        if draw == "raises":
            statement, text, has_place = rng.choice(RAISING)
            file.write_text(HELPER + "\n" * lines + statement + "\n")
            line = HELPER_LINE if statement == "helper()" else HELPER_LINE + lines + 1
            place = f" ({file}:{line})" if has_place else ""
            name = {"import no_such_module_at_all": " 'no_such_module_at_all'"}.get(
                statement, " 'no_such'" if "no_such" in statement else ""
            )
            spec = f"{module}:Rack"
            return spec, [refused(f"cannot be imported: {text}{name}{place}", value=spec)]
        if draw == "wrong":
            source, problem, path = rng.choice(WRONG_PLUGINS)
            file.write_text(source)
            value: Any = [] if path != "--plugin" else None
            return f"{module}:Rack", [Refusal(problem, path, value)]
        malformed = ("", module, f"{module}:", ":Rack", ":")
        spec = rng.choice((*malformed, "absent:Rack", "absent.one:Rack"))
        if spec.startswith("absent"):
            problem = "cannot be imported: ModuleNotFoundError: No module named 'absent'"
            return spec, [refused(problem, value=spec)]
        return spec, [refused("must be MODULE:ATTRIBUTE", value=spec)]

    # -- names ------------------------------------------------------------------------------------

    def _create_all(self, folder: Path) -> None:
        """Creates plugins by name: of the scheduler, of an installed package, and unknown ones."""
        rng = self._rng
        own = rng.sample(list(DEFAULT_PLUGINS), 8)
        factories = {name: _factory(name, name) for name in own}
        registry = Registry({**factories, own[1]: _factory(own[1], OTHER_NAME)})
        planned = (set(DEFAULT_PLUGINS) | GATED_PLUGINS) - set(own)
        if registry.planned != planned:
            self.problems.append(f"planned are {registry.planned}, not {planned}")
        installed = self._install(folder, own[0])
        sys.path.insert(0, str(folder))
        try:
            for _ in range(NAMES):
                self._create(registry, own, planned, installed)
        finally:
            sys.path.remove(str(folder))

    def _create(
        self, registry: Registry, own: list[str], planned: set[str], installed: dict[str, Any]
    ) -> None:
        rng = self._rng
        names = (*own[:2], own[0], *installed, *sorted(planned))
        name = rng.choice((*names, "Absent", "Zzz"))
        if rng.random() < 0.3:
            at = rng.randrange(len(name))
            name = name[:at] + name[at + 1 :]
        expected: Any
        args = rng.choice((None, {"depth": 3}))
        if name == own[1]:
            expected = [Refusal(OWN_NAME, name, OTHER_NAME)]
        elif name in own:
            expected = name, args, HANDLE
        elif name in installed:
            expected = installed[name] or (name, args, HANDLE)
        else:
            near = suggestions(name, [*own, *planned], SIMILAR_PLUGIN)
            expected = [Refusal("unknown plugin", None, name, it) for it in near]
        if (name in registry) != (name in own or name in planned):
            self.problems.append(f"{name} in the registry is {name in registry}")

        def create() -> Any:
            plugin = registry.create(name, args, self._handle)
            handle = HANDLE if plugin.handle is self._handle else plugin.handle
            return plugin.name, plugin.args, handle

        self._check(name, create, expected)

    def _install(self, folder: Path, namesake: str) -> dict[str, Any]:
        """Writes an installed package; returns its plugins, and the errors of the wrong ones."""
        module = f"packaged_{self._seed}"
        (folder / f"{module}.py").write_text(PACKAGED)
        (folder / f"{module}_wrong.py").write_text("\n1 / 0\n")
        info = folder / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        entries = {
            "Packaged": f"{module}:Packaged",
            "Renamed": f"{module}:Packaged",
            "Pointless": f"{module}:Pointless",
            "Raising": f"{module}_wrong:Raising",
            "Missing": f"{module}:Missing",
            namesake: f"{module}:Packaged",
        }
        lines = [f"{name} = {target}" for name, target in entries.items()]
        (info / "entry_points.txt").write_text("\n".join(["[mooring.plugins]", *lines, ""]))
        problem = "is installed, but cannot be imported: "
        place = f"({folder / f'{module}_wrong.py'}:2)"
        raised = f"{problem}ZeroDivisionError: division by zero {place}"
        return {
            "Packaged": None,
            "Renamed": [Refusal(OWN_NAME, "Renamed", "Packaged")],
            "Pointless": [Refusal("has no extension point", "plugin Pointless", [])],
            "Raising": [Refusal(raised, "Raising")],
            "Missing": [Refusal(f"{problem}AttributeError: ", "Missing")],
        }


PACKAGED: Final = """
class Packaged:
    name = 'Packaged'
    def __init__(self, args, handle):
        self.args, self.handle = args, handle
    def filter(self, cycle, nodes): ...
class Pointless:
    name = 'Pointless'
"""


def _constructor(rng: Rng) -> Constructor:
    """Draws a constructor."""
    names = list(dict.fromkeys(rng.choice(PARAMETERS) for _ in range(rng.randint(0, 3))))
    has_default = [rng.random() < 0.4 for _ in names]
    key = rng.randint(0, len(names)) if rng.random() < 0.3 else len(names)
    # Parameters before a star may have defaults only at the end.
    positional = sorted(range(key), key=lambda at: has_default[at])
    order = [*positional, *range(key, len(names))]
    texts = [f"{names[at]}='default'" if has_default[at] else names[at] for at in order]
    if key < len(names):
        texts.insert(key, rng.choice(("*", "*rest")))
    elif rng.random() < 0.2:
        texts.append("*rest")
    if rng.random() < 0.2:
        texts.append("**more")
    statement, error = _statement(rng)
    is_class = rng.random() < 0.5
    head = f"    def __init__({', '.join(['self', *texts])}):" if is_class else None
    got = "{" + ", ".join(f"{name!r}: {name}" for name in names) + "}"
    lines = [
        *(["class Drawn:", head] if head else [f"def drawn({', '.join(texts)}):"]),
        f"        {statement}",
        f"        self.got = {got}" if is_class else f"        return Result({got})",
    ]
    before = rng.randint(0, 3)
    source = HELPER + "\n" * before + "\n".join(lines) + "\n"
    scope: dict[str, Any] = {"Result": _Result, "ConfigError": ConfigError}
    exec(compile(source, FILE, "exec"), scope)
    if error is not None and error[0].endswith("LINE"):
        line = HELPER_LINE + before + (3 if is_class else 2)
        line = HELPER_LINE if statement == "helper()" else line
        error = f"{error[0].removesuffix('LINE')}({FILE}:{line})", error[1]
    ordered = [names[at] for at in order]
    required = [names[at] for at in order if not has_default[at]]
    return Constructor(scope["Drawn" if is_class else "drawn"], ordered, required, error)


def _statement(rng: Rng) -> tuple[str, tuple[str, bool] | None]:
    """Draws what a constructor does, and its error."""
    if rng.random() < 0.5:
        return "pass", None
    if rng.random() < 0.2:
        return "raise ConfigError('must be less', path='depth', value=7)", ("must be less", True)
    statement, text, has_place = rng.choice(RAISING)
    if "no_such" in statement:
        name = "no_such_module_at_all" if "at_all" in statement else "no_such"
        text = f"{text} {name!r}"
    return statement, (f"cannot be created: {text}" + (" LINE" if has_place else ""), False)


class _Result:
    def __init__(self, got: dict[str, Any]) -> None:
        self.got = got


def _factory(name: str, own_name: str) -> Callable[[Any, Any], Any]:
    def factory(args: Any, handle: Any) -> Any:
        def filter_nodes(cycle: Any, nodes: Any) -> None: ...

        attributes = {"name": own_name, "args": args, "handle": handle}
        return type(name, (), {**attributes, "filter": staticmethod(filter_nodes)})()

    return factory


@contextmanager
def _folder() -> Iterator[Path]:
    """Makes a temporary folder the current one; forgets what was imported from it."""
    directory, path, modules = Path.cwd(), [*sys.path], set(sys.modules)
    writes_no_code, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    with tempfile.TemporaryDirectory() as name:
        try:
            os.chdir(name)
            yield Path.cwd()
        finally:
            os.chdir(directory)
            sys.path[:] = path
            sys.dont_write_bytecode = writes_no_code
            _forget(name, modules)


def _forget(folder: str, before: set[str]) -> None:
    """Forgets modules that were imported from a folder."""
    for module in set(sys.modules) - before:
        file = getattr(sys.modules[module], "__file__", None) or ""
        if file.startswith(folder):
            del sys.modules[module]


def run_loading(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a plugin is made otherwise than the rules say, or an error says otherwise.
    """
    run = LoadingRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
