"""Plugins that refuse pods and hear of events as they are told, and a queue over them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
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
    """A hint that always says the same."""
    return lambda pod, old, new: hint


def on(event: ClusterEvent, hint: Any = None, *, pure: bool = False) -> ClusterEventWithHint:
    """A registration; ``hint`` is a hint function, or what it always says."""
    function = says(hint) if isinstance(hint, QueueingHint) else hint
    return ClusterEventWithHint(event, function, pure)


class Deaf:
    """A plugin that can refuse pods at a filter, and says nothing of events."""

    def __init__(self, name: str) -> None:
        self.name = name

    def filter(self, cycle: Any, nodes: Any) -> Any:
        """Never called here: the tests say what was refused."""
        raise AssertionError


class Refuser(Deaf):
    """A plugin that hears of what it registered for."""

    def __init__(self, name: str, *wanted: ClusterEventWithHint) -> None:
        super().__init__(name)
        self.wanted = wanted

    def events(self) -> Sequence[ClusterEventWithHint]:
        """As told."""
        return self.wanted


class Signer(Refuser):
    """One that treats pods of the same labels alike."""

    reads = 0

    def sign(self, pod: PodInfo) -> Hashable | None:
        """The labels; pods labelled ``secret`` cannot be signed."""
        labels = pod.metadata.labels
        return None if "secret" in labels else tuple(sorted(labels.items()))


class Keeper(Refuser):
    """A gate keeper: PreEnqueue says what ``gate`` says, None = let in."""

    def __init__(self, name: str, gate: Gate, *wanted: ClusterEventWithHint) -> None:
        super().__init__(name, *wanted)
        self.gate = gate
        self.asked = 0

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Ask the gate."""
        self.asked += 1
        return self.gate(pod)


def closed(pod: PodInfo) -> Status | None:
    """A gate that lets in only pods labelled ``open``."""
    return None if "open" in pod.metadata.labels else Reject("closed")


def framework_of(*plugins: Any, clock: VirtualClock | None = None, sort: Any = None) -> Framework:
    """A framework in which each plugin runs wherever it can."""
    everyone = [sort or PrioritySort(), *plugins]
    points = {
        point: [plugin for plugin in everyone if hasattr(plugin, point)]
        for point in EXTENSION_POINTS
    }
    return Framework(Profile("default-scheduler", points, {}), clock=clock or VirtualClock())


def pod(name: str, *, uid: str | None = None, **fields: Any) -> PodInfo:
    """A pod whose UID is its name, unless told otherwise."""
    return PodInfo(make_pod(name, uid=uid or name, **fields))


class Bench:
    """A queue on a clock that stands still, with what it told of itself."""

    def __init__(
        self,
        *plugins: Any,
        sort: Any = None,
        on_ready: Callable[[], None] | None = None,
        **options: Any,
    ) -> None:
        self.clock = VirtualClock(monotonic_s=1000.0)
        self.framework = framework_of(*plugins, clock=self.clock, sort=sort)
        self.moved: list[tuple[str, QueueName, str]] = []
        self.ready = 0
        self._on_ready = on_ready
        self.queue = SchedulingQueue(
            {"default-scheduler": self.framework},
            clock=self.clock,
            options=QueueOptions(**options),
            on_ready=self._note_ready,
            on_move=lambda entry, queue_name, why: self.moved.append((entry.uid, queue_name, why)),
        )

    def _note_ready(self) -> None:
        self.ready += 1
        if self._on_ready is not None:
            self._on_ready()

    def add(self, name: str, **fields: Any) -> PodInfo:
        """A pod comes."""
        made = pod(name, **fields)
        self.queue.add(made)
        return made

    def pop(self) -> QueuedPod:
        """The next pod; there must be one."""
        entry = self.queue.pop()
        assert entry is not None
        return entry

    def pops(self) -> list[str]:
        """The names of all that can be popped, in order; their attempts end at once."""
        names = []
        while (entry := self.queue.pop()) is not None:
            names.append(entry.pod.metadata.name)
            self.queue.done(entry.uid)
        return names

    def refuse(self, entry: QueuedPod, *by: str, pending: Sequence[str] = ()) -> None:
        """The attempt ends with a refusal; without any plugin, with an error."""
        with self.queue.in_flight(entry):
            self.queue.add_unschedulable(entry, entry.pod, refused_by=by, pending_on=pending)

    def unschedulable(
        self, name: str, *by: str, pending: Sequence[str] = (), **fields: Any
    ) -> PodInfo:
        """A pod comes and is refused; nothing else may be in the active queue."""
        made = self.add(name, **fields)
        entry = self.pop()
        assert entry.uid == made.uid
        self.refuse(entry, *by, pending=pending)
        return made

    def queue_name(self, uid: str) -> QueueName:
        """Where it is."""
        return self.queue.queue_of(uid)

    def last_move(self) -> tuple[str, QueueName, str]:
        """The latest move."""
        return self.moved[-1]
