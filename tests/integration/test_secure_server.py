"""SecureServer over real sockets: TLS, certificates that change, limits, and a graceful stop."""

from __future__ import annotations

import asyncio
import contextlib
import io
import signal
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.clock import SystemClock, seeded_random
from mooring.component.flags import parse
from mooring.component.klog import configure
from mooring.errors import ConfigError
from mooring.event_loop import loop_factory
from mooring.serving import (
    Debugging,
    Endpoints,
    HealthChecks,
    MetricsRoutes,
    SecureServer,
    ServingOptions,
    Versions,
)
from mooring.serving.http_requests import BODY_BYTES_MAX
from mooring.serving.options import SniCertificate
from tests.helpers.certificates import authority, sign
from tests.helpers.command_line import restored_logging
from tests.integration.processes import free_port
from tests.integration.schedulers import until

LARGE = b"x" * (8 << 20)


def endpoints(**more: Any) -> Endpoints:
    def broken(_: object) -> tuple[bytes, str]:
        raise RuntimeError("a bug")

    fields: dict[str, Any] = {
        "metrics": MetricsRoutes(lambda _: (LARGE, "text/plain"), broken, lambda _: (b"", "")),
        "configuration": lambda: {"kind": "K"},
        "flags": {},
        "versions": Versions("p", "1.36.3"),
        **more,
    }
    return Endpoints(**fields)


@contextlib.asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[SecureServer]:
    """Runs a server to which everything is allowed."""
    fields: dict[str, Any] = {
        "bind_address": "127.0.0.1",
        "port": free_port(),
        "always_allow_paths": ("/*",),
        **options,
    }
    debugging = fields.pop("debugging", None)
    server = SecureServer(
        ServingOptions(**fields),
        endpoints(debugging=debugging),
        HealthChecks(),
        clock=SystemClock(),
        rng=seeded_random(1),
    )
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(60):
            await main()

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(limited())


def client(**fields: Any) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    for name, value in fields.items():
        setattr(context, name, value)
    return context


@contextlib.asynccontextmanager
async def connected(
    server: SecureServer, context: ssl.SSLContext | None = None, name: str = "localhost"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(
        *server.address, ssl=context or client(), server_hostname=name
    )
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError, ssl.SSLError):
            await writer.wait_closed()


async def reply_to(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: str, body: bytes = b""
) -> tuple[int, bytes]:
    """Sends a request; returns its status and body."""
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    writer.write(f"{request} HTTP/1.1\r\nHost: x\r\n{length}\r\n".encode() + body)
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    status = int(head.split()[1])
    lengths = [line for line in head.splitlines() if line.lower().startswith("content-length")]
    count = int(lengths[0].partition(":")[2]) if lengths and not request.startswith("HEAD") else 0
    return status, await reader.readexactly(count)


async def get(server: SecureServer, path: str = "/healthz", **more: Any) -> tuple[int, bytes]:
    async with connected(server, **more) as (reader, writer):
        return await reply_to(reader, writer, f"GET {path}")


def certificate_of(writer: asyncio.StreamWriter) -> bytes:
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    assert isinstance(found, bytes)
    return found


def test_several_requests_on_one_connection() -> None:
    async def main() -> None:
        async with serving() as server, connected(server) as (reader, writer):
            for _ in range(3):
                assert await reply_to(reader, writer, "GET /healthz") == (200, b"ok")
            assert (await reply_to(reader, writer, "HEAD /healthz"))[0] == 200
            assert (await reply_to(reader, writer, "GET /nothing"))[0] == 404
            assert server.statistics() == {"connections": 1}

    run(main)


def test_the_protocol_is_http_1_1_over_tls_1_2_or_newer() -> None:
    async def main() -> None:
        async with serving() as server:
            context = client()
            context.set_alpn_protocols(["h2", "http/1.1"])
            async with connected(server, context) as (_, writer):
                tls = writer.get_extra_info("ssl_object")
                assert tls.selected_alpn_protocol() == "http/1.1"
                assert tls.version() == "TLSv1.3"
            await get(server, context=client(maximum_version=ssl.TLSVersion.TLSv1_2))
            only_h2 = client()
            only_h2.set_alpn_protocols(["h2"])
            assert await get(server, context=only_h2) == (200, b"ok")
        async with serving(tls_min_version="VersionTLS13") as server:
            with pytest.raises(ssl.SSLError):
                await get(server, context=client(maximum_version=ssl.TLSVersion.TLSv1_2))
            assert await get(server) == (200, b"ok")

    run(main)


def test_cipher_suites_are_those_that_were_chosen() -> None:
    async def main() -> None:
        suites = ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",)
        old = client(maximum_version=ssl.TLSVersion.TLSv1_2)
        async with serving(tls_cipher_suites=suites) as server, connected(server, old) as (_, out):
            assert out.get_extra_info("cipher")[0] == "ECDHE-RSA-AES256-GCM-SHA384"

    run(main)


def test_a_certificate_is_read_again_without_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        first, second = sign(None, "first"), sign(None, "second")
        paths = first.write(tmp_path, "server")
        files = {"tls_cert_file": paths[0], "tls_private_key_file": paths[1]}
        async with serving(**files) as server:
            async with connected(server) as (reader, writer):
                assert certificate_of(writer) == first.der
                second.write(tmp_path, "server")
                assert await reply_to(reader, writer, "GET /healthz") == (200, b"ok")
            async with connected(server) as (_, writer):
                assert certificate_of(writer) == second.der
            (tmp_path / "server.key").write_text("nonsense")
            async with connected(server) as (_, writer):
                assert certificate_of(writer) == second.der

    run(main)


def test_the_certificate_for_a_name(tmp_path: Path) -> None:
    async def main() -> None:
        default = sign(None, "default")
        named = sign(None, "named")
        own = sign(None, "own", hosts=["own.example", "*.wild.example"])
        files = default.write(tmp_path, "server")
        sni = (
            SniCertificate(*named.write(tmp_path, "named"), ("a.example", "127.0.0.1")),
            SniCertificate(*own.write(tmp_path, "own")),
        )
        options = {"tls_cert_file": files[0], "tls_private_key_file": files[1]}
        async with serving(**options, tls_sni_cert_keys=sni) as server:
            for name, expected in {
                "A.example": named,
                "own.example": own,
                "x.wild.example": own,
                "x.y.wild.example": default,
                "unknown.example": default,
            }.items():
                async with connected(server, name=name) as (_, writer):
                    assert certificate_of(writer) == expected.der, name
            # An address is never sent as a name: it is that of the connection.
            async with connected(server, name="127.0.0.1") as (_, writer):
                assert certificate_of(writer) == named.der

    run(main)


def test_a_client_certificate_is_never_required_and_any_is_taken(tmp_path: Path) -> None:
    async def main() -> None:
        known = authority("known")
        (tmp_path / "ca.crt").write_bytes(known.pem)
        async with serving(client_ca_file=str(tmp_path / "ca.crt")) as server:
            assert await get(server) == (200, b"ok")
            for signer, status in ((known, 200), (authority("other"), 401)):
                for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                    context = client(maximum_version=version)
                    context.load_cert_chain(*sign(signer, "jane").write(tmp_path, "client"))
                    assert (await get(server, context=context))[0] == status

    run(main)


def test_large_replies_arrive_whole_also_for_slow_readers() -> None:
    async def main() -> None:
        async with serving() as server, connected(server) as (reader, writer):
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            assert await get(server) == (200, b"ok")  # the other one does not block
            assert await reader.readexactly(len(LARGE)) == LARGE

    run(main)


def test_a_bug_of_a_page_is_500_and_the_next_request_is_served() -> None:
    async def main() -> None:
        async with serving() as server:
            status, body = await get(server, "/metrics/slis")
            assert status == 500
            assert body.startswith(b"This request caused apiserver to panic.")
            assert await get(server) == (200, b"ok")

    run(main)


def test_bad_requests() -> None:
    async def main() -> None:
        levels: list[int] = []
        async with serving(debugging=Debugging(levels.append)) as server:
            assert await get(server, "/a%zz") == (400, b"400 Bad Request")
            assert (await get(server, "/a%zz"))[0] == 400
            assert await get(server, "https://other/healthz") == (200, b"ok")
            async with connected(server) as (reader, writer):
                body = b"1" * (BODY_BYTES_MAX + 1)
                status, _ = await reply_to(reader, writer, "PUT /debug/flags/v", body)
                assert status == 413
            async with connected(server) as (reader, writer):
                assert (await reply_to(reader, writer, "PUT /debug/flags/v", b"3"))[0] == 200
            assert levels == [3]

    run(main)


def test_what_is_no_tls_is_closed() -> None:
    async def main() -> None:
        async with serving() as server:
            for first in (b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\x00" * 70_000):
                reader, writer = await asyncio.open_connection(*server.address)
                writer.write(first)
                with contextlib.suppress(ConnectionError):
                    await reader.read()
                writer.close()
            await until(lambda: not server.statistics()["connections"])
            assert await get(server) == (200, b"ok")

    run(main)


def test_stopping_waits_for_a_request_in_progress_and_takes_no_more() -> None:
    async def main() -> None:
        async with serving(debugging=Debugging(lambda _: None)) as server:
            address = server.address
            async with connected(server) as (reader, writer), asyncio.TaskGroup() as group:
                asked = group.create_task(
                    reply_to(reader, writer, "GET /debug/pprof/profile?seconds=1&debug=1")
                )
                await until(lambda: signal.getitimer(signal.ITIMER_PROF)[1])  # it has begun
                await server.stop()
                status, _ = await asked
                assert status == 200
            with pytest.raises(OSError):
                await asyncio.open_connection(*address)

    run(main)


def test_the_port_is_bound_before_the_start() -> None:
    async def main() -> None:
        async with serving() as server:
            _, port = server.address
            second = SecureServer(
                ServingOptions(bind_address="127.0.0.1", port=port),
                endpoints(),
                HealthChecks(),
                clock=SystemClock(),
                rng=seeded_random(1),
            )
            text = (
                f"failed to create listener: failed to listen on 127.0.0.1:{port}: "
                f"listen tcp 127.0.0.1:{port}: bind: address already in use"
            )
            with pytest.raises(ConfigError) as raised:
                second.bind()
            assert str(raised.value) == text

    run(main)


def test_both_families_are_served_by_default() -> None:
    async def main() -> None:
        async with serving(bind_address="0.0.0.0") as server:
            port = server.address[1]
            hosts = ["127.0.0.1", "::1"] if socket.has_dualstack_ipv6() else ["127.0.0.1"]
            for host in hosts:
                _, writer = await asyncio.open_connection(
                    host, port, ssl=client(), server_hostname="x"
                )
                writer.close()

    run(main)


def test_port_0_serves_nothing() -> None:
    async def main() -> None:
        async with serving(port=0) as server:
            assert server.is_off

    run(main)


#: Probes as the kubelet does: a new connection each time. Prints the seconds of each.
PROBES = """
import http.client, ssl, sys, time
context = ssl._create_unverified_context()
for _ in range(50):
    started_s = time.perf_counter()
    connection = http.client.HTTPSConnection("127.0.0.1", int(sys.argv[1]), context=context)
    connection.request("GET", "/readyz")
    assert connection.getresponse().read() == b"ok"
    connection.close()
    print(time.perf_counter() - started_s)
"""


@pytest.mark.perf
@pytest.mark.parametrize("held_s", [0.0, 0.002, 0.02])
def test_a_probe_is_quick_beside_a_scheduler_that_is_always_busy(held_s: float) -> None:
    """The scheduling task holds the loop for 2 ms, a single long cycle for 20 ms."""
    seconds: list[float] = []

    async def main() -> None:
        async with serving() as server:
            command = [sys.executable, "-c", PROBES, str(server.address[1])]
            probes = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
            while probes.returncode is None:
                ends_s = time.perf_counter() + held_s
                while time.perf_counter() < ends_s:
                    pass
                await asyncio.sleep(0 if held_s else 0.01)
            assert probes.stdout is not None
            seconds.extend(float(line) for line in (await probes.stdout.read()).split())

    run(main)
    assert len(seconds) == 50
    print(f"held {held_s}: median {sorted(seconds)[25] * 1e3:.1f} ms, max {max(seconds) * 1e3:.1f}")
    assert sorted(seconds)[25] < 0.05 + 20 * held_s


@pytest.mark.parametrize("verbosity", [2, 3])
def test_requests_are_logged_from_a_verbosity_of_3(verbosity: int) -> None:
    out = io.StringIO()

    async def main() -> None:
        async with serving() as server:
            await get(server)

    with restored_logging():
        configure(parse([f"-v={verbosity}"]).logging, out=out)
        run(main)
    lines = [line for line in out.getvalue().splitlines() if '"HTTP"' in line]
    assert len(lines) == (verbosity == 3)
    assert all('verb="GET" URI="/healthz"' in line for line in lines)
