"""Changes that end a shortage: of the pod's requests, of a node's resources, of its pods."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from mooring.decision import Rejection
from mooring.explain.changes.change import EDIT_POD, RESOURCES, SuggestedChange, removal
from mooring.explain.reasons.case import Case, count_text
from mooring.explain.reasons.resources import misspelt
from mooring.explain.shortage import reserved, resource_of
from mooring.objects.meta import ResourceList, ResourceRequirements
from mooring.objects.node import Node
from mooring.objects.pod import Container, Pod
from mooring.objects.requests import allocatable_units
from mooring.simulation.utilization import PODS, Utilization, amount_text, printed_amount
from mooring.state import PodInfo


def for_resources(
    case: Case, node: Node, rejection: Rejection, utilization: Utilization
) -> Iterator[tuple[SuggestedChange, ...]]:
    """Yields the resource that was meant, more of what is short, and the removal of one pod."""
    name = node.metadata.name
    used, requests = utilization.nodes.get(name), utilization.requests(case.pod)
    resources = [resource for resource in map(resource_of, rejection.reasons) if resource]
    if used is None or not resources:
        return
    missing = {
        item: requests.get(item, 0) - used.free(item) + reserved(case, name, item, utilization)
        for item in resources
    }
    if any(amount <= 0 for amount in missing.values()):
        return
    renamed = [
        _renamed(item.resource, item.near)
        for item in misspelt(case)
        if item.resource in missing and name in item.holders
    ]
    if len(renamed) == len(missing):
        yield tuple(renamed)
    fitting = {item: requests[item] - missing[item] for item in resources if item != PODS}
    if len(resources) == 1 and fitting and min(fitting.values()) > 0:
        ((resource, amount),) = missing.items()
        less = _less(case.pod, resource, amount, utilization)
        if less is not None:
            yield (less,)
    yield tuple(
        _more(node, resource, amount, requests.get(resource, 1), utilization)
        for resource, amount in missing.items()
    )
    victims = [
        info
        for info in case.pods_on(name)
        if all(_frees(utilization, info, item) >= amount for item, amount in missing.items())
    ]
    victims.sort(key=lambda info: (info.priority, _frees(utilization, info, resources[0])))
    for info in victims[:1]:
        yield (removal(info),)


def _renamed(old: str, new: str) -> SuggestedChange:
    """Returns the request of another resource in all containers."""

    def amounts(resources: ResourceList) -> ResourceList:
        return {new if name == old else name: amount for name, amount in resources.items()}

    def required(resources: ResourceRequirements) -> ResourceRequirements:
        return replace(
            resources, requests=amounts(resources.requests), limits=amounts(resources.limits)
        )

    def container(item: Container) -> Container:
        return replace(item, resources=required(item.resources))

    def edit(pod: Pod) -> Pod:
        spec = pod.spec
        return replace(
            pod,
            spec=replace(
                spec,
                containers=tuple(map(container, spec.containers)),
                init_containers=tuple(map(container, spec.init_containers)),
                resources=None if spec.resources is None else required(spec.resources),
            ),
        )

    text = f"request {new} in the pod (instead of {old})"
    return SuggestedChange(text, EDIT_POD, f"resource {old}", edit)


def _frees(utilization: Utilization, info: PodInfo, resource: str) -> int:
    return utilization.requests(info.pod).get(resource, 0)


def _units(resource: str, amount: int) -> str:
    """Returns an amount as a quantity of a manifest."""
    return f"{amount}m" if resource == "cpu" else str(amount)


def _less(
    pod: Pod, resource: str, missing: int, utilization: Utilization
) -> SuggestedChange | None:
    """Returns lower requests of the pod's only container; None = it has several, or too little.

    The pod may request more than the container: the overhead of its RuntimeClass.
    """
    if len(pod.spec.containers) != 1 or resource not in pod.spec.containers[0].resources.requests:
        return None
    total = allocatable_units(pod.spec.containers[0].resources.requests)[resource]
    # A manifest with the printed amount has to give a pod that fits.
    remaining = printed_amount(resource, total - missing, rounds_up=False)
    if remaining <= 0:
        return None
    missing = total - remaining
    text = (
        f"request {amount_text(resource, missing)} {utilization.names.short(resource)} less"
        f" in the pod ({amount_text(resource, remaining)} instead of"
        f" {amount_text(resource, total)})"
    )

    def edit(pod: Pod) -> Pod:
        (container,) = pod.spec.containers
        requests = {**container.resources.requests, resource: _units(resource, remaining)}
        changed = replace(container, resources=replace(container.resources, requests=requests))
        return replace(pod, spec=replace(pod.spec, containers=(changed,)))

    share = missing / utilization.requests(pod)[resource]
    return SuggestedChange(text, RESOURCES + share, f"less {resource}", edit)


def _more(
    node: Node, resource: str, missing: int, requested: int, utilization: Utilization
) -> SuggestedChange:
    name = node.metadata.name
    missing = printed_amount(resource, missing, rounds_up=True)
    allocatable = utilization.nodes[name].allocatable.get(resource, 0) + missing

    def update(node: Node) -> Node:
        amounts = {**node.status.allocatable, resource: _units(resource, allocatable)}
        return replace(node, status=replace(node.status, allocatable=amounts))

    short = utilization.names.short(resource)
    text = f"give node {name} {amount_text(resource, missing)} {short} more"
    if resource == PODS:
        text = f"let node {name} run {count_text(missing, 'more pod')}"
    share = missing / max(requested, 1)
    return SuggestedChange(text, RESOURCES + share, f"more {resource}", updates={name: update})
