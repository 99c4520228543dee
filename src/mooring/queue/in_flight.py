"""In-flight pods, and the cluster events received during their attempts.

During an attempt the pod is in no queue, so an event cannot requeue it. So events are recorded
while any pod is in flight, and a pod that is added to the unschedulable pods is checked against the
events since it was popped.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, NamedTuple

from mooring.cluster_event import UNSCHEDULABLE_TIMEOUT, ClusterEvent
from mooring.errors import InvariantViolation

#: Pods may wait in Permit for minutes, and an event keeps its objects alive (about 4 KB). An
#: attempt that lasts longer than so many events is retried once more than needed.
MAX_EVENTS: Final = 10_000


#: The label of pods in flight in metrics: kube-scheduler records a pop as an event.
POD_POPPED: Final = "PodPopped"


class RecordedEvent(NamedTuple):
    """An event, with the object before and after it (None where there was none)."""

    event: ClusterEvent
    old: Any
    new: Any


#: Stands for events that were dropped: one of them might have made the pod schedulable.
EVENTS_DROPPED: Final = RecordedEvent(UNSCHEDULABLE_TIMEOUT, None, None)


class Attempt(NamedTuple):
    """The number of an attempt, and of the first event after it began."""

    number: int
    first_event: int


class InFlight:
    """Pods in flight by UID, and the events since the first of them was popped.

    Args:
        max_events: Events to keep.

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
        """Number of recorded events; 0 when no pod is in flight."""
        return len(self._events)

    def counts(self) -> Counter[str]:
        """Returns event label -> recorded events, and ``POD_POPPED`` -> pods in flight."""
        counts = Counter(recorded.event.label for recorded in self._events)
        counts[POD_POPPED] = len(self._attempts)
        return counts

    def begin(self, uid: str) -> int:
        """Begins an attempt at a popped pod. Returns the number of the attempt, from 1.

        Raises:
            InvariantViolation: if it is in flight already.
        """
        if uid in self._attempts:
            raise InvariantViolation(f"pod {uid} was popped twice")
        self._last_number += 1
        self._attempts[uid] = Attempt(self._last_number, self._first + len(self._events))
        return self._last_number

    def is_current(self, uid: str, number: int) -> bool:
        """Returns whether this attempt is in flight, not a later one or none."""
        attempt = self._attempts.get(uid)
        return attempt is not None and attempt.number == number

    def record(self, event: ClusterEvent, old: Any, new: Any) -> None:
        """Records an event, if any pod is in flight."""
        if not self._attempts:
            return
        self._events.append(RecordedEvent(event, old, new))
        if len(self._events) > self._max_events:
            self._trim(len(self._events) // 2)

    def events_since(self, uid: str) -> list[RecordedEvent]:
        """Returns the events since the pod was popped. Complexity: O(those events)."""
        since = self._attempts[uid].first_event
        if since < self._first:
            return [EVENTS_DROPPED, *self._events]
        return self._events[since - self._first :]

    def done(self, uid: str) -> None:
        """Ends a pod's attempt, and drops the events that no other attempt needs."""
        self._attempts.pop(uid, None)
        if not self._attempts:
            if self._events:
                self._trim(len(self._events))
            return
        needed_from = next(iter(self._attempts.values())).first_event
        if needed_from > self._first:
            self._trim(needed_from - self._first)

    def _trim(self, count: int) -> None:
        del self._events[:count]
        self._first += count
