"""Requests through a proxy, and streams, over connections that fail in each part of an exchange.

The transport and its HTTP library are real; the network and the servers are not. Each exchange has
a plan: how the connection is opened, through a tunnel if the server has TLS, when the answer comes,
framed in each way, in which pieces, and how it ends. From the plan follow what is sent, with which
headers, and the result: its body or lines, or an error that says whether the server may have acted,
and when it comes. Redirects are not followed, and a token that was refused is renewed once.

Source: client-go, transport/round_trippers.go; net/http (Transport.Proxy, CONNECT).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote_plus

from mooring.client.transport.http import HttpTransport
from mooring.client.transport.transport import (
    Response,
    StreamBroken,
)
from mooring.clock import Rng, seeded_random
from mooring.errors import OutcomeUnknown, Unreachable
from tests.faults.parts.proxied_plans import (
    LATE,
    SERVER,
    Plan,
    drawn_plan,
    lines_due,
    read_due,
    whole_due,
)
from tests.helpers.virtual_loop import LimitedLoop

EXCHANGES: Final = 24
ROUNDING_S: Final = 1e-6
PROXY: Final = "192.0.2.9"
HINT: Final = "; if it serves TLS, its URL must begin with https://"
CLOSED: Final = "the server closed the connection"
NEVER_S: Final = 1e6
#: A process that is stopped goes on after so long.
STOPPED_S: Final = 60.0
BASIC: Final = f"Basic {b64encode(b'me:secret').decode()}"


class Source:
    """The credentials: a token that is refused at times."""

    tls = None
    generation = 0

    def __init__(self, loop: Any) -> None:
        self.number = 0
        self.stops = self.renewals = 0
        self._loop = loop

    def current_headers(self) -> Mapping[str, str]:
        """Returns the headers of a request; the process may be stopped meanwhile."""
        if self.stops:
            self._loop._now_s += STOPPED_S
            self.stops -= 1
        return {"authorization": f"Bearer {self.number}"}

    async def headers(self) -> Mapping[str, str]:
        """Returns the headers of a request."""
        return self.current_headers()

    async def renew(self) -> None:
        """Gets another token."""
        await asyncio.sleep(0)
        self.number += 1
        self.renewals += 1


class Link(asyncio.Transport):
    """A connection, to the server or to the proxy."""

    def __init__(self, run: ProxiedRun, protocol: Any, sock: socket.socket | None) -> None:
        super().__init__()
        self.protocol, self.is_tunnel = protocol, False
        self._run, self._socket = run, sock
        self._is_closing = False
        self._buffer = b""

    def is_closing(self) -> bool:
        """Returns whether the connection is being closed."""
        return self._is_closing

    def write(self, data: Any) -> None:
        """Takes a part of a request; it is complete with its body."""
        self._buffer += bytes(data)
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        lines = head.decode("utf-8").split("\r\n")
        fields = [line.partition(": ")[::2] for line in lines[1:]]
        length = int({name.lower(): it for name, it in fields}.get("content-length", "0"))
        if end and len(body) >= length:
            self._buffer = b""
            self._run.receive(self, lines[0], fields, body)

    def writelines(self, parts: Any) -> None:
        """Takes parts of a request."""
        self.write(b"".join(parts))

    def deliver(self, data: bytes) -> None:
        """Passes bytes to the client, unless it has closed the connection."""
        if not self._is_closing:
            self.protocol.data_received(data)

    def abort(self) -> None:
        """Closes the connection at once."""
        self.end(None)

    close = abort

    def end(self, error: Exception | None) -> None:
        """Ends the connection, from either side."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._socket is not None:
            self._socket.close()
        asyncio.get_running_loop().call_soon(self.protocol.connection_lost, error)

    def pause_reading(self) -> None:
        """Does nothing: answers are short."""

    def resume_reading(self) -> None:
        """Does nothing."""


class ProxiedRun:
    """One run.

    Attributes:
        problems: Differences to the plans.
    """

    def __init__(self, seed: int, loop: LimitedLoop) -> None:
        self.problems: list[str] = []
        self._rng: Rng = seeded_random(seed)
        rng, self._loop = self._rng, loop
        self._proxy = rng.choice((None, f"http://{PROXY}:3128", f"http://me:secret@{PROXY}:3128"))
        self._is_secure = rng.random() < 0.4
        self._server_name = rng.choice((None, "inner"))
        self._root = rng.choice(("", "/root"))
        scheme = "https" if self._is_secure else "http"
        self._source = Source(loop) if rng.random() < 0.7 else None
        self._transport = HttpTransport(
            f"{scheme}://{SERVER}{self._root}/",
            authorization=self._source,
            server_name=self._server_name,
            proxy=self._proxy,
            user_agent="agent",
            extra_headers=[("x-user", "jané")],
        )
        patched: Any = loop
        patched.create_connection, patched.start_tls = self._create, self._start_tls
        patched.sock_connect = self._connect
        self._links: list[Link] = []
        self._plan = self._drawn()
        #: Of this exchange: whether a connection was opened, how many requests have arrived, and
        #: when the last part of the answer was sent.
        self._is_opened, self._arrivals, self._last_s = False, 0, 0.0

    async def run(self) -> None:
        """Makes all exchanges, one after another, and closes the transport."""
        for _ in range(EXCHANGES):
            await asyncio.sleep(self._rng.choice((0.0, 1.0)))
            self._plan = self._drawn()
            self._is_opened, self._arrivals = False, 0
            await (self._stream() if self._plan.is_stream else self._request())
            self._check_renewed()
            if self.problems:
                break
        await self._transport.close()
        await asyncio.sleep(1.0)
        if n_open := sum(not link.is_closing() for link in self._links):
            self.problems.append(f"{n_open} connections of a closed transport are open")

    def _check_renewed(self) -> None:
        """Checks that credentials are renewed once if the first request is refused, else not."""
        if source := self._source:
            if source.renewals != (self._arrivals > 0 and self._plan.tries[0] == 401):
                self.problems.append(f"{self._plan} renews {source.renewals} times")
            source.renewals = 0

    def _drawn(self) -> Plan:
        return drawn_plan(
            self._rng,
            has_proxy=self._proxy is not None,
            has_tunnels=self._proxy is not None and self._is_secure,
            has_source=self._source is not None,
        )

    # -- the client -------------------------------------------------------------------------------

    async def _request(self) -> None:
        plan, began_s = self._plan, self._loop.time()
        is_stopped = self._source is not None and self._rng.random() < 0.05
        if is_stopped and self._source is not None:
            self._source.stops = 1
        real: Any
        try:
            real = await self._transport.request(plan.request)
        except (Unreachable, OutcomeUnknown) as error:
            real = error
        if is_stopped:
            # Whatever the plan is: its deadline passed before it could be sent.
            if self._arrivals:
                self.problems.append(f"{plan} is sent after its deadline")
            self._compare(real, Unreachable, LATE, began_s + STOPPED_S)
            return
        self._compare(real, *self._due(began_s))

    async def _stream(self) -> None:
        plan, began_s = self._plan, self._loop.time()
        lines: list[bytes] = []
        # A reader that takes its time: only a wait for data is limited.
        is_lazy = plan.end == "complete" and plan.pause_s < 0.1 and self._rng.random() < 0.3
        real: Any
        try:
            async with self._transport.stream(plan.request, idle_s=plan.idle_s) as stream:
                real = stream.status
                async for batch in stream.batches():
                    lines += batch
                    await asyncio.sleep(2 * plan.idle_s if is_lazy else 0.0)
        except (Unreachable, StreamBroken) as error:
            real = error
        kind, text, due_s = self._due(began_s)
        self._compare(real, kind, text, max(due_s, self._loop.time()) if is_lazy else due_s)
        if isinstance(real, Unreachable):
            return
        due = lines_due(plan)
        if lines != due:
            self.problems.append(f"{plan} has the lines {lines}, not {due}")

    def _compare(self, real: Any, kind: Any, text: str, due_s: float) -> None:
        """Compares a result with the one that is due, and its time."""
        plan, place = self._plan, f"{self._plan.request.method} {self._plan.request.path}: "
        is_text = isinstance(real, Exception) and not isinstance(real, StreamBroken)
        message = str(real).removeprefix(place) if is_text else str(real)
        if isinstance(kind, type):
            is_same = type(real) is kind and (message == text or (not text and message != LATE))
            is_same &= not is_text or str(real).startswith(place)
        elif isinstance(real, Response):
            is_same = (real.status, real.body) == kind and "location" in real.headers
        else:
            is_same = real == kind
        if not is_same or abs(self._loop.time() - due_s) > ROUNDING_S:
            self.problems.append(
                f"{plan}: {real!r} at {self._loop.time()} s, not {kind} {text} at {due_s} s"
            )

    def _due(self, began_s: float) -> tuple[Any, str, float]:
        """Returns the result that is due: a value, or the class and text of an error; when."""
        plan, opened = self._plan, self._is_opened
        ends_s, hint = began_s + plan.request.deadline_s, "" if self._is_secure else HINT
        place = f"{PROXY}:3128" if self._proxy else f"{SERVER}:{443 if self._is_secure else 80}"
        if opened and plan.opening != "fine":
            text = {
                "refused": f"cannot connect to {place}: Connection refused",
                "slow": LATE,
                "dropped": f"{CLOSED}{hint}",
            }.get(plan.opening, "")
            return Unreachable, text, ends_s if plan.opening == "slow" else began_s
        # A request that was refused with 401 has an answer of its own, in no time.
        no_answer = Unreachable if plan.is_stream else OutcomeUnknown
        if plan.end == "silent" or plan.after_s >= plan.request.deadline_s:
            return no_answer, LATE, ends_s
        if plan.end == "reset":
            return no_answer, f"{CLOSED}{hint}", began_s + plan.after_s
        status = plan.tries[-1]
        kind, text, after_s = read_due(plan, status) if plan.is_stream else whole_due(plan, status)
        return kind, text, began_s + after_s

    # -- the network ------------------------------------------------------------------------------

    async def _connect(self, sock: socket.socket, address: Any) -> None:
        """Opens a connection, or fails, as ``sock_connect`` of the loop.

        Raises:
            OSError: it is refused.
        """
        del sock
        self._is_opened = True
        place = (PROXY, 3128) if self._proxy else (SERVER, 443 if self._is_secure else 80)
        if tuple(address[:2]) != place:
            self.problems.append(f"connects to {address}, not {place}")
        if self._plan.opening == "refused":
            raise ConnectionRefusedError(111, "refused")
        await asyncio.sleep(NEVER_S if self._plan.opening == "slow" else 0.0)

    async def _create(self, factory: Callable[[], Any], **more: Any) -> tuple[Link, Any]:
        """Returns a connection over a socket, as ``create_connection`` of the loop."""
        await asyncio.sleep(0)
        is_direct = self._is_secure and self._proxy is None
        name = (self._server_name or SERVER) if is_direct else None
        context = more.get("ssl")
        if (more.get("server_hostname"), context is not None) != (name, is_direct) or (
            is_direct and not _is_verifying(context)
        ):
            self.problems.append(f"a connection is opened with {more}")
        link = Link(self, factory(), more["sock"])
        self._links.append(link)
        link.protocol.connection_made(link)
        return link, link.protocol

    async def _start_tls(
        self, link: Link, protocol: Any, context: Any, **more: Any
    ) -> asyncio.Transport:
        """Begins TLS in a tunnel, as ``start_tls`` of the loop."""
        await asyncio.sleep(0)
        name = self._server_name or SERVER
        if more.get("server_hostname") != name or not _is_verifying(context):
            self.problems.append(f"TLS with {more}, not {name}")
        link.protocol = protocol
        return link

    # -- the proxy and the server -----------------------------------------------------------------

    def receive(self, link: Link, line: str, fields: list[Any], body: bytes) -> None:
        """Takes a request, compares it, and answers."""
        plan = self._plan
        if line.startswith("CONNECT "):
            self._tunnel(link, line, fields)
            return
        request = plan.request
        query = "&".join(f"{name}={quote_plus(it, safe='(),')}" for name, it in request.query)
        target = f"{self._root}{request.path}" + (f"?{query}" if query else "")
        if self._proxy and not self._is_secure:
            target = f"http://{SERVER}{target}"
        expected = {
            "host": SERVER,
            "user-agent": "agent",
            "accept-encoding": "identity",
            "x-user": "jané",
            "accept": "*/*",
        } | dict(request.headers)
        if self._source is not None:
            expected["authorization"] = f"Bearer {self._source.number}"
        if request.body:
            expected["content-length"] = "4"
        elif request.method != "GET":
            expected["content-length"] = "0"
        if self._proxy and "@" in self._proxy and not self._is_secure:
            expected["proxy-authorization"] = BASIC
        real = {name.lower(): value for name, value in fields}
        first = f"{request.method} {target} HTTP/1.1"
        if (line, real, body) != (first, expected, request.body):
            self.problems.append(f"{plan} sends {line} {real} {body!r}, not {first} {expected}")
        status = plan.tries[min(self._arrivals, len(plan.tries) - 1)]
        self._arrivals += 1
        if status == 401 and self._arrivals == 1:
            link.deliver(b"HTTP/1.1 401 X\r\ncontent-length: 0\r\n\r\n")
            return
        self._loop.call_later(plan.after_s, self._answer, link, plan, status)

    def _tunnel(self, link: Link, line: str, fields: list[Any]) -> None:
        real = {name.lower(): value for name, value in fields}
        authorization = BASIC if self._proxy and "@" in self._proxy else None
        if line != f"CONNECT {SERVER}:443 HTTP/1.1" or (
            real.get("proxy-authorization") != authorization or "authorization" in real
        ):
            self.problems.append(f"a tunnel is opened with {line} {real}")
        if self._plan.opening == "dropped":
            link.end(None)
        else:
            status = 403 if self._plan.opening == "denied" else 200
            link.deliver(f"HTTP/1.1 {status} X\r\n\r\n".encode())

    def _answer(self, link: Link, plan: Plan, status: int) -> None:
        if plan.end == "reset":
            link.end(None)
        if plan.end in ("reset", "silent"):
            return
        link.deliver(plan.head(status))
        began_s = self._loop.time() - plan.after_s
        self._send_all(link, plan, [(began_s + at_s, piece) for at_s, piece in plan.moments])

    def _send_all(self, link: Link, plan: Plan, moments: list[tuple[float, bytes | None]]) -> None:
        """Sends what is due, and the others later: a loop may run timers in any order."""
        while moments and moments[0][0] <= self._loop.time():
            _send(link, plan, moments.pop(0)[1])
        if moments:
            self._loop.call_at(moments[0][0], self._send_all, link, plan, moments)


def _is_verifying(context: Any) -> bool:
    """Returns whether a context verifies the certificate of a server, and its name."""
    is_context = isinstance(context, ssl.SSLContext)
    return is_context and context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname


def _send(link: Link, plan: Plan, piece: bytes | None) -> None:
    """Sends a piece of an answer, or its end."""
    is_chunked = plan.frame == "chunked"
    if piece is not None:
        link.deliver(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" if is_chunked else piece)
        return
    if is_chunked and plan.end == "complete":
        link.deliver(b"0\r\n\r\n")
    if plan.end == "cut" or plan.frame == "unframed" or not plan.is_kept:
        link.end(None)


def run_proxied(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: an exchange is sent, or ends, as it must not.
    """
    with asyncio.Runner(loop_factory=lambda: LimitedLoop(seeded_random(seed + 1))) as runner:
        loop: Any = runner.get_loop()
        run = ProxiedRun(seed, loop)
        runner.run(run.run())
    assert not run.problems, run.problems[0]
