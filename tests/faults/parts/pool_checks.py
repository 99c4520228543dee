"""Checks of the connections of a pool, from the side of the servers and the callers."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Sequence
from typing import Any, Final

from tests.faults.parts.pool_network import Link, Network
from tests.helpers.virtual_loop import LimitedLoop

#: The constants of the pool, written down here and not imported.
CONNECT_S_MAX: Final = 10.0
SLOW_S: Final = 2.0
IDLE_S_MAX: Final = 90.0
#: Differences of times that do not count.
EPSILON_S: Final = 1e-3
AGENT: Final = "pool-run/1"


class Caller:
    """One request, from the side of its caller; times are those of the loop."""

    def __init__(self, number: int, due_s: float, bytes_max: int) -> None:
        self.number, self.due_s, self.bytes_max = number, due_s, bytes_max
        self.sent_s: float | None = None
        #: How many addresses were tried.
        self.tries = 0
        self.task = asyncio.current_task()
        self.called_s = asyncio.get_running_loop().time()
        self.is_received = False
        self.is_done = self.is_answered = False
        self.is_connecting = False
        self.link: Link | None = None


class PoolChecks:
    """Follows requests and connections.

    Attributes:
        problems: What does not hold.
    """

    def __init__(self, rng: random.Random, loop: LimitedLoop) -> None:
        self.problems: list[str] = []
        self._rng, self._loop = rng, loop
        self._hosts = rng.choice(((), (), ("10.0.0.1", "10.0.0.2")))
        bad = frozenset(self._hosts[:1]) if rng.random() < 0.7 else frozenset()
        self._network = Network(
            rng,
            on_open=self._check_open,
            on_request=self._check_request,
            on_abort=self._check_abort,
            on_lost=self._note_disturbed,
            on_answer=self._disturb_waiting,
            bad_hosts=bad,
        )
        loop.create_connection = self._network.connect  # type: ignore[assignment,method-assign]
        self._limit = rng.choice((1, 2, 5, 20))
        self._callers: dict[int, Caller] = {}
        self._by_task: dict[asyncio.Task[Any] | None, Caller] = {}
        self._in_flight: dict[int, Caller] = {}
        #: Connections that were closed at the moment at which their answer was complete.
        self._closed_at_once: list[Link] = []
        #: A request that was sent, and one that has waited for longer, unless it ends just now.
        self._passed: list[tuple[Caller, Caller]] = []
        #: When a request may last have been woken for nothing, which changes the order of turns.
        self._last_disturbed_s = -math.inf
        self._is_retired = self._is_closed = False
        #: When a caller refused last: the connection that it did not use is idle since then.
        self._last_refused_s = -math.inf

    # -- connections ------------------------------------------------------------------------------

    async def _look_up(self, host: str, port: int) -> Sequence[str]:
        if (host, port) != ("server.example", 8080):
            self._add(f"{host}:{port} is looked up")
        return self._hosts

    def _disturb_waiting(self) -> None:
        """Does something while an answer is completed."""

    def _check_open(self, host: str) -> None:
        """Checks that a connection may be opened now."""
        caller = self._by_task[asyncio.current_task()]
        is_second = caller.is_connecting
        caller.is_connecting = True
        caller.tries += 1
        expected = self._hosts[1 if is_second else 0] if self._hosts else "server.example"
        if host != expected:
            self._add(f"request {caller.number} connects to {host}, not to {expected}")
        counted = self._counted(SLOW_S)
        # The limit counts when it begins; then other requests may end that were slow.
        if counted >= self._limit and not is_second:
            self._add(f"a connection is opened beside {counted}, the limit is {self._limit}")
        if self._idle() and not is_second:
            self._add("a connection is opened, though one is idle")

    def _check_request(self, link: Link, head: str, body: bytes) -> int:
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ")
        number = int(target.partition("?")[0].removeprefix("/root/r/"))
        caller = self._callers[number]
        expected = f"/root/r/{number}" + ("?a=b+c" if number % 3 else "")
        agent = f"user-agent: {AGENT}"
        odd = "accept: application/json" if number % 2 else "x-odd: 1"
        needed = ["host: server.example:8080", "x-user: zoÃ©", agent, odd]
        if method == "POST":
            needed.append(f"content-length: {len(f'body {number}')}")
        if target != expected or any(lines.count(line) != 1 for line in needed):
            self._add(f"request {number} is sent as {head!r}")
        if body != (f"body {number}".encode() if method == "POST" else b""):
            self._add(f"request {number} is sent with {body!r}")
        if caller.is_received:
            self._add(f"request {number} is sent twice")
        if caller.sent_s != self._loop.time() or caller.is_done:
            self._add(f"request {number} is sent, and its caller does not know it")
        if link.request is not None or not link.is_usable or link.is_closing():
            self._add(f"request {number} is sent on a connection that is in use or at its end")
        if any(idle.idle_since_s > link.idle_since_s for idle in self._idle() if idle is not link):
            self._add(f"request {number} is not sent on the connection that was used last")
        self._check_turn(caller)
        caller.is_received, caller.is_connecting, caller.link = True, False, link
        link.caller = number
        return number

    def _check_turn(self, caller: Caller) -> None:
        """Checks that no request has waited for a connection for longer; both for less than 2 s."""
        now_s = self._loop.time()
        since_s = max(self._last_disturbed_s, now_s - SLOW_S)
        if caller.is_connecting or caller.called_s == now_s:
            return
        for other in self._waiting():
            if since_s < other.called_s < caller.called_s:
                self._passed.append((caller, other))

    def _note_disturbed(self) -> None:
        self._last_disturbed_s = self._loop.time()

    def _waiting(self) -> list[Caller]:
        """Returns the requests that wait for a connection, the oldest first."""
        return [
            it
            for it in self._callers.values()
            if not (it.is_done or it.is_connecting) and it.sent_s is None
        ]

    def _check_abort(self, link: Link) -> None:
        """Checks that the pool may close a connection that is idle."""
        self._note_disturbed()
        now_s = self._loop.time()
        if link.request is not None or not link.is_usable or self._is_retired or self._is_closed:
            return
        idle_s = now_s - link.idle_since_s
        if idle_s >= IDLE_S_MAX - EPSILON_S or len(self._network.open_links()) > self._limit:
            return
        if idle_s > EPSILON_S:
            self._add(f"a connection is closed that was idle for {idle_s:.1f} s")
        else:
            self._closed_at_once.append(link)

    def _counted(self, slow_s: float) -> int:
        """Returns how many connections count for the limit, if requests are slow after a time."""
        before_s = self._loop.time() - slow_s
        slow = sum(
            it.sent_s is not None and it.sent_s <= before_s for it in self._in_flight.values()
        )
        return len(self._network.open_links()) + self._network.opening - slow

    def _idle(self) -> list[Link]:
        """Returns the connections that are idle, and that no caller can be about to use."""
        now_s = self._loop.time()
        return [
            link
            for link in self._network.open_links()
            if link.request is None
            and link.is_usable
            and not link.is_closing()
            and link.idle_since_s < now_s
        ]

    # -- looks ------------------------------------------------------------------------------------

    def look(self) -> None:
        """Checks what must hold when nothing is left to do at a moment."""
        now_s = self._loop.time()
        for link in self._closed_at_once:
            caller = None if link.caller is None else self._callers[link.caller]
            if caller is not None and caller.is_answered and now_s < caller.due_s - EPSILON_S:
                self._add(f"the connection of request {caller.number} is closed after its answer")
        self._closed_at_once.clear()
        for caller, other in self._passed:
            if not other.is_done or other.sent_s is not None:
                self._add(f"request {caller.number} is sent before {other.number}, which waits")
        self._passed.clear()
        links = [link for link in self._network.open_links() if not link.is_closing()]
        waiting = self._waiting()
        idle = [link for link in links if link.request is None and link.is_usable]
        if waiting and idle and not self._is_closed:
            self._add(f"request {waiting[0].number} waits, though a connection is idle")
        if waiting and self._counted(2 * SLOW_S) < self._limit:
            self._add(f"request {waiting[0].number} waits, though connections are few")
        if idle and self._is_retired:
            self._add("a retired pool has an idle connection")
        too_old_s = now_s - IDLE_S_MAX - EPSILON_S
        if any(max(link.idle_since_s, self._last_refused_s) < too_old_s for link in idle):
            self._add("a connection is idle for more than 90 s")
        for link in links:
            if link.request is None and not link.is_usable:
                self._add("a connection at its end is not closed")
            if link.request is not None and self._callers[link.request].is_done:
                self._add(f"the connection of request {link.request}, which has ended, is open")

    def _add(self, problem: str) -> None:
        self.problems.append(f"{self._loop.time():.3f} s: {problem}")
