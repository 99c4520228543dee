"""The scheduling queue: where a pod is from its creation to its last attempt.

::

               add             pop               reserve, permit, bind
    (unknown) ------> active ------> in flight ---------------------> (done)
        |               ^  ^             | park: no node takes it, or an error
        | a gate        |  |             v
        v               |  |  event   unschedulable     event, still backing off
      gated ------------+  +------------ | -----------------------> backoff
             event, gate opens           |                             |
                           ^             +-- 5 minutes: flushed        |
                           +-------------------------------------------+
                                  backoff over, or nothing else to do

It never waits: ``pop`` returns None when there is nothing to do, and ``on_ready`` is called when
there is something again. Time is read from the clock that was passed in; whoever drives the queue
calls ``flush`` when ``next_flush_s`` says so.

Source: pkg/scheduler/backend/queue/scheduling_queue.go. *Differs:* pods are known by UID, so one
that was made anew under its name never meets what is left of the old one; parked pods are found by
the plugins that refused them, not by walking all of them for every event.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from mooring.clock import Clock
from mooring.cluster_event import FORCE_ACTIVATE, UNSCHEDULABLE_TIMEOUT, ClusterEvent, EventResource
from mooring.framework import Framework
from mooring.queue.event_diff import pod_changes
from mooring.queue.in_flight import InFlight
from mooring.queue.in_flight_attempt import Flight
from mooring.queue.queued_pod import Place, QueuedPod
from mooring.queue.queueing_hints import Hints, Strategy
from mooring.queue.queues import OnMove, Places, QueueOptions
from mooring.state.tables.pods import PodInfo

POD_ADDED: Final = "UnschedulablePodAdd"
POD_UPDATED: Final = "UnschedulablePodUpdate"
POD_DELETED: Final = "UnschedulablePodDelete"
ATTEMPT_FAILED: Final = "ScheduleAttemptFailure"
BACKOFF_COMPLETE: Final = "BackoffComplete"
POPPED: Final = "Pop"


class SchedulingQueue:
    """Every pod that is to be scheduled, in exactly one place.

    Args:
        profiles: SchedulerName -> Framework; only pods of these may be added.
        clock: For timestamps; monotonic seconds.
        options: Backoff and flushing.
        on_ready: Called when ``pop`` may have something.
        on_move: Told of every move.
    """

    def __init__(
        self,
        profiles: Mapping[str, Framework],
        *,
        clock: Clock,
        options: QueueOptions | None = None,
        on_ready: Callable[[], None] | None = None,
        on_move: OnMove | None = None,
    ) -> None:
        self._options = options or QueueOptions()
        self._clock = clock
        self._hints = Hints(profiles)
        self._places = Places(
            profiles, self._hints, self._options, clock, on_ready=on_ready, on_move=on_move
        )
        #: The pods in the queues, by UID; those in flight are not among them.
        self._pods = self._places.pods
        self._in_flight = InFlight()
        self._next_leftover_s = clock.monotonic_s() + self._options.leftover_tick_s

    # -- what is where ----------------------------------------------------------------------------

    def place_of(self, uid: str) -> Place:
        """Where the pod with this UID is."""
        if uid in self._in_flight:
            return Place.IN_FLIGHT
        entry = self._pods.get(uid)
        return entry.place if entry is not None else Place.NONE

    def get(self, uid: str) -> QueuedPod | None:
        """Returns the pod with this UID, if it is in one of the queues (in flight it is not)."""
        return self._pods.get(uid)

    def pods(self) -> list[QueuedPod]:
        """Returns the pods in the queues, without those in flight."""
        return list(self._pods.values())

    def counts(self) -> dict[Place, int]:
        """How many pods are in each place. Complexity: O(1)."""
        return self._places.counts() | {Place.IN_FLIGHT: len(self._in_flight)}

    @property
    def moves(self) -> Counter[tuple[Place, str]]:
        """(place, what moved a pod there) -> how often; numbers only grow."""
        return self._places.moves

    def resources(self) -> frozenset[EventResource]:
        """What some plugin wants to hear of."""
        return self._hints.resources()

    @property
    def in_flight_events(self) -> int:
        """How many events are remembered for pods in flight; 0 when there are none."""
        return self._in_flight.event_count

    # -- pods come, change and go -----------------------------------------------------------------

    def add(self, pod: PodInfo) -> None:
        """A pod is to be scheduled; one that is known already is updated."""
        known = self._pods.get(pod.uid)
        if known is not None:
            self.update(known.pod, pod)
        elif pod.uid not in self._in_flight:
            self._add(pod, POD_ADDED)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """A pod that is to be scheduled has a newer version.

        With another UID it is another pod: the old one is gone, the new one is added.
        """
        if new.uid != old.uid:
            self.delete(old.uid)
            self.add(new)
            return
        if new.uid in self._in_flight:
            # It comes back in its newest version; what changed may be what it was refused for.
            for event in pod_changes(old, new):
                self._in_flight.record(event, old.pod, new.pod)
            return
        entry = self._pods.get(new.uid)
        if entry is None:
            self._add(new, POD_UPDATED)
            return
        entry.pod = new
        self._places.renew(entry)
        if entry.place.is_parked:
            self._try_parked(entry, old, new)

    def delete(self, uid: str) -> None:
        """The pod is deleted, or bound. In flight it stays until its attempt is over."""
        entry = self._pods.get(uid)
        if entry is not None:
            self._places.remove(entry, POD_DELETED)

    def _add(self, pod: PodInfo, why: str) -> None:
        self._places.to_active(QueuedPod(pod, self._clock.monotonic_s()), why)

    def _try_parked(self, entry: QueuedPod, old: PodInfo, new: PodInfo) -> None:
        """A parked pod's own update may be what it waited for."""
        for event in pod_changes(old, new):
            strategy = self._hints.strategy(entry, event, old.pod, new.pod)
            if strategy is not Strategy.SKIP and self._places.requeue(entry, strategy, event.label):
                return

    # -- an attempt -------------------------------------------------------------------------------

    def pop(self) -> QueuedPod | None:
        """Takes out the next pod to try; None = there is nothing to do.

        Whoever takes it uses it within ``in_flight``.
        """
        entry = self._places.pop()
        if entry is None:
            return None
        entry.flight = self._in_flight.begin(entry.uid)
        entry.attempts += 1
        self._places.note(entry, Place.IN_FLIGHT, POPPED)
        return entry

    def in_flight(self, entry: QueuedPod) -> Flight:
        """Returns the attempt at a pod that was popped, as a block."""
        return Flight(entry, self._end)

    def done(self, uid: str) -> None:
        """The pod's attempt needs no more events: it is over, or only the binding is left."""
        self._in_flight.done(uid)

    def _end(self, entry: QueuedPod, flight: int) -> None:
        # Not a later attempt at the same pod, whose events would be missed.
        if self._in_flight.is_current(entry.uid, flight):
            self._in_flight.done(entry.uid)

    def park(
        self,
        entry: QueuedPod,
        pod: PodInfo,
        *,
        refused_by: Iterable[str] = (),
        pending_on: Iterable[str] = (),
    ) -> None:
        """The attempt found no node: the pod waits for an event, or for its backoff.

        Without any plugin that refused it the attempt ended with an error. If an event in the
        meantime can help it, it is tried again after its backoff. A pod that is in a queue already,
        or in flight for another attempt, is left there.

        Args:
            entry: As it was popped.
            pod: Its newest version; with another UID it is another pod, and only the attempt ends.
            refused_by: The plugins that refused it.
            pending_on: Those of them whose obstacle goes away by itself.
        """
        entry.unschedulable_plugins = frozenset(refused_by)
        entry.pending_plugins = frozenset(pending_on)
        if entry.rejectors:
            entry.unschedulable_count += 1
            entry.consecutive_errors = 0
        else:
            entry.consecutive_errors += 1
        entry.timestamp_s = self._clock.monotonic_s()
        entry.backoff_expiration_s = None
        entry.was_flushed = False
        entry.place = Place.NONE
        if pod.uid != entry.uid:
            self._end(entry, entry.flight)
            return
        entry.pod = pod
        strategy = self._strategy_after_flight(entry)
        # Before the pod is in a queue: whoever is told of it there may pop it at once.
        self._end(entry, entry.flight)
        if self.place_of(entry.uid) is Place.NONE:
            self._places.requeue(entry, strategy, ATTEMPT_FAILED)

    def _strategy_after_flight(self, entry: QueuedPod) -> Strategy:
        """Returns the best that an event since the pod was popped can do for it."""
        is_in_flight = self._in_flight.is_current(entry.uid, entry.flight)
        if not entry.rejectors or not is_in_flight:
            return Strategy.AFTER_BACKOFF
        best = Strategy.IMMEDIATELY if entry.pending_plugins else Strategy.AFTER_BACKOFF
        found = Strategy.SKIP
        for event, old, new in self._in_flight.events_of(entry.uid):
            found = max(found, self._hints.strategy(entry, event, old, new))
            if found is best:
                break
        return found

    # -- what moves pods --------------------------------------------------------------------------

    def move(
        self,
        event: ClusterEvent,
        old: Any,
        new: Any,
        *,
        only: Callable[[PodInfo], bool] | None = None,
    ) -> None:
        """Something happened in the cluster: pods that it can help are tried again.

        Args:
            event: What happened.
            old: The object before, None if it is new.
            new: The object now, None if it is gone.
            only: Parked pods of which it says no are left where they are.
        """
        if not self._hints.is_of_interest(event):
            return
        label = event.label
        for entry, strategy in self._places.parked.helped_by(event, old, new):
            # One that a plugin has activated meanwhile has left already.
            if entry.place.is_parked and (only is None or only(entry.pod)):
                self._places.requeue(entry, strategy, label)
        self._in_flight.record(event, old, new)

    def activate(self, uids: Iterable[str]) -> None:
        """A plugin wants these pods tried now; unknown ones are passed over."""
        for uid in uids:
            entry = self._pods.get(uid)
            if entry is not None and entry.place is not Place.ACTIVE:
                from_backoff = entry.place is Place.BACKOFF
                self._places.to_active(entry, FORCE_ACTIVATE.label, ask_gates=not from_backoff)
            elif uid in self._in_flight:
                self._in_flight.record(FORCE_ACTIVATE, None, _Only(uid))

    def flush(self) -> None:
        """Moves pods whose backoff is over, and those that have waited for too long."""
        now_s = self._clock.monotonic_s()
        for entry in self._places.backoff.pop_completed(now_s):
            self._places.to_active(entry, BACKOFF_COMPLETE, ask_gates=False)
        if now_s >= self._next_leftover_s:
            self._next_leftover_s = now_s + self._options.leftover_tick_s
            self._flush_leftovers(now_s)

    def next_flush_s(self) -> float:
        """When ``flush`` is next worth calling; monotonic seconds, infinity if never."""
        leftover_s = self._next_leftover_s if len(self._places.parked) else math.inf
        return min(self._places.backoff.next_completion_s(), leftover_s)

    def _flush_leftovers(self, now_s: float) -> None:
        too_old = [
            entry
            for entry in self._places.parked
            if self._places.parked.hears(entry, UNSCHEDULABLE_TIMEOUT)
            and now_s - entry.timestamp_s > self._options.max_unschedulable_s
        ]
        for entry in too_old:
            entry.was_flushed = True
            self._places.requeue(entry, Strategy.AFTER_BACKOFF, UNSCHEDULABLE_TIMEOUT.label)


class _Only:
    """Stands for the one pod that a wildcard event is for."""

    __slots__ = ("uid",)

    def __init__(self, uid: str) -> None:
        self.uid = uid
