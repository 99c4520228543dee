"""From names to plugins: in-tree, installed, from a file beside the shell."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import ConfigError
from mooring.framework.runtime.registry import Registry, instantiate, load_plugin

HANDLE: Any = object()


class Plugin:
    """A plugin with the given methods."""

    def __init__(self, name: str, *methods: str) -> None:
        self.name = name
        for method in methods:
            setattr(self, method, getattr(self, f"_{method}"))

    def _filter(self, cycle: Any, nodes: Any) -> Any: ...


def registry(**methods: tuple[str, ...]) -> Registry:
    def factory(name: str) -> Any:
        return lambda args, handle: Plugin(name, *methods[name])

    return Registry({name: factory(name) for name in methods})


# ---------------------------------------------------------------- names


def test_a_factory_gets_the_arguments_and_the_handle() -> None:
    given = []

    def factory(args: Any, handle: Any) -> Any:
        given.append((args, handle))
        return Plugin("A", "filter")

    assert Registry({"A": factory}).create("A", {"x": 1}, HANDLE).name == "A"
    assert given == [({"x": 1}, HANDLE)]


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("Nodename", "NodeName"), ("InterPodAfinity", "InterPodAffinity"), ("Zzz", None)],
)
def test_an_unknown_name_is_refused_with_the_nearest_known_one(
    name: str, suggestion: str | None
) -> None:
    known = registry(NodeName=("filter",))

    with pytest.raises(ConfigError) as caught:
        known.create(name, None, HANDLE)

    assert caught.value.problem == "unknown plugin"
    assert caught.value.suggestion == suggestion


def test_a_plugin_under_another_name_than_its_own_is_refused() -> None:
    known = Registry({"A": lambda _args, _handle: Plugin("B", "filter")})

    with pytest.raises(ConfigError, match=r"A: a plugin must be registered under its own name"):
        known.create("A", None, HANDLE)


def test_what_a_factory_makes_is_checked() -> None:
    known = Registry({"A": lambda _args, _handle: Plugin("A")})

    with pytest.raises(ConfigError, match="has no extension point"):
        known.create("A", None, HANDLE)


def test_planned_are_the_default_plugins_without_a_factory() -> None:
    known = registry(NodeName=("filter",), Own=("filter",))

    assert "NodeName" not in known.planned
    assert "InterPodAffinity" in known.planned
    assert "Own" not in known.planned


# ---------------------------------------------------------------- installed packages


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yields a folder on Python's path, removed afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(str(tmp_path)):
            del sys.modules[name]


def install(folder: Path, module: str, source: str, *entries: str) -> None:
    """Writes the metadata of an installed package with plugins."""
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mooring.plugins]\n" + "\n".join(entries) + "\n")


RACK = """
class Rack:
    name = "Rack"

    def __init__(self, args=None, handle=None):
        self.args, self.handle = args, handle

    def post_bind(self, cycle, node_name):
        pass
"""


def test_an_installed_package_offers_plugins_by_entry_point(folder: Path) -> None:
    install(folder, "rack_of_tests", RACK, "Rack = rack_of_tests:Rack")

    plugin = registry().create("Rack", {"depth": 3}, HANDLE)

    assert (plugin.name, plugin.args, plugin.handle) == ("Rack", {"depth": 3}, HANDLE)


def test_an_in_tree_plugin_goes_before_an_installed_one_of_its_name(folder: Path) -> None:
    install(folder, "rack_of_tests", RACK, "Rack = rack_of_tests:Rack")

    assert isinstance(registry(Rack=("filter",)).create("Rack", None, HANDLE), Plugin)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import no_such_module_at_all", "ModuleNotFoundError: No module named"),
        ("x = 1", "AttributeError: "),
        ("def broken(:", "SyntaxError: "),
    ],
)
def test_an_installed_plugin_that_cannot_be_imported_is_reported_by_name(
    folder: Path, source: str, told: str
) -> None:
    install(folder, "rack_of_tests", source, "Rack = rack_of_tests:Rack")

    with pytest.raises(ConfigError) as caught:
        registry().create("Rack", None, HANDLE)

    assert str(caught.value).startswith(f"Rack: is installed, but cannot be imported: {told}")


# ---------------------------------------------------------------- --plugin module:attribute


def test_a_class_a_function_and_an_object_can_be_named(folder: Path) -> None:
    source = f"{RACK}\n\ndef make(handle):\n    return Rack(handle=handle)\n\n\nready = Rack()\n"
    (folder / "rack_of_tests.py").write_text(source)

    assert load_plugin("rack_of_tests:Rack", HANDLE).handle is HANDLE
    assert load_plugin("rack_of_tests:make", HANDLE).handle is HANDLE
    assert load_plugin("rack_of_tests:ready", HANDLE).handle is None


def test_a_file_in_the_current_folder_is_found_and_the_path_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside_the_shell.py").write_text(RACK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "beside_the_shell", raising=False)
    before = list(sys.path)

    assert load_plugin("beside_the_shell:Rack", HANDLE).name == "Rack"
    assert sys.path == before
    monkeypatch.delitem(sys.modules, "beside_the_shell")


@pytest.mark.parametrize("spec", ["module", "module:", ":attribute", ""])
def test_half_a_spec_is_refused(spec: str) -> None:
    with pytest.raises(ConfigError, match="--plugin: must be MODULE:ATTRIBUTE"):
        load_plugin(spec, HANDLE)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import no_such_module_at_all", "ModuleNotFoundError: No module named"),
        ("def broken(:", "SyntaxError: "),
    ],
)
def test_an_error_while_importing_is_reported_as_python_tells_it(
    folder: Path, source: str, told: str
) -> None:
    (folder / "rack_of_tests.py").write_text(source)

    with pytest.raises(ConfigError) as caught:
        load_plugin("rack_of_tests:Rack", HANDLE)

    assert str(caught.value).startswith(f"--plugin: cannot be imported: {told}")


def test_a_module_that_is_nowhere_is_reported() -> None:
    with pytest.raises(ConfigError, match="No module named 'nowhere_to_be_found'"):
        load_plugin("nowhere_to_be_found:X", HANDLE)


def test_a_misspelled_attribute_comes_with_the_one_that_was_meant(folder: Path) -> None:
    (folder / "rack_of_tests.py").write_text(RACK)

    with pytest.raises(ConfigError) as caught:
        load_plugin("rack_of_tests:Rak", HANDLE)

    assert str(caught.value) == (
        "--plugin: module rack_of_tests has no such attribute, got 'Rak' (did you mean 'Rack'?)"
    )


def test_what_is_no_plugin_is_refused_with_where_it_came_from(folder: Path) -> None:
    (folder / "rack_of_tests.py").write_text("class Rack:\n    name = 'Rack'\n")

    with pytest.raises(ConfigError, match=r"--plugin: plugin Rack: has no extension point"):
        load_plugin("rack_of_tests:Rack", HANDLE)


# ---------------------------------------------------------------- constructors


def test_a_constructor_gets_what_its_parameters_ask_for() -> None:
    offered = {"args": 1, "handle": 2}

    assert instantiate(lambda **rest: rest, 1, 2) == {}  # type: ignore[arg-type]
    assert instantiate(lambda args: {"args": args}, 1, 2) == {"args": 1}  # type: ignore[arg-type]
    assert instantiate(lambda handle, args: {"args": args, "handle": handle}, 1, 2) == offered  # type: ignore[arg-type]
    assert instantiate(lambda depth=5, **rest: (depth, rest), 1, 2) == (5, {})  # type: ignore[arg-type]


def test_a_constructor_that_asks_for_more_is_refused() -> None:
    class Greedy:
        def __init__(self, args: Any, cluster: Any, secret: Any) -> None: ...

    with pytest.raises(ConfigError) as caught:
        instantiate(Greedy, None, HANDLE)

    assert "may ask for args and handle, nothing else, got ['cluster', 'secret']" in str(
        caught.value
    )
    assert "Greedy" in (caught.value.path or "")


def test_a_constructor_that_raises_is_reported_as_a_fault_of_the_plugin() -> None:
    class Broken:
        def __init__(self, args: Any) -> None:
            self.depth = args["depth"]

    with pytest.raises(ConfigError, match=r"Broken: cannot be created: TypeError: 'NoneType'"):
        instantiate(Broken, None, HANDLE)


def test_an_exception_of_a_plugin_module_has_its_file_and_line(folder: Path) -> None:
    file = folder / "rack_of_lines.py"
    file.write_text("ROWS = 3\nSIZE = ROWS / 0\n")

    with pytest.raises(ConfigError) as caught:
        load_plugin("rack_of_lines:Rack", HANDLE)

    assert f"ZeroDivisionError: division by zero ({file}:2)" in str(caught.value)


def test_a_constructor_that_exits_is_a_fault_of_the_plugin_too() -> None:
    def leave(args: Any) -> Any:
        del args
        sys.exit("bye")

    with pytest.raises(ConfigError, match="leave: cannot be created: SystemExit: bye"):
        instantiate(leave, None, HANDLE)


def test_a_constructor_may_say_itself_what_is_wrong_with_its_arguments() -> None:
    class Picky:
        def __init__(self, args: Any) -> None:
            raise ConfigError("must be positive", path="depth", value=args)

    with pytest.raises(ConfigError, match=r"^depth: must be positive, got -1$"):
        instantiate(Picky, -1, HANDLE)
