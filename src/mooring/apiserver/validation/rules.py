"""Rules that several validations share, with kube-apiserver's messages.

Source: k8s.io/apimachinery pkg/api/validation, pkg/api/validate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from mooring.apiserver.errors import Errors, invalid, not_supported, required

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mooring.apiserver.names import Problems

IMMUTABLE = "field is immutable"
NOT_NEGATIVE = "must be greater than or equal to 0"

_Value = TypeVar("_Value")


def field_errors(field: str, value: _Value, check: Callable[[_Value], Problems]) -> Errors:
    """Returns a field error for each problem that a check finds in a value."""
    problems = check(value)
    return [invalid(field, value, problem) for problem in problems] if problems else ()


def required_value(field: str, value: _Value, check: Callable[[_Value], Problems]) -> Errors:
    """Checks a value that may not be empty or zero."""
    return field_errors(field, value, check) if value else [required(field)]


def required_fields(obj: Mapping[str, Any], field: str, *names: str) -> Errors:
    """Checks that fields are neither absent nor empty."""
    return [required(f"{field}.{name}") for name in names if not obj.get(name)]


def one_of(field: str, value: Any, supported: Sequence[str]) -> Errors:
    """Checks that a value, unless it is absent, is one of the supported ones."""
    is_valid = value is None or value in supported
    return [] if is_valid else [not_supported(field, value, supported)]


def required_one_of(field: str, value: Any, supported: Sequence[str]) -> Errors:
    """Checks that a value is one of the supported ones; it may not be absent or empty."""
    return one_of(field, value, supported) if value else [required(field)]


def validate_no_steps_back(path: str, field: str) -> Errors:
    """Validates that no part of a path is ``..``."""
    return [invalid(field, path, "must not contain '..'")] if ".." in path.split("/") else []


def not_negative(obj: Mapping[str, Any], field: str, *names: str) -> Errors:
    """Checks that numbers, where they are set, are not negative."""
    return [
        invalid(f"{field}.{name}", obj[name], NOT_NEGATIVE)
        for name in names
        if obj.get(name, 0) < 0
    ]


def immutable(
    new: Mapping[str, Any], old: Mapping[str, Any], *names: str, parent: str = ""
) -> Errors:
    """Checks that fields have not changed; ``parent``: the path of the object, with a dot."""
    return [
        invalid(f"{parent}{name}", new.get(name), IMMUTABLE)
        for name in names
        if new.get(name) != old.get(name)
    ]
