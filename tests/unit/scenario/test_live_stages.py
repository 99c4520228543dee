"""Stages of KWOK over an API server, on virtual time; what follows was worked out by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.chance import Streams
from mooring.client.transport.transport import Request
from mooring.clock import seeded_random
from mooring.errors import Unreachable
from mooring.scenario.actors.live_stages import STAGES_PER_SECOND_MAX, LiveStages
from mooring.scenario.stages.reading import read_stages
from mooring.testing import make_node, make_pod
from tests.helpers.running_scheduler import Life, run_scheduler, virtually

POD_READY = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-ready}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: .status.podIP, operator: DoesNotExist}
  delay: {durationMilliseconds: 3000}
  next:
    finalizers: {add: [{value: example.com/fake}]}
    statusTemplate: |
      phase: Running
      startTime: {{ Now | Quote }}
      podIP: {{ PodIPWith .spec.nodeName .spec.hostNetwork | Quote }}
"""
POD_COMPLETE = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-complete}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .status.phase, operator: In, values: [Running]}
    - {key: '.metadata.ownerReferences.[].kind', operator: DoesNotExist}
  delay:
    durationMilliseconds: 1000
    durationFrom: {expressionFrom: '.metadata.annotations["example.com/run"]'}
  next:
    statusTemplate: "phase: Succeeded"
"""
POD_DELETE = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-delete}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions: [{key: .metadata.deletionTimestamp, operator: Exists}]
  weight: 1
  next: {finalizers: {empty: true}, delete: true}
"""
POD_KILLED = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-killed}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector: {matchExpressions: [{jq: {key: .metadata.deletionTimestamp, operator: Exists}}]}
  delay: {durationMilliseconds: 1000}
  steps:
  - event:
      type: Normal
      reason: Killing
      message: 'Stopping container: {{ ( index .spec.containers 0 ).name }}'
  - delete: true
"""
NODE_HEARTBEAT = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: node-heartbeat}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector: {}
  delay: {durationMilliseconds: 20000}
  next:
    statusTemplate: |
      conditions:
      {{ range NodeConditions }}
      - lastHeartbeatTime: {{ Now | Quote }}
        type: {{ .type | Quote }}
        status: {{ .status | Quote }}
      {{ end }}
"""


@asynccontextmanager
async def staged(
    folder: Path, *texts: str, node: Any = None, instant_deletion: bool = True
) -> AsyncIterator[Life]:
    """Runs a scheduler, an API server and what these stages say, with one node."""
    file = folder / "stages.yaml"
    file.write_text("---".join(texts))
    scheduling = run_scheduler(node or make_node("a"), instant_deletion=instant_deletion)
    async with scheduling as life, asyncio.TaskGroup() as tasks:
        stages = read_stages([file]).stages
        rng, streams = seeded_random(0), Streams(1)
        live = LiveStages(life.client, stages, clock=life.clock, rng=rng, streams=streams)
        running = tasks.create_task(live.run())
        await asyncio.sleep(1)
        yield life
        running.cancel()


async def get(life: Life, path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await life.client.write("GET", path, b""))
    return found


async def pods(life: Life) -> dict[str, dict[str, Any]]:
    items = (await get(life, "/api/v1/namespaces/default/pods"))["items"]
    return {item["metadata"]["name"]: item for item in items}


def test_a_bound_pod_runs_completes_and_leaves(tmp_path: Path) -> None:
    @virtually
    async def main() -> None:
        async with staged(tmp_path, POD_READY, POD_COMPLETE, POD_DELETE) as life:
            slow = {"annotations": {"example.com/run": "20s"}}
            await life.client.create(make_pod("short"))
            await life.client.create(make_pod("long", metadata=slow))
            await asyncio.sleep(2.5)
            assert {name: pod["status"]["phase"] for name, pod in (await pods(life)).items()} == {
                "short": "Pending",
                "long": "Pending",
            }
            await asyncio.sleep(1)
            found = await pods(life)
            assert {pod["status"]["phase"] for pod in found.values()} == {"Running"}
            assert len({pod["status"]["podIP"] for pod in found.values()}) == 2
            assert found["short"]["metadata"]["finalizers"] == ["example.com/fake"]
            await asyncio.sleep(1.5)
            found = await pods(life)
            assert found["short"]["status"]["phase"] == "Succeeded"
            assert found["long"]["status"]["phase"] == "Running"
            await life.client.delete("Pod", "long", "default")
            await asyncio.sleep(0.5)
            assert set(await pods(life)) == {"short"}  # the finalizer is gone, and so is the pod

    main()


def test_a_stage_whose_write_fails_is_entered_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @virtually
    async def main() -> None:
        async with staged(tmp_path, POD_READY) as life:
            is_away = True

            async def fail(request: Request) -> None:
                if is_away and request.method == "PATCH" and "/pods/" in request.path:
                    raise Unreachable("connection refused")

            for transport in life.world.transports:
                transport.before.append(fail)
            await life.client.create(make_pod("web"))
            await asyncio.sleep(30)
            assert (await pods(life))["web"]["status"]["phase"] == "Pending"
            is_away = False
            await asyncio.sleep(32)
            assert (await pods(life))["web"]["status"]["phase"] == "Running"

    main()
    waits = [
        record.__dict__["next_try_s"]
        for record in caplog.records
        if record.message == "stage not entered"
    ]
    assert waits == pytest.approx([1.0, 2.0, 4.0, 8.0, 16.0], rel=0.11)


def test_an_event_is_recorded_with_its_message_rendered(tmp_path: Path) -> None:
    @virtually
    async def main() -> None:
        async with staged(tmp_path, POD_KILLED, instant_deletion=False) as life:
            await life.client.create(make_pod("web"))
            await asyncio.sleep(1)
            await life.client.delete("Pod", "web", "default")
            await asyncio.sleep(3)
            (event,) = [event for event in await life.events("web") if event.reason == "Killing"]
            assert (event.type, event.note) == ("Normal", "Stopping container: container-0")
            assert await pods(life) == {}

    main()


def test_heartbeats_go_on(tmp_path: Path) -> None:
    @virtually
    async def main() -> None:
        async with staged(tmp_path, NODE_HEARTBEAT) as life:
            times = []
            for _ in range(3):
                await asyncio.sleep(21)
                (ready, *_) = (await get(life, "/api/v1/nodes/a"))["status"]["conditions"]
                times.append(ready["lastHeartbeatTime"])
            assert len(set(times)) == 3

    main()


def test_a_pod_without_a_node_has_no_stages(tmp_path: Path) -> None:
    @virtually
    async def main() -> None:
        async with staged(tmp_path, POD_READY) as life:
            await life.client.create(make_pod("large", requests={"cpu": "1000"}))
            await asyncio.sleep(10)
            assert (await pods(life))["large"]["status"]["phase"] == "Pending"

    main()


def test_a_circle_without_delays_is_stopped_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def turn(name: str, before: str, after: str) -> str:
        return f"""
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {{name: {name}}}
spec:
  resourceRef: {{apiGroup: v1, kind: Pod}}
  selector: {{matchExpressions: [{{key: .status.reason, operator: {before}}}]}}
  next: {{statusTemplate: 'reason: "{after}"'}}
"""

    @virtually
    async def main() -> None:
        begin, end = turn("begin", "DoesNotExist", "x"), turn("end", "Exists", "")
        async with staged(tmp_path, begin, end) as life:
            await life.client.create(make_pod("web"))
            await asyncio.sleep(5)
            assert (await pods(life))["web"]["spec"]["nodeName"] == "a"

    main()
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert getattr(record, "object") == "Pod default/web"  # noqa: B009 - a field of the log
    problem = f"enters {STAGES_PER_SECOND_MAX} stages within a second"
    assert getattr(record, "error") == problem  # noqa: B009 - a field of the log


def test_a_template_that_fails_for_an_object_stops_it_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = POD_COMPLETE.replace('"phase: Succeeded"', "'phase: {{ index .spec.nodeSelector 7 }}'")

    @virtually
    async def main() -> None:
        async with staged(tmp_path, POD_READY, broken) as life:
            await life.client.create(make_pod("web"))
            await asyncio.sleep(10)
            assert (await pods(life))["web"]["status"]["phase"] == "Running"

    main()
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.message == "object has no more stages"
    assert "pod-complete" in getattr(record, "stage")  # noqa: B009 - a field of the log
