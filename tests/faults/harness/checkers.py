"""The invariants of a run, checked after every write and every step.

::

    API server ── every revision ──> StoreChecker      S1, S2, S6, S7: the stored objects
    plugins ──── every call ───────> Ledger            S8: each Reserve has one end
    scheduler ── every step ───────> SchedulerChecker  S3, S4, L1: its queue and cache
                 after phase 2 ─────> leaks            L5, L6: no leaks, informers in sync

They read the scheduler's queue and cache, but none of its code: capacity is computed from the
objects alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple

from mooring.apiserver import ApiServer
from mooring.apiserver.resources import BY_PATH
from mooring.apiserver.storage.history import StoreEvent
from mooring.client import Handler
from mooring.objects.codec.decode import decode
from mooring.objects.kinds import kind_named
from mooring.objects.meta import key
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from tests.faults.harness.faults import now_s
from tests.faults.harness.preemption_checker import Evictions
from tests.faults.harness.reference_fit import allocatable_of, overcommitted
from tests.faults.harness.trace import InvariantBroken, Trace, Violation

_FINISHED = ("Succeeded", "Failed")
_POD, _NODE = kind_named("Pod"), kind_named("Node")

#: Actor name of the scheduler's writes to the API server.
SCHEDULER = "scheduler"


class Findings:
    """The violations of a run.

    Attributes:
        trace: The events of the run, violations included.
        violations: In the order of detection.
        paths: Name of a path, such as "Permit expired" -> how often it was taken.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.violations: list[Violation] = []
        self.paths: Counter[str] = Counter()

    def count(self, path: str) -> None:
        """Counts a path that the run has taken."""
        self.paths[path] += 1

    def report(self, rule: str, message: str) -> None:
        """Records a violation. Does not raise, since the caller might catch the exception."""
        self.violations.append(Violation(now_s(), rule, message))
        self.trace.add(now_s(), f"VIOLATION {rule} {message}")

    def raise_first(self) -> None:
        """Ends the run if an invariant is violated.

        Raises:
            InvariantBroken: for the first violation.
        """
        if self.violations:
            raise InvariantBroken(self.violations[0])


class Decisions:
    """The scheduler's decisions: UID -> the nodes that were ever chosen for this pod.

    Attributes:
        evictions: The decided evictions.
    """

    def __init__(self) -> None:
        self.evictions = Evictions()
        self._nodes: dict[str, list[str]] = {}

    def note(self, uid: str, node_name: str) -> None:
        """Records a placement."""
        self._nodes.setdefault(uid, []).append(node_name)

    def has(self, uid: str, node_name: str) -> bool:
        """Returns whether this node was chosen for this pod."""
        return node_name in self._nodes.get(uid, ())


class Bound(NamedTuple):
    """A binding on the server: who sent it, and the node."""

    actor: str
    node_name: str


class StoreChecker:
    """Checks every write of pods and nodes at the moment of the write.

    Attributes:
        pods: UID -> pod, without terminated pods.
        nodes: Name -> node.
        bindings: UID -> where and by whom the pod was bound.
        exempt: Node -> why S2 is not checked: another actor changed or used its capacity.

    Args:
        api: The server.
        findings: Records the violations.
        decisions: The scheduler's decisions.
        schedulers: The schedulerNames that it serves.
    """

    def __init__(
        self,
        api: ApiServer,
        findings: Findings,
        decisions: Decisions,
        schedulers: Sequence[str] = ("default-scheduler",),
    ) -> None:
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.bindings: dict[str, Bound] = {}
        self.exempt: dict[str, str] = {}
        self.writes = 0
        self._api = api
        self._findings = findings
        self._decisions = decisions
        self._schedulers = schedulers
        self._actor = ""
        self._pod_history = api.store.collection(BY_PATH["", "v1", "pods"]).history
        self._node_history = api.store.collection(BY_PATH["", "v1", "nodes"]).history
        self._pod_history.listen(self, self._on_pod)
        self._node_history.listen(self, self._on_node)

    def close(self) -> None:
        """Stops checking."""
        self._pod_history.unlisten(self)
        self._node_history.unlisten(self)

    def handler(self, actor: str) -> Handler:
        """Returns the server's handler for one actor."""

        async def handle(
            method: str,
            path: str,
            query: Sequence[tuple[str, str]],
            headers: Mapping[str, str],
            body: bytes,
        ) -> tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]:
            self._actor = actor
            try:
                # The server never suspends in a request, so no other actor writes meanwhile.
                return await self._api.handle(method, path, query, headers, body)
            finally:
                self._actor = ""

        return handle

    def on_node(self, name: str) -> list[Pod]:
        """Returns the pods on a node."""
        return [pod for pod in self.pods.values() if pod.spec.node_name == name]

    def pending(self) -> list[Pod]:
        """Returns the pods to schedule: no node, no gate, not terminating."""
        return [pod for pod in self.pods.values() if self._is_schedulable(pod)]

    def _is_schedulable(self, pod: Pod) -> bool:
        is_ours = pod.spec.scheduler_name in self._schedulers
        is_unbound = not pod.spec.node_name and not pod.spec.scheduling_gates
        return is_ours and is_unbound and pod.metadata.deletion_timestamp is None

    def _on_pod(self) -> None:
        (change,) = self._pod_history.read(self._pod_history.end - 1, 1)
        old = decode(change.old.encoded(), _POD) if change.old is not None else None
        new = decode(change.new.encoded(), _POD) if change.new is not None else None
        self._note(change, old, new)
        if self._actor == SCHEDULER and old is not None:
            self._check_eviction(old, new)
        if new is None or new.status.phase in _FINISHED:
            terminated = new if new is not None else old
            assert terminated is not None
            self.pods.pop(terminated.metadata.uid, None)
            return
        uid = new.metadata.uid
        before = self.pods.get(uid)
        self.pods[uid] = new
        if before is not None and before.spec.node_name not in ("", new.spec.node_name):
            message = f"{key(new)} moved from {before.spec.node_name} to {new.spec.node_name}"
            self._findings.report("S1", message)
        self._count_changes(before, new)
        if new.spec.node_name and (before is None or not before.spec.node_name):
            self._on_bound(before, new)

    def _count_changes(self, before: Pod | None, new: Pod) -> None:
        if before is None:
            return
        if before.spec.scheduling_gates and not new.spec.scheduling_gates:
            self._findings.count("gate opened")
        if before.status.nominated_node_name != new.status.nominated_node_name:
            is_set = bool(new.status.nominated_node_name)
            self._findings.count("nomination set" if is_set else "nomination cleared")

    def _check_eviction(self, old: Pod, new: Pod | None) -> None:
        was_terminating = old.metadata.deletion_timestamp is not None
        if not was_terminating and (new is None or new.metadata.deletion_timestamp is not None):
            self._findings.count("eviction")
        if was_terminating or (new is not None and new.metadata.deletion_timestamp is None):
            return
        if not self._decisions.evictions.has(old.metadata.uid):
            self._findings.report("S6", f"{key(old)} was deleted, but its eviction was not decided")

    def _on_bound(self, before: Pod | None, pod: Pod) -> None:
        uid, node_name = pod.metadata.uid, pod.spec.node_name
        self.bindings[uid] = Bound(self._actor, node_name)
        if self._actor != SCHEDULER:
            self.exempt.setdefault(node_name, "another actor bound a pod")
            return
        if not self._decisions.has(uid, node_name):
            self._findings.report("S1", f"{key(pod)} ({uid}) was never decided for {node_name}")
        if before is None or not self._is_schedulable(before):
            self._findings.report("S7", f"{key(pod)} must not be bound by this scheduler")
        self._check_capacity(node_name)

    def _check_capacity(self, node_name: str) -> None:
        node = self.nodes.get(node_name)
        if node is None or node_name in self.exempt:
            return
        excess = overcommitted(node, self.on_node(node_name))
        if excess:
            self._findings.report("S2", f"node {node_name} is overcommitted: {excess}")

    def _on_node(self) -> None:
        (change,) = self._node_history.read(self._node_history.end - 1, 1)
        old = decode(change.old.encoded(), _NODE) if change.old is not None else None
        new = decode(change.new.encoded(), _NODE) if change.new is not None else None
        self._note(change, old, new)
        if new is None:
            self.nodes.pop(change.key)
            self.exempt.setdefault(change.key, "it was deleted")
            return
        self.nodes[change.key] = new
        if old is not None and _shrank(old, new):
            self.exempt.setdefault(change.key, "it shrank")

    def _note(self, change: StoreEvent, old: Pod | Node | None, new: Pod | Node | None) -> None:
        self.writes += 1
        what = "created" if old is None else "deleted" if new is None else "changed"
        obj = new if new is not None else old
        at = f" node={obj.spec.node_name}" if isinstance(obj, Pod) else ""
        message = f"store {change.version} {what} {change.key}{at} by={self._actor}"
        self._findings.trace.add(now_s(), message)


def _shrank(old: Node, new: Node) -> bool:
    allocatable = allocatable_of(new)
    return any(count > allocatable.get(name, 0) for name, count in allocatable_of(old).items())
