"""Pods go where a real Prometheus says that there is little load, and somewhere if it is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from mooring.apiserver import ApiServer
from mooring.client import Client
from mooring.client.transport.transport import InProcessTransport
from mooring.clock import SystemClock, seeded_random
from mooring.config import from_document
from mooring.load_metrics import Prometheus
from mooring.load_metrics.sources import MeasuringError
from mooring.scheduler.service import Service
from mooring.testing import make_node, make_pod
from tests.integration.processes import free_port
from tests.integration.prometheus import prometheus_program, running
from tests.integration.schedulers import run, until

__all__ = ["prometheus_program"]

NODES = ("node-0", "node-1", "node-2", "node-3")

#: What node_exporter's users ask: the share of a node's cpu that is not idle.
QUERY = '1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[2s]))'


class Exporter:
    """Metrics as from node_exporter, with prepared loads: seconds of cpu by mode."""

    def __init__(self) -> None:
        self.load = dict.fromkeys(NODES, 0.5)
        self._idle_s = dict.fromkeys(NODES, 0.0)
        self._clock = SystemClock()
        self._told_s = self._clock.monotonic_s()
        self.port = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_get("/{node}", self._metrics)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.port = runner.addresses[0][1]
            yield
        finally:
            await runner.cleanup()

    async def _metrics(self, request: web.Request) -> web.Response:
        now_s = self._clock.monotonic_s()
        for name, load in self.load.items():
            self._idle_s[name] += (1 - load) * (now_s - self._told_s)
        self._told_s = now_s
        idle = self._idle_s[request.match_info["node"]]
        text = "# TYPE node_cpu_seconds_total counter\n"
        text += f'node_cpu_seconds_total{{cpu="0",mode="idle"}} {idle:.6f}\n'
        return web.Response(text=text)


async def measured(source: Prometheus, expected: Mapping[str, float]) -> None:
    """Returns when Prometheus is there, and says so; the test has a deadline."""
    while True:
        try:
            found = await source.fetch()
        except MeasuringError:  # it is starting
            found = {"": 0.0}
        if found.keys() == expected.keys() and all(
            abs(found[name] - expected[name]) < 0.1 for name in expected
        ):
            return
        await asyncio.sleep(0.1)


def configuration(url: str) -> Any:
    args = {
        "prometheus": {"url": url, "query": QUERY},
        "refreshSeconds": 0.1,
        "staleSeconds": 1,
        "bounds": [0, 1],
    }
    enabled = [{"name": "MeasuredLoad", "weight": 50}]
    return from_document(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {
                    "plugins": {"multiPoint": {"enabled": enabled}},
                    "pluginConfig": [{"name": "MeasuredLoad", "args": args}],
                }
            ],
        }
    )


def test_pods_follow_the_load_and_an_outage_stops_nobody(
    prometheus_program: Path, tmp_path: Path
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"

    async def main() -> None:
        clock, rng = SystemClock(), seeded_random(1)
        api = ApiServer(clock, rng)
        client = Client(InProcessTransport(api.handle), rng=rng)
        for name in NODES:
            await client.create(make_node(name))
        exporter, source = Exporter(), Prometheus(url, QUERY)
        service = Service(client, configuration(url), clock=clock, rng=rng)
        (plugin,) = service.profiles["default-scheduler"].profile.background()
        keeper = plugin._measurements

        async def placed(name: str) -> str:
            """Returns where the next pod goes."""
            await client.create(make_pod(name, requests={"cpu": "100m"}))
            pods = service.informers["Pod"].objects
            key = f"default/{name}"
            await until(lambda: key in pods and pods[key].spec.node_name)
            return str(pods[key].spec.node_name)

        async def fetched_again() -> None:
            before = keeper.fetched
            await until(lambda: keeper.fetched >= before + 2)

        async with exporter.serving(), asyncio.TaskGroup() as tasks:
            working = tasks.create_task(service.run())
            await service.wait_until_synced()
            assert await placed("before") in NODES  # there is no Prometheus yet
            targets = {name: f"127.0.0.1:{exporter.port}/{name}" for name in NODES}
            with running(prometheus_program, tmp_path, port, targets) as process:
                for number, idle in enumerate(("node-2", "node-0", "node-3")):
                    exporter.load = {name: 0.1 if name == idle else 0.9 for name in NODES}
                    await measured(source, exporter.load)
                    await fetched_again()
                    assert await placed(f"pod-{number}") == idle
                process.kill()
                process.wait()
                await until(lambda: not keeper.fresh_values(clock.monotonic_s()))
            assert await placed("after") in NODES
            assert keeper.failed > 0
            service.stop()
            await working
        await source.close()

    run(main)


def test_what_is_no_vector_is_reported(prometheus_program: Path, tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"

    async def main() -> None:
        with running(prometheus_program, tmp_path, port, {}):
            good = Prometheus(url, "vector(1)")
            await measured(good, {})
            for query, told in (("1", "gives a scalar, not a vector"), ("(", "parse error")):
                source = Prometheus(url, query)
                with pytest.raises(MeasuringError, match=told):
                    await source.fetch()
                await source.close()
            await good.close()

    run(main)
