"""Updates of pods and nodes as the cluster events that plugins register for.

Source: pkg/scheduler/framework/events.go.
"""

from __future__ import annotations

from mooring.cluster_event import ActionType, ClusterEvent, EventResource
from mooring.objects.meta import ResourceList
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.objects.quantity import Quantity
from mooring.state.tables.pods import PodInfo


def pod_changes(old: PodInfo, new: PodInfo) -> list[ClusterEvent]:
    """Returns the events of a pod update; at least one.

    Both must be versions of the same pod, assigned or not.
    """
    assigned = bool(new.node_name)
    resource = EventResource.ASSIGNED_POD if assigned else EventResource.UNSCHEDULED_POD
    before, after = old.pod, new.pod
    actions = []
    if before.metadata.labels != after.metadata.labels:
        actions.append(ActionType.UPDATE_POD_LABEL)
    if _requests_less(old, new):
        actions.append(ActionType.UPDATE_POD_SCALE_DOWN)
    if before.spec.scheduling_gates and not after.spec.scheduling_gates:
        actions.append(ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    # Tolerations can be added but not changed or removed, so comparing their number is enough.
    if len(before.spec.tolerations) != len(after.spec.tolerations):
        actions.append(ActionType.UPDATE_POD_TOLERATION)
    if _claims(before) != _claims(after):
        actions.append(ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    return [ClusterEvent(resource, action) for action in actions or [ActionType.UPDATE_OTHER]]


def node_changes(old: Node, new: Node) -> list[ClusterEvent]:
    """Returns the events of a node update; none if nothing that scheduling reads has changed."""
    actions = []
    if old.spec.unschedulable and not new.spec.unschedulable:
        actions.append(ActionType.UPDATE_NODE_TAINT)
    if not _same_amounts(old.status.allocatable, new.status.allocatable):
        actions.append(ActionType.UPDATE_NODE_ALLOCATABLE)
    if old.metadata.labels != new.metadata.labels:
        actions.append(ActionType.UPDATE_NODE_LABEL)
    if old.spec.taints != new.spec.taints:
        actions.append(ActionType.UPDATE_NODE_TAINT)
    if _conditions(old) != _conditions(new):
        actions.append(ActionType.UPDATE_NODE_CONDITION)
    if old.metadata.annotations != new.metadata.annotations:
        actions.append(ActionType.UPDATE_NODE_ANNOTATION)
    if old.status.declared_features != new.status.declared_features:
        actions.append(ActionType.UPDATE_NODE_DECLARED_FEATURE)
    return [ClusterEvent(EventResource.NODE, action) for action in actions]


def _same_amounts(before: ResourceList, after: ResourceList) -> bool:
    """Returns whether the amounts are equal, however they are written: "1" is "1000m"."""
    if before == after:
        return True
    return before.keys() == after.keys() and all(
        Quantity.from_wire(amount) == Quantity.from_wire(after[name])
        for name, amount in before.items()
    )


def _requests_less(old: PodInfo, new: PodInfo) -> bool:
    before, after = old.usage, new.usage
    if before is after:
        return False
    return any(amount > after.get(name, -1) for name, amount in before.items())


def _conditions(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


def _claims(pod: Pod) -> tuple[object, object]:
    return pod.status.resource_claim_statuses, pod.status.extended_resource_claim_status
