"""Resource utilization of a cluster: per node, per group of similar nodes, and in total.

Plain arithmetic over objects, independent of the scheduler's own state, so that an error there
does not reach the reports. Units are a scheduler's: cpu in millicores, other resources in whole
units (memory in bytes).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from mooring.client import ObjectChange
from mooring.objects.meta import KubernetesObject, key
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.objects.requests import allocatable_units, pod_requests, scheduler_units

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"

#: Labels with a node's machine type; the values of those present name the group.
KIND_LABELS: Final = (
    "node.kubernetes.io/instance-type",
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "alibabacloud.com/gpu-card-model",
)

#: Size of the cache of requests by spec; the openb trace has 200 specs for 8 000 pods.
_SPEC_CACHE_SIZE: Final = 10_000

Amounts = dict[str, int]
_encode = msgspec.msgpack.Encoder().encode


class NodeUtilization:
    """One node: its allocatable amounts and the sum of its pods' requests, pod count included."""

    __slots__ = ("allocatable", "group", "name", "requested")

    def __init__(self, name: str, allocatable: Amounts, group: str) -> None:
        """Starts without pods."""
        self.name = name
        self.allocatable = allocatable
        self.group = group
        self.requested: Amounts = {}

    def free(self, resource: str) -> int:
        """Returns the unrequested amount of a resource; negative if the node is overcommitted."""
        return self.allocatable.get(resource, 0) - self.requested.get(resource, 0)

    def share(self) -> float:
        """Returns requested / allocatable, the mean over the resources except pods, 0..1."""
        shares = [
            self.requested.get(resource, 0) / amount
            for resource, amount in self.allocatable.items()
            if amount > 0 and resource != PODS
        ]
        return sum(shares) / len(shares) if shares else 0.0


class Utilization:
    """Requests and allocatable amounts of a cluster's nodes, updated pod by pod.

    Complexity: ``add`` and ``remove`` are O(resources that the pod requests).
    """

    def __init__(
        self, objects: Iterable[KubernetesObject] = (), *, pending: Iterable[Pod] = ()
    ) -> None:
        """Starts with the nodes among ``objects`` and the pods placed on them.

        ``pending``: further pods, whose resources must not be confused with those of the nodes.
        """
        self.names = ResourceNames()
        self.nodes: dict[str, NodeUtilization] = {}
        self.allocatable: Amounts = {}
        self.requested: Amounts = {}
        self._placements: dict[str, tuple[str, Amounts]] = {}
        self._by_spec: dict[bytes, Amounts] = {}
        pods, nodes = [], []
        for obj in objects:
            if isinstance(obj, Node):
                nodes.append(obj)
                self.names.add(obj.status.allocatable)
            elif isinstance(obj, Pod) and obj.spec.node_name:
                pods.append(obj)
        for pod in pending:
            self.names.add(self.requests(pod))
        for node in nodes:
            self._add_node(node)
        for pod in pods:
            self.add(pod, pod.spec.node_name)

    def requests(self, pod: Pod) -> Amounts:
        """Returns the pod's requests, 1 of ``pods`` included. Read only."""
        spec = pod.spec
        spec_key = _encode((spec.containers, spec.init_containers, spec.overhead, spec.resources))
        cached = self._by_spec.get(spec_key)
        if cached is not None:
            return cached
        amounts = {**scheduler_units(pod_requests(pod)), PODS: 1}
        amounts = {resource: amount for resource, amount in amounts.items() if amount}
        if len(self._by_spec) < _SPEC_CACHE_SIZE:
            self._by_spec[spec_key] = amounts
        return amounts

    def add(self, pod: Pod, node_name: str) -> None:
        """Adds a pod to a node; an unknown node is ignored."""
        pod_key = key(pod)
        self.remove(pod_key)
        node = self.nodes.get(node_name)
        if node is None:
            return
        amounts = self.requests(pod)
        self._placements[pod_key] = node_name, amounts
        for resource, amount in amounts.items():
            node.requested[resource] = node.requested.get(resource, 0) + amount
            self.requested[resource] = self.requested.get(resource, 0) + amount

    def remove(self, pod_key: str) -> None:
        """Removes a pod; an unknown pod is ignored."""
        node_name, amounts = self._placements.pop(pod_key, ("", {}))
        for resource, amount in amounts.items():
            self.nodes[node_name].requested[resource] -= amount
            self.requested[resource] -= amount

    def on_change(self, kind: str, change: ObjectChange) -> None:
        """Follows the writes of a cluster: adds a bound pod to its node, removes a deleted one."""
        if kind != "Pod":
            return
        old, new = change.old, change.new
        if new is None:
            self.remove(key(old))
        elif new.spec.node_name and (old is None or not old.spec.node_name):
            self.add(new, new.spec.node_name)

    def groups(self) -> dict[str, list[NodeUtilization]]:
        """Returns the nodes by group; largest group first, ties in order of arrival."""
        groups: dict[str, list[NodeUtilization]] = {}
        for node in self.nodes.values():
            groups.setdefault(node.group, []).append(node)
        return dict(sorted(groups.items(), key=lambda item: -len(item[1])))

    def _add_node(self, node: Node) -> None:
        allocatable = allocatable_units(node.status.allocatable)
        name = node.metadata.name
        self.nodes[name] = NodeUtilization(
            name, allocatable, group_name(node, allocatable, names=self.names)
        )
        for resource, amount in allocatable.items():
            self.allocatable[resource] = self.allocatable.get(resource, 0) + amount


class ResourceNames:
    """Short names of the resources of a cluster: without the domain where that is unambiguous.

    Example:
        >>> names = ResourceNames(["cpu", "nvidia.com/gpu", "amd.com/gpu", "x.com/disk"])
        >>> names.short("nvidia.com/gpu"), names.short("x.com/disk")
        ('nvidia.com/gpu', 'disk')
    """

    def __init__(self, resources: Iterable[str] = ()) -> None:
        """Starts with these resources."""
        self._by_short_name: dict[str, set[str]] = {}
        self.add(resources)

    def add(self, resources: Iterable[str]) -> None:
        """Adds resources; names that were unambiguous may become ambiguous."""
        for resource in resources:
            self._by_short_name.setdefault(short_name(resource), set()).add(resource)

    def short(self, resource: str) -> str:
        """Returns the name without its domain, unless another resource is called the same."""
        short = short_name(resource)
        return short if len(self._by_short_name.get(short, ())) < 2 else resource


def group_name(node: Node, allocatable: Amounts, *, names: ResourceNames | None = None) -> str:
    """Returns the name of a node's group: its machine type by label, and its resources.

    ``names`` are those of the cluster; None = the node has all resources that matter.

    Example:
        >>> from mooring.objects.meta import ObjectMeta
        >>> labels = {"node.kubernetes.io/instance-type": "m5.large"}
        >>> group_name(Node(metadata=ObjectMeta(labels=labels)), {"cpu": 1930, "pods": 29})
        'm5.large, 1.93 cpu'
    """
    kinds = [node.metadata.labels[label] for label in KIND_LABELS if label in node.metadata.labels]
    return ", ".join([*kinds, *_amount_texts(allocatable, names)]) or "no resources"


def amounts_text(amounts: Amounts, *, names: ResourceNames | None = None) -> str:
    """Formats amounts for display, without the number of pods; ``names``: see ``group_name``.

    Example:
        >>> amounts_text({"cpu": 1500, "memory": 1 << 31, "x.com/gpu": 2, "pods": 1})
        '1.5 cpu, 2Gi memory, 2 gpu'
    """
    return ", ".join(_amount_texts(amounts, names)) or "nothing"


#: The resources in bytes besides memory.
_IN_BYTES: Final = ("ephemeral-storage", "hugepages-")
#: Exponents of the units of bytes, and from how many of them on they are used: below 4 Ti it is Gi,
#: so that nodes of one cluster have the same unit.
_BYTE_UNITS: Final = ((40, 4), (30, 1), (20, 1), (10, 1))


def amount_text(resource: str, amount: int) -> str:
    """Formats an amount without its resource's name: cores, binary units of bytes, or a number."""
    if resource == CPU:
        return f"{amount / 1000:.3f}".rstrip("0").rstrip(".")
    if resource == MEMORY or resource.startswith(_IN_BYTES):
        return _bytes_text(amount)
    return str(amount)


def printed_amount(resource: str, amount: int, *, rounds_up: bool) -> int:
    """Returns the next amount that ``amount_text`` prints exactly, at or above it, or below.

    A manifest with the printed text then has this amount.

    Example:
        >>> amount_text("memory", 1_090_000_000)
        '1Gi'
        >>> amount_text("memory", printed_amount("memory", 1_090_000_000, rounds_up=True))
        '1.1Gi'
    """
    if resource != MEMORY and not resource.startswith(_IN_BYTES):
        return amount
    for exponent, least in _BYTE_UNITS:
        unit = 1 << exponent
        if amount >= unit * least:
            tenths = -(-amount * 10 // unit) if rounds_up else amount * 10 // unit
            return -(-tenths * unit // 10)
    return amount


def short_name(resource: str) -> str:
    """Returns a resource's name without its domain."""
    return resource.rpartition("/")[2]


def _amount_texts(amounts: Amounts, names: ResourceNames | None) -> Iterator[str]:
    names = names or ResourceNames(amounts)
    for resource in sorted(amounts, key=_rank):
        if resource != PODS and amounts[resource]:
            yield f"{amount_text(resource, amounts[resource])} {names.short(resource)}"


def _rank(resource: str) -> int:
    """Returns the place of a resource in a list: cpu, memory, the others as they come."""
    return (CPU, MEMORY).index(resource) if resource in (CPU, MEMORY) else 2


def _bytes_text(amount_bytes: int) -> str:
    for (exponent, least), unit in zip(_BYTE_UNITS, ("Ti", "Gi", "Mi", "Ki"), strict=True):
        if abs(amount_bytes) >= (1 << exponent) * least:
            return f"{amount_bytes / (1 << exponent):.1f}".removesuffix(".0") + unit
    return str(amount_bytes)
