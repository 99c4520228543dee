"""A cache, a queue, profiles and event handlers without an API server.

A pod is attempted once and becomes unschedulable; then an object changes, and the queue is checked.
"""

from __future__ import annotations

from typing import Any

from mooring.client import ObjectChange
from mooring.clock import VirtualClock, seeded_random
from mooring.config import KubeSchedulerConfiguration
from mooring.framework import Attempt, Diagnosis, schedule_pod
from mooring.queue import QueuedPod, QueueName, SchedulingQueue
from mooring.scheduler.event_handlers import EventHandlers
from mooring.scheduler.profiles import load_profiles
from mooring.simulation.offline import OfflineHandle
from mooring.state.cache import Cache


class QueueCluster:
    """Holds a scheduler's cache and queue; the caller reports the changes of objects.

    Attributes:
        clock: The clock of the queue.
    """

    def __init__(self, config: KubeSchedulerConfiguration) -> None:
        self.cache = Cache()
        self.clock = clock = VirtualClock()
        handle = OfflineHandle(self.cache, clock, seeded_random(0))
        self.profiles = load_profiles(config, handle, clock=clock, waiting=handle.waiting)
        self.queue = SchedulingQueue(self.profiles, clock=clock)
        self._events = EventHandlers(self.cache, self.queue, self.profiles, handle.waiting)

    def tell(self, kind: str, old: Any, new: Any) -> None:
        """Reports a change; None = the object did not exist, or no longer exists."""
        self._events.on_change(kind, ObjectChange(old, new))

    def try_next(self) -> Diagnosis:
        """Attempts the next pod, which must become unschedulable."""
        entry = self.queue.pop()
        assert entry is not None
        with self.queue.in_flight(entry):
            framework, snapshot = self.profiles["default-scheduler"], self.cache.snapshot()
            diagnosis = schedule_pod(
                framework, framework.new_cycle(entry.pod, snapshot), Attempt(snapshot)
            )
            assert isinstance(diagnosis, Diagnosis)
            self.queue.add_unschedulable(
                entry,
                entry.pod,
                refused_by=diagnosis.unschedulable_plugins,
                pending_on=diagnosis.pending_plugins,
            )
        return diagnosis

    def waiting_to_be_tried(self) -> list[QueuedPod]:
        """Returns the pods that wait for an attempt, now or after their backoff."""
        return [
            e for e in self.queue.pods() if e.queue_name in (QueueName.ACTIVE, QueueName.BACKOFF)
        ]
