"""Validation of security contexts, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go (validatePodSpecSecurityContext,
ValidateSecurityContext, validateHostUsers).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mooring.apiserver.errors import (
    Errors,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
    too_long,
)
from mooring.apiserver.validation.pods.volumes import validate_descending_path
from mooring.apiserver.validation.pods.windows import validate_windows_options
from mooring.apiserver.validation.rules import one_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Object = Mapping[str, Any]

_ID_MAX = 2**31 - 1
_PROFILE_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")
_GROUP_CHANGES = ("Always", "OnRootMismatch")
_GROUP_POLICIES = ("Merge", "Strict")
_PROC_MOUNTS = ("Default", "Unmasked")
_SYSCTL_MAX = 253
_SYSCTL = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_sysctl = re.compile(_SYSCTL)
#: Kernel parameters of the IPC namespace.
_IPC_SYSCTLS = frozenset(
    {"kernel.sem", "kernel.shmall", "kernel.shmmax", "kernel.shmmni", "kernel.shm_rmid_forced"}
    | {"kernel.shm", "kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.msg"}
)
#: PATH_MAX - 1.
_PROFILE_CHARACTERS_MAX = 4095
#: Field of a pod -> its name in upstream's messages.
_HOST_NAMESPACES = {"hostNetwork": "hostNetwork", "hostPID": "HostPID", "hostIPC": "HostIPC"}
_WITHOUT_HOST_USERS = "when `hostUsers` is false"


def validate_pod_security(spec: Object, field: str) -> Errors:
    """Validates the security context of a pod, whose fields are partly those of its spec."""
    context: Object = spec.get("securityContext") or {}
    field = f"{field}.securityContext"
    yield from _validate_ids(context, field, ("fsGroup", "runAsUser", "runAsGroup"))
    for number, group in enumerate(context.get("supplementalGroups") or ()):
        yield from validate_id(group, f"{field}.supplementalGroups[{number}]")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        problem = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(f"{field}.shareProcessNamespace", True, problem)
    yield from _validate_sysctls(spec, context.get("sysctls") or (), f"{field}.sysctls")
    yield from one_of(
        f"{field}.fsGroupChangePolicy", context.get("fsGroupChangePolicy"), _GROUP_CHANGES
    )
    yield from _validate_seccomp(context.get("seccompProfile"), f"{field}.seccompProfile")
    yield from validate_windows_options(context.get("windowsOptions"), f"{field}.windowsOptions")
    yield from _validate_apparmor(context.get("appArmorProfile"), f"{field}.appArmorProfile")
    policy = context.get("supplementalGroupsPolicy")
    yield from one_of(f"{field}.supplementalGroupsPolicy", policy, _GROUP_POLICIES)
    # MountOption needs a feature gate that is off by default.
    yield from one_of(
        f"{field}.seLinuxChangePolicy", context.get("seLinuxChangePolicy"), ("Recursive",)
    )


def validate_host_users(spec: Object, field: str) -> Errors:
    """Validates a pod with users of its own: it may not share other namespaces of the host."""
    if spec.get("hostUsers", True):
        return
    for name, internal_name in _HOST_NAMESPACES.items():
        if spec.get(name):
            yield forbidden_field(f"{field}.{internal_name}", _WITHOUT_HOST_USERS)
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for number, container in enumerate(spec.get(kind) or ()):
            if container.get("volumeDevices"):
                item_field = f"{field}.{kind}[{number}].volumeDevices"
                yield forbidden_field(item_field, _WITHOUT_HOST_USERS)


def validate_container_security(context: Object, field: str, *, has_host_users: bool) -> Errors:
    """Validates the security context of a container."""
    yield from _validate_ids(context, field, ("runAsUser", "runAsGroup"))
    mount = context.get("procMount")
    if mount is not None:
        yield from one_of(f"{field}.procMount", mount, _PROC_MOUNTS)
        if has_host_users and mount == "Unmasked":
            problem = "`hostUsers` must be false to use `Unmasked`"
            yield invalid(f"{field}.procMount", mount, problem)
    yield from _validate_seccomp(context.get("seccompProfile"), f"{field}.seccompProfile")
    if context.get("allowPrivilegeEscalation", True) is False:
        lead = "cannot set `allowPrivilegeEscalation` to false and"
        if context.get("privileged"):
            yield invalid(field, _internal_context(context), f"{lead} `privileged` to true")
        added: Sequence[str] = (context.get("capabilities") or {}).get("add") or ()
        for capability in added:
            if capability == "CAP_SYS_ADMIN":
                problem = f"{lead} `capabilities.Add` CAP_SYS_ADMIN"
                yield invalid(field, _internal_context(context), problem)
    yield from validate_windows_options(context.get("windowsOptions"), f"{field}.windowsOptions")
    yield from _validate_apparmor(context.get("appArmorProfile"), f"{field}.appArmorProfile")


def _validate_ids(context: Object, field: str, names: Sequence[str]) -> Errors:
    for name in names:
        if context.get(name) is not None:
            yield from validate_id(context[name], f"{field}.{name}")


def validate_id(value: int, field: str) -> Errors:
    """Validates the number of a user or a group."""
    problem = f"must be between 0 and {_ID_MAX}, inclusive"
    return [] if 0 <= value <= _ID_MAX else [invalid(field, value, problem)]


def _validate_sysctls(spec: Object, sysctls: Sequence[Object], field: str) -> Errors:
    names: set[str] = set()
    for number, sysctl in enumerate(sysctls):
        item_field, name = f"{field}[{number}].name", sysctl.get("name", "")
        if not name:
            yield required(item_field)
        elif len(name) > _SYSCTL_MAX or not _sysctl.fullmatch(name):
            problem = f"must have at most {_SYSCTL_MAX} characters and match regex {_SYSCTL}"
            yield invalid(item_field, name, problem)
        elif name in names:
            yield duplicate(item_field, name)
        names.add(name)
        namespace = _namespace_of(name)
        if namespace and spec.get(namespace):
            yield invalid(item_field, name, f"may not be specified when '{namespace}' is true")


def _namespace_of(sysctl: str) -> str:
    """Returns the field of a pod that shares the namespace of a kernel parameter; "" if none."""
    first = re.search(r"[./]", sysctl)
    if first is not None and first[0] == "/":
        sysctl = sysctl.translate(str.maketrans("./", "/."))
    name = sysctl.partition("*")[0]
    if name in _IPC_SYSCTLS or name.startswith("fs.mqueue."):
        return "hostIPC"
    return "hostNetwork" if name.startswith("net.") else ""


def _validate_seccomp(profile: Object | None, field: str) -> Errors:
    if profile is None:
        return
    kind, path = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        yield required(f"{field}.type", "type is required when seccompProfile is set")
    elif kind not in _PROFILE_TYPES:
        yield not_supported(f"{field}.type", kind, _PROFILE_TYPES)
    field = f"{field}.localhostProfile"
    if kind == "Localhost":
        if path is None:
            yield required(field, "must be set when seccomp type is Localhost")
            return
        yield from validate_descending_path(path, field)
    elif path is not None:
        problem = "can only be set when seccomp type is Localhost"
        yield invalid(field, _internal_profile(profile), problem)


def _validate_apparmor(profile: Object | None, field: str) -> Errors:
    if profile is None:
        return
    kind, path = profile.get("type", ""), profile.get("localhostProfile")
    path_field = f"{field}.localhostProfile"
    if not kind:
        yield required(f"{field}.type", "type is required when appArmorProfile is set")
    elif kind not in _PROFILE_TYPES:
        yield not_supported(f"{field}.type", kind, _PROFILE_TYPES)
    elif kind != "Localhost":
        if path is not None:
            yield invalid(path_field, path, "can only be set when AppArmor type is Localhost")
    elif path is None:
        yield required(path_field, "must be set when AppArmor type is Localhost")
    else:
        if path != path.strip():
            yield invalid(path_field, path, "must not be padded with whitespace")
        elif not path:
            yield required(path_field, "must be set when AppArmor type is Localhost")
        if len(path.encode()) > _PROFILE_CHARACTERS_MAX:
            yield too_long(path_field, _PROFILE_CHARACTERS_MAX)


def _internal_profile(profile: Object | None) -> Object | None:
    """Returns a profile with the field names of upstream's internal type, for messages."""
    if profile is None:
        return None
    return {
        "Type": profile.get("type", ""),
        "LocalhostProfile": profile.get("localhostProfile"),
    }


def _internal_context(context: Object) -> Object:
    """Returns a security context with the field names of upstream's internal type."""
    capabilities: Object | None = context.get("capabilities")
    options: Object | None = context.get("seLinuxOptions")
    return {
        "Capabilities": capabilities
        and {"Add": capabilities.get("add"), "Drop": capabilities.get("drop")},
        "Privileged": context.get("privileged"),
        "SELinuxOptions": options
        and {
            name.capitalize(): options.get(name, "") for name in ("user", "role", "type", "level")
        },
        "WindowsOptions": None,
        "RunAsUser": context.get("runAsUser"),
        "RunAsGroup": context.get("runAsGroup"),
        "RunAsNonRoot": context.get("runAsNonRoot"),
        "ReadOnlyRootFilesystem": context.get("readOnlyRootFilesystem"),
        "AllowPrivilegeEscalation": context.get("allowPrivilegeEscalation"),
        "ProcMount": context.get("procMount"),
        "SeccompProfile": _internal_profile(context.get("seccompProfile")),
        "AppArmorProfile": _internal_profile(context.get("appArmorProfile")),
    }
