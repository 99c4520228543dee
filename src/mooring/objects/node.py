"""Node: the machine that pods are placed on."""

from __future__ import annotations

from msgspec import field

from mooring.objects.meta import Int64, ObjectMeta, ResourceList, Wire


class Taint(Wire, frozen=True, kw_only=True):
    """What keeps pods away that do not tolerate it.

    ``effect``: NoSchedule, PreferNoSchedule, NoExecute.
    """

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(Wire, frozen=True, kw_only=True):
    """What people and controllers want of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeCondition(Wire, frozen=True, kw_only=True):
    """What the kubelet says about its node; ``status`` is "True", "False" or "Unknown"."""

    type: str = ""
    status: str = ""
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class ContainerImage(Wire, frozen=True, kw_only=True):
    """An image that a node already has, under all its names; its size in bytes."""

    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class NodeStatus(Wire, frozen=True, kw_only=True):
    """What a node has: pods may use ``allocatable``; ``capacity`` includes the system's part."""

    capacity: ResourceList = field(default_factory=dict)
    allocatable: ResourceList = field(default_factory=dict)
    conditions: tuple[NodeCondition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(Wire, frozen=True, kw_only=True):
    """A machine that pods are placed on."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "Node")
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
