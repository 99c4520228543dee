"""Http1Pool: who waits for a connection, which one is used, and when it is closed."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from mooring.client.transport import http1_pool
from mooring.client.transport.http1_pool import Http1Pool
from mooring.client.transport.transport import Request, Response
from mooring.errors import Unreachable
from tests.helpers.memory_network import OK, MemoryNetwork, some_rounds
from tests.helpers.running_scheduler import virtually
from tests.unit.client.transport.test_http1_pool import new_pool, send


def now_s() -> float:
    return asyncio.get_running_loop().time()


def numbered(name: str) -> Request:
    return Request("GET", f"/{name}", deadline_s=0.0)


def start(pool: Http1Pool, *names: str, seconds: float = 60.0) -> list[asyncio.Task[Response]]:
    """Starts requests in this order."""
    return [asyncio.create_task(send(pool, numbered(name), seconds=seconds)) for name in names]


def paths(network: MemoryNetwork) -> list[list[str]]:
    """Returns the names of the requests of each connection, in their order."""
    return [
        [request.split()[1].decode()[1:] for request in link.requests] for link in network.links
    ]


# ---- the limit of connections ----


@virtually
async def test_requests_beyond_the_limit_wait_in_their_order() -> None:
    network, pool = MemoryNetwork(), new_pool(limit=2)
    tasks = start(pool, *"abcde")
    await some_rounds()
    assert paths(network) == [["a"], ["b"]]
    for number in (1, 0, 0):
        network.links[number].send(OK)
        await some_rounds()
    assert paths(network) == [["a", "d", "e"], ["b", "c"]]
    for link in network.links:
        link.send(OK)
    assert [response.body for response in await asyncio.gather(*tasks)] == [b"ok"] * 5
    assert pool.connections == 2


@virtually
async def test_connections_that_are_being_opened_count() -> None:
    network, pool = MemoryNetwork(OK, connect_s=1.0), new_pool(limit=1)
    await asyncio.gather(*start(pool, "a", "b", "c"))
    assert paths(network) == [["a", "b", "c"]]
    assert now_s() == 1.0


@virtually
async def test_a_request_that_is_slow_holds_up_no_other_one() -> None:
    network, pool = MemoryNetwork(), new_pool(limit=1)
    slow, second = start(pool, "slow", "b")
    await asyncio.sleep(1.999)
    assert paths(network) == [["slow"]]
    await asyncio.sleep(0.002)
    assert paths(network) == [["slow"], ["b"]]
    # The second one is not slow yet: it counts.
    start(pool, "c")
    await asyncio.sleep(1.9)
    assert paths(network) == [["slow"], ["b"]]
    await asyncio.sleep(0.2)
    assert paths(network) == [["slow"], ["b"], ["c"]]
    network.links[0].send(OK)
    assert (await slow).body == b"ok"
    network.links[1].send(OK)
    assert (await second).body == b"ok"
    await some_rounds()
    # There are more connections than the limit, so those are closed whose request has ended.
    assert [link.is_aborted for link in network.links] == [True, True, False]
    assert pool.connections == 1


@virtually
async def test_only_so_many_slow_requests_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1_pool, "SLOW_MAX", 2)
    network, pool = MemoryNetwork(), new_pool(limit=1)
    start(pool, *"abcde")
    for count in (1, 2, 3, 3, 3):
        await asyncio.sleep(0.01)
        assert len(network.requests) == count
        await asyncio.sleep(2.0)
    network.links[0].send(OK)
    await some_rounds()
    # Three connections are more than the limit; the next request gets a new one.
    assert paths(network) == [["a"], ["b"], ["c"], ["d"]]


@virtually
async def test_a_request_that_waits_ends_at_its_deadline() -> None:
    network, pool = MemoryNetwork(), new_pool(limit=1)
    [first] = start(pool, "a")
    [second] = start(pool, "b", seconds=0.5)
    [third] = start(pool, "c")
    with pytest.raises(TimeoutError):
        await second
    assert now_s() == 0.5
    network.links[0].send(OK)
    await some_rounds()
    assert first.done()
    assert paths(network) == [["a", "c"]]
    network.links[0].send(OK)
    await third


@virtually
async def test_one_whose_connection_cannot_be_opened_lets_the_next_one_through() -> None:
    hosts = iter([["bad"], ["good"]])

    async def look_up(host: str, port: int) -> list[str]:
        return next(hosts)

    network = MemoryNetwork(OK, connect_s=0.25, refused=["bad"])
    first, second = start(new_pool(limit=1, look_up=look_up), "a", "b")
    with pytest.raises(ConnectionRefusedError):
        await first
    assert (await second).body == b"ok"
    assert now_s() == 0.5
    assert paths(network) == [["b"]]


@pytest.mark.parametrize(("seconds", "expected_s"), [(60.0, 10.0), (3.0, 3.0)])
@virtually
async def test_a_connection_must_open_within_ten_seconds_and_the_deadline(
    seconds: float, expected_s: float
) -> None:
    MemoryNetwork(OK, connect_s=11.0)
    pool = new_pool(limit=1)
    with pytest.raises(TimeoutError):
        await send(pool, seconds=seconds)
    assert now_s() == expected_s
    assert pool.connections == 0


@virtually
async def test_one_that_is_cancelled_while_it_waits_is_skipped() -> None:
    network, pool = MemoryNetwork(), new_pool(limit=1)
    _, second, third = start(pool, "a", "b", "c")
    await some_rounds()
    second.cancel()
    network.links[0].send(OK)
    await some_rounds()
    assert second.cancelled()
    assert paths(network) == [["a", "c"]]
    network.links[0].send(OK)
    assert (await third).body == b"ok"


@virtually
async def test_one_that_is_cancelled_when_its_turn_has_come_passes_the_connection_on() -> None:
    network, pool = MemoryNetwork(), new_pool(limit=1)

    async def send_then_cancel() -> None:
        await send(pool, numbered("a"))
        second.cancel()  # the connection is its own now, but it has not run since

    first = asyncio.create_task(send_then_cancel())
    second, third = start(pool, "b", "c")
    await some_rounds()
    network.links[0].send(OK)
    await asyncio.gather(first, some_rounds())
    assert second.cancelled()
    assert paths(network) == [["a", "c"]]
    network.links[0].send(OK)
    assert (await third).body == b"ok"


@virtually
async def test_a_connection_that_ends_when_its_turn_has_come_is_not_used() -> None:
    network, pool = MemoryNetwork(), new_pool(limit=1)

    async def send_then_end() -> None:
        await send(pool, numbered("a"))
        network.links[0].hang_up()  # "b" has been handed the connection

    first = asyncio.create_task(send_then_end())
    start(pool, "b")
    await some_rounds()
    network.links[0].send(OK)
    await asyncio.gather(first, some_rounds())
    assert paths(network) == [["a"], ["b"]]


@virtually
async def test_a_connection_whose_request_is_late_makes_room_at_once() -> None:
    network, pool = MemoryNetwork(), new_pool(limit=1)
    start(pool, "a", seconds=1.0)
    start(pool, "b", "c")
    await asyncio.sleep(1.01)
    assert paths(network) == [["a"], ["b"]]


@virtually
async def test_one_that_is_woken_too_late_passes_its_turn_on() -> None:
    loop: Any = asyncio.get_running_loop()
    hosts = iter([["bad"], ["good"]])

    async def look_up(host: str, port: int) -> list[str]:
        return next(hosts)

    network = MemoryNetwork(OK, connect_s=0.5, refused=["bad"])
    pool = new_pool(limit=1, look_up=look_up)

    async def fail_slowly() -> None:
        with pytest.raises(ConnectionRefusedError):
            await send(pool, numbered("a"))
        loop._move_to(1.0)  # the process is stopped for a while, and "b" has just been woken

    first = asyncio.create_task(fail_slowly())
    [second] = start(pool, "b", seconds=0.75)
    [third] = start(pool, "c")
    await first
    with pytest.raises(TimeoutError):
        await second
    await third
    assert now_s() == 1.5
    assert paths(network) == [["c"]]


# ---- requests ----


@virtually
async def test_a_request_is_announced_just_before_it_is_written() -> None:
    network, pool = MemoryNetwork(OK, connect_s=1.0), new_pool()
    written: list[int] = []
    await send(pool, is_sent=lambda: written.append(len(network.requests)))
    assert (written, len(network.requests)) == ([0], 1)


@virtually
async def test_a_request_may_be_stopped_before_it_is_written_and_its_connection_is_used() -> None:
    network, pool = MemoryNetwork(OK), new_pool()

    def stop() -> None:
        raise PermissionError

    with pytest.raises(PermissionError):
        await send(pool, is_sent=stop)
    assert network.requests == []
    await send(pool)
    assert len(network.links) == 1


@virtually
async def test_each_request_ends_at_its_own_deadline_with_its_connection() -> None:
    network, pool, ended = MemoryNetwork(), new_pool(limit=9), []

    async def fail(name: str, seconds: float) -> None:
        with pytest.raises(TimeoutError):
            await send(pool, numbered(name), seconds=seconds)
        ended.append((name, now_s()))

    [longest] = start(pool, "longest")
    await asyncio.gather(fail("c", 3.0), fail("a", 1.0), fail("b", 2.0))
    assert ended == [("a", 1.0), ("b", 2.0), ("c", 3.0)]
    await some_rounds()
    assert [link.is_aborted for link in network.links] == [False, True, True, True]
    network.links[0].send(OK)
    assert (await longest).body == b"ok"


@virtually
async def test_one_that_is_cancelled_takes_its_connection_with_it() -> None:
    network, pool = MemoryNetwork(), new_pool()
    [first] = start(pool, "a")
    await some_rounds()
    first.cancel()
    await some_rounds()
    assert network.links[0].is_aborted
    assert pool.connections == 0


@virtually
async def test_a_response_that_comes_with_the_cancellation_leaves_the_connection_usable() -> None:
    network, pool = MemoryNetwork(), new_pool()
    [first] = start(pool, "a")
    await some_rounds()
    first.cancel()
    network.links[0].send(OK)
    await some_rounds()
    assert first.cancelled()
    start(pool, "b")
    await some_rounds()
    assert paths(network) == [["a", "b"]]


@virtually
async def test_one_that_is_cancelled_while_its_connection_opens_leaves_the_turn_to_the_next() -> (
    None
):
    network, pool = MemoryNetwork(OK, connect_s=1.0), new_pool(limit=1)
    first, second = start(pool, "a", "b")
    await asyncio.sleep(0.5)
    first.cancel()
    assert (await second).body == b"ok"
    assert now_s() == 1.5
    assert paths(network) == [["b"]]


# ---- connections ----


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        OK + b"HTTP/1.1 408 X\r\ncontent-length: 0\r\n\r\n",
    ],
    ids=["close", "1.0", "more than a response"],
)
@virtually
async def test_a_connection_that_may_not_go_on_is_not_used_again(response: bytes) -> None:
    network, pool = MemoryNetwork(response), new_pool()
    for _ in range(2):
        assert (await send(pool)).body == b"ok"
        await some_rounds()
    assert [len(link.requests) for link in network.links] == [1, 1]
    assert all(link.is_aborted for link in network.links)
    assert pool.connections == 0


@virtually
async def test_an_idle_connection_ends_by_bytes_that_are_no_response_to_a_request() -> None:
    network, pool = MemoryNetwork(OK), new_pool()
    await send(pool)
    network.links[0].send(b"HTTP/1.1 408 X\r\ncontent-length: 0\r\n\r\n")
    assert network.links[0].is_aborted
    assert (await send(pool)).body == b"ok"
    assert len(network.links) == 2


@virtually
async def test_an_idle_connection_that_the_server_ends_is_not_used() -> None:
    network, pool = MemoryNetwork(OK), new_pool(limit=2)
    await asyncio.gather(*start(pool, "a", "b"))
    assert pool.connections == 2
    network.links[1].hang_up()  # the client does not know it yet
    await send(pool)
    assert [len(link.requests) for link in network.links] == [2, 1]
    await some_rounds()
    assert pool.connections == 1


@virtually
async def test_a_lost_connection_makes_room_for_a_request_that_waits() -> None:
    network, pool = MemoryNetwork(), new_pool(limit=1)
    first, _ = start(pool, "a", "b")
    await some_rounds()
    network.links[0].hang_up(ConnectionResetError(104, "reset"))
    with pytest.raises(ConnectionResetError, match="reset"):
        await first
    await some_rounds()
    assert paths(network) == [["a"], ["b"]]
    assert now_s() == 0.0


@virtually
async def test_the_connection_that_was_used_last_is_used_and_the_others_end_after_90_s() -> None:
    network, pool = MemoryNetwork(OK), new_pool(limit=3)
    await asyncio.gather(*start(pool, "a", "b", "c"))
    await asyncio.sleep(60.0)
    await send(pool)
    assert [len(link.requests) for link in network.links] == [1, 1, 2]
    await asyncio.sleep(29.9)
    assert pool.connections == 3
    await asyncio.sleep(0.2)
    assert [link.is_aborted for link in network.links] == [True, True, False]
    await asyncio.sleep(59.8)
    assert pool.connections == 1
    await asyncio.sleep(0.2)
    assert pool.connections == 0
    # Another one is closed in time, too.
    await send(pool)
    await asyncio.sleep(90.1)
    assert [link.is_aborted for link in network.links] == [True] * 4


@virtually
async def test_a_busy_connection_is_not_idle() -> None:
    network, pool = MemoryNetwork(), new_pool()
    start(pool, "a")
    await some_rounds()
    network.links[0].send(OK)
    await asyncio.sleep(50.0)
    [second] = start(pool, "b", seconds=200.0)
    await asyncio.sleep(100.0)
    network.links[0].send(OK)
    assert (await second).body == b"ok"
    await asyncio.sleep(89.0)
    assert pool.connections == 1


# ---- ends ----


@virtually
async def test_closing_ends_requests_waits_connections_and_timers() -> None:
    network, pool = MemoryNetwork(), new_pool(limit=2)
    running, waiting = start(pool, "a", "b"), start(pool, "c", "d")
    await some_rounds()
    network.links[0].send(OK)
    network.links[1].send(OK)
    await asyncio.sleep(1.0)
    network.links[1].send(OK)
    await some_rounds()  # "c" runs, "a", "b" and "d" have their responses
    [late] = start(pool, "e", seconds=100.0)
    await some_rounds()
    await pool.close()
    assert now_s() == 1.0
    assert pool.connections == 0
    results = await asyncio.gather(*running, *waiting, late, return_exceptions=True)
    assert [type(result) for result in results] == [
        *(Response, Response, ConnectionResetError, Response, ConnectionResetError)
    ]
    with pytest.raises(Unreachable, match=r"^the transport is closed$"):
        await send(pool)
    loop: Any = asyncio.get_running_loop()
    assert [timer for timer in loop._scheduled if not timer.cancelled()] == []


@virtually
async def test_closing_ends_requests_that_wait() -> None:
    network, pool = MemoryNetwork(), new_pool(limit=1)
    tasks = start(pool, "a", "b", "c")
    await some_rounds()
    await pool.close()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [ConnectionResetError, *[Unreachable] * 2]
    assert now_s() == 0.0
    assert paths(network) == [["a"]]


@virtually
async def test_closing_does_not_complete_a_response_without_a_length() -> None:
    network, pool = MemoryNetwork(), new_pool()
    [task] = start(pool, "a")
    await some_rounds()
    network.links[0].send(b"HTTP/1.1 200 OK\r\n\r\nall ")
    await pool.close()
    with pytest.raises(ConnectionResetError, match=r"^the server closed the connection$"):
        await task


@virtually
async def test_a_closed_connection_is_freed_without_the_garbage_collector() -> None:
    MemoryNetwork(OK)
    pool = new_pool()
    await send(pool)
    watched = [weakref.ref(connection) for connection in pool._all]
    gc.disable()
    try:
        await pool.close()
        await some_rounds()
        protocols = [connection() for connection in watched]
    finally:
        gc.enable()
    assert protocols == [None]


@virtually
async def test_a_connection_that_opens_after_the_end_is_closed() -> None:
    network, pool = MemoryNetwork(OK, connect_s=1.0), new_pool(limit=1)
    [task] = start(pool, "a")
    await some_rounds()
    await pool.close()
    with pytest.raises(Unreachable, match=r"^the transport is closed$"):
        await task
    assert network.links[0].is_aborted
    assert (network.requests, pool.connections) == ([], 0)


@virtually
async def test_a_retired_pool_closes_each_connection_after_its_response() -> None:
    network, pool = MemoryNetwork(), new_pool(limit=3)
    first, second, third = start(pool, "a", "b", "c")
    await some_rounds()
    for link in network.links[1:]:
        link.send(OK)
    await asyncio.gather(second, third)
    pool.retire()
    await some_rounds()
    assert [link.is_aborted for link in network.links] == [False, True, True]
    network.links[0].send(OK)
    assert (await first).body == b"ok"
    await some_rounds()
    assert pool.connections == 0
