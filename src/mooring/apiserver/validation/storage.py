"""Validation of claims, volumes and storage classes, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go, pkg/apis/storage/validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, forbidden_field, not_supported, required
from mooring.apiserver.validation.affinity import validate_node_selector
from mooring.apiserver.validation.metadata import validate_label_selector
from mooring.apiserver.validation.rules import immutable, one_of, required_value

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")


def validate_claim(claim: Object) -> Errors:
    """Validates a new claim."""
    spec = claim["spec"]
    yield from _validate_access_modes(spec, "at least 1 access mode is required")
    if "storage" not in spec.get("resources", {}).get("requests", {}):
        yield required("spec.resources[storage]")
    yield from validate_label_selector(spec.get("selector"), "spec.selector")


def _validate_access_modes(spec: Object, detail: str = "") -> Errors:
    modes = spec.get("accessModes", [])
    if not modes:
        yield required("spec.accessModes", detail)
    for mode in modes:
        yield from one_of("spec.accessModes", mode, _ACCESS_MODES)


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
    yield from _validate_access_modes(spec)
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
    yield from required_value("provisioner", storage_class["provisioner"], names.annotation_key)
    yield from one_of("volumeBindingMode", storage_class.get("volumeBindingMode"), _BINDING_MODES)


def validate_storage_class_update(new: Object, old: Object) -> Errors:
    """Validates a change of a storage class."""
    for name in ("parameters", "provisioner", "reclaimPolicy"):
        if new.get(name) != old.get(name):
            yield forbidden_field(name, f"updates to {name} are forbidden.")
    yield from immutable(new, old, "volumeBindingMode")
