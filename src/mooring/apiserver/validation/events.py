"""Validation of events, with kube-apiserver's messages.

Source: pkg/apis/core/validation/events.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver import names as name_checks
from mooring.apiserver.errors import FieldError, invalid, required
from mooring.apiserver.validation.metadata import IMMUTABLE, field_errors

if TYPE_CHECKING:
    from mooring.apiserver.types import Object


def validate_event(event: Object) -> list[FieldError]:
    """Validates a new event by the rules that both API groups share."""
    namespace = event["metadata"].get("namespace", "")
    involved = event["involvedObject"].get("namespace", "")
    problem = "does not match event.namespace"
    field = "involvedObject.namespace"
    if not event.get("eventTime"):
        is_valid = involved == namespace if involved else namespace in ("", "default")
        return [] if is_valid else [invalid(field, involved, problem)]
    errors: list[FieldError] = []
    if not involved and namespace not in ("default", "kube-system"):
        errors.append(invalid(field, involved, problem))
    controller = event.get("reportingComponent", "")
    if not controller:
        errors.append(required("reportingController"))
    errors += field_errors(
        "reportingController", controller, name_checks.qualified_name(controller)
    )
    for name, length, is_required in (
        ("reportingInstance", 128, True),
        ("action", 128, True),
        ("reason", 128, True),
        ("message", 1024, False),
    ):
        text = event.get(name, "")
        if is_required and not text:
            errors.append(required(name))
        if len(text.encode()) > length:
            errors.append(invalid(name, "", f"can have at most {length} characters"))
    return errors


def validate_new_event(event: Object) -> list[FieldError]:
    """Validates a new event of events.k8s.io/v1, which has more rules than one of core/v1."""
    errors = validate_event(event) + _validate_series(event)
    if not event.get("eventTime"):
        errors.append(required("eventTime"))
    kind = event.get("type", "")
    if kind not in ("Normal", "Warning"):
        errors.append(invalid("type", "", f"has invalid value: {kind}"))
    errors += [
        invalid(name, "", "needs to be unset")
        for name in ("firstTimestamp", "lastTimestamp", "count", "source")
        if event.get(name)
    ]
    return errors


def _validate_series(event: Object) -> list[FieldError]:
    series = event.get("series")
    if series is None:
        return []
    errors: list[FieldError] = []
    if series.get("count", 0) < 2:
        errors.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(required("series.lastObservedTime"))
    return errors


_IMMUTABLE_FIELDS = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)


def validate_new_event_update(new: Object, old: Object) -> list[FieldError]:
    """Validates a change of an event of events.k8s.io/v1: only its series may change."""
    errors = validate_event(new)
    if new.get("series") != old.get("series"):
        errors += _validate_series(new)
    names = {"reportingComponent": "reportingController"}
    return errors + [
        invalid(names.get(name, name), new.get(name), IMMUTABLE)
        for name in _IMMUTABLE_FIELDS
        if new.get(name) != old.get(name)
    ]
