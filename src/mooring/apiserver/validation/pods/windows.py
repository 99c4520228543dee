"""Validation of what depends on the operating system of a pod, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go (validateWindowsSecurityContextOptions,
validateWindowsHostProcessPod, validateOS, validateLinux, validateWindows).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, forbidden_field, invalid
from mooring.apiserver.validation.rules import field_errors, required_one_of

Object = Mapping[str, Any]

_SPEC_KIB_MAX = 64
_DOMAIN_CHARACTERS_MAX = 256
_USER_CHARACTERS_MAX = 104
_control = re.compile(r"[\x00-\x1f\x7f]")
_net_bios = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_label = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_dns = re.compile(rf"{_label}(?:\.{_label})*")
_not_in_user = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
_dots_and_spaces = re.compile(r"[. ]+")
_SYSTEMS = ("linux", "windows")
_LISTS_OF_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
#: Fields that a pod on Windows may not have, in upstream's order.
_NOT_ON_WINDOWS = (
    *("securityContext.appArmorProfile", "securityContext.seLinuxOptions", "hostUsers", "hostPID"),
    *("hostIPC", "securityContext.seccompProfile", "securityContext.fsGroup"),
    *("securityContext.fsGroupChangePolicy", "securityContext.sysctls", "shareProcessNamespace"),
    *("securityContext.runAsUser", "securityContext.runAsGroup"),
    *("securityContext.supplementalGroups", "securityContext.supplementalGroupsPolicy"),
    "securityContext.seLinuxChangePolicy",
)
#: These may be false or empty.
_MAY_BE_EMPTY = frozenset({"hostPID", "hostIPC", "securityContext.sysctls"})
#: Fields of the security context of its containers.
_NOT_IN_CONTAINERS = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities"),
    *("readOnlyRootFilesystem", "privileged", "allowPrivilegeEscalation", "procMount"),
    *("runAsUser", "runAsGroup"),
)


def validate_windows_options(options: Object | None, field: str) -> Errors:
    """Validates ``windowsOptions`` by themselves."""
    if not options:
        return
    name = options.get("gmsaCredentialSpecName")
    if name is not None:
        yield from field_errors(f"{field}.gmsaCredentialSpecName", name, names.dns_subdomain)
    spec = options.get("gmsaCredentialSpec")
    if spec == "":
        problem = "gmsaCredentialSpec cannot be an empty string"
        yield invalid(f"{field}.gmsaCredentialSpec", spec, problem)
    elif spec is not None and len(spec.encode()) > _SPEC_KIB_MAX << 10:
        problem = f"gmsaCredentialSpec size must be under {_SPEC_KIB_MAX} KiB"
        yield invalid(f"{field}.gmsaCredentialSpec", spec, problem)
    user = options.get("runAsUserName")
    if user is not None:
        for problem in _user_problems(user):
            yield invalid(f"{field}.runAsUserName", user, f"runAsUserName{problem}")


def validate_host_processes(spec: Object, field: str) -> Errors:
    """Validates which containers of a pod are processes of the host."""
    of_pod = _options_of(spec).get("hostProcess")
    containers = list(_containers(spec, field))
    flags = [_options_of(container).get("hostProcess") for _, container in containers]
    for (child_field, _), flag in zip(containers, flags, strict=True):
        if None not in (of_pod, flag) and of_pod != flag:
            problem = (
                "pod hostProcess value must be identical if both are specified, "
                f"was {str(of_pod).lower()}"
            )
            field_of_flag = f"{child_field}.securityContext.windowsOptions.hostProcess"
            yield invalid(field_of_flag, flag, problem)
    count = sum(bool(of_pod if flag is None else flag) for flag in flags)
    if not count:
        return
    if count != len(containers):
        problem = (
            "If pod contains any hostProcess containers then all containers must be HostProcess"
            " containers"
        )
        yield invalid(field, "", problem)
    if not spec.get("hostNetwork"):
        problem = "hostNetwork must be true if pod contains any hostProcess containers"
        yield invalid(f"{field}.hostNetwork", False, problem)


def validate_system(spec: Object, field: str) -> Errors:
    """Validates the operating system of a pod, and the fields that only one of them has."""
    if "os" not in spec:
        return
    name = spec["os"].get("name", "")
    # An unsupported name is an error of the whole field, an absent one of the name.
    yield from required_one_of(f"{field}.os" if name else f"{field}.os.name", name, _SYSTEMS)
    if name == "linux":
        problem = "windows options cannot be set for a linux pod"
        for child_field, owner in [(field, spec), *_containers(spec, field)]:
            if "windowsOptions" in (owner.get("securityContext") or {}):
                yield forbidden_field(f"{child_field}.securityContext.windowsOptions", problem)
    elif name == "windows":
        yield from _linux_fields(spec, field)


def _linux_fields(spec: Object, field: str) -> Errors:
    problem = "cannot be set for a windows pod"
    for path in _NOT_ON_WINDOWS:
        owner, _, name = path.rpartition(".")
        value = ((spec.get(owner) or {}) if owner else spec).get(name)
        if value or (value is not None and path not in _MAY_BE_EMPTY):
            yield forbidden_field(f"{field}.{path}", problem)
    for child_field, container in _containers(spec, field):
        context = container.get("securityContext") or {}
        for name in _NOT_IN_CONTAINERS:
            if context.get(name) is not None:
                yield forbidden_field(f"{child_field}.securityContext.{name}", problem)


def _containers(spec: Object, field: str) -> Iterator[tuple[str, Object]]:
    """Yields the path of each container and the container."""
    for kind in _LISTS_OF_CONTAINERS:
        for number, container in enumerate(spec.get(kind) or ()):
            yield f"{field}.{kind}[{number}]", container


def _options_of(owner: Object) -> Object:
    """Returns the options of Windows of a pod's spec or of a container."""
    return (owner.get("securityContext") or {}).get("windowsOptions") or {}


def _user_problems(text: str) -> Iterator[str]:
    r"""Yields what is wrong with ``USER`` or ``DOMAIN\\USER``."""
    parts = text.split("\\")
    if not text:
        yield " cannot be an empty string"
    elif _control.search(text):
        yield " cannot contain control characters"
    elif len(parts) > 2:
        yield " cannot contain more than one backslash"
    else:
        if len(parts) == 2:
            yield from _domain_problems(parts[0])
        yield from _name_problems(parts[-1])


def _domain_problems(domain: str) -> Iterator[str]:
    if len(domain.encode()) >= _DOMAIN_CHARACTERS_MAX:
        yield f"'s Domain length must be under {_DOMAIN_CHARACTERS_MAX} characters"
    if not _net_bios.fullmatch(domain) and not _dns.fullmatch(domain):
        yield "'s Domain doesn't match the NetBios nor the DNS format"


def _name_problems(name: str) -> Iterator[str]:
    if not name:
        yield "'s User cannot be empty"
    elif len(name.encode()) > _USER_CHARACTERS_MAX:
        yield f"'s User length must not be longer than {_USER_CHARACTERS_MAX} characters"
    if _dots_and_spaces.fullmatch(name):
        yield "'s User cannot contain only periods or spaces"
    if _not_in_user.search(name):
        yield "'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"
