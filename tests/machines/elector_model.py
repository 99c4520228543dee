"""The behaviour of upstream's LeaderElector, request by request, for comparison.

A try is a generator: it yields each request that it makes, and is sent the answer. So the same
model can be compared with an elector whose requests all succeed, and with one in a fault seed
(``tests/faults/twins/attached_elector.py``).

Source: client-go tools/leaderelection/leaderelection.go (tryAcquireOrRenew, release).
*Differs:* a candidate that has observed another holder creates a deleted lease only when the
observed one would have expired, and after a request that failed the lease is read before it is
written, as ``mooring.client.leader_election`` says.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Record(NamedTuple):
    """The content of the lease; ``renewed_at_s`` is a time of the holder's clock."""

    holder: str
    duration_s: float
    transitions: int
    renewed_at_s: float


class Answer(Enum):
    """The answer to a request that returns no record."""

    MISSING = "missing"
    CONFLICT = "conflict"
    #: No answer, or any other refusal: the write may have been stored.
    FAILED = "failed"


class Ask(NamedTuple):
    """A request: "read", "create" or "replace", the record that it writes, and the one before."""

    verb: str
    record: Record | None = None
    before: Record | None = None


Try = Generator[Ask, Record | Answer, bool]


@dataclass
class ModelServer:
    """One lease; None = it does not exist."""

    record: Record | None = None

    def answer(self, request: Ask) -> Record | Answer:
        """Handles a request."""
        if request.verb == "replace" and self.record is None:
            return Answer.MISSING
        if request.verb != "read":
            if self.record != request.before:
                return Answer.CONFLICT
            self.record = request.record
        return self.record or Answer.MISSING


@dataclass
class ModelElector:
    """A candidate: what it has observed of the lease, and when.

    Attributes:
        now_s: Returns the time of its clock.
        is_doubtful: The last request failed: the lease is read before the next write.
    """

    identity: str
    duration_s: float
    now_s: Callable[[], float]
    observed: Record = field(default_factory=lambda: Record("", 0.0, 0, 0.0))
    observed_at_s: float = -1e9
    is_doubtful: bool = True

    @property
    def leads(self) -> bool:
        """True if the lease, as last observed, is its own."""
        return self.observed.holder == self.identity

    def expires_s(self) -> float:
        """Returns when another candidate's lease expires, as last observed."""
        return self.observed_at_s + self.observed.duration_s

    def tries(self) -> Try:
        """Acquires or renews the lease if it may; returns whether it holds it."""
        started_at_s = self.now_s()
        if self.leads and not self.is_doubtful:
            written = yield self._replace(self.observed.transitions)
            if isinstance(written, Record):
                return self._observe(written)
            if written is Answer.FAILED:
                return self._failed()
        stored = yield Ask("read")
        if stored is Answer.FAILED or stored is Answer.CONFLICT:
            return self._failed()
        if isinstance(stored, Record):
            self._observe(stored)
        is_held = self.observed.holder not in ("", self.identity)
        if is_held and started_at_s < self.expires_s():
            return False
        if isinstance(stored, Record):
            transitions = stored.transitions + (not self.leads)
            written = yield self._replace(transitions)
        else:
            written = yield Ask("create", self._own(0))
        return self._observe(written) if isinstance(written, Record) else self._failed()

    def releases(self) -> Try:
        """Gives the lease up; returns whether it was its own."""
        stored = yield Ask("read")
        if not isinstance(stored, Record):
            return False
        self._observe(stored)
        if not self.leads:
            return False
        released = Record("", 1.0, stored.transitions, self.now_s())
        written = yield Ask("replace", released, before=self.observed)
        if isinstance(written, Record):
            self._observe(written)
        return isinstance(written, Record)

    def _replace(self, transitions: int) -> Ask:
        return Ask("replace", self._own(transitions), before=self.observed)

    def _own(self, transitions: int) -> Record:
        return Record(self.identity, self.duration_s, transitions, self.now_s())

    def _observe(self, record: Record) -> bool:
        """Remembers an answer; one that is the same as before renews nothing."""
        if record != self.observed:
            self.observed, self.observed_at_s = record, self.now_s()
        self.is_doubtful = not self.leads
        return True

    def _failed(self) -> bool:
        self.is_doubtful = True
        return False


def run_on(server: ModelServer, attempt: Try) -> bool:
    """Runs a try whose requests all arrive; returns its result."""
    answer: Record | Answer | None = None
    try:
        while True:
            request = next(attempt) if answer is None else attempt.send(answer)
            answer = server.answer(request)
    except StopIteration as end:
        return bool(end.value)
