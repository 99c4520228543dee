"""The events of kubelets about pods and nodes, as kubelet 1.36.3 words them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.helpers.running_scheduler import virtually
from tests.unit.devcluster.test_workload_actor import Controlled, controlled

PODS = "/api/v1/namespaces/default/pods"


async def events(cluster: Controlled, kind: str) -> list[dict[str, Any]]:
    body = await cluster.client.write("GET", "/api/v1/namespaces/default/events", b"")
    items = [item for item in json.loads(body)["items"] if item["involvedObject"]["kind"] == kind]
    items = [item for item in items if item["reason"] != "Scheduled"]
    return sorted(items, key=lambda item: int(item["metadata"]["resourceVersion"]))


async def create_pod(cluster: Controlled, **spec: Any) -> None:
    containers = [{"name": "c", "image": "nginx"}]
    pod = {"metadata": {"name": "web"}, "spec": {"containers": containers, **spec}}
    await cluster.client.write("POST", PODS, json.dumps(pod).encode())


def summary(items: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [
        (item["involvedObject"]["fieldPath"], item["reason"], item["message"]) for item in items
    ]


PULLED = 'Container image "{}" already present on machine and can be accessed by the pod'


@virtually
async def test_the_containers_of_a_pod_are_pulled_created_and_started() -> None:
    async with controlled(nodes=1) as cluster:
        await create_pod(cluster, initContainers=[{"name": "i", "image": "busybox"}])
        await asyncio.sleep(3)
        items = await events(cluster, "Pod")
        assert summary(items) == [
            ("spec.initContainers{i}", "Pulled", PULLED.format("busybox")),
            ("spec.initContainers{i}", "Created", "Container created"),
            ("spec.initContainers{i}", "Started", "Container started"),
            ("spec.containers{c}", "Pulled", PULLED.format("nginx")),
            ("spec.containers{c}", "Created", "Container created"),
            ("spec.containers{c}", "Started", "Container started"),
        ]
        assert {json.dumps(item["source"], sort_keys=True) for item in items} == {
            '{"component": "kubelet", "host": "n0"}'
        }


@virtually
async def test_a_pod_that_is_deleted_is_killed_once() -> None:
    async with controlled(nodes=1) as cluster:
        sidecar = {"name": "s", "image": "proxy", "restartPolicy": "Always"}
        setup = {"name": "i", "image": "busybox"}
        await create_pod(cluster, initContainers=[setup, sidecar])
        await asyncio.sleep(3)
        await cluster.client.delete("Pod", "web", "default", grace_period_s=30)
        await asyncio.sleep(3)
        await cluster.client.delete("Pod", "web", "default", grace_period_s=20)
        await asyncio.sleep(60)
        killed = [item for item in await events(cluster, "Pod") if item["reason"] == "Killing"]
        assert summary(killed) == [
            ("spec.containers{c}", "Killing", "Stopping container c"),
            ("spec.initContainers{s}", "Killing", "Stopping container s"),
        ]


@virtually
async def test_the_life_of_a_node_is_recorded() -> None:
    async with controlled(nodes=1) as cluster:
        await asyncio.sleep(1)
        await cluster.client.patch("Node", "n0", {"spec": {"unschedulable": True}})
        await asyncio.sleep(1)
        await cluster.client.patch("Node", "n0", {"spec": {"unschedulable": False}})
        await asyncio.sleep(1)
        await cluster.client.delete("Node", "n0")
        await asyncio.sleep(1)
        items = await events(cluster, "Node")
        assert [(item["source"]["component"], item["message"]) for item in items] == [
            ("kubelet", "Starting kubelet."),
            ("node-controller", "Node n0 event: Registered Node n0 in Controller"),
            ("kubelet", "Node n0 status is now: NodeNotSchedulable"),
            ("kubelet", "Node n0 status is now: NodeSchedulable"),
            ("node-controller", "Node n0 event: Removing Node n0 from Controller"),
        ]
