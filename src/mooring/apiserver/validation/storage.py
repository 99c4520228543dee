"""Validation of claims, volumes and storage classes, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go, pkg/apis/storage/validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver import names
from mooring.apiserver.errors import (
    Errors,
    forbidden_field,
    invalid,
    not_supported,
    required,
)
from mooring.apiserver.validation.affinity import validate_node_selector
from mooring.apiserver.validation.metadata import IMMUTABLE, field_errors, validate_label_selector

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")


def validate_claim(claim: Object) -> Errors:
    """Validates a new claim."""
    spec = claim["spec"]
    modes = spec.get("accessModes", [])
    if not modes:
        yield required("spec.accessModes", "at least 1 access mode is required")
    yield from (
        not_supported("spec.accessModes", mode, _ACCESS_MODES)
        for mode in modes
        if mode not in _ACCESS_MODES
    )
    if "storage" not in spec.get("resources", {}).get("requests", {}):
        yield required("spec.resources[storage]")
    yield from validate_label_selector(spec.get("selector"), "spec.selector")


def validate_claim_update(new: Object, old: Object) -> Errors:
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


def validate_volume(volume: Object) -> Errors:
    """Validates a new volume."""
    spec = volume["spec"]
    modes = spec.get("accessModes", [])
    if not modes:
        yield required("spec.accessModes")
    yield from (
        not_supported("spec.accessModes", mode, _ACCESS_MODES)
        for mode in modes
        if mode not in _ACCESS_MODES
    )
    capacity = spec.get("capacity", {})
    if not capacity:
        yield required("spec.capacity")
    elif set(capacity) != {"storage"}:
        yield not_supported("spec.capacity", capacity, ["storage"])
    affinity = spec.get("nodeAffinity")
    if affinity is not None:
        field = "spec.nodeAffinity.required"
        if "required" in affinity:
            yield from validate_node_selector(affinity["required"], field)
        else:
            yield required(field, "must specify required node constraints")


def validate_storage_class(storage_class: Object) -> Errors:
    """Validates a new storage class."""
    provisioner = storage_class["provisioner"]
    if not provisioner:
        yield required("provisioner")
    else:
        lowered = provisioner.lower()
        yield from field_errors("provisioner", provisioner, names.qualified_name(lowered))
    mode = storage_class.get("volumeBindingMode")
    if mode not in _BINDING_MODES:
        yield not_supported("volumeBindingMode", mode, _BINDING_MODES)


def validate_storage_class_update(new: Object, old: Object) -> Errors:
    """Validates a change of a storage class."""
    if new.get("parameters") != old.get("parameters"):
        yield forbidden_field("parameters", "updates to parameters are forbidden.")
    if new["provisioner"] != old["provisioner"]:
        yield forbidden_field("provisioner", "updates to provisioner are forbidden.")
    if new.get("reclaimPolicy") != old.get("reclaimPolicy"):
        yield forbidden_field("reclaimPolicy", "updates to reclaimPolicy are forbidden.")
    mode = new.get("volumeBindingMode")
    if mode != old.get("volumeBindingMode"):
        yield invalid("volumeBindingMode", mode, IMMUTABLE)
