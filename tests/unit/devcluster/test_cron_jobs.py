"""CronJobs of an in-memory cluster create Jobs on their schedule, on virtual time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.helpers.running_scheduler import virtually
from tests.unit.devcluster.test_workload_actor import Controlled, controlled, finish, job

ROOT = "/apis/batch/v1/namespaces/default"
MINUTE_S = 60


def cron_job(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": "default"},
        "spec": {
            "schedule": "* * * * *",
            "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": job("x")["spec"]},
            **spec,
        },
    }


async def create(cluster: Controlled, **spec: Any) -> None:
    body = json.dumps(cron_job(**spec)).encode()
    await cluster.client.write("POST", f"{ROOT}/cronjobs", body)


async def read(cluster: Controlled, path: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(await cluster.client.write("GET", f"{ROOT}/{path}", b""))
    return answer


async def jobs(cluster: Controlled) -> list[dict[str, Any]]:
    return list((await read(cluster, "jobs"))["items"])


async def patch(cluster: Controlled, spec: dict[str, Any]) -> None:
    body = json.dumps({"spec": spec}).encode()
    kind = "application/merge-patch+json"
    await cluster.client.write("PATCH", f"{ROOT}/cronjobs/tick", body, content_type=kind)


@virtually
async def test_a_job_is_created_at_each_instant() -> None:
    async with controlled() as cluster:
        await create(cluster)
        await asyncio.sleep(3 * MINUTE_S + 2)
        created = await jobs(cluster)
        tick = await read(cluster, "cronjobs/tick")
        times = [each["metadata"]["creationTimestamp"] for each in created]
        assert len(created) == 3
        assert {time[-3:] for time in times} == {"00Z"}
        assert len(set(times)) == 3
        scheduled = "batch.kubernetes.io/cronjob-scheduled-timestamp"
        assert [each["metadata"]["annotations"][scheduled] for each in created] == times
        assert all(each["metadata"]["labels"]["a"] == "b" for each in created)
        owner = created[0]["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["uid"]) == ("CronJob", tick["metadata"]["uid"])
        assert tick["status"]["lastScheduleTime"] == times[-1]
        assert [each["uid"] for each in tick["status"]["active"]] == [
            each["metadata"]["uid"] for each in created
        ]
        assert len(await cluster.running()) == 3


@virtually
async def test_a_suspended_cron_job_creates_nothing_until_it_is_resumed() -> None:
    async with controlled() as cluster:
        await create(cluster, suspend=True)
        await asyncio.sleep(5 * MINUTE_S)
        assert await jobs(cluster) == []
        await patch(cluster, {"suspend": False})
        await asyncio.sleep(1)
        assert len(await jobs(cluster)) == 1, "the last missed instant is made up for"


@virtually
async def test_a_missed_instant_beyond_the_deadline_is_not_made_up_for() -> None:
    async with controlled() as cluster:
        await create(cluster, schedule="0 * * * *", suspend=True, startingDeadlineSeconds=20)
        await asyncio.sleep(62 * MINUTE_S)
        await patch(cluster, {"suspend": False})
        await asyncio.sleep(MINUTE_S)
        assert await jobs(cluster) == []
        await asyncio.sleep(58 * MINUTE_S)
        assert len(await jobs(cluster)) == 1


@virtually
async def test_forbid_waits_for_the_active_job() -> None:
    async with controlled() as cluster:
        await create(cluster, concurrencyPolicy="Forbid")
        await asyncio.sleep(4 * MINUTE_S)
        (first,) = await jobs(cluster)
        await finish(cluster, (await cluster.running())[0], "Succeeded")
        await asyncio.sleep(2)
        names = [each["metadata"]["name"] for each in await jobs(cluster)]
        assert len(names) == 2
        assert first["metadata"]["name"] in names
        status = (await read(cluster, "cronjobs/tick"))["status"]
        assert len(status["active"]) == 1
        assert status["lastSuccessfulTime"]


@virtually
async def test_replace_deletes_the_active_job_and_its_pods() -> None:
    async with controlled() as cluster:
        await create(cluster, concurrencyPolicy="Replace")
        await asyncio.sleep(2 * MINUTE_S + 45)
        (only,) = await jobs(cluster)
        (pod,) = await cluster.running()
        assert pod.startswith(only["metadata"]["name"])
        (active,) = (await read(cluster, "cronjobs/tick"))["status"]["active"]
        assert active["uid"] == only["metadata"]["uid"]


@virtually
async def test_ended_jobs_beyond_the_limits_are_deleted() -> None:
    async with controlled() as cluster:
        await create(cluster, successfulJobsHistoryLimit=1, failedJobsHistoryLimit=0)
        for _ in range(3):
            await asyncio.sleep(MINUTE_S + 1)
            await finish(cluster, (await cluster.running())[-1], "Succeeded")
        await asyncio.sleep(2)
        (kept,) = await jobs(cluster)
        last = (await read(cluster, "cronjobs/tick"))["status"]["lastScheduleTime"]
        assert kept["metadata"]["creationTimestamp"] == last


@virtually
async def test_the_jobs_of_a_deleted_cron_job_are_deleted() -> None:
    async with controlled() as cluster:
        await create(cluster)
        await asyncio.sleep(MINUTE_S + 1)
        assert len(await jobs(cluster)) == 1
        await cluster.client.write("DELETE", f"{ROOT}/cronjobs/tick", b"{}")
        await asyncio.sleep(5 * MINUTE_S)
        assert await jobs(cluster) == []
