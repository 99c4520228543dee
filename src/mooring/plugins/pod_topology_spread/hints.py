"""What can help a pod that could not be spread: pods come and go, nodes and labels change.

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

#: A pod -> the constraints that may have refused it.
Refusing = Callable[[PodInfo], tuple[Constraint, ...]]


def events(refusing: Refusing) -> list[ClusterEventWithHint]:
    """Returns the events that can help, each with a closer look at it."""

    def after_pod_change(pod: PodInfo, old: Pod | None, new: Pod | None) -> QueueingHint:
        return _answer(_pod_helps(pod, old, new, refusing))

    def after_node_change(pod: PodInfo, old: Node | None, new: Node | None) -> QueueingHint:
        return _answer(_node_helps(old, new, refusing(pod)))

    comes_or_goes = ActionType.ADD | ActionType.DELETE
    changes = ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION
    node = comes_or_goes | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
    return [
        ClusterEventWithHint(
            ClusterEvent(EventResource.POD, comes_or_goes), after_pod_change, pure=True
        ),
        # Not pure: what changes may be the waiting pod itself.
        ClusterEventWithHint(ClusterEvent(EventResource.POD, changes), after_pod_change),
        ClusterEventWithHint(ClusterEvent(EventResource.NODE, node), after_node_change, pure=True),
    ]


def _answer(helps: bool) -> QueueingHint:
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def _pod_helps(pod: PodInfo, old: Pod | None, new: Pod | None, refusing: Refusing) -> bool:
    """The change is about a pod that counts, and whether or how it counts may be different now."""
    if any(each is not None and not _is_involved(each, pod) for each in (old, new)):
        return False
    constraints = refusing(pod)
    if old is None or new is None:
        changed = new if new is not None else old
        assert changed is not None
        return any(each.selector.matches(changed.metadata.labels) for each in constraints)
    is_tolerant = new.metadata.uid == pod.uid and new.spec.tolerations != old.spec.tolerations
    if is_tolerant and any(each.honors_taints for each in constraints):
        return True
    before, after = old.metadata.labels, new.metadata.labels
    return before != after and any(
        each.selector.matches(before) != each.selector.matches(after) for each in constraints
    )


def _is_involved(other: Pod, pod: PodInfo) -> bool:
    """Whether ``other`` is the waiting pod, or one that may count for it: it has a place."""
    if other.metadata.uid == pod.uid:
        return True
    if not other.spec.node_name and not other.status.nominated_node_name:
        return False
    return other.metadata.namespace == pod.metadata.namespace


def _node_helps(old: Node | None, new: Node | None, constraints: tuple[Constraint, ...]) -> bool:
    """A node with all topology keys comes or goes, or one gets or loses or changes them.

    Other taints on such a node may help too: a constraint may leave tainted nodes out.
    """
    had = old is not None and _has_all_keys(old.metadata.labels, constraints)
    has = new is not None and _has_all_keys(new.metadata.labels, constraints)
    if old is None or new is None:
        return had or has
    if had != has:
        return True
    before, after = old.metadata.labels, new.metadata.labels
    moved = any(
        before.get(each.topology_key) != after.get(each.topology_key) for each in constraints
    )
    return has and (moved or old.spec.taints != new.spec.taints)


def _has_all_keys(labels: Mapping[str, str], constraints: tuple[Constraint, ...]) -> bool:
    return all(each.topology_key in labels for each in constraints)
