"""The events of the workload controllers of an in-memory cluster.

Reasons, messages and sources are those of kube-controller-manager 1.36.3.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.helpers.running_scheduler import virtually
from tests.unit.devcluster.test_cron_jobs import create as create_cron_job
from tests.unit.devcluster.test_workload_actor import Controlled, controlled, finish, job, workload


async def events(cluster: Controlled, kind: str) -> list[tuple[str, str, str]]:
    """Returns type, reason and message of the events about objects of a kind, the oldest first."""
    body = await cluster.client.write("GET", "/api/v1/namespaces/default/events", b"")
    items: list[dict[str, Any]] = json.loads(body)["items"]
    items = [item for item in items if item["involvedObject"]["kind"] == kind]
    items.sort(key=lambda item: int(item["metadata"]["resourceVersion"]))
    return [(item["type"], item["reason"], item["message"]) for item in items]


async def store(cluster: Controlled, path: str, document: dict[str, Any]) -> None:
    await cluster.client.write("POST", path, json.dumps(document).encode())


@virtually
async def test_scaling_a_deployment_is_recorded_for_it_and_its_replica_set() -> None:
    async with controlled() as cluster:
        await cluster.create(workload("Deployment", "web", replicas=2))
        await asyncio.sleep(5)
        (item,) = (await cluster.get("replicasets"))["items"]
        name = item["metadata"]["name"]
        await cluster.patch("deployments/web", {"spec": {"replicas": 1}})
        await asyncio.sleep(5)
        assert await events(cluster, "Deployment") == [
            ("Normal", "ScalingReplicaSet", f"Scaled up replica set {name} from 0 to 2"),
            ("Normal", "ScalingReplicaSet", f"Scaled down replica set {name} from 2 to 1"),
        ]
        recorded = await events(cluster, "ReplicaSet")
        reasons = [reason for _, reason, _ in recorded]
        assert reasons == ["SuccessfulCreate", "SuccessfulCreate", "SuccessfulDelete"]
        assert recorded[0][2].startswith(f"Created pod: {name}-")
        assert recorded[2][2].startswith(f"Deleted pod: {name}-")


@virtually
async def test_a_rolling_update_is_recorded_step_by_step() -> None:
    async with controlled() as cluster:
        await cluster.create(workload("Deployment", "web", replicas=1))
        await asyncio.sleep(5)
        containers = [{"name": "web", "image": "web:2"}]
        template = {"spec": {"template": {"spec": {"containers": containers}}}}
        await cluster.patch("deployments/web", template)
        await asyncio.sleep(60)
        texts = [message for _, _, message in await events(cluster, "Deployment")]
        sizes = [text.partition(" from ")[2] for text in texts]
        assert sizes == ["0 to 1", "0 to 1", "1 to 0"]
        assert texts[2].startswith("Scaled down replica set")


@virtually
async def test_a_quota_that_is_exceeded_is_recorded_for_the_replica_set() -> None:
    async with controlled() as cluster:
        quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
        await store(cluster, "/api/v1/namespaces/default/resourcequotas", quota)
        await cluster.create(workload("Deployment", "web", replicas=2))
        await asyncio.sleep(0.5)
        first, second, *_ = await events(cluster, "ReplicaSet")
        assert first[:2] == ("Normal", "SuccessfulCreate")
        assert second[:2] == ("Warning", "FailedCreate")
        name = second[2].split('"')[1]
        assert second[2] == (
            f'Error creating: pods "{name}" is forbidden: exceeded quota: few, '
            "requested: pods=1, used: pods=1, limited: pods=1"
        )
        # The condition has the same text.
        (item,) = (await cluster.get("replicasets"))["items"]
        (condition,) = item["status"]["conditions"]
        assert condition["message"].startswith('pods "web-')
        assert (condition["type"], condition["reason"]) == ("ReplicaFailure", "FailedCreate")


@virtually
async def test_pods_and_claims_of_a_stateful_set_are_recorded() -> None:
    async with controlled() as cluster:
        template = {
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        await cluster.create(
            workload("StatefulSet", "db", replicas=1, volumeClaimTemplates=[template])
        )
        await asyncio.sleep(2)
        await cluster.patch("statefulsets/db", {"spec": {"replicas": 0}})
        await asyncio.sleep(2)
        claim = "Create Claim data-db-0 Pod db-0 in StatefulSet db success"
        assert await events(cluster, "StatefulSet") == [
            ("Normal", "SuccessfulCreate", claim),
            ("Normal", "SuccessfulCreate", "Create Pod db-0 in StatefulSet db successful"),
            ("Normal", "SuccessfulDelete", "Delete Pod db-0 in StatefulSet db successful"),
        ]


@virtually
async def test_the_end_of_a_job_is_recorded() -> None:
    async with controlled() as cluster:
        await cluster.create(job("sum"))
        await asyncio.sleep(3)
        await finish(cluster, (await cluster.running())[0], "Succeeded")
        await asyncio.sleep(3)
        recorded = await events(cluster, "Job")
        assert recorded[0][:2] == ("Normal", "SuccessfulCreate")
        assert recorded[-1] == ("Normal", "Completed", "Job completed")


@virtually
async def test_a_job_with_too_many_failures_is_recorded() -> None:
    async with controlled() as cluster:
        await cluster.create(job("sum", backoffLimit=0))
        await asyncio.sleep(3)
        await finish(cluster, (await cluster.running())[0], "Failed")
        await asyncio.sleep(3)
        text = "Job has reached the specified backoff limit"
        assert (await events(cluster, "Job"))[-1] == ("Warning", "BackoffLimitExceeded", text)


@virtually
async def test_the_jobs_of_a_cron_job_are_recorded() -> None:
    async with controlled() as cluster:
        await create_cron_job(cluster, concurrencyPolicy="Forbid")
        await asyncio.sleep(125)
        running = "Not starting job because prior execution is running"
        running += " and concurrency policy is Forbid"
        first, second = (await events(cluster, "CronJob"))[:2]
        assert first[1] == "SuccessfulCreate"
        assert first[2].startswith("Created job tick-")
        assert second == ("Normal", "JobAlreadyActive", running)
        await finish(cluster, (await cluster.running())[0], "Succeeded")
        await asyncio.sleep(5)
        name = first[2].removeprefix("Created job ")
        saw = ("Normal", "SawCompletedJob", f"Saw completed job: {name}, condition: Complete")
        assert saw in await events(cluster, "CronJob")


@virtually
async def test_a_finished_daemon_pod_is_recorded_before_it_is_replaced() -> None:
    async with controlled(nodes=1) as cluster:
        await cluster.create(workload("DaemonSet", "agent"))
        await asyncio.sleep(3)
        (pod,) = await cluster.pods()
        await finish(cluster, (await cluster.running())[0], "Failed")
        await asyncio.sleep(3)
        text = f"Found failed daemon pod default/{pod.metadata.name} on node n0"
        text += ", will try to kill it"
        recorded = await events(cluster, "DaemonSet")
        assert ("Warning", "FailedDaemonPod", text) in recorded
        assert ("Normal", "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}") in recorded


@virtually
async def test_a_big_replica_set_has_few_events() -> None:
    async with controlled() as cluster:
        await cluster.create(workload("Deployment", "web", replicas=100))
        await asyncio.sleep(10)
        recorded = await events(cluster, "ReplicaSet")
        assert len(recorded) == 10
        combined = [text for _, _, text in recorded if text.startswith("(combined from similar")]
        assert len(combined) == 1
