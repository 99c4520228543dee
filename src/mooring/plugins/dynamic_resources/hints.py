"""Queueing hints of DynamicResources.

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go (EventsToRegister,
isSchedulableAfterClaimChange, isSchedulableAfterPodChange).
"""

from __future__ import annotations

from collections.abc import Callable

from mooring.cluster_event import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from mooring.objects.pod import Pod
from mooring.objects.resource import ResourceClaim
from mooring.plugins.dynamic_resources.claims import ClaimProblem, user_claims
from mooring.state import PodInfo
from mooring.state.devices.claims import Claims


def events(claims: Callable[[], Claims]) -> list[ClusterEventWithHint]:
    """Returns the events that may requeue a pod; ``claims`` returns the claims of that time."""
    change = ActionType.ADD | ActionType.UPDATE
    node = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
    generated = ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM
    hints = _Hints(claims)
    return [
        ClusterEventWithHint(ClusterEvent(EventResource.NODE, node)),
        ClusterEventWithHint(
            ClusterEvent(EventResource.RESOURCE_CLAIM, change), hints.after_claim_change
        ),
        ClusterEventWithHint(ClusterEvent(EventResource.POD, generated), hints.after_pod_change),
        ClusterEventWithHint(ClusterEvent(EventResource.DEVICE_CLASS, change)),
        ClusterEventWithHint(ClusterEvent(EventResource.RESOURCE_SLICE, change)),
    ]


class _Hints:
    """The hints that look up the claims of a pod."""

    def __init__(self, claims: Callable[[], Claims]) -> None:
        self._claims = claims

    def after_claim_change(
        self, pod: PodInfo, old: ResourceClaim | None, new: ResourceClaim
    ) -> QueueingHint:
        """Queues if any claim was deallocated, or one of the pod's own is new or changed status."""
        try:
            own = user_claims(pod.pod, self._claims())
        except ClaimProblem:
            return QueueingHint.SKIP
        if old is not None and old.status.allocation is not None and new.status.allocation is None:
            return QueueingHint.QUEUE
        if all(claim.metadata.uid != new.metadata.uid for claim in own):
            return QueueingHint.SKIP
        return QueueingHint.queue_if(old is None or old.status != new.status)

    def after_pod_change(self, pod: PodInfo, _: Pod, new: Pod) -> QueueingHint:
        """Queues if the pod itself has all of its claims now."""
        if pod.uid != new.metadata.uid:
            return QueueingHint.SKIP
        try:
            user_claims(new, self._claims())
        except ClaimProblem:
            return QueueingHint.SKIP
        return QueueingHint.QUEUE
