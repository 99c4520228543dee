"""DynamicResources, for pods without devices: it lets them pass, and says so where it must.

Devices are not allocated yet. A pod that asks for some, by a resource claim or by an extended
resource that stands for a device class, is refused: placed without them, it could not start.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum

import numpy as np

from mooring.cluster_event import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from mooring.framework import (
    SKIP,
    Cycle,
    Diagnosis,
    FilterStatuses,
    NodeError,
    NodeView,
    Reject,
    Status,
)
from mooring.framework.interface import Scores
from mooring.framework.status import PostFilterResult, Skip
from mooring.objects.requests import is_extended_resource_name
from mooring.objects.resource import DeviceClass
from mooring.state import Change, PodInfo
from mooring.state.kinds.device_classes import RESOURCE_PREFIX, DeviceClasses

REASON_CLAIMS = "DynamicResources cannot allocate devices yet, and the pod has resource claims"
REASON_RESOURCE = "DynamicResources cannot allocate devices yet, and {} stands for device class {}"

#: What PostFilter adds to the message of a pod without claims.
NOTHING_TO_DEALLOCATE = "no new claims to deallocate"
#: What it adds if an earlier plugin refused the pod before this one could look at it.
NOT_LOOKED_AT = "not found"


class Claims(Enum):
    """What pre_filter notes: the pod was looked at."""

    NONE = "none"


class DynamicResources:
    """Refuses pods that ask for devices; scores every node 0 for the others.

    Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, where a pod has
    no claims. *Differs:* pods with claims are refused.
    """

    name = "DynamicResources"
    reads = Change(0)
    #: Classes tell which extended resources are devices.
    needs = ("DeviceClass",)

    def sign(self, pod: PodInfo) -> Hashable | None:
        """Returns the resources that may stand for devices; pods with claims are not shared."""
        if pod.spec.resource_claims:
            return None
        return tuple(
            [name for name, amount in pod.requests.items() if amount and _may_be_devices(name)]
        )

    def pre_filter(self, cycle: Cycle) -> Status | Skip:
        """Refuses a pod that asks for devices, and skips every other one."""
        cycle[self] = Claims.NONE
        pod = cycle.pod
        if pod.spec.resource_claims:
            return Reject(REASON_CLAIMS, resolvable=False)
        found = devices_asked_for(pod, cycle.snapshot.device_classes)
        if found is not None:
            return Reject(REASON_RESOURCE.format(*found), resolvable=False)
        return SKIP

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Nothing against any node."""
        assert cycle[self] is Claims.NONE
        return FilterStatuses.feasible(len(nodes))

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:  # noqa: ARG002
        """There is no claim that could be given back."""
        if self not in cycle:
            return PostFilterResult(NodeError(NOT_LOOKED_AT))
        return PostFilterResult(Reject(NOTHING_TO_DEALLOCATE))

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """All nodes are equally good."""
        assert cycle[self] is Claims.NONE
        return np.zeros(len(nodes), dtype=np.int64)

    def events(self) -> list[ClusterEventWithHint]:
        """Returns a resource that the pod asks for stands for a device class no more."""
        changed = ActionType.UPDATE | ActionType.DELETE
        return [
            ClusterEventWithHint(
                ClusterEvent(EventResource.DEVICE_CLASS, changed), _after_class_change
            )
        ]


def devices_asked_for(pod: PodInfo, classes: DeviceClasses) -> tuple[str, str] | None:
    """A resource that the pod asks for and the device class that it stands for, if there is one."""
    if not len(classes):
        return None
    for resource, amount in pod.requests.items():
        if amount and _may_be_devices(resource):
            found = classes.class_of(resource)
            if found is not None:
                return resource, found
    return None


def _may_be_devices(resource: str) -> bool:
    return resource.startswith(RESOURCE_PREFIX) or is_extended_resource_name(resource)


def _after_class_change(pod: PodInfo, old: DeviceClass, new: DeviceClass | None) -> QueueingHint:
    """The class no longer has the resource, or is gone."""
    before = DeviceClasses()
    before.put(old)
    after = DeviceClasses()
    if new is not None:
        after.put(new)
    had, has = devices_asked_for(pod, before), devices_asked_for(pod, after)
    return QueueingHint.QUEUE if had is not None and has is None else QueueingHint.SKIP
