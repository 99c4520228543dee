"""Attacks on the port of ``mooring extender serve``, by clients without credentials."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mooring.clock import SystemClock
from mooring.extender_server.http import serve
from mooring.extender_server.options import ServeOptions
from mooring.extender_server.plugin_extender import Extender
from tests.helpers.event_loops import run_on_loop
from tests.helpers.streams import Streams, connection, is_closed
from tests.integration.test_serving_http import ASKED, POD, NotB

#: The limits of connections are those of the loop that the commands use, and of asyncio's.
pytestmark = pytest.mark.usefixtures("each_loop")

DEADLINE_S = 20.0
HEAD = b"POST /filter HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
BODY = json.dumps(ASKED).encode()

Connect = Callable[[], Awaitable[Streams]]


def attacking(attack: Callable[[Connect], Awaitable[None]], **options: Any) -> None:
    """Runs a server, and an attack on it."""

    async def main() -> None:
        clock = SystemClock()
        served = serve(
            Extender([NotB()], clock=clock), ServeOptions(port=0, **options), clock=clock
        )
        async with asyncio.timeout(DEADLINE_S), served as url:
            port = int(url.rpartition(":")[2])
            await attack(lambda: asyncio.open_connection("127.0.0.1", port))

    run_on_loop(main())


async def answered(streams: Streams, sent: bytes) -> tuple[int, bytes]:
    """Sends a request; returns status and body of the response."""
    reader, writer = streams
    writer.write(sent)
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = next(line for line in head.splitlines() if line.startswith("content-length:"))
    return int(head.split()[1]), await reader.readexactly(int(length.split(":")[1]))


def whole(body: bytes = BODY, more: bytes = b"", head: bytes = HEAD) -> bytes:
    return head + more + b"Content-Length: %d\r\n\r\n" % len(body) + body


@pytest.mark.parametrize("sent", [b"", HEAD, b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Slow: "])
def test_a_head_that_does_not_end_closes_the_connection(sent: bytes) -> None:
    async def attack(connect: Connect) -> None:
        streams = await connect()
        streams[1].write(sent)
        assert await is_closed(streams)

    attacking(attack, head_s=0.05)


def test_connections_have_a_limit_and_those_within_it_are_served() -> None:
    async def attack(connect: Connect) -> None:
        async with connection(connect()) as first, connection(connect()):
            assert (await answered(first, whole()))[0] == 200
            assert [await is_closed(await connect()) for _ in range(20)] == [True] * 20
            assert (await answered(first, whole()))[0] == 200

    attacking(attack, connections_max=2)


def test_a_client_that_does_not_read_its_response_is_disconnected() -> None:
    names = [f"{number}-" + "n" * 1000 for number in range(16_000)]
    body = json.dumps({"Pod": POD, "NodeNames": names}).encode()

    async def attack(connect: Connect) -> None:
        reader, writer = await connect()
        writer.write(whole(body))
        await reader.readuntil(b"\r\n\r\n")
        transport: Any = writer.transport
        transport.pause_reading()
        await asyncio.sleep(0.5)
        transport.resume_reading()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await reader.readexactly(len(body) - 1000)
        writer.close()
        async with connection(connect()) as other:
            assert (await answered(other, whole()))[0] == 200

    attacking(attack, write_s=0.05)


def test_bodies_that_are_sent_at_the_same_time_have_a_limit_together() -> None:
    async def attack(connect: Connect) -> None:
        half = HEAD + b"Content-Length: 1000\r\n\r\n" + b" " * 900
        async with connection(connect()) as one, connection(connect()) as two:
            one[1].write(half)
            status, body = 200, b""
            while status == 200:  # until the half is read
                status, body = await answered(two, whole(BODY + b" " * 200))
            assert (status, body) == (503, b"too many bodies are sent at the same time\n")
            one[1].write(b" " * 100)
            assert (await one[0].readline()).split()[1] == b"200"
        async with connection(connect()) as three:
            assert (await answered(three, whole(BODY + b" " * 500)))[0] == 200

    attacking(attack, bodies_bytes_max=1000)


def test_a_body_that_does_not_come_is_408() -> None:
    async def attack(connect: Connect) -> None:
        async with connection(connect()) as streams:
            sent = HEAD + b"Content-Length: 1000\r\n\r\n "
            assert (await answered(streams, sent))[0] == 408

    attacking(attack, body_s=0.05, head_s=0.05)


def test_a_length_that_is_too_long_is_refused_before_the_body_is_sent() -> None:
    async def attack(connect: Connect) -> None:
        async with connection(connect()) as streams:
            sent = HEAD + b"Content-Length: 1000000000\r\n\r\n"
            assert (await answered(streams, sent))[0] == 413

    attacking(attack, head_s=0.05)


def test_a_client_that_waits_to_be_asked_for_its_body_is_asked() -> None:
    async def attack(connect: Connect) -> None:
        async with connection(connect()) as (reader, writer):
            writer.write(HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(BODY))
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            assert (await answered((reader, writer), BODY))[0] == 200

    attacking(attack)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
        (HEAD + b"Content-Length: -1\r\n\r\n", 400),
        (HEAD + b"Content-Length: +2\r\n\r\n{}", 400),
        (HEAD + b"Transfer-Encoding: gzip\r\n\r\n", 400),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", 400),
        (HEAD + b"X-Long: " + b"x" * 9000 + b"\r\n\r\n", 400),
        (HEAD + b"".join(b"X-%d: x\r\n" % number for number in range(5000)) + b"\r\n", 400),
        (HEAD.replace(b"/filter", b"/" + b"x" * 9000) + b"\r\n", 400),
        (HEAD + b"Authorization : Bearer x\r\n\r\n", 400),
        (HEAD.replace(b"/filter", b"/%00\xff/filter"), 400),
        (whole(more=b"Content-Encoding: zstd\r\n"), 415),
        (whole(more=b"Content-Encoding: gzip, identity\r\n"), 415),
        (whole(head=HEAD.replace(b"application/json", b"application/json-patch+json")), 415),
        (whole(head=HEAD.replace(b"Content-Type: application/json", b"X: y")), 415),
        (whole(head=HEAD.replace(b"127.0.0.1", b"127.0.0.1.example.org")), 421),
        (whole(head=HEAD.replace(b"127.0.0.1", b"localhost.example.org")), 421),
        (whole(head=HEAD.replace(b"127.0.0.1", b"")), 421),
        (whole(head=HEAD.replace(b"127.0.0.1", b"[::ffff:10.0.0.1]:1")), 421),
        (whole(head=HEAD.replace(b"127.0.0.1", b"0.0.0.0")), 421),
        (whole(head=HEAD.replace(b"127.0.0.1", b"LOCALHOST:1")), 200),
        (whole(head=HEAD.replace(b"/filter", b"/a/%66ilter?x=/bind")), 200),
        (whole(head=HEAD.replace(b"/filter", b"/filter/")), 404),
        (whole(head=HEAD.replace(b"POST", b"DELETE")), 405),
        (whole(head=HEAD.replace(b"POST", b"OPTIONS")), 405),
    ],
)
def test_what_a_head_may_contain(sent: bytes, status: int) -> None:
    async def attack(connect: Connect) -> None:
        async with connection(connect()) as streams:
            assert (await answered(streams, sent))[0] == status
        async with connection(connect()) as streams:
            assert (await answered(streams, whole()))[0] == 200

    attacking(attack)


def test_requests_sent_together_are_answered_in_their_order() -> None:
    async def attack(connect: Connect) -> None:
        async with connection(connect()) as streams:
            other = json.dumps({"Pod": POD, "NodeNames": ["c"]}).encode()
            streams[1].write(whole() + whole(other) * 200)
            assert json.loads((await answered(streams, b""))[1])["NodeNames"] == ["a"]
            for _ in range(200):
                assert json.loads((await answered(streams, b""))[1])["NodeNames"] == ["c"]

    attacking(attack)


def test_an_unread_body_is_no_request() -> None:
    async def attack(connect: Connect) -> None:
        async with connection(connect()) as streams:
            hidden = whole(head=HEAD.replace(b"/filter", b"/bind"))
            refused = whole(hidden, head=HEAD.replace(b"/filter", b"/nothing"))
            assert (await answered(streams, refused + whole()))[0] == 404
            assert (await answered(streams, b""))[0] == 200

    attacking(attack)


def test_a_body_is_not_taken_for_a_head_that_does_not_end() -> None:
    async def attack(connect: Connect) -> None:
        async with connection(connect()) as streams:
            refused = HEAD.replace(b"/filter", b"/nothing") + b"Content-Length: 4\r\n\r\n"
            assert (await answered(streams, refused))[0] == 404
            streams[1].write(b"body")
            await asyncio.sleep(0.3)
            assert (await answered(streams, whole()))[0] == 200

    attacking(attack, head_s=0.1)
