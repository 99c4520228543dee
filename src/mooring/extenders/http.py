"""Questions over HTTP: one POST each, with a deadline and a limit on the answer.

Neither a redirect nor a proxy of the environment can lead anywhere else than the configuration
says.
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

from mooring.client.transport.transport import AnswerTooLong, Request
from mooring.client.transport.wire import WIRE_FAILURES, Wire
from mooring.errors import ExtenderError
from mooring.extenders.tls import ClientPair, is_forbidden, without_password

#: kube-scheduler's timeout, if the configuration gives none.
TIMEOUT_S: Final = 5.0

#: Connections to one extender: decisions ask one question at a time, bindings many.
CONNECTIONS_MAX: Final = 64

_OK: Final = 200

#: (verb, body, most bytes of the answer) -> the answer's body.
Post = Callable[[str, bytes, int], Awaitable[bytes]]


class NoAnswer(ExtenderError):
    """No answer came, or one that says nothing; what was asked for may have happened.

    Attributes:
        is_sent: False if it surely did not happen: nobody was there to be told.
        is_cut_off: Whether the connection ended where the answer should have been.
    """

    def __init__(self, message: str, *, is_sent: bool = True, is_cut_off: bool = False) -> None:
        super().__init__(message)
        self.is_sent = is_sent
        self.is_cut_off = is_cut_off


class HttpPost:
    """Asks one extender over HTTP or HTTPS.

    Args:
        url: The prefix of its URLs; the verb comes after a "/".
        timeout_s: For a whole question.
        tls: For https.
        server_name: The name in its certificate, if it is not that of the URL.
        pair: Our certificate, if its files are to be read anew for every connection.
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
        self._wire: Wire | None = None
        self._headers = {"content-type": "application/json"}

    async def __call__(self, verb: str, body: bytes, bytes_max: int) -> bytes:
        """Returns the body of the answer.

        Raises:
            NoAnswer: there is none that says something.
        """
        is_sent = False

        def note() -> None:
            nonlocal is_sent
            is_sent = True

        request = Request("POST", f"/{verb}", self._timeout_s, body=body, bytes_max=bytes_max)
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._open().ask(request, self._headers, note)
        except TimeoutError as error:
            told = f"{self._what(verb)}: no answer in {self._timeout_s:g} s"
            raise NoAnswer(told, is_sent=is_sent) from error
        except AnswerTooLong as error:
            told = f"{self._what(verb)}: its answer is longer than {bytes_max} bytes"
            raise NoAnswer(told) from error
        except (*WIRE_FAILURES, ValueError) as error:
            told = f"{self._what(verb)}: {str(error) or type(error).__name__}"
            is_cut_off = is_sent and isinstance(error, ConnectionError)
            raise NoAnswer(told, is_sent=is_sent, is_cut_off=is_cut_off) from error
        if answer.status != _OK:
            url = f"{self._shown}/{verb}"
            told = f"failed {verb} with extender at URL {url}, code {answer.status}"
            raise NoAnswer(told)
        coding = answer.headers.get("content-encoding", "identity")
        if coding != "identity":
            told = f"{self._what(verb)}: its answer is encoded as {json.dumps(coding)}"
            raise NoAnswer(told)
        return answer.body

    def _what(self, verb: str) -> str:
        """What was tried, in the words of Go's HTTP client."""
        return f"Post {json.dumps(f'{self._shown}/{verb}')}"

    async def close(self) -> None:
        """Gives back the connections."""
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.close()

    def _open(self) -> Wire:
        """Returns the way there, made at the first question.

        Raises:
            ValueError: the URL leads nowhere.
        """
        if self._wire is None:
            parts = urlsplit(self._prefix)
            if parts.scheme not in ("http", "https"):
                raise ValueError(f"unsupported protocol scheme {json.dumps(parts.scheme)}")
            if not parts.hostname:
                raise ValueError("no Host in request URL")
            if parts.username is not None:
                user = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
                self._headers["authorization"] = f"Basic {b64encode(user).decode()}"
            self._wire = Wire(
                self._prefix,
                tls=self._tls,
                server_name=self._server_name or None,
                limit=CONNECTIONS_MAX,
                user_agent="mooring",
                look_up=self._look_up,
            )
        return self._wire

    async def _look_up(self, host: str, port: int) -> Sequence[str]:
        """What is done before a connection is opened."""
        if self._pair is not None:
            self._pair.refresh()
        return await _addresses(host, port)


async def _addresses(host: str, port: int) -> Sequence[str]:
    """Returns the addresses of a name, if no extender is where it must not be."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(place[0]) for *_, place in found]
    for address in addresses:
        if is_forbidden(address):
            raise OSError(f"{host} is at the link-local or metadata address {address}")
    return addresses
