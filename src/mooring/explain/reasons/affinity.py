"""Explains InterPodAffinity: the term, the pods that match it or do not, and where they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mooring.explain.reasons.case import Case, count_text, similar
from mooring.objects.node import Node
from mooring.plugins.inter_pod_affinity.terms import counter_key, counter_key_of_all, matches
from mooring.state import PodInfo
from mooring.state.tables.pod_terms import Term, terms_of

#: Pods listed of one term.
PODS_SHOWN: Final = 3


def causes(case: Case, node: Node) -> Iterator[str]:
    """Yields each term of the pod, and of existing pods, by which a node is rejected."""
    terms = terms_of(case.info)
    if terms.affinity:
        yield from _affinity(case, node, terms.affinity)
    for term in terms.anti_affinity:
        domain = node.metadata.labels.get(term.topology_key)
        pods = [] if domain is None else _in_domain(case, selected(case, [term]), term, domain)
        if pods:
            yield f"anti-affinity to {term_text(term)}: {_where(term, domain)} has {_pods(pods)}"
    for info, term in against(case):
        domain = node.metadata.labels.get(term.topology_key)
        if domain is not None and domain_of(case, info, term) == domain:
            yield (
                f"pod {info.key} on {info.node_name} has anti-affinity to {term_text(term)}"
                f" in {_where(term, domain)}"
            )


def notes(case: Case, nodes: Sequence[Node]) -> Iterator[str]:
    """Yields the pods that the affinity terms select, or similar labels."""
    del nodes
    terms = terms_of(case.info)
    if not terms.affinity:
        return
    for term in terms.affinity:
        pods = selected(case, [term])
        if pods:
            yield f"affinity to {term_text(term)} selects {_pods(pods, term, case)}"
        else:
            yield f"affinity to {term_text(term)} selects no pod{_near_miss(case, term)}"


def _affinity(case: Case, node: Node, terms: Sequence[Term]) -> Iterator[str]:
    pods = selected(case, terms)
    every = counter_key_of_all(terms, case.snapshot.namespaces)
    metadata = case.pod.metadata
    is_first = not pods and matches(every, metadata.namespace, metadata.labels)
    for term in terms:
        domain = node.metadata.labels.get(term.topology_key)
        if domain is None:
            yield f"affinity to {term_text(term)}: the label {term.topology_key} is missing"
        elif not is_first and not _in_domain(case, pods, term, domain):
            yield f"affinity to {term_text(term)}: no matching pod in {_where(term, domain)}"


def selected(case: Case, terms: Sequence[Term]) -> list[PodInfo]:
    """Returns the pods on nodes that all terms select."""
    return case.once(("selected", *terms), lambda: _select(case, terms))


def _select(case: Case, terms: Sequence[Term]) -> list[PodInfo]:
    if len(terms) == 1:
        selection = counter_key(terms[0], case.snapshot.namespaces)
    else:
        selection = counter_key_of_all(terms, case.snapshot.namespaces)
    return [
        info
        for info in case.pods
        if matches(selection, info.metadata.namespace, info.metadata.labels)
    ]


def against(case: Case) -> list[tuple[PodInfo, Term]]:
    """Returns the pods whose required anti-affinity selects this pod, each with its term."""
    return case.once("against", lambda: _find_against(case))


def _find_against(case: Case) -> list[tuple[PodInfo, Term]]:
    own, labels = case.pod.metadata, case.snapshot.namespaces.labels(case.pod.metadata.namespace)
    return [
        (info, term)
        for info in case.pods
        if info.spec.affinity is not None
        for term in terms_of(info).anti_affinity
        if term.matches(own.namespace, labels, own.labels)
    ]


def domains_against(case: Case) -> list[tuple[str, str]]:
    """Returns topology key and domain of each pod whose required anti-affinity selects the pod."""
    domains = [(term.topology_key, domain_of(case, info, term)) for info, term in against(case)]
    return [(name, domain) for name, domain in domains if domain is not None]


def pods_in_domain(
    case: Case, terms: Sequence[Term], term: Term, domain: str | None
) -> list[PodInfo]:
    """Returns the pods that all terms select, in a domain of one of them."""
    return [] if domain is None else _in_domain(case, selected(case, terms), term, domain)


def repelling(case: Case, node: Node) -> list[PodInfo]:
    """Returns the pods because of which anti-affinity, of either side, rejects a node."""
    labels = node.metadata.labels
    pods: dict[str, PodInfo] = {}
    for term in terms_of(case.info).anti_affinity:
        domain = labels.get(term.topology_key)
        if domain is not None:
            for info in _in_domain(case, selected(case, [term]), term, domain):
                pods[info.uid] = info
    for info, term in against(case):
        domain = labels.get(term.topology_key)
        if domain is not None and domain_of(case, info, term) == domain:
            pods[info.uid] = info
    return list(pods.values())


def domain_of(case: Case, info: PodInfo, term: Term) -> str | None:
    """Returns the domain of a term in which a pod is; None = its node lacks the topology key."""
    node = case.node(info.node_name)
    return None if node is None else node.metadata.labels.get(term.topology_key)


def _in_domain(case: Case, pods: Sequence[PodInfo], term: Term, domain: str) -> list[PodInfo]:
    """Returns those of the pods that are in a domain; ``pods`` is always the same list."""

    def by_domain() -> dict[str | None, list[PodInfo]]:
        domains: dict[str | None, list[PodInfo]] = {}
        for info in pods:
            domains.setdefault(domain_of(case, info, term), []).append(info)
        return domains

    return case.once((id(pods), term.topology_key), by_domain).get(domain, [])


def term_text(term: Term) -> str:
    """Returns what a term selects: "pods with app=web"."""
    if term.selector.selects_nothing:
        return "no pods (the term has no labelSelector)"
    return f"pods with {term.selector}" if term.selector.requirements else "all pods"


def _where(term: Term, domain: str | None) -> str:
    return f"{term.topology_key}={domain}"


def _pods(pods: Sequence[PodInfo], term: Term | None = None, case: Case | None = None) -> str:
    """Returns pods with their nodes, and with their domain for a term."""
    texts = []
    for info in pods[:PODS_SHOWN]:
        domain = None if term is None or case is None else domain_of(case, info, term)
        where = f", {_where(term, domain)}" if term is not None and domain is not None else ""
        texts.append(f"{info.key} (on {info.node_name}{where})")
    rest = len(pods) - PODS_SHOWN
    more = f" and {count_text(rest, 'more pod')}" if rest > 0 else ""
    return f"{', '.join(texts)}{more}"


def _near_miss(case: Case, term: Term) -> str:
    """Returns a pod with a similar label, or one in another namespace."""
    selection = counter_key(term, case.snapshot.namespaces)
    names = selection.namespaces
    elsewhere = [info for info in case.pods if term.selector.matches(info.metadata.labels)]
    if elsewhere and not term.selector.selects_nothing:
        return f"; the term does not select the namespace of {_pods(elsewhere)}"
    for requirement in term.selector.requirements:
        values = {
            info.metadata.labels[requirement.key]: info
            for info in case.pods
            if requirement.key in info.metadata.labels
            and (names is None or info.metadata.namespace in names)
        }
        for value in requirement.values:
            near = similar(value, values)
            if near is not None:
                return f"; did you mean {requirement.key}={near}, as {values[near].key} has?"
    return ""
