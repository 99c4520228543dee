"""The events that each default plugin registers, and which of its hints are pure: a table.

Source: pkg/scheduler/framework/plugins (EventsToRegister of v1.36.3). A hint is pure if it reads no
more of the pod than the plugin's signature: not one about updates of pods, which may be the pod
itself, and not one that looks up its claims for devices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mooring.cluster_event import ActionType as A
from mooring.cluster_event import EventResource as R
from mooring.plugins import IN_TREE

#: How a registration is answered: by a pure hint, by any other one, or always by a requeue.
PURE, HINT, ALWAYS = "pure", "hint", "always"
CHANGED: Final = A.ADD | A.UPDATE
MOVED: Final = A.ADD | A.UPDATE_NODE_LABEL
EVENTS: Final[dict[str, tuple[tuple[R, A, str], ...]]] = {
    "SchedulingGates": ((R.POD, A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, HINT),),
    "NodeUnschedulable": (
        (R.NODE, A.ADD | A.UPDATE_NODE_TAINT, PURE),
        (R.POD, A.UPDATE_POD_TOLERATION, HINT),
    ),
    "NodeName": ((R.NODE, A.ADD, ALWAYS),),
    "TaintToleration": (
        (R.NODE, A.ADD | A.UPDATE_NODE_TAINT, PURE),
        (R.POD, A.UPDATE_POD_TOLERATION, HINT),
    ),
    "NodeAffinity": ((R.NODE, MOVED, PURE),),
    "NodePorts": ((R.POD, A.DELETE, PURE), (R.NODE, A.ADD, ALWAYS)),
    "NodeResourcesFit": (
        (R.POD, A.DELETE, PURE),
        (R.POD, A.UPDATE_POD_SCALE_DOWN, HINT),
        (R.NODE, A.ADD | A.UPDATE_NODE_ALLOCATABLE, PURE),
        (R.DEVICE_CLASS, CHANGED, PURE),
    ),
    "VolumeRestrictions": (
        (R.POD, A.DELETE, PURE),
        (R.NODE, A.ADD, ALWAYS),
        (R.PERSISTENT_VOLUME_CLAIM, A.ADD, PURE),
    ),
    "NodeVolumeLimits": (
        (R.CSI_NODE, A.ADD, ALWAYS),
        (R.CSI_NODE, A.UPDATE, PURE),
        (R.POD, A.DELETE, PURE),
        (R.PERSISTENT_VOLUME_CLAIM, A.ADD, PURE),
        (R.VOLUME_ATTACHMENT, A.DELETE, PURE),
    ),
    "VolumeBinding": (
        (R.STORAGE_CLASS, CHANGED, PURE),
        (R.PERSISTENT_VOLUME_CLAIM, CHANGED, PURE),
        (R.PERSISTENT_VOLUME, CHANGED, ALWAYS),
        (R.NODE, MOVED, ALWAYS),
        (R.CSI_NODE, CHANGED, PURE),
        (R.CSI_DRIVER, A.UPDATE, PURE),
        (R.CSI_STORAGE_CAPACITY, CHANGED, PURE),
    ),
    "VolumeZone": (
        (R.STORAGE_CLASS, A.ADD, PURE),
        (R.NODE, MOVED, ALWAYS),
        (R.PERSISTENT_VOLUME_CLAIM, CHANGED, PURE),
        (R.PERSISTENT_VOLUME, CHANGED, PURE),
    ),
    "PodTopologySpread": (
        (R.POD, A.ADD | A.DELETE, PURE),
        (R.POD, A.UPDATE_POD_LABEL | A.UPDATE_POD_TOLERATION, HINT),
        (R.NODE, MOVED | A.DELETE | A.UPDATE_NODE_TAINT, PURE),
    ),
    "InterPodAffinity": (
        (R.POD, A.ADD | A.DELETE, PURE),
        (R.POD, A.UPDATE_POD_LABEL, HINT),
        (R.NODE, MOVED, PURE),
    ),
    "DynamicResources": (
        (R.NODE, MOVED | A.UPDATE_NODE_ALLOCATABLE, ALWAYS),
        (R.RESOURCE_CLAIM, CHANGED, HINT),
        (R.POD, A.UPDATE_POD_GENERATED_RESOURCE_CLAIM, HINT),
        (R.DEVICE_CLASS, CHANGED, ALWAYS),
        (R.RESOURCE_SLICE, CHANGED, ALWAYS),
    ),
    "DefaultPreemption": ((R.POD, A.DELETE, PURE),),
    "NodeDeclaredFeatures": (
        (R.NODE, A.ADD | A.UPDATE_NODE_DECLARED_FEATURE, PURE),
        (R.POD, A.UPDATE, HINT),
    ),
}


def event_problems(handle: Any) -> Iterator[str]:
    """Yields the default plugins that register other events than those of the table."""
    for name, factory in IN_TREE.items():
        plugin = factory(None, handle)
        registered = plugin.events() if hasattr(plugin, "events") else ()
        actual = tuple(
            (it.event.resource, it.event.action, _answered_by(it.hint, is_pure=it.pure))
            for it in registered
        )
        if actual != EVENTS.get(name, ()):
            yield f"{name} registers {actual}, not {EVENTS.get(name, ())}"


def _answered_by(hint: Any, *, is_pure: bool) -> str:
    if hint is None:
        return ALWAYS
    return PURE if is_pure else HINT
