"""Services of an in-memory cluster list the addresses of their pods."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mooring.clock import seeded_random
from mooring.devcluster.cluster import InMemoryCluster
from mooring.devcluster.seeding import seeds_of_objects
from mooring.testing import make_node
from mooring.virtual_loop import LoopClock
from tests.helpers.running_scheduler import virtually

CORE = "/api/v1/namespaces/default"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
MERGE = "application/merge-patch+json"


class World:
    """A cluster with kubelets and controllers, and requests to it."""

    def __init__(self, cluster: InMemoryCluster) -> None:
        self.client = cluster.client

    async def request(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        raw = b"" if body is None else json.dumps(body).encode()
        return json.loads(await self.client.write(method, path, raw, **options))

    async def create_pod(self, name: str, port: int = 8080, **labels: str) -> None:
        ports = [{"name": "http", "containerPort": port}]
        spec = {
            "containers": [{"name": "main", "image": "web:1", "ports": ports}],
            "terminationGracePeriodSeconds": 5,
        }
        metadata = {"name": name, "labels": labels}
        await self.request("POST", f"{CORE}/pods", {"metadata": metadata, "spec": spec})

    async def create_service(self, **spec: Any) -> None:
        body = {"metadata": {"name": "web"}, "spec": spec}
        await self.request("POST", f"{CORE}/services", body)

    async def address(self, pod: str) -> str:
        return str((await self.request("GET", f"{CORE}/pods/{pod}"))["status"]["podIP"])

    async def endpoint_slice(self) -> dict[str, Any]:
        """Returns the only slice of the namespace that belongs to the Service."""
        items = (await self.request("GET", SLICES))["items"]
        [own] = [item for item in items if item["metadata"]["name"].startswith("web-")]
        result: dict[str, Any] = own
        return result

    async def conditions(self) -> dict[str, tuple[bool, bool, bool]]:
        """Returns ready, serving and terminating of each pod."""
        endpoints = (await self.endpoint_slice())["endpoints"] or []
        return {
            item["targetRef"]["name"]: (
                item["conditions"]["ready"],
                item["conditions"]["serving"],
                item["conditions"]["terminating"],
            )
            for item in endpoints
        }


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    clock = LoopClock(asyncio.get_running_loop())
    cluster = InMemoryCluster(
        clock=clock, rng=seeded_random(0), with_kubelets=True, with_controllers=True
    )
    node = make_node("a", labels={"topology.kubernetes.io/zone": "z1"})
    await cluster.seed(seeds_of_objects([node]))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(cluster.run())
        yield World(cluster)
        cluster.service.stop()
        await running


@virtually
async def test_a_slice_has_the_addresses_and_ports_of_the_selected_pods() -> None:
    async with world() as w:
        await w.create_pod("one", app="web")
        await w.create_pod("other", app="db")
        ports = [{"port": 80, "targetPort": "http"}]
        await w.create_service(selector={"app": "web"}, ports=ports)
        await asyncio.sleep(2)
        content = await w.endpoint_slice()
        assert content["ports"] == [{"name": "", "port": 8080, "protocol": "TCP"}]
        [endpoint] = content["endpoints"]
        assert endpoint["addresses"] == [await w.address("one")]
        assert (endpoint["nodeName"], endpoint["zone"]) == ("a", "z1")
        assert endpoint["conditions"] == {"ready": True, "serving": True, "terminating": False}

        await w.create_pod("two", app="web")
        await asyncio.sleep(2)
        assert list(await w.conditions()) == ["one", "two"]


@virtually
async def test_pods_that_are_not_ready_leave_or_lose_their_label() -> None:
    async with world() as w:
        for name in ("bad", "leaves", "stays", "strays"):
            await w.create_pod(name, app="web")
        await w.create_service(selector={"app": "web"}, ports=[{"port": 80}])
        await asyncio.sleep(2)

        not_ready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        await w.request("PATCH", f"{CORE}/pods/bad/status", not_ready, content_type=MERGE)
        await w.client.write("DELETE", f"{CORE}/pods/leaves", b"{}")
        label = {"metadata": {"labels": {"app": "else"}}}
        await w.request("PATCH", f"{CORE}/pods/strays", label, content_type=MERGE)
        await asyncio.sleep(1)
        assert await w.conditions() == {
            "bad": (False, False, False),
            "leaves": (False, True, True),
            "stays": (True, True, False),
        }
        await asyncio.sleep(6)
        assert list(await w.conditions()) == ["bad", "stays"]


@virtually
async def test_a_slice_follows_the_spec_of_its_service() -> None:
    async with world() as w:
        await w.create_pod("db", app="db")
        await w.create_service(selector={"app": "web"}, ports=[{"port": 80}])
        await asyncio.sleep(2)
        assert await w.conditions() == {}

        patch = {"spec": {"selector": {"app": "db"}, "ports": [{"port": 90, "name": "x"}]}}
        await w.request("PATCH", f"{CORE}/services/web", patch, content_type=MERGE)
        await asyncio.sleep(1)
        assert list(await w.conditions()) == ["db"]
        assert (await w.endpoint_slice())["ports"] == [{"name": "x", "port": 90, "protocol": "TCP"}]
