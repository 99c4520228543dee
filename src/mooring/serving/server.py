"""The HTTPS server: sockets, TLS, HTTP, authentication and authorization.

::

    bind ── start ──────────────────────────────────────────── stop
     │       ├ authorities of the cluster are read              ├ listener closed
     │       └ requests are answered                            └ open requests get 5 s
     └ the port is taken, certificates are read or made

HTTP/1.1 only. The server runs in the event loop of the scheduler, which gives way every 2 ms.

Source: k8s.io/apiserver pkg/server/secure_serving.go, pkg/endpoints/filters,
k8s.io/kubernetes cmd/kube-scheduler/app/server.go (buildHandlerChain).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from types import MappingProxyType
from typing import Final

from aiohttp import web

from mooring.client.transport.transport import Transport
from mooring.clock import Clock, Rng
from mooring.connections import Connection, LimitedServer, descriptors
from mooring.log import ConnectionLog
from mooring.objects.go_text import go_quote
from mooring.serving import http_requests
from mooring.serving.authentication import NotAuthenticated
from mooring.serving.authorization import AuthorizationFailed
from mooring.serving.client_ca import User
from mooring.serving.delegates import Delegates
from mooring.serving.health import HealthChecks
from mooring.serving.listener import listen
from mooring.serving.messages import (
    NOSNIFF,
    TEXT,
    Reply,
    ServingRequest,
    http_error,
    internal_error,
    sanitized,
    status_object,
    status_reply,
)
from mooring.serving.observer import ServingObserver
from mooring.serving.options import ServingOptions
from mooring.serving.routes import Endpoints, Router
from mooring.serving.tls_contexts import TlsContexts
from mooring.serving.tls_transport import TlsProtocol, TlsTransport

#: Time for a handshake, and after it for the first request.
HEADER_S_MAX: Final = 32.0
IDLE_S_MAX: Final = 90.0

#: The event loop is the scheduler's, and quoting a path of 1 MiB, Go's limit, takes seconds of it.
#: The longest path of ours has 50 bytes; tokens can have thousands.
LINE_BYTES_MAX: Final = 8 << 10
FIELD_BYTES_MAX: Final = 64 << 10

STOP_S_MAX: Final = 5.0

#: A client that reads nothing of a response for so long is disconnected.
WRITE_S_MAX: Final = 90.0

#: Probes, a few scrapers and people. The kubelet opens a connection for each probe, and restarts a
#: scheduler that does not answer: so a new connection takes the place of an idle one, and is
#: refused only if there is none.
CONNECTIONS_MAX: Final = 1024

_PRIVATE: Final = {"Cache-Control": "no-cache, private", "Server": "mooring"}
_PANIC: Final = "This request caused apiserver to panic. Look in the logs for details."

_log = logging.getLogger(__name__)


class SecureServer:
    """The server. ``start`` and ``stop`` must be called by the same task.

    Example::

        server = SecureServer(options, endpoints, health, clock=clock, rng=rng)
        server.bind()          # before anything talks to the cluster
        await server.start()
        ...
        await server.stop()

    Args:
        options: See ``ServingOptions``; with port 0, nothing is served.
        endpoints: What it shows.
        health: The health checks; all must have been added.
        authentication: For TokenReviews and the ConfigMap of authorities; None = not configured.
        authorization: For SubjectAccessReviews; None = not configured.
        clock: For everything.
        rng: For jitter and delimiters.
        observer: See ``ServingObserver``.
        listener: A listening socket to use instead of the options' address, for tests.
    """

    def __init__(
        self,
        options: ServingOptions,
        endpoints: Endpoints,
        health: HealthChecks,
        *,
        authentication: Transport | None = None,
        authorization: Transport | None = None,
        clock: Clock,
        rng: Rng,
        observer: ServingObserver | None = None,
        listener: socket.socket | None = None,
    ) -> None:
        self._options = options
        self._authentication = authentication
        self._authorization = authorization
        self._clock = clock
        self._rng = rng
        self._observer = observer or ServingObserver()
        self._router = Router(endpoints, health, clock=clock, rng=rng)
        self._listener = listener
        self._contexts: TlsContexts | None = None
        self._delegates: Delegates | None = None
        # In the order in which they were opened; None = in the handshake.
        self._connections: dict[TlsProtocol, Connection | None] = {}
        # The other half of the descriptors is for connections of the scheduler itself.
        self._connections_max = min(CONNECTIONS_MAX, max(descriptors() // 2, 1))
        self._exit = AsyncExitStack()
        self._is_serving = False

    @property
    def is_off(self) -> bool:
        """True if the options say that nothing is served."""
        return self._options.port == 0 and self._listener is None

    @property
    def address(self) -> tuple[str, int]:
        """The address and the port that it listens on."""
        assert self._listener is not None
        host, port, *_ = self._listener.getsockname()
        return host, port

    @property
    def _host_port(self) -> str:
        host, port = self.address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def statistics(self) -> dict[str, int]:
        """Returns counts: ``connections``, the open ones."""
        return {"connections": len(self._connections)}

    def bind(self) -> None:
        """Binds the port, reads or makes certificates, and builds the authorizer.

        Raises:
            ConfigError: with kube-scheduler's text.
        """
        if self.is_off or self._delegates is not None:
            return
        listener = self._listener or listen(self._options)
        try:
            self._contexts = TlsContexts(self._options, self._clock)
            self._delegates = Delegates(
                self._options,
                authentication=self._authentication,
                authorization=self._authorization,
                clock=self._clock,
                rng=self._rng,
                observer=self._observer,
            )
        except BaseException:
            listener.close()
            raise
        self._listener = listener

    async def start(self) -> None:
        """Serves from now on.

        Raises:
            ConfigError: see ``bind``; or the authorities of the cluster are needed and unknown.
        """
        self.bind()
        if self.is_off:
            return
        assert self._delegates is not None
        try:
            await self._delegates.look_up()
            async with AsyncExitStack() as stack:
                await self._open(stack)
                self._exit = stack.pop_all()
        except BaseException:
            self.close_listener()
            raise
        self._is_serving = True
        _log.info(f"Serving securely on {self._host_port}")

    async def _open(self, stack: AsyncExitStack) -> None:
        assert self._delegates is not None
        assert self._listener is not None
        if self._delegates.cluster is not None:
            group = await stack.enter_async_context(asyncio.TaskGroup())
            watch = group.create_task(self._delegates.cluster.run())
            stack.callback(watch.cancel)
        http = _http_server(self._respond)
        stack.push_async_callback(http.shutdown, STOP_S_MAX)
        server = await asyncio.get_running_loop().create_server(
            lambda: self._connection(http), sock=self._listener
        )
        # Uncalled in reverse order: no new connections, then the open ones.
        stack.callback(http.pre_shutdown)
        stack.callback(server.close)

    async def stop(self) -> None:
        """Closes the listener, and waits up to 5 s for requests in progress."""
        if not self._is_serving:
            return
        self._is_serving = False
        host_port = self._host_port
        await self._exit.aclose()
        for connection in list(self._connections):
            connection.abort()
        self.close_listener()
        _log.info(f"Stopped listening on {host_port}")

    def close_listener(self) -> None:
        """Closes the port, also of a server that was bound and never started."""
        if self._listener is not None:
            self._listener.close()

    # -- connections ------------------------------------------------------------------------------

    def _connection(self, http: LimitedServer) -> asyncio.Protocol:
        assert self._contexts is not None
        if len(self._connections) >= self._connections_max and not self._close_idle():
            return _Refused()

        def application(_: TlsTransport) -> asyncio.Protocol:
            protocol = http()
            if connection in self._connections:
                self._connections[connection] = protocol
            return protocol

        connection = TlsProtocol(
            self._contexts.current,
            application,
            handshake_s=HEADER_S_MAX,
            on_end=self._on_end,
        )
        self._connections[connection] = None
        return connection

    def _close_idle(self) -> bool:
        """Closes the oldest connection without a request; returns False if all have one."""
        for connection, protocol in self._connections.items():
            if protocol is None or protocol.is_idle:
                del self._connections[connection]
                connection.abort()
                return True
        return False

    def _on_end(self, connection: TlsProtocol) -> None:
        self._connections.pop(connection, None)

    # -- requests ---------------------------------------------------------------------------------

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        parsed = http_requests.parsed(request)
        if parsed is None:
            return _last_response(400, b"400 Bad Request", {"Content-Type": TEXT})
        if request.headers.get("Expect", "").lower() not in ("", "100-continue"):
            return _last_response(417)
        started_s = self._clock.monotonic_s()
        try:
            reply = await self._reply(parsed)
        except web.HTTPRequestEntityTooLarge:
            reply = http_error("http: request body too large", 413)
        except TimeoutError:
            reply = http_error("error reading request body: i/o timeout", 400)
        except Exception:  # noqa: BLE001 - one request's bug must not end the others
            _log.exception("apiserver panic'd", extra={"method": parsed.method})
            reply = http_error(_PANIC, 500)
        self._log_access(request, parsed, reply.status, self._clock.monotonic_s() - started_s)
        headers = {**_PRIVATE, **reply.headers}
        return web.Response(status=reply.status, body=reply.body, headers=headers)

    def _log_access(
        self, request: web.BaseRequest, parsed: ServingRequest, status: int, seconds: float
    ) -> None:
        if not _log.isEnabledFor(logging.DEBUG):
            return
        peer = request.transport.get_extra_info("peername") if request.transport else None
        fields = {
            "verb": parsed.method,
            "URI": parsed.target,
            "latency": f"{seconds * 1000:.3f}ms",
            "userAgent": parsed.headers.get("User-Agent", ""),
            "audit-ID": parsed.headers.get("Audit-ID", ""),
            "srcIP": f"{peer[0]}:{peer[1]}" if peer else "",
            "resp": status,
            "v": 3,
        }
        _log.debug("HTTP", extra=fields)

    async def _reply(self, request: ServingRequest) -> Reply:
        user = await self._authenticated(request)
        if user is None:
            return status_reply(request, status_object(401, "Unauthorized", "Unauthorized"))
        refusal = await self._refusal(user, request)
        if refusal is not None:
            return refusal
        return await self._router.reply(http_requests.without_credentials(request))

    async def _authenticated(self, request: ServingRequest) -> User | None:
        assert self._delegates is not None
        started_s = self._clock.monotonic_s()
        user, result = None, "success"
        try:
            user = await self._delegates.authenticator.authenticate(request)
        except NotAuthenticated as error:
            result = "error"
            _log.error("Unable to authenticate the request", extra={"error": str(error)})
        name = user.name if user is not None else ""
        self._observer.authenticated(result, name, self._clock.monotonic_s() - started_s)
        return user

    async def _refusal(self, user: User, request: ServingRequest) -> Reply | None:
        """Returns the reply to a request that is not allowed; None if it is."""
        assert self._delegates is not None
        started_s = self._clock.monotonic_s()
        result, reply = "no-opinion", None
        try:
            decision = await self._delegates.authorizer.decide(user, request.method, request.path)
        except AuthorizationFailed as error:
            result, reply = "error", internal_error(request, str(error))
        else:
            if decision.is_allowed:
                result = "allowed"
            else:
                reply = _forbidden(user, request, decision.reason)
        self._observer.authorized(result, self._clock.monotonic_s() - started_s)
        return reply


def _http_server(
    respond: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
) -> LimitedServer:
    return LimitedServer(
        respond,
        # Those that were closed for others are counted until their sockets are closed.
        connections_max=2 * CONNECTIONS_MAX,
        head_s=HEADER_S_MAX,
        write_s=WRITE_S_MAX,
        handler_cancellation=True,  # a profile of ten minutes ends with its client
        access_log=None,
        logger=ConnectionLog(_log),
        keepalive_timeout=IDLE_S_MAX,
        max_line_size=LINE_BYTES_MAX,
        max_field_size=FIELD_BYTES_MAX,
        auto_decompress=False,
    )


def _last_response(
    status: int, body: bytes = b"", headers: Mapping[str, str] = MappingProxyType({})
) -> web.Response:
    """Returns a response after which the connection is closed."""
    response = web.Response(status=status, body=body, headers=headers)
    response.force_close()
    return response


class _Refused(asyncio.Protocol):
    """A connection above the limit."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert hasattr(transport, "abort")
        transport.abort()


def _forbidden(user: User, request: ServingRequest, reason: str) -> Reply:
    verb = request.method.lower()
    text = f"User {go_quote(user.name)} cannot {verb} path {go_quote(request.path)}"
    message = f"forbidden: {sanitized(text)}" + (f": {reason}" if reason else "")
    status = status_object(403, "Forbidden", message, has_details=True)
    return status_reply(request, status, headers=NOSNIFF)
