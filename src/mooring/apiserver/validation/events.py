"""Validation of events, with kube-apiserver's messages.

Source: pkg/apis/core/validation/events.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from mooring.apiserver import names as name_checks
from mooring.apiserver.errors import Errors, invalid, required
from mooring.apiserver.validation.rules import IMMUTABLE, field_errors, required_fields

if TYPE_CHECKING:
    from mooring.apiserver.types import Object


def validate_event(event: Object) -> Errors:
    """Validates a new event of core/v1."""
    yield from _validate_shared(event, "reportingComponent")


def _validate_shared(event: Object, controller_field: str) -> Errors:
    """Validates an event by the rules that both API groups share."""
    namespace = event["metadata"].get("namespace", "")
    involved = event["involvedObject"].get("namespace", "")
    problem = "does not match event.namespace"
    field = "involvedObject.namespace"
    if not event.get("eventTime"):
        is_valid = involved == namespace if involved else namespace in ("", "default")
        if not is_valid:
            yield invalid(field, involved, problem)
        return
    if not involved and namespace not in ("default", "kube-system"):
        yield invalid(field, involved, problem)
    controller = event.get("reportingComponent", "")
    if not controller:
        yield required(controller_field)
    yield from field_errors(controller_field, controller, name_checks.qualified_name)
    for name, length, is_required in (
        ("reportingInstance", 128, True),
        ("action", 128, True),
        ("reason", 128, True),
        ("message", 1024, False),
    ):
        text = event.get(name, "")
        if is_required and not text:
            yield required(name)
        if len(text.encode()) > length:
            yield invalid(name, "", f"can have at most {length} characters")


def validate_new_event(event: Object) -> Errors:
    """Validates a new event of events.k8s.io/v1, which has more rules than one of core/v1."""
    yield from _validate_shared(event, "reportingController")
    yield from _validate_series(event)
    if not event.get("eventTime"):
        yield required("eventTime")
    kind = event.get("type", "")
    if kind not in ("Normal", "Warning"):
        yield invalid("type", "", f"has invalid value: {kind}")
    yield from (
        invalid(name, "", "needs to be unset")
        for name in ("firstTimestamp", "lastTimestamp", "count", "source")
        if event.get(name)
    )


def _validate_series(event: Object) -> Errors:
    series = event.get("series")
    if series is None:
        return
    if series.get("count", 0) < 2:
        yield invalid("series.count", "", "should be at least 2")
    yield from required_fields(series, "series", "lastObservedTime")


_IMMUTABLE_FIELDS = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "reason",  # twice, as upstream
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)


_TEXTS = ("reason", "message", "type", "action", "reportingComponent", "reportingInstance")
#: Values of fields that are absent, as messages print them; the others are null.
_EMPTY = {**dict.fromkeys(_TEXTS, ""), "count": 0}


def validate_new_event_update(new: Object, old: Object) -> Errors:
    """Validates a change of an event of events.k8s.io/v1: only its series may change."""
    yield from _validate_shared(new, "reportingController")
    if new.get("series") != old.get("series"):
        yield from _validate_series(new)
    for name in _IMMUTABLE_FIELDS:
        if new.get(name) != old.get(name):
            field = "reportingController" if name == "reportingComponent" else name
            value = new.get(name, _EMPTY.get(name))
            if name in _STRUCTS and value is not None:
                value = {title: value.get(own, "") for own, title in _STRUCTS[name].items()}
            yield invalid(field, value, IMMUTABLE)


#: Fields with structs -> the names of their fields; messages print those of Go's internal types.
_REFERENCE: Final = {
    "kind": "Kind",
    "namespace": "Namespace",
    "name": "Name",
    "uid": "UID",
    "apiVersion": "APIVersion",
    "resourceVersion": "ResourceVersion",
    "fieldPath": "FieldPath",
}
_STRUCTS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "involvedObject": _REFERENCE,
        "related": _REFERENCE,
        "source": {"component": "Component", "host": "Host"},
    }
)
