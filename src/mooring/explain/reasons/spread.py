"""Explains PodTopologySpread: the domains of each constraint, their counts, and the smallest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from mooring.explain.reasons.case import Case, count_text, names_text, similar
from mooring.objects.node import Node
from mooring.objects.selectors import SelectorError, required_node_affinity
from mooring.objects.tolerations import first_untolerated
from mooring.plugins.pod_topology_spread.constraints import (
    DO_NOT_SCHEDULE,
    Constraint,
    Constraints,
)

NAME: Final = "PodTopologySpread"

#: Domains listed of one constraint.
DOMAINS_SHOWN: Final = 12


class Spread(NamedTuple):
    """One constraint in this cluster.

    Attributes:
        constraint: The constraint.
        counts: Domain -> its matching pods, of the nodes that count.
        smallest: The smallest count; 0 if there are fewer domains than minDomains.
        self_match: 1 if the pod itself matches, else 0.
        not_counted: The nodes that have the topology key, but do not count.
    """

    constraint: Constraint
    counts: dict[str, int]
    smallest: int
    self_match: int
    not_counted: tuple[str, ...]

    def domain_of(self, node: Node) -> str | None:
        """Returns the domain of a node; None = it lacks the topology key."""
        return node.metadata.labels.get(self.constraint.topology_key)

    def skew_in(self, domain: str) -> int:
        """Returns the skew of the domain with this pod."""
        return self.counts.get(domain, 0) + self.self_match - self.smallest


def causes(case: Case, node: Node) -> Iterator[str]:
    """Yields each constraint that a node does not meet."""
    for spread in failing(case, node):
        key, domain = spread.constraint.topology_key, spread.domain_of(node)
        if domain is None:
            yield f"the label {key}, by which pods are spread, is missing"
        else:
            count = spread.counts.get(domain, 0)
            yield (
                f"{key}={domain} has {count_text(count, 'matching pod')}, the smallest domain"
                f" {spread.smallest}: with this pod the skew would be {spread.skew_in(domain)},"
                f" maxSkew is {spread.constraint.max_skew}"
            )


def failing(case: Case, node: Node) -> list[Spread]:
    """Returns the constraints that a node does not meet."""
    result = []
    for spread in _spreads(case):
        domain = spread.domain_of(node)
        if domain is None or spread.skew_in(domain) > spread.constraint.max_skew:
            result.append(spread)
    return result


def similar_key(case: Case, key: str) -> str | None:
    """Returns the label of a node that is nearly a topology key; None = none, or nodes have it."""
    keys = {name for node in case.nodes for name in node.metadata.labels}
    return None if key in keys else similar(key, keys)


def notes(case: Case, nodes: Sequence[Node]) -> Iterator[str]:
    """Yields the domains of each constraint with their counts."""
    del nodes
    for spread in _spreads(case):
        constraint = spread.constraint
        selector = str(constraint.selector) or "nothing"
        yield (
            f"maxSkew {constraint.max_skew} over {constraint.topology_key},"
            f" pods with {selector} in namespace {case.pod.metadata.namespace}:"
        )
        domains = sorted(spread.counts.items(), key=lambda item: (item[1], item[0]))
        for domain, count in domains[:DOMAINS_SHOWN]:
            yield f"  {domain}: {count_text(count, 'pod')}"
        if len(domains) > DOMAINS_SHOWN:
            yield f"  ... and {count_text(len(domains) - DOMAINS_SHOWN, 'more domain')}"
        if not domains:
            yield "  no domain counts"
        if len(domains) < constraint.min_domains and constraint.min_domains > 1:
            yield f"  fewer domains than minDomains {constraint.min_domains}: the minimum is 0"
        yield from _without_key(case, constraint.topology_key)
        if spread.not_counted:
            nodes_text = count_text(len(spread.not_counted), "node")
            policy = "nodeAffinityPolicy, nodeTaintsPolicy or a missing topology key"
            yield f"  not counted: {nodes_text}, by {policy}: {names_text(spread.not_counted)}"


def _without_key(case: Case, key: str) -> Iterator[str]:
    """Yields the nodes that lack a topology key, and the similar key that they have."""
    names = [node.metadata.name for node in case.nodes if key not in node.metadata.labels]
    near = similar_key(case, key)
    if near is not None:
        holders = [node.metadata.name for node in case.nodes if near in node.metadata.labels]
        yield f"  no node has the label {key}; did you mean {near} ({names_text(holders)})?"
    elif len(names) == len(case.nodes):
        yield f"  no node has the label {key}"
    elif names:
        yield f"  without the label {key}: {count_text(len(names), 'node')}: {names_text(names)}"


def _spreads(case: Case) -> list[Spread]:
    return case.once(NAME, lambda: _compute_spreads(case))


def _compute_spreads(case: Case) -> list[Spread]:
    plugin = case.plugin(NAME)
    source = plugin.constraints if plugin is not None else Constraints()
    try:
        constraints = source.of(case.info, DO_NOT_SCHEDULE, case.snapshot.workloads)
    except SelectorError:
        return []
    keys = [constraint.topology_key for constraint in constraints]
    compares = plugin.compares_taints if plugin is not None else False
    return [_spread(case, constraint, keys, compares) for constraint in constraints]


def _spread(case: Case, constraint: Constraint, keys: list[str], compares: bool) -> Spread:
    required, tolerations = required_node_affinity(case.pod), case.pod.spec.tolerations
    counts: dict[str, int] = {}
    not_counted = []
    for node in case.nodes:
        labels, name = node.metadata.labels, node.metadata.name
        domain = labels.get(constraint.topology_key)
        if domain is None:
            continue
        counts_node = all(key in labels for key in keys)
        if constraint.honors_affinity:
            counts_node = counts_node and required.matches(labels, name)
        if constraint.honors_taints and counts_node:
            taint = first_untolerated(node.spec.taints, tolerations, compares=compares)
            counts_node = taint is None
        if not counts_node:
            not_counted.append(name)
            continue
        counts[domain] = counts.get(domain, 0) + _matching(case, constraint, name)
    smallest = min(counts.values(), default=0)
    if len(counts) < constraint.min_domains:
        smallest = 0
    self_match = int(constraint.selector.matches(case.pod.metadata.labels))
    return Spread(constraint, counts, smallest, self_match, tuple(not_counted))


def _matching(case: Case, constraint: Constraint, node_name: str) -> int:
    """Returns the pods of a node that count: of the namespace, selected, not terminating."""
    selector, namespace = constraint.selector, case.pod.metadata.namespace
    if selector.selects_everything:
        return 0  # as in kube-scheduler, an empty selector counts no pod
    return sum(
        info.metadata.namespace == namespace
        and info.metadata.deletion_timestamp is None
        and selector.matches(info.metadata.labels)
        for info in case.pods_on(node_name)
    )
