"""Changes by which a node would no longer be rejected: of the pod, of the node, of its pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from msgspec.structs import replace

from mooring.decision import Rejection
from mooring.explain.changes.change import EDIT_NODE, EDIT_POD, SuggestedChange, removal
from mooring.explain.changes.labels import for_labels
from mooring.explain.changes.of_pod import volume_for
from mooring.explain.changes.resources import for_resources
from mooring.explain.changes.spread import for_spread
from mooring.explain.reasons.affinity import repelling
from mooring.explain.reasons.case import Case
from mooring.explain.reasons.nodes import taint_text, untolerated
from mooring.explain.reasons.volumes import claims_of
from mooring.objects.node import Node, Taint
from mooring.objects.pod import Pod, Toleration
from mooring.objects.volume_claims import claim_uses, is_fully_bound
from mooring.simulation.utilization import Utilization
from mooring.state.columns.ports import conflicts

#: Alternatives of one rejection.
ALTERNATIVES_MAX: Final = 3

#: Pods that are removed together.
REMOVALS_MAX: Final = 2

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


# ---- pods and volumes ----


def _port_users(case: Case, node: Node) -> Iterator[tuple[SuggestedChange, ...]]:
    users = [
        info
        for info in case.pods_on(node.metadata.name)
        if any(conflicts(own, used) for own in case.info.host_ports for used in info.host_ports)
    ]
    yield tuple(map(removal, users))


def _repelling(case: Case, node: Node) -> Iterator[tuple[SuggestedChange, ...]]:
    pods = repelling(case, node)
    if 0 < len(pods) <= REMOVALS_MAX:
        yield tuple(map(removal, pods))


def _users_of_claims(case: Case, node: Node) -> Iterator[tuple[SuggestedChange, ...]]:
    """Yields the removal of the pods that use a ReadWriteOncePod claim of the pod."""
    del node
    once = {
        claim.metadata.name
        for claim in claims_of(case)
        if "ReadWriteOncePod" in claim.spec.access_modes
    }
    namespace = case.pod.metadata.namespace
    users = [
        info
        for info in case.pods
        if info.metadata.namespace == namespace
        and once & {use.name for use in claim_uses(info.pod)}
    ]
    if users:
        yield tuple(map(removal, users))


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
    "NodePorts": _port_users,
    "InterPodAffinity": _repelling,
    "VolumeRestrictions": _users_of_claims,
    "VolumeBinding": _volumes,
    "PodTopologySpread": for_spread,
}
