"""The model of the scheduling queue: its plugins as a table, its pods as plain records."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mooring.clock import VirtualClock
from mooring.cluster_event import ActionType, ClusterEvent, EventResource
from mooring.framework import Reject
from mooring.plugins.scheduling_gates import SchedulingGates
from mooring.queue import QueueName
from mooring.state import PodInfo
from tests.helpers.queues import (
    NODE_ADD,
    NODE_LABEL,
    NODE_TAINT,
    POD_GONE,
    PV_ADD,
    PV_UPDATE,
    QUEUE,
    SKIP,
    Gate,
    GatePlugin,
    PluginWithoutEvents,
    Refuser,
    Signer,
    on,
    pod,
)

REJECTORS = ["Pure", "Impure", "Always", "Gone", "PluginWithoutEvents", "Never", "Own"]
EVENTS = {
    "node": NODE_ADD,
    "label": NODE_LABEL,
    "taint": NODE_TAINT,
    "volume": PV_ADD,
    "gone": POD_GONE,
    "other": PV_UPDATE,
}


class What(NamedTuple):
    """Something that happened, as the model sees it: to what, of which kind, about which pod."""

    kind: str
    payload: str = ""
    about: str = ""


def helps(plugin: str, what: What, wants: str, uid: str) -> bool:
    """Returns whether the rejecting plugin requeues the pod: the plugins below, as a table."""
    fits, is_own = what.payload == wants, what.about == uid
    return {
        "Pure": what.kind == "taint" or (what.kind == "node" and fits),
        "Impure": what.kind == "taint" or (what.kind in ("node", "volume") and fits),
        "Always": what.kind == "volume",
        "Gone": what.kind == "gone" and fits,
        "PluginWithoutEvents": True,
        "Never": False,
        "Own": is_own and what.kind in ("own label", "own toleration"),
        "SchedulingGates": is_own and what.kind == "own gates",
        "Door": what.kind == "label",
    }[plugin]


def _new_fits(parked: PodInfo, old: Any, new: Any) -> Any:
    return QUEUE if parked.metadata.labels["wants"] == new else SKIP


def _old_fits(parked: PodInfo, old: Any, new: Any) -> Any:
    return QUEUE if parked.metadata.labels["wants"] == old else SKIP


def _is_own(parked: PodInfo, old: Any, new: Any) -> Any:
    return QUEUE if new.metadata.uid == parked.uid else SKIP


OWN = ClusterEvent(
    EventResource.POD, ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION
)


def plugins(door: Gate) -> list[Any]:
    """Returns what ``helps`` says, as plugins."""
    return [
        SchedulingGates(),
        GatePlugin("Door", door, on(NODE_LABEL)),
        Signer("Pure", on(NODE_ADD, _new_fits, pure=True)),
        Refuser("Impure", on(NODE_ADD, _new_fits), on(PV_ADD, _new_fits)),
        Refuser("Always", on(PV_ADD)),
        Signer("Gone", on(POD_GONE, _old_fits, pure=True)),
        PluginWithoutEvents("PluginWithoutEvents"),
        Refuser("Never"),
        Refuser("Own", on(OWN, _is_own)),
    ]


@dataclass
class Version:
    """A version of a pod, as its user wrote it."""

    wants: str
    priority: int
    cpu: int = 2
    gates: int = 0
    tolerations: int = 0
    is_at_door: bool = False

    def info(self, name: str, uid: str) -> PodInfo:
        """Returns the same as a pod."""
        return pod(
            name,
            uid=uid,
            priority=self.priority,
            requests={"cpu": self.cpu},
            labels={"wants": self.wants, **({"door": ""} if self.is_at_door else {})},
            gates=[f"gate-{number}" for number in range(self.gates)],
            tolerations=[f"toleration-{number}" for number in range(self.tolerations)],
        )


@dataclass
class Modelled:
    """A pod of the model."""

    name: str
    uid: str
    version: Version
    info: PodInfo
    came_s: float
    queue_name: QueueName = QueueName.NONE
    refusals: int = 0
    errors: int = 0
    by: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    gate: str = ""
    is_gone: bool = False
    was_binding: bool = False
    #: Events since it was popped, or since it was updated while unschedulable.
    history: list[What] = field(default_factory=list)

    def ends_s(self) -> float:
        """Returns when its backoff ends, rounded down; -inf if it has none."""
        count = self.errors or self.refusals
        seconds = [0, 1, 2, 4, 8][count] if count < 5 else 10
        return math.floor(self.came_s + seconds) if count else -math.inf

    def judged(self, what: What) -> int:
        """Returns 0 = skip, 1 = requeue after backoff, 2 = requeue at once."""
        if what.kind == "force":
            return int(what.about == self.uid)
        if what.kind == "flush":
            return 1
        if not self.by | self.pending:
            return 1
        asked = {name for name in self.by | self.pending if self.is_helped_by(name, what)}
        return 2 if asked & self.pending else int(bool(asked))

    def is_helped_by(self, plugin: str, what: What) -> bool:
        """Returns whether that plugin says so."""
        return helps(plugin, what, self.version.wants, self.uid)


class Model:
    """All pods, by UID, and one gate that people open and shut."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.pods: dict[str, Modelled] = {}
        self.is_door_open = True

    def door(self, parked: PodInfo) -> Any:
        return (
            Reject("shut") if "door" in parked.metadata.labels and not self.is_door_open else None
        )

    def alive(self, name: str) -> Modelled | None:
        found = [each for each in self.pods.values() if each.name == name and not each.is_gone]
        return found[0] if found else None

    def closed_gate(self, each: Modelled) -> str:
        shut = {
            "SchedulingGates": each.version.gates > 0,
            "Door": each.version.is_at_door and not self.is_door_open,
        }
        order = sorted(shut, key=lambda name: (name != each.gate, name != "SchedulingGates"))
        return next((name for name in order if shut[name]), "")

    def is_backing_off(self, each: Modelled) -> bool:
        return each.ends_s() >= math.floor(self.clock.monotonic_s())

    def record_flush(self, now_s: float) -> None:
        """Records the flush of pods that waited too long: an event for the pods in flight."""
        waiting = (QueueName.UNSCHEDULABLE, QueueName.GATED)
        pods = list(self.pods.values())
        if any(each.queue_name in waiting and now_s - each.came_s > 300 for each in pods):
            for each in pods:
                if each.queue_name is QueueName.IN_FLIGHT:
                    each.history.append(What("flush"))

    def put(self, each: Modelled, judged: int) -> bool:
        """Puts a pod where it belongs; whether it will be tried."""
        if not judged:
            each.queue_name = QueueName.UNSCHEDULABLE
            return False
        each.gate = self.closed_gate(each)
        if each.gate:
            each.by.add(each.gate)
            each.queue_name = QueueName.GATED
            return False
        waits = judged == 1 and self.is_backing_off(each)
        each.queue_name = QueueName.BACKOFF if waits else QueueName.ACTIVE
        return True

    def happened(self, what: What) -> None:
        """Applies an event to all pods."""
        for each in self.pods.values():
            each.history.append(what)
            is_heard = not each.gate or each.is_helped_by(each.gate, what)
            parked = each.queue_name in (QueueName.UNSCHEDULABLE, QueueName.GATED)
            if parked and is_heard and (judged := each.judged(what)):
                self.put(each, judged)

    def refused(self, each: Modelled, by: set[str], pending: set[str], *, is_binding: bool) -> None:
        """Ends an attempt with a rejection; without any plugin, with an error."""
        is_refusal = bool(by | pending)
        each.by, each.pending, each.was_binding = by, pending, is_binding
        each.errors = 0 if is_refusal else each.errors + 1
        each.refusals += is_refusal
        each.came_s = self.clock.monotonic_s()
        judged = max(map(each.judged, each.history), default=0)
        self.put(each, judged if is_refusal else 1)

    def forget(self, each: Modelled) -> None:
        if each.queue_name is QueueName.IN_FLIGHT:
            each.is_gone = True
        else:
            del self.pods[each.uid]

    def changed(self, each: Modelled, events: list[What]) -> None:
        if each.queue_name is QueueName.IN_FLIGHT:
            for other in self.pods.values():
                other.history += events if other.queue_name is QueueName.IN_FLIGHT else []
        elif each.queue_name in (QueueName.UNSCHEDULABLE, QueueName.GATED):
            each.history = []
            for what in events:
                if (judged := each.judged(what)) and self.put(each, judged):
                    break

    def best(self) -> set[str]:
        """Returns the UIDs of those that may be popped next."""
        active = {
            uid: (0.0, -each.version.priority, each.came_s)
            for uid, each in self.pods.items()
            if each.queue_name is QueueName.ACTIVE
        }
        waiting = {
            uid: (each.ends_s(), -each.version.priority, each.came_s)
            for uid, each in self.pods.items()
            if each.queue_name is QueueName.BACKOFF
            and each.by | each.pending
            and not each.was_binding
        }
        keys = active or waiting
        return {uid for uid, key in keys.items() if key == min(keys.values())}
