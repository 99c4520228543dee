"""The transport over sockets, against small servers on the loopback address that misbehave."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from mooring.client.transport.http import CONNECTIONS, HttpTransport
from mooring.client.transport.transport import Pool, Request, Stream, StreamBroken
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


def test_extra_headers_are_sent_with_requests_and_streams() -> None:
    async def test(server: Server, transport: HttpTransport) -> None:
        groups = [("impersonate-group", "a"), ("impersonate-group", "jané")]
        impersonating = HttpTransport(server.url, extra_headers=groups)
        request = Request("GET", "/api/v1/pods", deadline_s=5)
        try:
            await impersonating.request(request)
            async with impersonating.stream(request, idle_s=5) as stream:
                assert stream.status == 200
        finally:
            await impersonating.close()
        assert len(server.requests) == 2
        for head in server.requests:
            lines = head.lower().split(b"\r\n")
            assert lines.count(b"impersonate-group: a") == 1
            assert lines.count("impersonate-group: jané".encode()) == 1

    run(says(OK), test)


def test_a_request_goes_out_as_it_is_meant() -> None:
    async def test(server: Server, transport: HttpTransport) -> None:
        answer = await transport.request(
            Request(
                "POST",
                "/api/v1/namespaces/a%2Fb/pods",
                query=[("fieldSelector", "a=b,c!=d"), ("x", "1 &2+")],
                body=b'{"a": 1}',
                headers={"content-type": "application/json"},
                deadline_s=5,
            )
        )
        assert (answer.status, answer.body) == (200, b"ok")
        assert answer.headers["content-length"] == "2"
        head, _, body = server.requests[0].partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        assert first.startswith(b"POST /api/v1/namespaces/a%2Fb/pods?fieldSelector=a%3Db")
        assert first.endswith(b"x=1+%262%2B HTTP/1.1")
        sent = [line.lower() for line in lines]
        assert b"user-agent: test" in sent
        assert b"accept-encoding: identity" in sent
        assert body == b'{"a": 1}'

    run(says(OK), test)


def test_connections_are_kept_and_each_pool_has_its_own() -> None:
    async def test(server: Server, transport: HttpTransport) -> None:
        for pool in (Pool.READ, Pool.READ, Pool.WRITE, Pool.LEASE, Pool.WRITE):
            await transport.request(Request("GET", "/", deadline_s=5, pool=pool))
        assert (len(server.requests), server.connections) == (5, 3)

    run(says(OK), test)


def test_a_full_pool_does_not_hold_up_the_lease() -> None:
    is_free = asyncio.Event()

    async def behave(request: bytes, writer: asyncio.StreamWriter) -> None:
        if b"/slow" in request:
            await is_free.wait()
        writer.write(OK)

    async def test(server: Server, transport: HttpTransport) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(CONNECTIONS[Pool.WRITE] + 1):
                tasks.create_task(
                    transport.request(Request("POST", "/slow", deadline_s=15, pool=Pool.WRITE))
                )
            while len(server.requests) < CONNECTIONS[Pool.WRITE]:  # noqa: ASYNC110 - a plain list
                await asyncio.sleep(0)
            answer = await transport.request(
                Request("PUT", "/lease", deadline_s=5, pool=Pool.LEASE)
            )
            assert answer.status == 200
            is_free.set()

    run(behave, test)


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "said",
    [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf", b"HTTP/1.1 2", b"nonsense\r\n\r\n"],
)
def test_nobody_knows_when_the_answer_is_lost_and_it_is_not_sent_again(
    method: str, said: bytes
) -> None:
    calls = 0

    async def behave(_: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        calls += 1
        # The first request makes the connection a kept one.
        writer.write(OK if calls == 1 else said)
        await writer.drain()
        if calls > 1:
            writer.close()

    async def test(server: Server, transport: HttpTransport) -> None:
        await transport.request(Request("GET", "/", deadline_s=5))
        with pytest.raises(OutcomeUnknown):
            await transport.request(Request(method, "/", deadline_s=5))
        assert len(server.requests) == 2

    run(behave, test)


def test_nobody_knows_when_no_answer_comes_in_time() -> None:
    async def silent(_: bytes, writer: asyncio.StreamWriter) -> None:
        return

    async def test(server: Server, transport: HttpTransport) -> None:
        with pytest.raises(OutcomeUnknown, match="POST /: timeout: no response"):
            await transport.request(Request("POST", "/", deadline_s=0.2))

    run(silent, test)


def test_a_redirect_is_an_answer_and_not_followed() -> None:
    moved = b"HTTP/1.1 302 Found\r\nlocation: http://elsewhere/\r\ncontent-length: 0\r\n\r\n"

    async def test(server: Server, transport: HttpTransport) -> None:
        assert (await transport.request(Request("GET", "/", deadline_s=5))).status == 302
        assert len(server.requests) == 1

    run(says(moved), test)


@pytest.mark.parametrize("way", ["request", "stream"])
def test_after_a_401_it_is_tried_once_more_on_new_connections(way: str) -> None:
    async def test(server: Server, _: HttpTransport) -> None:
        names = Names()
        transport = HttpTransport(server.url, authorization=names)
        try:
            if way == "request":
                assert (await transport.request(Request("POST", "/", deadline_s=5))).status == 200
            else:
                async with transport.stream(Request("GET", "/", deadline_s=5), idle_s=5) as stream:
                    assert stream.status == 200
        finally:
            await transport.close()
        assert names.renewals == 1
        assert server.connections == 2

    run(wants_renewal, test)


def test_a_401_after_a_renewal_is_reported() -> None:
    refused = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n"

    async def test(server: Server, _: HttpTransport) -> None:
        transport = HttpTransport(server.url, authorization=Names())
        try:
            for count in range(1, 13):
                assert (await transport.request(Request("GET", "/", deadline_s=5))).status == 401
                assert len(server.requests) == 2 * count
        finally:
            await transport.close()

    run(says(refused), test)


def test_a_stream_comes_line_by_line() -> None:
    parts = [CHUNKED, chunk(b"one\ntw"), chunk(b"o\nthree\n"), chunk(b""), b""]

    async def test(_: Server, transport: HttpTransport) -> None:
        async with transport.stream(
            Request("GET", "/", query=[("watch", "1")], deadline_s=5), idle_s=5
        ) as stream:
            assert stream.status == 200
            lines = [line async for batch in stream.batches() for line in batch]
        assert lines == [b"one", b"two", b"three"]

    run(says(*parts), test)


@pytest.mark.parametrize("parts", [[chunk(b"one\n")], [chunk(b"one\ntw")], [b"99\r\none\n"]])
def test_a_stream_that_is_cut_gives_its_whole_lines_first(parts: list[bytes]) -> None:
    async def test(_: Server, transport: HttpTransport) -> None:
        lines: list[bytes] = []

        async def read(stream: Stream) -> None:
            async for batch in stream.batches():
                lines.extend(batch)

        async with transport.stream(Request("GET", "/", deadline_s=5), idle_s=5) as stream:
            with pytest.raises(StreamBroken):
                await read(stream)
        assert lines == [b"one"]

    run(says(CHUNKED, *parts, then_close=True), test)


def test_a_stream_that_is_silent_for_too_long_is_broken() -> None:
    async def test(_: Server, transport: HttpTransport) -> None:
        async with transport.stream(Request("GET", "/", deadline_s=5), idle_s=0.1) as stream:
            with pytest.raises(StreamBroken, match=r"no data for 0\.1 s"):
                async for _batch in stream.batches():
                    pass

    run(says(CHUNKED, chunk(b"one\n")), test)


def test_a_server_that_closes_plain_connections_may_serve_tls() -> None:
    async def closes(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def test(_: Server, transport: HttpTransport) -> None:
        hint = "GET /a: the server closed the connection; if it serves TLS, .* begin with https://"
        request = Request("GET", "/a", deadline_s=5)
        with pytest.raises(OutcomeUnknown, match=hint):
            await transport.request(request)
        with pytest.raises(Unreachable, match=hint):
            async with transport.stream(request, idle_s=5):
                pass

    run(closes, test)


def test_a_server_that_cannot_be_reached_gets_no_hint_about_tls() -> None:
    async def test() -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            transport = HttpTransport(f"http://127.0.0.1:{unused.getsockname()[1]}")
            try:
                with pytest.raises(Unreachable, match=r"Connection refused$"):
                    await transport.request(Request("GET", "/", deadline_s=5))
            finally:
                await transport.close()

    asyncio.run(test())


def test_a_stream_whose_head_does_not_come_was_not_reached() -> None:
    async def silent(_: bytes, writer: asyncio.StreamWriter) -> None:
        return

    async def test(_: Server, transport: HttpTransport) -> None:
        with pytest.raises(Unreachable):
            async with transport.stream(Request("GET", "/", deadline_s=0.1), idle_s=5):
                pass

    run(silent, test)


def test_a_long_line_is_no_trouble() -> None:
    text = os.urandom(1_500_000).hex().encode()

    async def test(_: Server, transport: HttpTransport) -> None:
        async with transport.stream(Request("GET", "/", deadline_s=5), idle_s=5) as stream:
            lines = [line async for batch in stream.batches() for line in batch]
        assert lines == [text, b"end"]

    run(says(CHUNKED, chunk(text), chunk(b"\nend\n"), chunk(b"")), test)


def test_many_watches_at_once_have_a_connection_each() -> None:
    async def test(server: Server, transport: HttpTransport) -> None:
        async def watch() -> None:
            async with transport.stream(Request("GET", "/", deadline_s=5), idle_s=5) as stream:
                batches = stream.batches()
                assert await anext(batches) == [b"one"]
                await batches.aclose()

        async with asyncio.TaskGroup() as tasks:
            for _ in range(30):
                tasks.create_task(watch())
        assert server.connections == 30

    run(says(CHUNKED, chunk(b"one\n")), test)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unreachable_server_is_named_with_the_reason(method: str) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        transport = HttpTransport(f"http://127.0.0.1:{port}")
        try:
            request = Request(method, "/api", deadline_s=5)
            with pytest.raises(Unreachable, match=r"Connection refused$") as failure:
                await transport.request(request)
            with pytest.raises(Unreachable, match=rf":{port}: Connection refused$"):
                async with transport.stream(Request("GET", "/api", deadline_s=5), idle_s=5):
                    pass
        finally:
            await transport.close()
        assert "Error" not in str(failure.value)

    asyncio.run(main())
