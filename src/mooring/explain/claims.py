"""Explains the resource claims of a pod: their state, whatever the node is.

Here are the claims that do not exist, are being deleted, are allocated elsewhere, have no room for
one more pod, or name a class that does not exist. ``missing_devices`` explains the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final, NamedTuple

from mooring.explain.holders import examples, users_text
from mooring.objects.meta import NodeSelector, key
from mooring.objects.pod import Pod, PodResourceClaim
from mooring.objects.resource import (
    DeviceRequest,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from mooring.objects.selectors import NODE_NAME_FIELD
from mooring.plugins.dynamic_resources.binding_conditions import (
    Readiness,
    failure_of,
    readiness_of,
)
from mooring.plugins.dynamic_resources.claims import ClaimProblem, claim_of
from mooring.plugins.dynamic_resources.extended_resources import (
    claim_in_memory,
    requested_resources,
)
from mooring.state import PodInfo
from mooring.state.devices.devices import Devices

#: The most users of a claim (ResourceClaimReservedForMaxSize of resource.k8s.io/v1).
USERS_MAX: Final = 256


class ClaimsOfPod(NamedTuple):
    """The claims of a pod that exist, and what there is to say about all of them.

    Attributes:
        user: The claims of its spec that exist.
        special: The claim for its extended resources; None = no class stands for one of them.
        lines: The state of each claim, in words.
        has_problem: Whether a claim keeps the pod from every node.
    """

    user: tuple[ResourceClaim, ...]
    special: ResourceClaim | None
    lines: tuple[str, ...]
    has_problem: bool

    @property
    def all(self) -> tuple[ResourceClaim, ...]:
        """The claims of the spec, and the special result."""
        return self.user if self.special is None else (*self.user, self.special)


def claims_of(pod: Pod, devices: Devices) -> ClaimsOfPod:
    """Returns the claims of a pod with their states in words."""
    user: list[ResourceClaim] = []
    lines: list[str] = []
    has_problem = False
    for entry in pod.spec.resource_claims:
        try:
            claim = claim_of(pod, entry, devices.claims)
        except ClaimProblem:
            lines.append(_problem_line(pod, entry, devices))
            has_problem = True
            continue
        if claim is None:
            continue
        user.append(claim)
        problems = list(_problems(claim, pod, devices))
        has_problem = has_problem or bool(problems)
        template = entry.resource_claim_template_name
        made = f", made from template {template}" if template else ""
        lines.append(f"{key(claim)}{made}: {_state(claim)}")
        lines += [f"  {problem}" for problem in problems]
    special, special_lines = _special(pod, devices)
    return ClaimsOfPod(tuple(user), special, (*lines, *special_lines), has_problem)


def _problem_line(pod: Pod, entry: PodResourceClaim, devices: Devices) -> str:
    """Returns why the pod has to wait for a claim."""
    name = entry.resource_claim_name
    if name is None:
        template = entry.resource_claim_template_name
        if template is None:
            return f"entry {entry.name}: names neither a claim nor a template"
        statuses = pod.status.resource_claim_statuses
        names = [status.resource_claim_name for status in statuses if status.name == entry.name]
        if not names:
            return (
                f"entry {entry.name}: the resource claim controller has not made a claim "
                f"from template {pod.metadata.namespace}/{template}"
            )
        name = names[0]
    claim = devices.claims.get(f"{pod.metadata.namespace}/{name}")
    if claim is None:
        return (
            f"{pod.metadata.namespace}/{name}: does not exist{_similar(pod, name or '', devices)}"
        )
    if claim.metadata.deletion_timestamp is not None:
        since = claim.metadata.deletion_timestamp
        return f"{key(claim)}: is being deleted since {since}; {_users(claim)}"
    return f"{key(claim)}: exists, but was not made for this pod: the pod is not its owner"


def _similar(pod: Pod, name: str, devices: Devices) -> str:
    namespace = pod.metadata.namespace
    names = [
        claim.metadata.name
        for claim in devices.claims.all()
        if claim.metadata.namespace == namespace
    ]
    match = get_close_matches(name, names, n=1)
    return f" (did you mean {match[0]}?)" if match else ""


def _state(claim: ResourceClaim) -> str:
    allocation = claim.status.allocation
    if allocation is None:
        return "not allocated"
    results = allocation.devices.results
    devices = (
        examples(f"{result.driver}/{result.pool}/{result.device}" for result in results)
        or "no devices"
    )
    return f"allocated {devices}, for {nodes_text(allocation.node_selector)}; {_users(claim)}"


def _users(claim: ResourceClaim) -> str:
    text = users_text(claim)
    return text if text.startswith("reserved") else f"reserved for {text}"


def nodes_text(selector: NodeSelector | None) -> str:
    """Returns the nodes of a node selector, in words."""
    if selector is None:
        return "all nodes"
    terms = []
    for term in selector.node_selector_terms:
        parts = []
        for requirement in (*term.match_fields, *term.match_expressions):
            values = ", ".join(requirement.values)
            if requirement.key == NODE_NAME_FIELD and requirement.operator == "In":
                parts.append(f"node {values}")
            else:
                text = f"{requirement.key} {requirement.operator} {values}"
                parts.append(f"nodes with {text.rstrip()}")
        terms.append(" and ".join(parts))
    return " or ".join(terms)


def _problems(claim: ResourceClaim, pod: Pod, devices: Devices) -> Iterator[str]:
    """Yields what keeps a claim from every node."""
    users = claim.status.reserved_for
    is_user = any(user.uid == pod.metadata.uid for user in users)
    if len(users) >= USERS_MAX and not is_user:
        yield f"it is reserved for {len(users)} pods, the maximum: no other pod can use it"
    if claim.status.allocation is not None:
        yield from unready_text(claim)
        return
    if devices.in_use.in_flight(claim.metadata.uid) is not None:
        yield "it is being allocated for another pod"
    for request in claim.spec.devices.requests:
        for name, class_name in _classes(request):
            if class_name and devices.classes.get(class_name) is None:
                match = get_close_matches(class_name, devices.classes.names(), n=1)
                hint = f" (did you mean {match[0]}?)" if match else ""
                yield f"request {name}: device class {class_name} does not exist{hint}"


def _classes(request: DeviceRequest) -> Iterator[tuple[str, str]]:
    """Yields each request or alternative with its class."""
    if request.exactly is not None:
        yield request.name, request.exactly.device_class_name
    for alternative in request.first_available:
        yield f"{request.name}/{alternative.name}", alternative.device_class_name


def unready_text(claim: ResourceClaim) -> Iterator[str]:
    """Yields why the devices of an allocated claim cannot be used; nothing if they can."""
    readiness = readiness_of(claim)
    if readiness is Readiness.FAILED:
        yield f"its devices cannot be used: {failure_of(claim)}"
    elif readiness is Readiness.WAITING:
        yield f"its devices are not ready: {_conditions(claim)}"


def _conditions(claim: ResourceClaim) -> str:
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    waits = ((result, ", ".join(_pending(claim, result))) for result in results)
    return "; ".join(
        f"{result.driver}/{result.pool}/{result.device} waits for {pending}"
        for result, pending in waits
        if pending
    )


def _pending(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> list[str]:
    """Returns the binding conditions of a device that are not true."""
    identity = result.driver, result.pool, result.device
    true = {
        condition.type
        for device in claim.status.devices
        if (device.driver, device.pool, device.device) == identity
        for condition in device.conditions
        if condition.status == "True"
    }
    return [name for name in result.binding_conditions if name not in true]


def _special(pod: Pod, devices: Devices) -> tuple[ResourceClaim | None, list[str]]:
    """Returns the claim for extended resources, and which classes stand for them."""
    classes = {
        resource: name
        for resource in requested_resources(PodInfo(pod))
        if (name := devices.classes.class_of(resource)) is not None
    }
    if not classes:
        return None, []
    metadata = pod.metadata
    existing = devices.claims.for_extended_resources(metadata.name, metadata.uid)
    lines = [
        f"extended resource {resource}: by devices of class {name}, "
        "unless a node has it from a device plugin"
        for resource, name in classes.items()
    ]
    if existing is not None:
        lines.append(f"{key(existing)}: made in an earlier attempt; it is deleted first")
    return existing or claim_in_memory(pod, "in-memory"), lines
