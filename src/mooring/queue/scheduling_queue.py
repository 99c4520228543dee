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
calls ``flush`` when ``next_flush_at_s`` says so.

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
from mooring.queue.in_flight_attempt import InFlightAttempt
from mooring.queue.queued_pod import QueuedPod, QueueName
from mooring.queue.queueing_hints import QueueingHints, RequeueStrategy
from mooring.queue.queues import OnMove, PodQueues, QueueOptions
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
        self._hints = QueueingHints(profiles)
        self._queues = PodQueues(
            profiles, self._hints, self._options, clock, on_ready=on_ready, on_move=on_move
        )
        #: The pods in the queues, by UID; those in flight are not among them.
        self._pods = self._queues.pods
        self._in_flight = InFlight()
        self._next_unschedulable_flush_s = (
            clock.monotonic_s() + self._options.unschedulable_flush_interval_s
        )

    # -- what is where ----------------------------------------------------------------------------

    def queue_of(self, uid: str) -> QueueName:
        """Where the pod with this UID is."""
        if uid in self._in_flight:
            return QueueName.IN_FLIGHT
        entry = self._pods.get(uid)
        return entry.queue_name if entry is not None else QueueName.NONE

    def get(self, uid: str) -> QueuedPod | None:
        """Returns the pod with this UID, if it is in one of the queues (in flight it is not)."""
        return self._pods.get(uid)

    def pods(self) -> list[QueuedPod]:
        """Returns the pods in the queues, without those in flight."""
        return list(self._pods.values())

    def counts(self) -> dict[QueueName, int]:
        """How many pods are in each place. Complexity: O(1)."""
        return self._queues.counts() | {QueueName.IN_FLIGHT: len(self._in_flight)}

    @property
    def moves(self) -> Counter[tuple[QueueName, str]]:
        """(place, what moved a pod there) -> how often; numbers only grow."""
        return self._queues.moves

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
        self._queues.update(entry)
        if entry.queue_name.waits_for_event:
            self._requeue_on_update(entry, old, new)

    def delete(self, uid: str) -> None:
        """The pod is deleted, or bound. In flight it stays until its attempt is over."""
        entry = self._pods.get(uid)
        if entry is not None:
            self._queues.remove(entry, POD_DELETED)

    def _add(self, pod: PodInfo, why: str) -> None:
        self._queues.to_active(QueuedPod(pod, self._clock.monotonic_s()), why)

    def _requeue_on_update(self, entry: QueuedPod, old: PodInfo, new: PodInfo) -> None:
        """A parked pod's own update may be what it waited for."""
        for event in pod_changes(old, new):
            strategy = self._hints.strategy(entry, event, old.pod, new.pod)
            if strategy is not RequeueStrategy.SKIP and self._queues.requeue(
                entry, strategy, event.label
            ):
                return

    # -- an attempt -------------------------------------------------------------------------------

    def pop(self) -> QueuedPod | None:
        """Takes out the next pod to try; None = there is nothing to do.

        Whoever takes it uses it within ``in_flight``.
        """
        entry = self._queues.pop()
        if entry is None:
            return None
        entry.attempt_number = self._in_flight.begin(entry.uid)
        entry.attempts += 1
        self._queues.note(entry, QueueName.IN_FLIGHT, POPPED)
        return entry

    def in_flight(self, entry: QueuedPod) -> InFlightAttempt:
        """Returns the attempt at a pod that was popped, as a block."""
        return InFlightAttempt(entry, self._end)

    def done(self, uid: str) -> None:
        """The pod's attempt needs no more events: it is over, or only the binding is left."""
        self._in_flight.done(uid)

    def _end(self, entry: QueuedPod, attempt_number: int) -> None:
        # Not a later attempt at the same pod, whose events would be missed.
        if self._in_flight.is_current(entry.uid, attempt_number):
            self._in_flight.done(entry.uid)

    def add_unschedulable(
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
        entry.queue_name = QueueName.NONE
        if pod.uid != entry.uid:
            self._end(entry, entry.attempt_number)
            return
        entry.pod = pod
        strategy = self._strategy_after_flight(entry)
        # Before the pod is in a queue: whoever is told of it there may pop it at once.
        self._end(entry, entry.attempt_number)
        if self.queue_of(entry.uid) is QueueName.NONE:
            self._queues.requeue(entry, strategy, ATTEMPT_FAILED)

    def _strategy_after_flight(self, entry: QueuedPod) -> RequeueStrategy:
        """Returns the best that an event since the pod was popped can do for it."""
        is_in_flight = self._in_flight.is_current(entry.uid, entry.attempt_number)
        if not entry.rejectors or not is_in_flight:
            return RequeueStrategy.AFTER_BACKOFF
        best = (
            RequeueStrategy.IMMEDIATELY if entry.pending_plugins else RequeueStrategy.AFTER_BACKOFF
        )
        found = RequeueStrategy.SKIP
        for event, old, new in self._in_flight.events_since(entry.uid):
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
        if not self._hints.has_listeners(event):
            return
        label = event.label
        for entry, strategy in self._queues.unschedulable_pods.pods_to_requeue(event, old, new):
            # One that a plugin has activated meanwhile has left already.
            if entry.queue_name.waits_for_event and (only is None or only(entry.pod)):
                self._queues.requeue(entry, strategy, label)
        self._in_flight.record(event, old, new)

    def activate(self, uids: Iterable[str]) -> None:
        """A plugin wants these pods tried now; unknown ones are passed over."""
        for uid in uids:
            entry = self._pods.get(uid)
            if entry is not None and entry.queue_name is not QueueName.ACTIVE:
                from_backoff = entry.queue_name is QueueName.BACKOFF
                self._queues.to_active(entry, FORCE_ACTIVATE.label, ask_gates=not from_backoff)
            elif uid in self._in_flight:
                self._in_flight.record(FORCE_ACTIVATE, None, _Only(uid))

    def flush(self) -> None:
        """Moves pods whose backoff is over, and those that have waited for too long."""
        now_s = self._clock.monotonic_s()
        for entry in self._queues.backoff.pop_completed(now_s):
            self._queues.to_active(entry, BACKOFF_COMPLETE, ask_gates=False)
        if now_s >= self._next_unschedulable_flush_s:
            self._next_unschedulable_flush_s = now_s + self._options.unschedulable_flush_interval_s
            self._flush_unschedulable_leftover(now_s)

    def next_flush_at_s(self) -> float:
        """When ``flush`` is next worth calling; monotonic seconds, infinity if never."""
        leftover_s = (
            self._next_unschedulable_flush_s if len(self._queues.unschedulable_pods) else math.inf
        )
        return min(self._queues.backoff.next_completion_s(), leftover_s)

    def _flush_unschedulable_leftover(self, now_s: float) -> None:
        too_old = [
            entry
            for entry in self._queues.unschedulable_pods
            if self._queues.unschedulable_pods.accepts_event(entry, UNSCHEDULABLE_TIMEOUT)
            and now_s - entry.timestamp_s > self._options.max_unschedulable_s
        ]
        for entry in too_old:
            entry.was_flushed = True
            self._queues.requeue(entry, RequeueStrategy.AFTER_BACKOFF, UNSCHEDULABLE_TIMEOUT.label)


class _Only:
    """Stands for the one pod that a wildcard event is for."""

    __slots__ = ("uid",)

    def __init__(self, uid: str) -> None:
        self.uid = uid
