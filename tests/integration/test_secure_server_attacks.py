"""Attacks on the scheduler's own port, by clients without credentials and by those with a few."""

from __future__ import annotations

import asyncio
import contextlib
import ssl

import pytest

from mooring.serving import Debugging
from mooring.serving.server import CONNECTIONS_MAX, FIELD_BYTES_MAX, LINE_BYTES_MAX
from tests.integration.schedulers import until
from tests.integration.test_secure_server import connected, get, reply_to, run, serving


def test_a_probe_is_answered_beside_as_many_idle_connections_as_there_may_be() -> None:
    async def main() -> None:
        async with serving() as server, contextlib.AsyncExitStack() as stack:
            for _ in range(CONNECTIONS_MAX):
                _, writer = await asyncio.open_connection(*server.address)
                stack.callback(writer.close)
            await until(lambda: server.statistics()["connections"] == CONNECTIONS_MAX)
            for _ in range(3):
                assert (await get(server))[0] == 200
            assert server.statistics()["connections"] <= CONNECTIONS_MAX

    run(main)


def test_connections_with_a_request_are_not_closed_for_new_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mooring.serving.server.descriptors", lambda: 4)
    put = b"PUT /debug/flags/v HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n"

    async def main() -> None:
        debugging = Debugging(lambda _: None)
        async with serving(debugging=debugging) as server, contextlib.AsyncExitStack() as stack:
            busy = [await stack.enter_async_context(connected(server)) for _ in range(2)]
            for _, writer in busy:
                writer.write(put)
            refused = False
            while not refused:  # until both requests are received
                try:
                    assert (await get(server))[0] == 200
                except (ConnectionError, ssl.SSLError):
                    refused = True
            assert server.statistics() == {"connections": 2}
            for reader, writer in busy:
                writer.write(b"1")
                assert (await reader.readline()).split()[1] == b"200"
            assert (await get(server))[0] == 200

    run(main)


def test_half_of_the_descriptors_are_left_for_the_scheduler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mooring.serving.server.descriptors", lambda: 20)

    async def main() -> None:
        async with serving() as server, contextlib.AsyncExitStack() as stack:
            for _ in range(30):
                _, writer = await asyncio.open_connection(*server.address)
                stack.callback(writer.close)
            await until(lambda: server.statistics()["connections"] == 10)
            assert (await get(server))[0] == 200

    run(main)


@pytest.mark.parametrize("limit", ["head_s", "write_s"])
def test_a_client_that_does_not_go_on_is_disconnected(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = {"head_s": "HEADER_S_MAX", "write_s": "WRITE_S_MAX"}[limit]
    monkeypatch.setattr(f"mooring.serving.server.{name}", 0.5)

    async def main() -> None:
        async with serving() as server, connected(server) as (reader, writer):
            assert (await reply_to(reader, writer, "GET /healthz"))[0] == 200
            more = b"" if limit == "head_s" else b"\r\n\r\n"
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: x" + more)
            await until(lambda: server.statistics()["connections"] == 0)

    run(main)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"%ff" * LINE_BYTES_MAX + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz?" + b"a&" * LINE_BYTES_MAX + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nAccept: "
        + b"a/b;q=0.1;" * FIELD_BYTES_MAX
        + b"a\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
        + b"".join(b"X-%d: x\r\n" % number for number in range(1000))
        + b"\r\n",
    ],
)
def test_a_head_that_would_take_long_to_quote_is_refused(head: bytes) -> None:
    async def main() -> None:
        async with serving() as server, connected(server) as (reader, writer):
            writer.write(head)
            assert (await reader.readline()).split()[1] == b"400"

    run(main)


def test_a_token_of_many_claims_is_short_enough() -> None:
    async def main() -> None:
        async with serving() as server, connected(server) as (reader, writer):
            token = b"t" * (FIELD_BYTES_MAX - 100)
            head = b"GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
            writer.write(head + token + b"\r\n\r\n")
            assert (await reader.readline()).split()[1] == b"200"

    run(main)


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/livez", 200),
        ("/livez/ping", 200),
        ("/liv%65z", 200),
        ("/livez?/metrics", 200),
        ("/livez%3f/metrics", 403),
        ("/livez/../metrics", 404),
        ("/livez/%2e%2e/metrics", 404),
        ("/livez/..%2fmetrics", 404),
        ("/livez//metrics", 404),
        ("/livez%2fping", 200),
        ("/livez%2f..%2fmetrics", 404),
        ("/livez/%00/metrics", 404),
        ("//livez", 403),
        ("/./livez", 403),
        ("/metrics/../livez", 403),
        ("/Livez", 403),
        ("/livez/", 404),
        ("/livez;a", 403),
        ("/livez%20", 403),
        ("/livez%ff", 403),
        ("/metrics", 403),
        ("//metrics", 403),
        ("/%6detrics", 403),
        ("/metrics?x=/livez", 403),
        ("https://livez/livez/metrics", 404),
        ("https://livez/metrics", 403),
        ("https://livez/livez", 200),
    ],
)
def test_the_path_that_is_authorised_is_the_one_that_is_served(target: str, status: int) -> None:
    async def main() -> None:
        async with serving(always_allow_paths=("/livez", "/livez/*")) as server:
            answer, body = await get(server, target)
            assert answer == status
            assert not body.startswith(b"xxx"), "the metrics"

    run(main)


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "POST", "DELETE", "PATCH", "TRACE", "X"])
def test_no_method_needs_fewer_rights(method: str) -> None:
    async def main() -> None:
        async with (
            serving(always_allow_paths=("/livez",)) as server,
            connected(server) as (reader, writer),
        ):
            assert (await reply_to(reader, writer, f"{method} /metrics"))[0] in (400, 403)

    run(main)


def test_a_profile_ends_with_the_connection_of_its_client() -> None:
    async def main() -> None:
        async with serving(debugging=Debugging(lambda _: None)) as server:
            async with connected(server) as (_, writer):
                writer.write(b"GET /debug/pprof/profile?seconds=600 HTTP/1.1\r\nHost: x\r\n\r\n")
                status = 200
                while status == 200:  # until the first one is taken
                    status, body = await get(server, "/debug/pprof/profile?seconds=1")
                assert (status, b"Could not enable CPU profiling" in body) == (500, True)
            await until(lambda: server.statistics()["connections"] == 0)
            assert (await get(server, "/debug/pprof/profile?seconds=1"))[0] == 200

    run(main)
