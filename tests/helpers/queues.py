"""Scripted plugins with PreEnqueue and events, and a scheduling queue over them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from mooring.clock import VirtualClock
from mooring.cluster_event import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from mooring.framework import Framework, Profile, Reject
from mooring.framework.interface import EXTENSION_POINTS
from mooring.framework.status import Status
from mooring.metrics.recorders import NO_SCHEDULER_METRICS, SchedulerRecorder
from mooring.plugins.priority_sort import PrioritySort
from mooring.queue import QueuedPod, QueueName, QueueOptions, SchedulingQueue
from mooring.state import PodInfo
from mooring.testing import make_pod

NODE_ADD = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_LABEL = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_LABEL)
NODE_TAINT = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
PV_ADD = ClusterEvent(EventResource.PERSISTENT_VOLUME, ActionType.ADD)
PV_UPDATE = ClusterEvent(EventResource.PERSISTENT_VOLUME, ActionType.UPDATE_OTHER)
POD_GONE = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
POD_UPDATE = ClusterEvent(EventResource.POD, ActionType.UPDATE)

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
Gate = Callable[[PodInfo], Status | None]


def says(hint: QueueingHint) -> Callable[[Any, Any, Any], QueueingHint]:
    """Returns a hint function with a constant result."""
    return lambda pod, old, new: hint


def on(event: ClusterEvent, hint: Any = None, *, pure: bool = False) -> ClusterEventWithHint:
    """Returns a registration; ``hint`` is a hint function, or its constant result."""
    function = says(hint) if isinstance(hint, QueueingHint) else hint
    return ClusterEventWithHint(event, function, pure)


class PluginWithoutEvents:
    """A filter plugin without events."""

    def __init__(self, name: str) -> None:
        self.name = name

    def filter(self, cycle: Any, nodes: Any) -> Any:
        """Is not called: tests pass the rejecting plugins."""
        raise AssertionError


class Refuser(PluginWithoutEvents):
    """A plugin with registered events."""

    def __init__(self, name: str, *registrations: ClusterEventWithHint) -> None:
        super().__init__(name)
        self.registrations = registrations

    def events(self) -> Sequence[ClusterEventWithHint]:
        """Returns the registered events."""
        return self.registrations


class Signer(Refuser):
    """A plugin whose signature is the pod's labels."""

    reads = 0

    def sign(self, pod: PodInfo) -> Hashable | None:
        """Returns the labels; None for pods labelled ``secret``."""
        labels = pod.metadata.labels
        return None if "secret" in labels else tuple(sorted(labels.items()))


class GatePlugin(Refuser):
    """A PreEnqueue plugin with the result of ``gate``; None = admitted."""

    def __init__(self, name: str, gate: Gate, *registrations: ClusterEventWithHint) -> None:
        super().__init__(name, *registrations)
        self.gate = gate
        self.asked = 0

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Returns the result of the gate."""
        self.asked += 1
        return self.gate(pod)


def closed(pod: PodInfo) -> Status | None:
    """Rejects pods without the label ``open``."""
    return None if "open" in pod.metadata.labels else Reject("closed")


def framework_of(*plugins: Any, clock: VirtualClock | None = None, sort: Any = None) -> Framework:
    """Returns a framework in which each plugin runs at every point that it has."""
    all_plugins = [sort or PrioritySort(), *plugins]
    points = {
        point: [plugin for plugin in all_plugins if hasattr(plugin, point)]
        for point in EXTENSION_POINTS
    }
    return Framework(Profile("default-scheduler", points, {}), clock=clock or VirtualClock())


def pod(name: str, *, uid: str | None = None, **fields: Any) -> PodInfo:
    """Returns a pod; its UID is by default its name."""
    return PodInfo(make_pod(name, uid=uid or name, **fields))


class Bench:
    """A queue on a virtual clock, with the moves that it reported."""

    def __init__(
        self,
        *plugins: Any,
        sort: Any = None,
        on_ready: Callable[[], None] | None = None,
        schedulers: Sequence[str] = ("default-scheduler",),
        others: Mapping[str, Framework] = MappingProxyType({}),
        recorder: SchedulerRecorder = NO_SCHEDULER_METRICS,
        **options: Any,
    ) -> None:
        self.clock = VirtualClock(monotonic_s=1000.0)
        self.framework = framework_of(*plugins, clock=self.clock, sort=sort)
        self.profiles = {**dict.fromkeys(schedulers, self.framework), **others}
        self.moved: list[tuple[str, QueueName, str]] = []
        self.ready = 0
        self._on_ready = on_ready
        self.queue = SchedulingQueue(
            self.profiles,
            clock=self.clock,
            recorder=recorder,
            options=QueueOptions(**options),
            on_ready=self._note_ready,
            on_move=lambda entry, queue_name, why: self.moved.append((entry.uid, queue_name, why)),
        )

    def _note_ready(self) -> None:
        self.ready += 1
        if self._on_ready is not None:
            self._on_ready()

    def add(self, name: str, **fields: Any) -> PodInfo:
        """Adds a pod."""
        made = pod(name, **fields)
        self.queue.add(made)
        return made

    def pop(self) -> QueuedPod:
        """Pops the next pod; there must be one."""
        entry = self.queue.pop()
        assert entry is not None
        return entry

    def pops(self) -> list[str]:
        """Pops all pods and ends their attempts; returns their names in order."""
        names = []
        while (entry := self.queue.pop()) is not None:
            names.append(entry.pod.metadata.name)
            self.queue.done(entry.uid)
        return names

    def refuse(self, entry: QueuedPod, *by: str, pending: Sequence[str] = ()) -> None:
        """Ends an attempt with a rejection; without any plugin, with an error."""
        with self.queue.in_flight(entry):
            self.queue.add_unschedulable(entry, entry.pod, refused_by=by, pending_on=pending)

    def unschedulable(
        self, name: str, *by: str, pending: Sequence[str] = (), **fields: Any
    ) -> PodInfo:
        """Adds a pod and rejects it; no other pod may be in the active queue."""
        made = self.add(name, **fields)
        entry = self.pop()
        assert entry.uid == made.uid
        self.refuse(entry, *by, pending=pending)
        return made

    def queue_name(self, uid: str) -> QueueName:
        """Returns the queue of a pod."""
        return self.queue.queue_of(uid)

    def last_move(self) -> tuple[str, QueueName, str]:
        """Returns the latest move."""
        return self.moved[-1]
