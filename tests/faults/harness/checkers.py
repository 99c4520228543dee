"""What must hold in every run, whatever goes wrong: looked at after every write and every step.

::

    API server ── every revision ──> StoreChecker      S1, S2, S6, S7: what was really done
    plugins ──── every call ───────> Ledger            S8: each Reserve has one end
    scheduler ── every step ───────> SchedulerChecker  S3, S4, L1: what it believes
                 at rest ──────────> rest_problems     L5, L6: nothing is left over

They know nothing of how the scheduler works inside beyond where it keeps things, and compute
capacity from the objects alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from mooring.apiserver import ApiServer
from mooring.apiserver.resources import BY_PATH
from mooring.apiserver.storage.history import Change
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

#: Name of whoever writes to the API server.
SCHEDULER = "scheduler"


class Findings:
    """The violations of a run.

    Attributes:
        trace: What happened; violations stand in it too.
        violations: In the order in which they were seen.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.violations: list[Violation] = []

    def broken(self, rule: str, told: str) -> None:
        """An invariant does not hold. Does not raise: whoever called might swallow it."""
        self.violations.append(Violation(now_s(), rule, told))
        self.trace.add(now_s(), f"VIOLATION {rule} {told}")

    def raise_first(self) -> None:
        """End the run if something is broken.

        Raises:
            InvariantBroken: the first of what is broken.
        """
        if self.violations:
            raise InvariantBroken(self.violations[0])


class Decisions:
    """What the scheduler has decided: UID -> the nodes it ever chose for this pod.

    Attributes:
        evictions: Who is to leave.
    """

    def __init__(self) -> None:
        self.evictions = Evictions()
        self._nodes: dict[str, list[str]] = {}

    def note(self, uid: str, node_name: str) -> None:
        """A placement was found."""
        self._nodes.setdefault(uid, []).append(node_name)

    def has(self, uid: str, node_name: str) -> bool:
        """Whether this node was chosen for this pod."""
        return node_name in self._nodes.get(uid, ())


class StoreChecker:
    """Sees every write of pods and nodes, at the moment of the write.

    Attributes:
        pods: UID -> pod, those that are not finished.
        nodes: Name -> node.
        bound_by: UID -> who bound it.
        excused: Nodes whose capacity somebody else changed or used: S2 does not hold there.

    Args:
        api: The server.
        findings: Takes what is broken.
        decisions: What the scheduler has decided.
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
        self.bound_by: dict[str, str] = {}
        self.excused: dict[str, str] = {}
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
        """Look no more."""
        self._pod_history.unlisten(self)
        self._node_history.unlisten(self)

    def handler(self, actor: str) -> Handler:
        """The server's handler, for one who writes."""

        async def handle(
            method: str,
            path: str,
            query: Sequence[tuple[str, str]],
            headers: Mapping[str, str],
            body: bytes,
        ) -> tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]:
            self._actor = actor
            try:
                # The server answers without ever waiting, so nobody else writes meanwhile.
                return await self._api.handle(method, path, query, headers, body)
            finally:
                self._actor = ""

        return handle

    def on_node(self, name: str) -> list[Pod]:
        """The pods on a node."""
        return [pod for pod in self.pods.values() if pod.spec.node_name == name]

    def pending(self) -> list[Pod]:
        """The pods that the scheduler is to place: no node, no gate, not on their way out."""
        return [pod for pod in self.pods.values() if self._is_wanted(pod)]

    def _is_wanted(self, pod: Pod) -> bool:
        is_ours = pod.spec.scheduler_name in self._schedulers
        is_free = not pod.spec.node_name and not pod.spec.scheduling_gates
        return is_ours and is_free and pod.metadata.deletion_timestamp is None

    def _on_pod(self) -> None:
        (change,) = self._pod_history.read(self._pod_history.end - 1, 1)
        old = decode(change.old.encoded(), _POD) if change.old is not None else None
        new = decode(change.new.encoded(), _POD) if change.new is not None else None
        self._note(change, old, new)
        if self._actor == SCHEDULER and old is not None:
            self._check_eviction(old, new)
        if new is None or new.status.phase in _FINISHED:
            gone = new if new is not None else old
            assert gone is not None
            self.pods.pop(gone.metadata.uid, None)
            return
        uid = new.metadata.uid
        before = self.pods.get(uid)
        self.pods[uid] = new
        if before is not None and before.spec.node_name not in ("", new.spec.node_name):
            told = f"{key(new)} moved from {before.spec.node_name} to {new.spec.node_name}"
            self._findings.broken("S1", told)
        if new.spec.node_name and (before is None or not before.spec.node_name):
            self._on_bound(before, new)

    def _check_eviction(self, old: Pod, new: Pod | None) -> None:
        was_leaving = old.metadata.deletion_timestamp is not None
        if was_leaving or (new is not None and new.metadata.deletion_timestamp is None):
            return
        if not self._decisions.evictions.has(old.metadata.uid):
            self._findings.broken("S6", f"{key(old)} was deleted, and makes room for nobody")

    def _on_bound(self, before: Pod | None, pod: Pod) -> None:
        uid, node_name = pod.metadata.uid, pod.spec.node_name
        self.bound_by[uid] = self._actor
        if self._actor != SCHEDULER:
            self.excused.setdefault(node_name, "somebody else bound a pod there")
            return
        if not self._decisions.has(uid, node_name):
            self._findings.broken("S1", f"{key(pod)} ({uid}) was never decided for {node_name}")
        if before is None or not self._is_wanted(before):
            self._findings.broken("S7", f"{key(pod)} was not to be bound by this scheduler")
        self._check_room(node_name)

    def _check_room(self, node_name: str) -> None:
        node = self.nodes.get(node_name)
        if node is None or node_name in self.excused:
            return
        excess = overcommitted(node, self.on_node(node_name))
        if excess:
            self._findings.broken("S2", f"node {node_name} is overfull: {excess}")

    def _on_node(self) -> None:
        (change,) = self._node_history.read(self._node_history.end - 1, 1)
        old = decode(change.old.encoded(), _NODE) if change.old is not None else None
        new = decode(change.new.encoded(), _NODE) if change.new is not None else None
        self._note(change, old, new)
        if new is None:
            self.nodes.pop(change.key)
            self.excused.setdefault(change.key, "it was deleted")
            return
        self.nodes[change.key] = new
        if old is not None and _shrank(old, new):
            self.excused.setdefault(change.key, "it shrank")

    def _note(self, change: Change, old: Pod | Node | None, new: Pod | Node | None) -> None:
        self.writes += 1
        what = "created" if old is None else "deleted" if new is None else "changed"
        found = new if new is not None else old
        at = f" node={found.spec.node_name}" if isinstance(found, Pod) else ""
        told = f"store {change.version} {what} {change.key}{at} by={self._actor}"
        self._findings.trace.add(now_s(), told)


def _shrank(old: Node, new: Node) -> bool:
    room = allocatable_of(new)
    return any(count > room.get(name, 0) for name, count in allocatable_of(old).items())
