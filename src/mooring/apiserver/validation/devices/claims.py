"""Validation of claims, templates and device classes, with kube-apiserver's messages.

Source: pkg/apis/resource/validation/validation.go.
Differs: the estimated cost of expressions is not limited.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mooring.apiserver import names
from mooring.apiserver.errors import (
    Errors,
    forbidden_field,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from mooring.apiserver.validation.addresses import validate_interface_address
from mooring.apiserver.validation.affinity import validate_node_selector
from mooring.apiserver.validation.conditions import validate_conditions
from mooring.apiserver.validation.devices.common import (
    CONFIGS_MAX,
    REQUESTS_MAX,
    name_of,
    same,
    validate_binding_conditions,
    validate_class_name,
    validate_configuration,
    validate_driver_name,
    validate_full_name,
    validate_items,
    validate_pool_name,
    validate_raw,
    validate_selectors,
    validate_share_id,
    validate_toleration,
)
from mooring.apiserver.validation.devices.internal_form import internal_form
from mooring.apiserver.validation.metadata import validate_template_metadata
from mooring.apiserver.validation.rules import IMMUTABLE, field_errors
from mooring.objects.requests import is_extended_resource_name

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

_CONSTRAINTS_MAX: Final = 32
_ALTERNATIVES_MAX: Final = 8
_RESULTS_MAX: Final = 32
_USERS_MAX: Final = 256
_DEVICE_CONDITIONS_MAX: Final = 8
_DEVICE_DATA_BYTES_MAX: Final = 10 * 1024
_NETWORK_BYTES_MAX: Final = {"interfaceName": 256, "hardwareAddress": 128}
_IPS_MAX: Final = 16
_MODES: Final = ("All", "ExactCount")
_SOURCES: Final = ("FromClaim", "FromClass")
_ONE_REQUEST: Final = "exactly one of `exactly` or `firstAvailable` is required"
_NOT_A_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)

#: Names of a claim's requests, each with those of its alternatives.
RequestNames = Mapping[str, frozenset[str]]


def validate_claim(claim: Object) -> Errors:
    """Validates a new claim."""
    return validate_claim_spec(claim["spec"], "spec")


def validate_template(template: Object) -> Errors:
    """Validates a new template of claims."""
    metadata = template["spec"].get("metadata") or {}
    yield from validate_template_metadata(metadata, "spec.metadata")
    yield from validate_claim_spec(template["spec"]["spec"], "spec.spec")


def validate_claim_update(new: Object, old: Object) -> Errors:
    """Validates a change of a claim: its spec is immutable."""
    return _immutable(new["spec"], old["spec"], "spec", "resource.ResourceClaimSpec")


def validate_template_update(new: Object, old: Object) -> Errors:
    """Validates a change of a template: its spec is immutable."""
    yield from _immutable(new["spec"], old["spec"], "spec", "resource.ResourceClaimTemplateSpec")


def _immutable(new: Object, old: Object, field: str, type_name: str) -> Errors:
    return [] if new == old else [invalid(field, internal_form(new, type_name), IMMUTABLE)]


def validate_class(device_class: Object) -> Errors:
    """Validates a new or changed device class."""
    spec = device_class["spec"]
    yield from validate_selectors(spec.get("selectors") or (), "spec.selectors")
    configs = spec.get("config") or ()
    yield from validate_items(configs, "spec.config", CONFIGS_MAX, validate_configuration)
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended_resource_name(name):
        problem = "must be a valid extended resource name"
        yield invalid("spec.extendedResourceName", name, problem)


def validate_claim_spec(spec: Mapping[str, Any], field: str) -> Errors:
    """Validates the spec of a claim."""
    devices, field = spec.get("devices", {}), f"{field}.devices"
    requests = devices.get("requests") or ()
    names_of_claim = request_names(requests)
    path = f"{field}.requests"
    yield from validate_items(requests, path, REQUESTS_MAX, _validate_request, name_of)
    constraint = partial(_validate_constraint, names_of_claim=names_of_claim)
    constraints = devices.get("constraints") or ()
    yield from validate_items(constraints, f"{field}.constraints", _CONSTRAINTS_MAX, constraint)
    config = partial(_validate_config, names_of_claim=names_of_claim)
    yield from validate_items(devices.get("config") or (), f"{field}.config", CONFIGS_MAX, config)


def request_names(requests: Iterable[Mapping[str, Any]]) -> RequestNames:
    """Returns the names to which constraints, configurations and results can refer."""
    return {
        name_of(request): frozenset(map(name_of, request.get("firstAvailable") or ()))
        for request in requests
    }


def _validate_request(request: Object, field: str) -> Errors:
    yield from _request_name(name_of(request), f"{field}.name")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
    if exactly is None and not alternatives:
        yield required(field, _ONE_REQUEST)
    elif exactly is not None and alternatives:
        yield invalid(field, None, f"{_ONE_REQUEST}, but multiple fields are set")
    elif exactly is not None:
        yield from _validate_devices(exactly, f"{field}.exactly")
    else:
        yield from validate_items(
            alternatives or (),
            f"{field}.firstAvailable",
            _ALTERNATIVES_MAX,
            _validate_alternative,
            name_of,
        )


def _request_name(name: str, field: str) -> Errors:
    return field_errors(field, name, names.dns_label)


def _validate_alternative(request: Object, field: str) -> Errors:
    yield from _request_name(name_of(request), f"{field}.name")
    yield from _validate_devices(request, field)


def _validate_devices(request: Object, field: str) -> Errors:
    """Validates what a request and an alternative have in common."""
    yield from validate_class_name(request.get("deviceClassName", ""), f"{field}.deviceClassName")
    yield from validate_selectors(request.get("selectors") or (), f"{field}.selectors")
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode == "All":
        if count:
            problem = "must not be specified when allocationMode is 'All'"
            yield invalid(f"{field}.count", count, problem)
    elif mode == "ExactCount":
        if count <= 0:
            yield invalid(f"{field}.count", count, "must be greater than zero")
    else:
        yield not_supported(f"{field}.allocationMode", mode, _MODES)
    for number, toleration in enumerate(request.get("tolerations") or ()):
        yield from validate_toleration(toleration, f"{field}.tolerations[{number}]")


def _validate_constraint(constraint: Object, field: str, names_of_claim: RequestNames) -> Errors:
    yield from _validate_references(constraint, field, names_of_claim)
    if "matchAttribute" in constraint:
        yield from validate_full_name(constraint["matchAttribute"], f"{field}.matchAttribute")
    elif "distinctAttribute" in constraint:
        name = constraint["distinctAttribute"]
        yield from validate_full_name(name, f"{field}.distinctAttribute")
    else:
        problem = (
            'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple '
            "fields are set"
        )
        yield required(field, problem)


def _validate_config(config: Object, field: str, names_of_claim: RequestNames) -> Errors:
    yield from _validate_references(config, field, names_of_claim)
    yield from validate_configuration(config, field)


def _validate_references(obj: Object, field: str, names_of_claim: RequestNames) -> Errors:
    """Validates the names of requests in a list."""
    reference = partial(_validate_reference, names_of_claim=names_of_claim)
    requests = obj.get("requests") or ()
    return validate_items(requests, f"{field}.requests", REQUESTS_MAX, reference, same)


def _validate_reference(name: str, field: str, names_of_claim: RequestNames) -> Errors:
    segments = name.split("/")
    if len(segments) > 2:
        yield invalid(field, name, _NOT_A_REQUEST)
        return
    for segment in segments:
        yield from _request_name(segment, field)
    if segments[0] not in names_of_claim or not names_of_claim[segments[0]].issuperset(
        segments[1:]
    ):
        yield invalid(field, name, _NOT_A_REQUEST)


# ------------------------------------------------------------------------------------- status


def validate_status(new: Object, old: Object) -> Errors:
    """Validates a change of a claim's status; an allocation can only be set or removed."""
    status, before = new.get("status", {}), old.get("status", {})
    users, allocation = status.get("reservedFor") or (), status.get("allocation")
    yield from validate_items(users, "status.reservedFor", _USERS_MAX, _validate_user, _uid_of)
    allocated = {device_id(result) for result in _results(allocation)}
    device = partial(_validate_device_status, allocated=allocated)
    devices = status.get("devices") or ()
    yield from validate_items(devices, "status.devices", None, device, device_id)
    if users and allocation is None:
        problem = "may not be specified when `allocated` is not set"
        yield forbidden_field("status.reservedFor", problem)
    elif users and "deletionTimestamp" in new["metadata"]:
        earlier = before.get("reservedFor") or ()
        if any(user not in earlier for user in users):
            problem = (
                "new entries may not be added while `deallocationRequested` or "
                "`deletionTimestamp` are set"
            )
            yield forbidden_field("status.reservedFor", problem)
    if allocation is None:
        return
    if "allocation" in before:
        yield from _immutable(
            allocation, before["allocation"], "status.allocation", "resource.AllocationResult"
        )
    else:
        requests = new["spec"].get("devices", {}).get("requests") or ()
        yield from _validate_allocation(allocation, "status.allocation", request_names(requests))


def _results(allocation: Mapping[str, Any] | None) -> Iterable[Any]:
    results: Iterable[Any] = (allocation or {}).get("devices", {}).get("results") or ()
    return results


class DeviceID(msgspec.Struct, frozen=True, rename="pascal"):
    """A device, and the share of it; errors print it as upstream prints its own type."""

    driver: str
    pool: str
    device: str
    share_id: str = msgspec.field(default="", name="ShareID")


def device_id(obj: Mapping[str, Any]) -> DeviceID:
    """Returns the device to which a result or a status belongs."""
    return DeviceID(
        driver=obj.get("driver", ""),
        pool=obj.get("pool", ""),
        device=obj.get("device", ""),
        share_id=obj.get("shareID", ""),
    )


def _uid_of(user: Object) -> str:
    return str(user.get("uid", ""))


def _validate_user(user: Object, field: str) -> Errors:
    return [
        required(f"{field}.{name}") for name in ("resource", "name", "uid") if not user.get(name)
    ]


def _validate_allocation(allocation: Object, field: str, names_of_claim: RequestNames) -> Errors:
    devices = allocation.get("devices", {})
    result = partial(_validate_result, names_of_claim=names_of_claim)
    path = f"{field}.devices.results"
    yield from validate_items(devices.get("results") or (), path, _RESULTS_MAX, result)
    config = partial(_validate_allocated_config, names_of_claim=names_of_claim)
    path = f"{field}.devices.config"
    yield from validate_items(devices.get("config") or (), path, 2 * CONFIGS_MAX, config)
    if "nodeSelector" in allocation:
        yield from validate_node_selector(allocation["nodeSelector"], f"{field}.nodeSelector")


def _validate_result(result: Object, field: str, names_of_claim: RequestNames) -> Errors:
    yield from _validate_reference(result.get("request", ""), f"{field}.request", names_of_claim)
    yield from _validate_device(result, field)
    yield from validate_binding_conditions(result, field)
    if "shareID" in result:
        yield from validate_share_id(result["shareID"], f"{field}.shareID")


def _validate_device(obj: Object, field: str) -> Errors:
    yield from validate_driver_name(obj.get("driver", ""), f"{field}.driver")
    yield from validate_pool_name(obj.get("pool", ""), f"{field}.pool")
    yield from field_errors(f"{field}.device", obj.get("device", ""), names.dns_label)


def _validate_allocated_config(config: Object, field: str, names_of_claim: RequestNames) -> Errors:
    source = config.get("source", "")
    if not source:
        yield required(f"{field}.source")
    elif source not in _SOURCES:
        yield not_supported(f"{field}.source", source, _SOURCES)
    yield from _validate_references(config, field, names_of_claim)
    yield from validate_configuration(config, field)


def _validate_device_status(status: Object, field: str, allocated: set[DeviceID]) -> Errors:
    yield from _validate_device(status, field)
    if "shareID" in status:
        yield from validate_share_id(status["shareID"], f"{field}.shareID")
    if device_id(status) not in allocated:
        yield invalid(field, device_id(status), "must be an allocated device in the claim")
    conditions = status.get("conditions") or ()
    if len(conditions) > _DEVICE_CONDITIONS_MAX:
        yield too_many(f"{field}.conditions", len(conditions), _DEVICE_CONDITIONS_MAX)
    yield from validate_conditions(conditions, f"{field}.conditions")
    if status.get("data") is not None:
        yield from validate_raw(status["data"], f"{field}.data", _DEVICE_DATA_BYTES_MAX)
    network = status.get("networkData") or {}
    for name, bytes_max in _NETWORK_BYTES_MAX.items():
        if len(network.get(name, "").encode()) > bytes_max:
            yield too_long(f"{field}.networkData.{name}", bytes_max)
    ips, ips_field = network.get("ips") or (), f"{field}.networkData.ips"
    yield from validate_items(ips, ips_field, _IPS_MAX, validate_interface_address, same)


def drop_deallocated_devices(new: Object, old: Object) -> None:
    """Removes the drivers' statuses of devices that are no longer allocated."""
    status = new.get("status", {})
    if "devices" not in status:
        return
    before, after = (obj.get("status", {}).get("allocation") for obj in (old, new))
    deallocated = set(map(device_id, _results(before))) - set(map(device_id, _results(after)))
    remaining = [device for device in status["devices"] if device_id(device) not in deallocated]
    if remaining:
        status["devices"] = remaining
    else:
        del status["devices"]
