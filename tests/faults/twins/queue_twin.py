"""A plain model of the scheduling queue, which follows every call of the real one.

One list of pods, and no heap, index, group, or cache: every call visits every pod.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from mooring.clock import Clock
from mooring.cluster_event import (
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    ClusterEvent,
    EventResource,
)
from mooring.errors import PluginError, SchedulerError
from mooring.framework import Framework
from mooring.queue import QueuedPod, QueueName, QueueOptions
from mooring.state import PodInfo
from tests.faults.twins.changes import AFTER_BACKOFF, IMMEDIATELY, SKIP, Registered, changes_of_pod

ACTIVE, BACKOFF, NONE = QueueName.ACTIVE, QueueName.BACKOFF, QueueName.NONE
WAITING: Final = (QueueName.UNSCHEDULABLE, QueueName.GATED)

WINDOW_S: Final = 1.0
QUARANTINED_FROM: Final = 3
#: A plugin is broken if it raised at most of so many pods, those attempted last.
ATTEMPTED_MAX: Final = 100
#: So many events are recorded; of more the older half is dropped.
EVENTS_MAX: Final = 10_000

#: The heaps of the pods in backoff, in the order in which they are flushed.
REFUSED, FAILED, QUARANTINED = 0, 1, 2


class Moved(NamedTuple):
    """A pod entered a queue."""

    uid: str
    queue: QueueName
    why: str


@dataclass
class TwinPod:
    """A pod, as ``QueuedPod``; ``events`` are those during its attempt."""

    info: PodInfo
    since_s: float
    queue: QueueName = NONE
    attempts: int = 0
    refusals: int = 0
    errors: int = 0
    refused_by: set[str] = field(default_factory=set)
    pending_on: set[str] = field(default_factory=set)
    gate: str = ""
    quarantine_s: float = 0.0
    failing: str = ""
    failures: int = 0
    was_flushed: bool = False
    was_binding: bool = False
    first_active_s: float | None = None
    heap: int = REFUSED
    #: When it was last sorted, and when it came to the waiting pods, both as numbers.
    sorted_at: int = 0
    came_at: int = 0
    events: list[tuple[ClusterEvent, Any, Any]] = field(default_factory=list)
    #: Whether events of its attempt were dropped, since there were too many.
    lost_events: bool = False

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return self.info.uid

    @property
    def rejectors(self) -> set[str]:
        """The plugins whose events help."""
        return self.refused_by | self.pending_on


class QueueState:
    """The pods of the model, and their moves between the queues.

    Attributes:
        moves: Of the last call, in order.
        touched: The pods that it may have changed.
        flying: Number of an attempt -> its pod, while events are recorded for it.
        popped: Number of an attempt -> its pod, until it failed or the pod was popped again.
        attempted: (UID, the plugin that raised) of the pods attempted last; "" = none raised.
        quarantines: Each quarantine: the pod, the plugin, its exceptions in a row, and seconds.
        events_max: So many events are recorded.
        incoming: (queue, why) -> pods that entered, where the waiting and the gated pods are one
            queue, which an event that does not help a pod in the end takes it out of and back.
    """

    def __init__(
        self, profiles: Mapping[str, Framework], clock: Clock, options: QueueOptions
    ) -> None:
        self.moves: list[Moved] = []
        self.incoming: Counter[tuple[QueueName, str]] = Counter()
        self.touched: list[TwinPod] = []
        self.pods: dict[str, TwinPod] = {}
        self.flying: dict[int, TwinPod] = {}
        self.popped: dict[int, TwinPod] = {}
        self.attempted: list[tuple[str, str]] = []
        self.quarantines: list[tuple[str, str, int, float]] = []
        self.events_max = EVENTS_MAX
        self._profiles = profiles
        self._clock = clock
        self._options = options
        self._registered = Registered(profiles)
        self._window_s = WINDOW_S if options.pop_from_backoff else 0.0
        self._number = 0
        self._order = 0
        self._leftover_s = self._now_s + options.unschedulable_flush_interval_s

    @property
    def _now_s(self) -> float:
        return self._clock.monotonic_s()

    def queue_of(self, uid: str) -> QueueName:
        """Returns the queue of a pod."""
        if any(queued.uid == uid for queued in self.flying.values()):
            return QueueName.IN_FLIGHT
        return self.pods[uid].queue if uid in self.pods else NONE

    def counts(self) -> dict[QueueName, int]:
        """Returns the length of each queue."""
        queues = [queued.queue for queued in self.pods.values()]
        counts = {name: queues.count(name) for name in (ACTIVE, BACKOFF, *WAITING)}
        return counts | {QueueName.IN_FLIGHT: len(self.flying)}

    def event_count(self) -> int:
        """Returns the number of events that the oldest attempt needs."""
        return len(self.recorded())

    def recorded(self) -> list[tuple[ClusterEvent, Any, Any]]:
        """Returns the events that the oldest attempt needs."""
        return max((queued.events for queued in self.flying.values()), key=len, default=[])

    def quarantined_count(self) -> int:
        """Returns the number of quarantined pods that wait for the end of their backoff."""
        return sum(queued.heap == QUARANTINED for queued in self._in(BACKOFF))

    def resources(self) -> set[EventResource | str]:
        """Returns the resources that plugins register for."""
        return self._registered.resources()

    def rejected(self) -> Counter[tuple[str, str]]:
        """Returns (plugin, profile) -> pods in the queues that it rejected."""
        return Counter(
            (plugin, _profile_of(queued.info))
            for queued in self.pods.values()
            for plugin in queued.rejectors
        )

    def expires_s(self, queued: TwinPod) -> float:
        """Returns when the backoff of a pod ends."""
        options, count = self._options, queued.errors or queued.refusals
        seconds = queued.quarantine_s
        if not seconds:
            if not count or not options.max_backoff_s:
                return -math.inf
            seconds = options.initial_backoff_s
            for _ in range(count - 1):
                seconds = min(2 * seconds, options.max_backoff_s)
            seconds = min(seconds, options.max_backoff_s)
        return self._rounded(queued.since_s + seconds)

    def next_flush_at_s(self) -> float:
        """Returns when the next pod has to be moved without an event."""
        ends = [self.expires_s(queued) for queued in self._in(BACKOFF)]
        at_s = min(ends, default=math.inf) + (self._window_s or 1e-6)
        return min(at_s, self._leftover_s) if self._in(*WAITING) else at_s

    def is_flush_due(self) -> bool:
        """Returns whether a pod has to be moved now."""
        return self.next_flush_at_s() <= self._now_s

    def _in(self, *queues: QueueName) -> list[TwinPod]:
        return [queued for queued in self.pods.values() if queued.queue in queues]

    def _rounded(self, time_s: float) -> float:
        return math.floor(time_s / self._window_s) * self._window_s if self._window_s else time_s

    def _is_backing_off(self, queued: TwinPod) -> bool:
        return self.expires_s(queued) >= self._rounded(self._now_s)

    def _sort_key(self, queued: TwinPod) -> tuple[float, ...]:
        key = -queued.info.priority, queued.since_s, queued.sorted_at
        if queued.queue is ACTIVE:
            return key
        if queued.heap != REFUSED or not self._window_s:
            return self.expires_s(queued), queued.sorted_at
        return self.expires_s(queued), *key

    def _waiting(self) -> list[TwinPod]:
        return sorted(self._in(*WAITING), key=lambda queued: queued.came_at)

    def _waiting_for(self, event: ClusterEvent) -> list[TwinPod]:
        return [queued for queued in self._waiting() if self._accepts(queued, event)]

    def _accepts(self, queued: TwinPod, event: ClusterEvent) -> bool:
        profile = _profile_of(queued.info)
        return not queued.gate or bool(self._registered.for_plugin(profile, queued.gate, event))

    def _strategy(self, queued: TwinPod, event: ClusterEvent, old: Any, new: Any) -> int:
        happened = event, old, new
        return self._registered.strategy(queued.info, queued.rejectors, queued.pending_on, happened)

    def _record(self, event: ClusterEvent, old: Any, new: Any) -> None:
        for queued in self.flying.values():
            queued.events.append((event, old, new))
        if (count := self.event_count()) > self.events_max:
            left = count - count // 2
            for queued in self.flying.values():
                queued.lost_events |= len(queued.events) > left
                queued.events = queued.events[-left:]

    def _next(self) -> int:
        self._order += 1
        return self._order

    def _requeue(self, queued: TwinPod, strategy: int, why: str) -> bool:
        """Puts a pod where it belongs; returns whether an attempt follows."""
        if strategy == SKIP:
            self._to_waiting(queued, why)
            return False
        if strategy == IMMEDIATELY or not self._is_backing_off(queued):
            return self._to_active(queued, why)
        if not self._passes(queued):
            self._to_waiting(queued, why)
            return False
        keeps = queued.was_binding or not queued.rejectors
        queued.heap = QUARANTINED if queued.quarantine_s else FAILED if keeps else REFUSED
        queued.sorted_at = self._next()
        self._enter(queued, BACKOFF, why)
        return True

    def _requeue_on_event(self, queued: TwinPod, strategy: int, why: str) -> None:
        if not self._requeue(queued, strategy, why):
            self.incoming[queued.queue, why] += 1

    def _to_active(self, queued: TwinPod, why: str, *, is_checked: bool = False) -> bool:
        if not is_checked and not self._passes(queued):
            self._to_waiting(queued, why)
            return False
        if queued.first_active_s is None:
            queued.first_active_s = self._now_s
        queued.sorted_at = self._next()
        self._enter(queued, ACTIVE, why)
        return True

    def _to_waiting(self, queued: TwinPod, why: str) -> None:
        queue = QueueName.GATED if queued.gate else QueueName.UNSCHEDULABLE
        self.touched.append(queued)
        if queued.queue is not queue:
            queued.came_at = self._next()
            self._enter(queued, queue, why)

    def _enter(self, queued: TwinPod, queue: QueueName, why: str) -> None:
        if queued.queue not in WAITING or queue not in WAITING:
            self.incoming[queue, why] += 1
        queued.queue = queue
        if queue is not QueueName.IN_FLIGHT:
            self.pods[queued.uid] = queued
        self.touched.append(queued)
        self.moves.append(Moved(queued.uid, queue, why))

    def _passes(self, queued: TwinPod) -> bool:
        plugins = self._profiles[_profile_of(queued.info)].plugins("pre_enqueue")
        gate = next(
            (p.name for p in plugins if p.name == queued.gate and _gates(p, queued.info)), ""
        )
        gate = gate or next((plugin.name for plugin in plugins if _gates(plugin, queued.info)), "")
        queued.gate = gate
        if gate and gate not in queued.rejectors:
            queued.refused_by.add(gate)
        return not gate


class QueueTwin(QueueState):
    """The model: each method is one of the queue's."""

    # -- pods come, change and go -----------------------------------------------------------------

    def add(self, pod: PodInfo) -> None:
        """Adds a pod, or updates it."""
        if pod.uid in self.pods:
            self.update(self.pods[pod.uid].info, pod)
        elif self.queue_of(pod.uid) is NONE:
            self._to_active(TwinPod(pod, self._now_s), "UnschedulablePodAdd")

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """Updates a pod; one with another UID replaces it."""
        if old.uid != new.uid:
            self.delete(old.uid)
            self.add(new)
            return
        if self.queue_of(new.uid) is QueueName.IN_FLIGHT:
            for event in changes_of_pod(old, new):
                self._record(event, old.pod, new.pod)
            return
        queued = self.pods.get(new.uid)
        if queued is None:
            self._to_active(TwinPod(new, self._now_s), "UnschedulablePodUpdate")
            return
        queued.info = new
        self.touched.append(queued)
        if queued.queue in (ACTIVE, BACKOFF):
            queued.sorted_at = self._next()
        if queued.queue in WAITING:
            for event in changes_of_pod(old, new):
                strategy = self._strategy(queued, event, old.pod, new.pod)
                if strategy and self._requeue(queued, strategy, event.label):
                    return
        elif queued.queue is BACKOFF and queued.quarantine_s and _is_edited(old, new):
            queued.queue, queued.quarantine_s = NONE, 0.0
            self._requeue(queued, AFTER_BACKOFF, "UnschedulablePodUpdate")

    def delete(self, uid: str) -> None:
        """Removes a pod from its queue."""
        queued = self.pods.pop(uid, None)
        if queued is not None:
            queued.queue = NONE
            self.incoming[NONE, "UnschedulablePodDelete"] += 1
            self.moves.append(Moved(uid, NONE, "UnschedulablePodDelete"))

    # -- attempts ---------------------------------------------------------------------------------

    def pop(self) -> TwinPod | None:
        """Pops the pod of the highest priority that came first."""
        candidates = self._in(ACTIVE)
        if not candidates and self._options.pop_from_backoff:
            candidates = [queued for queued in self._in(BACKOFF) if queued.heap == REFUSED]
        if not candidates:
            return None
        queued = min(candidates, key=self._sort_key)
        self.incoming[ACTIVE, "PopFromBackoffQ"] += queued.queue is BACKOFF
        del self.pods[queued.uid]
        self._number += 1
        queued.quarantine_s = 0.0
        queued.attempts += 1
        queued.events, queued.lost_events = [], False
        others = [pair for pair in self.attempted if pair[0] != queued.uid]
        self.attempted = [*others, (queued.uid, "")][-ATTEMPTED_MAX:]
        self.flying[self._number] = self.popped[self._number] = queued
        self._enter(queued, QueueName.IN_FLIGHT, "Pop")
        return queued

    def done(self, uid: str) -> None:
        """Ends the attempt at a pod."""
        self.flying = {n: queued for n, queued in self.flying.items() if queued.uid != uid}

    def _end(self, entry: QueuedPod, attempt_number: int) -> None:
        """Ends one attempt."""
        del entry
        self.flying.pop(attempt_number, None)

    def failed(self, entry: QueuedPod, error: SchedulerError | None) -> bool:
        """Counts an exception of a plugin; returns whether the pod is quarantined."""
        plugin = ""
        if isinstance(error, PluginError) and error.location:
            plugin = "" if isinstance(error.__cause__, OSError) else error.plugin
        if plugin:
            self.attempted = [
                (uid, plugin if uid == entry.uid else other) for uid, other in self.attempted
            ]
        queued = self.popped.get(entry.attempt_number)
        if queued is None:
            return entry.quarantine_s > 0
        is_same = bool(plugin) and plugin == queued.failing
        queued.failures = (queued.failures if is_same else 0) + bool(plugin)
        queued.failing = plugin
        self.touched.append(queued)
        if queued.failures < QUARANTINED_FROM:
            return False
        minutes = (5, 10, 20, 40, 60)
        number = min(queued.failures - QUARANTINED_FROM, len(minutes) - 1)
        queued.quarantine_s = 60.0 * minutes[number]
        quarantine = entry.pod.key, plugin, queued.failures, queued.quarantine_s
        self.quarantines.append(quarantine)
        return True

    def add_unschedulable(
        self,
        entry: QueuedPod,
        pod: PodInfo,
        *,
        refused_by: Iterable[str] = (),
        pending_on: Iterable[str] = (),
        is_binding: bool = False,
    ) -> None:
        """Ends an attempt with a failure."""
        number = entry.attempt_number
        queued = self.popped.pop(number)
        queued.refused_by, queued.pending_on = set(refused_by), set(pending_on)
        if queued.rejectors:
            queued.refusals, queued.errors = queued.refusals + 1, 0
        else:
            queued.errors += 1
        queued.since_s = self._now_s
        queued.was_flushed, queued.was_binding = False, is_binding
        strategy = AFTER_BACKOFF
        if pod.uid == entry.uid:
            queued.info = pod
        if queued.rejectors and number in self.flying:
            helped = [self._strategy(queued, *happened) for happened in queued.events]
            strategy = max(helped, default=SKIP)
            if queued.lost_events:
                strategy = max(strategy, AFTER_BACKOFF)
        self.flying.pop(number, None)
        if pod.uid == entry.uid and self.queue_of(pod.uid) is NONE:
            self._requeue(queued, strategy, "ScheduleAttemptFailure")

    # -- moves ------------------------------------------------------------------------------------

    def move(
        self,
        event: ClusterEvent,
        old: Any,
        new: Any,
        *,
        only: Callable[[PodInfo], bool] | None = None,
    ) -> None:
        """Requeues the pods that an event helps."""
        if not self._registered.has(event):
            return
        waiting = self._waiting_for(event)
        helped = [(queued, self._strategy(queued, event, old, new)) for queued in waiting]
        for queued, strategy in helped:
            if strategy and (only is None or only(queued.info)):
                self._requeue_on_event(queued, strategy, event.label)
        self._record(event, old, new)

    def activate(self, uids: Iterable[str]) -> None:
        """Moves pods to the active queue."""
        for uid in uids:
            queue, queued = self.queue_of(uid), self.pods.get(uid)
            if queue is QueueName.IN_FLIGHT:
                self._record(FORCE_ACTIVATE, None, _Named(uid))
            elif queued is not None and queue is BACKOFF and not queued.quarantine_s:
                self._to_active(queued, "ForceActivate", is_checked=True)
            elif queued is not None and queue in WAITING:
                self._to_active(queued, "ForceActivate")

    def retry_after_backoff(self, uid: str) -> None:
        """Moves a waiting pod to the pods in backoff."""
        queued = self.pods.get(uid)
        if queued is None or queued.queue not in WAITING:
            return
        queued.refused_by, queued.pending_on = set(), set()
        queued.errors = max(queued.errors, queued.refusals, 1)
        queued.since_s = self._now_s
        self._requeue(queued, AFTER_BACKOFF, "ForceActivate")

    def flush(self) -> None:
        """Moves the pods whose backoff is over, and those that wait for too long."""
        over = [queued for queued in self._in(BACKOFF) if not self._is_backing_off(queued)]
        for queued in sorted(over, key=lambda queued: (queued.heap, self._sort_key(queued))):
            self._to_active(queued, "BackoffComplete", is_checked=True)
        if self._now_s < self._leftover_s:
            return
        self._leftover_s = self._now_s + self._options.unschedulable_flush_interval_s
        limit_s = self._now_s - self._options.max_unschedulable_s
        old = [queued for queued in self._waiting() if queued.since_s < limit_s]
        for queued in old:
            queued.was_flushed = True
            self.touched.append(queued)
            if self._accepts(queued, UNSCHEDULABLE_TIMEOUT):
                self._requeue_on_event(queued, AFTER_BACKOFF, "UnschedulableTimeout")
        if old:
            self._record(UNSCHEDULABLE_TIMEOUT, None, None)


class _Named(NamedTuple):
    uid: str


def _gates(plugin: Any, pod: PodInfo) -> bool:
    try:
        return plugin.pre_enqueue(pod) is not None
    except Exception:  # noqa: BLE001 - a plugin that raises gates the pod
        return True


def _profile_of(pod: PodInfo) -> str:
    return pod.spec.scheduler_name or "default-scheduler"


def _is_edited(old: PodInfo, new: PodInfo) -> bool:
    before, after = old.pod, new.pod
    metadata = [(pod.metadata.labels, pod.metadata.annotations) for pod in (before, after)]
    return metadata[0] != metadata[1] or before.spec != after.spec
