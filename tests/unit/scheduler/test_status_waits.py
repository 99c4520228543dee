"""Waits with a status that the API server asked another writer for."""

from __future__ import annotations

import asyncio

import pytest

from mooring.errors import TooManyRequests
from tests.helpers.client_servers import Script, refusal
from tests.helpers.running_scheduler import virtually
from tests.unit.scheduler.test_status_writer import pod, stored, word, writing


@virtually
async def test_a_condition_waits_outside_of_the_client_for_a_wait_of_another_writer() -> None:
    # A condition of a victim was refused; a new pod of its name is unschedulable, and then bound.
    script = Script(refusal(429, "TooManyRequests", **{"retry-after": "100"}), stored())
    async with writing(of=script) as (writer, _):
        with pytest.raises(TooManyRequests):
            await writer._client.patch_pod_status(pod(), {"conditions": []}, tries=1)
        writer.enqueue(word())
        await asyncio.sleep(50)
        writer.cancel_update("u1")
        assert not await writer.nominate(pod(), "a")
        await asyncio.sleep(100)
        assert len(script.requests) == 1
        writer.enqueue(word())
        await asyncio.sleep(1)
        (condition,) = script.requests[1].body["status"]["conditions"]
        assert condition["lastTransitionTime"] == "2026-01-01T00:02:30Z"
