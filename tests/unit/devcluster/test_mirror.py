"""A scenario in a thread, and the API server that shows it: both have the same objects."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from mooring.apiserver import ApiServer
from mooring.apiserver.auth.authentication import ADMIN
from mooring.client import Client, InProcessTransport, Request
from mooring.clock import SystemClock, seeded_random
from mooring.devcluster.mirror import BACKLOG_MAX, Mirror
from mooring.devcluster.pace import Pace, Stopped
from mooring.devcluster.read_only import ReadOnlyEndpoint
from mooring.errors import ApiError
from mooring.scenario.hooks import RunHooks
from mooring.scenario.read import read_scenario
from mooring.scenario.results import Result
from mooring.scenario.run import ScenarioRun, group_nodes
from mooring.scenario.scenario import Scenario
from tests.helpers.random_scenarios import write_random
from tests.helpers.scenario_files import deployment, job, nodes, pod, read

#: Virtual seconds in a second.
SPEED = 1e9


class Mirrored:
    """A run that has ended, and its mirror."""

    def __init__(self, run: ScenarioRun, result: Result, client: Client, mirror: Mirror) -> None:
        self.result = result
        self.mirror = mirror
        self.client = client
        self.table = run._table  # the test compares it with the API server
        self.workloads = run._workloads.cluster.workloads

    async def shown(self, kind: str) -> dict[str, Any]:
        """Returns the objects of the API server by their key in the table."""
        objects = (await self.client.list(kind)).items
        return {f"{obj.metadata.namespace}/{obj.metadata.name}".lstrip("/"): obj for obj in objects}


async def mirrored(scenario: Scenario) -> Mirrored:
    """Runs a scenario to its end."""
    clock = SystemClock()
    api = ApiServer(clock, seeded_random(0))
    transport = InProcessTransport(api.handle, headers=ADMIN.headers())
    client = Client(transport, rng=seeded_random(0))
    mirror = Mirror(client)
    await mirror.create([*scenario.objects, *group_nodes(scenario)])
    pace = Pace(SPEED, clock=clock, backlog=lambda: mirror.backlog, backlog_max=BACKLOG_MAX)
    async with asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(mirror.run())
        run = ScenarioRun(
            scenario,
            RunHooks(
                before_instant=pace.wait_until,
                on_change=mirror.on_change,
                on_running=mirror.on_running,
                on_workload=mirror.on_workload,
            ),
        )
        result = await asyncio.to_thread(run.run)
        await mirror.flush()
        writing.cancel()
    return Mirrored(run, result, client, mirror)


@pytest.mark.parametrize("seed", range(8))
def test_the_api_server_has_what_the_scenario_has(tmp_path: Path, seed: int) -> None:
    path = write_random(tmp_path, random.Random(seed))

    async def test() -> None:
        own = await mirrored(read_scenario(path))
        assert own.mirror.problems == []
        assert own.result.digest == ScenarioRun(read_scenario(path)).run().digest
        pods, table = await own.shown("Pod"), own.table.objects("Pod")
        assert {name: pod.spec.node_name for name, pod in pods.items()} == {
            name: pod.spec.node_name for name, pod in table.items()
        }
        for name, own_pod in table.items():
            phases = {"Pending", "Running"} if own_pod.spec.node_name else {"Pending"}
            phase = own_pod.status.phase
            assert pods[name].status.phase in (phases if phase in ("", "Pending") else {phase})
        shown, there = await own.shown("Node"), own.table.objects("Node")
        assert list(shown) == sorted(there)
        for name, node in there.items():
            assert shown[name].spec.unschedulable == node.spec.unschedulable, name
            taints = {(taint.key, taint.effect) for taint in shown[name].spec.taints}
            assert taints == {(taint.key, taint.effect) for taint in node.spec.taints}, name

    asyncio.run(test())


def test_workloads_their_pods_and_owners_are_shown(tmp_path: Path) -> None:
    spec = {
        "end": {"at": "30m"},
        "cluster": {"nodes": [nodes(3)]},
        "pods": {"start": "2s"},
        "workload": [
            {"at": "0s", "create": deployment("web", 2)},
            {"at": "5m", "scale": {"name": "web", "replicas": 4}},
            {"at": "1m", "create": job("batch", completions=2), "duration": "3m"},
            {"at": "10m", "create": deployment("gone", 2)},
            {"at": "12m", "delete": {"kind": "Deployment", "name": "gone"}},
        ],
    }

    async def test() -> None:
        own = await mirrored(read(tmp_path, spec))
        assert own.mirror.problems == []

        async def listed(path: str) -> dict[str, Any]:
            body = json.loads(await own.client.read(Request("GET", path, deadline_s=5.0)))
            return {item["metadata"]["name"]: item for item in body["items"]}

        deployments = await listed("/apis/apps/v1/namespaces/default/deployments")
        assert list(deployments) == ["web"]
        assert deployments["web"]["spec"]["replicas"] == 4
        assert deployments["web"]["status"]["readyReplicas"] == 4
        sets = await listed("/apis/apps/v1/namespaces/default/replicasets")
        [owned] = sets.values()
        [owner] = owned["metadata"]["ownerReferences"]
        assert owner["uid"] == deployments["web"]["metadata"]["uid"]
        jobs = await listed("/apis/batch/v1/namespaces/default/jobs")
        assert jobs["batch"]["status"]["succeeded"] == 2
        pods = await listed("/api/v1/namespaces/default/pods")
        ready = [
            status["ready"]
            for pod in pods.values()
            if pod["metadata"]["ownerReferences"][0]["uid"] == owned["metadata"]["uid"]
            for status in pod["status"]["containerStatuses"]
        ]
        assert ready == [True] * 4

    asyncio.run(test())


def test_pods_with_a_priority_alone_get_a_class(tmp_path: Path) -> None:
    item = {
        "at": "1s",
        "create": pod(priorityClassName="high"),
        "name": "web",
    }
    klass = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 7}
    created = [{**klass, "metadata": {"name": "high"}}]
    spec = {
        "end": {"at": "10s"},
        "cluster": {"nodes": [nodes(1)], "files": ["classes.json"]},
        "workload": [item],
    }
    (tmp_path / "classes.json").write_text(json.dumps(created[0]), encoding="utf-8")

    async def test() -> None:
        own = await mirrored(read(tmp_path, spec))
        assert own.mirror.problems == []
        [shown] = (await own.shown("Pod")).values()
        assert (shown.spec.priority, shown.spec.node_name) == (7, "node-0")

    asyncio.run(test())


# -- the pace -----------------------------------------------------------------------------------


def test_time_passes_at_the_speed() -> None:
    async def test() -> float:
        clock = SystemClock()
        pace = Pace(1000.0, clock=clock)
        begun_s = clock.monotonic_s()
        for at_s in (10.0, 30.0, 60.0):
            await asyncio.to_thread(pace.wait_until, at_s)
        return clock.monotonic_s() - begun_s

    assert asyncio.run(test()) >= 0.06


def test_a_stop_ends_a_long_wait() -> None:
    async def test() -> None:
        pace = Pace(1.0, clock=SystemClock())
        await asyncio.to_thread(pace.wait_until, 0.0)
        waiting = asyncio.ensure_future(asyncio.to_thread(pace.wait_until, 3600.0))
        await asyncio.sleep(0)
        pace.stop()
        with pytest.raises(Stopped):
            await waiting

    asyncio.run(asyncio.wait_for(test(), 20))


def test_time_stands_still_while_the_reader_is_behind() -> None:
    behind = [3, 2, 1, 0]

    async def test() -> None:
        pace = Pace(SPEED, clock=SystemClock(), backlog=lambda: behind.pop(0) if behind else 0)
        await asyncio.to_thread(pace.wait_until, 1.0)

    asyncio.run(asyncio.wait_for(test(), 20))
    assert behind == []


# -- the API server -----------------------------------------------------------------------------


def test_reads_are_answered_and_writes_are_refused() -> None:
    async def test() -> None:
        api = ApiServer(SystemClock(), seeded_random(0))
        endpoint = ReadOnlyEndpoint(api, "look, do not touch")
        transport = InProcessTransport(endpoint.handle, headers=ADMIN.headers())
        client = Client(transport, rng=seeded_random(0))
        assert list((await client.list("Node")).items) == []
        for method, path in (
            ("POST", "/api/v1/nodes"),
            ("PATCH", "/api/v1/nodes/a"),
            ("DELETE", "/api/v1/namespaces/default"),
        ):
            with pytest.raises(ApiError, match="look, do not touch") as caught:
                await client.write(method, path, b"{}")
            assert caught.value.status == 405
        review = b'{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview",'
        review += b'"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}'
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        assert b'"allowed":true' in await client.write("POST", path, review)

    asyncio.run(test())
