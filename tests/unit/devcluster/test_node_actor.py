"""Nodes as their kubelets report them: status and leases."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from mooring.clock import seeded_random
from mooring.devcluster.node_actor import RENEW_S, NodeActor
from mooring.objects.node import Node
from mooring.testing import make_node
from tests.helpers.running_scheduler import Life, run_scheduler, virtually

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


async def get(life: Life, path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await life.client.write("GET", path, b""))
    return found


async def start(life: Life, tasks: asyncio.TaskGroup) -> asyncio.Task[None]:
    actor = NodeActor(life.client, clock=life.clock, rng=seeded_random(0))
    return tasks.create_task(actor.run())


@virtually
async def test_a_node_gets_version_addresses_and_a_lease_that_is_renewed() -> None:
    async with run_scheduler(make_node("a")) as life, asyncio.TaskGroup() as tasks:
        running = await start(life, tasks)
        await asyncio.sleep(1)
        status = (await get(life, "/api/v1/nodes/a"))["status"]
        assert status["nodeInfo"]["kubeletVersion"] == "v1.36.3"
        assert {item["type"]: item["address"] for item in status["addresses"]} == {
            "InternalIP": "172.16.0.1",
            "Hostname": "a",
        }
        ready = [item["status"] for item in status["conditions"] if item["type"] == "Ready"]
        assert ready == ["True"]
        first = await get(life, f"{LEASES}/a")
        assert first["spec"]["holderIdentity"] == "a"
        assert first["spec"]["leaseDurationSeconds"] == 40
        assert first["metadata"]["ownerReferences"][0]["kind"] == "Node"
        await asyncio.sleep(RENEW_S)
        second = await get(life, f"{LEASES}/a")
        assert second["spec"]["renewTime"] > first["spec"]["renewTime"]
        running.cancel()


@virtually
async def test_the_condition_that_a_node_has_stays() -> None:
    async with run_scheduler(make_node("a")) as life, asyncio.TaskGroup() as tasks:
        condition = {"type": "Ready", "status": "False", "reason": "KubeletNotReady"}
        body = {"status": {"conditions": [condition]}}
        await life.client.patch("Node", "a", body, subresource="status")
        running = await start(life, tasks)
        await asyncio.sleep(1)
        node = await life.client.get("Node", "a")
        assert isinstance(node, Node)
        status = (await get(life, "/api/v1/nodes/a"))["status"]
        assert [item["status"] for item in status["conditions"]] == ["False"]
        assert status["nodeInfo"]["kubeletVersion"] == "v1.36.3"
        running.cancel()


@virtually
async def test_the_lease_goes_with_its_node() -> None:
    async with run_scheduler(make_node("a"), make_node("b")) as life, asyncio.TaskGroup() as tasks:
        running = await start(life, tasks)
        await asyncio.sleep(1)
        await life.client.delete("Node", "a")
        await asyncio.sleep(2 * RENEW_S)
        leases = (await get(life, LEASES))["items"]
        assert [lease["metadata"]["name"] for lease in leases] == ["b"]
        running.cancel()
