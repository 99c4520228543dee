"""Validation of the status of a pod, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go (ValidatePodStatusUpdate).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from mooring.apiserver import names
from mooring.apiserver.errors import (
    Errors,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
    too_long,
)
from mooring.apiserver.validation.pods.security import validate_id
from mooring.apiserver.validation.rules import IMMUTABLE, field_errors
from mooring.apiserver.validation.status.addresses import validate_host_ips, validate_ips

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

_SYSTEM_CONDITIONS: Final = frozenset(("PodScheduled", "Ready", "Initialized"))
_NOT_NEGATIVE: Final = "must be a non-negative integer"
_HEALTHS: Final = ("Healthy", "Unhealthy", "Unknown")
_HEALTH_MESSAGE_BYTES_MAX: Final = 1024
_CLAIM: Final = "claim:"
#: Status field -> the field of the spec with its containers.
_CONTAINERS: Final = {
    "containerStatuses": "containers",
    "initContainerStatuses": "initContainers",
    "ephemeralContainerStatuses": "ephemeralContainers",
}
_EPHEMERAL: Final = "ephemeralContainerStatuses"
_MAPPING: Final = ("containerName", "resourceName", "requestName")


def validate_pod_status(new: Object, old: Object) -> Errors:
    """Validates a change of a pod's status."""
    status, before = new["status"], old["status"]
    yield from _validate_conditions(status.get("conditions") or ())
    yield from _validate_nomination(new, old)
    if status.get("observedGeneration", 0) < 0:
        yield invalid("status.observedGeneration", status["observedGeneration"], _NOT_NEGATIVE)
    qos = status.get("qosClass", "")
    if qos != before.get("qosClass", ""):
        yield invalid("status.qosClass", qos, IMMUTABLE)
    for name in _CONTAINERS:
        yield from _validate_transitions(status, before, name, old["spec"])
    yield from _validate_claims(status, new["spec"])
    yield from _validate_extended_claim(status.get("extendedResourceClaimStatus"), new["spec"])
    yield from validate_ips(status, before, "podIPs")
    yield from validate_host_ips(status, before)
    for name in _CONTAINERS:
        yield from _validate_users(status.get(name) or (), f"status.{name}", new["spec"])
    for name, containers in _CONTAINERS.items():
        yield from _validate_allocated(status, name, new["spec"].get(containers) or ())


def _validate_conditions(conditions: Sequence[Object]) -> Errors:
    for number, condition in enumerate(conditions):
        field = f"status.conditions[{number}]"
        generation = condition.get("observedGeneration", 0)
        if generation < 0:
            yield invalid(f"{field}.observedGeneration", generation, _NOT_NEGATIVE)
        type_name = condition.get("type", "")
        if type_name not in _SYSTEM_CONDITIONS:
            yield from field_errors(f"{field}.Type", type_name, names.qualified_name)


def _validate_nomination(new: Object, old: Object) -> Errors:
    nominated = new["status"].get("nominatedNodeName", "")
    field = "status.nominatedNodeName"
    if nominated and nominated != old["status"].get("nominatedNodeName", ""):
        yield from field_errors(field, nominated, names.dns_subdomain)
        if old["spec"].get("nodeName"):
            problem = "may not be set on pods that are already bound to a node"
            yield forbidden_field(field, problem)


# ---------------------------------------------------------------------------------- containers


def _validate_transitions(status: Object, before: Object, name: str, spec: Object) -> Errors:
    """Validates that containers which are not restarted stay terminated."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    rules = [rule for item in containers for rule in item.get("restartPolicyRules") or ()]
    is_ephemeral = name == _EPHEMERAL
    if not is_ephemeral and any(rule.get("action") == "RestartAllContainers" for rule in rules):
        return
    by_name = {item["name"]: item for item in spec.get(_CONTAINERS[name]) or ()}
    for number, earlier in enumerate(before.get(name) or ()):
        terminated = (earlier.get("state") or {}).get("terminated")
        if terminated is None or not _has_left(status.get(name) or (), earlier):
            continue
        container = None if is_ephemeral else by_name.get(earlier.get("name", ""))
        if container is None or not _is_restarted(container, spec, terminated.get("exitCode", 0)):
            problem = "may not be transitioned to non-terminated state"
            yield forbidden_field(f"status.{name}[{number}].state", problem)


def _has_left(statuses: Iterable[Object], earlier: Object) -> bool:
    """Returns True if the state of a container is not terminated any more."""
    name = earlier.get("name", "")
    states = [item.get("state") or {} for item in statuses if item.get("name", "") == name]
    return any("terminated" not in state for state in states)


def _is_restarted(container: Object, spec: Object, exit_code: int) -> bool:
    policy = container.get("restartPolicy")
    if policy is not None:
        for rule in container.get("restartPolicyRules") or ():
            if _matches(rule.get("exitCodes") or {}, exit_code):
                return True
    policy = policy or spec.get("restartPolicy", "Always")
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _matches(exit_codes: Object, exit_code: int) -> bool:
    is_listed = exit_code in (exit_codes.get("values") or ())
    return is_listed == (exit_codes.get("operator") == "In")


def _validate_users(statuses: Sequence[Object], field: str, spec: Object) -> Errors:
    is_windows = (spec.get("os") or {}).get("name", "linux") == "windows"
    for number, status in enumerate(statuses):
        linux = (status.get("user") or {}).get("linux")
        if linux is None:
            continue
        user_field = f"{field}[{number}].user.linux"
        if is_windows:
            yield forbidden_field(user_field, "cannot be set for a windows pod")
            continue
        for name in ("uid", "gid"):
            yield from validate_id(linux.get(name, 0), f"{user_field}.{name}")
        for group_number, group in enumerate(linux.get("supplementalGroups") or ()):
            yield from validate_id(group, f"{user_field}.supplementalGroups[{group_number}]")


def _validate_allocated(status: Object, name: str, containers: Iterable[Object]) -> Errors:
    by_name = {item["name"]: item for item in containers}
    for number, item in enumerate(status.get(name) or ()):
        field = f"status.{name}[{number}].allocatedResourcesStatus"
        allocated = item.get("allocatedResourcesStatus") or ()
        if name == _EPHEMERAL:
            if allocated:
                yield forbidden_field(field, "must not be specified in container status")
            continue
        container = by_name.get(item.get("name", ""))
        for resource_number, resource in enumerate(allocated):
            resource_field = f"{field}[{resource_number}]"
            if container is not None:
                yield from _validate_resource(resource.get("name", ""), container, resource_field)
            yield from _validate_healths(resource.get("resources") or (), resource_field)


def _validate_resource(name: str, container: Object, field: str) -> Errors:
    resources: Mapping[str, Any] = container.get("resources") or {}
    if name.startswith(_CLAIM):
        problem = (
            "must match one of the container's resource claims in a format "
            "'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty"
        )
        allowed = {
            f"{_CLAIM}{claim['name']}" + (f"/{claim['request']}" if claim.get("request") else "")
            for claim in resources.get("claims") or ()
        }
    else:
        problem = "must match one of the container's resource requests"
        allowed = set(resources.get("requests") or ())
    if name not in allowed:
        yield invalid(f"{field}.name", name, problem)


def _validate_healths(healths: Sequence[Object], field: str) -> Errors:
    earlier = set()
    for number, health in enumerate(healths):
        item_field = f"{field}.resources[{number}]"
        if health.get("health", "") not in _HEALTHS:
            yield not_supported(f"{item_field}.health", health.get("health", ""), _HEALTHS)
        message = health.get("message")
        if message is not None:
            if not message:
                yield required(f"{item_field}.message", "must be non-empty if specified")
            elif len(message.encode()) > _HEALTH_MESSAGE_BYTES_MAX:
                yield too_long(f"{item_field}.message", _HEALTH_MESSAGE_BYTES_MAX)
        resource_id = health.get("resourceID", "")
        if resource_id in earlier:
            yield duplicate(f"{item_field}.resourceID", resource_id)
        earlier.add(resource_id)


# -------------------------------------------------------------------------------------- claims


def _validate_claims(status: Object, spec: Object) -> Errors:
    claims = {claim["name"] for claim in spec.get("resourceClaims") or ()}
    earlier = set()
    for number, item in enumerate(status.get("resourceClaimStatuses") or ()):
        field, name = f"status.resourceClaimStatuses[{number}]", item.get("name", "")
        if name not in claims:
            problem = "must match the name of an entry in `spec.resourceClaims`"
            yield invalid(f"{field}.name", name, problem)
        if name in earlier:
            yield duplicate(f"{field}.name", name)
        earlier.add(name)
        claim_name = item.get("resourceClaimName")
        if claim_name is not None:
            yield from field_errors(f"{field}.resourceClaimName", claim_name, names.dns_subdomain)


def _validate_extended_claim(status: Object | None, spec: Object) -> Errors:
    if status is None:
        return
    field = "status.extendedResourceClaimStatus"
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    by_name = {item["name"]: item for item in containers}
    mappings = status.get("requestMappings") or ()
    if not mappings:
        yield required(f"{field}.requestMappings", "at least one request mapping is required")
    earlier = set()
    for number, mapping in enumerate(mappings):
        key = tuple(mapping.get(name, "") for name in _MAPPING)
        yield from _validate_mapping(key, by_name, field, number)
        if key in earlier:
            for name, value in zip(_MAPPING, key, strict=True):
                yield duplicate(f"{field}.requestMappings[{number}].{name}", value)
        earlier.add(key)
    claim_name = status.get("resourceClaimName", "")
    if not claim_name:
        yield required(f"{field}.resourceClaimName")
    else:
        yield from field_errors(f"{field}.resourceClaimName", claim_name, names.dns_subdomain)


def _validate_mapping(
    key: Sequence[str], containers: Mapping[str, Object], field: str, number: int
) -> Errors:
    container_name, resource, request = key
    item_field = f"{field}.requestMappings[{number}]"
    container = containers.get(container_name)
    of_containers = "spec.initContainers.{0} or spec.containers.{0}"
    if container is None:
        problem = f"must match the name of an entry in {of_containers.format('name')}"
        yield invalid(f"{item_field}.containerName", container_name, problem)
    elif resource not in ((container.get("resources") or {}).get("requests") or ()):
        places = of_containers.format("resources.requests")
        problem = f"must match the extended resource name of an entry in {places}"
        yield invalid(f"{item_field}.resourceName", resource, problem)
    yield from field_errors(f"{field}.requestName", request, names.dns_label)
