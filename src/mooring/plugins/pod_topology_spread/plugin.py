"""PodTopologySpread: spreads matching pods evenly over the domains of topology keys.

A *domain* is a value of a constraint's topology key; its count is the number of pods on its nodes
that match the constraint's selector. A hard constraint (DoNotSchedule) rejects a node whose domain
would exceed the smallest count by more than ``maxSkew``; soft ones (ScheduleAnyway) prefer domains
with lower counts.

``domains`` computes the nodes of the domains, ``constraints`` the constraints of a pod.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from mooring.cluster_event import ClusterEventWithHint
from mooring.config.types import PodTopologySpreadArgs
from mooring.framework import SKIP, Cycle, FilterStatuses, NodeView, Reject, Status
from mooring.framework.interface import Handle, Scores
from mooring.framework.status import Skip
from mooring.objects.selectors import (
    NOTHING,
    Selector,
    SelectorError,
    required_node_affinity,
)
from mooring.plugins.pod_topology_spread.constraints import (
    DO_NOT_SCHEDULE,
    SCHEDULE_ANYWAY,
    Constraint,
    Constraints,
)
from mooring.plugins.pod_topology_spread.domains import (
    NO_DOMAIN,
    Counts,
    DomainLayout,
    DomainLayouts,
    Domains,
    layout_key,
)
from mooring.plugins.pod_topology_spread.hints import events
from mooring.plugins.pod_topology_spread.scoring import normalized, points, rounded
from mooring.state import PodInfo, Snapshot
from mooring.state.kinds.workloads import WORKLOAD_KINDS, Workloads
from mooring.state.tables.counters import CounterKey, PodCounter
from mooring.state.types import Bools

REASON = "node(s) didn't match pod topology spread constraints"
REASON_NO_KEY = f"{REASON} (missing required label)"


@dataclass(frozen=True, slots=True)
class ShiftedCounts:
    """A hard constraint's counts on m hypothetical nodes, int64 shape (m,) each.

    ``counts`` are those of the node's own domain, ``smallest`` the smallest of any domain.
    """

    counts: Counts
    smallest: Counts


@dataclass(frozen=True, slots=True)
class Hard:
    """A hard constraint in one attempt.

    Attributes:
        constraint: The constraint.
        domains: Its domains.
        counts: Matching pods per domain, int64 shape (domains.missing + 1,).
        smallest: The smallest count of a domain; 0 if there are fewer domains than minDomains.
        self_match: 1 if the pod itself matches, else 0.
    """

    constraint: Constraint
    domains: Domains
    counts: Counts
    smallest: int
    self_match: int


@dataclass(frozen=True, slots=True)
class Soft:
    """The scores by row: ``raw`` int64 and ``is_ignored`` bool, both of shape (capacity,).

    ``is_ignored`` None = no row is ignored.
    """

    raw: Scores
    is_ignored: Bools | None


@dataclass(frozen=True, slots=True)
class SpreadState:
    """The state for filter and score; ``soft`` None = not scored.

    ``is_shifted`` = the counts must include the added and removed pods of a view.
    """

    hard: tuple[Hard, ...] = ()
    soft: Soft | None = None
    is_shifted: bool = False


class PodTopologySpread:
    """Rejects nodes in domains that exceed the allowed skew; prefers domains with lower counts.

    Results are not cached: they depend on pods of other nodes and on which nodes are feasible.
    ``sign`` is only for queueing hints.

    Complexity: O(nodes) an attempt, in columns; independent of the number of pods.

    Source: pkg/scheduler/framework/plugins/podtopologyspread/{plugin,filtering,scoring}.go.
    """

    name = "PodTopologySpread"

    def __init__(
        self,
        args: PodTopologySpreadArgs | None = None,
        handle: Handle | None = None,
        gates: Mapping[str, bool] = MappingProxyType({}),
    ) -> None:
        """Creates the plugin; the hints read services and owners through ``handle``.

        ``gates``: whether the operators Lt and Gt of tolerations compare numbers, and whether
        matchLabelKeys are read.
        """
        self.compares_taints = gates.get("TaintTolerationComparisonOperators", False)
        keys_gate = "MatchLabelKeysInPodTopologySpread"
        self.constraints = Constraints(args, reads_match_label_keys=gates.get(keys_gate, True))
        self._handle = handle
        self._layouts = DomainLayouts()
        #: The kinds of objects for the selectors of default constraints.
        self.needs: tuple[str, ...] = WORKLOAD_KINDS if self.constraints.defaults else ()

    def sign(self, pod: PodInfo) -> Hashable | None:
        """Returns what the pure hints read of the pod: its namespace, and its hard constraints."""
        metadata = pod.metadata
        try:
            if pod.spec.topology_spread_constraints:
                own = self.constraints.of(pod, DO_NOT_SCHEDULE, Workloads())
                return metadata.namespace, own
        except SelectorError:
            return None
        if all(item.when_unsatisfiable != DO_NOT_SCHEDULE for item in self.constraints.defaults):
            return metadata.namespace, ()
        # The services that select the pod may change; they depend on its labels and owners only.
        return metadata.namespace, frozenset(metadata.labels.items()), metadata.owner_references

    @property
    def is_batchable(self) -> bool:
        """Returns whether pods without constraints have none by default either."""
        return not self.constraints.defaults

    def batch_signature(self, pod: PodInfo) -> Hashable | None:
        """Returns None for a pod with constraints."""
        return None if pod.spec.topology_spread_constraints else ()

    # -- filter -----------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle) -> Skip | None:
        """Counts the pods of each domain; skips a pod without hard constraints.

        Raises:
            SelectorError: if the selector of a constraint cannot be compiled.
        """
        pod, snapshot = cycle.pod, cycle.snapshot
        constraints = self.constraints.of(pod, DO_NOT_SCHEDULE, snapshot.workloads)
        if not constraints:
            return SKIP
        layout = self._layout(pod, snapshot, constraints, requires_all_keys=True)
        labels = pod.metadata.labels
        hard = []
        for number, constraint in enumerate(constraints):
            domains = layout.domains[number]
            if len(domains.eligible):
                counts = layout.counts(number, _counter(snapshot, pod, constraint.selector))
            else:  # no eligible node: no counter is needed
                counts = np.zeros(domains.missing + 1, dtype=np.int64)
            self_match = int(constraint.selector.matches(labels))
            smallest = _smallest(constraint, domains, counts)
            hard.append(Hard(constraint, domains, counts, smallest, self_match))
        cycle[self] = SpreadState(tuple(hard))
        return None

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Rejects nodes without a topology key, and those that would exceed the allowed skew.

        The reason is that of the first constraint that is violated.
        """
        state: SpreadState = cycle[self]
        codes = np.zeros(len(nodes), dtype=np.uint16)
        own = frozenset((cycle.pod.metadata.namespace,))
        for hard in state.hard:
            shifted = _shifted_counts(hard, nodes, own) if state.is_shifted else None
            new_codes = _codes(hard, shifted, nodes)
            if new_codes is not None:
                codes = np.where(codes == 0, new_codes, codes) if codes.any() else new_codes
                if codes.all():
                    break
        table: list[Status] = [Reject(REASON_NO_KEY, resolvable=False), Reject(REASON)]
        return FilterStatuses(codes, table)

    def apply_deltas(self, cycle: Cycle, state: SpreadState, nodes: NodeView) -> SpreadState:  # noqa: ARG002
        """Returns a state with which ``filter`` includes added and removed pods in the counts.

        As upstream: terminating pods do not count, but removing one still lowers the count; and an
        empty selector counts no pods, but added and removed pods do count.
        """
        return replace(state, is_shifted=True)

    # -- score ------------------------------------------------------------------------------------

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> Skip | None:
        """Scores every row, given the feasible ``nodes``; skips a pod without soft constraints.

        Raises:
            SelectorError: if the selector of a constraint cannot be compiled.
        """
        pod, snapshot = cycle.pod, cycle.snapshot
        constraints = self.constraints.of(pod, SCHEDULE_ANYWAY, snapshot.workloads)
        if not constraints:
            return SKIP
        requires_all_keys = self.constraints.requires_all_keys(pod)
        layout = self._layout(pod, snapshot, constraints, requires_all_keys=requires_all_keys)
        rows, is_ignored = nodes.rows, None
        if requires_all_keys and not layout.is_everywhere:
            is_ignored = ~layout.has_all_keys
            rows = rows[~is_ignored[rows]]
        total = np.zeros(snapshot.nodes.capacity, dtype=np.float64)
        for number, constraint in enumerate(constraints if len(rows) else ()):
            counter = _counter(snapshot, pod, constraint.selector)
            total += points(constraint, layout, number, counter, rows)
        raw = rounded(total)
        if is_ignored is not None:
            raw[is_ignored] = 0
        hard = cycle[self].hard if self in cycle else ()
        cycle[self] = SpreadState(hard, Soft(raw, is_ignored))
        return None

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """Returns the weighted sum of the counts of each node's domains, rounded."""
        return nodes.take(_soft(cycle[self]).raw).copy()

    def normalize(self, cycle: Cycle, scores: Scores, nodes: NodeView) -> Scores:
        """Scales the scores so that the lowest becomes the best: 100 x (max + min - score) / max.

        Nodes without a required topology key get 0.
        """
        is_ignored_row = _soft(cycle[self]).is_ignored
        if is_ignored_row is None:
            return normalized(scores, scores)
        is_ignored = nodes.take(is_ignored_row)
        result = normalized(scores, scores[~is_ignored])
        result[is_ignored] = 0
        return result

    # -- events -----------------------------------------------------------------------------------

    def events(self) -> list[ClusterEventWithHint]:
        """Registers changes of pods and their labels, of nodes and labels, and new tolerations."""
        return events(self._hard_constraints)

    def _hard_constraints(self, pod: PodInfo) -> tuple[Constraint, ...]:
        """Returns the current hard constraints of an unschedulable pod."""
        workloads = self._handle.snapshot.workloads if self._handle is not None else Workloads()
        return self.constraints.of(pod, DO_NOT_SCHEDULE, workloads)

    def _layout(
        self,
        pod: PodInfo,
        snapshot: Snapshot,
        constraints: tuple[Constraint, ...],
        *,
        requires_all_keys: bool,
    ) -> DomainLayout:
        key = layout_key(
            constraints,
            requires_all_keys=requires_all_keys,
            affinity=required_node_affinity(pod.pod),
            tolerations=pod.spec.tolerations,
            compares_taints=self.compares_taints,
        )
        return self._layouts.of(snapshot, key)


def _soft(state: SpreadState) -> Soft:
    assert state.soft is not None
    return state.soft


def _counter(snapshot: Snapshot, pod: PodInfo, selector: Selector) -> PodCounter:
    """Returns the counter of the pods in the pod's namespace that match the selector.

    As upstream, an empty selector, which would match every pod, counts none.
    """
    namespaces = frozenset((pod.metadata.namespace,))
    selector = NOTHING if selector.selects_everything else selector
    return snapshot.counters.counter(CounterKey(namespaces, selector, with_terminating=False))


# ---------------------------------------------------------------- filter


def _smallest(constraint: Constraint, domains: Domains, counts: Counts) -> int:
    if len(domains.eligible_domains) < constraint.min_domains:
        return 0
    return domains.smallest(counts)


def _codes(
    hard: Hard, shifted: ShiftedCounts | None, nodes: NodeView
) -> npt.NDArray[np.uint16] | None:
    """Returns 1 = the node has no such key, 2 = exceeds the allowed skew; uint16 shape (m,).

    None = no node is rejected.
    """
    domains, limit = hard.domains, hard.constraint.max_skew - hard.self_match
    if shifted is not None:
        is_exceeded = shifted.counts - shifted.smallest > limit
        has_no_key = nodes.take(domains.of_row) == domains.missing
        return np.where(has_no_key, 1, is_exceeded * 2).astype(np.uint16)
    by_domain = (hard.counts > limit + hard.smallest) * np.uint16(2)
    by_domain[domains.missing] = 0 if domains.is_complete else 1
    return by_domain[nodes.take(domains.of_row)] if by_domain.any() else None


def _shifted_counts(hard: Hard, nodes: NodeView, namespaces: frozenset[str]) -> ShiftedCounts:
    """Returns the counts of each node's own domain and the smallest ones, with the deltas.

    The added and removed pods of a hypothetical node are all on it. So they change the count of one
    domain, and the smallest count of the others is unchanged.
    """
    domains, counts = hard.domains, hard.counts
    if not len(domains.eligible):  # no pod counts
        zeros = np.zeros(len(nodes), dtype=np.int64)
        return ShiftedCounts(zeros, zeros + hard.smallest)
    selector = hard.constraint.selector
    delta = nodes.change_of(CounterKey(namespaces, selector, with_terminating=True))
    delta[~nodes.take(domains.eligible_of_row)] = 0
    domain = nodes.take(domains.of_row)
    own = counts[domain] + delta
    smallest = np.full(len(nodes), hard.smallest, dtype=np.int64)
    if len(domains.eligible_domains) < max(hard.constraint.min_domains, 1):
        return ShiftedCounts(own, smallest)
    known_counts = counts[domains.eligible_domains]
    smallest_index = int(known_counts.argmin())
    first = known_counts[smallest_index]
    rest = np.delete(known_counts, smallest_index)
    second = rest.min() if len(rest) else NO_DOMAIN
    others = np.where(domain == domains.eligible_domains[smallest_index], second, first)
    is_known = np.zeros(domains.missing + 1, dtype=np.bool_)
    is_known[domains.eligible_domains] = True
    smallest = np.where(is_known[domain], np.minimum(others, own), first)
    return ShiftedCounts(own, smallest)
