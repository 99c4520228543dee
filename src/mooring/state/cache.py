"""The scheduler's view of the cluster, and the only object that may change it.

::

             assume                    put_pod (the API server agrees)
    (absent) ------> assumed ----------------------------> added
        ^               |                                    |  put_pod: a newer version
        +---------------+------------------------------------+
           forget (binding failed)      remove_pod (deleted, or finished)

Nodes and pods come from different watches, so a pod may be on a node that the cache does not have
yet or no longer has: a placeholder row keeps the sums correct and takes no new pods.
"""

from __future__ import annotations

from typing import Any, Protocol

from mooring.dra import ALL_FEATURES, DeviceFeatures
from mooring.errors import InvariantViolation
from mooring.objects import Node, Pod
from mooring.objects.meta import key
from mooring.objects.pod import FINISHED_PHASES
from mooring.state.devices.devices import DEVICE_KINDS, Devices
from mooring.state.kinds.budgets import Budgets
from mooring.state.kinds.device_classes import DeviceClasses
from mooring.state.kinds.namespaces import Namespaces
from mooring.state.kinds.workloads import WORKLOAD_KINDS, Workloads
from mooring.state.nominator import Nominator
from mooring.state.snapshot import Snapshot
from mooring.state.tables.affinity_terms import PodTermTable
from mooring.state.tables.counters import PodCounters
from mooring.state.tables.nodes import NodeTable
from mooring.state.tables.pods import PodInfo, PodTable
from mooring.state.tables.shared_parts import InternPool
from mooring.state.volumes.storage import STORAGE_KINDS, Storage


class ObjectStore(Protocol):
    """Stores the objects of some kinds in the form that plugins read."""

    def put(self, obj: Any) -> None:
        """Adds or updates an object."""
        ...

    def remove(self, kind: str, object_key: str) -> None:
        """Removes the object ``namespace/name`` or ``name``. Unknown keys are ignored."""
        ...


class Reservation:
    """Capacity reserved by an assumed pod: released when the block ends, unless kept.

    Example::

        with cache.assume(info, "node-1") as reservation:
            ...                       # Reserve, Permit: any exception releases the capacity
            reservation.keep()
    """

    __slots__ = ("_cache", "info", "is_kept", "node_name")

    def __init__(self, cache: Cache, info: PodInfo, node_name: str) -> None:
        self._cache = cache
        self.info = info
        self.node_name = node_name
        self.is_kept = False

    def keep(self) -> None:
        """Keeps the capacity after the block: the pod is bound, or its binding continues."""
        self.is_kept = True

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.is_kept:
            self._cache.forget(self.info.uid)


class Cache:
    """Nodes, pods on nodes keyed by UID, nominations, and the other objects plugins read.

    Source: pkg/scheduler/backend/cache/cache.go. *Differs:* keyed by UID alone, so a pod that was
    deleted and recreated under its name is not mistaken for the old one; snapshots do not copy.
    """

    def __init__(self, device_features: DeviceFeatures = ALL_FEATURES) -> None:
        """Starts empty; ``device_features`` are the feature gates that concern devices."""
        self.nodes = NodeTable()
        self.pods = PodTable()
        self.counters = PodCounters(self.pods, self.nodes.capacity)
        self.terms = PodTermTable(self.nodes.capacity)
        self.device_classes = DeviceClasses(maps_resources=device_features.maps_resources)
        self.devices = Devices(self.device_classes, device_features)
        self.namespaces = Namespaces()
        self.workloads = Workloads()
        self.storage = Storage(self.nodes)
        self.budgets = Budgets()
        self.nominator = Nominator()
        #: Kind -> the store of its objects, for kinds other than pods and nodes.
        self._stores: dict[str, ObjectStore] = {
            "DeviceClass": self.device_classes,
            **dict.fromkeys(DEVICE_KINDS, self.devices),
            "Namespace": self.namespaces,
            "PodDisruptionBudget": self.budgets,
            **dict.fromkeys(WORKLOAD_KINDS, self.workloads),
            **dict.fromkeys(STORAGE_KINDS, self.storage),
        }
        self._snapshot = self._new_snapshot()
        self._parts = InternPool()
        self._assumed: dict[str, None] = {}
        self._uid_of: dict[str, str] = {}

    def snapshot(self) -> Snapshot:
        """Returns the current state, for one cycle. Complexity: O(1)."""
        if self._snapshot.generation != self.nodes.log.generation:
            self._snapshot = self._new_snapshot()
        return self._snapshot

    def _new_snapshot(self) -> Snapshot:
        return Snapshot(
            nodes=self.nodes,
            pods=self.pods,
            counters=self.counters,
            terms=self.terms,
            device_classes=self.device_classes,
            devices=self.devices,
            namespaces=self.namespaces,
            workloads=self.workloads,
            storage=self.storage,
            budgets=self.budgets,
            nominator=self.nominator,
            generation=self.nodes.log.generation,
        )

    # -- other objects ----------------------------------------------------------------------------

    def put_object(self, kind: str, obj: Any) -> None:
        """Adds or updates an object other than a pod or node; kinds without a store are ignored.

        Complexity: that of the kind's store.
        """
        store = self._stores.get(kind)
        if store is not None:
            store.put(obj)

    def remove_object(self, kind: str, object_key: str) -> None:
        """Removes such an object, by ``namespace/name`` or ``name``."""
        store = self._stores.get(kind)
        if store is not None:
            store.remove(kind, object_key)

    # -- nodes ------------------------------------------------------------------------------------

    def put_node(self, node: Node) -> None:
        """Adds or updates a node."""
        is_new = self.nodes.live_row(node.metadata.name) < 0
        self.nodes.put(node)
        if is_new:
            self.storage.update_row(node.metadata.name)
        self.counters.grow(self.nodes.capacity)
        self.terms.grow(self.nodes.capacity)

    def remove_node(self, name: str) -> None:
        """Removes a node; pods still on it are counted until their own events arrive.

        Unknown nodes are ignored: a relist may report a deletion twice.
        """
        if self.nodes.live_row(name) >= 0:
            self.nodes.remove(name)
            self.devices.slices.forget_node(name)

    def recount(self, name: str) -> None:
        """Sums up again what the pods of a node use: a repair after an audit."""
        row = self.nodes.row(name)
        if row >= 0:
            self.nodes.recount(row, self.pods.on_row(row))

    # -- pods -------------------------------------------------------------------------------------

    def assume(self, info: PodInfo, node_name: str) -> Reservation:
        """Counts a pod on the node chosen for it, before the API server confirms the binding.

        Raises:
            InvariantViolation: if the pod is on a node already.
        """
        if self.pods.get(info.uid) is not None:
            raise InvariantViolation(f"pod {info.key} ({info.uid}) is in the cache already")
        self._add_to_node(info, node_name)
        self._assumed[info.uid] = None
        return Reservation(self, info, node_name)

    def confirm(self, uid: str) -> None:
        """Confirms an assumed pod: the API server reports it as assumed. Complexity: O(1).

        Raises:
            InvariantViolation: if the pod is not assumed.
        """
        placed = self.pods.get(uid)
        if placed is None or uid not in self._assumed:
            raise InvariantViolation(f"cannot confirm pod {uid}: it is not assumed")
        del self._assumed[uid]
        self.nominator.remove(uid)

    def forget(self, uid: str) -> None:
        """Releases the capacity of an assumed pod whose binding failed. Unknown pods are ignored.

        Raises:
            InvariantViolation: if the API server already confirmed the pod.
        """
        if self.pods.get(uid) is None:
            return
        if uid not in self._assumed:
            raise InvariantViolation(f"cannot forget pod {uid}: it is confirmed")
        self._remove_from_node(uid)

    def put_pod(self, pod: Pod) -> None:
        """Adds or updates a pod that the API server reports on its ``spec.nodeName``.

        The pod is new, or it confirms an assumed pod (on the assumed node or another: the API
        server is authoritative), or it is a newer version. It replaces a pod of the same name with
        another UID in one step. A finished pod is removed.

        Raises:
            InvariantViolation: if a confirmed pod moved to another node, which no API server does.
        """
        if not pod.spec.node_name:
            raise InvariantViolation(f"pod {key(pod)} is not on a node")
        if pod.status.phase in FINISHED_PHASES:
            self.remove_pod(pod.metadata.uid)
            return
        assumed = self.pods.get(pod.metadata.uid)
        if assumed is not None and assumed.info.pod is pod:  # exactly as it was assumed
            self._assumed.pop(pod.metadata.uid, None)
            self.nominator.remove(pod.metadata.uid)
            return
        info = self._parts.pod_info(pod)
        predecessor = self._uid_of.get(info.key)
        if predecessor is not None and predecessor != info.uid:
            self._remove_from_node(predecessor)
        placed = self.pods.get(info.uid)
        if placed is not None:
            node_name = self.nodes.names[placed.row]
            if node_name != info.node_name and info.uid not in self._assumed:
                raise InvariantViolation(
                    f"pod {info.key} moved from {node_name} to {info.node_name}"
                )
            if node_name == info.node_name and placed.info.derived() == info.derived():
                # Most pod updates only change the status: the columns stay as they are.
                self.counters.update(placed, info)
                self.terms.update(placed, info)
                self.storage.use.update(placed, info)
                self.pods.update(placed, info)
                self._assumed.pop(info.uid, None)
                self.nominator.remove(info.uid)
                return
            self._remove_from_node(info.uid)
        self._add_to_node(info, info.node_name)
        self.nominator.remove(info.uid)

    def pending_info(self, pod: Pod) -> PodInfo:
        """Returns the PodInfo of a pending pod; the cache does not store it."""
        return self._parts.pending_info(pod)

    def remove_pod(self, uid: str) -> None:
        """Removes a deleted or finished pod. Unknown pods are ignored: deletions may repeat."""
        self.nominator.remove(uid)
        if self.pods.get(uid) is not None:
            self._remove_from_node(uid)

    def remove_pod_by_key(self, key: str) -> None:
        """Removes a pod by ``namespace/name``, as ``remove_pod`` does."""
        uid = self._uid_of.get(key)
        if uid is not None:
            self.remove_pod(uid)
        else:
            self.nominator.remove_by_key(key)

    def is_assumed(self, uid: str) -> bool:
        """Returns whether the pod is counted on a node that the API server has not confirmed."""
        return uid in self._assumed

    def assumed_uids(self) -> list[str]:
        """Returns the UIDs of the assumed pods."""
        return list(self._assumed)

    def assumed_count(self) -> int:
        """Returns the number of assumed pods; 0 when no pod is being bound."""
        return len(self._assumed)

    def _add_to_node(self, info: PodInfo, node_name: str) -> None:
        placed = self.nodes.add_pod(info, node_name)
        self.pods.add(placed)
        self.counters.grow(self.nodes.capacity)
        self.counters.add(placed)
        self.terms.grow(self.nodes.capacity)
        self.terms.add(placed)
        self.storage.use.add(placed)
        self._uid_of[info.key] = info.uid

    def _remove_from_node(self, uid: str) -> None:
        placed = self.pods.get(uid)
        assert placed is not None
        self.counters.remove(placed)
        self.terms.remove(placed)
        self.storage.use.remove(placed)
        self.pods.remove(uid)
        self.nodes.remove_pod(placed)
        self._assumed.pop(uid, None)
        if self._uid_of.get(placed.info.key) == uid:
            del self._uid_of[placed.info.key]


def empty_snapshot() -> Snapshot:
    """Returns the state of a cluster without any object."""
    return Cache().snapshot()
