"""Explains NodeResourcesFit: how much of a resource is missing on the best node of a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mooring.simulation.utilization import (
    PODS,
    Amounts,
    NodeUtilization,
    ResourceNames,
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


def shortage(
    resource: str, nodes: Sequence[NodeUtilization], requests: Amounts, names: ResourceNames
) -> str:
    """Returns the best node's shortage, or that no node is large enough even when empty."""
    requested = requests.get(resource, 0)
    name = names.short(resource)
    largest = max(node.allocatable.get(resource, 0) for node in nodes)
    if largest == 0:
        return f"no {name} at all"
    if requested > largest:
        return (
            f"too small even when empty: {amount_text(resource, requested)} {name} requested,"
            f" the largest has {amount_text(resource, largest)}"
        )
    best = max(nodes, key=lambda node: node.free(resource))
    missing = requested - best.free(resource)
    if missing <= 0:
        return f"{name} is free on {best.name}, but reserved for pods that are nominated to it"
    return (
        f"{name} short by {amount_text(resource, missing)} at best"
        f" ({best.name} has {amount_text(resource, best.free(resource))} free"
        f" of {amount_text(resource, best.allocatable.get(resource, 0))})"
    )
