"""Validation of the volume types of vendors and protocols, with kube-apiserver's messages.

Pods and PersistentVolumes have most of these types; where a PersistentVolume also names a
namespace, the check is for it alone.

Source: pkg/apis/core/validation/validation.go (validateGCEPersistentDiskVolumeSource and the
functions around it).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, invalid, not_supported, required
from mooring.apiserver.validation.rules import (
    field_errors,
    one_of,
    required_fields,
    required_value,
    validate_no_steps_back,
)

Object = Mapping[str, Any]

#: Validates a source at a field path.
Check = Callable[[Object, str], Errors]

_BYTE_MAX: Final = 255
_TENANT_MAX: Final = 64
_PORTAL_MAX: Final = 64
_TOO_LONG: Final = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
    "if iscsi.initiatorName is specified."
)
_HOST_PORT: Final = "must be a host:port pair or multiple pairs separated by commas"
_BAD_NAME: Final = "must be valid format"
_BAD_START: Final = "must be valid format starting with iqn, eui, or naa"
#: The formats of names of initiators and targets, by their first three letters.
_ISCSI_NAMES: Final = MappingProxyType(
    {
        "iqn": re.compile(r"iqn\.[0-9]{4}-[0-9]{2}\.([A-Za-z0-9\-.]+)(:[^,;*&$|\t\n\f\r ]+)\Z"),
        "eui": re.compile(r"\Aeui.[A-Za-z0-9]{16}\Z"),
        "naa": re.compile(r"\Anaa.[A-Za-z0-9]{32}\Z"),
    }
)
_CACHING_MODES: Final = ("None", "ReadOnly", "ReadWrite")
_DISK_KINDS: Final = ("Dedicated", "Managed", "Shared")
_MANAGED_DISK: Final = (
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/"
    "{disk-id}"
)
_BLOB_DISK: Final = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"


def _required(*fields: str) -> Check:
    """Returns a check for sources that need only some fields."""

    def check(source: Object, field: str) -> Errors:
        return required_fields(source, field, *fields)

    return check


def _partitioned(source: Object, field: str, *, name: str) -> Errors:
    yield from required_fields(source, field, name)
    partition = source.get("partition", 0)
    if not 0 <= partition <= _BYTE_MAX:
        yield invalid(f"{field}.partition", partition, "must be between 1 and 255, inclusive")


def _google_disk(source: Object, field: str) -> Errors:
    # The path in messages is that of an old version.
    parent, _, _ = field.rpartition(".")
    yield from _partitioned(source, f"{parent}.persistentDisk", name="pdName")


def _git_repo(source: Object, field: str) -> Errors:
    yield from required_fields(source, field, "repository")
    path = source.get("directory", "")
    if path.startswith("/"):
        yield invalid(f"{field}.directory", path, "must be a relative path")
    yield from validate_no_steps_back(path, f"{field}.directory")


def _flocker(source: Object, field: str) -> Errors:
    name, uuid = source.get("datasetName", ""), source.get("datasetUUID", "")
    if not name and not uuid:
        yield required(field, "one of datasetName and datasetUUID is required")
    if name and uuid:
        problem = "datasetName and datasetUUID can not be specified simultaneously"
        yield invalid(field, "resource", problem)
    if "/" in name:
        yield invalid(f"{field}.datasetName", name, "must not contain '/'")


def _cinder(source: Object, field: str, *, is_volume: bool) -> Errors:
    yield from required_fields(source, field, "volumeID")
    yield from _secret(source, field, is_volume=is_volume)


def _secret(source: Object, field: str, *, is_volume: bool = False) -> Errors:
    """Validates a reference to a Secret; that of a PersistentVolume has a namespace."""
    reference = source.get("secretRef")
    if reference is not None:
        fields = ("name", "namespace") if is_volume else ("name",)
        yield from required_fields(reference, f"{field}.secretRef", *fields)


def _quobyte(source: Object, field: str) -> Errors:
    registry = source.get("registry", "")
    if not registry:
        yield required(f"{field}.registry", _HOST_PORT)
    elif len(source.get("tenant", "").encode()) > _TENANT_MAX:
        problem = "must be a UUID and may not exceed a length of 64 characters"
        yield required(f"{field}.tenant", problem)
    else:
        for pair in registry.split(","):
            if not _is_host_and_port(pair):
                yield invalid(f"{field}.registry", registry, _HOST_PORT)
    yield from required_fields(source, field, "volume")


def _is_host_and_port(text: str) -> bool:
    """Returns whether Go's net.SplitHostPort accepts a text."""
    host, colon, port = text.rpartition(":")
    if not colon:
        return False
    if host.startswith("["):
        # The bracket has to end just before the port.
        if not host.endswith("]") or "]" in host[:-1]:
            return False
        host = host[1:-1]
    elif ":" in host:
        return False
    return not set("[]") & set(host + port)


def _fibre_channel(source: Object, field: str) -> Errors:
    targets, wwids = source.get("targetWWNs") or (), source.get("wwids") or ()
    child = f"{field}.targetWWNs"
    if not targets and not wwids:
        yield required(child, "must specify either targetWWNs or wwids, but not both")
    if targets and wwids:
        yield invalid(child, targets, "targetWWNs and wwids can not be specified simultaneously")
    if targets:
        if source.get("lun") is None:
            yield required(f"{field}.lun", "lun is required if targetWWNs is specified")
        else:
            yield from _lun(source, field)


def _lun(source: Object, field: str) -> Errors:
    if not 0 <= source.get("lun", 0) <= _BYTE_MAX:
        yield invalid(f"{field}.lun", source["lun"], "must be between 0 and 255, inclusive")


def _flex_volume(source: Object, field: str) -> Errors:
    yield from required_fields(source, field, "driver")
    for name in source.get("options") or ():
        domain = "." + name.partition("/")[0].lower()
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            problem = "kubernetes.io and k8s.io namespaces are reserved"
            yield invalid(f"{field}.options[{name}]", name, problem)


def _azure_disk(source: Object, field: str) -> Errors:
    yield from required_fields(source, field, "diskName", "diskURI")
    yield from one_of(f"{field}.cachingMode", source.get("cachingMode"), _CACHING_MODES)
    kind, uri = source.get("kind"), source.get("diskURI", "")
    yield from one_of(f"{field}.kind", kind, _DISK_KINDS)
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        yield not_supported(f"{field}.diskURI", uri, [_MANAGED_DISK])
    if kind not in (None, "Managed") and not uri.startswith("https://"):
        yield not_supported(f"{field}.diskURI", uri, [_BLOB_DISK])


def _storage_os(source: Object, field: str, *, is_volume: bool) -> Errors:
    yield from required_value(f"{field}.volumeName", source.get("volumeName", ""), names.dns_label)
    if namespace := source.get("volumeNamespace"):
        yield from field_errors(f"{field}.volumeNamespace", namespace, names.dns_label)
    yield from _secret(source, field, is_volume=is_volume)


def _glusterfs(source: Object, field: str) -> Errors:
    yield from required_fields(source, field, "endpoints", "path")
    namespace, child = source.get("endpointsNamespace"), f"{field}.endpointsNamespace"
    if namespace == "":
        problem = "if the endpointnamespace is set, it must be a valid namespace name"
        yield invalid(child, namespace, problem)
    elif namespace is not None:
        yield from field_errors(child, namespace, names.dns_label)


def _azure_file(source: Object, field: str) -> Errors:
    yield from required_fields(source, field, "secretName", "shareName")
    if source.get("secretNamespace") == "":
        yield required(f"{field}.secretNamespace")


def iscsi(source: Object, field: str, *, volume_name: str | None = None) -> Errors:
    """Validates an iSCSI target; ``volume_name``: of the PersistentVolume, None = it is a pod's."""
    unknown = _BAD_START if volume_name is None else _BAD_NAME
    yield from required_fields(source, field, "targetPortal")
    if volume_name is not None and is_iscsi_name_too_long(source, volume_name):
        yield invalid(f"{field}.targetportal", source.get("targetPortal", ""), _TOO_LONG)
    if name := source.get("iqn", ""):
        yield from _iscsi_name(name, f"{field}.iqn", unknown)
    else:
        yield required(f"{field}.iqn")
    yield from _lun(source, field)
    has_login = source.get("chapAuthDiscovery") or source.get("chapAuthSession")
    if has_login and source.get("secretRef") is None:
        yield required(f"{field}.secretRef")
    if volume_name is not None:
        yield from _secret(source, field)
    if (name := source.get("initiatorName")) is not None:
        yield from _iscsi_name(name, f"{field}.initiatorname", unknown)


def is_iscsi_name_too_long(source: Object, volume_name: str) -> bool:
    """Returns whether the name that the kubelet makes of volume and target is too long."""
    name = f"{volume_name}:{source.get('targetPortal', '')}"
    return source.get("initiatorName") is not None and len(name.encode()) > _PORTAL_MAX


def iscsi_name_error(volume: Object, field: str) -> Errors:
    """Checks the length of the name that the kubelet makes of a pod's iSCSI volume."""
    if is_iscsi_name_too_long(volume["iscsi"], volume["name"]):
        yield invalid(f"{field}.name", volume["name"], _TOO_LONG)


def _iscsi_name(name: str, field: str, unknown: str) -> Errors:
    """Validates the name of an initiator or a target; ``unknown``: it has another beginning."""
    pattern = _ISCSI_NAMES.get(name[:3])
    if pattern is None:
        yield invalid(field, name, unknown)
    elif not pattern.search(name):
        yield invalid(field, name, _BAD_NAME)


_SHARED: Final[Mapping[str, Check]] = {
    "gcePersistentDisk": _google_disk,
    "awsElasticBlockStore": partial(_partitioned, name="volumeID"),
    "flocker": _flocker,
    "rbd": _required("monitors", "image"),
    "cephfs": _required("monitors"),
    "quobyte": _quobyte,
    "fc": _fibre_channel,
    "flexVolume": _flex_volume,
    "vsphereVolume": _required("volumePath"),
    "photonPersistentDisk": _required("pdID"),
    "portworxVolume": _required("volumeID"),
    "azureDisk": _azure_disk,
    "scaleIO": _required("gateway", "system", "volumeName"),
}

#: Volume type of a pod -> its check.
SOURCES_OF_PODS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        **_SHARED,
        "gitRepo": _git_repo,
        "iscsi": iscsi,
        "glusterfs": _required("endpoints", "path"),
        "cinder": partial(_cinder, is_volume=False),
        "azureFile": _required("secretName", "shareName"),
        "storageos": partial(_storage_os, is_volume=False),
    }
)

#: Type of a PersistentVolume -> its check; that of ``iscsi`` needs the name of the volume.
SOURCES_OF_VOLUMES: Final[Mapping[str, Check]] = MappingProxyType(
    {
        **_SHARED,
        "glusterfs": _glusterfs,
        "cinder": partial(_cinder, is_volume=True),
        "azureFile": _azure_file,
        "storageos": partial(_storage_os, is_volume=True),
    }
)
