"""Calls of an extender over HTTP: one POST each, with a deadline and a limit on the response.

Redirects and proxies of the environment are not followed: requests go to the configured URL only.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

from mooring.client.transport.http1_pool import HTTP_FAILURES, Http1Pool
from mooring.client.transport.transport import AnswerTooLong, Request
from mooring.errors import ExtenderError
from mooring.extenders.tls import ClientPair, is_forbidden, without_password

#: kube-scheduler's timeout, if the configuration gives none.
TIMEOUT_S: Final = 5.0

#: Connections to one extender: a scheduling cycle sends one call at a time, bindings many.
CONNECTIONS_MAX: Final = 64

_OK: Final = 200

#: (verb, body, maximal size of the response in bytes) -> body of the response.
ExtenderTransport = Callable[[str, bytes, int], Awaitable[bytes]]


class NoResponse(ExtenderError):
    """No usable response; the call may have had an effect.

    Attributes:
        is_sent: False if the request certainly was not sent.
        is_cut_off: Whether the connection was closed before a response.
    """

    def __init__(self, message: str, *, is_sent: bool = True, is_cut_off: bool = False) -> None:
        super().__init__(message)
        self.is_sent = is_sent
        self.is_cut_off = is_cut_off


class HttpExtenderTransport:
    """Calls one extender over HTTP or HTTPS.

    Args:
        url: The prefix of its URLs; the verb comes after a "/".
        timeout_s: Of a whole call.
        tls: For https.
        server_name: The name in its certificate, if it is not that of the URL.
        pair: The client certificate, if its files are read again for every connection.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float,
        tls: ssl.SSLContext,
        server_name: str = "",
        pair: ClientPair | None = None,
    ) -> None:
        self._prefix = url.rstrip("/")
        self._shown = without_password(self._prefix)
        self._timeout_s = timeout_s if timeout_s > 0 else TIMEOUT_S
        self._tls = tls
        self._server_name = server_name
        self._pair = pair
        self._pool: Http1Pool | None = None
        self._headers = {"content-type": "application/json"}

    async def __call__(self, verb: str, body: bytes, bytes_max: int) -> bytes:
        """Returns the body of the response.

        Raises:
            NoResponse: there is no usable response.
        """
        is_sent = False

        def note() -> None:
            nonlocal is_sent
            is_sent = True

        request = Request("POST", f"/{verb}", self._timeout_s, body=body, bytes_max=bytes_max)
        due_s = asyncio.get_running_loop().time() + self._timeout_s
        try:
            answer = await self._open().request(request, self._headers, note, due_s=due_s)
        except TimeoutError as error:
            message = f"{self._what(verb)}: no answer in {self._timeout_s:g} s"
            raise NoResponse(message, is_sent=is_sent) from error
        except AnswerTooLong as error:
            message = f"{self._what(verb)}: its answer is longer than {bytes_max} bytes"
            raise NoResponse(message) from error
        except (*HTTP_FAILURES, ValueError) as error:
            message = f"{self._what(verb)}: {str(error) or type(error).__name__}"
            is_cut_off = is_sent and isinstance(error, ConnectionError)
            raise NoResponse(message, is_sent=is_sent, is_cut_off=is_cut_off) from error
        if answer.status != _OK:
            url = f"{self._shown}/{verb}"
            message = f"failed {verb} with extender at URL {url}, code {answer.status}"
            raise NoResponse(message)
        coding = answer.headers.get("content-encoding", "identity")
        if coding != "identity":
            message = f"{self._what(verb)}: its answer is encoded as {json.dumps(coding)}"
            raise NoResponse(message)
        return answer.body

    def _what(self, verb: str) -> str:
        """Returns the call as Go's HTTP client names it in errors."""
        return f"Post {json.dumps(f'{self._shown}/{verb}')}"

    async def close(self) -> None:
        """Closes the connections."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    def _open(self) -> Http1Pool:
        """Returns the connection pool, created at the first call.

        Raises:
            ValueError: the URL cannot be used.
        """
        if self._pool is None:
            parts = urlsplit(self._prefix)
            if parts.scheme not in ("http", "https"):
                raise ValueError(f"unsupported protocol scheme {json.dumps(parts.scheme)}")
            if not parts.hostname:
                raise ValueError("no Host in request URL")
            if parts.username is not None:
                user = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
                self._headers["authorization"] = f"Basic {b64encode(user).decode()}"
            self._pool = Http1Pool(
                self._prefix,
                tls=self._tls,
                server_name=self._server_name or None,
                limit=CONNECTIONS_MAX,
                user_agent="mooring",
                look_up=self._look_up,
            )
        return self._pool

    async def _look_up(self, host: str, port: int) -> Sequence[str]:
        """Resolves the host before a connection is opened; reloads the client certificate."""
        if self._pair is not None:
            self._pair.refresh()
        return await _addresses(host, port)


async def _addresses(host: str, port: int) -> Sequence[str]:
    """Returns the addresses of a host.

    Raises:
        OSError: one is forbidden for extenders, or the name cannot be resolved.
    """
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(address[0]) for *_, address in infos]
    for address in addresses:
        if is_forbidden(address):
            raise OSError(f"{host} is at the link-local or metadata address {address}")
    return addresses
