"""Validation of claims, volumes and storage classes, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go, pkg/apis/storage/validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver import names
from mooring.apiserver.errors import FieldError, forbidden_field, invalid, not_supported, required
from mooring.apiserver.validation.affinity import validate_node_selector
from mooring.apiserver.validation.metadata import IMMUTABLE, field_errors, validate_label_selector

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")


def validate_claim(claim: Object) -> list[FieldError]:
    """Validates a new claim."""
    spec = claim["spec"]
    errors: list[FieldError] = []
    modes = spec.get("accessModes", [])
    if not modes:
        errors.append(required("spec.accessModes", "at least 1 access mode is required"))
    errors += [
        not_supported("spec.accessModes", mode, _ACCESS_MODES)
        for mode in modes
        if mode not in _ACCESS_MODES
    ]
    if "storage" not in spec.get("resources", {}).get("requests", {}):
        errors.append(required("spec.resources[storage]"))
    return errors + validate_label_selector(spec.get("selector"), "spec.selector")


def validate_claim_update(new: Object, old: Object) -> list[FieldError]:
    """Validates a change of a claim: only its size and volume may change."""
    spec, before = dict(new["spec"]), dict(old["spec"])
    for name in ("resources", "volumeAttributesClassName"):
        spec.pop(name, None)
        before.pop(name, None)
    if "volumeName" not in before:
        spec.pop("volumeName", None)
    if spec == before:
        return []
    problem = (
        "spec is immutable after creation except resources.requests and volumeAttributesClassName "
        "for bound claims\n"
    )
    return [forbidden_field("spec", problem)]


def validate_volume(volume: Object) -> list[FieldError]:
    """Validates a new volume."""
    spec = volume["spec"]
    errors: list[FieldError] = []
    modes = spec.get("accessModes", [])
    if not modes:
        errors.append(required("spec.accessModes"))
    errors += [
        not_supported("spec.accessModes", mode, _ACCESS_MODES)
        for mode in modes
        if mode not in _ACCESS_MODES
    ]
    capacity = spec.get("capacity", {})
    if not capacity:
        errors.append(required("spec.capacity"))
    elif set(capacity) != {"storage"}:
        errors.append(not_supported("spec.capacity", capacity, ["storage"]))
    affinity = spec.get("nodeAffinity")
    if affinity is not None:
        field = "spec.nodeAffinity.required"
        if "required" in affinity:
            errors += validate_node_selector(affinity["required"], field)
        else:
            errors.append(required(field, "must specify required node constraints"))
    return errors


def validate_storage_class(storage_class: Object) -> list[FieldError]:
    """Validates a new storage class."""
    errors: list[FieldError] = []
    provisioner = storage_class["provisioner"]
    if not provisioner:
        errors.append(required("provisioner"))
    else:
        lowered = provisioner.lower()
        errors += field_errors("provisioner", provisioner, names.qualified_name(lowered))
    mode = storage_class.get("volumeBindingMode")
    if mode not in _BINDING_MODES:
        errors.append(not_supported("volumeBindingMode", mode, _BINDING_MODES))
    return errors


def validate_storage_class_update(new: Object, old: Object) -> list[FieldError]:
    """Validates a change of a storage class."""
    errors: list[FieldError] = []
    if new.get("parameters") != old.get("parameters"):
        errors.append(forbidden_field("parameters", "updates to parameters are forbidden."))
    if new["provisioner"] != old["provisioner"]:
        errors.append(forbidden_field("provisioner", "updates to provisioner are forbidden."))
    if new.get("reclaimPolicy") != old.get("reclaimPolicy"):
        errors.append(forbidden_field("reclaimPolicy", "updates to reclaimPolicy are forbidden."))
    mode = new.get("volumeBindingMode")
    if mode != old.get("volumeBindingMode"):
        errors.append(invalid("volumeBindingMode", mode, IMMUTABLE))
    return errors
