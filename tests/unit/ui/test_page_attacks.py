"""Attacks on the server of the page, by other users of the machine, who have no token."""

from __future__ import annotations

import asyncio

import pytest

from mooring.ui import replies, server
from tests.helpers.page import Page
from tests.helpers.streams import Streams, is_closed
from tests.unit.ui.test_page_server import with_page


def port_of(page: Page) -> int:
    return int(page.root.rpartition(":")[2])


async def connected(page: Page) -> Streams:
    return await asyncio.open_connection("127.0.0.1", port_of(page))


async def status_of(streams: Streams, page: Page, head: str, body: bytes = b"") -> int:
    reader, writer = streams
    address = f"Host: 127.0.0.1:{port_of(page)}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head} HTTP/1.1\r\n{address}\r\n".encode() + body)
    return int((await reader.readline()).split()[1])


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(body), body)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: "])
def test_a_head_that_does_not_end_closes_the_connection(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEAD_S_MAX", 0.05)

    async def test(page: Page) -> None:
        streams = await connected(page)
        streams[1].write(sent)
        async with asyncio.timeout(5):
            assert await is_closed(streams)

    with_page(test, is_open=False)


def test_connections_have_a_limit_and_those_within_it_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 2)

    async def test(page: Page) -> None:
        first, second = await connected(page), await connected(page)
        assert await status_of(first, page, "GET /") == 200
        async with asyncio.timeout(5):
            assert [await is_closed(await connected(page)) for _ in range(20)] == [True] * 20
        assert await status_of(second, page, "GET /") == 200
        for _, writer in (first, second):
            writer.close()

    with_page(test, is_open=False)


def test_without_a_session_only_a_token_is_read() -> None:
    async def test(page: Page) -> None:
        streams = await connected(page)
        body = chunked(b" " * (server.TOKEN_BODY_BYTES_MAX + 1))
        head = "POST /session HTTP/1.1\r\nTransfer-Encoding: chunked\r\nX: y"
        reader, writer = streams
        address = f"Host: 127.0.0.1:{port_of(page)}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}\r\n{address}\r\n".encode() + body)
        async with asyncio.timeout(5):
            assert (await reader.readline()).split()[1] == b"413"
        writer.close()

    with_page(test, is_open=False)


def test_a_body_that_does_not_come_is_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "BODY_S_MAX", 0.05)

    async def test(page: Page) -> None:
        streams = await connected(page)
        async with asyncio.timeout(5):
            head = "POST /session HTTP/1.1\r\nContent-Length: 9\r\nX: y"
            address = f"Host: 127.0.0.1:{port_of(page)}\r\nContent-Type: application/json\r\n"
            streams[1].write(f"{head}\r\n{address}\r\n{{".encode())
            assert (await streams[0].readline()).split()[1] == b"408"
        streams[1].close()

    with_page(test, is_open=False)


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/static/../server.py", 404),
        ("/static/%2e%2e/server.py", 404),
        ("/static/..%2fserver.py", 404),
        ("/static//app.js", 404),
        ("/static/", 404),
        ("/%ff", 404),
        ("/api/v1/state", 401),
        ("/api/v1/%2e%2e/%2e%2e/static/app.js", 401),
        ("//api/v1/state", 404),
        ("/static/../api/v1/state", 404),
        ("/%61pi/v1/state", 401),
        ("http://127.0.0.1/api/v1/state", 401),
    ],
)
def test_paths_lead_to_the_files_of_the_page_alone(target: str, status: int) -> None:
    async def test(page: Page) -> None:
        streams = await connected(page)
        assert await status_of(streams, page, f"GET {target}") == status
        streams[1].close()

    with_page(test, is_open=False)


def test_only_so_many_streams_are_open() -> None:
    async def test(page: Page) -> None:
        state = await page.get("state")
        words = f"generation={state['generation']}&attempt={state['attempt']}"
        path = f"{page.root}/api/v1/stream?{words}&resource=cpu&resource=memory"
        streams = [await page.http.get(path) for _ in range(server.STREAMS_MAX)]
        statuses = [stream.status for stream in streams]
        async with page.http.get(path) as refused:
            assert (refused.status, set(statuses)) == (429, {200})
        for stream in streams:
            stream.close()

    with_page(test)


@pytest.mark.parametrize(
    "query", [f"generation={'9' * 4000}&attempt=1", f"generation=1&attempt=-{'9' * 30}"]
)
def test_a_stream_with_strange_numbers_ends_or_goes_on(query: str) -> None:
    async def test(page: Page) -> None:
        async with page.http.get(f"{page.root}/api/v1/stream?{query}") as stream:
            assert stream.status == 200
            assert (await stream.content.readline()).startswith(b"data: ")

    with_page(test)
