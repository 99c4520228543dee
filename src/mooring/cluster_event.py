"""Cluster events, which requeue unschedulable pods: an action on a kind of object.

Names are kube-scheduler's (k8s.io/kube-scheduler framework/types.go, pkg/scheduler/framework/
events.go); they appear in metrics and logs.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from mooring.objects.generic import RESOURCE_NAME


class ActionType(enum.IntFlag):
    """Actions on an object, as flags; plugins register for combinations of them."""

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
    #: Any other change: it matches only registrations for all of ``UPDATE``.
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

    #: As ``==``, and without a call of Enum's own for every event.
    __hash__ = int.__hash__


class EventResource(enum.Enum):
    """The kinds of objects that events are about; ``*`` = any.

    A plugin may register for any other resource by its name, RESOURCE.VERSION.GROUP.
    ``ASSIGNED_POD`` and ``UNSCHEDULED_POD`` happen; plugins register for ``POD``, which is both.
    """

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULED_POD = "UnschedulablePod"
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

    #: Members are singletons; Enum's own hashes the name, in Python, for every event.
    __hash__ = object.__hash__


_BOTH_PODS = (EventResource.ASSIGNED_POD, EventResource.UNSCHEDULED_POD)


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """An action on a kind of object: an event, or a plugin's registration.

    Attributes:
        resource: The kind; or the name of a resource as text, such as
            "podgroups.v1alpha1.scheduling.x-k8s.io".
        action: One action, or several for a registration.
        custom_label: The name of an event without an object.

    Raises:
        ValueError: the resource is a text of another form.
    """

    resource: EventResource | str
    action: ActionType
    custom_label: str = ""

    def __post_init__(self) -> None:
        """Checks a resource that is given as text."""
        if isinstance(self.resource, str) and not RESOURCE_NAME.fullmatch(self.resource):
            raise ValueError(
                f"an event's resource is an EventResource, or RESOURCE.VERSION.GROUP such as"
                f" 'podgroups.v1alpha1.scheduling.x-k8s.io', got {self.resource!r}"
            )

    def matches(self, happened: ClusterEvent) -> bool:
        """Returns whether a registration for ``self`` covers the event ``happened``.

        It must cover all of it: "some update" is none of the specific ones.
        """
        same = self.resource == happened.resource or self.resource is EventResource.ANY
        same = same or (self.resource is EventResource.POD and happened.resource in _BOTH_PODS)
        return same and bool(happened.action) and happened.action in self.action

    @property
    def is_wildcard(self) -> bool:
        """True for an event of all kinds: it moves pods regardless of the rejecting plugins."""
        return self.resource is EventResource.ANY and self.action == ActionType.ALL

    @property
    def label(self) -> str:
        """The event's name in kube-scheduler's metrics and logs: "NodeAdd", "AssignedPodDelete"."""
        return self.custom_label or _label(self.resource, self.action)

    def parts(self) -> list[ClusterEvent]:
        """Returns the events of one action that a registration covers; UPDATE stays whole."""
        rest, actions = self.action, []
        if ActionType.UPDATE in rest:
            actions, rest = [ActionType.UPDATE], rest & ~ActionType.UPDATE
        return [ClusterEvent(self.resource, action) for action in [*rest, *actions]]


@cache
def _label(resource: EventResource | str, action: ActionType) -> str:
    action_shown = ActionType.UPDATE if action is ActionType.UPDATE_OTHER else action
    words = (action_shown.name or "").replace("|", "_").split("_")
    name = resource if isinstance(resource, str) else resource.value
    return name + "".join(word.capitalize() for word in words)


#: A pod was unschedulable for too long, and is retried without an event.
UNSCHEDULABLE_TIMEOUT = ClusterEvent(EventResource.ANY, ActionType.ALL, "UnschedulableTimeout")
#: A plugin activated pods.
FORCE_ACTIVATE = ClusterEvent(EventResource.ANY, ActionType.ALL, "ForceActivate")


class QueueingHint(enum.Enum):
    """The result of a queueing hint: requeue the pod, or skip it."""

    QUEUE = "Queue"
    SKIP = "QueueSkip"

    @classmethod
    def queue_if(cls, helps: bool) -> QueueingHint:
        """Returns QUEUE if the change ``helps`` the pod, else SKIP."""
        return cls.QUEUE if helps else cls.SKIP


#: (pod, old, new) -> whether what happened can help the pod. ``pod`` is the rejected one, a PodInfo
#: (``mooring.state``, which this file must not import); ``old`` and ``new`` are API objects of the
#: event's kind, ``old`` None when one was added, ``new`` None when one was deleted. For an event
#: about that pod itself, ``new`` is its newest version. Raising counts as QUEUE: a pod tried
#: once too often costs little, one that is never retried is lost.
HintFunction = Callable[[Any, Any, Any], QueueingHint]


@dataclass(frozen=True, slots=True)
class ClusterEventWithHint:
    """An event that can help a refused pod, and a closer look at it (None = it always helps).

    ``pure`` says that ``hint`` reads no more of the pod than the plugin's ``sign`` does: it is then
    called once for all unschedulable pods of the same signature.
    """

    event: ClusterEvent
    hint: HintFunction | None = None
    pure: bool = False
