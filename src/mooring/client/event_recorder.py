"""Events: what ``kubectl describe`` shows at its end, written without ever holding anybody up.

``record`` puts an event into a bounded queue and returns. ``run`` writes them: the first of a kind
as an object of its own, every further one within six minutes as a count in its ``series``::

    record ──> queue (10 000, then the oldest are dropped) ──> 8 writers ──> create, patch series

Source: client-go's tools/events/event_broadcaster.go and event_recorder.go. *Differs:* a few
writers instead of a goroutine for each event, of which one at a time has a series, so that none is
patched before it is created; a limit on the number of series that are remembered; a full queue
drops its oldest event.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from mooring.client.rest.client import Client, Patch
from mooring.client.rest.paths import path_of
from mooring.client.retry import TRANSIENT, RetryPolicy, Sleep, retry
from mooring.clock import Clock, Rng, rfc3339_micro
from mooring.errors import (
    AlreadyExists,
    ApiError,
    LeaseLost,
    NotFound,
    SchedulerError,
    ServerError,
    TooManyRequests,
)
from mooring.objects.codec.decode import encode
from mooring.objects.kinds import KINDS_BY_STRUCT, kind_named
from mooring.objects.meta import Event, EventSeries, KubernetesObject, ObjectMeta, ObjectReference

#: Upstream holds 1000 and writes any number at a time; we hold more and write a few at a time.
QUEUE_MAX: Final = 10_000
WRITERS: Final = 8
SERIES_MAX: Final = 10_000
TRIES_MAX: Final = 12
RETRY_POLICY: Final = RetryPolicy(TRIES_MAX, initial_s=10.0, factor=1.0, jitter=0.25)
FINISH_S: Final = 360.0
LOOK_S: Final = 60.0
REFRESH_S: Final = 1800.0

#: The API server refuses more.
NOTE_BYTES_MAX: Final = 1024

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_LENGTH_MAX: Final = 253

_EVENT: Final = kind_named("Event")

_log = logging.getLogger(__name__)

_Key = tuple[Any, ...]


@dataclass
class RecorderStatistics:
    """What became of the events; numbers only grow."""

    recorded: int = 0
    written: int = 0
    dropped: int = 0
    failed: int = 0


class Recorder:
    """Writes events of one component.

    Args:
        client: Writes pass its fence.
        controller: Who reports, such as "default-scheduler".
        instance: Which one of them, such as "default-scheduler-host".
        clock: For timestamps and for the ends of series.
        rng: For names and jitter.
        sleep: Waits; tests give one that moves their clock.
    """

    def __init__(
        self,
        client: Client,
        *,
        controller: str,
        instance: str,
        clock: Clock,
        rng: Rng,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._client = client
        self._controller = controller
        self._instance = instance
        self._clock = clock
        self._rng = rng
        self._sleep = sleep
        self._queue: deque[tuple[Event, float]] = deque()
        self._is_waiting = asyncio.Event()
        self._busy = 0
        self._series: dict[_Key, _Series] = {}
        self._refreshed_at_s = clock.monotonic_s()
        self._finished_at_s = clock.monotonic_s()
        self._statistics = RecorderStatistics()

    def __len__(self) -> int:
        """How many events wait to be written, or are being written."""
        return len(self._queue) + self._busy

    def statistics(self) -> RecorderStatistics:
        """Counts of what became of the events."""
        return self._statistics

    def record(
        self,
        regarding: KubernetesObject,
        *,
        type: str,  # noqa: A002 - the field's word
        reason: str,
        action: str,
        note: str,
        related: KubernetesObject | None = None,
    ) -> None:
        """Says that something happened to an object; never waits, and never fails.

        Args:
            regarding: What it happened to.
            type: "Normal" or "Warning".
            reason: Why, as one word: "FailedScheduling".
            action: What was done or tried, as one word: "Scheduling".
            note: For people; cut at 1024 bytes.
            related: A second object.
        """
        assert type in ("Normal", "Warning"), type
        self._statistics.recorded += 1
        if len(self._queue) >= QUEUE_MAX:
            self._statistics.dropped += 1
            self._queue.popleft()
        about = _reference(regarding)
        event = Event(
            metadata=ObjectMeta(
                name=self._name(about.name), namespace=about.namespace or "default"
            ),
            event_time=rfc3339_micro(self._clock.wall_s()),
            reporting_controller=self._controller,
            reporting_instance=self._instance,
            action=action,
            reason=reason,
            regarding=about,
            related=_reference(related) if related is not None else None,
            note=_cut(note),
            type=type,
        )
        self._queue.append((event, self._clock.monotonic_s()))
        self._is_waiting.set()

    async def run(self) -> None:
        """Writes events until cancelled; those that wait then are lost."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WRITERS):
                tasks.create_task(self._write_on())
            while True:
                await self._look_after_series()
                await asyncio.sleep(LOOK_S)

    async def write_waiting(self) -> None:
        """Writes all that is in the queue now, one by one, and what is due of the series."""
        while self._queue:
            await self._take(*self._queue.popleft())
        await self._look_after_series()

    async def _write_on(self) -> None:
        while True:
            while self._queue:
                await self._take(*self._queue.popleft())
            self._is_waiting.clear()
            await self._is_waiting.wait()

    async def _look_after_series(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._refreshed_at_s >= REFRESH_S:
            self._refreshed_at_s = now_s
            await self._refresh()
        if now_s - self._finished_at_s >= FINISH_S:
            self._finished_at_s = now_s
            await self._finish(now_s)

    async def _take(self, event: Event, happened_at_s: float) -> None:
        key = _key(event)
        known = self._series.get(key)
        if known is None:
            if len(self._series) >= SERIES_MAX:
                # The oldest one ends early: its next event begins a new one.
                del self._series[next(iter(self._series))]
            known = self._series[key] = _Series(event, happened_at_s)
            await self._write(known)
            return
        before = known.event.series
        series = EventSeries(
            count=(before.count if before is not None else 1) + 1,
            last_observed_time=event.event_time,
        )
        known.event = msgspec.structs.replace(known.event, series=series)
        known.last_at_s = happened_at_s
        # Only the second event is news; the later ones are counted, and written at the end.
        if before is None:
            await self._write(known)

    async def _refresh(self) -> None:
        """Writes running series again, before the API server forgets them (an hour)."""
        for known in list(self._series.values()):
            if known.event.series is not None:
                await self._write(known)

    async def _finish(self, now_s: float) -> None:
        """Ends series without news: their last count is written."""
        for key, known in list(self._series.items()):
            if known.is_busy or now_s - known.last_at_s <= FINISH_S:
                continue
            del self._series[key]
            if known.event.series is not None:
                await self._write(known)

    async def _write(self, known: _Series) -> None:
        """Writes what there is of a series; whoever writes it already does that afterwards."""
        known.is_stale = True
        if known.is_busy:
            return
        known.is_busy = True
        self._busy += 1
        try:
            while known.is_stale:
                known.is_stale = False
                await self._write_one(known.event)
        finally:
            self._busy -= 1
            known.is_busy = False

    async def _write_one(self, event: Event) -> None:
        """Writes an event, with retries; drops it after the last one."""
        try:
            is_written = await retry(
                lambda: self._try(event),
                RETRY_POLICY,
                sleep=self._sleep,
                rng=self._rng,
                should_retry=_should_retry,
            )
        except LeaseLost as error:
            # The new leader reports what happens from now on; stopping is not the recorder's task.
            _log.info("event not written: lease lost", extra={"error": str(error)})
        except (*TRANSIENT, _AlreadyCreated):
            pass
        else:
            if is_written:
                self._statistics.written += 1
            else:
                self._statistics.failed += 1
            return
        self._statistics.failed += 1
        _log.warning("event dropped", extra={"reason": event.reason})

    async def _try(self, event: Event) -> bool:
        """Writes it once; False if the server will never have it.

        Raises:
            _AlreadyCreated: it was created by an earlier try meanwhile; patch it.
        """
        metadata = event.metadata
        if event.series is not None:
            patch = {"series": msgspec.to_builtins(event.series)}
            try:
                await self._client.patch(
                    "Event",
                    metadata.name,
                    patch,
                    namespace=metadata.namespace,
                    how=Patch.STRATEGIC,
                    field_manager="",
                )
                return True
            except NotFound:
                pass
            except (ServerError, TooManyRequests):
                raise
            except ApiError as error:
                _log.warning("an event was refused", extra={"error": str(error)})
                return False
        try:
            path = path_of(_EVENT, metadata.namespace)
            await self._client.write("POST", path, encode(event))
        except AlreadyExists as error:
            if event.series is not None:
                raise _AlreadyCreated(str(error)) from error
            # A try whose answer was lost had done it.
            return True
        except (ServerError, TooManyRequests):
            raise
        except ApiError as error:
            _log.warning("an event was refused", extra={"error": str(error)})
            return False
        return True

    def _name(self, regarding: str) -> str:
        """Returns a name that no other event has: the object's and 64 random bits."""
        name = f"{regarding}.{self._rng.getrandbits(64):016x}"
        if len(name) > _NAME_LENGTH_MAX or not _NAME.fullmatch(name):
            return f"event.{self._rng.getrandbits(128):032x}"
        return name


class _AlreadyCreated(SchedulerError):
    """An earlier try has created the event: retry, which patches it."""


def _should_retry(error: SchedulerError) -> bool:
    _log.info("event not written yet", extra={"error": str(error)})
    return isinstance(error, (*TRANSIENT, _AlreadyCreated))


@dataclass
class _Series:
    """Events that are one to the reader.

    Attributes:
        event: As it is to be written.
        last_at_s: When the last of them happened, on the monotonic clock.
        is_busy: Somebody is writing it.
        is_stale: It is not written as it is now.
    """

    event: Event
    last_at_s: float
    is_busy: bool = False
    is_stale: bool = False


def _reference(obj: KubernetesObject) -> ObjectReference:
    kind = KINDS_BY_STRUCT[type(obj)]
    metadata = obj.metadata
    return ObjectReference(
        kind=kind.name,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        api_version=kind.api_version,
        resource_version=metadata.resource_version,
    )


def _key(event: Event) -> _Key:
    """Events with equal keys are one series; the note and the time may differ."""
    return (
        event.type,
        event.action,
        event.reason,
        event.reporting_controller,
        event.reporting_instance,
        event.regarding,
        event.related,
    )


def _cut(note: str) -> str:
    """At most 1024 bytes, and no half of a character."""
    return note.encode()[:NOTE_BYTES_MAX].decode("utf-8", "ignore")
