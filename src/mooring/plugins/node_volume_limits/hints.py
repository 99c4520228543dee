"""Queueing hints of NodeVolumeLimits.

Source: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go (EventsToRegister and the functions
that it names).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from mooring.cluster_event import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from mooring.objects.csi_migration import TranslationError, in_tree, inline_handle
from mooring.objects.pod import Pod, Volume
from mooring.objects.storage import CSINode, PersistentVolumeClaim, VolumeAttachment
from mooring.objects.volume_claims import claim_uses
from mooring.state import PodInfo
from mooring.state.volumes.limits import counts

#: Instead of a driver: any deleted attachment may help.
_ANY_DRIVER: Final = "*"


def fragment(pod: PodInfo) -> Hashable:
    """Returns everything that the hints read of the pod."""
    if not pod.spec.volumes:
        return ()
    return pod.metadata.namespace, tuple(claim_uses(pod.pod)), _drivers(pod)


def events() -> list[ClusterEventWithHint]:
    """Returns the events that may requeue a pod, with their hints."""
    attachment = ClusterEvent(EventResource.VOLUME_ATTACHMENT, ActionType.DELETE)
    return [
        ClusterEventWithHint(ClusterEvent(EventResource.CSI_NODE, ActionType.ADD)),
        ClusterEventWithHint(
            ClusterEvent(EventResource.CSI_NODE, ActionType.UPDATE),
            _after_csi_node_updated,
            pure=True,
        ),
        ClusterEventWithHint(
            ClusterEvent(EventResource.POD, ActionType.DELETE), _after_pod_deleted, pure=True
        ),
        ClusterEventWithHint(
            ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD),
            _after_claim_added,
            pure=True,
        ),
        ClusterEventWithHint(attachment, _after_attachment_deleted, pure=True),
    ]


def _after_csi_node_updated(_: PodInfo, old: CSINode, new: CSINode) -> QueueingHint:
    """Queues if the limit of a driver has risen; a missing limit counts as 0."""
    before, after = _limits(old), _limits(new)
    return QueueingHint.queue_if(
        any(limit > before.get(driver, 0) for driver, limit in after.items())
    )


def _limits(csi_node: CSINode) -> dict[str, int]:
    return {
        driver.name: (driver.allocatable.count or 0) if driver.allocatable is not None else 0
        for driver in csi_node.spec.drivers
    }


def _after_pod_deleted(_: PodInfo, old: Pod, __: Pod | None) -> QueueingHint:
    """Queues if the deleted pod was placed or nominated and has volumes that count."""
    if not old.spec.node_name and not old.status.nominated_node_name:
        return QueueingHint.SKIP
    return QueueingHint.queue_if(any(map(counts, old.spec.volumes)))


def _after_claim_added(
    pod: PodInfo, _: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> QueueingHint:
    """Queues if the claim is one of the pod's."""
    if new.metadata.namespace != pod.metadata.namespace:
        return QueueingHint.SKIP
    return QueueingHint.queue_if(any(use.name == new.metadata.name for use in claim_uses(pod.pod)))


def _after_attachment_deleted(
    pod: PodInfo, old: VolumeAttachment, _: VolumeAttachment | None
) -> QueueingHint:
    """Queues if the pod has any claim, or a disk of the attachment's driver."""
    drivers = _drivers(pod)
    return QueueingHint.queue_if(_ANY_DRIVER in drivers or old.spec.attacher in drivers)


def _drivers(pod: PodInfo) -> tuple[str, ...]:
    """Returns the drivers whose attachments matter to the pod."""
    return tuple(driver for volume in pod.spec.volumes for driver in _driver(volume))


def _driver(volume: Volume) -> tuple[str, ...]:
    if volume.persistent_volume_claim is not None:
        return (_ANY_DRIVER,)
    kind = in_tree(volume)
    if kind is None:
        return ()
    if kind.is_migrated:
        try:
            inline_handle(volume, kind)
        except TranslationError:
            return (_ANY_DRIVER,)
    return (kind.driver,)
