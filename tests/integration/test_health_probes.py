"""The probes of components beside the embedded API server, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.apiserver.endpoints.component_status import ComponentHealth
from mooring.apiserver.http_server.health_probes import wait_for_probe
from tests.helpers.certificates import authority, sign
from tests.integration.processes import free_port


@contextlib.asynccontextmanager
async def component(folder: Path, response: bytes) -> AsyncIterator[int]:
    """Runs a server with a certificate of an unknown authority; yields its port."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        assert request.startswith(b"GET /healthz HTTP/1.0\r\n")
        writer.write(response)
        await writer.drain()
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*sign(authority(), "component").write(folder, "component"))
    async with await asyncio.start_server(respond, "127.0.0.1", 0, ssl=context) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("response", "is_healthy", "message"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", True, "ok"),
        (b"HTTP/1.1 200 OK\r\n\r\n", True, ""),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 20_000, True, "x" * 10_240),
        (
            b"HTTP/1.1 500 Internal Server Error\r\n\r\nhealthz check failed",
            False,
            "HTTP probe failed with statuscode: 500",
        ),
        (
            b"HTTP/1.1 302 Found\r\nlocation: /livez\r\n\r\n",
            False,
            "HTTP probe failed with statuscode: 302",
        ),
    ],
)
def test_a_component_is_healthy_if_it_responds_so(
    tmp_path: Path, response: bytes, is_healthy: bool, message: str
) -> None:
    async def main() -> None:
        async with component(tmp_path, response) as port:
            health = await wait_for_probe("scheduler", port)
            assert health == ComponentHealth(is_healthy, message)

    asyncio.run(main())


@pytest.mark.parametrize("response", [b"", b"hello\r\n\r\n", b"x" * 100_000])
def test_a_component_that_does_not_speak_http_is_unhealthy(tmp_path: Path, response: bytes) -> None:
    async def main() -> None:
        async with component(tmp_path, response) as port:
            health = await wait_for_probe("scheduler", port)
            assert not health.is_healthy
            assert health.message.startswith('Get "https://127.0.0.1:10259/healthz": ')

    asyncio.run(main())


def test_a_component_that_does_not_listen_is_unhealthy() -> None:
    health = asyncio.run(wait_for_probe("controller-manager", free_port()))
    refused = "dial tcp 127.0.0.1:10257: connect: connection refused"
    assert health == ComponentHealth(False, f'Get "https://127.0.0.1:10257/healthz": {refused}')
