"""The real kube-scheduler asks an extender of mooring; the same plugin in mooring says the same."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mooring.client import Client, Informer, ObjectChange
from mooring.client.transport.auth import connect
from mooring.client.transport.kubeconfig import read_kubeconfig
from mooring.clock import SystemClock, seeded_random
from mooring.config import from_document
from mooring.extender_server.cluster_cache import ClusterCache
from mooring.extender_server.http import serve
from mooring.extender_server.options import ServeOptions
from mooring.extender_server.plugin_extender import Extender
from mooring.objects import Node, Pod
from mooring.simulation.driver import Driver
from mooring.testing import make_node, make_pod
from mooring.testing.controlplane import ControlPlane
from tests.integration.deterministic_plugin import Serial, distance
from tests.integration.processes import free_port
from tests.integration.schedulers import run

PODS = 200
TOKEN = "a-token-of-the-test"
WEIGHT = 100
#: The plugin refuses nodes that are farther.
REACH = 10


def nodes() -> list[Node]:
    """Returns twenty nodes for twelve pods each: the near ones fill up."""
    room = {"cpu": "4", "memory": "16Gi", "pods": "12"}
    return [make_node(f"node-{number:02}", allocatable=room) for number in range(20)]


def pods() -> list[Pod]:
    return [make_pod(f"pod-{number}", requests={"cpu": "100m"}) for number in range(PODS)]


def configuration(**parts: object) -> dict[str, object]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "parallelism": 1,
        "percentageOfNodesToScore": 100,
        **parts,
    }


def in_mooring() -> dict[str, str]:
    """Returns where the pods go with the plugin in mooring's own profile."""
    enabled = {"enabled": [{"name": "Serial", "weight": WEIGHT}]}
    config = from_document(configuration(profiles=[{"plugins": {"multiPoint": enabled}}]))
    driver = Driver(
        nodes(), config=config, plugins=[Serial()], rng=seeded_random(0), clock=SystemClock()
    )
    found = {}
    for pod in pods():
        outcome = driver.attempt(pod)
        driver.apply(outcome)
        found[pod.metadata.name] = outcome.node or ""
    return found


@asynccontextmanager
async def connected(plane: ControlPlane) -> AsyncIterator[Client]:
    access = read_kubeconfig([str(plane.kubeconfig("admin"))])
    transport = connect(access, clock=SystemClock(), environment=os.environ)
    try:
        yield Client(transport, rng=seeded_random(3))
    finally:
        await transport.close()


class Watch:
    """The node of each pod."""

    def __init__(self, client: Client) -> None:
        self.nodes: dict[str, str] = {}
        self._changed = asyncio.Event()
        self.informer = Informer(
            client, "Pod", self._on_pod, clock=SystemClock(), rng=seeded_random(4)
        )

    def _on_pod(self, change: ObjectChange) -> None:
        if change.new is not None and change.new.spec.node_name:
            self.nodes[change.new.metadata.name] = change.new.spec.node_name
            self._changed.set()

    async def placed(self, name: str) -> None:
        while name not in self.nodes:
            self._changed.clear()
            await self._changed.wait()


async def under_kube_scheduler(
    plane: ControlPlane, options: ServeOptions, *, is_capable: bool
) -> dict[str, str]:
    """Returns where they go if kube-scheduler asks the plugin over HTTP."""
    clock = SystemClock()
    async with connected(plane) as client, asyncio.TaskGroup() as tasks:
        watch = Watch(client)
        following = ClusterCache(client, clock=clock, rng=seeded_random(5))
        works = [tasks.create_task(watch.informer.run()), tasks.create_task(following.run())]
        served = Extender(
            [Serial()],
            clock=clock,
            cluster=following.cache if is_capable else None,
            bind=client.bind,
        )
        async with serve(served, options, clock=clock):
            for node in nodes():
                await client.create(node)
            await following.wait_until_synced()
            plane.scheduler.launch()
            for pod in pods():
                await client.create(pod)
                await watch.placed(pod.metadata.name)
        for work in works:
            work.cancel()
    return watch.nodes


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("is_capable", [False, True], ids=["objects", "names"])
def test_a_plugin_decides_the_same_in_mooring_and_as_an_extender(
    is_capable: bool, tmp_path: Path
) -> None:
    port, token_file = free_port(), tmp_path / "token"
    token_file.write_text(TOKEN)
    options = ServeOptions(port=port, token_file=str(token_file))
    extender = {
        "urlPrefix": f"http://scheduler:{TOKEN}@127.0.0.1:{port}/plugins/",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": WEIGHT,
        "nodeCacheCapable": is_capable,
        **({"bindVerb": "bind"} if is_capable else {}),
    }
    found: dict[str, str] = {}
    with ControlPlane(
        scheduler=True, scheduler_configuration=configuration(extenders=[extender])
    ) as plane:
        plane.scheduler.kill()

        async def schedule() -> None:
            found.update(await under_kube_scheduler(plane, options, is_capable=is_capable))

        run(schedule)
    expected = in_mooring()
    assert found == expected
    assert len(set(expected.values())) == len(nodes())
    assert all(distance(pod, node) < REACH for pod, node in found.items())
