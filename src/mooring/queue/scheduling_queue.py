"""The scheduling queue: holds every pending pod from its creation to its last attempt.

::

               add             pop               reserve, permit, bind
    (unknown) ------> active ------> in flight ---------------------> (done)
        |               ^  ^             | add_unschedulable: no node fits, or an error
        | a gate        |  |             v
        v               |  |  event   unschedulable     event, still backing off
      gated ------------+  +------------ | -----------------------> backoff
             event, gate opens           |                             |
                           ^             +-- 5 minutes: flushed        |
                           +-------------------------------------------+
                                  backoff over, or nothing else to do

It never waits: ``pop`` returns None when the queue is empty, and ``on_ready`` is called when it is
not any more. Time is read from the clock that was passed in; the owner of the queue calls ``flush``
when ``next_flush_at_s`` says so.

Source: pkg/scheduler/backend/queue/scheduling_queue.go. *Differs:* pods are identified by UID, so a
pod that was deleted and created again is a different one; unschedulable pods are indexed by the
plugins that rejected them, so an event does not visit all of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from mooring.clock import Clock
from mooring.cluster_event import FORCE_ACTIVATE, UNSCHEDULABLE_TIMEOUT, ClusterEvent, EventResource
from mooring.framework import Framework
from mooring.metrics.recorders import NO_SCHEDULER_METRICS, SchedulerRecorder
from mooring.queue.event_diff import pod_changes
from mooring.queue.in_flight import InFlight
from mooring.queue.in_flight_attempt import InFlightAttempt
from mooring.queue.quarantine import Quarantine, is_edited
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
    """All pending pods, each in exactly one queue.

    Args:
        profiles: SchedulerName -> Framework; only pods of these may be added.
        clock: For timestamps; monotonic seconds.
        options: Backoff and flushing.
        on_ready: Called when ``pop`` may have something.
        on_move: Called for every move.
        recorder: Records the calls of queueing hints.
    """

    def __init__(
        self,
        profiles: Mapping[str, Framework],
        *,
        clock: Clock,
        options: QueueOptions | None = None,
        on_ready: Callable[[], None] | None = None,
        on_move: OnMove | None = None,
        recorder: SchedulerRecorder = NO_SCHEDULER_METRICS,
    ) -> None:
        self._options = options or QueueOptions()
        self._clock = clock
        self._hints = QueueingHints(profiles, recorder)
        self._queues = PodQueues(
            profiles, self._hints, self._options, clock, on_ready=on_ready, on_move=on_move
        )
        self._pods = self._queues.pods  # by UID, without those in flight
        self._in_flight = InFlight()
        #: Counts the exceptions of plugins by pod.
        self.quarantine = Quarantine()
        #: Returns the numbers that metrics show.
        self.statistics = partial(self._queues.statistics, self._in_flight)
        self._flush_interval_s = self._options.unschedulable_flush_interval_s
        self._leftover_flush_at_s = clock.monotonic_s() + self._flush_interval_s

    # -- queries ----------------------------------------------------------------------------------

    def queue_of(self, uid: str) -> QueueName:
        """Returns the queue of the pod with this UID."""
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
        """Returns the length of each queue, and the number of pods in flight. Complexity: O(1)."""
        return self._queues.counts() | {QueueName.IN_FLIGHT: len(self._in_flight)}

    @property
    def quarantined_count(self) -> int:
        """Number of quarantined pods, which are in the backoff queue."""
        return self._queues.backoff.quarantined_count

    @property
    def moves(self) -> Counter[tuple[QueueName, str]]:
        """(queue, label of the event that moved a pod there) -> count; counts only grow."""
        return self._queues.moves

    def resources(self) -> frozenset[EventResource | str]:
        """Returns the resources that plugins register for."""
        return self._hints.resources()

    @property
    def in_flight_events(self) -> int:
        """Number of events recorded for pods in flight."""
        return self._in_flight.event_count

    # -- add, update, delete ----------------------------------------------------------------------

    def add(self, pod: PodInfo) -> None:
        """Adds a pending pod; one that is in a queue already is updated."""
        queued = self._pods.get(pod.uid)
        if queued is not None:
            self.update(queued.pod, pod)
        elif pod.uid not in self._in_flight:
            self._add(pod, POD_ADDED)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """Updates a pending pod; with another UID the old one is deleted, and the new one added."""
        if new.uid != old.uid:
            self.delete(old.uid)
            self.add(new)
            return
        if new.uid in self._in_flight:
            # It is requeued in its newest version; the change may remove the reason of a refusal.
            for event in pod_changes(old, new):
                self._in_flight.record(event, old.pod, new.pod)
            return
        if (entry := self._pods.get(new.uid)) is None:
            self._add(new, POD_UPDATED)
            return
        entry.pod = new
        self._queues.update(entry)
        if entry.queue_name.waits_for_event:
            self._requeue_on_update(entry, old, new)
        elif entry.is_quarantined and is_edited(old.pod, new.pod):
            self._queues.release(entry, POD_UPDATED)

    def delete(self, uid: str) -> None:
        """Deletes a pod from its queue. A pod in flight stays until its attempt ends."""
        if (entry := self._pods.get(uid)) is not None:
            self._queues.remove(entry, POD_DELETED)

    def _add(self, pod: PodInfo, why: str) -> None:
        self._queues.move_to_active(QueuedPod(pod, self._clock.monotonic_s()), why)

    def _requeue_on_update(self, entry: QueuedPod, old: PodInfo, new: PodInfo) -> None:
        """Requeues an unschedulable pod if the hints return "queue" for its own update."""
        for event in pod_changes(old, new):
            strategy = self._hints.strategy(entry, event, old.pod, new.pod)
            if strategy is not RequeueStrategy.SKIP and self._queues.requeue(
                entry, strategy, event.label
            ):
                return

    # -- attempts ---------------------------------------------------------------------------------

    def pop(self) -> QueuedPod | None:
        """Pops the next pod to schedule; None if there is none.

        The caller schedules it inside ``in_flight``.
        """
        if (entry := self._queues.pop()) is None:
            return None
        entry.attempt_number = self._in_flight.begin(entry.uid)
        entry.attempts += 1
        self.quarantine.attempted(entry.uid)
        self._queues.note(entry, QueueName.IN_FLIGHT, POPPED)
        return entry

    def in_flight(self, entry: QueuedPod) -> InFlightAttempt:
        """Returns the attempt at a popped pod, as a context manager."""
        return InFlightAttempt(entry, self._end)

    def done(self, uid: str) -> None:
        """Ends the recording of events for a pod: only its binding is left, or nothing."""
        self._in_flight.done(uid)

    def _end(self, entry: QueuedPod, attempt_number: int) -> None:
        # Not a later attempt at the same pod, which still needs its events.
        if self._in_flight.is_current(entry.uid, attempt_number):
            self._in_flight.done(entry.uid)

    def add_unschedulable(
        self,
        entry: QueuedPod,
        pod: PodInfo,
        *,
        refused_by: Iterable[str] = (),
        pending_on: Iterable[str] = (),
        is_binding: bool = False,
    ) -> None:
        """Requeues a pod whose attempt failed: unschedulable, or in backoff.

        Without a rejecting plugin the attempt ended with an error. If an event since the pod was
        popped may have made it schedulable, it goes to the backoff queue. A pod that is in a queue
        already, or in flight for another attempt, is left there.

        Args:
            entry: As it was popped.
            pod: Its newest version; with another UID it is another pod, and only the attempt ends.
            refused_by: The plugins that rejected it.
            pending_on: Those of them that returned ``Pending``.
            is_binding: Whether it failed in its binding cycle; it keeps its backoff then.
        """
        entry.end_attempt(self._clock.monotonic_s(), refused_by, pending_on, is_binding=is_binding)
        if pod.uid != entry.uid:
            self._end(entry, entry.attempt_number)
            return
        entry.pod = pod
        strategy = _strategy_after_attempt(entry, self._in_flight, self._hints)
        # Before the pod is in a queue: ``on_ready`` may pop it at once.
        self._end(entry, entry.attempt_number)
        if self.queue_of(entry.uid) is QueueName.NONE:
            self._queues.add_rejected(entry, strategy, ATTEMPT_FAILED)

    # -- moves ------------------------------------------------------------------------------------

    def move(
        self,
        event: ClusterEvent,
        old: Any,
        new: Any,
        *,
        only: Callable[[PodInfo], bool] | None = None,
    ) -> None:
        """Requeues the unschedulable pods that a cluster event may make schedulable.

        Args:
            event: The event.
            old: The object before; None if it was created.
            new: The object now; None if it was deleted.
            only: Unschedulable pods for which it returns False are not moved.
        """
        if not self._hints.has_listeners(event):
            return
        for entry, strategy in self._queues.unschedulable_pods.pods_to_requeue(event, old, new):
            # A plugin called by a hint may have activated the pod already.
            if entry.queue_name.waits_for_event and (only is None or only(entry.pod)):
                self._queues.requeue_on_event(entry, strategy, event.label)
        self._in_flight.record(event, old, new)

    def activate(self, uids: Iterable[str]) -> None:
        """Moves these pods to the active queue; unknown UIDs are ignored."""
        for uid in uids:
            entry = self._pods.get(uid)
            if entry is not None and entry.is_quarantined:
                continue
            if entry is not None and entry.queue_name is not QueueName.ACTIVE:
                gate = entry.queue_name is not QueueName.BACKOFF
                self._queues.move_to_active(entry, FORCE_ACTIVATE.label, run_pre_enqueue=gate)
            elif uid in self._in_flight:
                self._in_flight.record(FORCE_ACTIVATE, None, _Only(uid))

    def retry_after_backoff(self, uid: str) -> None:
        """Moves an unschedulable or gated pod to the backoff queue, as after an error.

        It is not popped early, and its backoff grows with its attempts. Others stay where they are.
        """
        entry = self._pods.get(uid)
        if entry is not None and entry.queue_name.waits_for_event:
            self._queues.count_rejectors(entry, -1)
            entry.start_error_backoff(self._clock.monotonic_s())
            self._queues.requeue(entry, RequeueStrategy.AFTER_BACKOFF, FORCE_ACTIVATE.label)

    def flush(self) -> None:
        """Requeues pods whose backoff has expired, or that are unschedulable for too long."""
        now_s = self._clock.monotonic_s()
        for entry in self._queues.backoff.pop_completed(now_s):
            self._queues.move_to_active(entry, BACKOFF_COMPLETE, run_pre_enqueue=False)
        if now_s >= self._leftover_flush_at_s:
            self._leftover_flush_at_s = now_s + self._flush_interval_s
            self._flush_unschedulable_leftover(now_s)

    def next_flush_at_s(self) -> float:
        """Returns when to call ``flush`` next; monotonic seconds, infinity if never."""
        if not self._pods:
            return math.inf
        at_s = self._queues.backoff.next_completion_s()
        return min(at_s, self._leftover_flush_at_s) if self._queues.unschedulable_pods else at_s

    def _flush_unschedulable_leftover(self, now_s: float) -> None:
        pods, event = self._queues.unschedulable_pods, UNSCHEDULABLE_TIMEOUT
        too_old = pods.older_than(now_s - self._options.max_unschedulable_s)
        for entry in too_old:
            entry.was_flushed = True
            if pods.accepts_event(entry, event):
                self._queues.requeue_on_event(entry, RequeueStrategy.AFTER_BACKOFF, event.label)
        if too_old:  # as upstream, it is an event for the pods in flight as well
            self._in_flight.record(event, None, None)


def _strategy_after_attempt(
    entry: QueuedPod, in_flight: InFlight, hints: QueueingHints
) -> RequeueStrategy:
    """Returns the highest strategy of the events since the pod was popped."""
    is_in_flight = in_flight.is_current(entry.uid, entry.attempt_number)
    if not entry.rejectors or not is_in_flight:
        return RequeueStrategy.AFTER_BACKOFF
    strategy = RequeueStrategy.SKIP
    for event, old, new in in_flight.events_since(entry.uid):
        strategy = max(strategy, hints.strategy(entry, event, old, new))
        if strategy is RequeueStrategy.IMMEDIATELY:
            break
    return strategy


class _Only:
    """The object of a wildcard event that is for one pod."""

    __slots__ = ("uid",)

    def __init__(self, uid: str) -> None:
        self.uid = uid
