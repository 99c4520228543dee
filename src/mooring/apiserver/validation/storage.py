"""Validation of claims and volumes, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go.
Differs: the fields of volume types other than hostPath, local, nfs and csi are not validated, and
messages about immutable fields do not print the difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, forbidden_field, invalid, not_supported, required
from mooring.apiserver.validation.affinity import validate_node_selector
from mooring.apiserver.validation.metadata import validate_label_selector
from mooring.apiserver.validation.pods.volumes import (
    validate_csi,
    validate_host_path,
    validate_nfs,
    validate_no_steps_back,
)
from mooring.apiserver.validation.rules import IMMUTABLE, field_errors, immutable, one_of
from mooring.objects.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mooring.apiserver.types import Object

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_POSITIVE = "must be greater than zero"


def validate_claim(claim: Object) -> Errors:
    """Validates a new claim."""
    yield from validate_claim_spec(claim["spec"], "spec")


def validate_claim_spec(spec: Object, field: str) -> Errors:
    """Validates the spec of a claim, or of the template of one."""
    if not spec.get("accessModes"):
        yield required(f"{field}.accessModes", "at least 1 access mode is required")
    yield from validate_label_selector(spec.get("selector"), f"{field}.selector")
    yield from _validate_access_modes(spec, field)
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        yield required(f"{field}.resources[storage]")
    else:
        yield from _validate_size(size, f"{field}.resources[storage]")
    if spec.get("storageClassName"):
        name = spec["storageClassName"]
        yield from field_errors(f"{field}.storageClassName", name, names.dns_subdomain)
    yield from one_of(f"{field}.volumeMode", spec.get("volumeMode"), _VOLUME_MODES)
    if spec.get("volumeAttributesClassName"):
        name = spec["volumeAttributesClassName"]
        yield from field_errors(f"{field}.volumeAttributesClassName", name, names.dns_subdomain)


def _validate_size(text: str, field: str) -> Errors:
    if Quantity.from_wire(text).nanos <= 0:
        yield invalid(field, text, _POSITIVE)


def _validate_access_modes(spec: Object, field: str) -> Errors:
    modes = spec.get("accessModes") or []
    for mode in modes:
        yield from one_of(f"{field}.accessModes", mode, _ACCESS_MODES)
    others = {mode for mode in modes if mode in _ACCESS_MODES} - {"ReadWriteOncePod"}
    if "ReadWriteOncePod" in modes and others:
        problem = "may not use ReadWriteOncePod with other access modes"
        yield forbidden_field(f"{field}.accessModes", problem)


def validate_claim_update(new: Object, old: Object) -> Errors:
    """Validates a change of a claim: only its size and volume may change."""
    yield from validate_claim(new)
    spec, before = dict(new["spec"]), dict(old["spec"])
    for name in ("resources", "volumeAttributesClassName"):
        spec.pop(name, None)
        before.pop(name, None)
    if "volumeName" not in before:
        spec.pop("volumeName", None)
    if spec != before:
        problem = (
            "spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims\n"
        )
        yield forbidden_field("spec", problem)


# -- volumes ---------------------------------------------------------------------------------------


def validate_volume(volume: Object) -> Errors:
    """Validates a new volume."""
    spec = volume["spec"]
    if not spec.get("accessModes"):
        yield required("spec.accessModes")
    yield from _validate_access_modes(spec, "spec")
    yield from _validate_capacity(spec)
    policy = spec.get("persistentVolumeReclaimPolicy")
    yield from one_of("spec.persistentVolumeReclaimPolicy", policy or None, _RECLAIM_POLICIES)
    affinity = spec.get("nodeAffinity")
    if affinity is not None:
        field = "spec.nodeAffinity.required"
        if affinity.get("required") is not None:
            yield from validate_node_selector(affinity["required"], field)
        else:
            yield required(field, "must specify required node constraints")
    yield from _validate_sources(spec)
    if spec.get("storageClassName"):
        name = spec["storageClassName"]
        yield from field_errors("spec.storageClassName", name, names.dns_subdomain)
    yield from one_of("spec.volumeMode", spec.get("volumeMode"), _VOLUME_MODES)
    yield from _validate_attributes_class(spec)


def _validate_capacity(spec: Object) -> Errors:
    capacity: Mapping[str, str] = spec.get("capacity") or {}
    if not capacity:
        yield required("spec.capacity")
    if set(capacity) != {"storage"}:
        yield not_supported("spec.capacity", dict(capacity), ["storage"])
    for name, text in capacity.items():
        amount = Quantity.from_wire(text).value()
        if amount < 0:
            yield invalid(f"spec.capacity[{name}]", amount, "must be a valid resource quantity")
        yield from _validate_size(text, f"spec.capacity[{name}]")


def _validate_attributes_class(spec: Object) -> Errors:
    name, field = spec.get("volumeAttributesClassName"), "spec.volumeAttributesClassName"
    if name is None:
        return
    if name:
        yield from field_errors(field, name, names.dns_subdomain)
    else:
        yield required(field, "an empty string is disallowed")
    if "csi" not in spec:
        problem = "has to be specified when using volumeAttributesClassName"
        yield required("spec.csi", problem)


def _validate_sources(spec: Object) -> Errors:
    sources = sources_of(spec)
    for number, (name, source) in enumerate(sources.items()):
        if number:
            yield forbidden_field(f"spec.{name}", "may not specify more than 1 volume type")
        elif name in _SOURCES:
            yield from _SOURCES[name](source, f"spec.{name}")
            if name == "local" and spec.get("nodeAffinity") is None:
                yield required("spec.nodeAffinity", "Local volume requires node affinity")
    if not sources:
        yield required("spec", "must specify a volume type")
    is_root = "hostPath" in sources and set(sources["hostPath"].get("path", "")) == {"/"}
    if is_root and spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        problem = "may not be 'recycle' for a hostPath mount of '/'"
        yield forbidden_field("spec.persistentVolumeReclaimPolicy", problem)


def sources_of(spec: Object) -> dict[str, Any]:
    """Returns the volume types that a spec has, in upstream's order."""
    return {name: spec[name] for name in _SOURCE_NAMES if spec.get(name) is not None}


def _validate_local(source: Object, field: str) -> Errors:
    path = source.get("path", "")
    if not path:
        yield required(f"{field}.path")
        return
    yield from validate_no_steps_back(path, f"{field}.path")


def _validate_csi(source: Object, field: str) -> Errors:
    yield from validate_csi(source, field)
    if not source.get("volumeHandle"):
        yield required(f"{field}.volumeHandle")


_SOURCES: Mapping[str, Callable[[Object, str], Errors]] = {
    "hostPath": validate_host_path,
    "nfs": validate_nfs,
    "local": _validate_local,
    "csi": _validate_csi,
}
_SOURCE_NAMES = (
    *("hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs"),
    *("rbd", "quobyte", "cephfs", "iscsi", "cinder", "fc", "flexVolume", "azureFile"),
    *("vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk", "scaleIO"),
    *("local", "storageos", "csi"),
)


def validate_volume_update(new: Object, old: Object) -> Errors:
    """Validates a change of a volume: what it is, and which nodes reach it, is immutable."""
    yield from validate_volume(new)
    spec, before = new["spec"], old["spec"]
    if _compared(sources_of(spec), sources_of(before)) != sources_of(before):
        problem = "spec.persistentvolumesource is immutable after creation\n"
        yield forbidden_field("spec.persistentvolumesource", problem)
    yield from immutable(spec, before, "volumeMode")
    affinity = spec.get("nodeAffinity")
    if before.get("nodeAffinity") is not None and affinity != before["nodeAffinity"]:
        problem = f"{IMMUTABLE}, except for updating from beta label to GA"
        yield invalid("nodeAffinity", _internal_affinity(affinity), problem)
    name = "volumeAttributesClassName"
    if before.get(name) is not None and spec.get(name) is None:
        yield forbidden_field(f"spec.{name}", "update from non-nil value to nil is forbidden")


def _compared(sources: Mapping[str, Any], before: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the sources without a secret for expansion, if they had none: it may be added."""
    name = "controllerExpandSecretRef"
    if "csi" in sources and "csi" in before and name not in before["csi"]:
        csi = {key: value for key, value in sources["csi"].items() if key != name}
        return {**sources, "csi": csi}
    return sources


def _internal_affinity(affinity: Object | None) -> Object | None:
    """Returns an affinity with the names of upstream's internal type, which messages print."""
    if affinity is None:
        return None
    needed = affinity.get("required")
    if needed is None:
        return {"Required": None}

    def expressions(term: Object, name: str) -> list[Any] | None:
        entries = term.get(name)
        if entries is None:
            return None
        keys = ("key", "operator", "values")
        return [{key.capitalize(): entry.get(key) for key in keys} for entry in entries]

    terms = [
        {
            "MatchExpressions": expressions(term, "matchExpressions"),
            "MatchFields": expressions(term, "matchFields"),
        }
        for term in needed.get("nodeSelectorTerms") or ()
    ]
    return {"Required": {"NodeSelectorTerms": terms or None}}
