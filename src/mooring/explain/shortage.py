"""Explains NodeResourcesFit: how much of a resource is missing on the best node of a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mooring.explain.reasons.case import Case
from mooring.simulation.utilization import (
    PODS,
    Amounts,
    NodeUtilization,
    Utilization,
    amount_text,
)

INSUFFICIENT: Final = "Insufficient "
TOO_MANY_PODS: Final = "Too many pods"


def resource_of(reason: str) -> str | None:
    """Returns the resource that a reason is about; None = it is about something else."""
    if reason == TOO_MANY_PODS:
        return PODS
    if reason.startswith(INSUFFICIENT):
        return reason.removeprefix(INSUFFICIENT)
    return None


def reserved(case: Case | None, node_name: str, resource: str, utilization: Utilization) -> int:
    """Returns how much nominated pods request that count as if they were on a node."""
    nominated = () if case is None else case.nominated_to(node_name)
    return sum(utilization.requests(info.pod).get(resource, 0) for info in nominated)


def shortage(
    resource: str,
    nodes: Sequence[NodeUtilization],
    requests: Amounts,
    utilization: Utilization,
    case: Case | None = None,
) -> str:
    """Returns the best node's shortage, or that no node is large enough even when empty.

    Args:
        resource: The resource.
        nodes: The nodes that do not have enough of it.
        requests: Of the pod.
        utilization: The cluster.
        case: The pod and the cluster; None = without nominated pods.
    """
    requested = requests.get(resource, 0)
    name = utilization.names.short(resource)
    largest = max(node.allocatable.get(resource, 0) for node in nodes)
    if largest == 0:
        return f"no {name} at all"
    if requested > largest:
        return (
            f"too small even when empty: {amount_text(resource, requested)} {name} requested,"
            f" the largest has {amount_text(resource, largest)}"
        )
    of_nominated = {node.name: reserved(case, node.name, resource, utilization) for node in nodes}
    best = max(nodes, key=lambda node: node.free(resource) - of_nominated[node.name])
    if requested <= best.free(resource):
        return f"{name} is free on {best.name}, but reserved for pods that are nominated to it"
    reservation = of_nominated[best.name]
    missing = requested - best.free(resource) + reservation
    text = (
        f"{name} short by {amount_text(resource, missing)} at best"
        f" ({best.name} has {amount_text(resource, best.free(resource))} free"
        f" of {amount_text(resource, best.allocatable.get(resource, 0))}"
    )
    if reservation:
        text += f", and pods nominated to it request {amount_text(resource, reservation)}"
    return f"{text})"
