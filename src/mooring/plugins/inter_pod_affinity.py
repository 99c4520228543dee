"""InterPodAffinity: pods that want to be near certain other pods, or not near them.

"Near" means on a node with the same value of a label, the term's topology key. It goes both ways:
the terms of the new pod ask where other pods are, and the terms of pods on nodes may mean the new
one. The first are answered by counters, the second by the table of terms; running pods are never
walked.

Which pods a term means is in ``inter_pod_affinity_terms``, how counts per row become counts per
value of a topology key in ``inter_pod_affinity_domains``.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np

from mooring.cluster_event import ClusterEventWithHint
from mooring.config.types import InterPodAffinityArgs
from mooring.framework import SKIP, Cycle, NodeView, Reject, Status, Verdicts
from mooring.framework.interface import MAX_SCORE, Handle, Scores
from mooring.framework.verdict import Skip
from mooring.plugins.inter_pod_affinity_domains import (
    Bools,
    Domains,
    KeyColumns,
    Wanted,
    near_of,
)
from mooring.plugins.inter_pod_affinity_hints import Hints
from mooring.plugins.inter_pod_affinity_scores import held_sums, raw_scores
from mooring.plugins.inter_pod_affinity_terms import (
    is_meant,
    meant_by,
    meant_by_all,
    topology_keys,
)
from mooring.plugins.inter_pod_affinity_worlds import Asked, Worlds
from mooring.state import PodInfo, Snapshot
from mooring.state.pod_terms import PodTerms, terms_of

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"


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
    """The pod's terms; what filter needs, None = nothing; the scores, int64 by row."""

    terms: PodTerms
    required: Required | None = None
    raw: Scores | None = None


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
        """Count who is near; skip a pod without required terms that no anti-affinity means."""
        pod, snapshot = cycle.pod, cycle.snapshot
        terms = terms_of(pod)
        if terms.problems:
            return Reject(f"parsing pod: {_joined(terms.problems)}", resolvable=False)
        existing = self._existing(snapshot, pod)
        if not (terms.affinity or terms.anti_affinity or existing):
            cycle[self] = AffinityState(terms)
            return SKIP
        cycle[self] = AffinityState(terms, self._required(snapshot, pod, terms, existing))
        return None

    def filter(self, cycle: Cycle, nodes: NodeView) -> Verdicts:
        """Affinity first, then the pod's own anti-affinity, then that of pods on nodes."""
        required = cycle[self].required
        codes = np.zeros(len(nodes), dtype=np.uint16)
        for domains in required.existing.values():
            np.putmask(codes, domains.are_near(nodes), 3)
        for domains in required.anti_affinity.values():
            np.putmask(codes, domains.are_near(nodes), 2)
        if required.affinity:
            np.putmask(codes, ~_is_near_all(required, nodes), 1)
        table: list[Status] = [
            Reject(REASON_AFFINITY, resolvable=False),
            Reject(REASON_ANTI_AFFINITY),
            Reject(REASON_EXISTING),
        ]
        return Verdicts(codes, table)

    def shift(self, cycle: Cycle, state: AffinityState, nodes: NodeView) -> AffinityState:
        """The counts near each world's node, with the pods that differ there."""
        if state.required is None:
            return state
        required, worlds = state.required, Worlds(cycle, state.required.asked, nodes)
        affinity: dict[str, Domains | None] = dict(required.affinity)
        total_change = np.zeros(len(nodes), dtype=np.int64)
        change = worlds.affinity() if affinity else total_change
        for key, domains in required.affinity.items():
            if domains is not None:
                affinity[key] = replace(domains, change=change)
                total_change += change * domains.column.rows_have_it(nodes)
        anti_affinity = {
            key: replace(domains, change=worlds.anti_affinity(key))
            for key, domains in required.anti_affinity.items()
        }
        new_keys = [key for key in worlds.added_keys() if key not in required.existing]
        columns = self._columns.of(cycle.snapshot, new_keys)
        existing = required.existing | {key: column.empty() for key, column in columns.items()}
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
        """Score every row; skip a pod for which no term says anything of any node."""
        state = cycle[self] if self in cycle else AffinityState(terms_of(cycle.pod))
        terms = state.terms
        has_preferences = terms.preferred or terms.preferred_anti
        if self._args.ignore_preferred_terms_of_existing_pods and not has_preferences:
            return SKIP
        weight = self._args.hard_pod_affinity_weight
        raw = raw_scores(cycle.snapshot, self._columns, cycle.pod, terms, hard_weight=weight)
        if raw is None:
            return SKIP
        cycle[self] = replace(state, raw=raw)
        return None

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """The sum of the weights of what is near the node, for and against it."""
        raw: Scores = cycle[self].raw
        return nodes.take(raw).copy()

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
        namespace = pod.metadata.namespace
        namespace_labels = snapshot.namespaces.labels(namespace)
        index = snapshot.terms.anti_affinity
        found = index.matching(namespace, namespace_labels, pod.metadata.labels)
        sums = held_sums(snapshot, ((held, 1) for held in found))
        columns = self._columns.of(snapshot, sums)
        near = {key: column.near(sums[key]) for key, column in columns.items()}
        return {key: domains for key, domains in near.items() if domains.counts.any()}

    def _required(
        self, snapshot: Snapshot, pod: PodInfo, terms: PodTerms, existing: dict[str, Domains]
    ) -> Required:
        namespaces, metadata = snapshot.namespaces, pod.metadata
        together = meant_by_all(terms.affinity, namespaces)
        affinity: dict[str, Domains | None] = {}
        total = 0
        if terms.affinity:
            counts = snapshot.counters.counter(together).counts
            keys = topology_keys(terms.affinity)
            columns = self._columns.of(snapshot, keys)
            near = {key: column.near(counts) for key, column in columns.items()}
            affinity = {key: near.get(key) for key in keys}
            total = sum(column.sum(counts) for column in columns.values())
        wanted = [Wanted(t.topology_key, meant_by(t, namespaces), 1) for t in terms.anti_affinity]
        return Required(
            asked=Asked(together, tuple(wanted)),
            affinity=affinity,
            anti_affinity=near_of(snapshot, self._columns, wanted),
            existing=existing,
            is_first=is_meant(together, metadata.namespace, metadata.labels),
            total=total,
        )


def _joined(problems: tuple[str, ...]) -> str:
    return problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"


def _is_near_all(required: Required, nodes: NodeView) -> Bools:
    """Which nodes meet the affinity: a pod that all terms mean is near, by every topology key.

    Or there is no such pod at all, the new one would be the first, and the node has all keys.
    """
    has_keys = np.ones(len(nodes), dtype=np.bool_)
    are_near = np.ones(len(nodes), dtype=np.bool_)
    for domains in required.affinity.values():
        if domains is None:
            return np.zeros(len(nodes), dtype=np.bool_)
        are_near &= domains.are_near(nodes)
        if required.is_first:
            has_keys &= domains.column.rows_have_it(nodes)
    if not required.is_first:
        return are_near
    if required.total_change is None:
        return has_keys if not required.total else are_near
    has_nobody: Bools = required.total + required.total_change == 0
    return are_near | (has_keys & has_nobody)
