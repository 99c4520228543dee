"""One stored object, two kinds: core/v1 and events.k8s.io/v1 events are views of the same thing.

Events are stored as core/v1 ones. Whoever asks for the other kind gets them with their fields
renamed; what he writes is renamed back.

Source: pkg/apis/events/v1/conversion.go, pkg/apis/core/types.go (Event).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from mooring.apiserver.resources import resource_named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.apiserver.resources import Resource
    from mooring.apiserver.types import Object

EVENTS_VIEW = resource_named("events.k8s.io", "events")

#: Field of events.k8s.io/v1 -> field of core/v1, where they differ.
_CORE_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "regarding": "involvedObject",
        "note": "message",
        "reportingController": "reportingComponent",
        "deprecatedSource": "source",
        "deprecatedFirstTimestamp": "firstTimestamp",
        "deprecatedLastTimestamp": "lastTimestamp",
        "deprecatedCount": "count",
    }
)
_VIEW_NAMES: Mapping[str, str] = MappingProxyType({v: k for k, v in _CORE_NAMES.items()})
#: Fields that one kind writes even when they are empty, and the other does not.
_ALWAYS_IN_CORE = ("reportingComponent", "reportingInstance")
_EMPTY_IN_VIEW = ("reportingController", "reportingInstance", "regarding")


def is_view(resource: Resource) -> bool:
    """Returns whether the resource's objects are stored as those of another one."""
    return resource is EVENTS_VIEW


def to_core(event: Object) -> Object:
    """Returns an events.k8s.io/v1 event as a core/v1 one."""
    found = _renamed(event, _CORE_NAMES)
    found["apiVersion"] = "v1"
    found.setdefault("involvedObject", {})
    for name in _ALWAYS_IN_CORE:
        found.setdefault(name, "")
    return found


def to_view(event: Object) -> Object:
    """Returns a core/v1 event as an events.k8s.io/v1 one."""
    found = _renamed(event, _VIEW_NAMES)
    if "apiVersion" in found:
        found["apiVersion"] = "events.k8s.io/v1"
    for name in _EMPTY_IN_VIEW:
        if not found.get(name):
            found.pop(name, None)
    found.setdefault("regarding", {})
    return found


def _renamed(event: Object, names: Mapping[str, str]) -> Object:
    found = dict(event)
    for old, new in names.items():
        if old in found:
            found[new] = found.pop(old)
    return found
