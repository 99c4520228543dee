"""Event handlers with a cache and a queue, on a virtual clock."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from mooring.client import ObjectChange
from mooring.clock import VirtualClock
from mooring.cluster_event import ActionType, ClusterEvent, EventResource
from mooring.dra import features_of
from mooring.framework import Framework
from mooring.framework.waiting_pods import WaitingPods
from mooring.metrics.recorders import NO_SCHEDULER_METRICS, SchedulerRecorder
from mooring.objects import Pod
from mooring.objects.meta import key
from mooring.queue import QueueName, SchedulingQueue
from mooring.scheduler.event_handlers import EventHandlers
from mooring.state.cache import Cache
from mooring.state.listers import Listers
from tests.helpers.queues import Refuser, framework_of, on

ALL = ClusterEvent(EventResource.ANY, ActionType.ALL)


class EventFixture:
    """Event handlers, and the changes that they made."""

    def __init__(
        self,
        *plugins: Any,
        device_gates: Mapping[str, bool] = MappingProxyType({}),
        recorder: SchedulerRecorder = NO_SCHEDULER_METRICS,
        listers: Listers | None = None,
    ) -> None:
        self.clock = VirtualClock(monotonic_s=1000.0)
        self.cache = Cache(features_of(device_gates))
        self.woken: list[tuple[str, str]] = []
        self.heard: list[tuple[str, str]] = []
        framework: Framework = framework_of(*plugins, clock=self.clock)
        self.profiles = {"default-scheduler": framework}
        self.queue = SchedulingQueue(
            self.profiles,
            clock=self.clock,
            on_move=lambda entry, queue_name, why: self.woken.append(
                (entry.pod.metadata.name, why)
            ),
        )
        self.waiting = WaitingPods()
        self.handlers = EventHandlers(
            self.cache,
            self.queue,
            self.profiles,
            self.waiting,
            on_object=lambda kind, obj: self.heard.append((kind, key(obj))),
            recorder=recorder,
            listers=listers,
        )

    def pod(self, old: Pod | None, new: Pod | None, last: Pod | None = None) -> None:
        """Delivers a change of a pod."""
        self.handlers.on_change("Pod", ObjectChange(old, new, last))

    def node(self, old: Any, new: Any) -> None:
        """Delivers a change of a node."""
        self.handlers.on_change("Node", ObjectChange(old, new))

    def add_unschedulable(self, pod: Pod, by: str = "Refuser") -> None:
        """Adds a pod that fails its attempt."""
        self.pod(None, pod)
        entry = self.queue.pop()
        assert entry is not None
        with self.queue.in_flight(entry):
            self.queue.add_unschedulable(entry, entry.pod, refused_by=[by])
        self.woken.clear()

    def assume(self, pod: Pod, node_name: str = "a") -> None:
        """Adds a pod and assumes it on a node."""
        self.pod(None, pod)
        entry = self.queue.pop()
        assert entry is not None
        with self.queue.in_flight(entry):
            self.cache.assume(entry.pod.on_node(node_name), node_name).keep()
        self.woken.clear()

    def queue_name(self, name: str) -> QueueName:
        """Returns the queue of a pod."""
        return self.queue.queue_of(f"pod-default-{name}")


def accepts_event(*events: ClusterEvent) -> Refuser:
    """Returns a plugin "Refuser" that registers these events."""
    return Refuser("Refuser", *(on(event) for event in events))


def event(resource: EventResource, action: ActionType) -> ClusterEvent:
    """Returns an event."""
    return ClusterEvent(resource, action)


def deleting(pod: Pod) -> Pod:
    """Returns the pod with a deletionTimestamp."""
    stamped = replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return replace(pod, metadata=stamped)


def newer(pod: Pod, **status: Any) -> Pod:
    """Returns a newer version of the pod with another status."""
    return replace(pod, status=replace(pod.status, **status))
