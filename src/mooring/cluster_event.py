"""What can wake a parked pod: an action on a kind of object.

Names are kube-scheduler's (k8s.io/kube-scheduler framework/types.go, pkg/scheduler/framework/
events.go); they appear in metrics and logs.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class ActionType(enum.IntFlag):
    """What happened to an object; plugins register for sums of these."""

    ADD = enum.auto()
    DELETE = enum.auto()
    UPDATE_NODE_ALLOCATABLE = enum.auto()
    UPDATE_NODE_LABEL = enum.auto()
    UPDATE_NODE_TAINT = enum.auto()
    UPDATE_NODE_CONDITION = enum.auto()
    UPDATE_NODE_ANNOTATION = enum.auto()
    UPDATE_NODE_DECLARED_FEATURE = enum.auto()
    UPDATE_POD_LABEL = enum.auto()
    UPDATE_POD_SCALE_DOWN = enum.auto()
    UPDATE_POD_TOLERATION = enum.auto()
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = enum.auto()
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = enum.auto()
    #: A change that is none of the above: it wakes only those who registered for all of ``UPDATE``.
    UPDATE_OTHER = enum.auto()

    UPDATE = (
        UPDATE_NODE_ALLOCATABLE
        | UPDATE_NODE_LABEL
        | UPDATE_NODE_TAINT
        | UPDATE_NODE_CONDITION
        | UPDATE_NODE_ANNOTATION
        | UPDATE_NODE_DECLARED_FEATURE
        | UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        | UPDATE_POD_GENERATED_RESOURCE_CLAIM
        | UPDATE_OTHER
    )
    ALL = ADD | DELETE | UPDATE


class EventResource(enum.Enum):
    """The kinds of objects that events are about; ``*`` = any."""

    POD = "Pod"
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    ANY = "*"


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """An action on a kind of object, as it happened or as a plugin registers for it."""

    resource: EventResource
    action: ActionType

    def matches(self, happened: ClusterEvent) -> bool:
        """Whether a registration for ``self`` covers the event ``happened``."""
        same = self.resource in (happened.resource, EventResource.ANY)
        return same and bool(self.action & happened.action)


class QueueingHint(enum.Enum):
    """What a hint function says: try the pod again, or leave it."""

    QUEUE = "Queue"
    SKIP = "QueueSkip"


#: (pod, old, new) -> whether what happened can help the pod. ``pod`` is the parked one, a PodInfo
#: (``mooring.state``, which this file must not import); ``old`` and ``new`` are API objects of the
#: event's kind, ``old`` None when one was added, ``new`` None when one was deleted. For an event
#: about the parked pod itself, ``new`` is its newest version. Raising counts as QUEUE: a pod tried
#: once too often costs little, one that is never tried again is lost.
HintFunction = Callable[[Any, Any, Any], QueueingHint]


@dataclass(frozen=True, slots=True)
class ClusterEventWithHint:
    """An event that can help a refused pod, and a closer look at it (None = it always helps)."""

    event: ClusterEvent
    hint: HintFunction | None = None
