"""A network in memory for a pool of connections: servers that are slow, cut, talk too much, or lie.

It takes the place of the loop's ``create_connection``. A server answers each request by a script
that is drawn for it: an answer framed in each way of HTTP/1.1, in pieces, late, never, too long,
cut off, followed by bytes that belong to no request, or by the end of the connection.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from typing import Any, Final, NamedTuple

#: How an answer ends, or what it is instead, with the weight of each.
KINDS: Final = {
    "sized": 40,
    "chunked": 14,
    "empty": 6,
    "interim": 6,
    "closing": 6,
    "old": 3,
    "unframed": 4,
    "cut": 4,
    "reset": 4,
    "torn": 3,
    "garbage": 3,
    "more": 5,
}
#: After these the connection takes no other request.
FINAL_KINDS: Final = frozenset(
    {"closing", "old", "unframed", "cut", "reset", "torn", "garbage", "more"}
)
#: No complete answer comes.
BROKEN: Final = frozenset({"cut", "reset", "torn", "garbage"})
DELAYS_S: Final = (0.0, 0.0, 0.01, 0.2, 1.0, 1.9, 2.1, 5.0, 30.0, math.inf)
NEVER_S: Final = math.inf
#: An answer that belongs to no request.
_UNASKED: Final = b"HTTP/1.1 408 X\r\ncontent-length: 0\r\n\r\n"


class Script(NamedTuple):
    """The answer to a request: after ``delay_s``, in pieces ``pause_s`` apart.

    ``headers`` are further lines of its head.
    """

    kind: str
    status: int
    body: bytes
    delay_s: float
    pause_s: float
    headers: str = ""

    def text(self) -> bytes:
        """Returns the bytes of the answer."""
        status, body = self.status, self.body
        first = f"HTTP/1.1 {status} X\r\n{self.headers}"
        if self.kind == "empty":
            return b"HTTP/1.1 204 X\r\n\r\n"
        if self.kind == "chunked":
            half = len(body) // 2
            parts = [part for part in (body[:half], body[half:]) if part]
            chunks = b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in parts)
            return f"{first}transfer-encoding: chunked\r\n\r\n".encode() + chunks + b"0\r\n\r\n"
        if self.kind in ("unframed", "torn"):
            return f"{first}x: y\r\n\r\n".encode() + body
        if self.kind == "garbage":
            return b"SSH-2.0-x\r\n" + body
        if self.kind == "reset":
            return b""
        lead = "HTTP/1.1 103 Early\r\nlink: x\r\n\r\n" if self.kind == "interim" else ""
        if self.kind == "old":
            first = f"HTTP/1.0 {status} X\r\n{self.headers}"
        close = "connection: close\r\n" if self.kind == "closing" else ""
        sized = f"{lead}{first}{close}content-length: {len(body)}\r\n\r\n".encode() + body
        # Anywhere, also in the head: from that and the body, so that no draw is needed.
        end = -1 - (len(sized) * 7919 + status) % (len(sized) - 1)
        return sized[:end] if self.kind == "cut" else sized


class Link(asyncio.Transport):
    """A connection, as the pool sees it."""

    def __init__(self, network: Network, number: int, host: str) -> None:
        super().__init__()
        self.network, self.number, self.host = network, number, host
        self.protocol: Any = None
        #: The request whose answer is not complete.
        self.request: int | None = None
        #: The request that was sent last.
        self.caller: int | None = None
        self.is_usable = True
        self.idle_since_s = network.now_s()
        self.is_lost = False
        self._is_closing = False
        self._buffer = b""

    # -- called by the pool -----------------------------------------------------------------------

    def is_closing(self) -> bool:
        """Returns whether the connection is being closed."""
        return self._is_closing

    def write(self, data: Any) -> None:
        """Takes a request, which must be complete."""
        self._buffer += bytes(data)
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        assert end, "a request is written in pieces"
        self._buffer = b""
        self.network.received(self, head.decode("latin-1"), body)

    def abort(self) -> None:
        """Closes the connection at once."""
        if not self._is_closing:
            self.network.aborted(self)
            self._end(None)

    def close(self) -> None:
        """Closes the connection."""
        self.abort()

    # -- what the server does ---------------------------------------------------------------------

    def deliver(self, data: bytes) -> None:
        """Passes bytes to the pool, unless it has closed the connection."""
        if not self._is_closing:
            self.protocol.data_received(data)

    def hang_up(self, error: Exception | None = None) -> None:
        """Ends the connection from the server's side."""
        if self._is_closing:
            return
        self.is_usable = False
        if error is None:
            assert self.protocol.eof_received() is False
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        self._is_closing = True
        asyncio.get_running_loop().call_soon(self._lose, error)

    def _lose(self, error: Exception | None) -> None:
        self.is_lost = True
        self.network.on_lost()
        self.protocol.connection_lost(error)


class Network:
    """All connections, and the servers behind them.

    Args:
        rng: Draws the answers.
        on_open: Called with a host before a connection is opened.
        on_request: Called with the link and the text of a request; returns its number.
        on_abort: Called before the pool closes a connection.
        on_lost: Called when a connection has ended, or could not be opened.
        on_answer: Called before the last piece of an answer is delivered.
        bad_hosts: They refuse connections.
    """

    def __init__(
        self,
        rng: random.Random,
        *,
        on_open: Callable[[str], None],
        on_request: Callable[[Link, str, bytes], int],
        on_abort: Callable[[Link], None],
        on_lost: Callable[[], None],
        on_answer: Callable[[], None],
        bad_hosts: frozenset[str] = frozenset(),
    ) -> None:
        self._rng = rng
        self._on_open, self._on_request, self._on_abort = on_open, on_request, on_abort
        self.on_lost, self._on_answer = on_lost, on_answer
        self._bad_hosts = bad_hosts
        self.links: list[Link] = []
        self.opening = 0
        self.scripts: dict[int, Script] = {}
        #: Requests whose answer was delivered to its end.
        self.delivered: set[int] = set()
        #: Further lines in the heads of answers.
        self.headers = ""
        #: Called before an idle connection is disturbed.
        self.on_disturb: Callable[[], None] = lambda: None
        #: How many connections were refused, and how many took too long.
        self.failures: dict[asyncio.Task[Any] | None, str] = {}
        self._kinds, self._weights = list(KINDS), list(KINDS.values())

    def now_s(self) -> float:
        """Returns the time of the loop."""
        return asyncio.get_running_loop().time()

    async def connect(
        self, factory: Callable[[], Any], host: str, port: int, **more: Any
    ) -> tuple[Link, Any]:
        """Opens a connection, or fails, as ``create_connection`` of the loop.

        Raises:
            OSError: the server refuses it.
        """
        self._on_open(host)
        task = asyncio.current_task()
        self.opening += 1
        try:
            if host in self._bad_hosts:
                self.failures[task] = "refused"
                raise ConnectionRefusedError(111, "refused")
            wait_s = self._rng.choice((0.0, 0.0, 0.01, 0.3, 0.3, 12.0))
            if wait_s > 10.0:
                self.failures[task] = "slow"
            await asyncio.sleep(wait_s)
            if self._rng.random() < 0.05:
                self.failures[task] = "refused"
                raise ConnectionRefusedError(111, "refused")
        except BaseException:
            self.on_lost()
            raise
        finally:
            self.opening -= 1
        link = Link(self, len(self.links), host)
        self.links.append(link)
        link.protocol = factory()
        link.protocol.connection_made(link)
        return link, link.protocol

    def open_links(self) -> list[Link]:
        """Returns the connections of which the pool does not know an end."""
        return [link for link in self.links if not link.is_lost]

    def received(self, link: Link, head: str, body: bytes) -> None:
        """Takes a request and begins its answer."""
        number = self._on_request(link, head, body)
        rng = self._rng
        kind = rng.choices(self._kinds, self._weights)[0]
        status = 204 if kind == "empty" else rng.choice((200, 201, 404, 409, 500))
        length = 0 if kind == "empty" else rng.choice((1, 30, 30, 30, 400, 5000))
        text = f"answer {number} ".encode()
        content = b"" if kind == "empty" else (text * (length // len(text) + 1))[: max(length, 12)]
        delay_s, pause_s = rng.choice(DELAYS_S), rng.choice((0.0, 0.0, 0.05))
        script = Script(kind, status, content, delay_s, pause_s, self.headers)
        self.scripts[number] = script
        link.request = number
        if script.delay_s < NEVER_S:
            asyncio.get_running_loop().call_later(script.delay_s, self._answer, link, script)

    def aborted(self, link: Link) -> None:
        """Notes that the pool closes a connection."""
        self._on_abort(link)

    def _answer(self, link: Link, script: Script) -> None:
        text, rng = script.text(), self._rng
        if script.kind == "reset":
            link.hang_up(ConnectionResetError(104, "reset"))
            return
        cuts = sorted(rng.randrange(1, len(text)) for _ in range(rng.choice((0, 0, 1, 3))))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True) if a < b]
        self._deliver(link, script, pieces)

    def _deliver(self, link: Link, script: Script, pieces: list[bytes]) -> None:
        """Delivers the first piece, and later the others: a loop may run timers in any order."""
        piece, *rest = pieces
        if rest:
            link.deliver(piece)
            asyncio.get_running_loop().call_later(script.pause_s, self._deliver, link, script, rest)
            return
        self._on_answer()
        if script.kind in FINAL_KINDS:
            link.is_usable = False
        link.idle_since_s = self.now_s()
        if script.kind not in BROKEN and not link.is_closing() and link.caller is not None:
            self.delivered.add(link.caller)
        if script.kind not in BROKEN and script.kind != "unframed":
            link.request = None
        link.deliver(piece + _UNASKED if script.kind == "more" else piece)
        later = asyncio.get_running_loop().call_later
        if script.kind in ("unframed", "cut", "closing", "old"):
            later(self._rng.choice((0.0, 0.1)), link.hang_up)
        elif script.kind == "torn":
            later(self._rng.choice((0.0, 0.1)), link.hang_up, ConnectionResetError(104, "torn"))
        elif self._rng.random() < 0.08:
            later(self._rng.choice((0.001, 1.0, 40.0)), self._disturb, link)

    def _disturb(self, link: Link) -> None:
        """Ends an idle connection, or sends an answer that belongs to no request."""
        if link.request is not None or link.is_closing():
            return
        link.is_usable = False
        self.on_disturb()
        if self._rng.random() < 0.5:
            link.hang_up()
        else:
            link.deliver(_UNASKED)
