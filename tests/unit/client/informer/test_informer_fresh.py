"""An informer that is asked for the state of a certain time: it waits, or lists again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mooring.client.informer.informer import CONNECT_S_MAX, Informer
from mooring.client.informer.reflector import WATCH_IDLE_S
from mooring.client.rest.client import Client
from mooring.client.transport.transport import (
    ChunkedStream,
    Request,
    Response,
    Stream,
    StreamBroken,
)
from mooring.clock import seeded_random
from mooring.errors import SchedulerError, ServerError, Unreachable
from mooring.virtual_loop import LoopClock
from tests.helpers.client_servers import answer, refusal
from tests.helpers.running_scheduler import virtually
from tests.unit.client.informer.test_informer import end_of_list, line, pod


def now_s() -> float:
    return asyncio.get_running_loop().time()


class Server:
    """A transport whose streams stay open, and get what a test sends."""

    def __init__(self) -> None:
        self.requests: list[tuple[Request, float]] = []
        self.chunks: asyncio.Queue[bytes | Exception] = asyncio.Queue()
        #: Raised by each new stream; None: it is accepted.
        self.refusal: Exception | None = None
        self.status = 200

    async def request(self, request: Request) -> Response:
        """Returns an empty list."""
        self.requests.append((request, 0.0))
        if self.refusal is not None:
            raise self.refusal
        if self.status != 200:
            return refusal(self.status, "NotFound")
        return answer(200, {"metadata": {"resourceVersion": "9"}, "items": []})

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_s: float) -> AsyncIterator[Stream]:
        self.requests.append((request, idle_s))
        self.chunks = asyncio.Queue()
        if self.refusal is not None:
            raise self.refusal
        if self.status != 200:
            response = refusal(self.status, "NotFound")
            self.chunks.put_nowait(response.body)
            self.chunks.put_nowait(b"")
        yield ChunkedStream(self.status, {}, self._sent(self.chunks), idle_s=idle_s)

    async def _sent(self, chunks: asyncio.Queue[bytes | Exception]) -> AsyncIterator[bytes]:
        while (chunk := await chunks.get()) != b"":
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    def send(self, *chunks: bytes | Exception) -> None:
        for chunk in chunks:
            self.chunks.put_nowait(chunk)

    @property
    def lists(self) -> list[bool]:
        """Returns for each request whether it is a list."""
        return ["sendInitialEvents" in dict(request.query) for request, _ in self.requests]


class Case:
    """A running informer, and the times at which waits for a state ended."""

    def __init__(self, server: Server, tasks: asyncio.TaskGroup, **options: Any) -> None:
        self.server = server
        rng, clock = seeded_random(1), LoopClock(asyncio.get_running_loop())
        client: Any = Client(server, rng=rng)  # type: ignore[arg-type]
        self.informer = Informer(client, "Pod", lambda _: None, clock=clock, rng=rng, **options)
        self.ended_s: list[float] = []
        self._tasks = tasks

    def ask(self, since_s: float) -> None:
        """Waits for the state at this time, in a task."""

        async def wait() -> None:
            await self.informer.wait_until_fresh(since_s)
            self.ended_s.append(now_s())

        self._tasks.create_task(wait())


@asynccontextmanager
async def running(*, is_listed: bool = True, **options: Any) -> AsyncIterator[Case]:
    """Runs an informer, which lists at 0 s and then watches; yields at 10 s."""
    async with asyncio.TaskGroup() as tasks:
        case = Case(Server(), tasks, **options)
        run = tasks.create_task(case.informer.run())
        await asyncio.sleep(1)
        if is_listed:
            case.server.send(line("ADDED", pod("a", 1)), end_of_list(5))
        await asyncio.sleep(9)
        yield case
        run.cancel()


@virtually
async def test_a_watch_that_has_brought_something_since_then_is_fresh() -> None:
    async with running() as case:
        case.server.send(line("ADDED", pod("b", 6)))
        await asyncio.sleep(5)
        case.ask(10.0)
        await asyncio.sleep(1)
        assert case.ended_s == [15.0]
        assert case.server.lists == [True]


@virtually
async def test_a_watch_that_has_brought_nothing_since_then_is_followed_by_a_list() -> None:
    async with running() as case:
        case.server.send(line("ADDED", pod("b", 6)))
        await asyncio.sleep(5)
        case.ask(10.5)
        await asyncio.sleep(1)
        assert case.server.lists == [True, True]
        assert "resourceVersion" not in dict(case.server.requests[1][0].query)
        assert case.ended_s == []
        case.server.send(line("ADDED", pod("b", 6)))
        await asyncio.sleep(1)
        assert case.ended_s == []
        case.server.send(end_of_list(7))
        await asyncio.sleep(1)
        assert case.ended_s == [17.0]
        assert list(case.informer.objects) == ["shop/b"]


@virtually
async def test_the_state_before_the_list_is_there_at_once() -> None:
    async with running() as case:
        case.ask(0.0)
        await asyncio.sleep(1)
        assert case.ended_s == [10.0]
        case.ask(0.5)  # the list was asked for before
        await asyncio.sleep(1)
        assert (case.ended_s, case.server.lists) == ([10.0], [True, True])
        case.server.send(end_of_list(5))
        await asyncio.sleep(1)
        assert case.ended_s == [10.0, 12.0]


@virtually
async def test_without_an_open_watch_an_earlier_answer_is_not_enough() -> None:
    async with running() as case:
        case.server.send(line("ADDED", pod("b", 6)))
        await asyncio.sleep(1)
        case.server.refusal = Unreachable("refused")
        case.server.send(StreamBroken("cut"))
        await asyncio.sleep(1)
        case.ask(10.0)
        await asyncio.sleep(40)
        assert case.ended_s == []
        case.server.refusal = None
        await asyncio.sleep(60)
        case.server.send(end_of_list(9))
        await asyncio.sleep(1)
        assert len(case.ended_s) == 1
        assert case.ended_s[0] > 52.0


@virtually
async def test_the_wait_for_the_next_try_is_cut_short() -> None:
    async with running() as case:
        case.server.refusal = Unreachable("refused")
        case.server.send(StreamBroken("cut"))
        await asyncio.sleep(60)
        left_s = case.informer.next_try_at_s - now_s()
        assert left_s > 0
        count, case.server.refusal = len(case.server.requests), None
        case.ask(now_s())
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        assert len(case.server.requests) == count + 1
        assert case.server.lists[-1]
        case.server.send(end_of_list(9))
        await asyncio.sleep(1)
        assert len(case.ended_s) == 1


@virtually
async def test_two_that_wait_share_a_list_that_was_sent_after_both() -> None:
    async with running() as case:
        case.ask(9.0)
        case.ask(10.0)
        await asyncio.sleep(1)
        assert case.server.lists == [True, True]
        case.server.send(end_of_list(9))
        await asyncio.sleep(1)
        assert case.ended_s == [11.0, 11.0]


@virtually
async def test_a_list_under_way_is_not_fresh_for_those_who_ask_later() -> None:
    async with running(is_listed=False) as case:
        case.ask(5.0)
        await asyncio.sleep(1)
        assert case.server.lists == [True, True]
        case.server.send(end_of_list(9))
        await asyncio.sleep(1)
        assert case.ended_s == [11.0]
        assert case.informer.has_synced


@virtually
async def test_a_kind_that_the_server_does_not_have_is_fresh() -> None:
    async with asyncio.TaskGroup() as tasks:
        server = Server()
        server.status = 404
        case = Case(server, tasks, is_optional=True)
        case.ask(0.0)
        await asyncio.sleep(0)
        run = tasks.create_task(case.informer.run())
        await asyncio.sleep(5)
        assert case.ended_s == [0.0]
        count = len(server.requests)
        case.ask(5.0)
        await asyncio.sleep(0.001)
        assert case.ended_s == [0.0, 5.0]
        assert len(server.requests) == count
        assert case.informer.last_error is None
        run.cancel()


@virtually
async def test_a_kind_that_must_be_there_and_is_missing_is_not_fresh() -> None:
    async with asyncio.TaskGroup() as tasks:
        server = Server()
        server.status = 404
        case = Case(server, tasks)
        run = tasks.create_task(case.informer.run())
        wait = tasks.create_task(case.informer.wait_until_fresh(0.0))
        await asyncio.sleep(60)
        assert not wait.done()
        assert case.informer.last_error is not None
        run.cancel()
        wait.cancel()


@pytest.mark.parametrize(
    "error", [Unreachable("refused"), ServerError("ill", status=500), StreamBroken("cut")]
)
@virtually
async def test_the_next_try_comes_when_it_was_announced(error: SchedulerError) -> None:
    async with running(is_listed=False) as case:
        case.server.send(error)
        await asyncio.sleep(0.001)
        at_s = case.informer.next_try_at_s
        assert 10.8 <= at_s < 11.7
        await asyncio.sleep(at_s - now_s() - 0.001)
        assert len(case.server.requests) == 1
        await asyncio.sleep(0.002)
        assert len(case.server.requests) == 2


@virtually
async def test_streams_have_their_limits() -> None:
    async with running() as case:
        case.server.send(b"")
        await asyncio.sleep(1)
        assert len(case.server.requests) == 2
        for request, idle_s in case.server.requests:
            assert (request.deadline_s, idle_s) == (CONNECT_S_MAX, WATCH_IDLE_S)
        assert (CONNECT_S_MAX, WATCH_IDLE_S) == (30.0, 150.0)
