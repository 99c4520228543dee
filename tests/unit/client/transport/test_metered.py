"""The transport that records requests as metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from mooring.client import InProcessTransport
from mooring.client.transport.metered import MeteredTransport
from mooring.client.transport.transport import Request, StreamBroken
from mooring.clock import VirtualClock
from mooring.errors import Unreachable
from mooring.metrics.registry import Metrics
from mooring.virtual_loop import run_virtually
from tests.helpers.exposition import value

SERVER = "https://user:secret@10.96.0.1:443/prefix"
HOST = "10.96.0.1:443"


class Server:
    """Answers requests; each takes 0.3 s of the clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    async def handle(
        self,
        method: str,
        path: str,
        query: list[tuple[str, str]],
        headers: Mapping[str, str],
        body: bytes,
    ) -> tuple[int, Mapping[str, str], Any]:
        self._clock.advance(0.3)
        if path == "/away":
            raise Unreachable("nobody is there")
        if path == "/watch":
            return 200, {}, self._lines()
        return 201 if method == "POST" else 404, {}, b"x" * 300

    async def _lines(self) -> AsyncIterator[bytes]:
        for _ in range(3):
            self._clock.advance(100.0)
            yield b"{}\n"


def recorded() -> tuple[Metrics, MeteredTransport]:
    clock = VirtualClock()
    metrics = Metrics(clock=clock)
    inner = InProcessTransport(Server(clock).handle)
    return metrics, MeteredTransport(inner, metrics.client, server=SERVER)


def test_requests_are_recorded_with_code_duration_and_sizes() -> None:
    metrics, transport = recorded()

    async def main() -> None:
        for _ in range(2):
            await transport.request(Request("POST", "/pods", 5.0, body=b"y" * 70))
        await transport.request(Request("GET", "/pods/web", 5.0))

    run_virtually(main())
    body, _ = metrics.expose()
    name = "rest_client_requests_total"
    assert value(body, name, code="201", method="POST", host=HOST) == 2
    assert value(body, name, code="404", method="GET", host=HOST) == 1
    at = {"verb": "POST", "host": HOST}
    assert value(body, "rest_client_request_duration_seconds_sum", **at) == pytest.approx(0.6)
    assert value(body, "rest_client_request_size_bytes_sum", **at) == 140
    assert value(body, "rest_client_response_size_bytes_sum", **at) == 600
    assert value(body, "rest_client_request_size_bytes_bucket", le="64", **at) == 0


def test_a_request_without_a_response_is_an_error() -> None:
    metrics, transport = recorded()

    async def main() -> None:
        with pytest.raises(Unreachable):
            await transport.request(Request("PUT", "/away", 5.0))
        with pytest.raises(Unreachable):
            async with transport.stream(Request("GET", "/away", 5.0), idle_s=60.0):
                pytest.fail("the stream is not open")

    run_virtually(main())
    body, _ = metrics.expose()
    name = "rest_client_requests_total"
    for method in ("PUT", "GET"):
        assert value(body, name, code="<error>", method=method, host=HOST) == 1
    at = {"verb": "PUT", "host": HOST}
    assert value(body, "rest_client_response_size_bytes_count", **at) is None


def test_a_watch_counts_once_and_has_no_duration() -> None:
    metrics, transport = recorded()

    async def main() -> None:
        async with transport.stream(Request("GET", "/watch", 5.0), idle_s=60.0) as stream:
            async for _ in stream.batches():
                pass
        await transport.close()

    run_virtually(main())
    body, _ = metrics.expose()
    at = {"verb": "GET", "host": HOST}
    assert value(body, "rest_client_requests_total", code="200", method="GET", host=HOST) == 1
    assert value(body, "rest_client_request_duration_seconds_count", **at) is None
    assert value(body, "rest_client_response_size_bytes_count", **at) is None


def test_a_watch_that_breaks_has_had_a_response() -> None:
    metrics, transport = recorded()

    async def main() -> None:
        with pytest.raises(StreamBroken):
            async with transport.stream(Request("GET", "/watch", 5.0), idle_s=60.0):
                raise StreamBroken("cut off")

    run_virtually(main())
    body, _ = metrics.expose()
    name = "rest_client_requests_total"
    assert value(body, name, code="200", method="GET", host=HOST) == 1
    assert value(body, name, code="<error>", method="GET", host=HOST) is None
