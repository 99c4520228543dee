"""Validation of resource slices, with kube-apiserver's messages.

Source: pkg/apis/resource/validation/validation.go.
Differs: errors of attributes, capacities and counters come in the order of their names; upstream's
order is random.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, forbidden_field, invalid, required, too_long, too_many
from mooring.apiserver.validation.affinity import validate_node_selector
from mooring.apiserver.validation.devices.common import (
    name_of,
    validate_binding_conditions,
    validate_driver_name,
    validate_items,
    validate_pool_name,
    validate_qualified_name,
    validate_taint,
)
from mooring.apiserver.validation.devices.request_policy import validate_request_policy
from mooring.apiserver.validation.rules import field_errors, immutable, required_value

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

_DEVICES_MAX: Final = 128
_DEVICES_MAX_WITH_TAINTS: Final = 64
_COUNTER_SETS_MAX: Final = 8
_COUNTERS_MAX: Final = 32
_CONSUMPTIONS_MAX: Final = 2
_TAINTS_MAX: Final = 16
_ATTRIBUTES_MAX: Final = 32
_ATTRIBUTE_VALUES_MAX: Final = 48
_TEXT_LENGTH_MAX: Final = 64
#: Domain, slash and identifier.
_KEY_LENGTH_MAX: Final = 63 + 1 + 32
_LISTS: Final = ("bools", "ints", "strings", "versions")

_NUMBER: Final = r"(0|[1-9]\d*)"
_PRE_RELEASE: Final = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD: Final = r"[0-9a-zA-Z-]+"
_VERSION: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    rf"(-{_PRE_RELEASE}(\.{_PRE_RELEASE})*)?(\+{_BUILD}(\.{_BUILD})*)?",
    re.ASCII,
)

_NODES_OF_SLICE: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_NODES_OF_DEVICE: Final = _NODES_OF_SLICE[:3]
_UNSET_OR_TRUE: Final = "must be either unset or set to true"
_ONE_OF_SLICE: Final = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)
_ONE_OF_DEVICE: Final = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
    "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
)


def validate_slice(resource_slice: Object) -> Errors:
    """Validates a new slice."""
    yield from _validate_identity(resource_slice["spec"])
    yield from _validate_content(resource_slice["spec"])


def validate_slice_update(new: Object, old: Object) -> Errors:
    """Validates a changed slice: driver, pool and node are immutable."""
    spec, before = new["spec"], old["spec"]
    yield from _validate_identity(spec)
    yield from immutable(spec["pool"], before["pool"], "name", parent="spec.pool.")
    yield from immutable(spec, before, "driver", "nodeName", parent="spec.")
    yield from _validate_content(spec)


def _validate_identity(spec: Object) -> Errors:
    pool = spec.get("pool", {})
    yield from validate_driver_name(spec.get("driver", ""), "spec.driver")
    yield from validate_pool_name(pool.get("name", ""), "spec.pool.name")
    count, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    if count <= 0:
        yield invalid("spec.pool.resourceSliceCount", count, "must be greater than zero")
    if generation < 0:
        problem = "must be greater than or equal to zero"
        yield invalid("spec.pool.generation", generation, problem)


def _validate_content(spec: Object) -> Errors:
    yield from _validate_nodes(spec, "spec", _NODES_OF_SLICE, _ONE_OF_SLICE)
    devices = spec.get("devices") or ()
    if "sharedCounters" in spec and "devices" in spec:
        yield invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    is_per_device = bool(spec.get("perDeviceNodeSelection"))
    count_max = _DEVICES_MAX_WITH_TAINTS if any(map(_is_advanced, devices)) else _DEVICES_MAX

    def validate(device: Object, field: str) -> Errors:
        return _validate_device(device, field, is_per_device=is_per_device)

    yield from validate_items(devices, "spec.devices", count_max, validate, name_of)
    counters = spec.get("sharedCounters") or ()
    field = "spec.sharedCounters"
    yield from validate_items(counters, field, _COUNTER_SETS_MAX, _validate_counter_set, name_of)


def drop_lists(new: Object, old: Object | None) -> None:
    """Drops attributes with several values: their feature gate is off by default.

    Those of a slice that has some already stay.
    """
    if old is not None and any(map(_has_lists, old["spec"].get("devices") or ())):
        return
    for device in new["spec"].get("devices") or ():
        for attribute in device.get("attributes", {}).values():
            for name in _LISTS:
                attribute.pop(name, None)


def _has_lists(device: Object) -> bool:
    attributes = device.get("attributes", {}).values()
    return any(name in attribute for attribute in attributes for name in _LISTS)


def _is_advanced(device: Object) -> bool:
    """Returns whether a slice with this device can have fewer devices."""
    return bool(device.get("taints") or device.get("consumesCounters") or _has_lists(device))


def _validate_nodes(obj: Object, field: str, fields: tuple[str, ...], problem: str) -> Errors:
    """Validates the nodes of a slice or a device: exactly one of some fields has them."""
    present = [name for name in fields if name in obj and obj[name] not in (False, "")]
    is_slice = len(fields) == len(_NODES_OF_SLICE)
    for name in fields:
        if name not in obj:
            continue
        value, path = obj[name], f"{field}.{name}"
        if name == "nodeName" and value:
            yield from field_errors(path, value, names.dns_subdomain)
        elif name == "nodeName":
            unset = "must be either unset or set to a non-empty string"
            yield invalid(path, value, unset if is_slice else "must not be empty")
        elif name == "nodeSelector":
            yield from validate_node_selector(value, path)
            terms = value.get("nodeSelectorTerms") or []
            if is_slice and len(terms) != 1:
                detail = "must have exactly one node selector term"
                yield invalid(f"{path}.nodeSelectorTerms", terms, detail)
        elif not value:
            yield invalid(path, value, _UNSET_OR_TRUE)
    if not present:
        yield required(field, problem)
    elif len(present) > 1:
        text = "{" + ", ".join(f"`{name}`" for name in present) + "}"
        yield invalid(
            field, text, f"{problem}, but multiple fields are set" if is_slice else problem
        )


def _validate_device(device: Object, field: str, *, is_per_device: bool) -> Errors:
    attributes, capacity = device.get("attributes", {}), device.get("capacity", {})
    yield from field_errors(f"{field}.name", device.get("name", ""), names.dns_label)
    count = len(attributes) + len(capacity)
    if count > _ATTRIBUTES_MAX:
        problem = f"the total number of attributes and capacities must not exceed {_ATTRIBUTES_MAX}"
        yield invalid(field, count, problem)
    count = sum(map(_value_count, attributes.values()))
    if count > _ATTRIBUTE_VALUES_MAX:
        problem = f"the total number of attribute values must not exceed {_ATTRIBUTE_VALUES_MAX}"
        yield invalid(field, count, problem)
    yield from _validate_map(attributes, f"{field}.attributes", _validate_attribute)
    is_shared = bool(device.get("allowMultipleAllocations"))
    validate_capacity = _validate_shared_capacity if is_shared else _validate_capacity
    yield from _validate_map(capacity, f"{field}.capacity", validate_capacity)
    taints = device.get("taints") or ()
    yield from validate_items(taints, f"{field}.taints", _TAINTS_MAX, validate_taint)
    yield from validate_items(
        device.get("consumesCounters") or (),
        f"{field}.consumesCounters",
        _CONSUMPTIONS_MAX,
        _validate_consumption,
        lambda consumption: str(consumption.get("counterSet", "")),
    )
    if is_per_device:
        yield from _validate_nodes(device, field, _NODES_OF_DEVICE, _ONE_OF_DEVICE)
    elif any(name in device for name in _NODES_OF_DEVICE):
        problem = (
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if "
            "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
        )
        yield invalid(field, None, problem)
    yield from validate_binding_conditions(device, field)


def _value_count(attribute: Object) -> int:
    return sum(len(attribute.get(name) or ()) for name in _LISTS) or 1


def _validate_map(
    values: Mapping[str, Any], field: str, validate: Callable[[Any, str], Errors]
) -> Errors:
    """Validates the names and values of attributes or capacities."""
    for name in sorted(values):
        yield from validate_qualified_name(name, field)
        yield from validate(values[name], f"{field}[{_shortened(name)}]")


def _shortened(name: str) -> str:
    """Returns a name as it appears in field paths, where a long one loses its middle."""
    if len(name) <= _KEY_LENGTH_MAX:
        return name
    remaining = _KEY_LENGTH_MAX - 3
    return f"{name[: (remaining + 1) // 2]}...{name[-(remaining // 2) :]}"


def _validate_attribute(attribute: Object, field: str) -> Errors:
    if "string" in attribute:
        yield from _text(attribute["string"], f"{field}.string")
    if "version" in attribute:
        yield from _version(attribute["version"], f"{field}.version")
    for name in _LISTS:
        if name in attribute and not attribute[name]:
            yield invalid(f"{field}.{name}", [], "must not be empty if specified")
    for number, text in enumerate(attribute.get("strings") or ()):
        yield from _text(text, f"{field}.strings[{number}]")
    for number, text in enumerate(attribute.get("versions") or ()):
        yield from _version(text, f"{field}.versions[{number}]")
    if not attribute:
        yield invalid(field, "", "exactly one value must be specified")
    elif len(attribute) > 1:
        # Upstream prints its internal type, whose fields have other names.
        internal = {f"{kind.capitalize()}Value": attribute.get(kind) for kind in _SCALARS}
        internal |= {f"{kind[:-1].capitalize()}Values": attribute.get(kind) for kind in _INTERNAL}
        yield invalid(field, internal, "exactly one value must be specified")


_SCALARS: Final = ("int", "bool", "string", "version")
_INTERNAL: Final = ("ints", "bools", "strings", "versions")


def _text(text: str, field: str) -> Errors:
    if len(text.encode()) > _TEXT_LENGTH_MAX:
        yield too_long(field, _TEXT_LENGTH_MAX)


def _version(text: str, field: str) -> Errors:
    if not _VERSION.fullmatch(text):
        yield invalid(field, text, "must be a string compatible with semver.org spec 2.0.0")
    yield from _text(text, field)


def _validate_capacity(capacity: Object, field: str) -> Errors:
    if "requestPolicy" in capacity:
        yield forbidden_field(f"{field}.requestPolicy", "allowMultipleAllocations must be true")


def _validate_shared_capacity(capacity: Object, field: str) -> Errors:
    policy = capacity.get("requestPolicy")
    if policy is not None:
        yield from validate_request_policy(capacity["value"], policy, f"{field}.requestPolicy")


def _validate_counter_set(counter_set: Object, field: str) -> Errors:
    yield from required_value(f"{field}.name", name_of(counter_set), names.dns_label)
    yield from _validate_counters(counter_set, field)


def _validate_consumption(consumption: Object, field: str) -> Errors:
    name = consumption.get("counterSet", "")
    yield from required_value(f"{field}.counterSet", name, names.dns_label)
    yield from _validate_counters(consumption, field)


def _validate_counters(obj: Object, field: str) -> Errors:
    counters, field = obj.get("counters", {}), f"{field}.counters"
    if not counters:
        yield required(field)
    elif len(counters) > _COUNTERS_MAX:
        yield too_many(field, len(counters), _COUNTERS_MAX)
    else:
        for name in sorted(counters):
            yield from field_errors(field, name, names.dns_label)
