"""Kubelets that run nothing: bound pods become Running, deleted ones go later."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mooring.client import Client, InProcessTransport, Request
from mooring.clock import seeded_random
from mooring.devcluster.kubelet.kubelets import RETRY_S, START_S, Kubelets
from mooring.devcluster.kubelet.programs import RUN_SECONDS
from mooring.errors import NotFound, Unreachable
from mooring.testing import make_node, make_pod
from tests.helpers.running_scheduler import HookTransport, Life, run_scheduler, virtually


async def with_kubelets(life: Life, tasks: asyncio.TaskGroup) -> asyncio.Task[None]:
    kubelets = Kubelets(life.client, clock=life.clock, rng=seeded_random(0))
    return tasks.create_task(kubelets.run())


@virtually
async def test_a_bound_pod_is_running_half_a_second_later() -> None:
    async with run_scheduler(make_node("a")) as life, asyncio.TaskGroup() as tasks:
        running = await with_kubelets(life, tasks)
        await life.create(make_pod("web"), make_pod("big", requests={"cpu": "40"}))
        await life.until_seen("bound", "web")
        assert (await life.raw("web"))["status"]["phase"] == "Pending"
        await asyncio.sleep(START_S + 0.1)
        status = (await life.raw("web"))["status"]
        assert status["phase"] == "Running"
        assert status["podIP"] == "10.0.0.1"
        (container,) = status["containerStatuses"]
        assert container["name"] == "container-0"
        assert container["state"]["running"]["startedAt"].startswith("2026-01-01T00:00:0")
        types = {each["type"]: each["status"] for each in status["conditions"]}
        assert types == dict.fromkeys(
            ["PodScheduled", "Initialized", "Ready", "ContainersReady"], "True"
        )
        # A pod without a node has no kubelet.
        assert (await life.raw("big"))["status"]["phase"] == "Pending"
        running.cancel()


@virtually
async def test_each_pod_has_an_address_of_its_own() -> None:
    async with run_scheduler(make_node("a")) as life, asyncio.TaskGroup() as tasks:
        running = await with_kubelets(life, tasks)
        await life.create(*(make_pod(f"p{number}") for number in range(300)))
        await life.settle()
        await asyncio.sleep(5)
        pods = (await life.client.list("Pod")).items
        on_node = [pod.metadata.name for pod in pods if pod.spec.node_name]
        addresses = {(await life.raw(name))["status"]["podIP"] for name in on_node}
        assert len(addresses) == len(on_node) == 110
        running.cancel()


@virtually
async def test_a_deleted_pod_goes_when_its_grace_period_is_over() -> None:
    async with (
        run_scheduler(make_node("a"), instant_deletion=False) as life,
        asyncio.TaskGroup() as tasks,
    ):
        running = await with_kubelets(life, tasks)
        await life.create(make_pod("web"))
        await life.until_seen("bound", "web")
        await asyncio.sleep(2)
        await life.client.delete("Pod", "web", "default", grace_period_s=20)
        await asyncio.sleep(19)
        terminating = await life.client.get("Pod", "web", "default")
        assert terminating.metadata.deletion_timestamp is not None
        await asyncio.sleep(2)
        with pytest.raises(NotFound):
            await life.client.get("Pod", "web", "default")
        running.cancel()


@virtually
async def test_a_pod_that_is_gone_before_it_starts_is_no_trouble(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "mooring.devcluster.kubelet.kubelets")
    async with run_scheduler(make_node("a")) as life, asyncio.TaskGroup() as tasks:
        running = await with_kubelets(life, tasks)
        await life.create(make_pod("web"))
        await life.until_seen("bound", "web")
        await life.delete("web")
        await life.create(make_pod("next"))
        await asyncio.sleep(2)
        assert (await life.raw("next"))["status"]["phase"] == "Running"
        assert "pod status not written" in caplog.text
        running.cancel()


@virtually
async def test_ephemeral_containers_run_half_a_second_after_they_were_added() -> None:
    async with run_scheduler(make_node("a")) as life, asyncio.TaskGroup() as tasks:
        running = await with_kubelets(life, tasks)
        await life.create(make_pod("web"))
        await life.until_seen("bound", "web")
        await asyncio.sleep(2)
        path = "/api/v1/namespaces/default/pods/web/ephemeralcontainers"
        names = []
        for name in ("debugger-1", "debugger-2"):
            names.append(name)
            containers = [{"name": each, "image": "busybox"} for each in names]
            body = json.dumps({"spec": {"ephemeralContainers": containers}}).encode()
            how = "application/strategic-merge-patch+json"
            await life.client.write("PATCH", path, body, content_type=how)
            assert len(await ephemeral_statuses(life)) == len(names) - 1
            await asyncio.sleep(1)
        first, second = await ephemeral_statuses(life)
        assert (first["name"], second["name"]) == ("debugger-1", "debugger-2")
        assert first["state"]["running"]["startedAt"] < second["state"]["running"]["startedAt"]
        assert first["ready"] is False
        assert "started" not in first
        running.cancel()


async def ephemeral_statuses(life: Life) -> list[Any]:
    return list((await life.raw("web"))["status"].get("ephemeralContainerStatuses", ()))


@virtually
async def test_init_containers_have_ended_and_sidecars_run() -> None:
    async with run_scheduler(make_node("a")) as life, asyncio.TaskGroup() as tasks:
        running = await with_kubelets(life, tasks)
        spec = {
            "initContainers": [
                {"name": "once", "image": "init:1"},
                {"name": "side", "image": "side:1", "restartPolicy": "Always"},
            ],
            "containers": [{"name": "main", "image": "web:1"}],
        }
        body = json.dumps({"metadata": {"name": "web"}, "spec": spec}).encode()
        await life.client.write("POST", "/api/v1/namespaces/default/pods", body)
        await life.until_seen("bound", "web")
        await asyncio.sleep(2)
        once, side = (await life.raw("web"))["status"]["initContainerStatuses"]
        assert once["state"]["terminated"]["exitCode"] == 0
        assert (once["ready"], once["started"]) == (True, False)
        assert "running" in side["state"]
        assert (side["ready"], side["started"]) == (True, True)
        running.cancel()


@virtually
async def test_a_program_that_ends_ends_its_pod() -> None:
    spec = {"restartPolicy": "Never", "containers": [container("sleep 20; exit 3")]}
    async with run_scheduler(make_node("a")) as life, asyncio.TaskGroup() as tasks:
        running = await with_kubelets(life, tasks)
        await create(life, "once", spec)
        await life.until_seen("bound", "once")
        await asyncio.sleep(START_S + 19)
        assert (await life.raw("once"))["status"]["phase"] == "Running"
        await asyncio.sleep(2)
        status = (await life.raw("once"))["status"]
        assert status["phase"] == "Failed"
        (main,) = status["containerStatuses"]
        assert main["state"]["terminated"]["exitCode"] == 3
        running.cancel()


@virtually
async def test_a_pod_is_ready_when_its_gates_are() -> None:
    gate = "example.com/ready"
    spec = {"readinessGates": [{"conditionType": gate}], "containers": [container("sleep 1h")]}
    async with run_scheduler(make_node("a")) as life, asyncio.TaskGroup() as tasks:
        running = await with_kubelets(life, tasks)
        await create(life, "web", spec)
        await life.until_seen("bound", "web")
        await asyncio.sleep(2)
        assert (await conditions(life, "web"))["Ready"] == "False"
        for value in ("True", "False", "True"):
            pod = await life.client.get("Pod", "web", "default")
            await life.client.patch_pod_status(
                pod, {"conditions": [{"type": gate, "status": value}]}
            )
            await asyncio.sleep(1)
            found = await conditions(life, "web")
            assert (found["Ready"], found["ContainersReady"]) == (value, "True")
        running.cancel()


@virtually
async def test_annotations_say_how_long_any_image_runs(caplog: pytest.LogCaptureFixture) -> None:
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "perl"}]}
    async with run_scheduler(make_node("a")) as life, asyncio.TaskGroup() as tasks:
        running = await with_kubelets(life, tasks)
        await create(life, "good", spec, {RUN_SECONDS: "5"})
        await create(life, "wrong", spec, {RUN_SECONDS: "five"})
        await life.until_seen("bound", "wrong")
        await asyncio.sleep(10)
        assert (await life.raw("good"))["status"]["phase"] == "Succeeded"
        assert (await life.raw("wrong"))["status"]["phase"] == "Running"
        assert "annotation of a pod ignored" in caplog.text
        running.cancel()


@pytest.mark.parametrize("script", ["sleep 1h", "sleep 30", "serve"])
@virtually
async def test_a_status_that_cannot_be_written_is_written_later(script: str) -> None:
    async with run_scheduler(make_node("a")) as life, asyncio.TaskGroup() as tasks:
        transport = HookTransport(InProcessTransport(life.api.handle))
        transport.before.append(refuse_statuses_until(life, 20))
        client = Client(transport, rng=seeded_random(0))
        kubelets = Kubelets(client, clock=life.clock, rng=seeded_random(0))
        running = tasks.create_task(kubelets.run())
        await create(life, "web", {"restartPolicy": "Never", "containers": [container(script)]})
        await life.until_seen("bound", "web")
        await asyncio.sleep(15)
        assert (await life.raw("web"))["status"]["phase"] == "Pending"
        await asyncio.sleep(RETRY_S + 5)
        assert (await life.raw("web"))["status"]["phase"] == "Running"
        assert kubelets.is_idle
        await asyncio.sleep(60)
        ends = script == "sleep 30"
        assert (await life.raw("web"))["status"]["phase"] == ("Succeeded" if ends else "Running")
        running.cancel()


@virtually
async def test_a_pod_that_changes_before_it_starts_starts_once() -> None:
    async with run_scheduler(make_node("a")) as life, asyncio.TaskGroup() as tasks:
        kubelets = Kubelets(life.client, clock=life.clock, rng=seeded_random(0))
        running = tasks.create_task(kubelets.run())
        await create(life, "web", {"containers": [container("serve")]})
        await life.until_seen("bound", "web")
        await asyncio.sleep(START_S / 2)
        labels = {"metadata": {"labels": {"new": "yes"}}}
        await life.client.patch("Pod", "web", labels, namespace="default")
        await asyncio.sleep(START_S)
        started = (await life.raw("web"))["status"]
        await asyncio.sleep(START_S)
        assert (await life.raw("web"))["status"] == started
        assert started["podIP"] == "10.0.0.1"
        assert kubelets.is_idle
        running.cancel()


def refuse_statuses_until(life: Life, end_s: float) -> Callable[[Request], Awaitable[None]]:
    async def refuse(request: Request) -> None:
        if request.path.endswith("/status") and life.clock.monotonic_s() < end_s:
            raise Unreachable("refused")

    return refuse


def container(script: str) -> dict[str, Any]:
    return {"name": "main", "image": "web", "command": ["sh", "-c", script]}


async def create(
    life: Life, name: str, spec: dict[str, Any], annotations: dict[str, str] | None = None
) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": spec,
    }
    path = "/api/v1/namespaces/default/pods"
    await life.client.write("POST", path, json.dumps(manifest).encode())


async def conditions(life: Life, name: str) -> dict[str, str]:
    status = (await life.raw(name))["status"]
    return {item["type"]: item["status"] for item in status["conditions"]}
