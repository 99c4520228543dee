"""NodeDeclaredFeatures: some pods need a feature that not every node's kubelet has.

A kubelet declares its features in ``status.declaredFeatures``; which ones a pod needs follows from
its spec. Of the five features that v1.36 knows, two matter to where a pod can go.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from mooring.cluster_event import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from mooring.framework import SKIP, Cycle, FilterStatuses, NodeInfo, NodeView, Reject, Status
from mooring.framework.status import Skip
from mooring.objects.node import Node
from mooring.objects.pod import Pod, PodSpec
from mooring.state import Change, PodInfo

REASON = "node(s) didn't match Pod's required features"

RESTART_ALL_CONTAINERS: Final = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK: Final = "UserNamespacesHostNetworkSupport"

#: The features that are known, by name. Those that no rule below asks for concern only what may be
#: changed in a running pod.
FEATURES: Final = (
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    RESTART_ALL_CONTAINERS,
    USER_NAMESPACES_HOST_NETWORK,
)

#: What a container does that needs the first of them.
_RESTART_ALL_ACTION: Final = "RestartAllContainers"

NO_FEATURES: Final[frozenset[str]] = frozenset()


class NodeDeclaredFeatures:
    """Refuses nodes that do not declare every feature that the pod needs.

    Source: pkg/scheduler/framework/plugins/nodedeclaredfeatures, and k8s.io/component-helpers
    nodedeclaredfeatures.
    """

    name = "NodeDeclaredFeatures"
    reads = Change.OTHER

    def sign(self, pod: PodInfo) -> Hashable:
        """Returns the features that the pod needs."""
        return needed_features(pod.spec)

    def pre_filter(self, cycle: Cycle) -> Skip | None:
        """Skips a pod that any node will do for."""
        needed = needed_features(cycle.pod.spec)
        if not needed:
            return SKIP
        cycle[self] = needed
        return None

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Refuses nodes that lack one; each set of declared features is judged once."""
        needed: frozenset[str] = cycle[self]
        objects = nodes.snapshot.nodes.objects
        judged: dict[tuple[str, ...], bool] = {}
        lacking = np.zeros(len(nodes), dtype=np.bool_)
        for position, row in enumerate(nodes.rows.tolist()):
            node = objects[row]
            declared = node.status.declared_features if node is not None else ()
            if declared not in judged:
                judged[declared] = not needed <= declared_features(declared)
            lacking[position] = judged[declared]
        return FilterStatuses.refuse(lacking, Reject(REASON, resolvable=False))

    def filter_node(self, cycle: Cycle, node: NodeInfo) -> Status | None:
        """As ``filter``, of one node."""
        needed: frozenset[str] = cycle[self]
        if needed <= declared_features(node.node.status.declared_features):
            return None
        return Reject(REASON, resolvable=False)

    def events(self) -> list[ClusterEventWithHint]:
        """A node comes or declares other features; the pod itself changes what it needs."""
        node = ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE
        return [
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, node), _after_node_change, pure=True
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.UPDATE), _after_pod_change
            ),
        ]


def needed_features(spec: PodSpec) -> frozenset[str]:
    """Returns the features that a node must have to run such a pod."""
    needs_user_namespaces = spec.host_network and spec.host_users is False
    rules = (
        rule
        for container in (*spec.containers, *spec.init_containers)
        for rule in container.restart_policy_rules
    )
    needs_restart = any(rule.action == _RESTART_ALL_ACTION for rule in rules)
    if not (needs_restart or needs_user_namespaces):
        return NO_FEATURES
    needed = ((RESTART_ALL_CONTAINERS,) if needs_restart else ()) + (
        (USER_NAMESPACES_HOST_NETWORK,) if needs_user_namespaces else ()
    )
    return frozenset(needed)


def declared_features(declared: Sequence[str]) -> frozenset[str]:
    """Returns the known features among those that a node declares.

    As upstream, the list is read as the sorted one that the API server sees to: what is out of
    order in it is not found.
    """
    found = []
    place = 0
    for name in declared:
        while place < len(FEATURES) and FEATURES[place] < name:
            place += 1
        if place < len(FEATURES) and FEATURES[place] == name:
            found.append(name)
            place += 1
    return frozenset(found)


def _after_node_change(_pod: PodInfo, old: Node | None, new: Node) -> QueueingHint:
    if old is not None and old.status.declared_features == new.status.declared_features:
        return QueueingHint.SKIP
    return QueueingHint.QUEUE


def _after_pod_change(pod: PodInfo, old: Pod, new: Pod) -> QueueingHint:
    if new.metadata.uid != pod.uid:
        return QueueingHint.SKIP
    is_same = needed_features(old.spec) == needed_features(new.spec)
    return QueueingHint.SKIP if is_same else QueueingHint.QUEUE
