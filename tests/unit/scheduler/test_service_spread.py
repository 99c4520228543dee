"""A running scheduler with PodTopologySpread: services and requeueing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from mooring.state.kinds.workloads import WORKLOAD_KINDS
from mooring.testing import make_node, make_pod
from tests.helpers.running_scheduler import Life, run_scheduler, virtually
from tests.plugins.spread_clusters import spread, web


def zones(*names: str) -> list[Any]:
    """Returns a node in each zone; the first is the best for a pod without spreading."""
    return [
        make_node(name, zone=name, allocatable={"cpu": 8 - number, "memory": f"{64 - number}Gi"})
        for number, name in enumerate(names)
    ]


async def serve(life: Life, **selector: str) -> None:
    """Creates a Service of the pods with these labels."""
    document = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": selector, "ports": [{"port": 80}]},
    }
    path = "/api/v1/namespaces/default/services"
    await life.client.write("POST", path, json.dumps(document).encode())
    await heard(life, 2)


async def placed(life: Life, name: str) -> str:
    await life.create(make_pod(name, labels={"app": "web"}))
    await life.until_seen("bound", name)
    return await life.node_of(name)


async def heard(life: Life, count: int) -> None:
    """Waits for the watch events of services."""
    await life.until(lambda: len(life.service.cache.workloads) == count)


@virtually
async def test_services_that_come_and_go_are_heard_of() -> None:
    async with run_scheduler(*zones("a", "b")) as life:
        assert set(WORKLOAD_KINDS) <= set(life.service.informers)
        await heard(life, 1)  # the service of the API server

        await serve(life, app="web")
        await life.client.patch(
            "Service", "web", {"spec": {"selector": {"app": "db"}}}, namespace="default"
        )
        store = life.service.informers["Service"].objects
        await life.until(lambda: store["default/web"].spec.selector == {"app": "db"})
        await life.client.delete("Service", "web", "default")
        await heard(life, 1)


@virtually
async def test_pods_of_a_service_are_spread() -> None:
    async with run_scheduler(*zones("a", "b")) as life:
        await serve(life, app="web")
        found = [await placed(life, f"web-{number}") for number in range(4)]

    assert sorted(found) == ["a", "a", "b", "b"]


@virtually
async def test_a_pod_that_cannot_be_spread_is_placed_when_one_that_counts_is_gone() -> None:
    # Zone b is cordoned: it is empty, so a is ahead, and no pod can go to b.
    cordoned = make_node("b", zone="b", unschedulable=True)
    there = [web("one", node="a"), web("stranger", node="a", labels={"app": "db"})]
    async with run_scheduler(make_node("a", zone="a"), cordoned, *there) as life:
        await life.create(web("new", spread()))
        await life.until_seen("failed", "new")

        await life.delete("stranger")
        await asyncio.sleep(5)
        assert life.observer.names("attempted") == ["new"]

        await life.delete("one")
        await life.until_seen("bound", "new")
        assert life.observer.names("attempted") == ["new", "new"]
