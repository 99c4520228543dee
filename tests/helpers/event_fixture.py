"""Cache and queue behind the event handlers, on a clock that stands still."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from mooring.client import Change
from mooring.clock import VirtualClock
from mooring.cluster_event import ActionType, ClusterEvent, EventResource
from mooring.framework import Framework
from mooring.framework.waiting_pods import WaitingPods
from mooring.objects import Pod
from mooring.queue import QueueName, SchedulingQueue
from mooring.scheduler.event_handlers import EventHandlers
from mooring.state.cache import Cache
from tests.helpers.queues import Refuser, framework_of, on

ALL = ClusterEvent(EventResource.ANY, ActionType.ALL)


class Desk:
    """What it is told, and what came of it."""

    def __init__(self, *plugins: Any) -> None:
        self.clock = VirtualClock(monotonic_s=1000.0)
        self.cache = Cache()
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
            on_object=lambda kind, key: self.heard.append((kind, key)),
        )

    def pod(self, old: Pod | None, new: Pod | None, last: Pod | None = None) -> None:
        """News of a pod."""
        self.handlers.on_change("Pod", Change(old, new, last))

    def node(self, old: Any, new: Any) -> None:
        """News of a node."""
        self.handlers.on_change("Node", Change(old, new))

    def add_unschedulable(self, pod: Pod, by: str = "Refuser") -> None:
        """A pod comes, is tried and refused."""
        self.pod(None, pod)
        entry = self.queue.pop()
        assert entry is not None
        with self.queue.in_flight(entry):
            self.queue.add_unschedulable(entry, entry.pod, refused_by=[by])
        self.woken.clear()

    def assume(self, pod: Pod, node_name: str = "a") -> None:
        """A pod comes, and gets a node in our eyes."""
        self.pod(None, pod)
        entry = self.queue.pop()
        assert entry is not None
        with self.queue.in_flight(entry):
            self.cache.assume(entry.pod.on_node(node_name), node_name).keep()
        self.woken.clear()

    def queue_name(self, name: str) -> QueueName:
        """Where the queue has a pod."""
        return self.queue.queue_of(f"pod-default-{name}")


def accepts_event(*events: ClusterEvent) -> Refuser:
    """A plugin that hears of these, as one called "Refuser" does."""
    return Refuser("Refuser", *(on(event) for event in events))


def event(resource: EventResource, action: ActionType) -> ClusterEvent:
    """Something that happens."""
    return ClusterEvent(resource, action)


def deleting(pod: Pod) -> Pod:
    """The pod, being deleted."""
    stamped = replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return replace(pod, metadata=stamped)


def newer(pod: Pod, **status: Any) -> Pod:
    """A later version of the pod, with another status."""
    return replace(pod, status=replace(pod.status, **status))
