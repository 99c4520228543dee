"""The Node kind."""

from __future__ import annotations

from msgspec import field

from mooring.objects.meta import ApiStruct, Int64, ObjectMeta, ResourceList


class Taint(ApiStruct, frozen=True, kw_only=True):
    """A taint, which repels pods that do not tolerate it.

    ``effect``: NoSchedule, PreferNoSchedule, NoExecute.
    """

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(ApiStruct, frozen=True, kw_only=True):
    """The spec of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeCondition(ApiStruct, frozen=True, kw_only=True):
    """A condition reported by the kubelet; ``status`` is "True", "False" or "Unknown"."""

    type: str = ""
    status: str = ""
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class ContainerImage(ApiStruct, frozen=True, kw_only=True):
    """An image on a node, with all its names and its size in bytes."""

    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class NodeStatus(ApiStruct, frozen=True, kw_only=True):
    """The status of a node: pods may use ``allocatable``; ``capacity`` is the total."""

    capacity: ResourceList = field(default_factory=dict)
    allocatable: ResourceList = field(default_factory=dict)
    conditions: tuple[NodeCondition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(ApiStruct, frozen=True, kw_only=True):
    """A node, on which pods run."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "Node")
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
