"""What can help a pod whose volumes could not be had.

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
    """Returns all that the hints read of the waiting pod."""
    if not pod.spec.volumes:
        return ()
    return pod.metadata.namespace, tuple(claim_uses(pod.pod)), _drivers(pod)


def events() -> list[ClusterEventWithHint]:
    """Returns the events that can help, each with a closer look at it."""
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


def _answer(helps: bool) -> QueueingHint:
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def _after_class_change(_: PodInfo, old: StorageClass | None, new: StorageClass) -> QueueingHint:
    """There is another class, or volumes of one can be made elsewhere."""
    return _answer(old is None or old.allowed_topologies != new.allowed_topologies)


def _after_claim_change(
    pod: PodInfo, _: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> QueueingHint:
    """It is a claim of the pod."""
    if new.metadata.namespace != pod.metadata.namespace:
        return QueueingHint.SKIP
    return _answer(any(use.name == new.metadata.name for use in claim_uses(pod.pod)))


def _after_csi_node_change(_: PodInfo, old: CSINode | None, new: CSINode) -> QueueingHint:
    """There is another one, or a driver has taken over an in-tree plugin."""
    if old is None:
        return QueueingHint.QUEUE
    before = old.metadata.annotations.get(MIGRATED_PLUGINS, "")
    return _answer(before != new.metadata.annotations.get(MIGRATED_PLUGINS, ""))


def _after_driver_updated(pod: PodInfo, old: CSIDriver, new: CSIDriver) -> QueueingHint:
    """Returns a driver that the pod itself names does not want its room looked at any more."""
    is_off_now = bool(old.spec.storage_capacity) and not new.spec.storage_capacity
    return _answer(is_off_now and new.metadata.name in _drivers(pod))


def _after_capacity_change(
    _: PodInfo, old: CSIStorageCapacity | None, new: CSIStorageCapacity
) -> QueueingHint:
    """There is more room somewhere, or room that nobody told of before."""
    if old is None:
        return QueueingHint.QUEUE
    before, after = volume_limit(old), volume_limit(new)
    if after is None:
        return QueueingHint.SKIP
    return _answer(before is None or after.value() > before.value())


def _drivers(pod: PodInfo) -> tuple[str, ...]:
    """Returns the CSI drivers that volumes in the pod's own manifest name."""
    return tuple(volume.csi.driver for volume in pod.spec.volumes if volume.csi is not None)
