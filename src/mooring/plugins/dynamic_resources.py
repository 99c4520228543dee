"""DynamicResources: accepts pods without devices, and rejects pods that request devices.

Device allocation is not implemented. A pod that requests devices, with a resource claim or with an
extended resource of a device class, is rejected: without them it could not start.
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
#: The error if this plugin's pre_filter did not run, because an earlier plugin rejected the pod.
NO_STATE = "not found"


class Claims(Enum):
    """The state that pre_filter stores."""

    NONE = "none"


class DynamicResources:
    """Rejects pods that request devices; scores every node 0 for other pods.

    Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, for pods without
    claims. *Differs:* pods with claims are rejected.
    """

    name = "DynamicResources"
    reads = Change(0)
    #: Device classes define which extended resources are devices.
    needs = ("DeviceClass",)

    def sign(self, pod: PodInfo) -> Hashable | None:
        """Returns the resources that may be devices; None for pods with claims."""
        if pod.spec.resource_claims:
            return None
        return tuple(
            [name for name, amount in pod.requests.items() if amount and _may_be_devices(name)]
        )

    def pre_filter(self, cycle: Cycle) -> Status | Skip:
        """Rejects a pod that requests devices, and skips every other pod."""
        cycle[self] = Claims.NONE
        pod = cycle.pod
        if pod.spec.resource_claims:
            return Reject(REASON_CLAIMS, resolvable=False)
        device = requested_devices(pod, cycle.snapshot.device_classes)
        if device is not None:
            return Reject(REASON_RESOURCE.format(*device), resolvable=False)
        return SKIP

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Accepts all nodes."""
        assert cycle[self] is Claims.NONE
        return FilterStatuses.feasible(len(nodes))

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:  # noqa: ARG002
        """Rejects the pod: there is no claim to deallocate."""
        if self not in cycle:
            return PostFilterResult(NodeError(NO_STATE))
        return PostFilterResult(Reject(NOTHING_TO_DEALLOCATE))

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """Returns 0 for all nodes."""
        assert cycle[self] is Claims.NONE
        return np.zeros(len(nodes), dtype=np.int64)

    def events(self) -> list[ClusterEventWithHint]:
        """Registers updates and deletions of device classes."""
        changed = ActionType.UPDATE | ActionType.DELETE
        return [
            ClusterEventWithHint(
                ClusterEvent(EventResource.DEVICE_CLASS, changed), _after_class_change
            )
        ]


def requested_devices(pod: PodInfo, classes: DeviceClasses) -> tuple[str, str] | None:
    """Returns the first requested resource that is a device, and its device class; None = none."""
    if not len(classes):
        return None
    for resource, amount in pod.requests.items():
        if amount and _may_be_devices(resource):
            class_name = classes.class_of(resource)
            if class_name is not None:
                return resource, class_name
    return None


def _may_be_devices(resource: str) -> bool:
    return resource.startswith(RESOURCE_PREFIX) or is_extended_resource_name(resource)


def _after_class_change(pod: PodInfo, old: DeviceClass, new: DeviceClass | None) -> QueueingHint:
    """Queues if the change leaves no requested resource of the pod with a device class."""
    before = DeviceClasses()
    before.put(old)
    after = DeviceClasses()
    if new is not None:
        after.put(new)
    had, has = requested_devices(pod, before), requested_devices(pod, after)
    return QueueingHint.queue_if(had is not None and has is None)
