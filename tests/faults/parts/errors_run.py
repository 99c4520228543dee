"""Every class of error of every kind of write, against a table of what follows.

The parts that write are real: the evictor, the writer of statuses, and the recorder of events.
Their client raises one error after another. The table says whether a write is sent again, given up,
or means that the object is gone, and whether a lost lease ends the writer; tries have a limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from mooring.client.event_recorder import Recorder
from mooring.clock import seeded_random
from mooring.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    LeaseLost,
    NotFound,
    OutcomeUnknown,
    SchedulerError,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from mooring.objects.pod import Pod
from mooring.scheduler.evictor import Evictor
from mooring.scheduler.status_writer import StatusUpdate, StatusWriter
from mooring.testing import make_pod
from mooring.virtual_loop import LoopClock, VirtualLoop
from tests.faults.parts.virtual_runs import check_run

TRIALS: Final = 30
#: So many evictions have a deletion that is refused with a conflict.
CONFLICT_SHARE: Final = 0.3
ERRORS: Final[Mapping[str, SchedulerError]] = {
    "unreachable": Unreachable("refused"),
    "no answer": OutcomeUnknown("no response"),
    "500": ServerError("broken", status=500),
    "429": TooManyRequests("busy", status=429, retry_after_s=2.0),
    "403": Forbidden("no", status=403),
    "404": NotFound("no such object", status=404),
    "409": Conflict("changed", status=409),
    "exists": AlreadyExists("exists", status=409),
    "422": Invalid("no", status=422),
    "other uid": Invalid("no", status=422, causes=("metadata.uid: Invalid value",)),
    "lease": LeaseLost("another holds it"),
}
TRANSIENT: Final = ("unreachable", "no answer", "500", "429")
RETRY, GONE, FAIL, LOST, READ, DONE, CREATE = (
    "retry",
    "gone",
    "fail",
    "lost",
    "read",
    "done",
    "create",
)

#: Kind of write -> error -> what follows; after transient errors each is retried.
TABLE: Final[Mapping[str, Mapping[str, str]]] = {
    "condition": {
        "403": FAIL, "404": GONE, "409": RETRY, "exists": RETRY, "422": FAIL, "other uid": GONE,
        "lease": LOST,
    },
    "deletion": {
        "403": FAIL, "404": GONE, "409": READ, "exists": READ, "422": FAIL, "other uid": FAIL,
        "lease": LOST,
    },
    "status": {
        "403": RETRY, "404": GONE, "409": READ, "exists": READ, "422": READ, "other uid": GONE,
        "lease": LOST,
    },
    "event": {
        "403": FAIL, "404": FAIL, "409": FAIL, "exists": DONE, "422": FAIL, "other uid": FAIL,
        "lease": FAIL,
    },
    "series": {
        "403": FAIL, "404": CREATE, "409": FAIL, "exists": FAIL, "422": FAIL, "other uid": FAIL,
        "lease": FAIL,
    },
}  # fmt: skip
#: Kind of write -> the most tries; None = no limit.
TRIES_MAX: Final[Mapping[str, int]] = {"condition": 4, "deletion": 4, "event": 12, "series": 12}


class Server:
    """The client of the writers: it raises what the run has planned.

    Attributes:
        planned: The errors of the next writes; "" or no more = it is stored.
        sent: The kinds of the writes that were sent.
        live: The pod that a read returns; None = there is none.
    """

    def __init__(self) -> None:
        self.planned: list[str] = []
        self.sent: list[str] = []
        self.live: Pod | None = None
        self.patch_kind = "status"

    def _send(self, kind: str) -> None:
        self.sent.append(kind)
        name = self.planned.pop(0) if self.planned else ""
        if name:
            raise ERRORS[name]

    async def patch_pod_status(self, pod: Pod, status: Any, *, tries: int = 1) -> Pod:
        """Patches the status of a pod."""
        del status, tries
        self._send(self.patch_kind)
        return pod

    def status_wait_s(self, _: Pod) -> float:
        """Returns 0: the waits before retries are not part of the run."""
        return 0.0

    async def delete(self, *_: Any, **__: Any) -> None:
        """Deletes a victim."""
        self._send("deletion")

    async def write(self, *_: Any) -> None:
        """Creates an event."""
        self._send("event")

    async def patch(self, *_: Any, **__: Any) -> None:
        """Patches the series of an event."""
        self._send("series")

    async def get(self, *_: Any) -> Pod:
        """Reads a pod."""
        if self.live is None:
            raise ERRORS["404"]
        return self.live


class ErrorsRun:
    """One run.

    Attributes:
        problems: Differences to the table.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng, self._more = seeded_random(seed), seeded_random(seed + 1_000_000)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self._clock = LoopClock(loop)
        self._pod = make_pod("web", node="a")

    async def run(self) -> None:
        """Makes all trials, until one differs."""
        for _ in range(TRIALS):
            trial: Callable[[], Awaitable[None]] = getattr(
                self, self._rng.choice(("_evict", "_clear", "_status", "_event"))
            )
            await trial()
            if self.problems:
                return

    def _plan(self, server: Server) -> list[str]:
        """Plans some errors, mostly transient ones, also after a write that is stored."""
        rng = self._rng
        names = [name for name in ERRORS if name not in TRANSIENT]
        count = rng.choice((0, 1, 1, 2, 3, 5, 14))
        stored_share = rng.choice((0.0, 0.3))
        planned = [
            "" if rng.random() < stored_share else rng.choice(choice)
            for choice in rng.choices((TRANSIENT, names), (0.6, 0.4), k=count)
        ]
        if rng.random() < 0.3:
            # It is created only now by an earlier request.
            planned += ["", "404", "exists"]
        server.planned = list(planned)
        server.live = rng.choice((None, self._pod, make_pod("web"), _other(self._pod)))
        return planned

    def _compare(self, what: str, planned: list[str], real: Any, expected: Any) -> None:
        if real != expected:
            self.problems.append(f"{what} with the errors {planned}: {real}, not {expected}")

    # -- the evictor ------------------------------------------------------------------------------

    def _evictor(self, server: Any) -> Evictor:
        return Evictor(server, clock=self._clock, rng=self._rng, sleep=asyncio.sleep)

    async def _evict(self) -> None:
        server = Server()
        server.patch_kind = "condition"
        planned = self._plan(server)
        if self._more.random() < CONFLICT_SHARE:
            # A deletion that is refused, at once or after failures: it is read why.
            before = self._more.choices(TRANSIENT, k=self._more.randrange(3))
            server.planned = ["", *before, self._more.choice(("409", "exists"))]
            planned = list(server.planned)
        real = await _result(self._evictor(server).evict(self._pod, "preempted"))
        model = Model(planned)
        outcome = model.write("condition")
        if outcome == DONE:
            outcome = model.write("deletion")
            if outcome.startswith(READ):
                # Only another pod of the name, or none, means that it is gone.
                is_same = server.live is not None and server.live.metadata.uid == _uid(self._pod)
                outcome = outcome.replace(READ, FAIL) if is_same else GONE
        expected = {DONE: "True", GONE: "False"}.get(outcome, outcome)
        self._compare("an eviction", planned, (real, server.sent), (expected, model.sent))

    async def _clear(self) -> None:
        server = Server()
        server.patch_kind = "condition"
        planned = self._plan(server)
        real = await _result(self._evictor(server).clear_nomination(self._pod))
        model = Model(planned)
        outcome = model.write("condition")
        expected = {DONE: "None", GONE: "None"}.get(outcome, outcome)
        self._compare("a clearing", planned, (real, server.sent), (expected, model.sent))

    # -- statuses ---------------------------------------------------------------------------------

    async def _status(self) -> None:
        server = Server()
        planned, client = self._plan(server), _any(server)
        writer = StatusWriter(client, clock=self._clock, rng=self._rng)
        writer.enqueue(StatusUpdate(make_pod("web"), "Unschedulable", "no node fits", None))
        real = await _result(writer._writes.write_all())
        model, outcome = Model(planned), RETRY
        while outcome == RETRY:
            outcome = model.write("status")
            if outcome.startswith(READ):
                live = server.live
                is_pending = live is not None and _uid(live) == _uid(self._pod)
                is_pending = is_pending and live is not None and not live.spec.node_name
                outcome = RETRY if is_pending else GONE
        expected = outcome if outcome.startswith(LOST) else "None"
        self._compare("a status", planned, (real, server.sent), (expected, model.sent))
        failed = writer.statistics.failed
        self._compare("failed statuses", planned, failed, int(outcome == GONE))

    # -- events -----------------------------------------------------------------------------------

    async def _event(self) -> None:
        """Writes an event, and its repetition."""
        server = Server()
        planned, client = self._plan(server), _any(server)
        recorder = Recorder(client, controller="c", instance="i", clock=self._clock, rng=self._rng)
        model = Model(planned)
        for _ in range(2):
            recorder.record(self._pod, type="Normal", reason="R", action="A", note="n")
            await recorder._writes.write_all()
            self._follow_event(model)
        statistics = recorder.statistics()
        real = server.sent, statistics.written, statistics.failed
        self._compare("events", planned, real, (model.sent, model.written, model.failed))

    def _follow_event(self, model: Model) -> None:
        """Follows the write of one event, which is created first, whatever its count."""
        has_series, was_created = model.count == 1, model.is_created
        model.count += 1
        if not model.write_event(is_series=has_series and was_created):
            return
        if has_series and not was_created:
            model.write_event(is_series=True)


class Model:
    """Follows what a writer sends, by the table.

    Attributes:
        sent: The kinds of the writes.
    """

    def __init__(self, planned: list[str]) -> None:
        self.sent: list[str] = []
        self.written = self.failed = self.count = 0
        self.is_created = False
        self._planned = list(planned)

    def next(self, kind: str) -> tuple[str, str]:
        """Sends a write; returns what follows, and the error."""
        self.sent.append(kind)
        name = self._planned.pop(0) if self._planned else ""
        if not name:
            return DONE, ""
        return (RETRY if name in TRANSIENT else TABLE[kind][name]), name

    def write(self, kind: str) -> str:
        """Sends a write until it is over; returns the outcome, with the error that is raised."""
        tries = 0
        while True:
            tries += 1
            outcome, name = self.next(kind)
            if outcome != RETRY:
                return f"{outcome} {name}" if outcome in (FAIL, LOST, READ) else outcome
            if tries == TRIES_MAX.get(kind):
                return f"{FAIL} {name}"

    def write_event(self, *, is_series: bool) -> bool:
        """Writes an event until it is over; returns whether it was written."""
        tries = 0
        while True:
            tries += 1
            outcome, name = self.next("series" if is_series else "event")
            if outcome == CREATE:
                outcome, name = self.next("event")
                # Created by an earlier try: it is patched then.
                outcome = RETRY if name == "exists" else outcome
            if outcome == RETRY and tries < TRIES_MAX["event"]:
                continue
            is_written = outcome == DONE
            self.written += is_written
            self.failed += not is_written
            self.is_created = self.is_created or is_written
            return is_written


async def _result(work: Awaitable[Any]) -> str:
    """Returns the result as text, or the error by its name in the table."""
    try:
        return str(await work)
    except SchedulerError as error:
        names = [name for name, it in ERRORS.items() if it is error]
        name = names[0] if names else repr(error)
        return f"{LOST if isinstance(error, LeaseLost) else FAIL} {name}"


def _other(pod: Pod) -> Pod:
    """Returns another pod of the name."""
    return replace(pod, metadata=replace(pod.metadata, uid="another"))


def _uid(pod: Pod) -> str:
    return pod.metadata.uid


def _any(server: Any) -> Any:
    return server


def run_errors(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: what follows an error is not what the table says.
    """
    check_run(ErrorsRun, seed)
