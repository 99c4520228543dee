"""The HTTP server of an extender: HTTP or HTTPS, limits, health and metrics.

::

    POST /any/prefix/filter | prioritize | preempt | bind     calls of kube-scheduler
    GET  /healthz /livez /readyz /metrics                     for probes and Prometheus
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from mooring.clock import Clock
from mooring.connections import LimitedServer, LimitedSite, wait_until_sent
from mooring.errors import ConfigError, InvariantViolation, SchedulerError
from mooring.extender_server.guard import (
    Guard,
    check_credentials,
    read_token,
    refusal_of_body,
)
from mooring.extender_server.options import ServeOptions
from mooring.extender_server.plugin_extender import VERBS, Extender
from mooring.log import ConnectionLog

#: Requests under way when the server is stopped may take so long.
STOP_S: Final = 10.0

#: kube-scheduler closes idle connections after 90 s: a request must not meet our end of one.
IDLE_S: Final = 120.0

_WELCOME: Final = "This is a scheduler extender of mooring. POST to /filter, /prioritize ...\n"

_log = logging.getLogger(__name__)


class _Metrics:
    """The metrics of one server; each has its own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "mooring_extender_requests_total",
            "Requests answered, by verb and HTTP code.",
            ["verb", "code"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "mooring_extender_request_duration_seconds",
            "From the whole body to the answer, by verb.",
            ["verb"],
            registry=self.registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
        )


@asynccontextmanager
async def serve(
    extender: Extender,
    options: ServeOptions,
    *,
    clock: Clock,
    is_ready: Callable[[], bool] = lambda: True,
) -> AsyncIterator[str]:
    """Serves until the block ends; yields the URL. Requests under way are finished first.

    Raises:
        ConfigError: a certificate or token cannot be used, the port is taken, or clients that have
            to be authenticated are not.
    """
    check_credentials(options, binds=extender.has_bind)
    extender.allow_threads()
    door = _Door(extender, options, clock, is_ready)
    context = _tls(options)
    server = LimitedServer(
        door.respond,
        connections_max=options.connections_max,
        head_s=options.head_s,
        write_s=options.write_s,
        lingering_time=options.head_s,
        keepalive_timeout=IDLE_S,
        access_log=None,
        auto_decompress=False,
        logger=ConnectionLog(_log),
    )
    runner = web.ServerRunner(server, shutdown_timeout=STOP_S)
    await runner.setup()
    address = (options.host, options.port)
    try:
        try:
            await LimitedSite(runner, *address, context=context, handshake_s=options.head_s).start()
        except OSError as why:
            place = f"{options.host}:{options.port}"
            raise ConfigError(why.strerror or str(why), path=place) from why
        host = f"[{options.host}]" if ":" in options.host else options.host
        yield f"{'https' if context else 'http'}://{host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class _Refused(Exception):
    """A request whose body is not read to its end."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Door:
    def __init__(
        self, extender: Extender, options: ServeOptions, clock: Clock, is_ready: Callable[[], bool]
    ) -> None:
        self._extender = extender
        self._options = options
        self._clock = clock
        self._is_ready = is_ready
        self._metrics = _Metrics()
        self._guard = Guard(options.host, read_token(options))
        self._bodies_bytes = 0
        self._pages = {
            "/": self._welcome,
            "/healthz": self._alive,
            "/livez": self._alive,
            "/readyz": self._ready,
            "/metrics": self._show_metrics,
        }

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "POST":
            return await self._ask(request)
        page = self._pages.get(request.path)
        if page is None or request.method not in ("GET", "HEAD"):
            allowed = {"Allow": "POST" if page is None else "GET, HEAD"}
            return web.Response(status=405, text="405: Method Not Allowed", headers=allowed)
        return page(request)

    def _welcome(self, _: web.BaseRequest) -> web.Response:
        return web.Response(text=_WELCOME)

    def _alive(self, _: web.BaseRequest) -> web.Response:
        return web.Response(text="ok")

    def _ready(self, _: web.BaseRequest) -> web.Response:
        if self._is_ready():
            return web.Response(text="ok")
        return web.Response(status=503, text="the caches are not synced yet")

    def _show_metrics(self, request: web.BaseRequest) -> web.Response:
        if refusal := self._guard.refusal_of(request):
            return refusal
        body = generate_latest(self._metrics.registry)
        return web.Response(body=body, headers={"content-type": CONTENT_TYPE_LATEST})

    async def _ask(self, request: web.BaseRequest) -> web.StreamResponse:
        verb = request.path.rpartition("/")[2]
        if verb not in VERBS:
            return web.Response(status=404, text=f"no such verb: one of {', '.join(VERBS)}\n")
        if refusal := self._guard.refusal_of(request) or refusal_of_body(request):
            self._metrics.requests.labels(verb, str(refusal.status)).inc()
            return refusal
        try:
            async with self._read_body(request) as body:
                status, answer = await self._answered(verb, body)
                self._metrics.requests.labels(verb, str(status)).inc()
                is_json = status == web.HTTPOk.status_code
                kind = "application/json" if is_json else "text/plain; charset=utf-8"
                return await wait_until_sent(request, status, {"Content-Type": kind}, answer)
        except _Refused as refused:
            self._metrics.requests.labels(verb, str(refused.status)).inc()
            return web.Response(status=refused.status, text=f"{refused}\n")

    @asynccontextmanager
    async def _read_body(self, request: web.BaseRequest) -> AsyncIterator[bytes]:
        """Yields the body, which is counted until the block ends.

        Raises:
            _Refused: it is too long, or too slow, or too many others are read and answered.
        """
        chunks: list[bytes] = []
        try:
            await self._receive(request, chunks)
            chunks[:] = [b"".join(chunks)]
            yield chunks[0]
        finally:
            self._bodies_bytes -= sum(map(len, chunks))

    async def _receive(self, request: web.BaseRequest, chunks: list[bytes]) -> None:
        if (request.content_length or 0) > self._options.body_bytes_max:
            raise self._too_long()
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            async with asyncio.timeout(self._options.body_s):
                await self._receive_all(request, chunks)
        except TimeoutError as error:
            raise _Refused(408, "the body did not come in time") from error

    async def _receive_all(self, request: web.BaseRequest, chunks: list[bytes]) -> None:
        length = 0
        while chunk := await request.content.readany():
            chunks.append(chunk)
            length += len(chunk)
            self._bodies_bytes += len(chunk)
            if length > self._options.body_bytes_max:
                raise self._too_long()
            if self._bodies_bytes > self._options.bodies_bytes_max:
                raise _Refused(503, "too many bodies are sent at the same time")

    def _too_long(self) -> _Refused:
        return _Refused(413, f"the body is longer than {self._options.body_bytes_max} bytes")

    async def _answered(self, verb: str, body: bytes) -> tuple[int, bytes]:
        started_s = self._clock.monotonic_s()
        try:
            return 200, await self._extender.answer(verb, body)
        except ConfigError as error:
            return 400, f"{error}\n".encode(errors="replace")
        except InvariantViolation:
            _log.exception("a request failed", extra={"verb": verb})
            raise
        except SchedulerError as error:
            _log.warning("an answer failed", extra={"verb": verb, "error": str(error)})
            return 500, f"{error}\n".encode(errors="replace")
        finally:
            self._metrics.seconds.labels(verb).observe(self._clock.monotonic_s() - started_s)


def _tls(options: ServeOptions) -> ssl.SSLContext | None:
    """Returns the TLS side of the server; None = plain HTTP."""
    files = (options.tls_cert_file, options.tls_private_key_file)
    if not any(files):
        if options.client_ca_file:
            raise ConfigError("needs --tls-cert-file, too", path="--client-ca-file")
        return None
    if not all(files):
        missing = "--tls-private-key-file" if files[0] else "--tls-cert-file"
        raise ConfigError("is needed, too", path=missing)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(*files)
    except (OSError, ssl.SSLError) as why:
        raise ConfigError(f"cannot be used: {why}", path=options.tls_cert_file) from why
    if options.client_ca_file:
        try:
            context.load_verify_locations(options.client_ca_file)
        except (OSError, ssl.SSLError) as why:
            raise ConfigError(f"cannot be used: {why}", path=options.client_ca_file) from why
        context.verify_mode = ssl.CERT_REQUIRED
    return context
