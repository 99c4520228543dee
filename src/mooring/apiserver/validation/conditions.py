"""Validation of the conditions of a status, with kube-apiserver's messages.

Source: k8s.io/apimachinery pkg/apis/meta/v1/validation/validation.go (ValidateConditions).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mooring.apiserver import names
from mooring.apiserver.errors import (
    Errors,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
)
from mooring.apiserver.validation.rules import field_errors

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

_STATUSES: Final = ("False", "True", "Unknown")
_REASON: Final = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON_EXAMPLES: Final = ("my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB")
_REASON_BYTES_MAX: Final = 1 << 10
_MESSAGE_BYTES_MAX: Final = 32 << 10


def validate_conditions(conditions: Sequence[Object], field: str) -> Errors:
    """Validates conditions; their types must be unique."""
    types: set[str] = set()
    for number, condition in enumerate(conditions):
        type_name = condition.get("type", "")
        if type_name in types:
            yield duplicate(f"{field}[{number}].type", type_name)
        types.add(type_name)
        yield from _validate_condition(condition, f"{field}[{number}]")


def _validate_condition(condition: Object, field: str) -> Errors:
    yield from field_errors(f"{field}.type", condition.get("type", ""), names.qualified_name)
    if condition.get("status", "") not in _STATUSES:
        yield not_supported(f"{field}.status", condition.get("status", ""), _STATUSES)
    generation = condition.get("observedGeneration") or 0
    if generation < 0:
        problem = "must be greater than or equal to zero"
        yield invalid(f"{field}.observedGeneration", generation, problem)
    if not condition.get("lastTransitionTime"):
        yield required(f"{field}.lastTransitionTime")
    yield from _validate_reason(condition.get("reason", ""), f"{field}.reason")
    if len(condition.get("message", "").encode()) > _MESSAGE_BYTES_MAX:
        yield too_long(f"{field}.message", _MESSAGE_BYTES_MAX)


def _validate_reason(reason: str, field: str) -> Errors:
    if not reason:
        yield required(field)
        return
    if re.fullmatch(_REASON, reason) is None:
        problem = (
            "a condition reason must start with alphabetic character, optionally followed by a "
            "string of alphanumeric characters or '_,:', and must end with an alphanumeric "
            "character or '_'"
        )
        yield invalid(field, reason, names.pattern_problem(problem, _REASON, *_REASON_EXAMPLES))
    if len(reason.encode()) > _REASON_BYTES_MAX:
        yield too_long(field, _REASON_BYTES_MAX)
