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
        self.cluster = cluster

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

    async def slices(self) -> dict[str, list[str]]:
        """Returns the pods of each slice of the Service."""
        return {
            item["metadata"]["name"]: [
                entry["targetRef"]["name"] for entry in item["endpoints"] or ()
            ]
            for item in (await self.request("GET", SLICES))["items"]
            if item["metadata"]["name"].startswith("web-")
        }

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


@virtually
async def test_a_service_with_many_pods_has_several_slices() -> None:
    async with world() as w:
        names = [f"pod-{number:03}" for number in range(105)]
        for name in names:
            await w.create_pod(name, app="web")
        await w.create_service(selector={"app": "web"}, ports=[{"port": 80}])
        await asyncio.sleep(3)
        slices = await w.slices()
        assert sorted(len(pods) for pods in slices.values()) == [5, 100]
        assert sorted(name for pods in slices.values() for name in pods) == names

        small = min(slices, key=lambda name: len(slices[name]))
        for pod in slices[small]:
            await w.client.write("DELETE", f"{CORE}/pods/{pod}", b'{"gracePeriodSeconds": 0}')
        await asyncio.sleep(2)
        assert list(await w.slices()) == [name for name in slices if name != small]


@virtually
async def test_changes_of_the_same_moment_are_one_write() -> None:
    async with world() as w:
        for number in range(20):
            await w.create_pod(f"pod-{number}", app="web")
        await w.create_service(selector={"app": "web"}, ports=[{"port": 80}])
        await asyncio.sleep(3)
        before = (await w.endpoint_slice())["metadata"]["generation"]

        not_ready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        for number in range(20):
            path = f"{CORE}/pods/pod-{number}/status"
            await w.request("PATCH", path, not_ready, content_type=MERGE)
        await asyncio.sleep(1)
        assert {ready for ready, _, _ in (await w.conditions()).values()} == {False}
        assert (await w.endpoint_slice())["metadata"]["generation"] == before + 1


@virtually
async def test_what_clients_change_in_slices_is_restored() -> None:
    async with world() as w:
        await w.create_pod("one", app="web")
        await w.create_service(selector={"app": "web"}, ports=[{"port": 80}])
        await asyncio.sleep(2)
        path = f"{SLICES}/{(await w.endpoint_slice())['metadata']['name']}"
        await w.request("PATCH", path, {"endpoints": []}, content_type=MERGE)
        await asyncio.sleep(1)
        assert list(await w.conditions()) == ["one"]

        await w.client.write("DELETE", path, b"{}")
        await asyncio.sleep(1)
        assert list(await w.conditions()) == ["one"]

        labels = {"metadata": {"labels": {"team": "a"}}}
        await w.request("PATCH", f"{CORE}/services/web", labels, content_type=MERGE)
        await asyncio.sleep(1)
        assert (await w.endpoint_slice())["metadata"]["labels"]["team"] == "a"


@virtually
async def test_endpoints_close_to_the_client_have_hints() -> None:
    async with world() as w:
        await w.create_pod("one", app="web")
        await w.create_service(
            selector={"app": "web"}, ports=[{"port": 80}], trafficDistribution="PreferSameNode"
        )
        await asyncio.sleep(2)
        [endpoint] = (await w.endpoint_slice())["endpoints"]
        assert endpoint["hints"] == {"forZones": [{"name": "z1"}], "forNodes": [{"name": "a"}]}


@virtually
async def test_a_service_has_endpoints_until_it_is_deleted() -> None:
    async with world() as w:
        for name in ("one", "two", "bad"):
            await w.create_pod(name, app="web")
        await w.create_service(selector={"app": "web"}, ports=[{"port": 80, "name": "http"}])
        not_ready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        await asyncio.sleep(2)
        await w.request("PATCH", f"{CORE}/pods/bad/status", not_ready, content_type=MERGE)
        await asyncio.sleep(1)

        endpoints = await w.request("GET", f"{CORE}/endpoints/web")
        assert endpoints["metadata"]["labels"] == {
            "endpoints.kubernetes.io/managed-by": "endpoint-controller"
        }
        [subset] = endpoints["subsets"]
        assert subset["ports"] == [{"name": "http", "port": 80, "protocol": "TCP"}]
        addresses = {item["targetRef"]["name"]: item["ip"] for item in subset["addresses"]}
        assert addresses == {name: await w.address(name) for name in ("one", "two")}
        assert {item["nodeName"] for item in subset["addresses"]} == {"a"}
        assert [item["ip"] for item in subset["notReadyAddresses"]] == [await w.address("bad")]

        await w.client.write("DELETE", f"{CORE}/endpoints/web", b"{}")
        await asyncio.sleep(1)
        assert (await w.request("GET", f"{CORE}/endpoints/web"))["subsets"] == [subset]

        await w.client.write("DELETE", f"{CORE}/services/web", b"{}")
        await asyncio.sleep(1)
        assert (await w.request("GET", f"{CORE}/endpoints"))["items"] == []


@virtually
async def test_endpoints_follow_the_labels_of_their_service() -> None:
    async with world() as w:
        await w.create_service(selector={"app": "web"}, clusterIP="None")
        await asyncio.sleep(1)
        labels = {"metadata": {"labels": {"team": "a"}}}
        await w.request("PATCH", f"{CORE}/services/web", labels, content_type=MERGE)
        await asyncio.sleep(1)
        endpoints = await w.request("GET", f"{CORE}/endpoints/web")
        assert "subsets" not in endpoints
        assert endpoints["metadata"]["labels"] == {
            "endpoints.kubernetes.io/managed-by": "endpoint-controller",
            "service.kubernetes.io/headless": "",
            "team": "a",
        }
