"""Validation of the statuses of namespaces, budgets and volumes, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go (ValidateNamespaceStatusUpdate,
ValidatePersistentVolumeClaimStatusUpdate), pkg/apis/policy/validation/validation.go
(ValidatePodDisruptionBudgetStatusUpdate).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, invalid, not_supported
from mooring.apiserver.validation.conditions import validate_conditions
from mooring.apiserver.validation.resources import is_native, validate_quantity
from mooring.apiserver.validation.rules import field_errors, not_negative
from mooring.objects.quantity import Quantity

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

_RESIZE_STATUSES: Final = (
    *("ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress"),
    *("NodeResizeInfeasible", "NodeResizePending"),
)
_STORAGE: Final = "storage"


def validate_namespace_status(new: Object, _old: Object) -> Errors:
    """Validates the phase of a namespace."""
    phase = (new.get("status") or {}).get("phase", "")
    is_deleted = "deletionTimestamp" in new["metadata"]
    expected, word = ("Terminating", "not ") if is_deleted else ("Active", "")
    if phase != expected:
        problem = f"may only be '{expected}' if `deletionTimestamp` is {word}empty"
        yield invalid("status.Phase", phase, problem)


def validate_budget_status(new: Object, _old: Object) -> Errors:
    """Validates the status of a PodDisruptionBudget."""
    status = new.get("status") or {}
    yield from validate_conditions(status.get("conditions") or (), "status.conditions")
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    yield from not_negative(status, "status", *counts)


def validate_volume_claim_status(new: Object, _old: Object) -> Errors:
    """Validates the status of a PersistentVolumeClaim."""
    status = new.get("status") or {}
    for name, amount in sorted((status.get("capacity") or {}).items()):
        yield from _validate_basic_amount(amount, f"status.capacity[{name}]")
    field = "status.allocatedResourceStatuses"
    for name, resize in sorted((status.get("allocatedResourceStatuses") or {}).items()):
        yield from _validate_name(name, field)
        if resize not in _RESIZE_STATUSES:
            yield not_supported(field, name, sorted(_RESIZE_STATUSES))
    field = "status.allocatedResources"
    for name, amount in sorted((status.get("allocatedResources") or {}).items()):
        problems = list(_validate_name(name, field))
        problems = problems or list(_validate_basic_amount(amount, f"{field}[{name}]"))
        yield from problems or validate_quantity(_STORAGE, amount, f"{field}[{name}]")


def _validate_name(name: str, field: str) -> Errors:
    if names.qualified_name(name):
        yield from field_errors(field, name, names.qualified_name)
    elif is_native(name) and name != _STORAGE:
        yield not_supported(field, name, [_STORAGE])


def _validate_basic_amount(text: str, field: str) -> Errors:
    value = Quantity.from_wire(text).value()
    return [invalid(field, value, "must be a valid resource quantity")] if value < 0 else []
