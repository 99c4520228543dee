"""The disruption controller of an in-memory cluster: evictions through the API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mooring.clock import seeded_random
from mooring.devcluster.cluster import InMemoryCluster
from mooring.devcluster.seeding import seeds_of_objects
from mooring.errors import ApiError
from mooring.testing import make_node
from mooring.virtual_loop import LoopClock
from tests.helpers.running_scheduler import virtually

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
PODS = "/api/v1/namespaces/default/pods"


class World:
    """A cluster with kubelets and controllers, and requests to it."""

    def __init__(self, cluster: InMemoryCluster) -> None:
        self.client = cluster.client

    async def request(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        raw = b"" if body is None else json.dumps(body).encode()
        return json.loads(await self.client.write(method, path, raw, **options))

    async def create_set(self, replicas: int) -> None:
        labels = {"app": "web"}
        pod = {
            "containers": [{"name": "web", "image": "web:1"}],
            "terminationGracePeriodSeconds": 5,
        }
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        }
        await self.request("POST", SETS, {"metadata": {"name": "web"}, "spec": spec})

    async def create_budget(self, **spec: Any) -> None:
        spec["selector"] = {"matchLabels": {"app": "web"}}
        await self.request("POST", BUDGETS, {"metadata": {"name": "web"}, "spec": spec})

    async def status(self) -> dict[str, Any]:
        status: dict[str, Any] = (await self.request("GET", f"{BUDGETS}/web"))["status"]
        return status

    async def allowed(self) -> tuple[int, int]:
        status = await self.status()
        return status["currentHealthy"], status["disruptionsAllowed"]

    async def pods(self) -> list[str]:
        items = (await self.client.list("Pod")).items
        return [pod.metadata.name for pod in items if pod.metadata.deletion_timestamp is None]

    async def warnings(self) -> list[str]:
        """Returns the messages about pods with several budgets."""
        events = (await self.request("GET", "/api/v1/namespaces/default/events"))["items"]
        reason = "MultiplePodDisruptionBudgets"
        return [event["message"] for event in events if event["reason"] == reason]

    async def evict(self, pod: str) -> int:
        """Returns the HTTP status of an eviction."""
        try:
            await self.request(
                "POST", f"{PODS}/{pod}/eviction", {"metadata": {"name": pod}}, tries=1
            )
        except ApiError as error:
            return error.status
        return 201


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    clock = LoopClock(asyncio.get_running_loop())
    cluster = InMemoryCluster(
        clock=clock, rng=seeded_random(0), with_kubelets=True, with_controllers=True
    )
    await cluster.seed(seeds_of_objects([make_node("a")]))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(cluster.run())
        yield World(cluster)
        cluster.service.stop()
        await running


@virtually
async def test_a_budget_allows_one_eviction_at_a_time() -> None:
    async with world() as w:
        await w.create_budget(maxUnavailable=1)
        await asyncio.sleep(1)
        assert await w.allowed() == (0, 0)
        await w.create_set(3)
        await asyncio.sleep(2)
        assert await w.allowed() == (3, 1)

        first, second, _ = await w.pods()
        assert await w.evict(first) == 201
        assert await w.evict(second) == 429
        await asyncio.sleep(0.1)
        assert await w.allowed() == (2, 0), "its replacement has not started"
        assert "disruptedPods" not in await w.status(), "it is being deleted"
        await asyncio.sleep(2)
        assert await w.allowed() == (3, 1)
        assert await w.evict(second) == 201


@virtually
async def test_the_status_says_for_which_generation_and_why() -> None:
    async with world() as w:
        await w.create_set(2)
        await w.create_budget(minAvailable="100%")
        await asyncio.sleep(2)
        status = await w.status()
        [condition] = status["conditions"]
        assert (condition["type"], condition["status"]) == ("DisruptionAllowed", "False")
        assert condition["reason"] == "InsufficientPods"
        assert (status["expectedPods"], status["desiredHealthy"]) == (2, 2)

        patch = {"spec": {"minAvailable": "50%"}}
        content_type = "application/merge-patch+json"
        await w.request("PATCH", f"{BUDGETS}/web", patch, content_type=content_type)
        await asyncio.sleep(1)
        status = await w.status()
        [condition] = status["conditions"]
        assert (condition["status"], condition["reason"]) == ("True", "SufficientPods")
        assert status["observedGeneration"] == condition["observedGeneration"] == 2
        assert status["disruptionsAllowed"] == 1


@virtually
async def test_a_pod_that_was_not_deleted_counts_again_after_two_minutes() -> None:
    async with world() as w:
        await w.create_set(2)
        await w.create_budget(minAvailable=1)
        await asyncio.sleep(2)
        pod = (await w.pods())[0]
        listed = await w.request("GET", f"{PODS}/{pod}")
        # The API server has counted an eviction, but was stopped before the deletion.
        noted = {"disruptedPods": {pod: listed["status"]["startTime"]}, "disruptionsAllowed": 0}
        content_type = "application/merge-patch+json"
        path = f"{BUDGETS}/web/status"
        await w.request("PATCH", path, {"status": noted}, content_type=content_type)
        await asyncio.sleep(60)
        assert await w.allowed() == (1, 0)
        assert list((await w.status())["disruptedPods"]) == [pod]
        await asyncio.sleep(70)
        assert await w.allowed() == (2, 1)
        assert "disruptedPods" not in await w.status()


@virtually
async def test_a_daemon_set_needs_a_number() -> None:
    async with world() as w:
        labels = {"app": "web"}
        pod = {"containers": [{"name": "web", "image": "web:1"}]}
        spec = {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        }
        daemons = "/apis/apps/v1/namespaces/default/daemonsets"
        await w.request("POST", daemons, {"metadata": {"name": "web"}, "spec": spec})
        await w.create_budget(minAvailable="50%")
        await asyncio.sleep(2)
        [condition] = (await w.status())["conditions"]
        assert condition["reason"] == "SyncFailed"
        assert condition["message"] == "daemonsets.apps does not implement the scale subresource"
        assert await w.evict((await w.pods())[0]) == 429


@virtually
async def test_a_pod_of_several_budgets_has_a_warning() -> None:
    async with world() as w:
        await w.create_budget(maxUnavailable=1)
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"other": "app"}}}
        await w.request("POST", BUDGETS, {"metadata": {"name": "other"}, "spec": spec})
        await w.create_set(1)
        await asyncio.sleep(2)
        assert await w.warnings() == []

        content_type = "application/merge-patch+json"
        await w.request("DELETE", f"{BUDGETS}/other")
        every = {"maxUnavailable": 1, "selector": {}}
        await w.request("POST", BUDGETS, {"metadata": {"name": "every"}, "spec": every})
        [pod] = await w.pods()
        patch = {"metadata": {"labels": {"new": "label"}}}
        await w.request("PATCH", f"{PODS}/{pod}", patch, content_type=content_type)
        await asyncio.sleep(2)
        text = f'Pod "default"/"{pod}" matches multiple PodDisruptionBudgets.  '
        assert await w.warnings() == [f'{text}Chose "web" arbitrarily.']
