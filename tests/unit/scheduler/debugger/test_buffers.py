"""Every container with a limit in the running scheduler has a gauge (M2)."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import mooring
from bench.soak_samples import walk
from mooring.clock import SystemClock
from mooring.metrics.options import MetricsOptions
from mooring.metrics.registry import Metrics
from mooring.scheduler.debugger.buffers import LIMITS, buffers
from mooring.state.columns.caches import LRUCache
from mooring.state.tables.shared_parts import InternPool
from mooring.testing import make_node, make_pod
from tests.helpers.running_scheduler import run_scheduler, virtually

#: The packages of a running scheduler.
PACKAGES = (
    *("client", "dra", "extenders", "framework", "load_metrics", "metrics", "plugins", "queue"),
    *("scheduler", "serving", "state"),
)

#: Containers with a limit and without a gauge, and why.
EXEMPT = {
    ("Vector", "children"): "its length is the number of series of a family in /metrics",
    ("CpuProfile", "samples"): "exists while /debug/pprof/profile is answered",
    ("PageTokens", "_received"): "exists while a list is read",
}


@virtually
async def test_every_cache_pool_and_bounded_deque_of_the_service_has_a_gauge() -> None:
    async with run_scheduler(make_node("a")) as life:
        await life.create(make_pod("web"))
        await life.settle()

        names = set(buffers(life.service))

        for path, part in walk(life.service):
            if isinstance(part, (LRUCache, InternPool)) or getattr(part, "maxlen", None):
                attribute = path.rpartition(".")[2].lstrip("_")
                assert any(name.endswith(f".{attribute}") for name in names), path


@virtually
async def test_lengths_and_limits_are_exposed_and_below_each_other() -> None:
    metrics = Metrics(MetricsOptions(), clock=SystemClock())
    async with run_scheduler(make_node("a"), metrics=metrics) as life:
        await life.create(make_pod("web"), make_pod("big", requests={"cpu": "40"}))
        await life.settle()

        text = metrics.expose()[0].decode()

        assert 'mooring_buffer_entries{buffer="Recorder.series"} 2' in text
        assert 'mooring_buffer_limit_entries{buffer="Recorder.series"} 10000' in text
        for buffer in buffers(life.service).values():
            assert buffer.limit is None or buffer.length <= buffer.limit


def test_containers_of_one_name_are_added_up() -> None:
    class Owner:
        __module__ = "mooring.test"

        def __init__(self, *parts: Owner) -> None:
            self.parts = dict(enumerate(parts))
            self.recent: deque[int] = deque([1, 2], maxlen=4)
            self.unlimited: deque[int] = deque([1, 2])

    found = buffers(Owner(Owner(), Owner()))

    assert found == {"Owner.recent": ("Owner.recent", 6, 12)}


def test_containers_of_other_libraries_are_no_buffers() -> None:
    class Foreign:
        limit = 7

        def __len__(self) -> int:
            return 3

    class Ours(Foreign):
        __module__ = "mooring.test"

    class Owner:
        __module__ = "mooring.test"

        def __init__(self) -> None:
            self.foreign = Foreign()
            self.ours = Ours()

    assert buffers(Owner()) == {"Owner.ours": ("Owner.ours", 3, 7)}


def test_every_container_that_is_compared_with_a_limit_has_a_gauge() -> None:
    compared = {
        (kind.name, attribute): limit
        for kind in _classes()
        for attribute, limit in _compared_with_limits(kind)
    }
    without_gauge = compared.keys() - EXEMPT.keys() - LIMITS.keys()

    assert without_gauge == set()
    assert len(compared) > 10
    for container, limit in LIMITS.items():
        assert compared.get(container, limit) == limit


def _classes() -> Iterator[ast.ClassDef]:
    root = Path(mooring.__file__).parent
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            nodes = ast.walk(ast.parse(path.read_text()))
            yield from (node for node in nodes if isinstance(node, ast.ClassDef))


def _compared_with_limits(kind: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Yields (attribute, limit) for each ``len(self.attribute) >= NAME_MAX``."""
    for node in ast.walk(kind):
        match node:
            case ast.Compare(
                left=ast.Call(
                    func=ast.Name(id="len"),
                    args=[ast.Attribute(value=ast.Name(id="self"), attr=attribute)],
                ),
                comparators=[ast.Name(id=limit)],
            ) if limit.endswith("_MAX"):
                yield attribute, limit
