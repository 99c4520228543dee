"""Validation of a container's environment, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go (ValidateEnv, ValidateEnvFrom and what they call),
pkg/apis/core/pods/helpers.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, invalid, not_found_value, not_supported, required
from mooring.apiserver.validation.rules import (
    field_errors,
    required_value,
    validate_no_steps_back,
)

Object = Mapping[str, Any]

_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_MUST_SPECIFY = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or "
    "`fileKeyRef`"
)
_MUST_SPECIFY_ALL = "must specify one of: `configMapRef` or `secretRef`"
_TOO_MANY = "may not have more than one field specified at a time"
#: Fields of a pod that environment variables, or files, can refer to.
FIELDS_FOR_ENV = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
FIELDS_FOR_FILES = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_KNOWN_FIELDS = frozenset(
    (*FIELDS_FOR_ENV, *FIELDS_FOR_FILES, "spec.restartPolicy", "spec.schedulerName", "status.phase")
)
_WITH_SUBSCRIPT = ("metadata.annotations", "metadata.labels")
_RESOURCES = tuple(
    f"{part}.{name}"
    for part in ("limits", "requests")
    for name in ("cpu", "ephemeral-storage", "memory")
)
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_BYTE_DIVISORS = ("1", *(f"1{unit}" for unit in "kMGTPE"), *(f"1{unit}i" for unit in "KMGTPE"))


def validate_env(env: Iterable[Object], field: str) -> Errors:
    """Validates the environment variables."""
    for number, variable in enumerate(env):
        item_field, name = f"{field}[{number}]", variable["name"]
        yield from required_value(f"{item_field}.name", name, names.environment_name)
        if "valueFrom" in variable:
            yield from _validate_source(variable, f"{item_field}.valueFrom")


def _validate_source(variable: Object, field: str) -> Errors:
    source = variable["valueFrom"]
    specified = [name for name in _SOURCES if name in source]
    if "fieldRef" in source:
        yield from validate_field_ref(source["fieldRef"], f"{field}.fieldRef", FIELDS_FOR_ENV)
    if "resourceFieldRef" in source:
        child_field = f"{field}.resourceFieldRef"
        yield from validate_resource_ref(source["resourceFieldRef"], child_field)
    for name in ("configMapKeyRef", "secretKeyRef"):
        if name in source:
            yield from _validate_key_ref(source[name], f"{field}.{name}")
    if "fileKeyRef" in source:
        yield from _validate_file_key(source["fileKeyRef"], f"{field}.fileKeyRef")
    if not specified:
        yield invalid(field, "", _MUST_SPECIFY)
    elif variable.get("value"):
        yield invalid(field, "", "may not be specified when `value` is not empty")
    elif len(specified) > 1:
        yield invalid(field, "", _TOO_MANY)


def _validate_key_ref(reference: Object, field: str) -> Errors:
    name, key = reference.get("name", ""), reference["key"]
    yield from field_errors(f"{field}.name", name, names.dns_subdomain)
    yield from required_value(f"{field}.key", key, names.config_key)


def _validate_file_key(reference: Object, field: str) -> Errors:
    key, volume, path = (reference.get(name, "") for name in ("key", "volumeName", "path"))
    yield from required_value(f"{field}.key", key, names.environment_name)
    yield from required_value(f"{field}.volumeName", volume, names.dns_label)
    if path:
        yield from validate_no_steps_back(path, f"{field}.path")
    else:
        yield required(f"{field}.path")


def validate_file_volumes(spec: Object, field: str) -> Errors:
    """Checks that variables that are read from files name volumes of type emptyDir."""
    volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for position, container in enumerate(spec.get(kind) or ()):
            for number, variable in enumerate(container.get("env") or ()):
                inner = f"{field}.{kind}[{position}].env[{number}].valueFrom.fileKeyRef"
                yield from _validate_file_volume(variable, f"{inner}.volumeName", volumes)


def _validate_file_volume(variable: Object, field: str, volumes: Mapping[str, Object]) -> Errors:
    reference = (variable.get("valueFrom") or {}).get("fileKeyRef")
    if reference is None:
        return
    name = reference.get("volumeName", "")
    if name not in volumes:
        yield not_found_value(field, name)
    elif "emptyDir" not in volumes[name]:
        yield invalid(field, name, "referenced volume must be of type emptyDir")


def validate_field_ref(reference: Object, field: str, supported: Sequence[str]) -> Errors:
    """Validates a reference to a field of the pod, which must be a supported one."""
    path = reference["fieldPath"]
    if not reference.get("apiVersion"):
        yield required(f"{field}.apiVersion")
        return
    if not path:
        yield required(f"{field}.fieldPath")
        return
    stem, subscript = _split(path)
    if problem := _path_problem(reference["apiVersion"], path, stem, subscript):
        text = f"error converting fieldPath: {problem}"
        yield invalid(f"{field}.fieldPath", path, text)
        return
    path = "spec.nodeName" if path == "spec.host" else path
    if subscript is None:
        if path not in supported:
            yield not_supported(f"{field}.fieldPath", path, supported)
        return
    key = subscript.lower() if stem == "metadata.annotations" else subscript
    yield from field_errors(field, key, names.qualified_name)


def _split(path: str) -> tuple[str, str | None]:
    """Splits a path such as ``metadata.labels['app']``; None = without subscript."""
    stem, bracket, rest = path.removesuffix("']").partition("['")
    if not path.endswith("']") or not bracket or not stem:
        return path, None
    return stem, rest


def _path_problem(version: str, path: str, stem: str, subscript: str | None) -> str:
    if version != "v1":
        return f"unsupported pod version: {version}"
    if subscript is not None:
        has_subscripts = stem in _WITH_SUBSCRIPT
        return "" if has_subscripts else f"field label does not support subscript: {path}"
    if path in _KNOWN_FIELDS or path == "spec.host":
        return ""
    return f"field label not supported: {path}"


def validate_resource_ref(reference: Object, field: str, *, is_file: bool = False) -> Errors:
    """Validates a reference to a container's resource; in files with the container's name."""
    name = reference["resource"]
    if is_file and not reference.get("containerName"):
        yield required(f"{field}.containerName")
    elif not name:
        yield required(f"{field}.resource")
    elif name not in _RESOURCES and not name.startswith(_HUGE_PAGES):
        yield not_supported(f"{field}.resource", name, _RESOURCES)
    divisor = reference.get("divisor", "0")
    if divisor == "0":
        return
    if name.endswith(".cpu"):
        if divisor not in ("1", "1m"):
            problem = "only divisor's values 1m and 1 are supported with the cpu resource"
            yield invalid(f"{field}.divisor", name, problem)
        return
    kind = _kind_of_resource(name)
    if kind and divisor not in _BYTE_DIVISORS:
        problem = f"only divisor's values {', '.join(_BYTE_DIVISORS)} are supported with the "
        yield invalid(f"{field}.divisor", name, f"{problem}{kind} resource")


def _kind_of_resource(name: str) -> str:
    if name.endswith(".memory"):
        return "memory"
    if name.endswith(".ephemeral-storage"):
        return "local ephemeral storage"
    return "hugepages" if name.startswith(_HUGE_PAGES) else ""


def validate_env_from(sources: Iterable[Object], field: str) -> Errors:
    """Validates ConfigMaps and Secrets of ``envFrom``."""
    for number, source in enumerate(sources):
        item_field = f"{field}[{number}]"
        if prefix := source.get("prefix"):
            yield from field_errors(f"{item_field}.prefix", prefix, names.environment_name)
        specified = [name for name in ("configMapRef", "secretRef") if name in source]
        check = names.as_prefix(names.dns_subdomain)
        for name in specified:
            source_name = source[name].get("name", "")
            yield from required_value(f"{item_field}.{name}.name", source_name, check)
        if len(specified) != 1:
            yield invalid(field, "", _TOO_MANY if specified else _MUST_SPECIFY_ALL)
