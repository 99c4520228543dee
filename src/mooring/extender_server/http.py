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

#: A client that sends its body more slowly than this is stuck.
BODY_S: Final = 30.0

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
    door = _Door(extender, options, clock, is_ready)
    runner = web.AppRunner(
        door.app(),
        access_log=None,
        shutdown_timeout=STOP_S,
        auto_decompress=False,
        logger=ConnectionLog(_log),
    )
    await runner.setup()
    context = _tls(options)
    try:
        try:
            await web.TCPSite(runner, options.host, options.port, ssl_context=context).start()
        except OSError as why:
            place = f"{options.host}:{options.port}"
            raise ConfigError(why.strerror or str(why), path=place) from why
        host = f"[{options.host}]" if ":" in options.host else options.host
        yield f"{'https' if context else 'http'}://{host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


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

    def app(self) -> web.Application:
        app = web.Application(client_max_size=self._options.body_bytes_max)
        app.router.add_get("/", self._welcome)
        for path in ("/healthz", "/livez"):
            app.router.add_get(path, self._alive)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/metrics", self._show_metrics)
        app.router.add_post("/{path:.*}", self._ask)
        return app

    async def _welcome(self, _: web.Request) -> web.Response:
        return web.Response(text=_WELCOME)

    async def _alive(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _ready(self, _: web.Request) -> web.Response:
        if self._is_ready():
            return web.Response(text="ok")
        return web.Response(status=503, text="the caches are not synced yet")

    async def _show_metrics(self, request: web.Request) -> web.Response:
        if refusal := self._guard.refusal_of(request):
            return refusal
        body = generate_latest(self._metrics.registry)
        return web.Response(body=body, headers={"content-type": CONTENT_TYPE_LATEST})

    async def _ask(self, request: web.Request) -> web.Response:
        verb = request.match_info["path"].rpartition("/")[2]
        if verb not in VERBS:
            return web.Response(status=404, text=f"no such verb: one of {', '.join(VERBS)}\n")
        if refusal := self._guard.refusal_of(request) or refusal_of_body(request):
            self._metrics.requests.labels(verb, str(refusal.status)).inc()
            return refusal
        status, body = await self._answered(request, verb)
        self._metrics.requests.labels(verb, str(status)).inc()
        kind = "application/json" if status == web.HTTPOk.status_code else "text/plain"
        return web.Response(status=status, body=body, content_type=kind)

    async def _answered(self, request: web.Request, verb: str) -> tuple[int, bytes]:
        try:
            async with asyncio.timeout(BODY_S):
                body = await request.read()
        except TimeoutError:
            return 408, b"the body did not come in time\n"
        except web.HTTPRequestEntityTooLarge:
            message = f"the body is longer than {self._options.body_bytes_max} bytes\n"
            return 413, message.encode()
        started_s = self._clock.monotonic_s()
        try:
            return 200, await self._extender.answer(verb, body)
        except ConfigError as error:
            return 400, f"{error}\n".encode()
        except InvariantViolation:
            _log.exception("a request failed", extra={"verb": verb})
            raise
        except SchedulerError as error:
            _log.warning("an answer failed", extra={"verb": verb, "error": str(error)})
            return 500, f"{error}\n".encode()
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
