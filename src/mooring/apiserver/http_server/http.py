"""HTTP front end of the embedded API server: sockets, TLS, authentication, authorization.

::

    bytes ── TLS ── limits ── identity ── authorization ── handler ──┬── a complete response
              401: unknown token   403: no rule allows it            └── a watch, chunk by chunk

It is independent of Kubernetes objects: an ``Api`` (``ApiServer``) handles the requests.
HTTP/1.1 only; it listens on loopback by default.

Source: limits and headers as in k8s.io/apiserver pkg/server/config.go,
pkg/endpoints/handlers/responsewriters/writers.go.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl, unquote

import msgspec
from aiohttp import web

from mooring.apiserver.auth.authentication import (
    ANONYMOUS,
    GROUPS_HEADER,
    IDENTITIES,
    UID_HEADER,
    USER_HEADER,
    Tokens,
    UserInfo,
    kubeconfig,
)
from mooring.apiserver.auth.authorization import attributes_of
from mooring.apiserver.auth.impersonation import check_is_complete, impersonated
from mooring.apiserver.endpoints import negotiation
from mooring.apiserver.errors import ApiStatusError, bad_request, entity_too_large, internal_error
from mooring.apiserver.http_server.certificates import Authority, server_context, subject_of
from mooring.apiserver.server import BODY_BYTES_MAX
from mooring.connections import (
    WRITE_SLICE_BYTES,
    LimitedServer,
    LimitedSite,
    wait_until_sent,
)
from mooring.event_loop import ticking
from mooring.log import ConnectionLog

if TYPE_CHECKING:
    from mooring.apiserver.auth.rbac import Authorizer
    from mooring.clock import Clock

QUERY_FIELDS_MAX = 64
#: Length of a URL or a header: selectors can be long.
LINE_BYTES_MAX = 256 << 10
#: Smaller responses are not compressed.
GZIP_BYTES_MIN = 128 << 10
GZIP_SLICE_BYTES = 1 << 20
#: Clients keep connections for minutes; one that the server closes costs them a failed request.
KEEP_ALIVE_S = 3600.0

#: Default headers: a response to one client must not be cached for another.
_PRIVATE: Mapping[str, str] = {"cache-control": "no-cache, private"}
_IMPERSONATE_USER, _IMPERSONATE_GROUP = "impersonate-user", "impersonate-group"
_log = logging.getLogger("mooring.apiserver")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one server.

    Attributes:
        body_bytes: Longer bodies are rejected.
        body_s: Timeout for receiving a body.
        write_s: Timeout for sending to a watcher, which must list anew afterwards; a client that
            reads nothing of another response for so long is disconnected.
        head_s: Timeout for a TLS handshake, and for receiving the head of a request.
        connections: Concurrent connections; a client needs no credentials to open one.
        streams: Concurrent watches; each has a buffer.
        stop_s: Time for running requests to finish when the server stops.
    """

    body_bytes: int = BODY_BYTES_MAX
    body_s: float = 60.0
    write_s: float = 30.0
    head_s: float = 10.0
    connections: int = 4096
    streams: int = 2000
    stop_s: float = 5.0


#: Status, headers, and the body or its chunks.
HttpResponse = tuple[int, Mapping[str, str], "bytes | AsyncIterator[bytes]"]


class Api(Protocol):
    """Handles the requests of an ``HttpServer``; implemented by ``ApiServer``."""

    clock: Clock
    tokens: Tokens
    authorizer: Authorizer

    async def handle(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
        body: bytes,
    ) -> HttpResponse:
        """Handles an authorized request; header names are in lower case."""
        ...

    def tick(self) -> object:
        """Performs the actions that are due."""
        ...

    def allow_threads(self) -> None:
        """Lets long requests run in threads, beside the event loop."""
        ...


class HttpServer:
    """An API server that listens.

    Attributes:
        url: ``https://127.0.0.1:PORT``.
        authority: The CA certificate (PEM) that signed the server's certificate.
        tokens: The accepted tokens; revoke one to lock its owner out.
    """

    def __init__(self, api: Api, *, limits: Limits) -> None:
        """Does not listen yet: see ``listening``."""
        self._limits = limits
        self.url = ""
        self.tokens = api.tokens
        self._api_handle = api.handle
        self._authorizer = api.authorizer
        api.allow_threads()
        self._signer = Authority(api.clock)
        self._streams: dict[int, asyncio.Timeout] = {}
        self._is_stopping = False

    @property
    def authority(self) -> bytes:
        """The CA certificate (PEM) that signed the server's certificate."""
        return self._signer.certificate

    def statistics(self) -> dict[str, int]:
        """Returns counts: ``streams``, the open watches."""
        return {"streams": len(self._streams)}

    def kubeconfig(self, name: str = "admin") -> str:
        """Returns the text of a kubeconfig with a new token for one of ``IDENTITIES``.

        Raises:
            KeyError: There is no such identity; the message lists all.
        """
        return kubeconfig(url=self.url, authority=self.authority, token=self.token(name))

    def token(self, name: str = "admin") -> str:
        """Returns a new bearer token for one of ``IDENTITIES``.

        Raises:
            KeyError: There is no such identity; the message lists all.
        """
        if name not in IDENTITIES:
            raise KeyError(f"no identity {name!r}; available: {', '.join(IDENTITIES)}")
        return self.tokens.issue(IDENTITIES[name])

    def client_certificate(self, user: str, groups: tuple[str, ...] = ()) -> tuple[bytes, bytes]:
        """Returns a client certificate and its key, both PEM."""
        pair = self._signer.client(user, groups)
        return pair.certificate, pair.key

    @asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[None]:
        """Serves requests during the block; then ends watches at once, other requests when done.

        Raises:
            OSError: The port is in use.
        """
        pair = self._signer.server()
        server = LimitedServer(
            self._respond,
            connections_max=self._limits.connections,
            head_s=self._limits.head_s,
            write_s=self._limits.write_s,
            handler_cancellation=True,
            logger=ConnectionLog(_log),
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=KEEP_ALIVE_S,
            max_line_size=LINE_BYTES_MAX,
            max_field_size=LINE_BYTES_MAX,
        )
        runner = web.ServerRunner(server, shutdown_timeout=self._limits.stop_s)
        await runner.setup()
        try:
            context = server_context(pair, self.authority)
            site = LimitedSite(runner, host, port, context=context, handshake_s=self._limits.head_s)
            await site.start()
            url_host = f"[{host}]" if ":" in host else host
            self.url = f"https://{url_host}:{runner.addresses[0][1]}"
            yield
        finally:
            self.stop()
            await runner.cleanup()

    def stop(self) -> None:
        """Ends all watches and refuses new ones; other requests are still served."""
        self._is_stopping = True
        for stream in self._streams.values():
            stream.reschedule(0)

    # ------------------------------------------------------------------ one request

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            status, headers, body = await self._handle_request(request)
            headers = {**_PRIVATE, **headers}
        except ApiStatusError as error:
            return _error_response(error)
        except Exception as error:  # noqa: BLE001 - one request's bug must not end the others
            _log.exception("request failed: %s %s", request.method, request.path)
            return _error_response(internal_error(f"{type(error).__name__}"))
        if isinstance(body, bytes):
            return await _send_complete(request, status, headers, body)
        return await self._stream(request, status, headers, body)

    async def _handle_request(self, request: web.BaseRequest) -> HttpResponse:
        raw_path, _, raw_query = request.raw_path.partition("?")
        path = unquote(raw_path)
        try:
            query = parse_qsl(raw_query, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX)
        except ValueError as error:
            raise bad_request(f"invalid query: {error}") from None
        identity = self._identify(request)
        self._authorizer.check(identity, attributes_of(request.method, path, query))
        body = await _read(request, self._limits)
        headers = _forwarded_headers(request, identity)
        return await self._api_handle(request.method, path, query, headers, body)

    def _identify(self, request: web.BaseRequest) -> UserInfo:
        """Returns the client's identity by certificate or token, or the one it impersonates.

        Raises:
            ApiStatusError: 401, the token is unknown; 403, the client may not impersonate.
        """
        authenticated = _identity_from_certificate(request)
        if authenticated is None:
            authenticated = self.tokens.authenticate(request.headers.get("Authorization"))
        identity = authenticated or ANONYMOUS
        user = request.headers.get(_IMPERSONATE_USER, "")
        if not user:
            check_is_complete(request.headers)
            return identity
        groups = tuple(request.headers.getall(_IMPERSONATE_GROUP, []))
        return impersonated(self._authorizer, identity, user, groups)

    # ------------------------------------------------------------------ watches

    async def _stream(
        self,
        request: web.BaseRequest,
        status: int,
        headers: Mapping[str, str],
        chunks: AsyncIterator[bytes],
    ) -> web.StreamResponse:
        if self._is_stopping or len(self._streams) >= self._limits.streams:
            await _close(chunks)
            message = "too many watches, please retry later"
            error = ApiStatusError(429, "TooManyRequests", message, {"retryAfterSeconds": 1})
            return _error_response(error)
        response = web.StreamResponse(status=status, headers=headers)
        response.enable_chunked_encoding()
        await response.prepare(request)
        try:
            async with asyncio.timeout(None) as scope:
                self._streams[id(scope)] = scope
                await send_stream(chunks, response, self._limits.write_s)
        except TimeoutError:
            _log.debug("watch ended by the server: %s", request.path)
        except ConnectionError:
            return response  # the watcher has disconnected, which is normal
        finally:
            self._streams.pop(id(scope), None)
            await _close(chunks)
        if not _is_stuck(request):
            await response.write_eof()
        return response


async def send_stream(
    chunks: AsyncIterator[bytes], response: web.StreamResponse, write_s: float
) -> None:
    """Sends each chunk as it arrives, in slices: the connection holds what is written.

    Raises:
        TimeoutError: The client does not read.
    """
    async for chunk in chunks:
        view = memoryview(chunk)
        for start in range(0, len(view), WRITE_SLICE_BYTES):
            async with asyncio.timeout(write_s):
                await response.write(view[start : start + WRITE_SLICE_BYTES])


def _is_stuck(request: web.BaseRequest) -> bool:
    """Returns True if unsent bytes remain: then the end of the stream cannot be sent either."""
    transport = request.transport
    if transport is None:
        return True
    if transport.get_write_buffer_size() > 0:
        transport.abort()
        return True
    return False


async def _close(chunks: AsyncIterator[bytes]) -> None:
    close = getattr(chunks, "aclose", None)
    if close is not None:
        await close()


@asynccontextmanager
async def serve(
    api: Api, *, host: str = "127.0.0.1", port: int = 0, limits: Limits | None = None
) -> AsyncIterator[HttpServer]:
    """Serves an API on a socket during the block.

    Example::

        async with serve(ApiServer(SystemClock(), rng)) as server:
            write_private(Path("kubeconfig"), server.kubeconfig().encode())

    Args:
        api: Handles the requests.
        host: An address of this machine.
        port: 0 = any free port.
        limits: None = the defaults.

    Raises:
        OSError: The port is in use.
    """
    server = HttpServer(api, limits=limits or Limits())
    async with server.listening(host, port):
        with ticking(api.tick):
            yield server


# ---------------------------------------------------------------------- requests and responses


def _identity_from_certificate(request: web.BaseRequest) -> UserInfo | None:
    certificate = request.get_extra_info("peercert")
    if not certificate:
        return None
    user, groups = subject_of(certificate)
    return UserInfo(user, groups).authenticated() if user else None


def _forwarded_headers(request: web.BaseRequest, identity: UserInfo) -> dict[str, str]:
    """Returns the headers for the handler: no credentials, and the identity set by this server."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    for name in ("authorization", "cookie", USER_HEADER, GROUPS_HEADER, UID_HEADER):
        headers.pop(name, None)
    return {**headers, **identity.headers()}


async def _read(request: web.BaseRequest, limits: Limits) -> bytes:
    """Returns the body.

    Raises:
        ApiStatusError: 413, it is too large; 408, it is not received in time.
    """
    if not request.body_exists:
        return b""
    if (request.content_length or 0) > limits.body_bytes:
        raise entity_too_large(f"limit is {limits.body_bytes}")
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # as aiohttp: the head of the response comes after it
    try:
        async with asyncio.timeout(limits.body_s):
            return await _read_all(request, limits.body_bytes)
    except TimeoutError:
        message = "the body of the request was not received in time"
        raise ApiStatusError(408, "Timeout", message) from None


async def _read_all(request: web.BaseRequest, bytes_max: int) -> bytes:
    chunks: list[bytes] = []
    length = 0
    while chunk := await request.content.readany():
        chunks.append(chunk)
        length += len(chunk)
        if length > bytes_max:
            raise entity_too_large(f"limit is {bytes_max}")
    return b"".join(chunks)


def _error_response(error: ApiStatusError) -> web.Response:
    headers = {"Content-Type": negotiation.JSON, "X-Content-Type-Options": "nosniff", **_PRIVATE}
    if error.retry_after_s:
        headers["Retry-After"] = str(error.retry_after_s)
    body = msgspec.json.encode(error.status())
    return web.Response(status=error.code, headers=headers, body=body)


async def _send_complete(
    request: web.BaseRequest, status: int, headers: Mapping[str, str], body: bytes
) -> web.StreamResponse:
    if len(body) < GZIP_BYTES_MIN or "gzip" not in request.headers.get("Accept-Encoding", ""):
        return await wait_until_sent(request, status, headers, body)
    response = web.StreamResponse(status=status, headers=headers)
    response.headers["Content-Encoding"] = "gzip"
    response.headers["Vary"] = "Accept-Encoding"
    response.enable_chunked_encoding()
    await response.prepare(request)
    # In slices, so that compressing a large list does not delay other requests.
    compressor: Any = zlib.compressobj(1, wbits=31)
    view = memoryview(body)
    for start in range(0, len(body), GZIP_SLICE_BYTES):
        await response.write(compressor.compress(view[start : start + GZIP_SLICE_BYTES]))
        await asyncio.sleep(0)
    await response.write(compressor.flush())
    await response.write_eof()
    return response
