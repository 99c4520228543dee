"""Validation of the amounts of a shared device that may be requested.

Source: pkg/apis/resource/validation/validation.go (validateRequestPolicy).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mooring.apiserver.errors import (
    Errors,
    duplicate,
    forbidden_field,
    invalid,
    required,
    too_many,
)
from mooring.objects.quantity import Quantity

_VALUES_MAX: Final = 10


def validate_request_policy(capacity: str, policy: Mapping[str, Any], field: str) -> Errors:
    """Validates the policy of a capacity: values or a range, each with a default."""
    values, allowed = policy.get("validValues") or (), policy.get("validRange")
    default = policy.get("default")
    if values and allowed is not None:
        problem = (
            'exactly one policy can be specified, cannot specify "validValues" and "validRange" '
            "at the same time"
        )
        yield forbidden_field(field, problem)
    elif values and default is None:
        yield required(f"{field}.default", "required when validValues is defined")
    elif values:
        yield from _validate_values(default, capacity, values, f"{field}.validValues")
    elif allowed is not None and default is None:
        yield required(f"{field}.default", "required when validRange is defined")
    elif allowed is not None:
        yield from _validate_range(default, capacity, allowed, f"{field}.validRange")


def _nanos(value: Any) -> int:
    return Quantity.from_wire(value).nanos


def _validate_values(default: Any, capacity: str, values: Sequence[Any], field: str) -> Errors:
    amounts = [_nanos(value) for value in values]
    for number in range(1, len(values)):
        if amounts[number - 1] > amounts[number]:
            problem = "values must be sorted in ascending order"
            yield invalid(f"{field}[{number}]", str(values[number]), problem)
    if len(values) > _VALUES_MAX:
        yield too_many(field, len(values), _VALUES_MAX)
    else:
        for number, value in enumerate(values):
            if amounts[number] > _nanos(capacity):
                problem = f"option is larger than capacity value: {capacity}"
                yield invalid(f"{field}[{number}]", str(value), problem)
        whole = [_units(value) for value in values]
        for number, amount in enumerate(whole):
            if amount in whole[:number]:
                yield duplicate(f"{field}[{number}]", str(amount))
    if len(values) > _VALUES_MAX or _nanos(default) not in amounts:
        problem = "default value is not valid according to the requestPolicy"
        yield invalid(field, str(default), problem)


def _validate_range(default: Any, capacity: str, allowed: Mapping[str, Any], field: str) -> Errors:
    low, high, step = (allowed.get(name) for name in ("min", "max", "step"))
    if low is None:
        yield required(f"{field}.min", "required when validRange is defined")
        return
    low_field, high_field, step_field = (f"{field}.{name}" for name in ("min", "max", "step"))
    if _nanos(low) > _nanos(capacity):
        yield invalid(low_field, str(low), f"min is larger than capacity value: {capacity}")
    if _nanos(default) < _nanos(low):
        yield invalid(low_field, str(default), f"default is less than min: {low}")
    if high is not None:
        if _nanos(low) > _nanos(high):
            yield invalid(high_field, str(low), f"min is larger than max: {high}")
        if _nanos(high) > _nanos(capacity):
            yield invalid(high_field, str(high), f"max is larger than capacity value: {capacity}")
        if _nanos(default) > _nanos(high):
            yield invalid(high_field, str(default), f"default is more than max: {high}")
    if step is None:
        return
    if _nanos(low) + _nanos(step) > _nanos(capacity):
        problem = f"one step is larger than capacity value: {capacity}"
        yield invalid(step_field, str(step), problem)
    for value in (default, high):
        if value is not None and not _is_multiple(value, low, step):
            problem = f"value is not a multiple of a given step ({step}) from ({low})"
            yield invalid(step_field, str(value), problem)


def _is_multiple(value: Any, low: Any, step: Any) -> bool:
    size = _units(step)
    return size != 0 and (_units(value) - _units(low)) % size == 0


def _units(value: Any) -> int:
    """Returns an amount in whole units, rounded up."""
    return -(-_nanos(value) // 10**9)
