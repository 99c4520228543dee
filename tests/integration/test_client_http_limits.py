"""The transport over sockets: deadlines, limits, and what it must not do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from mooring.client.transport.http import RETIRED_MAX, HttpTransport
from mooring.client.transport.transport import AnswerTooLong, Request, StreamBroken
from mooring.errors import OutcomeUnknown, Unreachable
from tests.integration.http_servers import (
    CHUNKED,
    OK,
    Names,
    Server,
    chunk,
    run,
    says,
    wants_renewal,
)


async def go(way: str, transport: HttpTransport, request: Request) -> None:
    """Sends the request, or opens it as a stream without reading."""
    if way == "request":
        await transport.request(request)
    else:
        async with transport.stream(request, idle_s=5):
            pass


class SlowNames(Names):
    """Credentials that take for ever: to be had at first, or to be renewed."""

    def __init__(self, *, hangs_at: str) -> None:
        super().__init__()
        self.hangs_at = hangs_at

    def current_headers(self) -> None:
        return None

    async def headers(self) -> Mapping[str, str]:
        if self.hangs_at == "headers":
            await asyncio.Event().wait()
        return await super().headers()

    async def renew(self) -> None:
        if self.hangs_at == "renew":
            await asyncio.Event().wait()
        await super().renew()


@pytest.mark.parametrize("hangs_at", ["headers", "renew"])
@pytest.mark.parametrize("way", ["request", "stream"])
def test_a_deadline_counts_for_the_credentials_too(way: str, hangs_at: str) -> None:
    async def test(server: Server, _: HttpTransport) -> None:
        transport = HttpTransport(server.url, authorization=SlowNames(hangs_at=hangs_at))
        request = Request("POST" if way == "request" else "GET", "/", deadline_s=0.2)
        try:
            # Surely: it was not sent, or was refused.
            with pytest.raises(Unreachable, match="timeout: no response"):
                await go(way, transport, request)
        finally:
            await transport.close()
        assert len(server.requests) == (0 if hangs_at == "headers" else 1)

    run(wants_renewal, test)


def test_both_tries_together_have_one_deadline() -> None:
    is_refused = asyncio.Event()

    async def behave(request: bytes, writer: asyncio.StreamWriter) -> None:
        if b"Bearer 0" in request:
            await wants_renewal(request, writer)
            is_refused.set()

    async def test(server: Server, _: HttpTransport) -> None:
        transport = HttpTransport(server.url, authorization=Names())
        try:
            with pytest.raises(OutcomeUnknown, match="timeout: no response"):
                await transport.request(Request("POST", "/", deadline_s=0.3))
        finally:
            await transport.close()
        assert is_refused.is_set()
        assert len(server.requests) == 2

    run(behave, test)


@pytest.mark.parametrize("way", ["request", "stream"])
def test_a_closed_transport_opens_no_connection_any_more(way: str) -> None:
    async def test(server: Server, transport: HttpTransport) -> None:
        await transport.close()
        with pytest.raises(Unreachable, match="the transport is closed"):
            await go(way, transport, Request("GET", "/", deadline_s=5))
        assert server.connections == 0

    run(says(OK), test)


def test_an_answer_that_is_longer_than_allowed_is_broken_off() -> None:
    async def test(server: Server, transport: HttpTransport) -> None:
        with pytest.raises(AnswerTooLong, match="GET /: more than 1 bytes"):
            await transport.request(Request("GET", "/", deadline_s=5, bytes_max=1))
        assert (await transport.request(Request("GET", "/", deadline_s=5, bytes_max=2))).body

    run(says(OK), test)


def test_cookies_are_not_sent_back() -> None:
    answer = b"HTTP/1.1 200 OK\r\nset-cookie: a=b; path=/\r\ncontent-length: 2\r\n\r\nok"

    async def test(server: Server, _: HttpTransport) -> None:
        # A name, since there are no cookies for addresses.
        transport = HttpTransport(server.url.replace("127.0.0.1", "localhost"))
        try:
            for _number in range(2):
                await transport.request(Request("GET", "/", deadline_s=5))
        finally:
            await transport.close()
        assert not any(b"cookie" in request.lower() for request in server.requests)

    run(says(answer), test)


@pytest.mark.parametrize("way", ["request", "stream"])
def test_a_chunk_that_makes_no_sense_breaks_what_is_read(way: str) -> None:
    is_read = asyncio.Event()

    async def behave(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunk(b"one\n"))
        await writer.drain()
        if way == "stream":
            await is_read.wait()
        writer.write(b"zz\r\n")

    async def read(transport: HttpTransport) -> None:
        async with transport.stream(Request("GET", "/", deadline_s=5), idle_s=5) as stream:
            async for batch in stream.batches():
                assert batch == [b"one"]
                is_read.set()

    async def test(_: Server, transport: HttpTransport) -> None:
        if way == "request":
            with pytest.raises(OutcomeUnknown):
                await transport.request(Request("GET", "/", deadline_s=5))
        else:
            with pytest.raises(StreamBroken):
                await read(transport)

    run(behave, test)


def test_old_connections_are_closed_when_many_certificates_have_come_and_gone() -> None:
    async def test(server: Server, _: HttpTransport) -> None:
        names = Names()
        transport = HttpTransport(server.url, authorization=names)
        try:
            for _number in range(RETIRED_MAX + 3):
                names.generation += 1
                await transport.request(Request("GET", "/", deadline_s=5))
            assert server.connections == RETIRED_MAX + 3
            assert len(transport._retired_http1_pools) <= RETIRED_MAX
            # They were idle, so they have ended.
            for _turn in range(3):
                await asyncio.sleep(0)
            assert sum(wire.connections for wire in transport._retired_http1_pools) == 0
        finally:
            await transport.close()

    run(says(OK), test)


class StoppedAtCredentials(Names):
    """Credentials after which the loop's clock is an hour ahead: the process was stopped."""

    is_stopped = False

    def current_headers(self) -> Mapping[str, str] | None:
        if self.is_stopped:
            loop = asyncio.get_running_loop()
            now_s = loop.time() + 3600.0
            loop.time = lambda: now_s  # type: ignore[method-assign]
        return super().current_headers()


def test_a_process_that_was_stopped_sends_nothing_after_the_deadline() -> None:
    async def test(server: Server, _: HttpTransport) -> None:
        names = StoppedAtCredentials()
        transport = HttpTransport(server.url, authorization=names)
        request = Request("POST", "/", deadline_s=10.0)
        try:
            # Its connection is ready for the next one, which need not wait.
            assert (await transport.request(request)).status == 200
            names.is_stopped = True
            with pytest.raises(Unreachable):
                await transport.request(request)
        finally:
            del asyncio.get_running_loop().time
            await transport.close()
        assert len(server.requests) == 1

    run(says(OK), test)
