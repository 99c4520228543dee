"""NodeDeclaredFeatures: some pods require features that not every kubelet has.

A kubelet declares its features in ``status.declaredFeatures``; the required ones are inferred from
the pod's spec. Of the five features of v1.36, two matter for scheduling.
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

#: All features of upstream, sorted by name. Those without a rule below concern only updates of
#: running pods.
FEATURES: Final = (
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    RESTART_ALL_CONTAINERS,
    USER_NAMESPACES_HOST_NETWORK,
)

#: The container restart action that requires RESTART_ALL_CONTAINERS.
_RESTART_ALL_ACTION: Final = "RestartAllContainers"

NO_FEATURES: Final[frozenset[str]] = frozenset()


class NodeDeclaredFeatures:
    """Rejects nodes that do not declare every feature that the pod requires.

    Source: pkg/scheduler/framework/plugins/nodedeclaredfeatures, and k8s.io/component-helpers
    nodedeclaredfeatures.
    """

    name = "NodeDeclaredFeatures"
    reads = Change.OTHER
    signs_claim_names = False

    def sign(self, pod: PodInfo) -> Hashable:
        """Returns the features that the pod requires."""
        return required_features(pod.spec)

    def pre_filter(self, cycle: Cycle) -> Skip | None:
        """Skips a pod that requires no features."""
        required = required_features(cycle.pod.spec)
        if not required:
            return SKIP
        cycle[self] = required
        return None

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Rejects nodes that lack a feature; each set of declared features is evaluated once."""
        required: frozenset[str] = cycle[self]
        objects = nodes.snapshot.nodes.objects
        is_lacking: dict[tuple[str, ...], bool] = {}
        refused = np.zeros(len(nodes), dtype=np.bool_)
        for position, row in enumerate(nodes.rows.tolist()):
            node = objects[row]
            declared = node.status.declared_features if node is not None else ()
            if declared not in is_lacking:
                is_lacking[declared] = not required <= declared_features(declared)
            refused[position] = is_lacking[declared]
        return FilterStatuses.reject(refused, Reject(REASON, resolvable=False))

    def filter_node(self, cycle: Cycle, node: NodeInfo) -> Status | None:
        """Does the same as ``filter``, for one node."""
        required: frozenset[str] = cycle[self]
        if required <= declared_features(node.node.status.declared_features):
            return None
        return Reject(REASON, resolvable=False)

    def events(self) -> list[ClusterEventWithHint]:
        """Registers added nodes, changes of declared features, and updates of the pod."""
        node = ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE
        return [
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, node), _after_node_change, pure=True
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.UPDATE), _after_pod_change
            ),
        ]


def required_features(spec: PodSpec) -> frozenset[str]:
    """Returns the features that a pod requires of its node."""
    needs_user_namespaces = spec.host_network and spec.host_users is False
    rules = (
        rule
        for container in (*spec.containers, *spec.init_containers)
        for rule in container.restart_policy_rules
    )
    needs_restart = any(rule.action == _RESTART_ALL_ACTION for rule in rules)
    if not (needs_restart or needs_user_namespaces):
        return NO_FEATURES
    required = ((RESTART_ALL_CONTAINERS,) if needs_restart else ()) + (
        (USER_NAMESPACES_HOST_NETWORK,) if needs_user_namespaces else ()
    )
    return frozenset(required)


def declared_features(declared: Sequence[str]) -> frozenset[str]:
    """Returns those of a node's declared features that are in FEATURES.

    As upstream, the list must be sorted, which the API server ensures: names out of order are
    skipped.
    """
    features = []
    index = 0
    for name in declared:
        while index < len(FEATURES) and FEATURES[index] < name:
            index += 1
        if index < len(FEATURES) and FEATURES[index] == name:
            features.append(name)
            index += 1
    return frozenset(features)


def _after_node_change(_pod: PodInfo, old: Node | None, new: Node) -> QueueingHint:
    if old is not None and old.status.declared_features == new.status.declared_features:
        return QueueingHint.SKIP
    return QueueingHint.QUEUE


def _after_pod_change(pod: PodInfo, old: Pod, new: Pod) -> QueueingHint:
    if new.metadata.uid != pod.uid:
        return QueueingHint.SKIP
    is_same = required_features(old.spec) == required_features(new.spec)
    return QueueingHint.SKIP if is_same else QueueingHint.QUEUE
