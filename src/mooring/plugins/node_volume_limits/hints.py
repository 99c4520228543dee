"""What can help a pod that was refused because a node has too many volumes.

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

#: Instead of a driver: any attachment that goes may help.
_ANY_DRIVER: Final = "*"


def fragment(pod: PodInfo) -> Hashable:
    """Returns all that the hints read of the waiting pod."""
    if not pod.spec.volumes:
        return ()
    return pod.metadata.namespace, tuple(claim_uses(pod.pod)), _drivers(pod)


def events() -> list[ClusterEventWithHint]:
    """Returns the events that can help, each with a closer look at it."""
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


def _answer(helps: bool) -> QueueingHint:
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def _after_csi_node_updated(_: PodInfo, old: CSINode, new: CSINode) -> QueueingHint:
    """The limit of some driver has risen; a driver without a limit counts as one of none."""
    before, after = _limits(old), _limits(new)
    return _answer(any(limit > before.get(driver, 0) for driver, limit in after.items()))


def _limits(csi_node: CSINode) -> dict[str, int]:
    return {
        driver.name: (driver.allocatable.count or 0) if driver.allocatable is not None else 0
        for driver in csi_node.spec.drivers
    }


def _after_pod_deleted(_: PodInfo, old: Pod, __: Pod | None) -> QueueingHint:
    """Returns a pod that had a node, or was to get one, and has volumes that count."""
    if not old.spec.node_name and not old.status.nominated_node_name:
        return QueueingHint.SKIP
    return _answer(any(map(counts, old.spec.volumes)))


def _after_claim_added(
    pod: PodInfo, _: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> QueueingHint:
    """It is a claim of the pod."""
    if new.metadata.namespace != pod.metadata.namespace:
        return QueueingHint.SKIP
    return _answer(any(use.name == new.metadata.name for use in claim_uses(pod.pod)))


def _after_attachment_deleted(
    pod: PodInfo, old: VolumeAttachment, _: VolumeAttachment | None
) -> QueueingHint:
    """The pod has a claim, whatever it stands for, or a disk of the attachment's driver."""
    drivers = _drivers(pod)
    return _answer(_ANY_DRIVER in drivers or old.spec.attacher in drivers)


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
