"""Writes Events, which ``kubectl describe`` shows, without blocking the caller.

``record`` adds an event to its series and returns. ``run`` writes the series: the first event as an
object of its own, each repetition within six minutes as a count in its ``series``::

    record ──> series ──> WriteQueue (10 000, then events are dropped) ──> create, patch series

Source: client-go's tools/events/event_broadcaster.go and event_recorder.go. *Differs:* a few
writers, shared fairly by namespaces, instead of a goroutine for each event; no series is patched
before it is created; a limit on the number of cached series; a full queue drops the oldest event of
the namespace that has the most.
"""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from mooring.client.rest.client import Client, Patch
from mooring.client.rest.paths import path_of
from mooring.client.retry import TRANSIENT, RetryPolicy, Sleep, requested_wait_s
from mooring.client.write_queue import Retry, WriteQueue
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

#: Series with an event that is not written yet.
QUEUE_MAX: Final = 10_000
SERIES_MAX: Final = 10_000
TRIES_MAX: Final = 12
RETRY_POLICY: Final = RetryPolicy(TRIES_MAX, initial_s=10.0, factor=1.0, jitter=0.25)
FINISH_S: Final = 360.0
SERIES_CHECK_S: Final = 60.0
REFRESH_S: Final = 1800.0

#: Limit of the API server.
NOTE_BYTES_MAX: Final = 1024

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_LENGTH_MAX: Final = 253

_EVENT: Final = kind_named("Event")

_log = logging.getLogger(__name__)

_Key = tuple[Any, ...]


@dataclass
class RecorderStatistics:
    """Counters of events by outcome."""

    recorded: int = 0
    written: int = 0
    dropped: int = 0
    failed: int = 0


class Recorder:
    """Writes events of one component.

    Args:
        client: Writes pass its fence.
        controller: The reporting controller, such as "default-scheduler".
        instance: The reporting instance, such as "default-scheduler-host".
        clock: For timestamps and the end of series.
        rng: For names and jitter.
        sleep: Waits; tests pass one that advances their clock.
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
        self._writes: WriteQueue[_Series] = WriteQueue(
            self._write, sleep=sleep, items_max=QUEUE_MAX
        )
        self._series: dict[_Key, _Series] = {}
        self._refreshed_at_s = clock.monotonic_s()
        self._finished_at_s = clock.monotonic_s()
        self._statistics = RecorderStatistics()

    def __len__(self) -> int:
        """Returns the number of series that are queued, being written or waiting for a retry."""
        return len(self._writes)

    def statistics(self) -> RecorderStatistics:
        """Returns the counters of events by outcome."""
        self._statistics.dropped = self._writes.dropped
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
        """Records an event about an object; never blocks, and never fails.

        Args:
            regarding: The object of the event.
            type: "Normal" or "Warning".
            reason: The reason in CamelCase: "FailedScheduling".
            action: The action taken or tried, in CamelCase: "Scheduling".
            note: The message for users; truncated to 1024 bytes.
            related: A second object of the event.
        """
        assert type in ("Normal", "Warning"), type
        self._statistics.recorded += 1
        reference = _reference(regarding)
        event = Event(
            metadata=ObjectMeta(
                name=self._name(reference.name), namespace=reference.namespace or "default"
            ),
            event_time=rfc3339_micro(self._clock.wall_s()),
            reporting_controller=self._controller,
            reporting_instance=self._instance,
            action=action,
            reason=reason,
            regarding=reference,
            related=_reference(related) if related is not None else None,
            note=_cut(note),
            type=type,
        )
        self._add_to_series(event, self._clock.monotonic_s())

    async def run(self) -> None:
        """Writes events until cancelled; events that are queued then are lost."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._writes.run())
            while True:
                self._update_series()
                await asyncio.sleep(SERIES_CHECK_S)

    async def write_waiting(self) -> None:
        """Writes the queued events one by one, and the series that are due."""
        await self._writes.write_all()
        self._update_series()
        await self._writes.write_all()

    def _update_series(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._refreshed_at_s >= REFRESH_S:
            self._refreshed_at_s = now_s
            self._refresh()
        if now_s - self._finished_at_s >= FINISH_S:
            self._finished_at_s = now_s
            self._finish(now_s)

    def _add_to_series(self, event: Event, happened_at_s: float) -> None:
        key = _key(event)
        series = self._series.get(key)
        if series is None:
            if len(self._series) >= SERIES_MAX:
                # The oldest series ends early: its next event starts a new one.
                del self._series[next(iter(self._series))]
            series = self._series[key] = _Series(event, happened_at_s)
            self._enqueue(series)
            return
        before = series.event.series
        counted = EventSeries(
            count=(before.count if before is not None else 1) + 1,
            last_observed_time=event.event_time,
        )
        series.event = msgspec.structs.replace(series.event, series=counted)
        series.last_at_s = happened_at_s
        # Only the second event is written at once; later ones are counted, and written at the end.
        if before is None:
            self._enqueue(series)

    def _enqueue(self, series: _Series) -> None:
        metadata = series.event.metadata
        self._writes.put(metadata.name, metadata.namespace, series)

    def _refresh(self) -> None:
        """Writes active series again, before the API server expires them (one hour)."""
        for series in self._series.values():
            if series.event.series is not None:
                self._enqueue(series)

    def _finish(self, now_s: float) -> None:
        """Ends series without recent events: writes their last count."""
        for key, series in list(self._series.items()):
            is_busy = series.event.metadata.name in self._writes
            if is_busy or now_s - series.last_at_s <= FINISH_S:
                continue
            del self._series[key]
            if series.event.series is not None:
                self._enqueue(series)

    async def _write(self, series: _Series, tries: int) -> Retry | None:
        """Writes the current state of a series once; drops it after the last try."""
        event = series.event
        if not series.is_created:
            event = msgspec.structs.replace(event, series=None)
        try:
            is_written = await self._try(event)
        except LeaseLost as error:
            # The new leader reports what happens from now on; stopping is not the recorder's task.
            _log.info("event not written: lease lost", extra={"error": str(error)})
            is_written = False
        except (*TRANSIENT, _AlreadyCreated) as error:
            _log.info("event not written yet", extra={"error": str(error)})
            if tries < TRIES_MAX:
                wait_s = RETRY_POLICY.wait_s(tries, error, self._rng)
                return Retry(wait_s, is_requested=requested_wait_s(error) > 0)
            _log.warning("event dropped", extra={"reason": event.reason})
            is_written = False
        if not is_written:
            self._statistics.failed += 1
            return None
        self._statistics.written += 1
        was_created, series.is_created = series.is_created, True
        return Retry(0.0) if not was_created and series.event.series is not None else None

    async def _try(self, event: Event) -> bool:
        """Writes an event once; returns False if the server refuses it for good.

        Raises:
            _AlreadyCreated: an earlier try created it; patch it.
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
                _log.warning("event refused", extra={"error": str(error)})
                return False
        try:
            path = path_of(_EVENT, metadata.namespace)
            await self._client.write("POST", path, encode(event))
        except AlreadyExists as error:
            if event.series is not None:
                raise _AlreadyCreated(str(error)) from error
            # An earlier try, whose response was lost, created it.
            return True
        except (ServerError, TooManyRequests):
            raise
        except NotFound as error:
            # Its namespace has been deleted, and with it the object that it is about.
            _log.info("event not written: namespace deleted", extra={"error": str(error)})
            return False
        except ApiError as error:
            _log.warning("event refused", extra={"error": str(error)})
            return False
        return True

    def _name(self, regarding: str) -> str:
        """Returns a unique name: the object's name and 64 random bits."""
        name = f"{regarding}.{self._rng.getrandbits(64):016x}"
        if len(name) > _NAME_LENGTH_MAX or not _NAME.fullmatch(name):
            return f"event.{self._rng.getrandbits(128):032x}"
        return name


class _AlreadyCreated(SchedulerError):
    """An earlier try created the event: a retry patches it."""


@dataclass
class _Series:
    """Repeated events that are written as one.

    Attributes:
        event: The event to write.
        last_at_s: The time of the last event, on the monotonic clock.
        is_created: Whether its first event was written.
    """

    event: Event
    last_at_s: float
    is_created: bool = False


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
    """Returns the key of an event's series; note and time are not part of it."""
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
    """Truncates a note to 1024 bytes, without splitting a character."""
    return note.encode()[:NOTE_BYTES_MAX].decode("utf-8", "ignore")
