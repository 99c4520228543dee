"""Several writers at a time: none holds up the others, and each series has one."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mooring.client import event_recorder
from mooring.client.event_recorder import FINISH_S, Recorder
from mooring.client.rest.client import Client
from mooring.client.transport.transport import Request, Response
from mooring.clock import VirtualClock, seeded_random
from mooring.objects import ObjectMeta, Pod
from tests.helpers.client_servers import Script, answer, refusal

WEB = Pod(metadata=ObjectMeta(name="web", namespace="shop", uid="u1"))
STORED = answer(201, {"metadata": {"name": "stored"}})


class Slow:
    """A server with delayed responses, by reason, or "series" for a patch."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}

    async def request(self, request: Request) -> Response:
        body = json.loads(request.body)
        name = body.get("reason") or f"count {body['series']['count']}"
        self.asked.append(name)
        if name in self.gates:
            await self.gates[name].wait()
        return STORED

    def stream(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("events are not watched")

    async def close(self) -> None:
        self.gates.clear()


def recorder_of(server: Slow, clock: VirtualClock) -> Recorder:
    client = Client(server, rng=seeded_random(1))
    return Recorder(client, controller="c", instance="i", clock=clock, rng=seeded_random(1))


def record(recorder: Recorder, reason: str) -> None:
    recorder.record(WEB, type="Warning", reason=reason, action="Scheduling", note="why")


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_one_event_that_hangs_holds_up_its_own_series_only() -> None:
    async def main() -> None:
        server, clock = Slow(), VirtualClock()
        server.gates["Stuck"] = asyncio.Event()
        recorder = recorder_of(server, clock)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(recorder.run())
            for reason in ("Stuck", "Stuck", "Stuck", "A", "B"):
                record(recorder, reason)
            await turns()
            assert server.asked == ["Stuck", "A", "B"]
            assert len(recorder) == 1
            server.gates["Stuck"].set()
            await turns()
            assert server.asked[3:] == ["count 3"], "created first, then patched, once"
            assert len(recorder) == 0
            running.cancel()

    asyncio.run(main())


def test_a_series_that_is_being_written_is_not_ended() -> None:
    async def main() -> None:
        server, clock = Slow(), VirtualClock()
        server.gates["Stuck"] = asyncio.Event()
        recorder = recorder_of(server, clock)
        record(recorder, "Stuck")
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(recorder.write_waiting())
            await turns()
            clock.advance(FINISH_S + 1)
            await recorder.write_waiting()
            server.gates["Stuck"].set()
            await first
        record(recorder, "Stuck")
        await recorder.write_waiting()
        assert server.asked == ["Stuck", "count 2"]

    asyncio.run(main())


def test_a_series_that_goes_on_does_not_keep_the_others_from_ending() -> None:
    async def main() -> None:
        server, clock = Slow(), VirtualClock()
        recorder = recorder_of(server, clock)
        for reason in ("Active", "Old", "Older"):
            for _ in range(3):
                record(recorder, reason)
        await recorder.write_waiting()
        clock.advance(FINISH_S - 1)
        record(recorder, "Active")
        server.asked.clear()

        clock.advance(2)
        await recorder.write_waiting()

        # The two ends are written with their counts; the active one is only counted.
        assert server.asked == ["count 3", "count 3"]

    asyncio.run(main())


def test_an_event_waits_as_long_as_the_server_asks_though_it_happens_again() -> None:
    async def main() -> None:
        waits_s: list[float] = []
        asleep = asyncio.Event()

        async def sleep(seconds: float) -> None:
            waits_s.append(seconds)
            await asleep.wait()

        busy = refusal(429, "TooManyRequests", **{"retry-after": "60"})
        script = Script(busy, STORED, STORED)
        client = Client(script, rng=seeded_random(1), sleep=sleep)
        recorder = Recorder(
            client,
            controller="c",
            instance="i",
            clock=VirtualClock(),
            rng=seeded_random(1),
            sleep=sleep,
        )
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(recorder.run())
            record(recorder, "Refused")
            await turns()
            assert len(waits_s) == 1
            assert 60.0 <= waits_s[0] <= 66.0

            record(recorder, "Refused")
            await turns()
            assert len(script.requests) == 1

            asleep.set()
            await turns()
            assert [request.method for request in script.requests] == ["POST", "POST", "PATCH"]
            running.cancel()

    asyncio.run(main())


def test_a_running_recorder_ends_series_without_new_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_recorder, "SERIES_CHECK_S", 0.0)

    async def main() -> None:
        server, clock = Slow(), VirtualClock()
        recorder = recorder_of(server, clock)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(recorder.run())
            for _ in range(3):
                record(recorder, "Old")
            await turns()
            server.asked.clear()
            clock.advance(FINISH_S + 1)
            await turns()
            assert server.asked == ["count 3"]
            running.cancel()

    asyncio.run(main())
