"""Validation of volumes, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go.
Differs: messages about immutable fields do not print the difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, forbidden_field, invalid, not_supported, required
from mooring.apiserver.validation.affinity import validate_node_selector
from mooring.apiserver.validation.pods.volume_sources import SOURCES_OF_VOLUMES, iscsi
from mooring.apiserver.validation.pods.volumes import (
    validate_csi,
    validate_host_path,
    validate_nfs,
)
from mooring.apiserver.validation.rules import (
    IMMUTABLE,
    field_errors,
    immutable,
    one_of,
    validate_no_steps_back,
)
from mooring.apiserver.validation.volume_claims import (
    VOLUME_MODES,
    validate_access_modes,
    validate_size,
)
from mooring.objects.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mooring.apiserver.types import Object

MOUNT_OPTIONS = "volume.beta.kubernetes.io/mount-options"
_WITH_MOUNT_OPTIONS = frozenset(
    {
        *("gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "nfs", "rbd", "quobyte"),
        *("iscsi", "cinder", "cephfs", "azureFile", "vsphereVolume", "azureDisk"),
        "photonPersistentDisk",
    }
)
_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")


def validate_volume(volume: Object) -> Errors:
    """Validates a new volume."""
    yield from validate_volume_spec(volume)
    yield from _validate_mount_options(volume)


def _validate_mount_options(volume: Object) -> Errors:
    """Refuses the old annotation of options for volumes that are not mounted with options."""
    annotations = volume["metadata"].get("annotations") or {}
    if MOUNT_OPTIONS in annotations and not _WITH_MOUNT_OPTIONS.intersection(volume["spec"]):
        problem = "may not specify mount options for this volume type"
        yield forbidden_field(f"metadata.annotations.{MOUNT_OPTIONS}", problem)


def validate_volume_spec(volume: Object) -> Errors:
    """Validates the spec of a new or changed volume."""
    spec: Object = volume["spec"]
    if not spec.get("accessModes"):
        yield required("spec.accessModes")
    yield from validate_access_modes(spec, "spec")
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
    yield from _validate_sources(spec, volume["metadata"].get("name", ""))
    if spec.get("storageClassName"):
        name = spec["storageClassName"]
        yield from field_errors("spec.storageClassName", name, names.dns_subdomain)
    yield from one_of("spec.volumeMode", spec.get("volumeMode"), VOLUME_MODES)
    yield from _validate_attributes_class(spec)


def _validate_capacity(spec: Object) -> Errors:
    capacity: Mapping[str, str] = spec.get("capacity") or {}
    if not capacity:
        yield required("spec.capacity")
    if set(capacity) != {"storage"}:
        # An absent one and an empty one are the same here; upstream prints {} for the latter.
        yield not_supported("spec.capacity", dict(sorted(capacity.items())) or None, ["storage"])
    for name, text in capacity.items():
        amount = Quantity.from_wire(text).value()
        if amount < 0:
            yield invalid(f"spec.capacity[{name}]", amount, "must be a valid resource quantity")
        yield from validate_size(text, f"spec.capacity[{name}]")


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


def _validate_sources(spec: Object, volume_name: str) -> Errors:
    sources = sources_of(spec)
    for number, (name, source) in enumerate(sources.items()):
        if number and name != "flexVolume":  # as upstream, which forgets it
            path = "spec.cephFS" if name == "cephfs" else f"spec.{name}"
            yield forbidden_field(path, "may not specify more than 1 volume type")
        elif name == "iscsi":
            yield from iscsi(source, "spec.iscsi", volume_name=volume_name)
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
    for name in _SECRETS_OF_CSI:
        if (secret := source.get(name)) is not None:
            yield from _validate_secret(secret, f"{field}.{name}")


def _validate_secret(reference: Object, field: str) -> Errors:
    for name, check in (("name", names.dns_subdomain), ("namespace", names.dns_label)):
        if text := reference.get(name, ""):
            yield from field_errors(f"{field}.{name}", text, check)
        else:
            yield required(f"{field}.{name}")


_SOURCES: Mapping[str, Callable[[Object, str], Errors]] = {
    **SOURCES_OF_VOLUMES,
    "hostPath": validate_host_path,
    "nfs": validate_nfs,
    "local": _validate_local,
    "csi": _validate_csi,
}
_SECRETS_OF_CSI = (
    *("controllerPublishSecretRef", "controllerExpandSecretRef"),
    *("nodePublishSecretRef", "nodeExpandSecretRef"),
)
_SOURCE_NAMES = (
    *("hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs"),
    *("rbd", "quobyte", "cephfs", "iscsi", "cinder", "fc", "flexVolume", "azureFile"),
    *("vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk", "scaleIO"),
    *("local", "storageos", "csi"),
)


def validate_volume_update(new: Object, old: Object) -> Errors:
    """Validates a change of a volume: what it is, and which nodes reach it, is immutable."""
    spec, before = new["spec"], old["spec"]
    yield from _validate_mount_options(new)
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
