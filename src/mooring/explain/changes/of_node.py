"""Changes by which a node would no longer be rejected: of the pod, of the node, of its pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from msgspec.structs import replace

from mooring.decision import Rejection
from mooring.explain.changes.change import EDIT_NODE, EDIT_POD, SuggestedChange
from mooring.explain.changes.devices import for_devices
from mooring.explain.changes.labels import for_labels
from mooring.explain.changes.of_pod import volume_for
from mooring.explain.changes.pods import (
    for_affinity,
    for_attach_limits,
    for_ports,
    for_shared_volumes,
)
from mooring.explain.changes.resources import for_resources
from mooring.explain.changes.spread import for_spread
from mooring.explain.reasons.case import Case
from mooring.explain.reasons.nodes import taint_text, untolerated
from mooring.explain.reasons.volumes import claims_of
from mooring.objects.node import Node, Taint
from mooring.objects.pod import Pod, Toleration
from mooring.objects.volume_claims import is_fully_bound
from mooring.simulation.utilization import Utilization

#: Alternatives of one rejection.
ALTERNATIVES_MAX: Final = 3

#: Alternatives, each of one or more changes.
Alternatives = list[tuple[SuggestedChange, ...]]


def alternatives(
    case: Case, node: Node, rejection: Rejection, utilization: Utilization
) -> Alternatives:
    """Returns the changes that may end a rejection of a node; none if there is no such change."""
    plugin = rejection.plugin
    if plugin == "NodeResourcesFit":
        return list(for_resources(case, node, rejection, utilization))[:ALTERNATIVES_MAX]
    find = _FINDERS.get(plugin)
    return [] if find is None else list(find(case, node))[:ALTERNATIVES_MAX]


def _uncordon(case: Case, node: Node) -> Iterator[tuple[SuggestedChange, ...]]:
    del case
    name = node.metadata.name

    def update(node: Node) -> Node:
        return replace(node, spec=replace(node.spec, unschedulable=False))

    yield (SuggestedChange(f"uncordon node {name}", EDIT_NODE, "uncordon", updates={name: update}),)


def _tolerations(case: Case, node: Node) -> Iterator[tuple[SuggestedChange, ...]]:
    yield tuple(map(_toleration, untolerated(case, node)))


def _toleration(taint: Taint) -> SuggestedChange:
    operator = "Equal" if taint.value else "Exists"
    toleration = Toleration(
        key=taint.key, operator=operator, value=taint.value, effect=taint.effect
    )

    def edit(pod: Pod) -> Pod:
        tolerations = (*pod.spec.tolerations, toleration)
        return replace(pod, spec=replace(pod.spec, tolerations=tolerations))

    text = taint_text(taint)
    return SuggestedChange(
        f"add a toleration of {text} to the pod", EDIT_POD, f"toleration {text}", edit
    )


def _volumes(case: Case, node: Node) -> Iterator[tuple[SuggestedChange, ...]]:
    """Yields a volume for each claim that finds none here."""
    del node
    changes = [volume_for(claim) for claim in claims_of(case) if not is_fully_bound(claim)]
    if changes:
        yield tuple(changes)


_FINDERS: Final[dict[str, Callable[[Case, Node], Iterator[tuple[SuggestedChange, ...]]]]] = {
    "NodeUnschedulable": _uncordon,
    "TaintToleration": _tolerations,
    "NodeAffinity": for_labels,
    "NodePorts": for_ports,
    "InterPodAffinity": for_affinity,
    "NodeVolumeLimits": for_attach_limits,
    "VolumeRestrictions": for_shared_volumes,
    "VolumeBinding": _volumes,
    "PodTopologySpread": for_spread,
    "DynamicResources": for_devices,
}
