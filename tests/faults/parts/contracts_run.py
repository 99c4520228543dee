"""Plugins with drawn methods that keep the contract of plugins, or break it at one place.

A plugin that keeps it is accepted, whatever its methods are made of; of another one the error says
what is wrong, and where. Plugins come from a registry, from an installed package, or from a module
that is named; modules and constructors may raise. Profiles of a few plugins need exactly one that
sorts the queue, one that binds, and a name for each.
"""

from __future__ import annotations

import functools
import importlib
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from mooring.clock import Rng, VirtualClock, seeded_random
from mooring.config.types import PluginEntry, Plugins, PluginSet
from mooring.config.types import Profile as ProfileConfig
from mooring.errors import ConfigError
from mooring.framework.runtime import registry as registry_module
from mooring.framework.runtime.plugin_checks import check_plugin
from mooring.framework.runtime.registry import Registry, build, load_plugin
from mooring.state import Change
from tests.faults.parts.contracts_flaws import FLAWS, Parts, method_of

PLUGINS: Final = 12
MODULE: Final = "drawn_plugins_of_a_run"
#: Groups of methods that a plugin has together.
GROUPS: Final = (
    *(("pre_enqueue",), ("pre_filter",), ("filter",), ("filter", "filter_node"), ("permit",)),
    *(("score",), ("score", "normalize"), ("score", "score_node"), ("reserve", "unreserve")),
    *(("pre_bind",), ("pre_bind", "pre_bind_pre_flight"), ("bind",), ("post_bind",)),
    *(("pre_filter", "add_pod", "remove_pod"), ("pre_filter", "apply_deltas"), ("less",)),
)
#: Names that resemble no extension point.
HELPERS: Final = ("compute", "cost_of", "refresh", "_fliter")
BODY: Final = """
class Sound:
    name = "Sound"
    def permit(self, cycle, node_name): return None

class WithArgs(Sound):
    name = "WithArgs"
    def __init__(self, args, handle, more=None, *rest, **options): self.got = args, handle

class Asks(Sound):
    def __init__(self, args, client): pass

class Raises(Sound):
    def __init__(self):
        raise ValueError("no licence")

class Refuses(Sound):
    def __init__(self):
        from mooring.errors import ConfigError
        raise ConfigError("is closed")

class Nameless:
    def permit(self, cycle, node_name): return None

def made(handle): return Sound()
sound = Sound()
"""


class Loaded(NamedTuple):
    """Something in the module, and the error that it is; "" = it is a plugin."""

    attribute: str
    text: str


LOADED: Final = (
    Loaded("Sound", ""),
    Loaded("WithArgs", ""),
    Loaded("made", ""),
    Loaded("sound", ""),
    Loaded("Asks", "Asks: a plugin's constructor may ask for args and handle, nothing else"),
    Loaded("Raises", "Raises: cannot be created: ValueError: no licence ("),
    Loaded("Refuses", "is closed"),
    Loaded("Nameless", "a plugin needs a name"),
)
#: What ``--plugin`` may be, besides.
SPECS: Final = (
    ("", "must be MODULE:ATTRIBUTE"),
    (MODULE, "must be MODULE:ATTRIBUTE"),
    (f"{MODULE}:", "must be MODULE:ATTRIBUTE"),
    (":Sound", "must be MODULE:ATTRIBUTE"),
    (f"{MODULE}:Soudn", "has no such attribute, got 'Soudn' (did you mean 'Sound'?)"),
    (f"{MODULE}:zzz", "has no such attribute, got 'zzz'"),
    ("absent_module_of_a_run:Sound", "cannot be imported: ModuleNotFoundError"),
    (f"{MODULE}_broken:Sound", f"cannot be imported: SyntaxError: '(' was never closed ({MODULE}"),
    (f"{MODULE}_raising:Sound", "cannot be imported: RuntimeError: too old ("),
    (f"{MODULE}_leaving:Sound", "cannot be imported: SystemExit: 3 ("),
)


class ContractsRun:
    """One run.

    Attributes:
        problems: Differences to the contract.
    """

    def __init__(self, seed: int, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.problems: list[str] = []
        self._rng, self._patch = seeded_random(seed), patch
        for suffix, text in (
            ("", BODY),
            ("_broken", "x = ("),
            ("_raising", "raise RuntimeError('too old')"),
            ("_leaving", "raise SystemExit(3)"),
        ):
            (folder / f"{MODULE}{suffix}.py").write_text(text, "utf-8")

    def run(self) -> None:
        """Compares some plugins, places of plugins and profiles."""
        for _ in range(PLUGINS):
            self._check_plugin()
        self._check_spec()
        self._check_installed()
        self._check_registry()
        self._check_profile()

    def _expect(self, what: str, call: Callable[[], Any], text: str) -> Any:
        """Calls a function that raises a ConfigError with a text, or, with "", nothing."""
        try:
            result = call()
        except ConfigError as error:
            if not text or text not in str(error):
                self.problems.append(f"{what}: {str(error)!r}, not {text!r}")
            return None
        if text:
            self.problems.append(f"{what} is accepted, not {text!r}")
        return result

    # -- single plugins ---------------------------------------------------------------------------

    def _check_plugin(self) -> None:
        rng = self._rng
        parts = drawn_parts(rng)
        text = rng.choice(FLAWS)(rng, parts) if rng.random() < 0.6 else ""
        plugin = parts.plugin()
        path = rng.choice((None, "plugins.filter"))
        result = self._expect(f"{parts}", lambda: check_plugin(plugin, path=path), text)
        if not text and result is not plugin:
            self.problems.append(f"{parts} becomes {result}")
        if path is not None and text:
            self._expect(f"{parts}", lambda: check_plugin(plugin, path=path), path)

    # -- where plugins are ------------------------------------------------------------------------

    def _check_spec(self) -> None:
        rng, handle = self._rng, object()
        if rng.random() < 0.5:
            spec, text = rng.choice(SPECS)
            self._expect(spec, lambda: load_plugin(spec, handle), text)  # type: ignore[arg-type]
            return
        attribute, text = rng.choice(LOADED)
        spec = f"{MODULE}:{attribute}"
        plugin = self._expect(spec, lambda: load_plugin(spec, handle), text)  # type: ignore[arg-type]
        if attribute == "WithArgs" and plugin is not None and plugin.got != (None, handle):
            self.problems.append(f"a plugin gets {plugin.got}")

    def _check_installed(self) -> None:
        """Creates a plugin of an installed package."""
        attribute, text = self._rng.choice((*LOADED, Loaded("absent", "cannot be imported")))
        points = (EntryPoint(attribute, f"{MODULE}:{attribute}", "mooring.plugins"),)

        def entry_points(group: str, name: str) -> Any:
            is_there = group == "mooring.plugins" and name == attribute
            return points if is_there else ()

        self._patch.setattr(registry_module, "entry_points", entry_points)
        registry, handle, args = Registry({}), object(), object()
        if attribute in ("made", "sound"):
            text = "a plugin must be registered under its own name"
        plugin = self._expect(attribute, lambda: registry.create(attribute, args, handle), text)  # type: ignore[arg-type]
        if attribute == "WithArgs" and plugin is not None and plugin.got != (args, handle):
            self.problems.append(f"a plugin gets {plugin.got}")
        self._expect("other", lambda: registry.create("Other", args, handle), "unknown plugin")  # type: ignore[arg-type]

    def _check_registry(self) -> None:
        handle: Any = None
        sound = Parts("Sound", {"permit": method_of("permit")})
        registry = Registry({"Sound": lambda args, handle: sound.plugin()})
        text = "unknown plugin, got 'Sounds' (did you mean 'Sound'?)"
        self._expect("a typo", lambda: registry.create("Sounds", None, handle), text)
        self._expect("no typo", lambda: registry.create("Xyz", None, handle), "got 'Xyz'")
        if "Sound" not in registry or "Sounds" in registry or "NodeName" not in registry:
            self.problems.append("the registry has other plugins")

    # -- profiles ---------------------------------------------------------------------------------

    def _check_profile(self) -> None:
        """Builds a profile with too many or too few plugins."""
        rng = self._rng
        names = {
            "less": rng.choice((1, 1, 1, 0, 2)),
            "bind": rng.choice((1, 1, 2, 0)),
            "permit": rng.randint(0, 2),
        }
        factories: dict[str, Any] = {}
        entries = []
        for method, count in names.items():
            for number in range(count):
                name = f"{method.title()}{number}"
                plugin = Parts(name, {method: method_of(method)}).plugin()
                factories[name] = functools.partial(lambda it, args, handle: it, plugin)
                entries.append(PluginEntry(name=name))
        text = ""
        if names["less"] != 1:
            sorters = [f"Less{number}" for number in range(names["less"])]
            text = f"plugins.queueSort: exactly one queueSort plugin must be enabled, got {sorters}"
        elif not names["bind"]:
            text = "plugins.bind: at least one bind plugin must be enabled"
        extra: list[Any] = []
        draw = rng.random()
        if draw < 0.2:
            entries.append(PluginEntry(name="Absent"))
            text = f"plugins.multiPoint.enabled[{len(entries) - 1}].name: unknown plugin"
        elif draw < 0.5:
            name = rng.choice(("Twice", "NodeName", *factories)[:3])
            plugin = Parts(name, {"permit": method_of("permit")}).plugin()
            extra = [plugin, plugin] if name == "Twice" else [plugin]
            text = f"--plugin: another plugin has this name, got {name!r}"
        profile = ProfileConfig(
            scheduler_name="drawn", plugins=Plugins(multi_point=PluginSet(enabled=tuple(entries)))
        )
        handle: Any = None

        def built() -> Any:
            registry = Registry(factories)
            return build(profile, registry, handle, clock=VirtualClock(), extra=extra)

        self._expect(f"a profile of {names}", built, text)


def drawn_parts(rng: Rng) -> Parts:
    """Returns the parts of a plugin that keeps the contract."""
    methods: dict[str, Any] = {}
    for group in rng.sample(GROUPS, rng.randint(1, 4)):
        methods |= {method: method_of(method, rng.choice) for method in group}
    parts = Parts(rng.choice(("Drawn", "a.b/C")), methods)
    if rng.random() < 0.3:
        methods["sign"] = method_of("sign")
        parts.attributes["reads"] = Change.USAGE | Change.ALLOCATABLE
        if rng.random() < 0.5:
            parts.attributes["amounts_only"] = rng.choice((True, False))
    if "normalize" in methods and rng.random() < 0.5:
        parts.attributes["normalized_zero"] = rng.choice((0, 100, 37))
    for name in HELPERS:
        if rng.random() < 0.2:
            methods[name] = lambda self: None
    return parts


def run_contracts(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a plugin is accepted, or refused, and should not be.
    """
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        importlib.invalidate_caches()
        run = ContractsRun(seed, Path(folder), patch)
        try:
            run.run()
        finally:
            for name in [name for name in sys.modules if name.startswith(MODULE)]:
                del sys.modules[name]
    assert not run.problems, run.problems[0]
