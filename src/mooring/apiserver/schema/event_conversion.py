"""Conversion of events between core/v1 and events.k8s.io/v1.

Events are stored as core/v1. For events.k8s.io/v1 their fields are renamed on reading, and renamed
back on writing.

Source: pkg/apis/events/v1/conversion.go, pkg/apis/core/types.go (Event).
"""

from __future__ import annotations

from copy import deepcopy
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
    """Returns True if the resource's objects are stored as those of another one."""
    custom = resource.custom
    return resource is EVENTS_VIEW or (custom is not None and custom.converted is not None)


def as_of_today(resource: Resource, obj: Object) -> Object:
    """Returns a stored custom object as its schema has it now; other objects as they are."""
    return to_served(resource, obj) if resource.custom is not None and is_view(resource) else obj


def to_stored(resource: Resource, obj: Object) -> Object:
    """Returns an object of a view in its stored form."""
    return to_core(obj) if resource is EVENTS_VIEW else obj


def to_served(resource: Resource, obj: Object) -> Object:
    """Returns a stored object in the form of a view."""
    if resource is EVENTS_VIEW:
        return to_view(obj)
    names: Object = {"kind": resource.kind, "apiVersion": resource.api_version}
    if resource.custom is not None and resource.custom.converted is not None:
        obj = resource.custom.converted(deepcopy(obj))
    return {**names, **{name: value for name, value in obj.items() if name not in names}}


def to_core(event: Object) -> Object:
    """Returns an events.k8s.io/v1 event as a core/v1 one."""
    core = _renamed(event, _CORE_NAMES)
    core["apiVersion"] = "v1"
    core.setdefault("involvedObject", {})
    for name in _ALWAYS_IN_CORE:
        core.setdefault(name, "")
    return core


def to_view(event: Object) -> Object:
    """Returns a core/v1 event as an events.k8s.io/v1 one."""
    view = _renamed(event, _VIEW_NAMES)
    if "apiVersion" in view:
        view["apiVersion"] = "events.k8s.io/v1"
    for name in _EMPTY_IN_VIEW:
        if not view.get(name):
            view.pop(name, None)
    view.setdefault("regarding", {})
    return view


def _renamed(event: Object, names: Mapping[str, str]) -> Object:
    renamed = dict(event)
    for old, new in names.items():
        if old in renamed:
            renamed[new] = renamed.pop(old)
    return renamed
