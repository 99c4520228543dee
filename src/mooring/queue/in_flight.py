"""What happened in the cluster while pods were being tried.

An event that comes in the middle of an attempt finds the pod in no queue. So events are written
down as long as any pod is in flight, and whoever is parked is held against those that happened
since it was taken out.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from mooring.cluster_event import UNSCHEDULABLE_TIMEOUT, ClusterEvent
from mooring.errors import InvariantViolation

#: Pods may wait for a permit for minutes, and an event keeps its objects alive (about 4 KB). An
#: attempt that outlives so many of them is tried once more than needed; that costs less.
MAX_EVENTS: Final = 10_000


class RecordedEvent(NamedTuple):
    """An event, with the object before and after it (None where there was none)."""

    event: ClusterEvent
    old: Any
    new: Any


#: Stands for events that were forgotten: one of them may have helped.
EVENTS_DROPPED: Final = RecordedEvent(UNSCHEDULABLE_TIMEOUT, None, None)


class Attempt(NamedTuple):
    """Which attempt of all it is, and the number of the first event after it began."""

    number: int
    first_event: int


class InFlight:
    """Pods in flight by UID, and the events since the first of them was taken out.

    Args:
        max_events: How many events are kept.

    Source: pkg/scheduler/backend/queue/active_queue.go. *Differs:* numbers instead of a linked
    list of pods and events; the list has a limit; an attempt can only end itself.
    """

    __slots__ = ("_attempts", "_events", "_first", "_last_number", "_max_events")

    def __init__(self, *, max_events: int = MAX_EVENTS) -> None:
        self._events: list[RecordedEvent] = []
        #: The number of the first event in ``_events``; the n-th event ever has number n.
        self._first = 0
        #: By UID, in the order in which they began: ``first_event`` never falls.
        self._attempts: dict[str, Attempt] = {}
        self._last_number = 0
        self._max_events = max_events

    def __len__(self) -> int:
        return len(self._attempts)

    def __contains__(self, uid: str) -> bool:
        return uid in self._attempts

    @property
    def event_count(self) -> int:
        """How many events are remembered; 0 when no pod is in flight."""
        return len(self._events)

    def begin(self, uid: str) -> int:
        """A pod was taken out of the queue; the number of this attempt, from 1.

        Raises:
            InvariantViolation: if it is in flight already.
        """
        if uid in self._attempts:
            raise InvariantViolation(f"pod {uid} is taken from the queue twice")
        self._last_number += 1
        self._attempts[uid] = Attempt(self._last_number, self._first + len(self._events))
        return self._last_number

    def is_current(self, uid: str, number: int) -> bool:
        """Whether this very attempt at the pod is in flight, and not a later one or none."""
        attempt = self._attempts.get(uid)
        return attempt is not None and attempt.number == number

    def record(self, event: ClusterEvent, old: Any, new: Any) -> None:
        """Something happened; forgotten at once if no pod is in flight."""
        if not self._attempts:
            return
        self._events.append(RecordedEvent(event, old, new))
        if len(self._events) > self._max_events:
            self._trim(len(self._events) // 2)

    def events_since(self, uid: str) -> list[RecordedEvent]:
        """What happened since the pod was taken out. Complexity: O(those events)."""
        since = self._attempts[uid].first_event
        if since < self._first:
            return [EVENTS_DROPPED, *self._events]
        return self._events[since - self._first :]

    def done(self, uid: str) -> None:
        """The pod's attempt is over; events that no other pod needs are forgotten."""
        self._attempts.pop(uid, None)
        if not self._attempts:
            self._trim(len(self._events))
            return
        needed_from = next(iter(self._attempts.values())).first_event
        if needed_from > self._first:
            self._trim(needed_from - self._first)

    def _trim(self, count: int) -> None:
        del self._events[:count]
        self._first += count
