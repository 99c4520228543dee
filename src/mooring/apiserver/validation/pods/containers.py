"""Validation of containers and their ports, with kube-apiserver's messages.

It covers the fields that scheduling reads, and frequent mistakes. ``env``, ``probes``, ``security``
and ``volumes`` validate the other parts.

Source: pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mooring.apiserver import names as name_checks
from mooring.apiserver.errors import (
    Errors,
    duplicate,
    forbidden_field,
    invalid,
    not_found_value,
    not_supported,
    required,
)
from mooring.apiserver.validation.pods.env import validate_env, validate_env_from
from mooring.apiserver.validation.pods.probes import PROBES, validate_hooks_and_probes
from mooring.apiserver.validation.pods.restart_rules import (
    validate_restart_policy,
    validate_restart_policy_of_init,
)
from mooring.apiserver.validation.pods.security import validate_container_security
from mooring.apiserver.validation.pods.volumes import (
    PULL_POLICIES,
    validate_devices,
    validate_mounts,
)
from mooring.apiserver.validation.resources import validate_requirements
from mooring.apiserver.validation.rules import field_errors, one_of, required_value

Object = Mapping[str, Any]

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_RESIZED, _RESIZE_POLICIES = ("cpu", "memory"), ("NotRequired", "RestartContainer")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_HOOKS = ("lifecycle", *PROBES)
_NEEDS_SIDECAR = "may not be set for init containers without restartPolicy=Always"
_NOT_IN_EPHEMERAL = "cannot be set for an Ephemeral Container"
#: In the order of upstream's struct.
_NOT_ALLOWED_IN_EPHEMERAL = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)


class _Pod(NamedTuple):
    """The parts of a pod that the validation of its containers reads.

    Attributes:
        volumes: Name -> volume.
        claims: The names of its resource claims.
        has_host_users: Whether it shares the users of its host.
        restart_policy: Of the pod.
    """

    volumes: Mapping[str, Object]
    claims: frozenset[str]
    has_host_users: bool
    restart_policy: str


def validate_containers(
    spec: Object, field: str, volumes: Mapping[str, Object], claims: frozenset[str]
) -> Errors:
    """Validates the containers and init containers of a pod."""
    containers: Sequence[Object] = spec.get("containers") or ()
    if not containers:
        yield required(f"{field}.containers")
    names: set[str] = set()
    restart_policy = spec.get("restartPolicy", "")
    pod = _Pod(volumes, claims, spec.get("hostUsers", True), restart_policy)
    grace_s = spec.get("terminationGracePeriodSeconds")
    for number, container in enumerate(containers):
        item_field = f"{field}.containers[{number}]"
        yield from _validate_container(container, item_field, pod)
        yield from _validate_new_name(container["name"], names, item_field)
        yield from validate_hooks_and_probes(container, item_field, grace_s)
        yield from validate_restart_policy(container, item_field)
    yield from validate_host_ports(containers, f"{field}.containers")
    for number, container in enumerate(spec.get("initContainers", ())):
        item_field = f"{field}.initContainers[{number}]"
        yield from _validate_container(container, item_field, pod)
        yield from validate_restart_policy_of_init(container, item_field)
        name = container["name"]
        # As upstream, two init containers without a name are not duplicates.
        yield from _validate_new_name(name, names if name else set(names), item_field)
        yield from validate_host_ports([container], f"{field}.initContainers")
        yield from _validate_init(container, item_field, grace_s)
    yield from _validate_ephemeral(spec, f"{field}.ephemeralContainers", names, pod)


def _validate_ephemeral(spec: Object, field: str, names: set[str], pod: _Pod) -> Errors:
    """Validates ephemeral containers, which are added to debug a pod."""
    target_names = frozenset(names)
    for number, container in enumerate(spec.get("ephemeralContainers", ())):
        item_field = f"{field}[{number}]"
        yield from _validate_container(container, item_field, pod)
        yield from _validate_new_name(container["name"], names, item_field)
        target = container.get("targetContainerName")
        if target and target not in target_names:
            yield not_found_value(f"{item_field}.targetContainerName", target)
        yield from (
            forbidden_field(f"{item_field}.{name}", _NOT_IN_EPHEMERAL)
            for name in _NOT_ALLOWED_IN_EPHEMERAL
            if container.get(name)
        )
        yield from (
            forbidden_field(f"{item_field}.volumeMounts[{position}].{name}", _NOT_IN_EPHEMERAL)
            for position, mount in enumerate(container.get("volumeMounts", ()))
            for name in ("subPath", "subPathExpr")
            if mount.get(name)
        )


def _validate_new_name(name: str, names: set[str], field: str) -> Errors:
    if name in names:
        return [duplicate(f"{field}.name", name)]
    names.add(name)
    return []


def _validate_init(container: Object, field: str, grace_s: int | None) -> Errors:
    """Validates hooks and probes of an init container: only sidecars may have them."""
    if container.get("restartPolicy") == "Always":
        return list(validate_hooks_and_probes(container, field, grace_s))
    return [
        forbidden_field(f"{field}.{name}", _NEEDS_SIDECAR) for name in _HOOKS if name in container
    ]


def _validate_container(container: Object, field: str, pod: _Pod) -> Errors:
    name, image = container["name"], container.get("image", "")
    yield from required_value(f"{field}.name", name, name_checks.dns_label)
    if not image:
        yield required(f"{field}.image")
    policy = container["terminationMessagePolicy"]
    yield from one_of(f"{field}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    if ports := container.get("ports"):
        yield from _validate_ports(ports, f"{field}.ports")
    if env := container.get("env"):
        yield from validate_env(env, f"{field}.env")
    if sources := container.get("envFrom"):
        yield from validate_env_from(sources, f"{field}.envFrom")
    if "volumeMounts" in container:
        yield from validate_mounts(container, f"{field}.volumeMounts", pod.volumes)
    if "volumeDevices" in container:
        yield from validate_devices(container, f"{field}.volumeDevices", pod.volumes)
    yield from one_of(f"{field}.imagePullPolicy", container["imagePullPolicy"], PULL_POLICIES)
    resources = container["resources"]
    yield from validate_requirements(resources, f"{field}.resources", pod.claims)
    if policies := container.get("resizePolicy"):
        yield from _validate_resize_policies(policies, f"{field}.resizePolicy", pod)
    if context := container.get("securityContext"):
        inner = f"{field}.securityContext"
        yield from validate_container_security(context, inner, has_host_users=pod.has_host_users)


def _validate_resize_policies(policies: Iterable[Object], field: str, pod: _Pod) -> Errors:
    resource_names: set[str] = set()
    for number, policy in enumerate(policies):
        name = policy["resourceName"]
        if name in resource_names:
            yield duplicate(f"{field}[{number}]", name)
        resource_names.add(name)
        for value, supported in ((name, _RESIZED), (policy["restartPolicy"], _RESIZE_POLICIES)):
            if not value:
                yield required(field)
            elif value not in supported:
                yield not_supported(field, value, supported)
        if pod.restart_policy == "Never" and policy["restartPolicy"] != "NotRequired":
            problem = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            yield invalid(field, policy["restartPolicy"], problem)


def validate_init_resize(spec: Object) -> Errors:
    """Checks that no init container but a sidecar is restarted to resize it.

    Older clusters have such pods: they are valid when they are stored.
    """
    problem = "must not be set to 'RestartContainer' for non-sidecar initContainers"
    return [
        invalid(
            f"spec.initContainers[{number}].resizePolicy[{position}].restartPolicy",
            policy["restartPolicy"],
            problem,
        )
        for number, container in enumerate(spec.get("initContainers") or ())
        for position, policy in enumerate(container.get("resizePolicy") or ())
        if container.get("restartPolicy") != "Always"
        and policy["restartPolicy"] == "RestartContainer"
    ]


def validate_image_spaces(containers: Iterable[Object], field: str) -> Errors:
    """Checks that images of pods (not of templates) have no leading or trailing whitespace."""
    problem = "must not have leading or trailing whitespace"
    return [
        invalid(f"{field}[{number}].image", container["image"], problem)
        for number, container in enumerate(containers)
        if container.get("image", "") != container.get("image", "").strip()
    ]


def _validate_ports(ports: Iterable[Object], field: str) -> Errors:
    names: set[str] = set()
    for number, port in enumerate(ports):
        item_field = f"{field}[{number}]"
        name = port.get("name", "")
        if name and name_checks.port_name(name):
            yield from field_errors(f"{item_field}.name", name, name_checks.port_name)
        elif name:
            yield from _validate_new_name(name, names, item_field)
        yield from required_value(
            f"{item_field}.containerPort", port["containerPort"], name_checks.port_number
        )
        if host_port := port.get("hostPort", 0):
            yield from field_errors(f"{item_field}.hostPort", host_port, name_checks.port_number)
        yield from one_of(f"{item_field}.protocol", port["protocol"], _PROTOCOLS)


def validate_host_ports(containers: Iterable[Object], field: str) -> Errors:
    """Checks that the containers of a pod use different host ports."""
    used: set[str] = set()
    for position, container in enumerate(containers):
        for number, port in enumerate(container.get("ports", ())):
            if not port.get("hostPort"):
                continue
            host_port = f"{port['protocol']}/{port.get('hostIP', '')}/{port['hostPort']}"
            if host_port in used:
                item_field = f"{field}[{position}].ports[{number}].hostPort"
                yield duplicate(item_field, host_port)
            used.add(host_port)


def validate_host_network(spec: Object, field: str, *, is_template: bool = False) -> Errors:
    """Checks that host ports equal container ports on the host network; templates may omit them."""
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
