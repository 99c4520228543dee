"""A network between client and API server that loses, delays and repeats messages.

::

    client ──> FaultyTransport ──> InProcessTransport ──> ApiServer
                      │
                FaultyNetwork: the rates of a run, and outages of the whole server

It injects only faults that occur between a real client and a real API server: a response is lost
after the server has handled the request, a request arrives after its client timed out, a watch
breaks in the middle of a line. No event is invented, and none is lost for good.

Every fault is drawn from the run's generator, so a seed reproduces all of them.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from typing import Final, NamedTuple

from mooring.client.transport.transport import Request, Transport
from mooring.clock import Rng
from mooring.errors import Unreachable
from tests.faults.harness.request_checker import RequestChecker, name_in_body

#: F7 of the fault list: range of the delay of a response.
DELAY_S_MIN: Final = 0.001
DELAY_S_MAX: Final = 120.0
#: F5: maximum Retry-After.
RETRY_AFTER_S_MAX: Final = 120.0
#: Maximum number of lines of a watch that may be repeated.
REPEATABLE: Final = 30
#: The statuses with which the bindings of a broken pod are refused.
BROKEN_CODES: Final = (500, 403, 409, 422)


@dataclass(frozen=True, slots=True)
class Faults:
    """The rate of each fault: per request, per connection, or per chunk of a watch.

    Attributes:
        unreachable: Requests that never reach the server.
        too_many: 429 with a Retry-After of 1 to 120 s (F5).
        server_error: 500, 502, 503 or 504; a write may have been applied (F6).
        conflict: 409 to a binding, applied or not (F4).
        lost: Responses that are lost after the server handled the request (F8).
        slow: Requests or responses that take 1 ms to 120 s; requests arrive even after the client
            timed out (F7, F8).
        expired: 410, at the start or in the middle of a watch (F3).
        cut: Chunks of a watch after whose first bytes the connection is lost (F2).
        silent: Chunks of a watch after which the connection is half open (F7).
        lag: Chunks of a watch that are delayed (F13: kinds are reordered against each other).
        repeated: Chunks of a watch before which older lines are repeated (F13).
        restarts: Restarts of the server per minute (F1).
        refused_status: 409 or 422 to a patch of a pod's status, which is not applied (F4).
        broken_pods: Share of pods whose bindings are refused until ``repair``: 500, 403, 409 or
            422 (F4, F6).
    """

    unreachable: float = 0.0
    too_many: float = 0.0
    server_error: float = 0.0
    conflict: float = 0.0
    lost: float = 0.0
    slow: float = 0.0
    expired: float = 0.0
    cut: float = 0.0
    silent: float = 0.0
    lag: float = 0.0
    repeated: float = 0.0
    restarts: float = 0.0
    refused_status: float = 0.0
    broken_pods: float = 0.0

    @classmethod
    def drawn(cls, rng: Rng) -> Faults:
        """Returns the faults of one run of a swarm: about half of them, each at its own rate."""
        rates = {}
        for field in fields(cls):
            most = _RATE_MAX.get(field.name, 0.4)
            is_on, rate = rng.random() < 0.5, most * 10 ** -(2 * rng.random())
            rates[field.name] = rate if is_on else 0.0
        return cls(**rates)

    def times(self, factor: float) -> Faults:
        """Returns the rates multiplied by a factor; shares stay at 0.9 at most."""
        rates = {}
        for field in fields(self):
            rate = getattr(self, field.name) * factor
            # That of restarts is no share.
            rates[field.name] = rate if field.name == "restarts" else min(rate, 0.9)
        return Faults(**rates)


#: Maximum rates, 0.4 for others. Faults of single watch events are rare, or none would arrive.
_RATE_MAX: Final = {"silent": 0.03, "expired": 0.2, "cut": 0.3, "restarts": 2.0, "too_many": 0.3}


class Refusal(NamedTuple):
    """The writes that are refused for ever, and the status of the response."""

    pattern: re.Pattern[str]
    code: int


class Fired(NamedTuple):
    """A fault that occurred: virtual time, name, and the request or watch."""

    at_s: float
    name: str
    what: str


class FaultyNetwork:
    """The state that all connections of a run share.

    Args:
        rng: Draws every fault.
        on_fault: Called for each fault.

    Attributes:
        faults: The rates; may be changed at any time.
        fired: Fault -> number of occurrences.
        healed_at_s: Virtual time when the consequences of the last fault are over.
        requests: Checks all requests that are sent.
        delayed: The paths of delayed requests: a later request may have overtaken them.
        page_size: The server has no streaming lists, and lists have pages of so many objects; 0 =
            it streams lists.
    """

    def __init__(self, rng: Rng, on_fault: Callable[[Fired], None] = lambda _: None) -> None:
        self.rng = rng
        self.faults = Faults()
        self.fired: Counter[str] = Counter()
        self.healed_at_s = 0.0
        self.requests = RequestChecker()
        self.delayed: set[str] = set()
        self.page_size = 0
        self.restarts = 0
        self._on_fault = on_fault
        self._tasks: asyncio.TaskGroup | None = None
        self._plans: list[tuple[str, str]] = []
        self._up_at_s = 0.0
        self._in_transit: Counter[str] = Counter()
        #: The timeouts that end open streams, in the order of opening.
        self._streams: dict[asyncio.Timeout, bool] = {}
        self._recent: dict[str, deque[bytes]] = {}
        #: Path of a binding -> the status with which it is refused until ``repair``; 0 = it is not.
        self._broken: dict[str, int] = {}
        self._refusals: list[Refusal] = []

    def open(self, tasks: asyncio.TaskGroup) -> None:
        """Sets the task group for requests that arrive after their client timed out."""
        self._tasks = tasks

    def plan(self, name: str, what: str, times: int = 1) -> None:
        """Injects a fault into the next requests whose "METHOD path" contains ``what``."""
        self._plans += [(name, what)] * times

    def restart(self, down_s: float) -> None:
        """Breaks every connection, and refuses new ones for ``down_s``."""
        self.fire("restarts", "server", lasts_s=down_s)
        self.restarts += 1
        self._up_at_s = now_s() + down_s
        self._break(lambda _: True)

    def heal(self) -> None:
        """Stops all faults, and breaks half-open connections."""
        self.faults = Faults()
        self._break(lambda is_silent: is_silent)

    def refuse(self, pattern: str, code: int) -> None:
        """Refuses all writes that match, until ``repair``.

        Args:
            pattern: A regular expression for "METHOD path name", where the name is that of the
                object in the body; "" if the body has none.
            code: The status of the response: 403, 409 or 422.
        """
        self._refusals.append(Refusal(re.compile(pattern), code))

    def accept(self, pattern: str) -> None:
        """Ends the refusal of this pattern."""
        self._refusals = [other for other in self._refusals if other.pattern.pattern != pattern]

    def refusal_of(self, request: Request) -> int:
        """Returns the status with which a write is refused; 0 if it is not."""
        if not self._refusals or request.method == "GET":
            return 0
        what = f"{request.method} {request.path} {name_in_body(request)}"
        for refusal in self._refusals:
            if refusal.pattern.search(what):
                self.fire("refused_write", what)
                return refusal.code
        return 0

    def repair(self) -> None:
        """Accepts the bindings of broken pods, and all refused writes, from now on."""
        self._broken = dict.fromkeys(self._broken, 0)
        self._refusals = []

    def broken_code(self, path: str) -> int:
        """Returns the status with which the binding at this path is refused; 0 if it is not.

        This is drawn at the first binding of a pod; the fault outlasts ``heal``.
        """
        if path not in self._broken:
            is_broken = self.faults.broken_pods and self.rng.random() < self.faults.broken_pods
            code = self.rng.choice(BROKEN_CODES) if is_broken else 0
            self._broken[path] = code
            if code:
                self.fire("broken_pods", path)
                self.fired[f"broken_pods {code}"] += 1
        return self._broken[path]

    # -- for the transport ------------------------------------------------------------------------

    def fire(self, name: str, what: str, *, lasts_s: float = 0.0) -> None:
        """Records a fault whose consequences last ``lasts_s``."""
        self.fired[name] += 1
        self.healed_at_s = max(self.healed_at_s, now_s() + lasts_s)
        self._on_fault(Fired(now_s(), name, what))

    def draws(self, name: str, what: str) -> bool:
        """Returns whether this fault occurs now, drawn or planned."""
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
        """Returns a delay from a log-uniform distribution."""
        least = math.log(DELAY_S_MIN)
        return math.exp(least + self.rng.random() * (math.log(longest_s) - least))

    def check_up(self, what: str) -> None:
        """Checks that the server is up.

        Raises:
            Unreachable: it is down.
        """
        if now_s() < self._up_at_s:
            raise Unreachable(f"{what}: connection refused")

    def retry_after_s(self, request: Request) -> int:
        """Returns seconds for a Retry-After; an earlier request for the same object is reported."""
        seconds = max(1, round(self.delay_s(RETRY_AFTER_S_MAX)))
        self.healed_at_s = max(self.healed_at_s, now_s() + seconds)
        self.requests.note_retry_after(request, seconds)
        return seconds

    def deliver_late(self, inner: Transport, request: Request, delay_s: float) -> None:
        """Delivers a request after its client timed out."""
        assert self._tasks is not None, "call open() first"
        self.healed_at_s = max(self.healed_at_s, now_s() + delay_s)
        self._in_transit[request.path] += 1
        self._tasks.create_task(self._arrive(inner, request, delay_s, self.restarts))

    async def _arrive(
        self, inner: Transport, request: Request, delay_s: float, restarts: int
    ) -> None:
        await asyncio.sleep(delay_s)
        self._in_transit[request.path] -= 1
        # A restart drops the requests in transit.
        if restarts == self.restarts:
            await inner.request(request)

    @property
    def late_count(self) -> int:
        """The number of requests in transit."""
        return self._in_transit.total()

    def is_in_transit(self, path: str) -> bool:
        """Returns whether a request to this path is in transit."""
        return self._in_transit[path] > 0

    def recent_lines(self, path: str) -> deque[bytes]:
        """Returns the latest lines of watches on this path."""
        return self._recent.setdefault(path, deque(maxlen=REPEATABLE))

    @asynccontextmanager
    async def breakable(self, *, is_silent: bool) -> AsyncIterator[None]:
        """Ends the block with TimeoutError when the connection breaks.

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
                # Data that arrived at the moment of the break is lost, too.
                raise TimeoutError

    def _break(self, selects: Callable[[bool], bool]) -> None:
        for breaks, is_silent in list(self._streams.items()):
            if selects(is_silent) and not breaks.expired():
                breaks.reschedule(now_s())


def now_s() -> float:
    """Returns the time of the loop in seconds."""
    return asyncio.get_running_loop().time()
