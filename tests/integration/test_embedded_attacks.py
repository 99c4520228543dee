"""Attacks on the HTTP front end of the embedded API server, by clients without credentials."""

from __future__ import annotations

import asyncio
import logging
import ssl

import pytest

from mooring.apiserver.http_server.http import HttpServer, Limits
from tests.helpers.streams import Streams, connection, is_closed
from tests.integration.http_fixture import PODS, Handler, client, opened, run, status_of

#: The limits of connections are those of the loop that the commands use, and of asyncio's.
pytestmark = pytest.mark.usefixtures("each_loop")


async def connected(server: HttpServer) -> Streams:
    """Returns a connection over which nothing was sent yet."""
    context = ssl.create_default_context(cadata=server.authority.decode())
    port = int(server.url.rpartition(":")[2])
    return await asyncio.open_connection("127.0.0.1", port, ssl=context)


async def is_refused(server: HttpServer) -> bool:
    try:
        return await is_closed(await connected(server))
    except ConnectionError:
        return True


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Slow: "])
def test_a_head_that_does_not_end_closes_the_connection(sent: bytes) -> None:
    async def test() -> None:
        async with opened(Handler(), limits=Limits(head_s=0.05)) as server:
            streams = await connected(server)
            streams[1].write(sent)

            assert await is_closed(streams)

    run(test())


def test_a_second_head_that_does_not_end_closes_the_connection() -> None:
    async def test() -> None:
        async with opened(Handler(), limits=Limits(head_s=0.05)) as server:
            reader, writer = streams = await connected(server)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            assert await reader.readexactly(2) == b"{}"
            writer.write(b"GET /healthz HT")

            assert await is_closed(streams)

    run(test())


def test_a_body_may_take_longer_than_a_head() -> None:
    async def test() -> None:
        handler = Handler()
        async with opened(handler, limits=Limits(head_s=0.05)) as server:
            token = server.token()
            head = f"POST {PODS} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n"
            async with connection(connected(server)) as (reader, writer):
                writer.write(f"{head}Content-Length: 4\r\n\r\n{{".encode())
                for part in (b" ", b" ", b"}"):
                    await asyncio.sleep(0.04)
                    writer.write(part)
                assert (await reader.readline()).split()[1] == b"200"
        assert handler.calls[0][4] == b"{  }"

    run(test())


def test_connections_have_a_limit_and_those_within_it_are_served() -> None:
    async def test() -> None:
        limits = Limits(connections=3)
        async with opened(Handler(), limits=limits) as server, client(server) as session:
            assert (await status_of(session.get(PODS)))[0] == 200
            async with (
                connection(connected(server)),
                connection(connected(server)) as (reader, writer),
            ):
                assert [await is_refused(server) for _ in range(20)] == [True] * 20
                assert (await status_of(session.get(PODS)))[0] == 200
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
                assert (await reader.readline()).split()[1] == b"200"

    run(test())


@pytest.mark.parametrize(
    "header",
    [b"Authorization : Bearer topsecret", b"Auth\x00orization: topsecret", b"topsecret"],
)
def test_a_malformed_head_is_400_and_nothing_of_it_is_logged(
    header: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def test() -> None:
        async with opened(Handler()) as server, connection(connected(server)) as (reader, writer):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + header + b"\r\n\r\n")
            assert (await reader.readline()).split()[1] == b"400"

    run(test())
    records = [record for record in caplog.records if "selector" not in record.getMessage()]
    assert "topsecret" not in "".join(f"{vars(record)}" for record in records)
    assert [record.levelno for record in records if record.levelno > logging.DEBUG] == []
    assert [record.getMessage() for record in records] == ["malformed request"]


@pytest.mark.parametrize(
    "name", ["Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-Scopes"]
)
def test_who_names_no_user_to_act_as_is_refused(name: str) -> None:
    async def test() -> None:
        handler = Handler()
        async with opened(handler) as server, client(server) as session:
            status, body = await status_of(session.get(PODS, headers={name: "x"}))

        assert (status, handler.calls) == (400, [])
        assert body["message"].endswith("without impersonating a user")

    run(test())
