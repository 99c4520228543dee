"""InterPodAffinity: pods that want to be near certain other pods, or not near them.

"Near" means on a node with the same value of a label, the term's topology key. It goes both ways:
the terms of the new pod ask where other pods are, and the terms of pods on nodes may mean the new
one. The first are answered by counters, the second by the table of terms; running pods are never
walked.

Which pods a term means is in ``inter_pod_affinity_terms``, how counts per row become counts per
value of a topology key in ``inter_pod_affinity_domains``.
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
from mooring.plugins.inter_pod_affinity.deltas import Asked, Worlds
from mooring.plugins.inter_pod_affinity.domains import (
    Bools,
    Domains,
    KeyColumns,
    Wanted,
    counts_by_domain,
    held_sums,
)
from mooring.plugins.inter_pod_affinity.hints import Hints
from mooring.plugins.inter_pod_affinity.scoring import raw_scores, weighted_counts
from mooring.plugins.inter_pod_affinity.terms import (
    counter_key,
    matches,
    matching_terms,
    meant_by_all,
    topology_keys,
)
from mooring.state import PodInfo, Snapshot
from mooring.state.tables.pod_terms import NO_TERMS, PodTerms, terms_of

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

_REFUSALS: Final[list[Status]] = [
    Reject(REASON_AFFINITY, resolvable=False),
    Reject(REASON_ANTI_AFFINITY),
    Reject(REASON_EXISTING),
]


@dataclass(frozen=True, slots=True)
class Required:
    """What filter needs, per topology key.

    Attributes:
        asked: Which pods change the counts when they come or go.
        affinity: The pods that all of the pod's affinity terms mean; None = no node has the key.
        anti_affinity: The pods that its anti-affinity terms mean, a pod once for each term.
        existing: The pods on nodes whose anti-affinity means this pod, likewise.
        is_first: Whether the pod means itself, so that it may be the first of its series.
        total: The counts of ``affinity``, all of them together; 0 = there is no such pod yet.
        total_change: What is added to that in each of m worlds, int64 shape (m,).
    """

    asked: Asked
    affinity: dict[str, Domains | None]
    anti_affinity: dict[str, Domains]
    existing: dict[str, Domains]
    is_first: bool
    total: int
    total_change: Scores | None = None


@dataclass(frozen=True, slots=True)
class AffinityState:
    """The pod's terms; what filter needs, None = nothing; what is near, weighed, for scores."""

    terms: PodTerms
    required: Required | None = None
    near: tuple[Domains, ...] = ()


class InterPodAffinity:
    """Refuses nodes where terms are not met; prefers those where more preferences are.

    Answers are not shared: they follow from pods on other nodes. ``sign`` tells only which pods
    the same events help.

    Complexity: O(nodes x topology keys) an attempt, in columns; it does not grow with the number
    of pods, nor with that of terms that cannot mean the pod.

    Source: pkg/scheduler/framework/plugins/interpodaffinity/{plugin,filtering,scoring}.go.
    """

    name = "InterPodAffinity"
    #: Namespace selectors select by the labels of these.
    needs = ("Namespace",)

    def __init__(
        self, args: InterPodAffinityArgs | None = None, handle: Handle | None = None
    ) -> None:
        """``handle`` tells its hints of namespaces and of pods' terms; without one of none."""
        self._args = args if args is not None else InterPodAffinityArgs()
        self._hints = Hints(handle)
        self._columns = KeyColumns()

    def sign(self, pod: PodInfo) -> Hashable | None:
        """What the pure hints read of the pod: its namespace, its labels and its terms."""
        terms = terms_of(pod)
        if terms.problems:
            return None
        return pod.metadata.namespace, frozenset(pod.metadata.labels.items()), terms

    # -- filter -----------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle) -> Status | Skip | None:
        """Counts who is near; skips a pod without required terms that no anti-affinity means."""
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
        """Affinity first, then the pod's own anti-affinity, then that of pods on nodes."""
        required = cycle[self].required
        codes = np.zeros(len(nodes), dtype=np.uint16)
        for domains in required.existing.values():
            codes[domains.are_near(nodes)] = 3
        for domains in required.anti_affinity.values():
            codes[domains.are_near(nodes)] = 2
        if required.affinity:
            codes[~_is_near_all(required, nodes)] = 1
        return FilterStatuses(codes, _REFUSALS)

    def apply_deltas(self, cycle: Cycle, state: AffinityState, nodes: NodeView) -> AffinityState:
        """Returns the counts near each world's node, with the pods that differ there."""
        if state.required is None:
            return state
        required, worlds = state.required, Worlds(cycle, state.required.asked, nodes)
        affinity: dict[str, Domains | None] = dict(required.affinity)
        total_change = np.zeros(len(nodes), dtype=np.int64)
        change = worlds.affinity() if affinity else total_change
        for key, domains in required.affinity.items():
            if domains is not None:
                affinity[key] = replace(domains, change=change)
                total_change += change * domains.column.has_csi_node_by_row(nodes)
        anti_affinity = {
            key: replace(domains, change=worlds.anti_affinity(key))
            for key, domains in required.anti_affinity.items()
        }
        new_keys = [key for key in worlds.added_keys() if key not in required.existing]
        columns = self._columns.of(cycle.snapshot, new_keys)
        existing = required.existing | {key: column.nobody() for key, column in columns.items()}
        now = replace(
            required,
            affinity=affinity,
            anti_affinity=anti_affinity,
            existing={
                key: replace(domains, change=worlds.existing(key))
                for key, domains in existing.items()
            },
            total_change=total_change,
        )
        return replace(state, required=now)

    # -- score ------------------------------------------------------------------------------------

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> Skip | None:  # noqa: ARG002
        """Weighs who is near; skips a pod for which no term says anything of any node."""
        known: AffinityState | None = cycle.state_of(self.name)
        terms = cycle.snapshot.terms.compiled(cycle.pod) if known is None else known.terms
        has_preferences = terms.preferred or terms.preferred_anti
        if self._args.ignore_preferred_terms_of_existing_pods and not has_preferences:
            return SKIP
        weight = self._args.hard_pod_affinity_weight
        near = weighted_counts(cycle.snapshot, self._columns, cycle.pod, terms, hard_weight=weight)
        if near is None:
            return SKIP
        cycle[self] = AffinityState(terms, known.required if known is not None else None, near)
        return None

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """Returns the sum of the weights of what is near the node, for and against it."""
        return raw_scores(cycle[self].near, nodes)

    def normalize(self, cycle: Cycle, scores: Scores, nodes: NodeView) -> Scores:  # noqa: ARG002
        """From the lowest, which becomes 0, to the highest, which becomes 100.

        All are 0 if they are all the same. In float64, operation by operation as upstream.
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
        """Pods that terms mean come, go or change their labels; nodes come or change labels."""
        return self._hints.events()

    # -- inside -----------------------------------------------------------------------------------

    def _existing(self, snapshot: Snapshot, pod: PodInfo) -> dict[str, Domains]:
        """Per topology key, the pods near by whose anti-affinity means the pod."""
        found = counter_key(snapshot.terms.anti_affinity, snapshot, pod)
        if not found:
            return {}
        columns = self._columns.of(snapshot, topology_keys(held.term for held in found))
        sums = held_sums(columns, ((held, 1) for held in found))
        near = {key: Domains(columns[key], counts) for key, counts in sums.items()}
        return {key: domains for key, domains in near.items() if domains.counts.any()}

    def _required(
        self, snapshot: Snapshot, pod: PodInfo, terms: PodTerms, existing: dict[str, Domains]
    ) -> Required:
        namespaces, metadata = snapshot.namespaces, pod.metadata
        together = meant_by_all(terms.affinity, namespaces)
        affinity: dict[str, Domains | None] = {}
        total = 0
        if terms.affinity:
            counter = snapshot.counters.counter(together)
            keys = topology_keys(terms.affinity)
            columns = self._columns.of(snapshot, keys)
            near = {key: Domains(column, column.sums(counter)) for key, column in columns.items()}
            affinity = {key: near.get(key) for key in keys}
            total = sum(int(domains.counts.sum()) for domains in near.values())
        wanted = [
            Wanted(t.topology_key, matching_terms(t, namespaces), 1) for t in terms.anti_affinity
        ]
        return Required(
            asked=Asked.by(together, wanted),
            affinity=affinity,
            anti_affinity=counts_by_domain(snapshot, self._columns, wanted),
            existing=existing,
            is_first=matches(together, metadata.namespace, metadata.labels),
            total=total,
        )


def _joined(problems: tuple[str, ...]) -> str:
    return problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"


def _is_near_all(required: Required, nodes: NodeView) -> Bools:
    """Which nodes meet the affinity: a pod that all terms mean is near, by every topology key.

    Or there is no such pod at all, the new one would be the first, and the node has all keys.
    """
    found = [domains for domains in required.affinity.values() if domains is not None]
    if len(found) < len(required.affinity):
        return np.zeros(len(nodes), dtype=np.bool_)
    if required.total_change is None:
        if required.is_first and not required.total:
            return _all(domains.column.has_csi_node_by_row(nodes) for domains in found)
        return _all(domains.are_near(nodes) for domains in found)
    are_near = _all(domains.are_near(nodes) for domains in found)
    if not required.is_first:
        return are_near
    has_keys = _all(domains.column.has_csi_node_by_row(nodes) for domains in found)
    has_nobody: Bools = required.total + required.total_change == 0
    return are_near | (has_keys & has_nobody)


def _all(masks: Iterable[Bools]) -> Bools:
    """Where all of the masks hold, of which there is at least one."""
    found, *others = masks
    for mask in others:
        found = found & mask
    return found
