"""Queueing hints of VolumeBinding.

Source: pkg/scheduler/framework/plugins/volumebinding/volume_binding.go (EventsToRegister and the
functions that it names).
"""

from __future__ import annotations

from collections.abc import Hashable

from mooring.cluster_event import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    HintFunction,
    QueueingHint,
)
from mooring.objects.csi_migration import MIGRATED_PLUGINS
from mooring.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
)
from mooring.objects.volume_claims import claim_uses
from mooring.state import PodInfo
from mooring.state.volumes.capacity import volume_limit


def fragment(pod: PodInfo) -> Hashable:
    """Returns everything that the hints read of the pod."""
    if not pod.spec.volumes:
        return ()
    return pod.metadata.namespace, tuple(claim_uses(pod.pod)), _drivers(pod)


def events() -> list[ClusterEventWithHint]:
    """Returns the events that may requeue a pod, with their hints."""
    change = ActionType.ADD | ActionType.UPDATE
    node = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
    return [
        _pure(EventResource.STORAGE_CLASS, change, _after_class_change),
        _pure(EventResource.PERSISTENT_VOLUME_CLAIM, change, _after_claim_change),
        ClusterEventWithHint(ClusterEvent(EventResource.PERSISTENT_VOLUME, change)),
        ClusterEventWithHint(ClusterEvent(EventResource.NODE, node)),
        _pure(EventResource.CSI_NODE, change, _after_csi_node_change),
        _pure(EventResource.CSI_DRIVER, ActionType.UPDATE, _after_driver_updated),
        _pure(EventResource.CSI_STORAGE_CAPACITY, change, _after_capacity_change),
    ]


def _pure(resource: EventResource, action: ActionType, hint: HintFunction) -> ClusterEventWithHint:
    return ClusterEventWithHint(ClusterEvent(resource, action), hint, pure=True)


def _after_class_change(_: PodInfo, old: StorageClass | None, new: StorageClass) -> QueueingHint:
    """Queues if the class is new or its allowed topologies changed."""
    return QueueingHint.queue_if(old is None or old.allowed_topologies != new.allowed_topologies)


def _after_claim_change(
    pod: PodInfo, _: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> QueueingHint:
    """Queues if the claim is one of the pod's."""
    if new.metadata.namespace != pod.metadata.namespace:
        return QueueingHint.SKIP
    return QueueingHint.queue_if(any(use.name == new.metadata.name for use in claim_uses(pod.pod)))


def _after_csi_node_change(_: PodInfo, old: CSINode | None, new: CSINode) -> QueueingHint:
    """Queues if the CSINode is new or its migrated plugins changed."""
    if old is None:
        return QueueingHint.QUEUE
    before = old.metadata.annotations.get(MIGRATED_PLUGINS, "")
    return QueueingHint.queue_if(before != new.metadata.annotations.get(MIGRATED_PLUGINS, ""))


def _after_driver_updated(pod: PodInfo, old: CSIDriver, new: CSIDriver) -> QueueingHint:
    """Queues if a driver in the pod's manifest has stopped reporting its capacity."""
    was_disabled = bool(old.spec.storage_capacity) and not new.spec.storage_capacity
    return QueueingHint.queue_if(was_disabled and new.metadata.name in _drivers(pod))


def _after_capacity_change(
    _: PodInfo, old: CSIStorageCapacity | None, new: CSIStorageCapacity
) -> QueueingHint:
    """Queues if a capacity is new or has grown."""
    if old is None:
        return QueueingHint.QUEUE
    before, after = volume_limit(old), volume_limit(new)
    if after is None:
        return QueueingHint.SKIP
    return QueueingHint.queue_if(before is None or after.value() > before.value())


def _drivers(pod: PodInfo) -> tuple[str, ...]:
    """Returns the CSI drivers of inline volumes in the pod's manifest."""
    return tuple(volume.csi.driver for volume in pod.spec.volumes if volume.csi is not None)
