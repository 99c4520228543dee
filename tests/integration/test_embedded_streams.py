"""Watches through the door of the embedded API server, and how it starts and stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from mooring.apiserver.http_server.http import Limits
from tests.integration.http_fixture import PODS, Handler, client, opened, run, status_of


class Watch:
    """A stream that the test feeds; knows whether it was closed."""

    def __init__(self) -> None:
        self.chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.closed = asyncio.Event()

    async def stream(self) -> AsyncIterator[bytes]:
        try:
            while (chunk := await self.chunks.get()) is not None:
                yield chunk
        finally:
            self.closed.set()


def test_every_event_of_a_watch_is_sent_when_it_happens() -> None:
    async def test() -> None:
        watch = Watch()
        async with opened(Handler(watch.stream)) as door, client(door) as session:
            async with session.get(PODS) as response:
                # The head came before any event.
                assert response.headers["Transfer-Encoding"] == "chunked"
                for line in (b'{"n":1}\n', b'{"n":2}\n'):
                    watch.chunks.put_nowait(line)
                    assert await response.content.readline() == line
                assert door.statistics() == {"streams": 1}
                watch.chunks.put_nowait(None)
                assert await response.content.read() == b""
            assert door.statistics() == {"streams": 0}

    run(test())


def test_a_watch_whose_client_leaves_is_closed() -> None:
    async def test() -> None:
        watch = Watch()
        async with opened(Handler(watch.stream)) as door, client(door) as session:
            response = await session.get(PODS)
            response.close()
            await watch.closed.wait()

    run(test())


def test_stopping_ends_watches_at_once_and_cleanly() -> None:
    async def test() -> None:
        watch = Watch()
        async with opened(Handler(watch.stream)) as door, client(door) as session:
            async with session.get(PODS) as response:
                watch.chunks.put_nowait(b"1\n")
                assert await response.content.readline() == b"1\n"
                door.stop()
                assert await response.content.read() == b""
            assert watch.closed.is_set()
            result, _ = await status_of(session.get(PODS))
            assert result == 429

    run(test())


def test_a_watcher_that_takes_nothing_is_cut_off() -> None:
    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield bytes(1 << 20)
        finally:
            closed.set()

    closed = asyncio.Event()

    async def test() -> None:
        limits = Limits(write_s=0.05)
        async with opened(Handler(endless), limits=limits) as door, client(door) as session:
            response = await session.get(PODS)
            await closed.wait()
            with pytest.raises(aiohttp.ClientError):
                await response.content.read()
            response.close()

    run(test())


def test_there_are_only_so_many_watches() -> None:
    async def test() -> None:
        watches = [Watch(), Watch()]
        streams = iter(watches)
        handler = Handler(lambda: next(streams).stream())
        limits = Limits(streams=1)
        async with (
            opened(handler, limits=limits) as door,
            client(door) as session,
            session.get(PODS),
        ):
            result, body = await status_of(session.get(PODS))
            watches[0].chunks.put_nowait(None)

        assert (result, body["reason"]) == (429, "TooManyRequests")

    run(test())


def test_a_port_that_is_taken_is_an_error() -> None:
    async def test() -> None:
        async with opened(Handler()) as door:
            port = int(door.url.rpartition(":")[2])
            with pytest.raises(OSError, match="address already in use"):
                async with opened(Handler(), port=port):
                    pass

    run(test())


def test_time_goes_by_while_nobody_asks() -> None:
    async def test() -> None:
        handler = Handler()
        async with opened(handler):
            await handler.ticked.wait()

    run(test())
