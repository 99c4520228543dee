"""NodeInfo: one node as a plain Python object, the argument of ``@per_node`` methods."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.objects.node import Node, Taint
from mooring.objects.quantity import wrap_int64
from mooring.state.columns.ports import HostPort
from mooring.state.snapshot import Snapshot
from mooring.state.tables.nodes import NodeTable
from mooring.state.tables.pods import PodInfo


class NodeInfo:
    """A node and its pods; a hypothetical node has pods added or removed.

    Amounts are ints in scheduler units: cpu in millicores, everything else in units. Attributes
    are computed when they are read.
    """

    __slots__ = ("_added", "_nodes", "_pods", "_removed", "_row", "_snapshot", "node")

    def __init__(
        self,
        snapshot: Snapshot,
        row: int,
        added: tuple[PodInfo, ...] = (),
        removed: tuple[PodInfo, ...] = (),
    ) -> None:
        #: The Node object.
        self.node: Node = snapshot.nodes.node(row)
        self._nodes: NodeTable = snapshot.nodes
        self._snapshot = snapshot
        self._row = row
        self._added = added
        self._removed = removed
        self._pods: tuple[PodInfo, ...] | None = None

    def __repr__(self) -> str:
        return f"NodeInfo({self.name})"

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels."""
        return self.node.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """The node's annotations."""
        return self.node.metadata.annotations

    @property
    def taints(self) -> tuple[Taint, ...]:
        """The node's taints."""
        return self.node.spec.taints

    @property
    def unschedulable(self) -> bool:
        """True if the node is cordoned."""
        return self.node.spec.unschedulable

    @property
    def allowed_pods(self) -> int:
        """The maximum number of pods on the node."""
        return self._nodes.allowed_pods.item(self._row)

    @property
    def pods(self) -> tuple[PodInfo, ...]:
        """The pods on the node."""
        if self._pods is None:
            removed = {pod.uid for pod in self._removed}
            placed = self._snapshot.pods.on_row(self._row)
            pods = (*(pod.info for pod in placed), *self._added)
            self._pods = tuple(pod for pod in pods if pod.uid not in removed)
        return self._pods

    @property
    def pod_count(self) -> int:
        """The number of pods on the node."""
        count = self._nodes.pod_count.item(self._row)
        return count + len(self._added) - len(self._removed)

    def allocatable(self, resource: str) -> int:
        """Returns the allocatable amount of ``resource``; 0 if the node has none."""
        index = self._nodes.resource_id(resource)
        return self._nodes.allocatable.item(index, self._row) if index >= 0 else 0

    def requested(self, resource: str) -> int:
        """Returns the amount of ``resource`` that the pods on the node request."""
        index = self._nodes.resource_id(resource)
        amount = self._nodes.requested.item(index, self._row) if index >= 0 else 0
        if not self._added and not self._removed:
            return amount
        amount += sum(pod.usage.get(resource, 0) for pod in self._added)
        return wrap_int64(amount - sum(pod.usage.get(resource, 0) for pod in self._removed))

    def amounts(self, resource: str) -> tuple[int, int]:
        """Returns ``allocatable`` and ``requested`` of one resource."""
        if self._added or self._removed:
            return self.allocatable(resource), self.requested(resource)
        nodes, row = self._nodes, self._row
        index = nodes.resources.ids.get(resource)
        if index is None:
            return 0, 0
        return nodes.allocatable.item(index, row), nodes.requested.item(index, row)

    def free(self, resource: str) -> int:
        """Returns ``allocatable`` minus ``requested``; negative on an overcommitted node."""
        return wrap_int64(self.allocatable(resource) - self.requested(resource))

    def nonzero_requested(self) -> tuple[int, int]:
        """Returns (cpu millicores, memory bytes) requested, with defaults for missing requests."""
        cpu_milli = self._nodes.nonzero_requested.item(0, self._row)
        memory_bytes = self._nodes.nonzero_requested.item(1, self._row)
        if not self._added and not self._removed:
            return cpu_milli, memory_bytes
        for sign, pods in ((1, self._added), (-1, self._removed)):
            cpu_milli += sign * sum(pod.nonzero_usage[0] for pod in pods)
            memory_bytes += sign * sum(pod.nonzero_usage[1] for pod in pods)
        return wrap_int64(cpu_milli), wrap_int64(memory_bytes)

    def used_ports(self) -> set[HostPort]:
        """Returns the host ports in use. Complexity: O(pods on the node)."""
        return {port for pod in self.pods for port in pod.host_ports}

    def images(self) -> dict[str, tuple[int, int]]:
        """Returns image name -> (size in bytes, number of nodes that have it), of this node."""
        images: dict[str, tuple[int, int]] = {}
        for name in self._nodes.images.names(self._row):
            state = self._nodes.images.get(name)
            if state is not None:
                images[name] = (state.size_bytes, len(state.rows))
        return images

    @property
    def node_count(self) -> int:
        """The number of nodes of the cluster."""
        return len(self._nodes)
