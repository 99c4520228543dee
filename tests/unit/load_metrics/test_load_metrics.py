"""Numbers from elsewhere: fetched beside the decisions, believed for a while, never waited for."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from mooring.clock import VirtualClock, seeded_random
from mooring.errors import ConfigError, PluginError
from mooring.load_metrics import MetricCache, MetricFile, MetricsApi, Prometheus, measured_load
from mooring.load_metrics.sources import MeasuringError
from mooring.scheduler.plugin_tasks import run_background
from mooring.simulation.offline import OfflineHandle
from mooring.state.cache import Cache
from mooring.testing import make_node


class Scripted:
    """A source that says one thing after the other."""

    name = "script"

    def __init__(self, *answers: Mapping[str, float] | Exception) -> None:
        self.answers = list(answers)
        self.is_closed = False

    async def fetch(self) -> Mapping[str, float]:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        self.is_closed = True


def test_numbers_are_believed_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    cache = MetricCache(
        Scripted({"a": 1.0, "b": math.nan}, MeasuringError("no"), MeasuringError("no"), {"a": 2.0}),
        stale_s=60,
    )

    async def refresh() -> None:
        await cache.refresh(clock.monotonic_s)

    assert cache.fresh_values(clock.monotonic_s()) == {}
    asyncio.run(refresh())
    assert cache.fresh_values(clock.monotonic_s()) == {"a": 1.0}
    clock.advance(60)
    asyncio.run(refresh())
    assert cache.fresh_values(clock.monotonic_s()) == {"a": 1.0}
    clock.advance(1)
    asyncio.run(refresh())
    assert cache.fresh_values(clock.monotonic_s()) == {}
    with caplog.at_level(logging.INFO):
        asyncio.run(refresh())
    assert cache.fresh_values(clock.monotonic_s()) == {"a": 2.0}
    assert (cache.fetched, cache.failed, cache.version) == (2, 2, 2)
    # The outage was said once, and its end.
    said = [record.message for record in caplog.records]
    assert said == [
        "metric source unavailable, scoring without it",
        "metric source recovered",
    ]


def test_a_source_that_does_not_answer_is_given_up() -> None:
    class Silent(Scripted):
        async def fetch(self) -> Mapping[str, float]:
            await asyncio.Event().wait()
            raise AssertionError

    cache = MetricCache(Silent(), timeout_s=0.01)
    asyncio.run(cache.refresh(VirtualClock().monotonic_s))
    assert cache.failed == 1


def test_it_is_fetched_again_and_again_until_cancelled() -> None:
    source = Scripted({"a": 1.0}, {"a": 2.0}, {"a": 3.0})
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise asyncio.CancelledError

    cache = MetricCache(source, refresh_s=15, sleep=sleep)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cache.follow(handle()))
    assert cache.fetched == 3
    assert waits == [15, 15, 15]
    assert source.is_closed


def handle(*nodes: Any) -> Any:
    cache = Cache()
    for node in nodes:
        cache.put_node(node)
    return OfflineHandle(cache, VirtualClock(), seeded_random(0))


# ---------------------------------------------------------------- sources


@asynccontextmanager
async def answering(status: int, body: bytes, seen: list[str] | None = None) -> AsyncIterator[str]:
    """Runs a server with one response; yields its URL."""

    async def answer(request: web.Request) -> web.Response:
        if seen is not None:
            query = (await request.post())["query"]
            seen.append(f"{request.method} {request.path} {query!s}")
        return web.Response(status=status, body=body)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


def asked(status: int, body: bytes, seen: list[str] | None = None) -> Mapping[str, float]:
    async def ask() -> Mapping[str, float]:
        async with answering(status, body, seen) as url:
            source = Prometheus(url, "up", node_label="node")
            try:
                return await source.fetch()
            finally:
                await source.close()

    return asyncio.run(ask())


def vector(*samples: tuple[dict[str, str], Any]) -> bytes:
    result = [{"metric": metric, "value": value} for metric, value in samples]
    data = {"resultType": "vector", "result": result}
    return json.dumps({"status": "success", "data": data}).encode()


def test_prometheus_is_asked_for_a_vector_by_node() -> None:
    seen: list[str] = []
    body = vector(
        ({"node": "a:9100"}, [1, "0.25"]),
        ({"node": "b"}, [1, "NaN"]),
        ({"other": "c"}, [1, "1"]),
        ({"node": "d"}, "odd"),
    )
    found = asked(200, body, seen)
    assert seen == ["POST /api/v1/query up"]
    assert found["a"] == 0.25
    assert math.isnan(found["b"])
    assert math.isnan(found["d"])
    assert "c" not in found


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (400, b'{"status": "error", "error": "parse error"}', "the query failed: parse error"),
        (500, b"oh", "status 500: no JSON"),
        (200, b"[]", "status 200: no JSON object"),
        (200, b'{"status": "success", "data": {"resultType": "matrix"}}', "gives a matrix"),
        (302, b"", "status 302: no JSON"),
    ],
)
def test_other_answers_are_no_numbers(status: int, body: bytes, told: str) -> None:
    with pytest.raises(MeasuringError, match=told):
        asked(status, body)


def test_nobody_there() -> None:
    async def ask() -> None:
        source = Prometheus("http://127.0.0.1:1", "up")
        try:
            await source.fetch()
        finally:
            await source.close()

    with pytest.raises(MeasuringError, match="no answer: "):
        asyncio.run(ask())


def test_the_metrics_api_gives_the_share_in_use() -> None:
    class Told:
        """A handle that reads one answer."""

        snapshot = handle(make_node("a", allocatable={"cpu": "4", "memory": "8Gi"})).snapshot

        async def read(self, path: str) -> bytes:
            assert path == "/apis/metrics.k8s.io/v1beta1/nodes"
            usage = {"cpu": "1500m", "memory": "2Gi"}
            return json.dumps(
                {
                    "items": [
                        {"metadata": {"name": "a"}, "usage": usage},
                        {"metadata": {"name": "elsewhere"}, "usage": usage},
                        {"metadata": {}},
                    ]
                }
            ).encode()

    told: Any = Told()
    assert asyncio.run(MetricsApi(told).fetch()) == {"a": 0.375}
    assert asyncio.run(MetricsApi(told, "memory").fetch()) == {"a": 0.25}


def test_offline_there_is_no_metrics_api() -> None:
    with pytest.raises(PluginError, match="no API server"):
        asyncio.run(MetricsApi(handle()).fetch())


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "load.json"
    source = MetricFile(str(path))
    with pytest.raises(MeasuringError, match="No such file"):
        asyncio.run(source.fetch())
    path.write_text('{"a": 1, "b": 0.5}')
    assert asyncio.run(source.fetch()) == {"a": 1.0, "b": 0.5}
    path.write_text('{"a": null}')
    with pytest.raises(MeasuringError, match="no number"):
        asyncio.run(source.fetch())


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (None, "say where the numbers come from"),
        ({"file": {"path": "x"}, "metricsAPI": {}}, "say where the numbers come from"),
        ({"file": {}}, r"args.file: object missing required field `path`"),
        ({"files": {}}, "unknown field"),
        ({"file": {"path": "x"}, "prefer": "more"}, "prefer: must be least or most, got 'more'"),
        ({"file": {"path": "x"}, "staleSeconds": 0}, "staleSeconds: must be greater than 0, got 0"),
        ({"file": {"path": "x"}, "bounds": [1, 0]}, r"bounds: the first must be less"),
        ({"metricsAPI": {"resource": "gpu"}}, "must be cpu or memory, got 'gpu'"),
        ({"prometheus": {"url": "ftp://x", "query": "up"}}, "must begin with http"),
    ],
)
def test_args_that_cannot_be(args: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        measured_load(args, handle())


def test_args_that_can_be() -> None:
    sources: list[dict[str, Any]] = [
        {"prometheus": {"url": "http://p:9090", "query": "up", "nodeLabel": "node"}},
        {"metricsAPI": {}},
        {"file": {"path": "x"}},
    ]
    for source in sources:
        assert measured_load({**source, "prefer": "most"}, handle()).name == "MeasuredLoad"


# ---------------------------------------------------------------- beside the decisions


def test_a_plugin_that_fails_beside_the_decisions_is_begun_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Falters:
        name = "Falters"
        begun = 0

        async def background(self) -> None:
            self.begun += 1
            if self.begun == 1:
                raise RuntimeError("oh")
            if self.begun == 2:
                raise asyncio.CancelledError  # something of its own was cancelled
            await asyncio.Event().wait()

    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def run() -> int:
        plugin = Falters()
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(run_background(plugin, sleep))
            for _ in range(100):
                await asyncio.sleep(0)
            task.cancel()
        return plugin.begun

    assert asyncio.run(run()) == 3
    assert waits == [5.0, 5.0]
    assert "background of a plugin failed" in caplog.text
