"""The import contracts in pyproject.toml: every one is checked, and none can be bypassed."""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Any

import grimp
import pytest
from importlinter import configuration
from importlinter.contracts.acyclic_siblings import AcyclicSiblingsContract
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.independence import IndependenceContract
from importlinter.contracts.layers import LayersContract
from importlinter.contracts.protected import ProtectedContract
from importlinter.domain.contract import Contract

from tests.helpers.paths import ROOT

configuration.configure()

SOURCE = ROOT / "src" / "mooring"
CLASSES: dict[str, type[Contract]] = {
    "acyclic_siblings": AcyclicSiblingsContract,
    "forbidden": ForbiddenContract,
    "independence": IndependenceContract,
    "layers": LayersContract,
    "protected": ProtectedContract,
}
OPTIONS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"][
    "importlinter"
]
CONTRACTS: dict[str, dict[str, Any]] = {
    options["name"]: options for options in OPTIONS["contracts"]
}

#: Contract -> an import that breaks it.
BREACHES = {
    "Layers: a line imports only lines below it": ("mooring.state.cache", "mooring.queue.heap"),
    "No package has a circle among its modules": (
        "mooring.queue.heap",
        "mooring.queue.scheduling_queue",
    ),
    "Layers of the framework": ("mooring.framework.interface", "mooring.framework.runtime.bind"),
    "Layers of the embedded API server": (
        "mooring.apiserver.storage.store",
        "mooring.apiserver.registry.registry",
    ),
    "The embedded API server does not know the scheduler": (
        "mooring.apiserver.server",
        "mooring.state.cache",
    ),
    "The core does not know the client": (
        "mooring.plugins.node_name",
        "mooring.client.rest.client",
    ),
    "The cache is changed only by its owners": (
        "mooring.plugins.inter_pod_affinity.hints",
        "mooring.state.cache",
    ),
    "Parts of the cache's tables are imported only by the state": (
        "mooring.framework.node_view",
        "mooring.state.columns.interner",
    ),
    "Plugins do not import each other": (
        "mooring.plugins.node_name",
        "mooring.plugins.volume_binding.claims",
    ),
    "Deciding never waits": ("mooring.queue.backoff_queue", "asyncio"),
    "Sockets and HTTP only at the border": ("mooring.simulation.progress", "socket"),
    "No threads and no processes": ("mooring.client.rest.client", "concurrent"),
    "Time and randomness come from the clock": ("mooring.virtual_loop", "time"),
    "numpy only where columns are": ("mooring.objects.pod", "numpy"),
    "Files cannot run code": ("mooring.recordings.format", "pickle"),
    "YAML is read and written in one package": ("mooring.config.load", "yaml"),
}


@cache
def graph_of_source() -> grimp.ImportGraph:
    """Returns every import in the package, also those inside functions and for type checkers."""
    return grimp.build_graph("mooring", include_external_packages=True, cache_dir=None)


def is_kept(options: dict[str, Any], graph: grimp.ImportGraph) -> bool:
    """Checks one contract on a graph of imports."""
    settings = {
        key: str(value) if isinstance(value, bool) else value  # as import-linter reads TOML
        for key, value in options.items()
        if key not in ("name", "type")
    }
    contract = CLASSES[options["type"]](
        name=options["name"],
        session_options={
            "root_packages": OPTIONS["root_packages"],
            "include_external_packages": "True",
        },
        contract_options=settings,
    )
    return bool(contract.check(graph, verbose=False).kept)


@pytest.mark.parametrize("name", CONTRACTS)
def test_contract_holds(name: str) -> None:
    assert is_kept(CONTRACTS[name], graph_of_source())


@pytest.mark.parametrize("name", CONTRACTS)
def test_contract_is_broken_by_one_forbidden_import(name: str) -> None:
    importer, imported = BREACHES[name]
    graph = graph_of_source()
    if imported not in graph.modules:
        graph.add_module(imported, is_squashed=True)
    assert importer in graph.modules
    graph.add_import(importer=importer, imported=imported)
    try:
        assert not is_kept(CONTRACTS[name], graph)
    finally:
        graph.remove_import(importer=importer, imported=imported)


def test_no_contract_has_exceptions() -> None:
    options = {key for contract in CONTRACTS.values() for key in contract}
    assert not {key for key in options if key.startswith(("ignore", "skip", "unmatched"))}
    assert OPTIONS["exclude_type_checking_imports"] is False


#: Contract -> the modules that it leaves out, because they may import what it forbids.
ALLOWED = {
    "Deciding never waits": {
        *("__main__", "apiserver", "cli", "client", "clock", "devcluster", "errors"),
        *("connections", "event_loop", "explain", "extender_server", "extenders", "learn"),
        *("load_metrics", "log"),
        *(
            "scheduler",
            "serving",
            "simulation",
            "testing",
            "virtual_loop",
            "watchdog",
            "serial_executor",
        ),
        *("experiments", "scenario", "study", "ui"),
    },
    "Sockets and HTTP only at the border": {
        *("client", "extenders", "extender_server", "apiserver", "load_metrics", "event_loop"),
        "connections",
        *("serving", "ui.configuration_routes", "ui.replies", "ui.server"),
    },
    # A loop that hangs can be watched from a thread only; a server for tests runs beside them; a
    # long write of the API server would keep its loop.
    "No threads and no processes": {
        *("study.server", "testing.controlplane", "watchdog", "serial_executor"),
        # A run of a scenario takes a processor for itself.
        "experiments",
    },
    "Time and randomness come from the clock": {"clock"},
    "numpy only where columns are": {
        *("framework", "plugins", "state"),
        # The lesson on PreScore writes a plugin on columns; the conformance kit compares columns.
        *("learn.steps.step_4", "testing.conformance"),
        # Traces and measures of a million pods are columns, too; a bootstrap draws 10 000 samples.
        *("experiments", "scenario", "statistics", "traces"),
    },
    # It shows that a plugin's state can be pickled, and reads back only what it wrote.
    "Files cannot run code": {"testing.conformance"},
    "YAML is read and written in one package": {"objects.files"},
}


@pytest.mark.parametrize("name", ALLOWED)
def test_every_module_is_in_the_contract_or_left_out_on_purpose(name: str) -> None:
    listed = {module.removeprefix("mooring.") for module in CONTRACTS[name]["source_modules"]}
    assert not listed & ALLOWED[name]
    covered = listed | ALLOWED[name]
    modules = [
        path.relative_to(SOURCE).with_suffix("").as_posix().replace("/", ".")
        for path in SOURCE.rglob("*.py")
        if path.name != "__init__.py"
    ]
    assert [name for name in sorted(modules) if not _prefixes(name) & covered] == []


def _prefixes(module: str) -> set[str]:
    """Returns the module and the packages that it is in."""
    parts = module.split(".")
    return {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
