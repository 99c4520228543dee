"""Changes of rejections by other pods: their removal, labels of nodes, preferred affinity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from mooring.explain.changes.change import EDIT_NODE, OBJECT, SuggestedChange, removal
from mooring.explain.changes.of_pod import HOSTNAME
from mooring.explain.reasons.affinity import (
    domain_of,
    domains_against,
    pods_in_domain,
    repelling,
    selected,
    term_text,
)
from mooring.explain.reasons.case import Case
from mooring.explain.reasons.volumes import ONCE_POD, claims_of
from mooring.objects.node import Node
from mooring.objects.pod import (
    Affinity,
    Pod,
    PodAffinity,
    PodAntiAffinity,
    WeightedPodAffinityTerm,
)
from mooring.objects.volume_claims import claim_uses
from mooring.plugins.inter_pod_affinity.terms import counter_key_of_all, matches
from mooring.state.columns.ports import conflicts
from mooring.state.tables.pod_terms import Term, terms_of
from mooring.state.volumes.disks import conflict_count, disks_of

#: Pods that are removed together.
REMOVALS_MAX: Final = 2

#: The weight of a term that was required: the largest.
WEIGHT: Final = 100

_FIELDS: Final[dict[str, tuple[str, Any]]] = {
    "affinity": ("pod_affinity", PodAffinity()),
    "anti-affinity": ("pod_anti_affinity", PodAntiAffinity()),
}

Changes = Iterator[tuple[SuggestedChange, ...]]


def for_ports(case: Case, node: Node) -> Changes:
    """Yields the removal of the pods that have the ports."""
    users = [
        info
        for info in case.pods_on(node.metadata.name)
        if any(conflicts(own, used) for own in case.info.host_ports for used in info.host_ports)
    ]
    yield tuple(map(removal, users))


def for_shared_volumes(case: Case, node: Node) -> Changes:
    """Yields the removal of the pods that use a ReadWriteOncePod claim, or a disk, of the pod."""
    once = {claim.metadata.name for claim in claims_of(case) if ONCE_POD in claim.spec.access_modes}
    namespace = case.pod.metadata.namespace
    users = [
        info
        for info in case.pods
        if once
        and info.metadata.namespace == namespace
        and once & {use.name for use in claim_uses(info.pod)}
    ]
    disks = disks_of(case.pod)
    users += [
        info
        for info in case.pods_on(node.metadata.name)
        if conflict_count(disks, disks_of(info.pod))
    ]
    pods = {info.uid: info for info in users}
    if pods:
        yield tuple(map(removal, pods.values()))


def for_attach_limits(case: Case, node: Node) -> Changes:
    """Yields the removal of a pod whose volumes are attached, of lowest priority."""
    use, name = case.snapshot.storage.use, node.metadata.name
    counted = use.usage_if_scheduled(case.pod)
    if counted.problem is not None:
        yield ()  # a claim has to be repaired, whatever the node
        return
    added: dict[str, int] = {}
    for driver in counted.volumes.values():
        added[driver] = added.get(driver, 0) + 1
    missing = {
        driver: count - use.attached_volumes.remaining(driver, name)
        for driver, count in added.items()
        if count > use.attached_volumes.remaining(driver, name)
    }
    for info in sorted(case.pods_on(name), key=lambda item: item.priority):
        drivers = list(use.of_pod(info).volumes.values())
        if missing and all(drivers.count(driver) >= count for driver, count in missing.items()):
            yield (removal(info),)


def for_affinity(case: Case, node: Node) -> Changes:
    """Yields pods to remove, labels that the node lacks, and preferred terms."""
    terms, labels = terms_of(case.info), node.metadata.labels
    unmet = _unmet(case, node, terms.affinity)
    pods = repelling(case, node)
    if not unmet and 0 < len(pods) <= REMOVALS_MAX:
        yield tuple(map(removal, pods))
    missing = [terms.affinity[index] for index in unmet if _lacks(terms.affinity[index], node)]
    if missing and len(missing) == len(unmet) and not pods:
        changes = [change for term in missing for change in (_label(case, term, node),) if change]
        if len(changes) == len(missing):
            yield tuple(changes)
    if any(labels.get(key) == domain for key, domain in domains_against(case)):
        return
    against = [
        index
        for index, term in enumerate(terms.anti_affinity)
        if pods_in_domain(case, [term], term, labels.get(term.topology_key))
    ]
    weaker = [_preferred("affinity", index, terms.affinity[index]) for index in unmet]
    weaker += [_preferred("anti-affinity", index, terms.anti_affinity[index]) for index in against]
    if weaker:
        yield tuple(reversed(weaker))  # the last first: a term that goes moves those after it


def _unmet(case: Case, node: Node, terms: tuple[Term, ...]) -> list[int]:
    """Returns the positions of the affinity terms that a node does not meet."""
    if not terms:
        return []
    metadata = case.pod.metadata
    every = counter_key_of_all(terms, case.snapshot.namespaces)
    is_first = not selected(case, terms) and matches(every, metadata.namespace, metadata.labels)
    return [
        index
        for index, term in enumerate(terms)
        if _lacks(term, node)
        or not (
            is_first
            or pods_in_domain(case, terms, term, node.metadata.labels.get(term.topology_key))
        )
    ]


def _lacks(term: Term, node: Node) -> bool:
    return term.topology_key not in node.metadata.labels


def _label(case: Case, term: Term, node: Node) -> SuggestedChange | None:
    """Returns the label of a domain that has the pods of a term; None = there is none."""
    name, key = node.metadata.name, term.topology_key
    pods = selected(case, terms_of(case.info).affinity)
    domains = [domain for info in pods if (domain := domain_of(case, info, term)) is not None]
    if key == HOSTNAME or (pods and not domains):
        return None
    value = domains[0] if domains else name

    def update(node: Node) -> Node:
        labels = {**node.metadata.labels, key: value}
        return replace(node, metadata=replace(node.metadata, labels=labels))

    text = f"set the label {key}={value} on node {name}"
    return SuggestedChange(text, EDIT_NODE, f"label {key}", updates={name: update})


def _preferred(kind: str, index: int, term: Term) -> SuggestedChange:
    """Returns a required term as a preferred one."""
    field, none = _FIELDS[kind]

    def edit(pod: Pod) -> Pod:
        affinity = pod.spec.affinity or Affinity()
        own = getattr(affinity, field) or none
        required = list(own.required_during_scheduling_ignored_during_execution)
        weighted = WeightedPodAffinityTerm(weight=WEIGHT, pod_affinity_term=required.pop(index))
        preferred = (*own.preferred_during_scheduling_ignored_during_execution, weighted)
        own = replace(
            own,
            required_during_scheduling_ignored_during_execution=tuple(required),
            preferred_during_scheduling_ignored_during_execution=preferred,
        )
        return replace(pod, spec=replace(pod.spec, affinity=replace(affinity, **{field: own})))

    text = f"prefer instead of require the {kind} to {term_text(term)} by {term.topology_key}"
    return SuggestedChange(f"{text} in the pod", OBJECT, f"{kind} {index}", edit)
