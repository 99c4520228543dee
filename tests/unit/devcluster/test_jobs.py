"""Jobs whose programs end by themselves, in an in-memory cluster on virtual time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.helpers.running_scheduler import virtually
from tests.unit.devcluster.test_workload_actor import Controlled, controlled, job

ROOT = "/apis/batch/v1/namespaces/default/jobs"


def running(script: str, *, policy: str = "Never", **spec: Any) -> dict[str, Any]:
    manifest = job("sum", **spec)
    pod = manifest["spec"]["template"]["spec"]
    pod["restartPolicy"] = policy
    pod["containers"][0]["command"] = ["sh", "-c", script]
    return manifest


async def status(found: Controlled) -> dict[str, Any]:
    raw = await found.client.write("GET", f"{ROOT}/sum", b"")
    read: dict[str, Any] = json.loads(raw)["status"]
    return read


def ends(read: dict[str, Any]) -> list[tuple[str, str]]:
    return [(item["type"], item["reason"]) for item in read.get("conditions", ())]


@virtually
async def test_a_job_completes_when_its_programs_have_succeeded() -> None:
    async with controlled() as found:
        await found.create(running("sleep 20", parallelism=2, completions=4))
        await asyncio.sleep(15)
        read = await status(found)
        assert (read["active"], read["ready"]) == (2, 2)
        await asyncio.sleep(40)
        read = await status(found)
        assert (read["succeeded"], read["ready"], read["terminating"]) == (4, 0, 0)
        assert ends(read) == [
            ("SuccessCriteriaMet", "CompletionsReached"),
            ("Complete", "CompletionsReached"),
        ]


@virtually
async def test_a_policy_of_failures_reads_the_exit_code() -> None:
    rule = {
        "action": "FailJob",
        "onExitCodes": {"containerName": "web", "operator": "In", "values": [42]},
    }
    async with controlled() as found:
        await found.create(running("sleep 5; exit 42", podFailurePolicy={"rules": [rule]}))
        await asyncio.sleep(20)
        read = await status(found)
        assert read["failed"] == 1
        assert ends(read)[-1] == ("Failed", "PodFailurePolicy")
        (message,) = {item["message"] for item in read["conditions"]}
        assert "failed with exit code 42" in message


@virtually
async def test_a_container_is_restarted_where_its_job_asks_for_it() -> None:
    async with controlled() as found:
        await found.create(running("exit 1", policy="OnFailure", backoffLimit=2))
        await asyncio.sleep(8)
        (pod,) = await found.pods()
        raw = json.loads(
            await found.client.write(
                "GET", f"/api/v1/namespaces/default/pods/{pod.metadata.name}", b""
            )
        )
        assert raw["status"]["containerStatuses"][0]["restartCount"] == 1
        assert ends(await status(found)) == []
        await asyncio.sleep(60)  # two more restarts, and the grace period
        read = await status(found)
        assert ends(read)[-1] == ("Failed", "BackoffLimitExceeded")
        assert read["failed"] == 1
        assert await found.pods() == []


@virtually
async def test_a_job_of_another_controller_is_left_alone() -> None:
    async with controlled() as found:
        await found.create(running("true", managedBy="example.com/jobs"))
        await asyncio.sleep(20)
        assert await found.pods() == []
        assert await status(found) == {}


@virtually
async def test_a_suspended_job_says_so_and_goes_on() -> None:
    async with controlled() as found:
        await found.create(running("sleep 10", suspend=True))
        await asyncio.sleep(5)
        assert await found.pods() == []
        read = await status(found)
        assert ends(read) == [("Suspended", "JobSuspended")]
        assert "startTime" not in read
        body = json.dumps({"spec": {"suspend": False}}).encode()
        kind = "application/merge-patch+json"
        await found.client.write("PATCH", f"{ROOT}/sum", body, content_type=kind)
        await asyncio.sleep(5)
        read = await status(found)
        (condition,) = read["conditions"]
        assert (condition["status"], condition["reason"]) == ("False", "JobResumed")
        assert (read["active"], read["ready"]) == (1, 1)
        await asyncio.sleep(15)
        assert ends(await status(found))[-1] == ("Complete", "CompletionsReached")
        events = json.loads(
            await found.client.write("GET", "/api/v1/namespaces/default/events", b"")
        )["items"]
        reasons = [item["reason"] for item in events if item["involvedObject"]["kind"] == "Job"]
        assert reasons == ["Suspended", "Resumed", "SuccessfulCreate", "Completed"]


@virtually
async def test_two_indexes_in_a_row_are_no_range() -> None:
    indexed: dict[str, Any] = {"completionMode": "Indexed", "backoffLimitPerIndex": 0}
    async with controlled() as found:
        await found.create(running("exit 1", completions=2, parallelism=2, **indexed))
        await asyncio.sleep(20)
        assert (await status(found))["failedIndexes"] == "0,1"
    async with controlled() as found:
        await found.create(running("exit 0", completions=3, parallelism=3, **indexed))
        await asyncio.sleep(20)
        assert (await status(found))["completedIndexes"] == "0-2"
