"""What is wrong with containers, their ports, mounts and volumes, in kube-apiserver's words.

As far as scheduling reads them, and what people get wrong most. Environment variables, probes,
security contexts and the inner fields of most volume types are not looked at.

Source: pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mooring.apiserver import texts
from mooring.apiserver.status import (
    FieldFault,
    duplicate,
    forbidden_field,
    invalid,
    not_found_value,
    not_supported,
    required,
)
from mooring.apiserver.validation_meta import each
from mooring.apiserver.validation_resources import validate_requirements

Object = Mapping[str, Any]

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_HOOKS = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_NEEDS_SIDECAR = "may not be set for init containers without restartPolicy=Always"
_NAMES_OF_VOLUME = frozenset(("name",))


def validate_containers(
    spec: Object, field: str, volumes: Mapping[str, Object], claims: frozenset[str]
) -> list[FieldFault]:
    """What is wrong with the containers of a pod, and with its init containers."""
    containers: Sequence[Object] = spec.get("containers") or ()
    if not containers:
        return [required(f"{field}.containers")]
    faults: list[FieldFault] = []
    names: set[str] = set()
    for number, container in enumerate(containers):
        where = f"{field}.containers[{number}]"
        faults += _validate_container(container, where, volumes, claims)
        faults += _validate_new_name(container["name"], names, where)
        if (policy := container.get("restartPolicy")) is not None:
            faults += _validate_restart_policy(policy, where)
    faults += validate_host_ports(containers, f"{field}.containers")
    for number, container in enumerate(spec.get("initContainers", ())):
        where = f"{field}.initContainers[{number}]"
        faults += _validate_container(container, where, volumes, claims)
        faults += _validate_init(container, where)
        faults += _validate_new_name(container["name"], names, where)
        faults += validate_host_ports([container], f"{field}.initContainers")
    return faults


def _validate_restart_policy(policy: str, field: str) -> list[FieldFault]:
    if policy in ("Always", "OnFailure", "Never"):
        return []
    return [not_supported(f"{field}.restartPolicy", policy, ["Always", "OnFailure", "Never"])]


def _validate_new_name(name: str, names: set[str], field: str) -> list[FieldFault]:
    if name in names:
        return [duplicate(f"{field}.name", name)]
    if name:
        names.add(name)
    return []


def _validate_init(container: Object, field: str) -> list[FieldFault]:
    policy = container.get("restartPolicy")
    faults = _validate_restart_policy(policy, field) if policy is not None else []
    if policy != "Always":
        faults += [
            forbidden_field(f"{field}.{name}", _NEEDS_SIDECAR)
            for name in _HOOKS
            if name in container
        ]
    return faults


def _validate_container(
    container: Object, field: str, volumes: Mapping[str, Object], claims: frozenset[str]
) -> list[FieldFault]:
    faults: list[FieldFault] = []
    name, image = container["name"], container.get("image", "")
    if not name:
        faults.append(required(f"{field}.name"))
    else:
        faults += each(f"{field}.name", name, texts.dns_label(name))
    if not image:
        faults.append(required(f"{field}.image"))
    policy = container["terminationMessagePolicy"]
    if policy not in _MESSAGE_POLICIES:
        where = f"{field}.terminationMessagePolicy"
        faults.append(not_supported(where, policy, _MESSAGE_POLICIES))
    if ports := container.get("ports"):
        faults += _validate_ports(ports, f"{field}.ports")
    if mounts := container.get("volumeMounts"):
        faults += _validate_mounts(mounts, f"{field}.volumeMounts", volumes)
    if devices := container.get("volumeDevices"):
        faults += _validate_devices(devices, f"{field}.volumeDevices", volumes)
    policy = container["imagePullPolicy"]
    if policy not in _PULL_POLICIES:
        faults.append(not_supported(f"{field}.imagePullPolicy", policy, _PULL_POLICIES))
    resources = container["resources"]
    return faults + validate_requirements(resources, f"{field}.resources", claims)


def validate_image_spaces(containers: Iterable[Object], field: str) -> list[FieldFault]:
    """Images of pods (not of templates) must not have spaces around them."""
    problem = "must not have leading or trailing whitespace"
    return [
        invalid(f"{field}[{number}].image", container["image"], problem)
        for number, container in enumerate(containers)
        if container.get("image", "") != container.get("image", "").strip()
    ]


def _validate_ports(ports: Iterable[Object], field: str) -> list[FieldFault]:
    faults: list[FieldFault] = []
    names: set[str] = set()
    for number, port in enumerate(ports):
        where = f"{field}[{number}]"
        name = port.get("name", "")
        problems = texts.port_name(name) if name else ()
        faults += each(f"{where}.name", name, problems)
        if name and not problems:
            if name in names:
                faults.append(duplicate(f"{where}.name", name))
            names.add(name)
        inside, outside = port["containerPort"], port.get("hostPort", 0)
        if not inside:
            faults.append(required(f"{where}.containerPort"))
        else:
            found = texts.port_number(inside)
            faults += [invalid(f"{where}.containerPort", inside, text) for text in found]
        if outside:
            found = texts.port_number(outside)
            faults += [invalid(f"{where}.hostPort", outside, text) for text in found]
        if port["protocol"] not in _PROTOCOLS:
            faults.append(not_supported(f"{where}.protocol", port["protocol"], _PROTOCOLS))
    return faults


def validate_host_ports(containers: Iterable[Object], field: str) -> list[FieldFault]:
    """Two containers of a pod cannot take the same port of the node."""
    faults: list[FieldFault] = []
    seen: set[str] = set()
    for position, container in enumerate(containers):
        for number, port in enumerate(container.get("ports", ())):
            if not port.get("hostPort"):
                continue
            shown = f"{port['protocol']}/{port.get('hostIP', '')}/{port['hostPort']}"
            if shown in seen:
                where = f"{field}[{position}].ports[{number}].hostPort"
                faults.append(duplicate(where, shown))
            seen.add(shown)
    return faults


def validate_host_network(
    spec: Object, field: str, *, is_template: bool = False
) -> list[FieldFault]:
    """On the node's network, a container's port is the node's; templates need not say so."""
    if not spec.get("hostNetwork"):
        return []
    problem = "must match `containerPort` when `hostNetwork` is true"
    return [
        invalid(
            f"{field}.containers[{position}].ports[{number}].hostPort",
            port.get("hostPort", 0),
            problem,
        )
        for position, container in enumerate(spec.get("containers") or ())
        for number, port in enumerate(container.get("ports", ()))
        if port.get("hostPort", 0) != port["containerPort"]
        and not (is_template and not port.get("hostPort"))
    ]


def _validate_mounts(
    mounts: Iterable[Object], field: str, volumes: Mapping[str, Object]
) -> list[FieldFault]:
    faults: list[FieldFault] = []
    paths: set[str] = set()
    for number, mount in enumerate(mounts):
        where, name, path = f"{field}[{number}]", mount["name"], mount["mountPath"]
        if not name:
            faults.append(required(f"{where}.name"))
        elif name not in volumes:
            faults.append(not_found_value(f"{where}.name", name))
        if not path:
            faults.append(required(f"{where}.mountPath"))
        if path in paths:
            faults.append(invalid(f"{where}.mountPath", path, "must be unique"))
        paths.add(path)
    return faults


def _validate_devices(
    devices: Iterable[Object], field: str, volumes: Mapping[str, Object]
) -> list[FieldFault]:
    faults: list[FieldFault] = []
    for number, device in enumerate(devices):
        where, name = f"{field}[{number}]", device["name"]
        if not name:
            faults.append(required(f"{where}.name"))
        elif name not in volumes:
            faults.append(not_found_value(f"{where}.name", name))
        elif "persistentVolumeClaim" not in volumes[name] and "ephemeral" not in volumes[name]:
            problem = "can only use volume source type of PersistentVolumeClaim or Ephemeral "
            problem += "for block mode"
            faults.append(invalid(f"{where}.name", name, problem))
        if not device["devicePath"]:
            faults.append(required(f"{where}.devicePath"))
    return faults


def validate_volumes(
    volumes: Iterable[Object], field: str
) -> tuple[dict[str, Object], list[FieldFault]]:
    """The usable volumes by name, and what is wrong with the others."""
    faults: list[FieldFault] = []
    usable: dict[str, Object] = {}
    for number, volume in enumerate(volumes):
        where, name = f"{field}[{number}]", volume["name"]
        found = _validate_source(volume, where)
        if not name:
            found.append(required(f"{where}.name"))
        else:
            found += each(f"{where}.name", name, texts.dns_label(name))
        if name in usable:
            found.append(duplicate(f"{where}.name", name))
        if found:
            faults += found
        else:
            usable[name] = volume
    return usable, faults


def _validate_source(volume: Object, field: str) -> list[FieldFault]:
    kinds = [name for name in volume if name not in _NAMES_OF_VOLUME]
    if not kinds:
        return [required(field, "must specify a volume type")]
    faults = [
        forbidden_field(f"{field}.{name}", "may not specify more than 1 volume type")
        for name in kinds[1:]
    ]
    if "persistentVolumeClaim" in volume and not volume["persistentVolumeClaim"]["claimName"]:
        faults.append(required(f"{field}.persistentVolumeClaim.claimName"))
    if "hostPath" in volume and not volume["hostPath"]["path"]:
        faults.append(required(f"{field}.hostPath.path"))
    if "secret" in volume and not volume["secret"].get("secretName"):
        faults.append(required(f"{field}.secret.secretName"))
    if "configMap" in volume and not volume["configMap"].get("name"):
        faults.append(required(f"{field}.configMap.name"))
    return faults
