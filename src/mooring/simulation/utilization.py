"""How full a cluster is: per node, per group of like nodes, and in all.

Plain arithmetic over objects, kept apart from the scheduler's own state on purpose: what a report
says does not depend on what it reports about. Units are a scheduler's: cpu in millicores, all else
in whole units (memory in bytes).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from mooring.objects.meta import KubernetesObject, key
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.objects.requests import allocatable_units, pod_requests, scheduler_units

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"

#: Labels that say what kind of machine a node is; all that are there name the group.
KIND_LABELS: Final = (
    "node.kubernetes.io/instance-type",
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "alibabacloud.com/gpu-card-model",
)

#: Requests by spec are kept for so many specs; the trace has 200 of them for 8 000 pods.
_KEPT_SPECS: Final = 10_000

Amounts = dict[str, int]
_encode = msgspec.msgpack.Encoder().encode


class NodeFill:
    """One node: what pods may use, what the pods on it ask for, and how many they are."""

    __slots__ = ("allocatable", "group", "name", "requested")

    def __init__(self, name: str, allocatable: Amounts, group: str) -> None:
        """Starts empty."""
        self.name = name
        self.allocatable = allocatable
        self.group = group
        self.requested: Amounts = {}

    def free(self, resource: str) -> int:
        """What is left of a resource; below zero if the node is overcommitted."""
        return self.allocatable.get(resource, 0) - self.requested.get(resource, 0)

    def share(self) -> float:
        """How full the node is: the mean over its resources, 0..1; the number of pods aside."""
        shares = [
            self.requested.get(resource, 0) / amount
            for resource, amount in self.allocatable.items()
            if amount > 0 and resource != PODS
        ]
        return sum(shares) / len(shares) if shares else 0.0


class Fill:
    """The nodes of a cluster and what is on them; told of every pod that comes or goes.

    Complexity: ``add`` and ``remove`` cost the number of resources that the pod asks for.
    """

    def __init__(self, objects: Iterable[KubernetesObject] = ()) -> None:
        """Starts with the nodes among ``objects`` and the pods that are on them."""
        self.nodes: dict[str, NodeFill] = {}
        self.allocatable: Amounts = {}
        self.requested: Amounts = {}
        self._where: dict[str, tuple[str, Amounts]] = {}
        self._by_spec: dict[bytes, Amounts] = {}
        pods = []
        for obj in objects:
            if isinstance(obj, Node):
                self._add_node(obj)
            elif isinstance(obj, Pod) and obj.spec.node_name:
                pods.append(obj)
        for pod in pods:
            self.add(pod, pod.spec.node_name)

    def requests(self, pod: Pod) -> Amounts:
        """What the pod asks for, the place among the node's pods included; do not change it."""
        spec = pod.spec
        asked = _encode((spec.containers, spec.init_containers, spec.overhead, spec.resources))
        known = self._by_spec.get(asked)
        if known is not None:
            return known
        amounts = {**scheduler_units(pod_requests(pod)), PODS: 1}
        amounts = {resource: amount for resource, amount in amounts.items() if amount}
        if len(self._by_spec) < _KEPT_SPECS:
            self._by_spec[asked] = amounts
        return amounts

    def add(self, pod: Pod, node_name: str) -> None:
        """Counts a pod on a node; on a node that is not there it counts nowhere."""
        pod_key = key(pod)
        self.remove(pod_key)
        node = self.nodes.get(node_name)
        if node is None:
            return
        amounts = self.requests(pod)
        self._where[pod_key] = node_name, amounts
        for resource, amount in amounts.items():
            node.requested[resource] = node.requested.get(resource, 0) + amount
            self.requested[resource] = self.requested.get(resource, 0) + amount

    def remove(self, pod_key: str) -> None:
        """Counts a pod no longer; one that is not known changes nothing."""
        node_name, amounts = self._where.pop(pod_key, ("", {}))
        for resource, amount in amounts.items():
            self.nodes[node_name].requested[resource] -= amount
            self.requested[resource] -= amount

    def groups(self) -> dict[str, list[NodeFill]]:
        """Groups -> its nodes; the largest group first, equal ones in order of arrival."""
        groups: dict[str, list[NodeFill]] = {}
        for node in self.nodes.values():
            groups.setdefault(node.group, []).append(node)
        return dict(sorted(groups.items(), key=lambda item: -len(item[1])))

    def _add_node(self, node: Node) -> None:
        allocatable = allocatable_units(node.status.allocatable)
        name = node.metadata.name
        self.nodes[name] = NodeFill(name, allocatable, group_name(node, allocatable))
        for resource, amount in allocatable.items():
            self.allocatable[resource] = self.allocatable.get(resource, 0) + amount


def group_name(node: Node, allocatable: Amounts) -> str:
    """What a node has in common with its like: its kind by label, and its resources.

    Example:
        >>> from mooring.objects.meta import ObjectMeta
        >>> labels = {"node.kubernetes.io/instance-type": "m5.large"}
        >>> group_name(Node(metadata=ObjectMeta(labels=labels)), {"cpu": 1930, "pods": 29})
        'm5.large, 1.93 cpu'
    """
    kinds = [node.metadata.labels[label] for label in KIND_LABELS if label in node.metadata.labels]
    return ", ".join([*kinds, *_told(allocatable)]) or "no resources"


def amounts_text(amounts: Amounts) -> str:
    """Amounts for a person, the number of pods aside.

    Example:
        >>> amounts_text({"cpu": 1500, "memory": 1 << 31, "x.com/gpu": 2, "pods": 1})
        '1.5 cpu, 2Gi memory, 2 gpu'
    """
    return ", ".join(_told(amounts)) or "nothing"


def amount_text(resource: str, amount: int) -> str:
    """An amount without the name of its resource: cores, binary units of bytes, or a number."""
    if resource == CPU:
        return f"{amount / 1000:.3f}".rstrip("0").rstrip(".")
    if resource == MEMORY or resource.startswith(("ephemeral-storage", "hugepages-")):
        return _bytes_text(amount)
    return str(amount)


def short_name(resource: str) -> str:
    """Returns a resource's name without its domain."""
    return resource.rpartition("/")[2]


def _told(amounts: Amounts) -> Iterator[str]:
    for resource, amount in amounts.items():
        if resource != PODS and amount:
            yield f"{amount_text(resource, amount)} {short_name(resource)}"


def _bytes_text(amount_bytes: int) -> str:
    for exponent, unit in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
        # Up to 4 Ti stay in Gi: nodes of one cluster should read alike.
        if abs(amount_bytes) >= (1 << exponent) * (4 if exponent == 40 else 1):
            return f"{amount_bytes / (1 << exponent):.1f}".removesuffix(".0") + unit
    return str(amount_bytes)
