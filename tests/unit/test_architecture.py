"""Who may import what, also for packages that do not exist yet: the rules of the design page.

import-linter checks the layers; here are the rules about single modules, which must hold from the
first line of a package that is still to come.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "mooring"


class Rule(NamedTuple):
    """These modules are imported only by what is ``allowed``, or by all but ``forbidden``."""

    name: str
    modules: tuple[str, ...]
    #: First parts of paths below the package, or whole paths; None: all but ``forbidden``.
    allowed: frozenset[str] | None = None
    forbidden: frozenset[str] = frozenset()


CORE = frozenset({"framework", "plugins", "queue", "state"})

RULES = [
    Rule("the core does not know the client", ("mooring.client",), forbidden=CORE),
    Rule(
        "the embedded API server does not know the scheduler",
        (
            "mooring.scheduler",
            "mooring.framework",
            "mooring.queue",
            "mooring.state",
            "mooring.client",
        ),
        forbidden=frozenset({"apiserver"}),
    ),
    Rule(
        "numpy only where columns are",
        ("numpy",),
        # The conformance kit compares a plugin's columns with those of its scalar twin; the lesson
        # on PreScore is a plugin's author.
        allowed=frozenset(
            {
                *("state", "plugins", "framework", "sim"),
                *("testing/conformance.py", "learn/steps/step_4.py"),
            }
        ),
    ),
    Rule(
        "sockets and HTTP only at the border",
        (
            "aiohttp",
            "http",
            "httpx",
            "requests",
            "select",
            "selectors",
            "socket",
            "socketserver",
            "ssl",
            "urllib.request",
            "urllib3",
            "uvloop",
        ),
        allowed=frozenset({"client", "extender", "serving", "apiserver", "measured"}),
    ),
    Rule("deciding never waits", ("asyncio",), forbidden=CORE | {"objects"}),
    Rule(
        "threads only for the lease and the watchdog",
        ("threading", "_thread", "concurrent.futures", "multiprocessing"),
        allowed=frozenset({"client/leases.py", "serving/watchdog.py"}),
    ),
    Rule(
        "time and chance come from the clock",
        ("time", "random", "uuid", "secrets", "numpy.random"),
        allowed=frozenset({"clock.py"}),
    ),
    Rule(
        "files cannot run code",
        ("pickle", "marshal", "shelve", "runpy"),
        # It shows that a plugin's state can be pickled, and reads back only what it wrote.
        allowed=frozenset({"testing/conformance.py"}),
    ),
    Rule(
        "one reader of YAML, one writer",
        ("yaml",),
        allowed=frozenset({"objects/documents.py", "objects/yaml_text.py", "cli"}),
    ),
]


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield every module that a file imports, also inside of functions and for annotations."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def breaches(rule: Rule, path: Path, source: str) -> list[str]:
    """The imports of one file (path below the package) that a rule forbids."""
    names = {path.parts[0], path.parts[0].removesuffix(".py"), path.as_posix()}
    if rule.allowed is not None and names & rule.allowed:
        return []
    if rule.allowed is None and not names & rule.forbidden:
        return []
    return [
        f"{path} imports {module}"
        for module in imported(ast.parse(source))
        if any(module == banned or module.startswith(banned + ".") for banned in rule.modules)
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rule_holds(rule: Rule) -> None:
    found = [
        breach
        for path in sorted(SOURCE.rglob("*.py"))
        for breach in breaches(rule, path.relative_to(SOURCE), path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("rule", "path", "source"),
    [
        (0, "plugins/node_name.py", "from mooring.client import rest"),
        (1, "apiserver/http.py", "import mooring.state.cache"),
        (2, "objects/pod.py", "import numpy as np"),
        (3, "sim/live.py", "def f():\n    import socket"),
        (4, "queue/backoff.py", "from asyncio import Event"),
        (5, "client/rest.py", "from concurrent.futures import ThreadPoolExecutor"),
        (6, "sim/loop.py", "from time import monotonic"),
        (6, "state/nodes.py", "from numpy import random"),
        (7, "sim/recording.py", "import pickle"),
        (8, "config/load.py", "import yaml"),
    ],
)
def test_rule_bites(rule: int, path: str, source: str) -> None:
    assert len(breaches(RULES[rule], Path(path), source)) >= 1


@pytest.mark.parametrize(
    ("rule", "path", "source"),
    [
        (0, "scheduler.py", "import mooring.client"),
        (2, "state/nodes.py", "import numpy as np"),
        (4, "scheduler.py", "import asyncio"),
        (5, "client/leases.py", "import threading"),
        (6, "clock.py", "import time, random"),
        (6, "sim/loop.py", "import timeit"),
    ],
)
def test_rule_lets_pass(rule: int, path: str, source: str) -> None:
    assert breaches(RULES[rule], Path(path), source) == []


def test_every_top_level_name_has_a_layer() -> None:
    listed = {
        *("cli", "sim", "testing", "serving", "apiserver", "scheduler", "events", "preemption"),
        *(
            "service",
            "live",
            "learn",
            "profiles",
            "measured",
            "extender",
            "plugins",
            "queue",
            "framework",
            "state",
            "client",
            "config",
        ),
        *("objects", "cluster_event", "decision", "clock", "errors", "log", "metrics"),
        *("__init__", "__main__", "data"),
    }
    found = {
        path.stem
        for path in SOURCE.iterdir()
        if path.suffix == ".py" or (path.is_dir() and path.name != "__pycache__")
    }
    assert found <= listed
