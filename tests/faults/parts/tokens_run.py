"""Requests with a token that a server revokes, over connections that break.

The transport and its pools are real; the credentials and the server are not. A request that the
server has refused with 401 is sent once more, with newer credentials; it counts as unreachable if
all that has arrived was refused like this, and its outcome as unknown otherwise. A connection has
the requests of one certificate.

In a third of the runs streams are opened, too, and the transport is closed at any moment: from then
on it opens no connection, whatever was waiting, all that are open end, and calls are unreachable.

Source: client-go, transport/round_trippers.go and cert_rotation.go (connections are closed when the
certificate changes).
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

from mooring.client.transport.http import HttpTransport
from mooring.client.transport.transport import Request, Response
from mooring.clock import seeded_random
from mooring.errors import OutcomeUnknown, Unreachable
from tests.helpers.virtual_loop import LimitedLoop

REQUESTS: Final = 60
FAILURE_RATES: Final = (0.0, 0.1, 0.3)
QUIET_S: Final = 100.0
#: In such seeds, modulo three, streams are opened, and the transport is closed before the end.
CLOSING: Final = 2
STREAM_SHARE: Final = 0.4
#: A connection that is being opened at the end takes half a second.
CLOSED_WITHIN_S: Final = 1.0


class Source:
    """The credentials: a token, and in some runs a certificate.

    Attributes:
        tls: No context: what a certificate is for is not part of this run.
        generation: Of the certificate.
        token: The one that is sent, with the generation.
    """

    tls = None

    def __init__(self, run: TokensRun, *, has_certificate: bool) -> None:
        self.generation = 0
        self.token = "0-0"
        self._run, self._has_certificate = run, has_certificate

    def current_headers(self) -> Mapping[str, str] | None:
        """Returns the headers of a request, or None if they have to be waited for."""
        return None if self._run.rng.random() < 0.1 else self._headers()

    async def headers(self) -> Mapping[str, str]:
        """Returns the headers of a request, after a while."""
        await asyncio.sleep(self._run.rng.uniform(0.0, 1.0))
        return self._headers()

    async def renew(self) -> None:
        """Gets the newest token.

        Raises:
            Unreachable: there is none.
        """
        await asyncio.sleep(self._run.rng.uniform(0.0, 2.0))
        if self._run.rng.random() < self._run.failure_rate:
            raise Unreachable("no credentials")
        self.generation += self._has_certificate
        self.token = f"{self.generation}-{self._run.newest}"

    def _headers(self) -> Mapping[str, str]:
        return {"authorization": f"Bearer {self.token}"}


class Link(asyncio.Transport):
    """A connection, as the pool has it."""

    def __init__(
        self, run: TokensRun, factory: Callable[[], Any], sock: socket.socket | None
    ) -> None:
        super().__init__()
        self._run, self._socket = run, sock
        self._is_closing = False
        #: The generation of the first request.
        self.generation: str | None = None
        self.protocol = factory()
        self.protocol.connection_made(self)

    def is_closing(self) -> bool:
        """Returns whether the connection is being closed."""
        return self._is_closing

    def write(self, data: Any) -> None:
        """Takes a request."""
        self._run.receive(self, bytes(data).decode("latin-1"))

    def abort(self) -> None:
        """Closes the connection at once."""
        if not self._is_closing:
            self._is_closing = True
            if self._socket is not None:
                self._socket.close()
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def close(self) -> None:
        """Closes the connection."""
        self.abort()

    def pause_reading(self) -> None:
        """Does nothing: answers are short."""

    def resume_reading(self) -> None:
        """Does nothing."""

    def answer(self, status: int) -> bool:
        """Answers a request; returns whether the answer arrives."""
        if self._is_closing:
            return False
        self.protocol.data_received(f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n".encode())
        return True


class TokensRun:
    """One run.

    Attributes:
        problems: What does not hold.
        rng: Draws what happens.
        failure_rate: Of connections, answers and renewals.
        newest: The number of the newest token; the server accepts no other one.
    """

    def __init__(self, seed: int, rng: random.Random, loop: LimitedLoop) -> None:
        self.problems: list[str] = []
        self.rng, self.failure_rate = rng, rng.choice(FAILURE_RATES)
        self.newest = 0
        self._loop = loop
        self._revocation_rate = rng.choice((0.05, 0.2))
        source = Source(self, has_certificate=rng.random() < 0.5)
        self._transport = HttpTransport("http://192.0.2.1", authorization=source)
        loop.create_connection = self._connect  # type: ignore[assignment,method-assign]
        loop.sock_connect = self._sock_connect  # type: ignore[method-assign]
        #: Draws streams, and the end of the transport, in such seeds.
        self._more = seeded_random(seed + 1_000_000) if seed % 3 == CLOSING else None
        self._closes_at = self._more.randrange(REQUESTS) if self._more is not None else -1
        self._is_closed = False
        self._links: list[Link] = []
        #: Request -> for each time that it has arrived: whether its refusal was reported.
        self._arrivals: dict[int, list[bool]] = {}

    async def run(self) -> None:
        """Sends all requests."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(REQUESTS):
                await asyncio.sleep(self.rng.choice((0.0, self.rng.uniform(0.0, 3.0))))
                self.newest += self.rng.random() < self._revocation_rate
                tasks.create_task(self._call(number))
                if number == self._closes_at:
                    tasks.create_task(self._close())
        await asyncio.sleep(QUIET_S)
        await self._close()

    async def _close(self) -> None:
        """Closes the transport: soon no connection is open, also none that was being opened."""
        self._is_closed = True
        await self._transport.close()
        await asyncio.sleep(CLOSED_WITHIN_S)
        if n_open := sum(not link.is_closing() for link in self._links):
            self.problems.append(f"{n_open} connections of a closed transport are open")

    async def _read(self, request: Request) -> Response:
        """Opens a stream and reads all of it."""
        async with self._transport.stream(request, idle_s=QUIET_S) as stream:
            batches = [batch async for batch in stream.batches()]
        if any(batches):
            self.problems.append(f"a stream of {request.path} without lines has {batches}")
        return Response(stream.status, stream.headers, b"")

    async def _call(self, number: int) -> None:
        rng = self.rng
        method = rng.choice(("GET", "POST", "PATCH"))
        request = Request(method, f"/{number}", deadline_s=rng.uniform(0.5, 10.0))
        outcome: Response | Exception
        was_closed = self._is_closed
        is_stream = self._more is not None and self._more.random() < STREAM_SHARE
        try:
            if is_stream:
                outcome = await self._read(request._replace(method="GET"))
            else:
                outcome = await self._transport.request(request)
        except (OutcomeUnknown, Unreachable) as error:
            outcome = error
        arrivals = self._arrivals.get(number, [])
        if was_closed and (arrivals or not isinstance(outcome, Unreachable)):
            self.problems.append(f"{number} ends with {outcome!r} after the transport is closed")
        are_refused = all(arrivals)
        if isinstance(outcome, Response):
            if (outcome.status == 401) != are_refused or not arrivals:
                self.problems.append(f"{number} has the answer {outcome.status}: {arrivals}")
        elif isinstance(outcome, OutcomeUnknown) is (are_refused or is_stream):
            self.problems.append(f"{number} ends with {outcome!r}, the server refused {arrivals}")

    # -- the network and the server ---------------------------------------------------------------

    async def _connect(
        self, factory: Callable[[], Any], host: str = "", port: int = 0, **more: Any
    ) -> tuple[Link, Any]:
        """Opens a connection.

        Raises:
            OSError: the server refuses it.
        """
        sock: socket.socket | None = more.get("sock")
        if sock is None:
            await self._open()
        link = Link(self, factory, sock)
        self._links.append(link)
        return link, link.protocol

    async def _sock_connect(self, sock: socket.socket, address: Any) -> None:
        """Connects a socket of a stream, which is not used: see ``_connect``."""
        del sock, address
        await self._open()

    async def _open(self) -> None:
        if self._is_closed:
            self.problems.append("a closed transport opens a connection")
        await asyncio.sleep(self.rng.uniform(0.0, 0.5))
        if self.rng.random() < self.failure_rate:
            raise ConnectionRefusedError(111, "refused")

    def receive(self, link: Link, text: str) -> None:
        """Takes a request, and answers it later or never."""
        first, *lines = text.partition("\r\n\r\n")[0].split("\r\n")
        method, target, _ = first.split(" ")
        number = int(target.removeprefix("/"))
        if method != "GET" and "content-length: 0" not in lines:
            self.problems.append(f"{number} does not say that it has no body: {lines}")
        arrivals = self._arrivals.setdefault(number, [])
        if len(arrivals) > 1 or not all(arrivals):
            self.problems.append(f"{number} is sent anew after {arrivals}")
        arrivals.append(False)
        tokens = [line.removeprefix("authorization: Bearer ") for line in lines]
        generation, _, token = next(it for it in tokens if it not in lines).partition("-")
        if link.generation not in (None, generation):
            self.problems.append(
                f"{number} has the certificate {generation}, its connection {link.generation}"
            )
        link.generation = generation
        status = 200 if int(token) == self.newest else 401
        draw, at = self.rng.random(), len(arrivals) - 1
        if draw < self.failure_rate / 2:
            self._loop.call_later(self.rng.uniform(0.0, 5.0), link.abort)
        elif draw > self.failure_rate:
            self._loop.call_later(
                self.rng.uniform(0.0, 3.0), self._answer, link, number, at, status
            )

    def _answer(self, link: Link, number: int, at: int, status: int) -> None:
        if link.answer(status):
            self._arrivals[number][at] = status == 401


def run_tokens(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a request is sent, or ends, as it must not.
    """
    rng = seeded_random(seed)
    with asyncio.Runner(loop_factory=lambda: LimitedLoop(rng)) as runner:
        loop: Any = runner.get_loop()
        run = TokensRun(seed, rng, loop)
        runner.run(run.run())
    assert not run.problems, run.problems[0]
