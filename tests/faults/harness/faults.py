"""A network between client and API server that loses, delays and repeats.

::

    client ──> FaultyTransport ──> InProcessTransport ──> ApiServer
                      │
                FaultyNetwork: the rates of this run, the outage that all suffer together

What it does, a real network with a real API server and proxies can do, and nothing else: an answer
may be lost after the server has done the work, a request may arrive after its sender gave up, a
watch may break in the middle of a line; but no event is invented and none is lost for good.

Every fault is drawn from the run's generator, so a seed repeats all of them.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

from mooring.client.transport.transport import Request, Transport
from mooring.clock import Rng
from mooring.errors import Unreachable

#: F7 of the fault list: an answer takes between these.
DELAY_S_MIN: Final = 0.001
DELAY_S_MAX: Final = 120.0
#: F5: what a server may ask a client to wait.
RETRY_AFTER_S_MAX: Final = 120.0
#: Lines of a watch that may come a second time.
REPEATABLE: Final = 30


_Identity = tuple["asyncio.Task[Any] | None", str, str, bytes]


@dataclass(frozen=True, slots=True)
class Faults:
    """How often what goes wrong: of requests, of connections, or of what comes on a watch.

    Attributes:
        unreachable: Requests that never reach the server.
        too_many: 429 with a Retry-After of 1 to 120 s (F5).
        server_error: 500, 502, 503 or 504; a write may have been done all the same (F6).
        conflict: 409 to a binding, done or not (F4).
        lost: Answers that are lost after the server did the work (F8).
        slow: Requests or answers that take 1 ms to 120 s; what takes longer than its sender waits
            arrives nevertheless (F7, F8).
        gone: 410, when a watch begins or in the middle of it (F3).
        cut: Pieces of a watch after whose first bytes the connection is lost (F2).
        silent: Pieces of a watch after which nothing comes any more, nor an end: half open (F7).
        lag: Pieces of a watch that come late (F13: kinds are reordered against each other).
        repeated: Pieces of a watch before which older lines come once more (F13).
        restarts: Of the server, a minute (F1).
    """

    unreachable: float = 0.0
    too_many: float = 0.0
    server_error: float = 0.0
    conflict: float = 0.0
    lost: float = 0.0
    slow: float = 0.0
    gone: float = 0.0
    cut: float = 0.0
    silent: float = 0.0
    lag: float = 0.0
    repeated: float = 0.0
    restarts: float = 0.0

    @classmethod
    def drawn(cls, rng: Rng) -> Faults:
        """The faults of one run of a swarm: about half of them occur, each at a rate of its own."""
        rates = {}
        for each in fields(cls):
            most = _RATE_MAX.get(each.name, 0.4)
            is_on, rate = rng.random() < 0.5, most * 10 ** -(2 * rng.random())
            rates[each.name] = rate if is_on else 0.0
        return cls(**rates)


#: What happens to every event of a watch must stay rare, or none would ever come through.
_RATE_MAX: Final = {"silent": 0.03, "gone": 0.2, "cut": 0.3, "restarts": 2.0, "too_many": 0.3}

#: Times are sums of floats: a request that comes so much too early comes in time.
TIMER_S: Final = 1e-6


class Fired(NamedTuple):
    """A fault that occurred: when (virtual seconds), which, and to what."""

    at_s: float
    name: str
    what: str


class FaultyNetwork:
    """What all connections of a run share.

    Args:
        rng: Draws every fault.
        on_fault: Told of each.

    Attributes:
        faults: The rates; may be changed at any time.
        fired: Fault -> how often it occurred.
        calm_at_s: When the consequences of the last fault are over: virtual seconds.
        early: Requests that came again before their Retry-After was over.
        delayed: The paths of requests that took long: another one may have overtaken them.
    """

    def __init__(self, rng: Rng, on_fault: Callable[[Fired], None] = lambda _: None) -> None:
        self.rng = rng
        self.faults = Faults()
        self.fired: Counter[str] = Counter()
        self.calm_at_s = 0.0
        self.early: list[str] = []
        self.delayed: set[str] = set()
        self.restarts = 0
        self._on_fault = on_fault
        self._tasks: asyncio.TaskGroup | None = None
        self._plans: list[tuple[str, str]] = []
        self._up_at_s = 0.0
        self._not_before_s: dict[_Identity, float] = {}
        self._on_the_way: Counter[str] = Counter()
        #: What ends the streams that are open; in the order in which they were opened.
        self._streams: dict[asyncio.Timeout, bool] = {}
        self._past: dict[str, deque[bytes]] = {}

    def open(self, tasks: asyncio.TaskGroup) -> None:
        """Carry requests that come late as tasks of this group."""
        self._tasks = tasks

    def plan(self, name: str, what: str, times: int = 1) -> None:
        """Let a fault surely befall the next requests whose "METHOD path" contains ``what``."""
        self._plans += [(name, what)] * times

    def restart(self, down_s: float) -> None:
        """The server goes away: every connection breaks, and none is made for ``down_s``."""
        self.fire("restarts", "server", lasts_s=down_s)
        self.restarts += 1
        self._up_at_s = now_s() + down_s
        self._break(lambda _: True)

    def calm(self) -> None:
        """Nothing goes wrong from now on; connections that are half open break at last."""
        self.faults = Faults()
        self._break(lambda is_silent: is_silent)

    # -- for the transport ------------------------------------------------------------------------

    def fire(self, name: str, what: str, *, lasts_s: float = 0.0) -> None:
        """A fault occurs, and its consequences last so long."""
        self.fired[name] += 1
        self.calm_at_s = max(self.calm_at_s, now_s() + lasts_s)
        self._on_fault(Fired(now_s(), name, what))

    def draws(self, name: str, what: str) -> bool:
        """Whether this fault occurs now."""
        rate = getattr(self.faults, name)
        is_drawn = bool(rate) and self.rng.random() < rate
        if not is_drawn and not self._is_planned(name, what):
            return False
        self.fire(name, what)
        return True

    def _is_planned(self, name: str, what: str) -> bool:
        for plan in self._plans:
            if plan[0] == name and plan[1] in what:
                self._plans.remove(plan)
                return True
        return False

    def delay_s(self, longest_s: float = DELAY_S_MAX) -> float:
        """A delay: short ones are as likely as long ones."""
        least = math.log(DELAY_S_MIN)
        return math.exp(least + self.rng.random() * (math.log(longest_s) - least))

    def check_up(self, what: str) -> None:
        """Say so if nobody is there.

        Raises:
            Unreachable: the server is away.
        """
        if now_s() < self._up_at_s:
            raise Unreachable(f"{what}: connection refused")

    def ask_to_wait(self, request: Request) -> int:
        """Seconds for a Retry-After; whoever asks again before is noted."""
        seconds = max(1, round(self.delay_s(RETRY_AFTER_S_MAX)))
        self.calm_at_s = max(self.calm_at_s, now_s() + seconds)
        self._not_before_s[_identity(request)] = now_s() + seconds
        return seconds

    def note_arrival(self, request: Request) -> None:
        """A request is sent; it had better not be too early."""
        due_s = self._not_before_s.pop(_identity(request), 0.0)
        if now_s() < due_s - TIMER_S:
            told = f"{request.method} {request.path} came {due_s - now_s():.1f} s before it should"
            self.early.append(told)

    def deliver_late(self, inner: Transport, request: Request, delay_s: float) -> None:
        """Let a request arrive whose sender will not wait for it any more."""
        assert self._tasks is not None, "open() comes first"
        self.calm_at_s = max(self.calm_at_s, now_s() + delay_s)
        self._on_the_way[request.path] += 1
        self._tasks.create_task(self._arrive(inner, request, delay_s, self.restarts))

    async def _arrive(
        self, inner: Transport, request: Request, delay_s: float, restarts: int
    ) -> None:
        await asyncio.sleep(delay_s)
        self._on_the_way[request.path] -= 1
        # A server that was restarted meanwhile has never heard of it.
        if restarts == self.restarts:
            await inner.request(request)

    @property
    def late_count(self) -> int:
        """How many requests may still arrive."""
        return self._on_the_way.total()

    def is_on_the_way(self, path: str) -> bool:
        """Whether some request to this path may still arrive."""
        return self._on_the_way[path] > 0

    def past_of(self, path: str) -> deque[bytes]:
        """The latest lines that watches on this path have brought."""
        return self._past.setdefault(path, deque(maxlen=REPEATABLE))

    @asynccontextmanager
    async def breakable(self, *, is_silent: bool) -> AsyncIterator[None]:
        """A wait on a connection, which a restart ends.

        Raises:
            TimeoutError: the connection is broken.
        """
        async with asyncio.timeout(None) as breaks:
            self._streams[breaks] = is_silent
            try:
                yield
            finally:
                del self._streams[breaks]
            if breaks.when() is not None:
                # What came at the very moment of the break is lost too.
                raise TimeoutError

    def _break(self, wanted: Callable[[bool], bool]) -> None:
        for breaks, is_silent in list(self._streams.items()):
            if wanted(is_silent) and not breaks.expired():
                breaks.reschedule(now_s())


def now_s() -> float:
    """The time of the loop: seconds."""
    return asyncio.get_running_loop().time()


def _identity(request: Request) -> _Identity:
    """Two requests with the same are one that is sent again.

    By the same task: another pod's binding, or another attempt, knows nothing of it.
    """
    return asyncio.current_task(), request.method, request.path, request.body
