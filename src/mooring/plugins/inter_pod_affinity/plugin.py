"""InterPodAffinity: pod affinity and anti-affinity, required and preferred.

A topology domain is the set of nodes with the same value of a label, the term's topology key. The
terms of the incoming pod select existing pods, and the terms of existing pods may match the
incoming pod. Counters evaluate the former, the table of terms the latter; the plugin never iterates
over existing pods.

``terms`` computes which pods a term selects, ``domains`` sums counts per row over the domains of a
topology key.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mooring.cluster_event import ClusterEventWithHint
from mooring.config.types import InterPodAffinityArgs
from mooring.framework import SKIP, Cycle, FilterStatuses, NodeView, Reject, Status
from mooring.framework.interface import MAX_SCORE, Handle, Scores
from mooring.framework.status import Skip
from mooring.plugins.inter_pod_affinity.deltas import CountDeltas, RequiredKeys
from mooring.plugins.inter_pod_affinity.domains import (
    Domains,
    KeyColumns,
    WeightedKey,
    counts_by_domain,
    shared_term_sums,
)
from mooring.plugins.inter_pod_affinity.hints import Hints
from mooring.plugins.inter_pod_affinity.scoring import raw_scores, weighted_counts
from mooring.plugins.inter_pod_affinity.terms import (
    counter_key,
    counter_key_of_all,
    matches,
    matching_terms,
    topology_keys,
)
from mooring.state import PodInfo, Snapshot
from mooring.state.tables.pod_terms import NO_TERMS, PodTerms, terms_of
from mooring.state.types import Bools

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

_REJECTIONS: Final[list[Status]] = [
    Reject(REASON_AFFINITY, resolvable=False),
    Reject(REASON_ANTI_AFFINITY),
    Reject(REASON_EXISTING),
]


@dataclass(frozen=True, slots=True)
class Required:
    """The filter state, by topology key.

    Attributes:
        keys: The pods that change the counts when they are added or removed.
        affinity: The pods that match all affinity terms of the pod; None = no node has the key.
        anti_affinity: The pods that match its anti-affinity terms, counted once for each term.
        existing: The existing pods whose anti-affinity matches this pod, counted likewise.
        is_first: True if the pod matches its own affinity, so that no other pod needs to.
        total: The sum of all counts of ``affinity``; 0 = there is no such pod yet.
        total_change: The change of ``total`` on each of m hypothetical nodes, int64 shape (m,).
    """

    keys: RequiredKeys
    affinity: dict[str, Domains | None]
    anti_affinity: dict[str, Domains]
    existing: dict[str, Domains]
    is_first: bool
    total: int
    total_change: Scores | None = None


@dataclass(frozen=True, slots=True)
class AffinityState:
    """The pod's terms, the filter state if filter runs, and the weighted counts for score."""

    terms: PodTerms
    required: Required | None = None
    weighted: tuple[Domains, ...] = ()


class InterPodAffinity:
    """Rejects nodes that violate required terms; scores nodes by preferred terms.

    Results are not cached: they depend on pods of other nodes. ``sign`` is only for queueing hints.

    Complexity: O(nodes x topology keys) an attempt, in columns; independent of the number of pods
    and of terms that do not match the pod.

    Source: pkg/scheduler/framework/plugins/interpodaffinity/{plugin,filtering,scoring}.go.
    """

    name = "InterPodAffinity"
    #: For namespace selectors.
    needs = ("Namespace",)

    def __init__(
        self, args: InterPodAffinityArgs | None = None, handle: Handle | None = None
    ) -> None:
        """Creates the plugin; the hints read namespaces and pods' terms through ``handle``."""
        self._args = args if args is not None else InterPodAffinityArgs()
        self._hints = Hints(handle)
        self._columns = KeyColumns()

    def sign(self, pod: PodInfo) -> Hashable | None:
        """Returns what the pure hints read of the pod: its namespace, its labels and its terms."""
        terms = terms_of(pod)
        if terms.problems:
            return None
        return pod.metadata.namespace, frozenset(pod.metadata.labels.items()), terms

    def batch_signature(self, pod: PodInfo) -> Hashable | None:
        """Returns the pod's labels, if terms of other pods count; None for a pod with terms."""
        affinity = pod.spec.affinity
        if affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity):
            return None
        if self._args.ignore_preferred_terms_of_existing_pods:
            return ()
        return frozenset(pod.metadata.labels.items())

    # -- filter -----------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle) -> Status | Skip | None:
        """Counts pods by domain; skips if there are no required terms and no matching terms."""
        pod, snapshot = cycle.pod, cycle.snapshot
        terms = snapshot.terms.compiled(pod)
        if terms.problems:
            return Reject(f"parsing pod: {_joined(terms.problems)}", resolvable=False)
        existing = self._existing(snapshot, pod)
        if terms.affinity or terms.anti_affinity or existing:
            required = self._required(snapshot, pod, terms, existing)
            cycle[self] = AffinityState(terms, required)
            return None
        if terms is not NO_TERMS:
            cycle[self] = AffinityState(terms)
        return SKIP

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Rejects by affinity, then by own anti-affinity, then by that of existing pods."""
        required = cycle[self].required
        codes = np.zeros(len(nodes), dtype=np.uint16)
        for domains in required.existing.values():
            codes[domains.has_matching_pods(nodes)] = 3
        for domains in required.anti_affinity.values():
            codes[domains.has_matching_pods(nodes)] = 2
        if required.affinity:
            codes[~_satisfies_affinity(required, nodes)] = 1
        return FilterStatuses(codes, _REJECTIONS)

    def apply_deltas(self, cycle: Cycle, state: AffinityState, nodes: NodeView) -> AffinityState:
        """Returns the state with the counts changed by added and removed pods."""
        if state.required is None:
            return state
        required, deltas = state.required, CountDeltas(cycle, state.required.keys, nodes)
        affinity: dict[str, Domains | None] = dict(required.affinity)
        total_change = np.zeros(len(nodes), dtype=np.int64)
        change = deltas.affinity() if affinity else total_change
        for key, domains in required.affinity.items():
            if domains is not None:
                affinity[key] = replace(domains, change=change)
                total_change += change * domains.column.nodes_with_key(nodes)
        anti_affinity = {
            key: replace(domains, change=deltas.anti_affinity(key))
            for key, domains in required.anti_affinity.items()
        }
        new_keys = [key for key in deltas.added_keys() if key not in required.existing]
        columns = self._columns.of(cycle.snapshot, new_keys)
        existing = required.existing | {key: column.no_pods() for key, column in columns.items()}
        required = replace(
            required,
            affinity=affinity,
            anti_affinity=anti_affinity,
            existing={
                key: replace(domains, change=deltas.existing(key))
                for key, domains in existing.items()
            },
            total_change=total_change,
        )
        return replace(state, required=required)

    # -- score ------------------------------------------------------------------------------------

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> Skip | None:  # noqa: ARG002
        """Computes weighted counts by domain; skips a pod that no preference concerns."""
        state: AffinityState | None = cycle.state_of(self.name)
        terms = cycle.snapshot.terms.compiled(cycle.pod) if state is None else state.terms
        has_preferences = terms.preferred or terms.preferred_anti
        existing = cycle.snapshot.terms
        if not has_preferences and (
            self._args.ignore_preferred_terms_of_existing_pods
            or not (len(existing.preferred) or len(existing.affinity))
        ):
            return SKIP
        weight = self._args.hard_pod_affinity_weight
        counts = weighted_counts(
            cycle.snapshot, self._columns, cycle.pod, terms, hard_weight=weight
        )
        if counts is None:
            return SKIP
        cycle[self] = AffinityState(terms, state.required if state is not None else None, counts)
        return None

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """Returns the sum of the weights of matching pods in each node's domains."""
        return raw_scores(cycle[self].weighted, nodes)

    def normalize(self, cycle: Cycle, scores: Scores, nodes: NodeView) -> Scores:  # noqa: ARG002
        """Scales the scores so that the lowest becomes 0 and the highest 100.

        All become 0 if they are equal. In float64, operation by operation as upstream.
        """
        if not len(scores):
            return scores
        lowest, highest = scores.min(), scores.max()
        if lowest == highest:
            return np.zeros(len(scores), dtype=np.int64)
        share = (scores - lowest) / np.float64(highest - lowest)
        scaled: Scores = (MAX_SCORE * share).astype(np.int64)
        return scaled

    # -- events -----------------------------------------------------------------------------------

    def events(self) -> list[ClusterEventWithHint]:
        """Registers added, deleted and relabeled pods, and added and relabeled nodes."""
        return self._hints.events()

    # -- inside -----------------------------------------------------------------------------------

    def _existing(self, snapshot: Snapshot, pod: PodInfo) -> dict[str, Domains]:
        """Returns the existing pods whose anti-affinity matches the pod, by topology key."""
        shared_terms = matching_terms(snapshot.terms.anti_affinity, snapshot, pod)
        if not shared_terms:
            return {}
        columns = self._columns.of(snapshot, topology_keys(shared.term for shared in shared_terms))
        sums = shared_term_sums(columns, ((shared, 1) for shared in shared_terms))
        by_key = {key: Domains(columns[key], counts) for key, counts in sums.items()}
        return {key: domains for key, domains in by_key.items() if domains.counts.any()}

    def _required(
        self, snapshot: Snapshot, pod: PodInfo, terms: PodTerms, existing: dict[str, Domains]
    ) -> Required:
        namespaces, metadata = snapshot.namespaces, pod.metadata
        all_affinity = counter_key_of_all(terms.affinity, namespaces)
        affinity: dict[str, Domains | None] = {}
        total = 0
        if terms.affinity:
            counter = snapshot.counters.counter(all_affinity)
            keys = topology_keys(terms.affinity)
            columns = self._columns.of(snapshot, keys)
            by_key = {key: Domains(column, column.sums(counter)) for key, column in columns.items()}
            affinity = {key: by_key.get(key) for key in keys}
            total = sum(int(domains.counts.sum()) for domains in by_key.values())
        anti_affinity = [
            WeightedKey(term.topology_key, counter_key(term, namespaces), 1)
            for term in terms.anti_affinity
        ]
        return Required(
            keys=RequiredKeys.of(all_affinity, anti_affinity),
            affinity=affinity,
            anti_affinity=counts_by_domain(snapshot, self._columns, anti_affinity),
            existing=existing,
            is_first=matches(all_affinity, metadata.namespace, metadata.labels),
            total=total,
        )


def _joined(problems: tuple[str, ...]) -> str:
    return problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"


def _satisfies_affinity(required: Required, nodes: NodeView) -> Bools:
    """Returns the nodes with a pod that matches all terms in the domain of every topology key.

    If there is no such pod at all and the incoming pod matches itself, the nodes with all keys.
    """
    all_domains = [domains for domains in required.affinity.values() if domains is not None]
    if len(all_domains) < len(required.affinity):
        return np.zeros(len(nodes), dtype=np.bool_)
    if required.total_change is None:
        if required.is_first and not required.total:
            return _all(domains.column.nodes_with_key(nodes) for domains in all_domains)
        return _all(domains.has_matching_pods(nodes) for domains in all_domains)
    has_pods = _all(domains.has_matching_pods(nodes) for domains in all_domains)
    if not required.is_first:
        return has_pods
    has_keys = _all(domains.column.nodes_with_key(nodes) for domains in all_domains)
    is_first: Bools = required.total + required.total_change == 0
    return has_pods | (has_keys & is_first)


def _all(masks: Iterable[Bools]) -> Bools:
    """Returns the conjunction of the masks, of which there is at least one."""
    result, *others = masks
    for mask in others:
        result = result & mask
    return result
