"""Validation of device taint rules, with kube-apiserver's messages.

Source: pkg/apis/resource/validation/validation.go (ValidateDeviceTaintRule).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, too_many
from mooring.apiserver.validation.conditions import validate_conditions
from mooring.apiserver.validation.devices.common import (
    validate_driver_name,
    validate_pool_name,
    validate_taint,
)
from mooring.apiserver.validation.rules import field_errors
from mooring.objects.schema.checks import Path, Problem, find_problems

if TYPE_CHECKING:
    from mooring.apiserver.types import Object


_CONDITIONS_MAX: Final = 8

#: Struct -> field -> type, for the messages of files.
_FIELDS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "rule": {
            "apiVersion": "string",
            "kind": "string",
            "metadata": "meta.ObjectMeta",
            "spec": "spec",
            "status": "status",
        },
        "spec": {"deviceSelector": "selector", "taint": "resource.DeviceTaint"},
        "selector": {"driver": "string", "pool": "string", "device": "string"},
        "status": {"conditions": "[]meta.Condition"},
    }
)


def field_problems(rule: Object) -> Iterator[Problem]:
    """Yields the fields that are unknown or have a wrong type."""
    yield from _struct_problems("rule", rule, ())


def _struct_problems(struct: str, value: Any, path: Path) -> Iterator[Problem]:
    if value is None:
        return
    if not isinstance(value, dict):
        yield Problem(path, "must be a mapping", value)
        return
    fields = _FIELDS[struct]
    for name, item in value.items():
        type_name = fields.get(name)
        if type_name is None:
            yield Problem((*path, name), "unknown field", is_unknown=True)
        elif type_name in _FIELDS:
            yield from _struct_problems(type_name, item, (*path, name))
        else:
            yield from find_problems(type_name, item, (*path, name))


def validate_taint_rule(rule: Object) -> Errors:
    """Validates a new or changed rule."""
    spec = rule.get("spec") or {}
    yield from _validate_selector(spec.get("deviceSelector") or {}, "spec.deviceSelector")
    yield from validate_taint(spec.get("taint") or {}, "spec.taint")


def validate_taint_rule_status(new: Object, _old: Object) -> Errors:
    """Validates a changed status."""
    conditions = (new.get("status") or {}).get("conditions") or ()
    yield from validate_conditions(conditions, "status.conditions")
    if len(conditions) > _CONDITIONS_MAX:
        yield too_many("status.conditions", len(conditions), _CONDITIONS_MAX)


def _validate_selector(selector: Object, field: str) -> Errors:
    """Validates the fields that are set; an empty text is set."""
    driver, pool, device = (selector.get(name) for name in ("driver", "pool", "device"))
    if driver is not None:
        yield from validate_driver_name(driver, f"{field}.driver")
    if pool is not None:
        yield from validate_pool_name(pool, f"{field}.pool")
    if device is not None:
        yield from field_errors(f"{field}.device", device, names.dns_label)
