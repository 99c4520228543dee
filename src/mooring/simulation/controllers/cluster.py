"""The objects that the workload controllers look at, indexed by their owners."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from mooring.objects.meta import OwnerReference, controller_of, key
from mooring.simulation.controllers.job_pods.record import JobRecord
from mooring.simulation.controllers.objects import WORKLOAD_KINDS, Json, Workload, selector_of

if TYPE_CHECKING:
    from mooring.client import ObjectChange
    from mooring.objects.node import Node
    from mooring.objects.pod import Pod

FindNodes = Callable[[Workload, "ControlledObjects"], dict[str, bool]]
#: Templates that are kept of one StatefulSet, as many as revisions by default.
TEMPLATES_MAX: Final = 10
#: A workload: its kind and "namespace/name".
WorkloadKey = tuple[str, str]


class ControlledObjects:
    """Workloads, pods and nodes.

    Attributes:
        workloads: Kind -> key -> workload.
        pods: Key -> pod.
        nodes: Name -> node.
        job_records: UID of a Job -> which of its pods the controller has counted.
    """

    def __init__(self) -> None:
        self.workloads: dict[str, dict[str, Workload]] = {kind: {} for kind in WORKLOAD_KINDS}
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.job_records: dict[str, JobRecord] = {}
        #: UID of the controller ("" = none) and namespace -> key -> pod, in the order of ``pods``;
        #: None until there is a workload: without one, nothing reads it.
        self._by_owner: dict[tuple[str, str], dict[str, Pod]] | None = None
        #: UID of a StatefulSet -> the last templates that it has had; the newest is the last.
        self._templates: dict[str, deque[Json]] = {}
        #: UID of a DaemonSet -> its spec, and its nodes; empty after a change of nodes.
        self._eligible: dict[str, tuple[Any, dict[str, bool]]] = {}

    def pods_of(self, workload: Workload) -> list[Pod]:
        """Returns the pods that a workload controls, by creation."""
        metadata = workload.metadata
        return [*self._pods_by_owner().get((metadata.uid, metadata.namespace), {}).values()]

    def orphans(self, namespace: str) -> Iterable[Pod]:
        """Returns the pods of a namespace that nothing controls."""
        return self._pods_by_owner().get(("", namespace), {}).values()

    def _pods_by_owner(self) -> dict[tuple[str, str], dict[str, Pod]]:
        if self._by_owner is None:
            self._by_owner = {}
            for pod_key, pod in self.pods.items():
                owner = _owner_key(controller_of(pod.metadata), pod.metadata.namespace)
                self._by_owner.setdefault(owner, {})[pod_key] = pod
        return self._by_owner

    def workloads_in(self, kind: str, namespace: str) -> Iterator[Workload]:
        """Returns the workloads of a kind in a namespace."""
        for workload in self.workloads[kind].values():
            if workload.metadata.namespace == namespace:
                yield workload

    def eligible_nodes(self, workload: Workload, find: FindNodes) -> dict[str, bool]:
        """Returns the nodes that ``find`` finds for a DaemonSet; cached until one changes."""
        cached = self._eligible.get(workload.metadata.uid)
        if cached is None or cached[0] is not workload.spec:
            cached = self._eligible[workload.metadata.uid] = workload.spec, find(workload, self)
        return cached[1]

    def templates_of(self, workload: Workload) -> Iterable[Json]:
        """Returns the last templates that a StatefulSet has had; the newest is the last."""
        return self._templates.get(workload.metadata.uid, ())

    # -- changes ----------------------------------------------------------------------------------

    def apply(self, kind: str, change: ObjectChange) -> list[WorkloadKey]:
        """Stores a change; returns the workloads that it concerns."""
        if kind == "Pod":
            return self._apply_pod(change.old, change.new)
        if kind == "Node":
            return self._apply_node(change.old, change.new)
        return self._apply_workload(kind, change.old, change.new)

    def _apply_pod(self, old: Pod | None, new: Pod | None) -> list[WorkloadKey]:
        pod = new if new is not None else old
        if pod is None:
            return []
        pod_key = key(pod)
        if old is not None:
            self.pods.pop(pod_key, None)  # a changed pod moves to the end
        if new is not None:
            self.pods[pod_key] = new
        if self._by_owner is None:
            return []
        namespace, owner = pod.metadata.namespace, controller_of(pod.metadata)
        owners = [owner]
        if old is not None:
            if old.metadata.owner_references is not pod.metadata.owner_references:
                owners.insert(0, controller_of(old.metadata))
            self._by_owner.get(_owner_key(owners[0], namespace), {}).pop(pod_key, None)
        if new is not None:
            self._by_owner.setdefault(_owner_key(owner, namespace), {})[pod_key] = new
        if old is not None and new is not None and _same_for_owners(old, new):
            return []
        concerned = [
            (own.kind, f"{namespace}/{own.name}")
            for own in owners
            if own is not None and own.kind in self.workloads
        ]
        if new is None and concerned:  # Recreate waits for the last pod of a Deployment
            concerned += self._owner_of_workload(concerned[0])
        if new is not None and owner is None:
            concerned += self._matching(new)
        return list(dict.fromkeys(concerned))

    def _owner_of_workload(self, workload_key: WorkloadKey) -> list[WorkloadKey]:
        kind, object_key = workload_key
        workload = self.workloads[kind].get(object_key)
        return [] if workload is None else _controller_key(workload, self.workloads)

    def _matching(self, pod: Pod) -> Iterator[WorkloadKey]:
        """Returns the workloads that may adopt a pod."""
        for kind in self.workloads:
            if kind in ("Deployment", "CronJob") or not self.workloads[kind]:
                continue
            for workload in self.workloads_in(kind, pod.metadata.namespace):
                if selector_of(workload).matches(pod.metadata.labels):
                    yield kind, workload.key

    def _apply_node(self, old: Node | None, new: Node | None) -> list[WorkloadKey]:
        if old is not None:
            self.nodes.pop(old.metadata.name, None)
        if new is not None:
            self.nodes[new.metadata.name] = new
        if old is not None and new is not None and _same_for_daemons(old, new):
            return []
        self._eligible.clear()
        return [("DaemonSet", name) for name in self.workloads.get("DaemonSet", {})]

    def _apply_workload(
        self, kind: str, old: Workload | None, new: Workload | None
    ) -> list[WorkloadKey]:
        workload = new if new is not None else old
        if workload is None:
            return []
        self._pods_by_owner()  # from now on, changes of pods concern workloads
        if new is None:
            self.workloads[kind].pop(workload.key, None)
            self._templates.pop(workload.metadata.uid, None)
            self.job_records.pop(workload.metadata.uid, None)
        else:
            self.workloads[kind][workload.key] = new
            if kind == "StatefulSet":
                self._note_template(new)
        concerned = [(kind, workload.key), *_controller_key(workload, self.workloads)]
        if kind == "ReplicaSet" and len(concerned) == 1:
            concerned += [
                ("Deployment", other.key)
                for other in self.workloads_in("Deployment", workload.metadata.namespace)
                if selector_of(other).matches(workload.metadata.labels)
            ]
        return concerned

    def _note_template(self, workload: Workload) -> None:
        template = workload.spec["template"]
        templates = self._templates.setdefault(workload.metadata.uid, deque(maxlen=TEMPLATES_MAX))
        if not templates or templates[-1] != template:
            templates.append(template)


def _controller_key(workload: Workload, kinds: dict[str, Any]) -> list[WorkloadKey]:
    owner: OwnerReference | None = controller_of(workload.metadata)
    if owner is None or owner.kind not in kinds:
        return []
    return [(owner.kind, f"{workload.metadata.namespace}/{owner.name}")]


def _owner_key(owner: OwnerReference | None, namespace: str) -> tuple[str, str]:
    return ("" if owner is None else owner.uid, namespace)


def _same_for_owners(old: Pod, new: Pod) -> bool:
    """Returns whether no controller cares about a change, as about a binding."""
    before, after = old.metadata, new.metadata
    return (
        old.status.phase == new.status.phase
        and before.deletion_timestamp == after.deletion_timestamp
        and before.labels == after.labels
        and before.owner_references == after.owner_references
        and (old.status.conditions is new.status.conditions or _ready(old) == _ready(new))
    )


def _ready(pod: Pod) -> list[str]:
    return [item.status for item in pod.status.conditions if item.type == "Ready"]


def _same_for_daemons(old: Node, new: Node) -> bool:
    return old.metadata.labels == new.metadata.labels and old.spec == new.spec
