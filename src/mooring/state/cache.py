"""What the scheduler believes about the cluster, and the only thing that may change it.

::

             assume                    put_pod (the API server agrees)
    (absent) ------> assumed ----------------------------> added
        ^               |                                    |  put_pod: a newer version
        +---------------+------------------------------------+
           forget (binding failed)      remove_pod (deleted, or finished)

Nodes and pods come from different watches, so a pod may stand on a node that is not there yet, or
not any more: its row is a ghost, which keeps the sums right and takes no new pods.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol

from mooring.errors import InvariantViolation
from mooring.objects import Node, Pod
from mooring.objects.meta import key
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

#: Phases after which a pod uses nothing; upstream's informer never shows such pods.
FINISHED_PHASES = ("Succeeded", "Failed")


class ObjectStore(Protocol):
    """Keeps the objects of some kinds in the form in which plugins ask for them."""

    def put(self, obj: Any) -> None:
        """Takes in an object, or a newer version of one."""
        ...

    def remove(self, kind: str, object_key: str) -> None:
        """The object called ``namespace/name`` or ``name`` is gone. Unknown ones are fine."""
        ...


class Reservation:
    """Capacity that an assumed pod holds: given back when the block ends, unless kept.

    Example::

        with cache.assume(info, "node-1") as held:
            ...                       # Reserve, Permit: whatever is raised, the room is given back
            held.keep()
    """

    __slots__ = ("_cache", "info", "is_kept", "node_name")

    def __init__(self, cache: Cache, info: PodInfo, node_name: str) -> None:
        self._cache = cache
        self.info = info
        self.node_name = node_name
        self.is_kept = False

    def keep(self) -> None:
        """Holds on to the capacity after the block: the pod is bound, or its binding goes on."""
        self.is_kept = True

    def __enter__(self) -> Reservation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.is_kept:
            self._cache.forget(self.info.uid)


class Cache:
    """Nodes, the pods on them, and nominations, keyed by UID.

    Source: pkg/scheduler/backend/cache/cache.go. *Differs:* keyed by UID alone, so that a pod that
    was deleted and made anew under its name is never taken for the old one; no copy for snapshots.
    """

    def __init__(self) -> None:
        self.nodes = NodeTable()
        self.pods = PodTable()
        self.counters = PodCounters(self.pods, self.nodes.capacity)
        self.terms = PodTermTable(self.nodes.capacity)
        self.device_classes = DeviceClasses()
        self.namespaces = Namespaces()
        self.workloads = Workloads()
        self.storage = Storage(self.nodes)
        self.budgets = Budgets()
        self.nominator = Nominator()
        #: Kind -> who keeps its objects, of the kinds that are neither pods nor nodes.
        self._keepers: dict[str, ObjectStore] = {
            "DeviceClass": self.device_classes,
            "Namespace": self.namespaces,
            "PodDisruptionBudget": self.budgets,
            **dict.fromkeys(WORKLOAD_KINDS, self.workloads),
            **dict.fromkeys(STORAGE_KINDS, self.storage),
        }
        self._parts = InternPool()
        self._assumed: dict[str, None] = {}
        self._uid_of: dict[str, str] = {}

    def snapshot(self) -> Snapshot:
        """Returns the present state, for one cycle. Complexity: O(1)."""
        return Snapshot(
            nodes=self.nodes,
            pods=self.pods,
            counters=self.counters,
            terms=self.terms,
            device_classes=self.device_classes,
            namespaces=self.namespaces,
            workloads=self.workloads,
            storage=self.storage,
            budgets=self.budgets,
            nominator=self.nominator,
            generation=self.nodes.log.generation,
        )

    # -- other objects ----------------------------------------------------------------------------

    def put_object(self, kind: str, obj: Any) -> None:
        """An object that is neither pod nor node is new, or changed; unread kinds are passed over.

        Complexity: what the kind's keeper needs.
        """
        keeper = self._keepers.get(kind)
        if keeper is not None:
            keeper.put(obj)

    def remove_object(self, kind: str, object_key: str) -> None:
        """Such an object, called ``namespace/name`` or ``name``, is gone."""
        keeper = self._keepers.get(kind)
        if keeper is not None:
            keeper.remove(kind, object_key)

    # -- nodes ------------------------------------------------------------------------------------

    def put_node(self, node: Node) -> None:
        """A node was added or changed."""
        is_new = self.nodes.live_row(node.metadata.name) < 0
        self.nodes.put(node)
        if is_new:
            self.storage.renew_row(node.metadata.name)
        self.counters.grow(self.nodes.capacity)
        self.terms.grow(self.nodes.capacity)

    def remove_node(self, name: str) -> None:
        """A node was deleted; pods still on it keep counting until their own events come.

        Unknown nodes are fine: a relist may tell of a deletion twice.
        """
        if self.nodes.live_row(name) >= 0:
            self.nodes.remove(name)

    # -- pods -------------------------------------------------------------------------------------

    def assume(self, info: PodInfo, node_name: str) -> Reservation:
        """Counts a pod on the node it was just decided for, before the API server knows.

        Raises:
            InvariantViolation: if the pod is on a node already.
        """
        if self.pods.get(info.uid) is not None:
            raise InvariantViolation(f"pod {info.key} ({info.uid}) is in the cache already")
        self._place(info, node_name)
        self._assumed[info.uid] = None
        return Reservation(self, info, node_name)

    def confirm(self, uid: str) -> None:
        """The API server says of an assumed pod exactly what was assumed. Complexity: O(1).

        Raises:
            InvariantViolation: if the pod is not assumed.
        """
        placed = self.pods.get(uid)
        if placed is None or uid not in self._assumed:
            raise InvariantViolation(f"pod {uid} is not assumed, so it cannot be confirmed")
        del self._assumed[uid]
        self.nominator.remove(uid)

    def forget(self, uid: str) -> None:
        """Gives back what an assumed pod holds: its binding surely failed. Unknown pods are fine.

        Raises:
            InvariantViolation: if the API server already confirmed the pod.
        """
        if self.pods.get(uid) is None:
            return
        if uid not in self._assumed:
            raise InvariantViolation(f"pod {uid} is confirmed, so it cannot be forgotten")
        self._remove_from_node(uid)

    def put_pod(self, pod: Pod) -> None:
        """The API server says that this pod is on its ``spec.nodeName``.

        It is new, or it confirms what was assumed (there or elsewhere: the API server is right),
        or it is a newer version. A pod of the same name with another UID is replaced by it in one
        step. A finished pod is removed.

        Raises:
            InvariantViolation: if a confirmed pod moved to another node, which no API server does.
        """
        if not pod.spec.node_name:
            raise InvariantViolation(f"pod {key(pod)} is not on a node")
        if pod.status.phase in FINISHED_PHASES:
            self.remove_pod(pod.metadata.uid)
            return
        info = self._parts.pod_info(pod)
        predecessor = self._uid_of.get(info.key)
        if predecessor is not None and predecessor != info.uid:
            self._remove_from_node(predecessor)
        placed = self.pods.get(info.uid)
        if placed is not None:
            at = self.nodes.names[placed.row]
            if at != info.node_name and info.uid not in self._assumed:
                raise InvariantViolation(f"pod {info.key} moved from {at} to {info.node_name}")
            if at == info.node_name and placed.info.computed() == info.computed():
                # Most news of a pod is about its status: the columns stay as they are.
                self.counters.update(placed, info)
                self.terms.update(placed, info)
                self.storage.use.update(placed, info)
                self.pods.update(placed, info)
                self._assumed.pop(info.uid, None)
                self.nominator.remove(info.uid)
                return
            self._remove_from_node(info.uid)
        self._place(info, info.node_name)
        self.nominator.remove(info.uid)

    def pending_info(self, pod: Pod) -> PodInfo:
        """Returns the PodInfo of a pod that waits for a node; the cache does not keep it."""
        return self._parts.pending_info(pod)

    def remove_pod(self, uid: str) -> None:
        """The pod is deleted or finished. Unknown pods are fine: deletions may be told twice."""
        self.nominator.remove(uid)
        if self.pods.get(uid) is not None:
            self._remove_from_node(uid)

    def remove_pod_by_key(self, key: str) -> None:
        """As ``remove_pod``, of the pod called ``namespace/name``."""
        uid = self._uid_of.get(key)
        if uid is not None:
            self.remove_pod(uid)
        else:
            self.nominator.remove_by_key(key)

    def is_assumed(self, uid: str) -> bool:
        """Returns whether the pod is counted on a node that the API server has not confirmed."""
        return uid in self._assumed

    def assumed_count(self) -> int:
        """How many pods are assumed; 0 when nothing is being bound."""
        return len(self._assumed)

    def _place(self, info: PodInfo, node_name: str) -> None:
        placed = self.nodes.place(info, node_name)
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
        self.nodes.displace(placed)
        self._assumed.pop(uid, None)
        if self._uid_of.get(placed.info.key) == uid:
            del self._uid_of[placed.info.key]
