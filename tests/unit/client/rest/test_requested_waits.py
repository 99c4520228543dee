"""A Retry-After concerns all tasks that send a request for the same object."""

from __future__ import annotations

import asyncio

import pytest

from mooring.client import Client
from mooring.client.rest.requested_waits import OBJECTS_MAX, RequestedWaits
from mooring.client.transport.transport import Request
from mooring.clock import seeded_random
from mooring.errors import TooManyRequests
from tests.helpers.client_servers import Script, answer, refusal
from tests.helpers.running_scheduler import virtually

PATH = "/api/v1/namespaces/default/pods/p"
BUSY = refusal(429, "TooManyRequests", **{"retry-after": "5"})


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def send(client: Client, method: str, path: str) -> float:
    """Sends a request as a task of its own; returns when it was answered."""

    async def work() -> float:
        if method == "GET":
            await client.read(Request("GET", path, deadline_s=10.0), tries=1)
        else:
            await client.write(method, path, b"{}", tries=1)
        return now_s()

    return await asyncio.create_task(work())


@pytest.mark.parametrize("method", ["GET", "DELETE", "PATCH"])
@virtually
async def test_another_task_waits_as_long(method: str) -> None:
    client = Client(Script(BUSY, answer(200)), rng=seeded_random(0))
    with pytest.raises(TooManyRequests):
        await send(client, method, PATH)
    await asyncio.sleep(1)

    assert await send(client, method, PATH) == pytest.approx(5.0)


@virtually
async def test_a_task_that_gave_up_and_sends_anew_waits() -> None:
    client = Client(Script(BUSY, answer(200)), rng=seeded_random(0))
    with pytest.raises(TooManyRequests):
        await client.read(Request("GET", PATH, deadline_s=10.0), tries=1)
    await asyncio.sleep(1)
    await client.read(Request("GET", PATH, deadline_s=10.0), tries=1)

    assert now_s() == pytest.approx(5.0)


@virtually
async def test_two_tasks_that_wait_do_not_both_send_if_the_first_is_refused_again() -> None:
    script = Script(BUSY, BUSY, answer(200), answer(200))
    client = Client(script, rng=seeded_random(0))
    with pytest.raises(TooManyRequests):
        await send(client, "DELETE", PATH)
    results = await asyncio.gather(
        *(send(client, "DELETE", PATH) for _ in range(2)), return_exceptions=True
    )

    assert isinstance(results[0], TooManyRequests)
    assert results[1] == pytest.approx(10.0)


@virtually
async def test_other_objects_and_methods_do_not_wait() -> None:
    client = Client(Script(BUSY, answer(200), answer(200)), rng=seeded_random(0))
    with pytest.raises(TooManyRequests):
        await send(client, "DELETE", PATH)

    assert await send(client, "DELETE", f"{PATH}2") == 0.0
    assert await send(client, "PATCH", PATH) == 0.0


@virtually
async def test_creations_do_not_wait_for_each_other_but_bindings_do() -> None:
    client = Client(Script(BUSY, answer(201), BUSY, answer(201)), rng=seeded_random(0))
    for path, answered_at_s in (("/api/v1/namespaces/default/events", 0.0), (f"{PATH}/binding", 5)):
        with pytest.raises(TooManyRequests):
            await send(client, "POST", path)
        assert await send(client, "POST", path) == pytest.approx(answered_at_s)


@virtually
async def test_what_is_left_of_a_wait_is_never_negative() -> None:
    waits = RequestedWaits(asyncio.sleep)
    error = TooManyRequests("busy", status=429, reason="TooManyRequests", retry_after_s=5.0)
    waits.note(Request("GET", "/a", deadline_s=1.0), error)
    left_s = []
    for _ in range(3):
        left_s.append(waits.left_s("GET", "/a"))
        await asyncio.sleep(3)
    assert left_s == [5.0, 2.0, 0.0]
    assert waits.left_s("PATCH", "/a") == waits.left_s("GET", "/b") == 0.0


@virtually
async def test_a_write_counts_as_sent_once_the_wait_is_over() -> None:
    client = Client(Script(BUSY, BUSY, answer(200)), rng=seeded_random(0))
    with pytest.raises(TooManyRequests):
        await send(client, "PATCH", PATH)
    sent_s: list[float] = []
    await asyncio.sleep(1)
    await client.write("PATCH", PATH, b"{}", on_send=lambda: sent_s.append(now_s()))
    first_s, second_s = sent_s
    assert first_s == pytest.approx(5.0)
    assert 10.0 <= second_s == now_s()


@virtually
async def test_the_memory_is_limited() -> None:
    waits = RequestedWaits(asyncio.sleep)
    error = TooManyRequests("busy", status=429, reason="TooManyRequests", retry_after_s=5.0)
    for number in range(OBJECTS_MAX + 5):
        waits.note(Request("GET", f"/{number}", deadline_s=1.0), error)
    assert len(waits) == OBJECTS_MAX


@virtually
async def test_a_wait_that_is_over_is_forgotten_by_the_next_request() -> None:
    client = Client(Script(BUSY, answer(200)), rng=seeded_random(0))
    with pytest.raises(TooManyRequests):
        await send(client, "GET", PATH)
    waits = client._waits
    assert len(waits) == 1

    await asyncio.sleep(5)
    assert await send(client, "GET", PATH) == pytest.approx(5.0)

    assert len(waits) == 0


@virtually
async def test_an_object_that_was_refused_again_is_not_the_oldest_any_more() -> None:
    waits = RequestedWaits(asyncio.sleep)
    error = TooManyRequests("busy", status=429, reason="TooManyRequests", retry_after_s=5.0)
    requests = [Request("GET", f"/{number}", deadline_s=1.0) for number in range(OBJECTS_MAX)]
    for request in [*requests, requests[0]]:
        waits.note(request, error)

    waits.note(Request("GET", "/one-more", deadline_s=1.0), error)

    async def waited_s(request: Request) -> float:
        before_s = now_s()
        await waits.wait(request)
        return now_s() - before_s

    assert await waited_s(requests[1]) == 0.0
    assert await waited_s(requests[0]) == pytest.approx(5.0)
