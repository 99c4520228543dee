"""Validation of a Job's podFailurePolicy, with kube-apiserver's messages.

Source: pkg/apis/batch/validation/validation.go (validatePodFailurePolicy).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver import names
from mooring.apiserver.errors import (
    Errors,
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    too_many,
)
from mooring.apiserver.validation.rules import field_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.apiserver.types import Object

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_RULES_MAX = 20
_VALUES_MAX = 255
_CONDITIONS_MAX = 20


def validate_failure_policy(spec: Object, field: str) -> Errors:
    """Validates the policy of a job's spec; ``field`` is the path of the policy."""
    rules = spec["podFailurePolicy"].get("rules") or []
    if len(rules) > _RULES_MAX:
        yield too_many(f"{field}.rules", len(rules), _RULES_MAX)
    pod_spec = spec["template"].get("spec") or {}
    containers = {
        container.get("name", "")
        for kind in ("containers", "initContainers")
        for container in pod_spec.get(kind) or ()
    }
    for number, rule in enumerate(rules):
        yield from _validate_rule(spec, rule, f"{field}.rules[{number}]", containers)


def _validate_rule(spec: Object, rule: Object, field: str, containers: set[str]) -> Errors:
    action = rule.get("action", "")
    if action == "FailIndex":
        if spec.get("backoffLimitPerIndex") is None:
            problem = "requires the backoffLimitPerIndex to be set"
            yield invalid(f"{field}.action", action, problem)
    else:
        yield from _one_of(f"{field}.action", action, _ACTIONS)
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
    if codes is not None:
        yield from _validate_codes(codes, f"{field}.onExitCodes", containers)
    if conditions:
        yield from _validate_conditions(conditions, f"{field}.onPodConditions")
    if codes is not None and conditions:
        yield _invalid_rule(
            field, "specifying both OnExitCodes and OnPodConditions is not supported"
        )
    if codes is None and not conditions:
        yield _invalid_rule(field, "specifying one of OnExitCodes and OnPodConditions is required")


def _invalid_rule(field: str, problem: str) -> FieldError:
    """Returns the error of a rule, whose value upstream omits."""
    return FieldError("FieldValueInvalid", field, f"Invalid value: {problem}")


def _one_of(field: str, value: str, supported: Sequence[str]) -> Errors:
    if not value:
        listed = " ".join(f'"{name}"' for name in supported)
        yield required(field, f"valid values: [{listed}]")
    elif value not in supported:
        yield not_supported(field, value, supported)


def _validate_conditions(conditions: Sequence[Object], field: str) -> Errors:
    if len(conditions) > _CONDITIONS_MAX:
        yield too_many(field, len(conditions), _CONDITIONS_MAX)
    for number, pattern in enumerate(conditions):
        item_field = f"{field}[{number}]"
        yield from field_errors(f"{item_field}.type", pattern.get("type", ""), names.qualified_name)
        yield from _one_of(f"{item_field}.status", pattern.get("status", ""), _STATUSES)


def _validate_codes(codes: Object, field: str, containers: set[str]) -> Errors:
    operator, values = codes.get("operator", ""), codes.get("values") or []
    yield from _one_of(f"{field}.operator", operator, _OPERATORS)
    name = codes.get("containerName")
    if name is not None and name not in containers:
        problem = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{field}.containerName", name, problem)
    if not values:
        yield invalid(f"{field}.values", codes.get("values"), "at least one value is required")
    elif len(values) > _VALUES_MAX:
        yield too_many(f"{field}.values", len(values), _VALUES_MAX)
    for number, value in enumerate(values):
        if operator == "In" and value == 0:
            yield invalid(f"{field}.values[{number}]", value, "must not be 0 for the In operator")
        if value in values[:number]:
            yield duplicate(f"{field}.values[{number}]", value)
    if values != sorted(values):
        yield invalid(f"{field}.values", values, "must be ordered")
