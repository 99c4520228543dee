"""Queueing hints of PodTopologySpread.

Source: pkg/scheduler/framework/plugins/podtopologyspread/plugin.go (EventsToRegister,
isSchedulableAfterPodChange, isSchedulableAfterNodeChange).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mooring.cluster_event import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.plugins.pod_topology_spread.constraints import Constraint
from mooring.state import PodInfo

#: Returns the hard constraints of a pod, which may have rejected it.
HardConstraints = Callable[[PodInfo], tuple[Constraint, ...]]


def events(hard_constraints: HardConstraints) -> list[ClusterEventWithHint]:
    """Returns the events that may requeue a pod, with their hints."""

    def after_pod_change(pod: PodInfo, old: Pod | None, new: Pod | None) -> QueueingHint:
        return QueueingHint.queue_if(_pod_helps(pod, old, new, hard_constraints))

    def after_node_change(pod: PodInfo, old: Node | None, new: Node | None) -> QueueingHint:
        return QueueingHint.queue_if(_node_helps(old, new, hard_constraints(pod)))

    add_or_delete = ActionType.ADD | ActionType.DELETE
    update = ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION
    node = add_or_delete | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
    return [
        ClusterEventWithHint(
            ClusterEvent(EventResource.POD, add_or_delete), after_pod_change, pure=True
        ),
        # Not pure: the changed pod may be the unschedulable pod itself.
        ClusterEventWithHint(ClusterEvent(EventResource.POD, update), after_pod_change),
        ClusterEventWithHint(ClusterEvent(EventResource.NODE, node), after_node_change, pure=True),
    ]


def _pod_helps(
    pod: PodInfo, old: Pod | None, new: Pod | None, hard_constraints: HardConstraints
) -> bool:
    """Returns True if the change may change the count of a constraint, or adds a toleration."""
    if any(item is not None and not _is_involved(item, pod) for item in (old, new)):
        return False
    constraints = hard_constraints(pod)
    if old is None or new is None:
        changed = new if new is not None else old
        assert changed is not None
        labels = changed.metadata.labels
        return any(constraint.selector.matches(labels) for constraint in constraints)
    is_tolerant = new.metadata.uid == pod.uid and new.spec.tolerations != old.spec.tolerations
    if is_tolerant and any(constraint.honors_taints for constraint in constraints):
        return True
    before, after = old.metadata.labels, new.metadata.labels
    return before != after and any(
        constraint.selector.matches(before) != constraint.selector.matches(after)
        for constraint in constraints
    )


def _is_involved(other: Pod, pod: PodInfo) -> bool:
    """Returns True if ``other`` is the pod, or placed or nominated in the same namespace."""
    if other.metadata.uid == pod.uid:
        return True
    if not other.spec.node_name and not other.status.nominated_node_name:
        return False
    return other.metadata.namespace == pod.metadata.namespace


def _node_helps(old: Node | None, new: Node | None, constraints: tuple[Constraint, ...]) -> bool:
    """Returns True if a node with all topology keys was added, deleted or relabeled.

    Also if its taints changed: a constraint may not count tainted nodes.
    """
    had = old is not None and _has_all_keys(old.metadata.labels, constraints)
    has = new is not None and _has_all_keys(new.metadata.labels, constraints)
    if old is None or new is None:
        return had or has
    if had != has:
        return True
    before, after = old.metadata.labels, new.metadata.labels
    moved = any(
        before.get(constraint.topology_key) != after.get(constraint.topology_key)
        for constraint in constraints
    )
    return has and (moved or old.spec.taints != new.spec.taints)


def _has_all_keys(labels: Mapping[str, str], constraints: tuple[Constraint, ...]) -> bool:
    return all(constraint.topology_key in labels for constraint in constraints)
