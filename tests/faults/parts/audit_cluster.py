"""Users who change nodes and pods, and a scheduler that misses a part of the events.

The informers have every change; the handlers of the scheduler get each of them, or not. Later
events of an object are delivered as informers report them: the old version of an update, or the
object of a deletion, may be one that the scheduler does not have. Pods are tried and assumed, and
their bindings succeed or fail. The calls of the handlers are those of the models, also for what
they have missed.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

from msgspec.structs import replace

from mooring.client import ObjectChange
from mooring.clock import Rng, seeded_random
from mooring.objects import Pod
from mooring.objects.meta import key
from mooring.objects.pod import FINISHED_PHASES
from mooring.queue import QueuedPod, QueueOptions
from mooring.state import PodInfo
from mooring.testing import make_node, make_pod
from tests.faults.twins.attached_handlers import AttachedHandlers
from tests.faults.twins.attached_queue import AttachedQueue
from tests.faults.twins.queue_twin import QueueTwin
from tests.faults.twins.recorded_calls import RecordedCalls
from tests.helpers.event_fixture import EventFixture, accepts_event
from tests.helpers.queues import NODE_ADD, NODE_LABEL, POD_GONE, POD_UPDATE

NODES: Final = ("a", "b", "c", "d")
NAMES: Final = 10
WEIGHTS: Final = {
    "create": 5,
    "delete": 3,
    "replace": 1,
    "update": 3,
    "bind": 3,
    "change_node": 3,
    "attempt": 5,
    "fail": 1,
}
REFUSING: Final = "Refuser"


class AuditCluster:
    """Cache, queue and event handlers, the informers' objects, and what was missed.

    Attributes:
        problems: Differences to the models.
        objects: Kind -> key -> object, as the informers have them.
        broken: Nodes whose columns are wrong: no user changes them.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self.objects: dict[str, dict[str, Any]] = {"Node": {}, "Pod": {}}
        self.broken: dict[str, bool] = {}
        self._rng: Rng = seeded_random(seed)
        self._bench = bench = EventFixture(
            accepts_event(NODE_ADD, NODE_LABEL, POD_GONE, POD_UPDATE)
        )
        self._missed_share = self._rng.choice((0.0, 0.2, 0.5))
        #: Kind and key -> the events of an object that were missed since the last delivered one.
        self._missed: dict[tuple[str, str], list[ObjectChange]] = {}
        #: UID -> the pod that was tried, and is assumed.
        self._tried: dict[str, QueuedPod] = {}
        self._count = 0
        self._attach(bench)
        for name in NODES:
            self._change("Node", make_node(name).metadata.name, make_node(name), is_missed=False)

    def _attach(self, bench: EventFixture) -> None:
        """Lets the models follow queue and handlers."""
        report = self.problems.append
        twin = QueueTwin(bench.profiles, bench.clock, QueueOptions())
        attached = AttachedQueue(bench.queue, twin, report)
        service: Any = SimpleNamespace(
            queue=bench.queue,
            cache=bench.cache,
            events=bench.handlers,
            profiles=bench.profiles,
            handle=SimpleNamespace(waiting=bench.waiting),
        )
        recorded = RecordedCalls(service, attached, bench.clock, report)
        AttachedHandlers(service, attached, report, recorded)

    def act(self) -> None:
        """Does something that a user or the scheduler does."""
        names, weights = list(WEIGHTS), list(WEIGHTS.values())
        action: Callable[[], None] = getattr(self, f"_{self._rng.choices(names, weights)[0]}")
        action()

    # -- events -----------------------------------------------------------------------------------

    def _change(self, kind: str, name: str, new: Any, *, is_missed: bool | None = None) -> None:
        """Changes an object of the informers; its events are delivered, or missed."""
        old = self.objects[kind].get(name)
        if new is None:
            del self.objects[kind][name]
        else:
            self.objects[kind][name] = new
        changes = [ObjectChange(old, new)]
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            changes = [ObjectChange(old, None), ObjectChange(None, new)]
        for change in changes:
            if is_missed is None:
                is_missed = self._rng.random() < self._missed_share
            if is_missed:
                self._missed.setdefault((kind, name), []).append(change)
            else:
                self._missed.pop((kind, name), None)
                self._deliver(kind, change)

    def _deliver(self, kind: str, change: ObjectChange) -> None:
        if change.new is None and self._rng.random() < 0.7:
            change = change._replace(last=change.old)
        self._bench.handlers.on_change(kind, change)

    def deliver_late(self) -> None:
        """Delivers the missed events of some objects, all of each one, in their order."""
        for at in sorted(self._missed):
            if self._rng.random() < 0.3 and at[1] not in self.broken:
                for change in self._missed.pop(at):
                    self._deliver(at[0], change)

    # -- users ------------------------------------------------------------------------------------

    def _any(self, selects: Callable[[Pod], bool] = lambda _: True) -> Pod | None:
        pods = [pod for pod in self.objects["Pod"].values() if selects(pod)]
        return self._rng.choice(pods) if pods else None

    def _create(self) -> None:
        """Creates a pod; it has a node, has none, or has finished."""
        rng = self._rng
        name = f"pod{rng.randrange(NAMES)}"
        if f"default/{name}" in self.objects["Pod"]:
            return
        self._change("Pod", f"default/{name}", self._new_pod(name))

    def _new_pod(self, name: str) -> Pod:
        rng = self._rng
        self._count += 1
        node = rng.choice(("", "", *NODES))
        pod = make_pod(
            name,
            uid=f"{name}-{self._count}",
            node=node,
            requests={"cpu": "1"},
            scheduler_name=rng.choice(("default-scheduler",) * 4 + ("other",)),
        )
        if node and rng.random() < 0.2:
            pod = replace(pod, status=replace(pod.status, phase="Succeeded"))
        return pod

    def _delete(self) -> None:
        if (pod := self._any()) is not None:
            self._change("Pod", key(pod), None)

    def _replace(self) -> None:
        """Deletes a pod, and creates another one of its name before the deletion is reported."""
        if (pod := self._any()) is not None:
            self._change("Pod", key(pod), self._new_pod(pod.metadata.name))

    def _update(self) -> None:
        if (pod := self._any(lambda pod: not _has_finished(pod))) is not None:
            labels = {"touched": str(self._rng.randrange(9))}
            self._store(replace(pod, metadata=replace(pod.metadata, labels=labels)))

    def _bind(self) -> None:
        """Binds a pod, mostly where it is assumed."""
        if (pod := self._any(lambda pod: not pod.spec.node_name)) is not None:
            node = self._rng.choice(NODES)
            placed = self._bench.cache.pods.get(pod.metadata.uid)
            if placed is not None and self._rng.random() < 0.8:
                node = self._bench.cache.nodes.names[placed.row]
            self._store(replace(pod, spec=replace(pod.spec, node_name=node)))

    def _store(self, pod: Pod) -> None:
        self._count += 1
        metadata = replace(pod.metadata, resource_version=str(self._count))
        self._change("Pod", key(pod), replace(pod, metadata=metadata))

    def _change_node(self) -> None:
        """Adds, updates or removes a node."""
        name = self._rng.choice(NODES)
        if name in self.broken:
            return
        node: Any = make_node(name, labels={"touched": str(self._rng.randrange(9))})
        if name in self.objects["Node"] and self._rng.random() < 0.5:
            node = None
        self._change("Node", name, node)

    # -- the scheduler ----------------------------------------------------------------------------

    def _attempt(self) -> None:
        """Tries a pod, which no node fits, or which is assumed on one."""
        bench = self._bench
        if (entry := bench.queue.pop()) is None:
            return
        with bench.queue.in_flight(entry) as flight:
            if bench.cache.pods.get(entry.uid) is not None:
                self.problems.append(f"{entry.pod.key} is queued and has a node")
            elif self._rng.random() < 0.5:
                bench.queue.add_unschedulable(entry, entry.pod, refused_by=[REFUSING])
            else:
                node = self._rng.choice(NODES)
                with bench.cache.assume(entry.pod.on_node(node), node) as reservation:
                    reservation.keep()
                self._tried[entry.uid] = entry
                flight.detach()
                flight.done()

    def _fail(self) -> None:
        """Lets a binding fail: a pod that still exists, and has no node, is requeued."""
        cache = self._bench.cache
        assumed = [uid for uid in cache.assumed_uids() if uid in self._tried]
        if not assumed:
            return
        uid = self._rng.choice(assumed)
        entry = self._tried.pop(uid)
        cache.forget(uid)
        pod = self.objects["Pod"].get(entry.pod.key)
        if pod is not None and pod.metadata.uid == uid and not pod.spec.node_name:
            self._bench.queue.add_unschedulable(entry, PodInfo(pod), refused_by=[REFUSING])

    # -- the model --------------------------------------------------------------------------------

    def differences(self) -> set[tuple[str, str, bool]]:
        """Returns kind, name or UID, and whether it is missing, of what differs.

        An assumed pod that the informers do not have is being bound.
        """
        bench = self._bench
        nodes = {node.metadata.name for node in bench.cache.nodes.objects if node is not None}
        placed = {pod.info.uid for pod in bench.cache.pods}
        queued = {entry.uid for entry in bench.queue.pods()}
        uids = {pod.metadata.uid for pod in self.objects["Pod"].values()}
        confirmed = {uid for uid in sorted(placed) if not bench.cache.is_assumed(uid)}
        result = {("Node", name, True) for name in self.objects["Node"].keys() - nodes}
        result |= {("Node", name, False) for name in nodes - self.objects["Node"].keys()}
        result |= {("Pod", uid, False) for uid in (confirmed | queued) - uids}
        for pod in self.objects["Pod"].values():
            uid = pod.metadata.uid
            is_known = uid in placed or (uid in queued and not pod.spec.node_name)
            if not is_known and _is_ours(pod):
                result.add(("Pod", uid, True))
        return result


def _has_finished(pod: Pod) -> bool:
    return pod.status.phase in FINISHED_PHASES


def _is_ours(pod: Pod) -> bool:
    """Returns whether a pod must be in cache or queue."""
    if pod.spec.node_name:
        return not _has_finished(pod)
    return pod.spec.scheduler_name == "default-scheduler"
