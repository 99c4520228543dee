"""Validation of a pod's volumes and of their mounts, with kube-apiserver's messages.

The types of vendors and protocols are in ``volume_sources.py``.

Source: pkg/apis/core/validation/validation.go (ValidateVolumes, ValidateVolumeMounts,
ValidateVolumeDevices).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mooring.apiserver import names as name_checks
from mooring.apiserver.errors import (
    Errors,
    FieldError,
    duplicate,
    forbidden_field,
    invalid,
    not_found_value,
    required,
    too_long,
)
from mooring.apiserver.validation.metadata import validate_template_metadata
from mooring.apiserver.validation.pods.env import (
    FIELDS_FOR_FILES,
    validate_field_ref,
    validate_resource_ref,
)
from mooring.apiserver.validation.pods.volume_sources import SOURCES_OF_PODS, iscsi_name_error
from mooring.apiserver.validation.rules import (
    field_errors,
    one_of,
    required_fields,
    required_one_of,
    validate_no_steps_back,
)
from mooring.apiserver.validation.volume_claims import validate_claim_spec
from mooring.objects.go_text import go_quote
from mooring.objects.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Callable

Object = Mapping[str, Any]

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_NAMES_OF_VOLUME = frozenset(("name",))
_MODE_MAX = 0o777
_MODE_PROBLEM = "must be a number between 0 and 0777 (octal), both inclusive"
_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")
#: Kind of a volume -> its name in upstream's message about a second one.
_SPELLED: Mapping[str, str] = MappingProxyType({"cephfs": "cephFS", "downwardAPI": "downwarAPI"})
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_TOKEN_S_MIN, _TOKEN_S_MAX = 600, 2**32
_DRIVER_NAME_MAX = 63
_BLOCK_MODE = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"


def validate_volumes(
    volumes: Iterable[Object], field: str, *, pod_name: str = "", is_template: bool = False
) -> tuple[dict[str, Object], list[FieldError]]:
    """Validates volumes; returns the valid ones by name, and the errors of the others.

    Args:
        volumes: The volumes.
        field: Their path.
        pod_name: The name of the pod; "" = it has none, or is a template.
        is_template: Whether they are of a template of pods.
    """
    errors: list[FieldError] = []
    valid: dict[str, Object] = {}
    for number, volume in enumerate(volumes):
        item_field, name = f"{field}[{number}]", volume["name"]
        volume_errors = list(
            _validate_sources(volume, item_field, pod_name=pod_name, is_template=is_template)
        )
        if not name:
            volume_errors.append(required(f"{item_field}.name"))
        else:
            volume_errors += field_errors(f"{item_field}.name", name, name_checks.dns_label)
        if name in valid:
            volume_errors.append(duplicate(f"{item_field}.name", name))
        if volume_errors:
            errors += volume_errors
        else:
            valid[name] = volume
    return valid, errors


def _validate_sources(volume: Object, field: str, *, pod_name: str, is_template: bool) -> Errors:
    """Validates the first source in upstream's order; a volume has no others."""
    kinds = [name for name in volume if name not in _NAMES_OF_VOLUME]
    if not kinds:
        yield required(field, "must specify a volume type")
        return
    kinds.sort(key=lambda kind: _ORDER.get(kind, len(_ORDER)))
    for position, kind in enumerate(kinds):
        if position:
            path = f"{field}.{_SPELLED.get(kind, kind)}"
            yield forbidden_field(path, "may not specify more than 1 volume type")
        elif kind == "image":
            yield from _image(volume[kind], f"{field}.{kind}", is_template=is_template)
        elif kind in _SOURCES:
            yield from _SOURCES[kind](volume[kind], f"{field}.{kind}")
        if kind == "iscsi":
            yield from iscsi_name_error(volume, field)
        if kind == "ephemeral" and not position:
            yield from _validate_claim_name(pod_name, volume["name"], field)


def is_valid_claim_name(pod_name: str, volume_name: str) -> bool:
    """Returns whether the claim for an ephemeral volume of a pod can have its name."""
    return not any(_validate_claim_name(pod_name, volume_name, ""))


def _validate_claim_name(pod_name: str, volume_name: str, field: str) -> Errors:
    if pod_name and volume_name:
        claim_name = f"{pod_name}-{volume_name}"
        for problem in name_checks.dns_subdomain(claim_name):
            text = f"PVC name {go_quote(claim_name)}: {problem}"
            yield invalid(f"{field}.name", volume_name, text)


def _image(source: Object, field: str, *, is_template: bool) -> Errors:
    if not is_template:
        yield from required_fields(source, field, "reference")
    yield from required_one_of(f"{field}.pullPolicy", source.get("pullPolicy"), PULL_POLICIES)


def _empty_dir(source: Object, field: str) -> Errors:
    if "sizeLimit" in source and Quantity.from_wire(source["sizeLimit"]).nanos < 0:
        problem = "SizeLimit field must be a valid resource quantity"
        yield forbidden_field(f"{field}.sizeLimit", problem)


def validate_host_path(source: Object, field: str) -> Errors:
    """Validates a folder of the node."""
    path, kind = source["path"], source.get("type", "")
    if not path:
        yield required(f"{field}.path")
        return
    yield from validate_no_steps_back(path, f"{field}.path")
    yield from one_of(f"{field}.type", kind, _HOST_PATH_TYPES)


def _keys(source: Object, field: str, *, name: str) -> Errors:
    """Validates a ConfigMap or a Secret, whose keys become files."""
    if not source.get(name):
        yield required(f"{field}.{name}")
    yield from _mode(source, "defaultMode", field)
    for number, item in enumerate(source.get("items", ())):
        yield from _key_to_path(item, f"{field}.items[{number}]")


def _mode(source: Object, name: str, field: str) -> Errors:
    mode = source.get(name)
    if mode is not None and not 0 <= mode <= _MODE_MAX:
        yield invalid(f"{field}.{name}", mode, _MODE_PROBLEM)


def _key_to_path(item: Object, field: str) -> Errors:
    yield from required_fields(item, field, "key", "path")
    yield from _file_path(item["path"], f"{field}.path")
    yield from _mode(item, "mode", field)


def _file_path(path: str, field: str) -> Errors:
    """Validates a path inside a volume, whose internal files begin with two dots."""
    yield from validate_descending_path(path, field)
    if path.startswith("..") and not path.startswith("../"):
        yield invalid(field, path, "must not start with '..'")


def validate_descending_path(path: str, field: str) -> Errors:
    """Validates a relative path none of whose parts is ``..``."""
    if path.startswith("/"):
        yield invalid(field, path, "must be a relative path")
    yield from validate_no_steps_back(path, field)


def _claim(source: Object, field: str) -> Errors:
    yield from required_fields(source, field, "claimName")


def _downward_api(source: Object, field: str) -> Errors:
    yield from _mode(source, "defaultMode", field)
    for file in source.get("items", ()):
        yield from _downward_file(file, field)


def _downward_file(file: Object, field: str) -> Errors:
    path = file["path"]
    if not path:
        yield required(f"{field}.path")
    yield from _file_path(path, f"{field}.path")
    if "fieldRef" in file:
        yield from validate_field_ref(file["fieldRef"], f"{field}.fieldRef", FIELDS_FOR_FILES)
        if "resourceFieldRef" in file:
            problem = "fieldRef and resourceFieldRef can not be specified simultaneously"
            yield invalid(field, "resource", problem)
    elif "resourceFieldRef" in file:
        child_field = f"{field}.resourceFieldRef"
        yield from validate_resource_ref(file["resourceFieldRef"], child_field, is_file=True)
    else:
        yield required(field, "one of fieldRef and resourceFieldRef is required")
    yield from _mode(file, "mode", field)


def validate_nfs(source: Object, field: str) -> Errors:
    """Validates a folder of an NFS server."""
    yield from required_fields(source, field, "server", "path")
    if not source["path"].startswith("/"):
        yield invalid(f"{field}.path", source["path"], "must be an absolute path")


def driver_name(text: str) -> name_checks.Problems:
    """Validates the name of a CSI driver, whose letters may be upper-case."""
    return name_checks.dns_subdomain(text.lower())


def validate_csi(source: Object, field: str) -> Errors:
    """Validates the driver of a CSI volume."""
    driver = source["driver"]
    if not driver:
        yield required(f"{field}.driver")
        return
    if len(driver) > _DRIVER_NAME_MAX:
        yield too_long(f"{field}.driver", _DRIVER_NAME_MAX)
    yield from field_errors(f"{field}.driver", driver, driver_name)


def _ephemeral(source: Object, field: str) -> Errors:
    template = source.get("volumeClaimTemplate")
    inner = f"{field}.volumeClaimTemplate"
    if template is None:
        yield required(inner)
        return
    yield from validate_template_metadata(template.get("metadata") or {}, f"{inner}.metadata")
    yield from validate_claim_spec(template.get("spec") or {}, f"{inner}.spec")


def _projected(source: Object, field: str) -> Errors:
    yield from _mode(source, "defaultMode", field)
    paths: set[str] = set()
    for number, projection in enumerate(source.get("sources") or ()):
        item_field = f"{field}.sources[{number}]"
        yield from _projection(projection, item_field, field, paths)
        if len(projection) > 1:
            problem = "may not specify more than 1 volume type per source"
            yield forbidden_field(item_field, problem)


def _projection(projection: Object, field: str, volume_field: str, paths: set[str]) -> Errors:
    for kind in ("secret", "configMap"):
        if kind not in projection:
            continue
        source, child_field = projection[kind], f"{field}.{kind}"
        name = source.get("name", "")
        if not name:
            yield required(f"{child_field}.name")
        for number, item in enumerate(source.get("items", ())):
            yield from _key_to_path(item, f"{child_field}.items[{number}]")
            yield from _new_path(item["path"], name, volume_field, paths)
    for file in projection.get("downwardAPI", {}).get("items", ()):
        yield from _downward_file(file, f"{field}.downwardAPI")
        yield from _new_path(file["path"], file["path"], volume_field, paths)
    if "serviceAccountToken" in projection:
        yield from _token(projection["serviceAccountToken"], field, volume_field)


def _new_path(path: str, value: str, volume_field: str, paths: set[str]) -> Errors:
    if path and path in paths:
        yield invalid(volume_field, value, "conflicting duplicate paths")
    paths.add(path)


def _token(token: Object, field: str, volume_field: str) -> Errors:
    child_field, seconds = (
        f"{field}.serviceAccountToken.expirationSeconds",
        token["expirationSeconds"],
    )
    if seconds < _TOKEN_S_MIN:
        yield invalid(child_field, seconds, "may not specify a duration less than 10 minutes")
    if seconds > _TOKEN_S_MAX:
        yield invalid(child_field, seconds, "may not specify a duration larger than 2^32 seconds")
    path = token["path"]
    if not path:
        yield required(f"{volume_field}.path")
    else:
        yield from _file_path(path, f"{volume_field}.path")


_SOURCES: Mapping[str, Callable[[Object, str], Errors]] = MappingProxyType(
    {
        **SOURCES_OF_PODS,
        "emptyDir": _empty_dir,
        "hostPath": validate_host_path,
        "secret": partial(_keys, name="secretName"),
        "nfs": validate_nfs,
        "persistentVolumeClaim": _claim,
        "downwardAPI": _downward_api,
        "configMap": partial(_keys, name="name"),
        "projected": _projected,
        "csi": validate_csi,
        "ephemeral": _ephemeral,
    }
)
#: Of several sources the first in upstream's order is validated.
_ORDER: Mapping[str, int] = MappingProxyType(
    {
        kind: position
        for position, kind in enumerate(
            (
                *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore"),
                *("secret", "nfs", "iscsi", "glusterfs", "flocker", "persistentVolumeClaim"),
                *("rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc", "flexVolume"),
                *("configMap", "azureFile", "vsphereVolume", "photonPersistentDisk"),
                *("portworxVolume", "azureDisk", "storageos", "projected", "scaleIO", "csi"),
                *("ephemeral", "image"),
            )
        )
    }
)


# ---------------------------------------------------------------------- in containers


def validate_mounts(container: Object, field: str, volumes: Mapping[str, Object]) -> Errors:
    """Validates the volume mounts of a container."""
    paths: set[str] = set()
    devices = {device["name"]: device["devicePath"] for device in _devices_of(container)}
    for number, mount in enumerate(container.get("volumeMounts", ())):
        item_field, name, path = f"{field}[{number}]", mount["name"], mount["mountPath"]
        if not name:
            yield required(f"{item_field}.name")
        if name not in volumes:
            yield not_found_value(f"{item_field}.name", name)
        if not path:
            yield required(f"{item_field}.mountPath")
        if path in paths:
            yield invalid(f"{item_field}.mountPath", path, "must be unique")
        paths.add(path)
        if name in devices:
            problem = "must not already exist in volumeDevices"
            yield invalid(f"{item_field}.name", name, problem)
        if path in devices.values():
            problem = "must not already exist as a path in volumeDevices"
            yield invalid(f"{item_field}.mountPath", path, problem)
        yield from _validate_mount_options(mount, item_field, field, container)


def _devices_of(container: Object) -> Iterable[Object]:
    devices: Iterable[Object] = container.get("volumeDevices", ())
    return devices


def _validate_mount_options(
    mount: Object, item_field: str, field: str, container: Object
) -> Errors:
    """Validates the options of a mount; some field paths are those of the list, as upstream."""
    path, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    if path:
        yield from validate_descending_path(path, f"{field}.subPath")
    if expression:
        if path:
            problem = "subPathExpr and subPath are mutually exclusive"
            yield invalid(f"{item_field}.subPathExpr", expression, problem)
        yield from validate_descending_path(expression, f"{field}.subPathExpr")
    yield from _validate_propagation(mount, field, container)
    yield from _validate_recursive_read_only(mount, f"{field}.recursiveReadOnly")


def _validate_recursive_read_only(mount: Object, field: str) -> Errors:
    policy = mount.get("recursiveReadOnly")
    yield from one_of(field, policy, _RECURSIVE)
    if policy in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            yield forbidden_field(field, "may only be specified when readOnly is true")
        if mount.get("mountPropagation", "None") != "None":
            problem = "may only be specified when mountPropagation is None or not specified"
            yield forbidden_field(field, problem)


def _validate_propagation(mount: Object, field: str, container: Object) -> Errors:
    propagation = mount.get("mountPropagation")
    if propagation is None:
        return
    yield from one_of(f"{field}.mountPropagation", propagation, _PROPAGATIONS)
    is_privileged = container.get("securityContext", {}).get("privileged", False)
    if propagation == "Bidirectional" and not is_privileged:
        problem = "Bidirectional mount propagation is available only to privileged containers"
        yield forbidden_field(f"{field}.mountPropagation", problem)


def validate_devices(container: Object, field: str, volumes: Mapping[str, Object]) -> Errors:
    """Validates the block devices of a container."""
    mounted = container.get("volumeMounts", ())
    mounts = {mount["name"]: mount["mountPath"] for mount in mounted}
    names: set[str] = set()
    paths: set[str] = set()
    for number, device in enumerate(_devices_of(container)):
        item_field, name, path = f"{field}[{number}]", device["name"], device["devicePath"]
        if not name:
            yield required(f"{item_field}.name")
        if name in names:
            yield invalid(f"{item_field}.name", name, "must be unique")
        if name not in volumes:
            yield not_found_value(f"{item_field}.name", name)
        elif not {"persistentVolumeClaim", "ephemeral"} & volumes[name].keys():
            yield invalid(f"{item_field}.name", name, _BLOCK_MODE)
        yield from _validate_device_path(path, f"{item_field}.devicePath", paths)
        if name in mounts:
            problem = "must not already exist in volumeMounts"
            yield invalid(f"{item_field}.name", name, problem)
        if path in mounts.values():
            problem = "must not already exist as a path in volumeMounts"
            yield invalid(f"{item_field}.devicePath", path, problem)
        if name:
            names.add(name)


def _validate_device_path(path: str, field: str, paths: set[str]) -> Errors:
    if not path:
        yield required(field)
    if path in paths:
        yield invalid(field, path, "must be unique")
    if path and ".." in path.split("/"):
        yield invalid(field, path, "can not contain backsteps ('..')")
    else:
        paths.add(path)
