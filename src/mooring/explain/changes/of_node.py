"""Changes by which a node would no longer be rejected: of the pod, of the node, of its pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from msgspec.structs import replace

from mooring.decision import Rejection
from mooring.explain.changes.change import (
    EDIT_NODE,
    EDIT_POD,
    OBJECT,
    REMOVE_POD,
    RESOURCES,
    SuggestedChange,
)
from mooring.explain.changes.of_pod import volume_for
from mooring.explain.reasons.affinity import repelling
from mooring.explain.reasons.case import Case, count_text, similar
from mooring.explain.reasons.nodes import taint_text, untolerated
from mooring.explain.reasons.volumes import claims_of
from mooring.explain.shortage import resource_of
from mooring.objects.node import Node, Taint
from mooring.objects.pod import Pod, Toleration
from mooring.objects.selectors import (
    DOES_NOT_EXIST,
    EXISTS,
    IN,
    Requirement,
    required_node_affinity,
)
from mooring.objects.volume_claims import claim_uses, is_fully_bound
from mooring.simulation.utilization import PODS, Utilization, amount_text
from mooring.state import PodInfo
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
        return list(_resources(case, node, rejection, utilization))[:ALTERNATIVES_MAX]
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


# ---- labels ----


def _labels(case: Case, node: Node) -> Iterator[tuple[SuggestedChange, ...]]:
    """Yields a corrected nodeSelector, and the labels that the node lacks."""
    required, labels = required_node_affinity(case.pod), node.metadata.labels
    failing = [item for item in required.labels.requirements if not item.matches(labels)]
    affinity = required.affinity
    if affinity is not None and not affinity.matches(labels, node.metadata.name):
        terms = [
            [item for item in term.expressions if not item.matches(labels)]
            for term in affinity.terms
            if not term.problem
            and all(item.matches_value(node.metadata.name) for item in term.fields)
        ]
        if not terms:
            return
        corrections: list[SuggestedChange] | None = None
        nearest: list[Requirement] = min(terms, key=len)
        failing += nearest
    else:
        corrections = [change for item in failing for change in (_corrected(item, node),) if change]
    if corrections and len(corrections) == len(failing):
        yield tuple(corrections)
    changes = [change for item in failing for change in (_label(item, node),) if change]
    if len(changes) == len(failing):
        yield tuple(changes)


def _corrected(item: Requirement, node: Node) -> SuggestedChange | None:
    """Returns the nodeSelector with the similar value that a node has; None = it has none."""
    value = node.metadata.labels.get(item.key)
    if value is None or item.operator != IN or similar(item.values[0], [value]) is None:
        return None

    def edit(pod: Pod) -> Pod:
        selector = {**pod.spec.node_selector, item.key: value}
        return replace(pod, spec=replace(pod.spec, node_selector=selector))

    text = f"set nodeSelector {item.key}={value} in the pod (instead of {item.values[0]})"
    return SuggestedChange(text, EDIT_POD, f"selector {item.key}={value}", edit)


def _label(item: Requirement, node: Node) -> SuggestedChange | None:
    """Returns the label that a node needs; None = no label helps."""
    name, key = node.metadata.name, item.key
    removes = item.operator == DOES_NOT_EXIST or item.operator == "NotIn"
    if item.operator not in (IN, EXISTS) and not removes:
        return None
    value = item.values[0] if item.operator == IN else ""

    def update(node: Node) -> Node:
        labels = {k: v for k, v in node.metadata.labels.items() if k != key}
        if not removes:
            labels[key] = value
        return replace(node, metadata=replace(node.metadata, labels=labels))

    text = (
        f"remove the label {key} from node {name}"
        if removes
        else f"set the label {key}={value} on node {name}"
    )
    return SuggestedChange(text, EDIT_NODE, f"label {item}", updates={name: update})


# ---- resources ----


def _resources(
    case: Case, node: Node, rejection: Rejection, utilization: Utilization
) -> Iterator[tuple[SuggestedChange, ...]]:
    """Yields more of each resource that is short, and the removal of one pod."""
    name = node.metadata.name
    used, requests = utilization.nodes.get(name), utilization.requests(case.pod)
    resources = [resource for resource in map(resource_of, rejection.reasons) if resource]
    if used is None or not resources:
        return
    missing = {item: requests.get(item, 0) - used.free(item) for item in resources}
    if any(amount <= 0 for amount in missing.values()):
        return
    fitting = {item: requests[item] - missing[item] for item in resources if item != PODS}
    if len(resources) == 1 and fitting and min(fitting.values()) > 0:
        ((resource, amount),) = missing.items()
        less = _less(case.pod, resource, amount, fitting[resource], utilization)
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


def _frees(utilization: Utilization, info: PodInfo, resource: str) -> int:
    return utilization.requests(info.pod).get(resource, 0)


def _units(resource: str, amount: int) -> str:
    """Returns an amount as a quantity of a manifest."""
    return f"{amount}m" if resource == "cpu" else str(amount)


def _less(
    pod: Pod, resource: str, missing: int, remaining: int, utilization: Utilization
) -> SuggestedChange | None:
    """Returns lower requests of the pod's only container; None = it has several."""
    if len(pod.spec.containers) != 1 or resource not in pod.spec.containers[0].resources.requests:
        return None
    text = (
        f"request {amount_text(resource, missing)} {utilization.names.short(resource)} less"
        f" in the pod ({amount_text(resource, remaining)} instead of"
        f" {amount_text(resource, remaining + missing)})"
    )

    def edit(pod: Pod) -> Pod:
        (container,) = pod.spec.containers
        requests = {**container.resources.requests, resource: _units(resource, remaining)}
        changed = replace(container, resources=replace(container.resources, requests=requests))
        return replace(pod, spec=replace(pod.spec, containers=(changed,)))

    share = missing / (remaining + missing)
    return SuggestedChange(text, RESOURCES + share, f"less {resource}", edit)


def _more(
    node: Node, resource: str, missing: int, requested: int, utilization: Utilization
) -> SuggestedChange:
    name = node.metadata.name
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


# ---- pods and volumes ----


def removal(info: PodInfo) -> SuggestedChange:
    """Returns the removal of a pod from its node."""
    text = f"remove pod {info.key} from node {info.node_name}"
    return SuggestedChange(text, REMOVE_POD, f"remove {info.key}", removes=(info.pod,))


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


def _skew(case: Case, node: Node) -> Iterator[tuple[SuggestedChange, ...]]:
    """Yields a constraint that does not reject nodes."""
    del node
    constraints = case.pod.spec.topology_spread_constraints
    for index, constraint in enumerate(constraints):
        if constraint.when_unsatisfiable != "DoNotSchedule":
            continue

        def edit(pod: Pod, index: int = index) -> Pod:
            changed = list(pod.spec.topology_spread_constraints)
            changed[index] = replace(changed[index], when_unsatisfiable="ScheduleAnyway")
            spec = replace(pod.spec, topology_spread_constraints=tuple(changed))
            return replace(pod, spec=spec)

        key = constraint.topology_key
        text = f"set whenUnsatisfiable: ScheduleAnyway for the spread over {key} in the pod"
        yield (SuggestedChange(text, OBJECT, f"spread {key}", edit),)


_FINDERS: Final[dict[str, Callable[[Case, Node], Iterator[tuple[SuggestedChange, ...]]]]] = {
    "NodeUnschedulable": _uncordon,
    "TaintToleration": _tolerations,
    "NodeAffinity": _labels,
    "NodePorts": _port_users,
    "InterPodAffinity": _repelling,
    "VolumeRestrictions": _users_of_claims,
    "VolumeBinding": _volumes,
    "PodTopologySpread": _skew,
}
