"""Requests through Http1Pool: what is a response, how long connections are kept, who waits."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable

import pytest

from mooring.client.transport.http import HttpTransport
from mooring.client.transport.http1_pool import HEAD_BYTES_MAX, Http1Pool
from mooring.client.transport.transport import AnswerTooLong, Pool, Request, Response
from mooring.errors import OutcomeUnknown, Unreachable
from tests.integration.http_servers import CHUNKED, OK, Behave, Server, chunk, run, says

ASK = Request("POST", "/", deadline_s=5, body=b"{}", pool=Pool.WRITE)


@pytest.mark.parametrize(
    ("parts", "status", "body"),
    [
        ([b"HTTP/1.1 100 Continue\r\n\r\n", OK], 200, b"ok"),
        ([CHUNKED, chunk(b"ab"), chunk(b"c"), b"0\r\n\r\n"], 200, b"abc"),
        ([b"HTTP/1.1 201 Created\r\ncontent-le", b"ngth: 4\r\n\r\nab", b"cd"], 201, b"abcd"),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], 204, b""),
    ],
    ids=["go on first", "chunks", "cut anywhere", "no body"],
)
def test_an_answer_is_read_however_it_comes(parts: list[bytes], status: int, body: bytes) -> None:
    async def test(server: Server, transport: HttpTransport) -> None:
        for _ in range(2):
            answer = await transport.request(ASK)
            assert (answer.status, answer.body) == (status, body)
        assert server.connections == 1

    run(says(*parts), test)


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    async def test(server: Server, transport: HttpTransport) -> None:
        for _ in range(2):
            assert (await transport.request(ASK)).body == b"all of it"
        assert server.connections == 2

    run(says(b"HTTP/1.1 200 OK\r\n\r\nall ", b"of it", then_close=True), test)


def test_a_connection_that_is_to_be_closed_is_not_used_again() -> None:
    async def test(server: Server, transport: HttpTransport) -> None:
        for _ in range(3):
            assert (await transport.request(ASK)).body == b"ok"
        assert server.connections == 3

    run(says(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"), test)


def test_equal_headers_are_joined() -> None:
    async def test(_: Server, transport: HttpTransport) -> None:
        answer = await transport.request(ASK)
        assert answer.headers["warning"] == '299 - "a", 299 - "b"'

    text = (
        b'HTTP/1.1 200 OK\r\nWarning: 299 - "a"\r\nwarning: 299 - "b"\r\ncontent-length: 0\r\n\r\n'
    )
    run(says(text), test)


@pytest.mark.parametrize(
    "behave",
    [
        says(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok", then_close=True),
        says(b"this is not HTTP\r\n\r\n"),
        says(b"", then_close=True),
    ],
    ids=["cut", "not HTTP", "no word"],
)
def test_what_was_sent_and_not_answered_may_have_happened(behave: Behave) -> None:
    async def test(server: Server, transport: HttpTransport) -> None:
        with pytest.raises(OutcomeUnknown, match="POST /"):
            await transport.request(ASK)
        assert len(server.requests) == 1

    run(behave, test)


def test_an_answer_that_is_too_long_is_broken_off() -> None:
    async def test(_: Server, transport: HttpTransport) -> None:
        with pytest.raises(AnswerTooLong, match="GET /: more than 3 bytes"):
            await transport.request(Request("GET", "/", deadline_s=5, bytes_max=3))

    run(says(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nabcd"), test)


@pytest.mark.parametrize(
    ("start", "part"),
    [
        (b"0\r\n", b"X-A: y\r\n" * 8000),
        (b"0\r\nX: ", b"a" * 64_000),
        (b"2\r\nok\r\n0\r\n", b"X-A: y\r\n" * 8000),
        (b"2;x=", b"a" * 64_000),
        (b"0", b"0" * 64_000),
    ],
    ids=["trailers", "one trailer", "trailers after a chunk", "extension", "length"],
)
def test_what_follows_a_body_without_an_end_is_broken_off(start: bytes, part: bytes) -> None:
    async def test(_: Server, transport: HttpTransport) -> None:
        with pytest.raises((AnswerTooLong, OutcomeUnknown), match=r"without data|[Ii]nvalid"):
            await transport.request(Request("GET", "/", deadline_s=5))

    run(says(CHUNKED, start, *[part] * 60), test)


def test_the_ends_of_many_bodies_are_not_added_up() -> None:
    async def test(_: Server, transport: HttpTransport) -> None:
        bodies = [(await transport.request(ASK)).body for _ in range(20)]
        assert bodies == [b""] * 20

    trailer = b"0\r\nX: " + b"a" * (HEAD_BYTES_MAX // 10) + b"\r\n\r\n"
    run(says(CHUNKED, trailer), test)


def test_nothing_is_sent_to_who_does_not_listen() -> None:
    async def test(_: Server, transport: HttpTransport) -> None:
        nobody = HttpTransport("http://127.0.0.1:1")
        with pytest.raises(Unreachable):
            await nobody.request(ASK)
        await nobody.close()

    run(says(OK), test)


@pytest.mark.parametrize("line_break", ["\r\n", "\r", "\n", "\0"])
def test_a_line_break_gets_into_no_request(line_break: str) -> None:
    async def test(server: Server, transport: HttpTransport) -> None:
        text = f"a{line_break}host: evil"
        with pytest.raises(ValueError, match="line break"):
            await transport.request(ASK._replace(headers={"x": text}))
        with pytest.raises(ValueError, match="line break"):
            await transport.request(ASK._replace(path=f"/{text}"))
        with pytest.raises(ValueError, match="line break"):
            await transport.request(ASK._replace(method=text))
        assert not server.requests

    run(says(OK), test)


def test_a_line_break_in_the_name_of_the_sender_is_refused_from_the_first_request_on() -> None:
    async def test(server: Server, _: HttpTransport) -> None:
        transport = HttpTransport(server.url, user_agent="a\r\nhost: evil")
        try:
            with pytest.raises(ValueError, match="line break"):
                await transport.request(ASK)
        finally:
            await transport.close()
        assert not server.requests

    run(says(OK), test)


def test_a_request_may_name_its_own_sender() -> None:
    async def test(server: Server, transport: HttpTransport) -> None:
        await transport.request(ASK._replace(headers={"user-agent": "somebody"}))
        await transport.request(ASK)
        named, usual = (text.lower().count(b"user-agent:") for text in server.requests)
        assert (named, usual) == (1, 1)
        assert b"user-agent: somebody" in server.requests[0]

    run(says(OK), test)


async def send(pool: Http1Pool, *, seconds: float = 60.0) -> Response:
    due_s = asyncio.get_running_loop().time() + seconds
    return await pool.request(ASK, {}, lambda: None, due_s=due_s)


def pool_to(server: Server, *, limit: int) -> Http1Pool:
    return Http1Pool(server.url, tls=None, server_name=None, limit=limit, user_agent="test")


def gate() -> tuple[Behave, Callable[[], None], asyncio.Semaphore]:
    """Yields a server that responds when the gate is open, and releases one for each request."""
    opened, asked = asyncio.Event(), asyncio.Semaphore(0)

    async def behave(_: bytes, writer: asyncio.StreamWriter) -> None:
        asked.release()
        await opened.wait()
        writer.write(OK)

    return behave, opened.set, asked


def test_requests_wait_for_a_connection_in_their_order() -> None:
    async def main() -> None:
        behave, open_gate, asked = gate()
        async with asyncio.timeout(10), Server(behave).running() as server:
            pool, done = pool_to(server, limit=2), []

            async def ask(number: int) -> None:
                await send(pool)
                done.append(number)

            async with asyncio.TaskGroup() as tasks:
                for number in range(6):
                    tasks.create_task(ask(number))
                await asked.acquire()
                await asked.acquire()
                open_gate()
            assert sorted(done) == list(range(6))
            assert done[4:] in ([4, 5], [5, 4])
            assert server.connections == pool.connections == 2
            await pool.close()
            assert pool.connections == 0

    asyncio.run(main())


def test_a_retired_pool_closes_each_connection_after_its_response() -> None:
    async def main() -> None:
        behave, open_gate, asked = gate()
        async with asyncio.timeout(10), Server(behave).running() as server:
            pool = pool_to(server, limit=2)
            async with asyncio.TaskGroup() as tasks:
                request = tasks.create_task(send(pool))
                await asked.acquire()
                pool.retire()
                assert pool.connections == 1
                open_gate()
            assert request.result().body == b"ok"
            for _ in range(100):  # turns of the event loop
                await asyncio.sleep(0)
            assert pool.connections == 0
            await pool.close()

    asyncio.run(main())


def test_one_that_gives_up_in_the_line_holds_up_nobody() -> None:
    async def main() -> None:
        behave, open_gate, asked = gate()
        async with asyncio.timeout(10), Server(behave).running() as server:
            pool = pool_to(server, limit=1)
            async with asyncio.TaskGroup() as tasks:
                first = tasks.create_task(send(pool))
                await asked.acquire()
                second = tasks.create_task(send(pool))
                third = tasks.create_task(send(pool))
                await asyncio.sleep(0)
                second.cancel()
                open_gate()
            assert first.result().body == third.result().body == b"ok"
            assert second.cancelled()
            await pool.close()

    asyncio.run(main())


def test_one_that_gives_up_when_its_turn_has_come_passes_the_connection_on() -> None:
    async def main() -> None:
        behave, open_gate, asked = gate()
        async with asyncio.timeout(10), Server(behave).running() as server:
            pool = pool_to(server, limit=1)

            async def ask_then_cancel() -> Response:
                response = await send(pool)
                # The connection is the second request's now, whose task has not run since.
                second.cancel()
                return response

            async with asyncio.TaskGroup() as tasks:
                first = tasks.create_task(ask_then_cancel())
                await asked.acquire()
                second = tasks.create_task(send(pool))
                third = tasks.create_task(send(pool))
                await asyncio.sleep(0)
                open_gate()
            assert first.result().body == third.result().body == b"ok"
            assert second.cancelled()
            assert (server.connections, len(server.requests)) == (1, 2)
            await pool.close()

    asyncio.run(main())


def test_one_that_is_given_up_under_way_takes_its_connection_with_it() -> None:
    async def main() -> None:
        behave, open_gate, _ = gate()
        async with asyncio.timeout(10), Server(behave).running() as server:
            pool = pool_to(server, limit=1)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await send(pool)
            open_gate()
            assert (await send(pool)).body == b"ok"
            assert server.connections == 2
            await pool.close()
            with pytest.raises(Unreachable, match="closed"):
                await send(pool)

    asyncio.run(main())


def test_a_request_that_is_late_takes_its_connection_with_it() -> None:
    async def main() -> None:
        behave, open_gate, _ = gate()
        async with asyncio.timeout(10), Server(behave).running() as server:
            pool = pool_to(server, limit=1)
            with pytest.raises(TimeoutError):
                await send(pool, seconds=0.05)
            # Its response, which comes now, is not that of the next request.
            open_gate()
            assert (await send(pool)).body == b"ok"
            assert (server.connections, len(server.requests)) == (2, 2)
            await pool.close()

    asyncio.run(main())


def test_each_request_ends_at_its_own_deadline() -> None:
    async def main() -> None:
        behave, open_gate, asked = gate()
        ended: list[float] = []

        async def fail(seconds: float) -> None:
            with pytest.raises(TimeoutError):
                await send(pool, seconds=seconds)
            ended.append(seconds)

        async with asyncio.timeout(10), Server(behave).running() as server:
            pool = pool_to(server, limit=8)
            async with asyncio.TaskGroup() as tasks:
                longest = tasks.create_task(send(pool))
                await asyncio.gather(*(fail(seconds) for seconds in (0.3, 0.1, 0.2)))
                for _ in range(4):
                    await asked.acquire()
                open_gate()
            assert ended == [0.1, 0.2, 0.3]
            assert longest.result().body == b"ok"
            await pool.close()

    asyncio.run(main())


def test_a_request_is_late_too_while_it_waits_for_a_connection() -> None:
    async def main() -> None:
        behave, open_gate, asked = gate()
        async with asyncio.timeout(10), Server(behave).running() as server:
            pool = pool_to(server, limit=1)
            async with asyncio.TaskGroup() as tasks:
                first = tasks.create_task(send(pool))
                await asked.acquire()
                with pytest.raises(TimeoutError):
                    await send(pool, seconds=0.05)
                open_gate()
            assert first.result().body == b"ok"
            assert (server.connections, len(server.requests)) == (1, 1)
            await pool.close()

    asyncio.run(main())


def test_a_closed_connection_is_freed_without_the_garbage_collector() -> None:
    async def main() -> None:
        async with asyncio.timeout(10), Server(says(OK)).running() as server:
            pool = pool_to(server, limit=1)
            await send(pool)
            (connection,) = pool._all
            watched = weakref.ref(connection)
            del connection
            await pool.close()
        gc.disable()
        try:
            await asyncio.sleep(0)
            assert watched() is None
        finally:
            gc.enable()

    asyncio.run(main())


class SteppedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time a test sets forward."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


async def some_turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_what_a_burst_opened_is_closed_when_it_was_idle_for_90_seconds() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SteppedLoop)
        behave, open_gate, asked = gate()
        async with Server(behave).running() as server:
            pool = pool_to(server, limit=5)
            async with asyncio.TaskGroup() as tasks:
                for _ in range(5):
                    tasks.create_task(send(pool))
                for _ in range(5):
                    await asked.acquire()
                open_gate()
            loop.ahead_s += 60
            await send(pool)
            assert pool.connections == 5
            loop.ahead_s += 31
            await some_turns()
            assert pool.connections == 1
            await send(pool)
            assert server.connections == 5  # the one that was used last was kept
            loop.ahead_s += 91
            await some_turns()
            assert pool.connections == 0
            assert (await send(pool)).body == b"ok"
            await pool.close()

    with asyncio.Runner(loop_factory=SteppedLoop) as runner:
        runner.run(main())
