"""The queues that a pending pod is in, and its moves between them.

A pod is in one of them or in none; ``SchedulingQueue`` decides when it moves.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mooring.clock import Clock
from mooring.errors import InvariantViolation, PluginError
from mooring.framework import Framework
from mooring.queue.backoff_queue import WINDOW_S, BackoffQueue
from mooring.queue.heap import ByLess, PodHeap
from mooring.queue.in_flight import InFlight
from mooring.queue.queued_pod import QueuedPod, QueueName
from mooring.queue.queueing_hints import QueueingHints, RequeueStrategy, profile_of
from mooring.queue.unschedulable_pods import UnschedulablePods

#: How often the owner of the queue calls ``flush``: backoffs end on whole seconds.
FLUSH_INTERVAL_S: Final = 1.0

#: How often pods that have been unschedulable for too long are looked for.
UNSCHEDULABLE_FLUSH_INTERVAL_S: Final = 30.0

POP_FROM_BACKOFF: Final = "PopFromBackoffQ"

_log = logging.getLogger(__name__)

#: Called for every move: the pod, its new queue, and the label of the event that moved it.
OnMove = Callable[[QueuedPod, QueueName, str], None]


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """Options; the defaults are kube-scheduler's.

    Attributes:
        initial_backoff_s: The first backoff of a pod.
        max_backoff_s: The longest; 0 = no backoff.
        max_unschedulable_s: After so long an unschedulable pod is requeued without an event.
        pop_from_backoff: Whether backing-off pods are popped early if the active queue is empty.
        unschedulable_flush_interval_s: How often those that have waited so long are looked for.
    """

    initial_backoff_s: float = 1.0
    max_backoff_s: float = 10.0
    max_unschedulable_s: float = 300.0
    pop_from_backoff: bool = True
    unschedulable_flush_interval_s: float = UNSCHEDULABLE_FLUSH_INTERVAL_S


class QueueStatistics(NamedTuple):
    """The numbers of the queue that metrics show.

    Attributes:
        incoming: As ``moves``; an event that requeues an unschedulable or gated pod, which
            PreEnqueue then gates, counts, and other moves between these two do not.
        rejected: (plugin, profile) -> the pods in the queues that the plugin rejected.
        in_flight: Event label -> recorded events, ``PodPopped`` -> pods in flight.
    """

    incoming: Counter[tuple[QueueName, str]]
    rejected: Mapping[tuple[str, str], int]
    in_flight: Counter[str]


class PodQueues:
    """The active, backoff, unschedulable and gated pods; each pod is in one queue.

    Attributes:
        pods: UID -> pod.
        backoff: Pods whose backoff has not expired.
        unschedulable_pods: Unschedulable and gated pods.
        moves: (queue, label of the event that moved a pod there) -> count.
        regated: The moves between the unschedulable and the gated pods, which metrics count as
            one queue, less the events after which PreEnqueue gated a pod; keys as in ``moves``.
        rejected: (plugin, profile) -> the pods in the queues that the plugin rejected.
    """

    def __init__(
        self,
        profiles: Mapping[str, Framework],
        hints: QueueingHints,
        options: QueueOptions,
        clock: Clock,
        *,
        on_ready: Callable[[], None] | None,
        on_move: OnMove | None,
    ) -> None:
        self.pods: dict[str, QueuedPod] = {}
        self.moves: Counter[tuple[QueueName, str]] = Counter()
        self.regated: Counter[tuple[QueueName, str]] = Counter()
        self.rejected: Counter[tuple[str, str]] = Counter()
        self.on_ready = on_ready
        self.on_move = on_move
        sort_key = _sort_key(next(iter(profiles.values())))
        self.backoff = BackoffQueue(
            options.initial_backoff_s,
            options.max_backoff_s,
            sort_key,
            window_s=WINDOW_S if options.pop_from_backoff else 0.0,
        )
        self.unschedulable_pods = UnschedulablePods(hints)
        self._active = PodHeap(sort_key)
        self._pop_from_backoff = options.pop_from_backoff
        self._profiles = profiles
        self._clock = clock

    def counts(self) -> dict[QueueName, int]:
        """Returns the length of each queue. Complexity: O(1)."""
        gated = self.unschedulable_pods.gated_count
        return {
            QueueName.ACTIVE: len(self._active),
            QueueName.BACKOFF: len(self.backoff),
            QueueName.UNSCHEDULABLE: len(self.unschedulable_pods) - gated,
            QueueName.GATED: gated,
        }

    def statistics(self, in_flight: InFlight) -> QueueStatistics:
        """Returns the numbers that metrics show."""
        return QueueStatistics(self.moves - self.regated, self.rejected, in_flight.counts())

    def pop(self) -> QueuedPod | None:
        """Pops the next pod to schedule; None if there is none."""
        if not self.pods:
            return None
        entry = self._active.pop()
        if entry is None and self._pop_from_backoff:
            entry = self.backoff.pop_early()
            if entry is not None:
                self.moves[QueueName.ACTIVE, POP_FROM_BACKOFF] += 1
        if entry is not None:
            del self.pods[entry.uid]
            entry.quarantine_s = 0.0
            if entry.unschedulable_plugins or entry.pending_plugins:
                self.count_rejectors(entry, -1)
        return entry

    def add_rejected(self, entry: QueuedPod, strategy: RequeueStrategy, why: str) -> None:
        """Adds a pod after an attempt, to the queue of its strategy."""
        self.count_rejectors(entry, 1)
        self.requeue(entry, strategy, why)

    def update(self, entry: QueuedPod) -> None:
        """Sorts or groups a pod again, after its newer version was set."""
        if entry.queue_name is QueueName.ACTIVE:
            self._active.push(entry)
        elif entry.queue_name is QueueName.BACKOFF:
            self.backoff.update(entry)
        else:
            self.unschedulable_pods.add(entry)

    def remove(self, entry: QueuedPod, why: str) -> None:
        """Removes a pod from its queue."""
        del self.pods[entry.uid]
        self.count_rejectors(entry, -1)
        self._leave(entry)
        self.note(entry, QueueName.NONE, why)

    def requeue(self, entry: QueuedPod, strategy: RequeueStrategy, why: str) -> bool:
        """Moves a pod to the queue of its strategy. Returns False if it stays unschedulable."""
        if strategy is RequeueStrategy.SKIP:
            self._add_unschedulable(entry, why)
            return False
        now_s = self._clock.monotonic_s()
        waits = strategy is RequeueStrategy.AFTER_BACKOFF and self.backoff.is_backing_off(
            entry, now_s
        )
        return self._move_to_backoff(entry, why) if waits else self.move_to_active(entry, why)

    def requeue_on_event(self, entry: QueuedPod, strategy: RequeueStrategy, why: str) -> None:
        """Moves an unschedulable or gated pod that an event may have made schedulable.

        kube-scheduler takes such a pod out of its queue first, so that a pod which PreEnqueue gates
        again has come into the queue again.
        """
        if not self.requeue(entry, strategy, why):
            self.regated[entry.queue_name, why] -= 1

    def release(self, entry: QueuedPod, why: str) -> None:
        """Ends the quarantine of a pod: from now on it has the backoff of any other error."""
        self._leave(entry)
        entry.queue_name, entry.quarantine_s = QueueName.NONE, 0.0
        entry.backoff_expiration_s = None
        self.requeue(entry, RequeueStrategy.AFTER_BACKOFF, why)

    def move_to_active(self, entry: QueuedPod, why: str, *, run_pre_enqueue: bool = True) -> bool:
        """Moves a pod to the active queue, unless PreEnqueue gates it. Returns False if gated.

        ``run_pre_enqueue`` False: PreEnqueue was called when the pod entered the backoff queue.
        """
        if run_pre_enqueue and not self._passes_pre_enqueue(entry):
            self._add_unschedulable(entry, why)
            return False
        self._leave(entry)
        if entry.initial_attempt_s is None:
            entry.initial_attempt_s = self._clock.monotonic_s()
        self._enter(entry, QueueName.ACTIVE, why)
        self._active.push(entry)
        self._call_ready()
        return True

    def _move_to_backoff(self, entry: QueuedPod, why: str) -> bool:
        if not self._passes_pre_enqueue(entry):
            self._add_unschedulable(entry, why)
            return False
        self._leave(entry)
        self._enter(entry, QueueName.BACKOFF, why)
        self.backoff.add(entry)
        self._call_ready()
        return True

    def _add_unschedulable(self, entry: QueuedPod, why: str) -> None:
        queue_name = QueueName.GATED if entry.gating_plugin else QueueName.UNSCHEDULABLE
        was_here = entry.queue_name is queue_name
        if not was_here:
            if entry.queue_name.waits_for_event:
                self.regated[queue_name, why] += 1
            self._leave(entry)
            self._enter(entry, queue_name, why)
        self.unschedulable_pods.add(entry)

    def _passes_pre_enqueue(self, entry: QueuedPod) -> bool:
        """Runs PreEnqueue. Returns False if a plugin refuses the pod, or fails."""
        framework = self._profiles.get(profile_of(entry.pod))
        if framework is None:
            name = profile_of(entry.pod)
            raise InvariantViolation(
                f"{entry.pod.key} is queued, but no profile is called {name!r}"
            )
        refused_by = ""
        try:
            status = framework.pre_enqueue(entry.pod, first=entry.gating_plugin)
            if status is not None:
                refused_by = status.plugin
        except PluginError as error:
            framework.errors.count(error)
            _log.exception("a PreEnqueue plugin failed", extra={"pod": entry.pod.key})
            refused_by = error.plugin
        entry.gating_plugin = refused_by
        if refused_by and refused_by not in entry.rejectors:
            entry.unschedulable_plugins |= {refused_by}
            self.rejected[refused_by, profile_of(entry.pod)] += 1
        return not refused_by

    def count_rejectors(self, entry: QueuedPod, change: int) -> None:
        """Adds the plugins that rejected a pod to ``rejected``, or removes them."""
        for plugin in entry.rejectors:
            self.rejected[plugin, profile_of(entry.pod)] += change

    def _enter(self, entry: QueuedPod, queue_name: QueueName, why: str) -> None:
        self.pods[entry.uid] = entry
        self.note(entry, queue_name, why)

    def _leave(self, entry: QueuedPod) -> None:
        if entry.queue_name is QueueName.ACTIVE:
            self._active.remove(entry)
        elif entry.queue_name is QueueName.BACKOFF:
            self.backoff.remove(entry)
        elif entry.queue_name.waits_for_event:
            self.unschedulable_pods.remove(entry)

    def note(self, entry: QueuedPod, queue_name: QueueName, why: str) -> None:
        """Records the move of a pod, and calls ``on_move``."""
        entry.queue_name = queue_name
        self.moves[queue_name, why] += 1
        if self.on_move is not None:
            self.on_move(entry, queue_name, why)

    def _call_ready(self) -> None:
        if self.on_ready is not None:
            self.on_ready()


def _sort_key(framework: Framework) -> Callable[[QueuedPod], Any]:
    key = framework.sort_key()
    return key if key is not None else lambda entry: ByLess(framework.less, entry)
