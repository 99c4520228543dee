"""Validation of PersistentVolumeClaims, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go.
Differs: messages about immutable fields do not print the difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, forbidden_field, invalid, required
from mooring.apiserver.object_fields import restore_fields
from mooring.apiserver.validation.metadata import validate_label_selector
from mooring.apiserver.validation.rules import field_errors, immutable, one_of, required_fields
from mooring.objects.quantity import Quantity
from mooring.objects.volume_claims import BETA_CLASS, amount

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

VOLUME_MODES = ("Block", "Filesystem")
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_POSITIVE = "must be greater than zero"
_STORAGE = "storage"
_ATTRIBUTES_CLASS = "volumeAttributesClassName"


def validate_claim(claim: Object) -> Errors:
    """Validates a new claim."""
    yield from validate_claim_spec(claim["spec"], "spec")


def validate_claim_spec(spec: Object, field: str) -> Errors:
    """Validates the spec of a claim, or of the template of one."""
    if not spec.get("accessModes"):
        yield required(f"{field}.accessModes", "at least 1 access mode is required")
    yield from validate_label_selector(spec.get("selector"), f"{field}.selector")
    yield from validate_access_modes(spec, field)
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        yield required(f"{field}.resources[storage]")
    else:
        yield from validate_size(size, f"{field}.resources[storage]")
    if spec.get("storageClassName"):
        name = spec["storageClassName"]
        yield from field_errors(f"{field}.storageClassName", name, names.dns_subdomain)
    yield from one_of(f"{field}.volumeMode", spec.get("volumeMode"), VOLUME_MODES)
    yield from _validate_data_sources(spec, field)
    if spec.get("volumeAttributesClassName"):
        name = spec["volumeAttributesClassName"]
        yield from field_errors(f"{field}.volumeAttributesClassName", name, names.dns_subdomain)


def _validate_data_sources(spec: Object, field: str) -> Errors:
    """Validates what a new volume is filled with."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    for name, value in (("dataSource", source), ("dataSourceRef", reference)):
        if value is not None:
            yield from _validate_data_source(value, f"{field}.{name}")
    if source is not None and reference is not None:
        keys = ("apiGroup", "kind", "name")
        if reference.get("namespace"):
            problem = "may not be specified when dataSourceRef.namespace is specified"
            yield invalid(field, {}, problem)
        elif any(source.get(key) != reference.get(key) for key in keys):
            yield invalid(field, {}, "must match dataSourceRef")


def _validate_data_source(source: Object, field: str) -> Errors:
    yield from required_fields(source, field, "name", "kind")
    group, kind = source.get("apiGroup", ""), source.get("kind", "")
    if group:
        yield from field_errors(f"{field}.apiGroup", group, names.dns_subdomain)
    elif kind != "PersistentVolumeClaim":
        problem = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        yield invalid(field, kind, problem)
    if source.get("namespace"):
        yield from field_errors(f"{field}.namespace", source["namespace"], names.dns_label)


def validate_size(text: str, field: str) -> Errors:
    """Validates an amount of storage."""
    if Quantity.from_wire(text).nanos <= 0:
        yield invalid(field, text, _POSITIVE)


def validate_access_modes(spec: Object, field: str) -> Errors:
    """Validates the access modes of a claim or a volume."""
    modes = spec.get("accessModes") or []
    for mode in modes:
        yield from one_of(f"{field}.accessModes", mode, _ACCESS_MODES)
    others = {mode for mode in modes if mode in _ACCESS_MODES} - {"ReadWriteOncePod"}
    if "ReadWriteOncePod" in modes and others:
        problem = "may not use ReadWriteOncePod with other access modes"
        yield forbidden_field(f"{field}.accessModes", problem)


def validate_claim_update(new: Object, old: Object) -> Errors:
    """Validates a change of a claim: only the size and the class of a bound one may change."""
    yield from validate_claim(new)
    if _fixed(new, old) != old["spec"]:
        problem = (
            "spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims\n"
        )
        yield forbidden_field("spec", problem)
    size, before = (
        amount((obj["spec"].get("resources") or {}).get("requests") or {}) for obj in (new, old)
    )
    if size < before and size <= amount((old.get("status") or {}).get("capacity") or {}):
        problem = "field can not be less than status.capacity"
        yield forbidden_field("spec.resources.requests.storage", problem)
    yield from immutable(new["spec"], old["spec"], "volumeMode")
    yield from _validate_class_change(new["spec"].get(_ATTRIBUTES_CLASS), old)


def _fixed(new: Object, old: Object) -> Object:
    """Returns the new spec, where it may have changed as it was."""
    spec, before = {**new["spec"]}, old["spec"]
    if not before.get("volumeName"):
        restore_fields(spec, before, "volumeName")
    if "storageClassName" in spec and "storageClassName" not in before:
        annotation = old["metadata"].get("annotations", {}).get(BETA_CLASS)
        if annotation in (None, spec["storageClassName"]):
            del spec["storageClassName"]
    if (new.get("status") or {}).get("phase") == "Bound":
        restore_fields(spec, before, _ATTRIBUTES_CLASS)
        resources = spec.get("resources") or {}
        if "requests" in resources:
            requests = {**resources["requests"]}
            restore_fields(requests, before["resources"].get("requests") or {}, _STORAGE)
            spec["resources"] = {**resources, "requests": requests}
    return spec


def _validate_class_change(name: str | None, old: Object) -> Errors:
    """Validates that a class of attributes that is in effect is not removed."""
    if not (old.get("status") or {}).get("currentVolumeAttributesClassName") or name:
        return
    if name == old["spec"].get(_ATTRIBUTES_CLASS):
        return
    value = "nil" if name is None else "empty string"
    problem = "is forbidden when status.currentVolumeAttributesClassName is not nil"
    yield forbidden_field(f"spec.{_ATTRIBUTES_CLASS}", f"update to {value} {problem}")
