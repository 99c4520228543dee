"""InterPodAffinity once more, one node and one pod at a time, in dicts and loops.

Written from the reference page and the upstream source, not from the columns. It walks the pods of
every node, matches selectors by itself, and changes its maps pod by pod as upstream's AddPod and
RemovePod do. Nothing here uses code of ``mooring.plugins``, of the counters or of the term table.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from mooring.framework import SKIP, Cycle, FilterStatuses, NodeInfo, NodeView, Reject
from mooring.framework.interface import Scores
from mooring.framework.status import Skip
from mooring.objects.pod import Affinity, PodAffinityTerm
from mooring.state import PodInfo
from tests.plugins.spread_twin import Conditions, conditions_of, holds

NOT_NEAR = "node(s) didn't match pod affinity rules"
TOO_NEAR = "node(s) didn't match pod anti-affinity rules"
UNWANTED = "node(s) didn't satisfy existing pods anti-affinity rules"

#: (topology key, value) -> how many matching terms.
Pairs = dict[tuple[str, str], int]


class Term(NamedTuple):
    names: set[str]
    namespace_conditions: Conditions
    conditions: Conditions
    key: str
    weight: int = 0

    def matches(self, pod: PodInfo, namespace_labels: Mapping[str, str]) -> bool:
        if pod.metadata.namespace not in self.names and not holds(
            self.namespace_conditions, namespace_labels
        ):
            return False
        return holds(self.conditions, pod.metadata.labels)


class AffinityTwin:
    name = "InterPodAffinity"

    def __init__(
        self,
        namespaces: Mapping[str, Mapping[str, str]] | None = None,
        *,
        hard_weight: int = 1,
        ignores_others: bool = False,
    ) -> None:
        self.namespaces = dict(namespaces or {})
        self.hard_weight = hard_weight
        self.ignores_others = ignores_others

    # -- filter -----------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle) -> Skip | None:
        pod = cycle.pod
        own = {"near": self.own(pod, "near"), "far": self.own(pod, "far")}
        state: dict[str, Any] = {**own, "near_pairs": {}, "far_pairs": {}, "others_pairs": {}}
        for node in NodeView.all_nodes(cycle.snapshot):
            for other in node.pods:
                self.count(state, pod, other, node, 1)
        if not (own["near"] or own["far"] or state["others_pairs"]):
            return SKIP
        cycle[self] = state
        return None

    def count(
        self, state: dict[str, Any], pod: PodInfo, other: PodInfo, node: NodeInfo, by: int
    ) -> None:
        labels = self.namespaces.get(pod.metadata.namespace, {})
        for term in self.terms(other, "far"):
            if term.matches(pod, labels):
                add(state["others_pairs"], node, term.key, by)
        if matches_all(state["near"], other):
            for term in state["near"]:
                add(state["near_pairs"], node, term.key, by)
        for term in state["far"]:
            if term.matches(other, {}):
                add(state["far_pairs"], node, term.key, by)

    def add_pod(self, cycle: Cycle, state: Any, pod: PodInfo, node: NodeInfo) -> Any:
        state = copy.deepcopy(state)
        self.count(state, cycle.pod, pod, node, 1)
        return state

    def remove_pod(self, cycle: Cycle, state: Any, pod: PodInfo, node: NodeInfo) -> Any:
        state = copy.deepcopy(state)
        self.count(state, cycle.pod, pod, node, -1)
        return state

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        return FilterStatuses.of(self.status(cycle, node) for node in nodes)

    def status(self, cycle: Cycle, node: NodeInfo) -> Reject | None:
        state = cycle[self]
        if not self.is_near(cycle, node):
            return Reject(NOT_NEAR, resolvable=False)
        for term in state["far"]:
            value = node.labels.get(term.key)
            if value is not None and state["far_pairs"].get((term.key, value), 0) > 0:
                return Reject(TOO_NEAR)
        if any(state["others_pairs"].get(pair, 0) > 0 for pair in node.labels.items()):
            return Reject(UNWANTED)
        return None

    def is_near(self, cycle: Cycle, node: NodeInfo) -> bool:
        state = cycle[self]
        there_are = True
        for term in state["near"]:
            value = node.labels.get(term.key)
            if value is None:
                return False
            if state["near_pairs"].get((term.key, value), 0) <= 0:
                there_are = False
        if there_are:
            return True
        return not state["near_pairs"] and matches_all(state["near"], cycle.pod)

    # -- score ------------------------------------------------------------------------------------

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> Skip | None:
        pod = cycle.pod
        preferred = [*self.own(pod, "preferred"), *self.own(pod, "unpreferred")]
        if self.ignores_others and not preferred:
            return SKIP
        sums: Pairs = {}
        for node in NodeView.all_nodes(cycle.snapshot):
            for other in node.pods:
                for key, weight in self.said_by(pod, preferred, other):
                    note(sums, node, key, weight)
        if not sums:
            return SKIP
        state = {"sums": sums}
        if self in cycle:
            state = {**cycle[self], **state}
        cycle[self] = state
        return None

    def said_by(
        self, pod: PodInfo, preferred: list[Term], other: PodInfo
    ) -> Iterator[tuple[str, int]]:
        """Yields topology key and weight of every matching term between the two pods."""
        labels = self.namespaces.get(pod.metadata.namespace, {})
        for term in preferred:
            if term.matches(other, {}):
                yield term.key, term.weight
        for term in self.terms(other, "near") if self.hard_weight > 0 else ():
            if term.matches(pod, labels):
                yield term.key, self.hard_weight
        for term in (*self.terms(other, "preferred"), *self.terms(other, "unpreferred")):
            if term.matches(pod, labels):
                yield term.key, term.weight

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        sums = cycle[self]["sums"]
        found = [sum(sums.get(pair, 0) for pair in node.labels.items()) for node in nodes]
        return np.array(found, dtype=np.int64)

    def normalize(self, cycle: Cycle, scores: Scores, nodes: NodeView) -> Scores:
        raw = scores.tolist()
        low, high = min(raw, default=0), max(raw, default=0)
        found = []
        for score in raw:
            share = 0.0
            if high > low:
                share = float(100) * (float(score - low) / float(high - low))
            found.append(int(share))
        return np.array(found, dtype=np.int64)

    # -- terms ------------------------------------------------------------------------------------

    def own(self, pod: PodInfo, sort: str) -> list[Term]:
        """Returns the terms of the new pod, with the names of the selected namespaces."""
        found = []
        for term in self.terms(pod, sort):
            selected = {
                name
                for name, labels in self.namespaces.items()
                if term.namespace_conditions != [] and holds(term.namespace_conditions, labels)
            }
            found.append(term._replace(names=term.names | selected))
        return found

    def terms(self, pod: PodInfo, sort: str) -> list[Term]:
        affinity = pod.spec.affinity or Affinity()
        part: Any = affinity.pod_affinity
        if sort in ("far", "unpreferred"):
            part = affinity.pod_anti_affinity
        if part is None:
            return []
        namespace = pod.metadata.namespace
        if sort in ("near", "far"):
            required = part.required_during_scheduling_ignored_during_execution
            return [term_of(namespace, each) for each in required]
        sign = 1 if sort == "preferred" else -1
        return [
            term_of(namespace, each.pod_affinity_term)._replace(weight=sign * each.weight)
            for each in part.preferred_during_scheduling_ignored_during_execution
        ]


def term_of(namespace: str, term: PodAffinityTerm) -> Term:
    names = set(term.namespaces)
    if not names and term.namespace_selector is None:
        names = {namespace}
    return Term(
        names,
        conditions_of(term.namespace_selector),
        conditions_of(term.label_selector),
        term.topology_key,
    )


def matches_all(terms: list[Term], pod: PodInfo) -> bool:
    return bool(terms) and all(term.matches(pod, {}) for term in terms)


def add(pairs: Pairs, node: NodeInfo, key: str, by: int) -> None:
    """Does the same as upstream's ``update``: an entry of 0 is removed."""
    note(pairs, node, key, by)
    pair = (key, node.labels.get(key, ""))
    if pairs.get(pair) == 0:
        del pairs[pair]


def note(pairs: Pairs, node: NodeInfo, key: str, by: int) -> None:
    if key in node.labels:
        pair = (key, node.labels[key])
        pairs[pair] = pairs.get(pair, 0) + by
