"""Reference check of constraints over several nodes: affinity of pods, and spreading.

Like ``reference_fit`` it is slow, simple, and independent of the plugins. It implements what the
scenarios use: required terms and hard constraints with ``matchLabels``; all pods that spread are in
one namespace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from mooring.objects.meta import LabelSelector
from mooring.objects.node import Node
from mooring.objects.pod import Pod, PodAffinityTerm, TopologySpreadConstraint
from tests.faults.harness.reference_fit import fit_error


class World:
    """All nodes and the pods on them.

    Args:
        nodes: Name -> node.
        placed: The pods that have a node, with its name; nodes may be gone.
        namespaces: Name -> labels, for the selectors of namespaces.
    """

    def __init__(
        self,
        nodes: Mapping[str, Node],
        placed: Iterable[tuple[Pod, str]],
        namespaces: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    ) -> None:
        self._nodes, self._namespaces = nodes, namespaces
        self._placed = list(placed)

    def fit_error(self, pod: Pod, node_name: str) -> str:
        """Returns why a pod does not fit a node; "" if it fits."""
        node = self._nodes[node_name]
        others = [other for other, name in self._placed if name == node_name]
        return (
            fit_error(pod, node, others)
            or self._affinity_error(pod, node)
            or next(self._spread_errors(pod, node), "")
        )

    def nominated_for(
        self, pod: Pod, nominated: Iterable[tuple[Pod, str]]
    ) -> list[tuple[Pod, str]]:
        """Returns nominated pods as they count for a pod, with the names of their nodes.

        Their terms do not count if InterPodAffinity is skipped: the pod has no required terms, and
        those of the pods here do not select it. Nominated pods are not added to its state then.

        Source: framework/plugins/interpodaffinity/filtering.go (PreFilter),
        framework/runtime/framework.go (RunPreFilterExtensionAddPod).
        """
        if self._is_affinity_filtered(pod):
            return list(nominated)
        return [
            (replace(other, spec=replace(other.spec, affinity=None)), name)
            for other, name in nominated
        ]

    # -- affinity ---------------------------------------------------------------------------------

    def _affinity_error(self, pod: Pod, node: Node) -> str:
        """Returns why the node violates a term, in the order of InterPodAffinity's filter."""
        return self._own_affinity_error(pod, node) or self._anti_affinity_error(pod, node)

    def _anti_affinity_error(self, pod: Pod, node: Node) -> str:
        for term in _terms(pod, is_anti=True):
            if any(self._selects(pod, term, it) for it in self._pods_in(term.topology_key, node)):
                return f"anti-affinity on {term.topology_key}"
        for other, name in self._placed:
            for term in _terms(other, is_anti=True):
                if self._selects(other, term, pod) and self._is_same(term.topology_key, node, name):
                    return f"anti-affinity of {other.metadata.name}"
        return ""

    def _own_affinity_error(self, pod: Pod, node: Node) -> str:
        terms = list(_terms(pod, is_anti=False))
        keys = [term.topology_key for term in terms]
        if any(key not in node.metadata.labels for key in keys):
            return "no label for its affinity"
        # As upstream, only pods that all terms select count for any of them.
        company = [
            (other, name)
            for other, name in self._placed
            if all(self._selects(pod, term, other) for term in terms)
        ]
        if all(any(self._is_same(key, node, name) for _, name in company) for key in keys):
            return ""
        # The first pod of a group needs no other one.
        is_first = not any(self._has_labels(name, keys) for _, name in company)
        is_own = all(self._selects(pod, term, pod) for term in terms)
        return "" if is_first and is_own else "affinity"

    def _is_affinity_filtered(self, pod: Pod) -> bool:
        if any(terms for is_anti in (True, False) for terms in _terms(pod, is_anti=is_anti)):
            return True
        return any(
            self._selects(other, term, pod) and self._has_labels(name, [term.topology_key])
            for other, name in self._placed
            for term in _terms(other, is_anti=True)
        )

    def _selects(self, owner: Pod, term: PodAffinityTerm, pod: Pod) -> bool:
        """Returns whether a term of a pod selects another one: its labels and its namespace."""
        if not _matches(term.label_selector, pod):
            return False
        name, selector = pod.metadata.namespace, term.namespace_selector
        if name in (term.namespaces or ((owner.metadata.namespace,) if selector is None else ())):
            return True
        labels = self._namespaces.get(name, {})
        return selector is not None and selector.match_labels.items() <= labels.items()

    def _pods_in(self, key: str, node: Node) -> Iterator[Pod]:
        """Yields the pods on nodes with the same value of a label."""
        for other, name in self._placed:
            if self._is_same(key, node, name):
                yield other

    def _is_same(self, key: str, node: Node, name: str) -> bool:
        other = self._nodes.get(name)
        value = node.metadata.labels.get(key)
        return other is not None and value is not None and other.metadata.labels.get(key) == value

    def _has_labels(self, node_name: str, keys: Iterable[str]) -> bool:
        node = self._nodes.get(node_name)
        return node is not None and any(key in node.metadata.labels for key in keys)

    # -- spreading --------------------------------------------------------------------------------

    def _spread_errors(self, pod: Pod, node: Node) -> Iterator[str]:
        hard = [
            constraint
            for constraint in pod.spec.topology_spread_constraints
            if constraint.when_unsatisfiable == "DoNotSchedule"
        ]
        keys = [constraint.topology_key for constraint in hard]
        for constraint in hard:
            value = node.metadata.labels.get(constraint.topology_key)
            if value is None:
                yield f"no label {constraint.topology_key} to spread by"
                continue
            counts = self._counts(pod, constraint, keys)
            own = 1 if _matches(constraint.label_selector, pod) else 0
            skew = counts.get(value, 0) + own - min(counts.values(), default=0)
            if skew > constraint.max_skew:
                yield f"skew {skew} by {constraint.topology_key}"

    def _counts(
        self, pod: Pod, constraint: TopologySpreadConstraint, keys: Iterable[str]
    ) -> dict[str, int]:
        """Returns the matching pods by value of the label, of nodes that the pod may use."""
        counts: dict[str, int] = {}
        for name, node in self._nodes.items():
            labels = node.metadata.labels
            selector = pod.spec.node_selector.items()
            if any(key not in labels for key in keys) or not selector <= labels.items():
                continue
            here = [
                other
                for other, at in self._placed
                if at == name
                and other.metadata.deletion_timestamp is None
                and _matches(constraint.label_selector, other)
            ]
            value = labels[constraint.topology_key]
            counts[value] = counts.get(value, 0) + len(here)
        return counts


def has_affinity_to(pod: Pod, other: Pod) -> bool:
    """Returns whether a required affinity term of a pod selects another pod, wherever it is."""
    return any(_matches(term.label_selector, other) for term in _terms(pod, is_anti=False))


def _terms(pod: Pod, *, is_anti: bool) -> Iterator[PodAffinityTerm]:
    affinity = pod.spec.affinity
    if affinity is None:
        return
    kind = affinity.pod_anti_affinity if is_anti else affinity.pod_affinity
    if kind is not None:
        yield from kind.required_during_scheduling_ignored_during_execution


def _matches(selector: LabelSelector | None, pod: Pod) -> bool:
    return selector is not None and selector.match_labels.items() <= pod.metadata.labels.items()


def without_deletions(nodes: Mapping[str, Node], placed: Iterable[tuple[Pod, str]]) -> World:
    """Returns the cluster as if no pod terminated.

    A spread constraint does not count pods that terminate, but as in kube-scheduler only their end
    is an event: a pod that such a constraint rejected waits until then.
    """
    return World(nodes, [(_without_deletion(pod), name) for pod, name in placed])


def _without_deletion(pod: Pod) -> Pod:
    if pod.metadata.deletion_timestamp is None:
        return pod
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=None))
