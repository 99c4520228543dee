"""PodTopologySpread: pods of one kind, spread evenly over zones, hosts, or whatever labels say.

A *domain* is a value of a constraint's topology key; its count is how many pods the constraint's
selector matches on the nodes there. A hard constraint (DoNotSchedule) refuses a node whose domain
would be ahead of the emptiest one by more than ``maxSkew``; soft ones (ScheduleAnyway) prefer
nodes in emptier domains.

Which nodes make up the domains is in ``pod_topology_spread_domains``, where the constraints of a
pod come from in ``pod_topology_spread_constraints``.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

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

REASON = "node(s) didn't match pod topology spread constraints"
REASON_NO_KEY = f"{REASON} (missing required label)"

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class World:
    """A hard constraint in m worlds, int64 shape (m,) each.

    ``counts`` are those of the world's own domain, ``smallest`` those of the emptiest one.
    """

    counts: Counts
    smallest: Counts


@dataclass(frozen=True, slots=True)
class Hard:
    """A hard constraint in one attempt.

    Attributes:
        constraint: What is asked for.
        domains: Its domains.
        counts: Matching pods per domain, int64 shape (domains.missing + 1,).
        smallest: Those of the emptiest domain; 0 if there are fewer domains than there must be.
        self_match: 1 if the pod itself matches, else 0.
    """

    constraint: Constraint
    domains: Domains
    counts: Counts
    smallest: int
    self_match: int


@dataclass(frozen=True, slots=True)
class Soft:
    """The scores, by row: ``raw`` int64 and ``is_ignored`` bool, both of shape (capacity,).

    ``is_ignored`` None = no row is.
    """

    raw: Scores
    is_ignored: Bools | None


@dataclass(frozen=True, slots=True)
class SpreadState:
    """What filter and score need; ``soft`` None = not scored.

    ``is_shifted``: it is about worlds that may differ from what is there.
    """

    hard: tuple[Hard, ...] = ()
    soft: Soft | None = None
    is_shifted: bool = False


class PodTopologySpread:
    """Refuses nodes in domains that are ahead of others; prefers those in emptier domains.

    Answers are not shared: they follow from pods on other nodes and from which nodes can take
    the pod at all. ``sign`` tells only which pods the same events help.

    Complexity: O(nodes) an attempt, in columns; it does not grow with the number of pods.

    Source: pkg/scheduler/framework/plugins/podtopologyspread/{plugin,filtering,scoring}.go.
    """

    name = "PodTopologySpread"

    def __init__(
        self, args: PodTopologySpreadArgs | None = None, handle: Handle | None = None
    ) -> None:
        """``handle`` tells its hints of services and owners; without one there are none."""
        self._constraints = Constraints(args)
        self._handle = handle
        self._layouts = DomainLayouts()
        #: The kinds that must be known to whoever runs this plugin: they tell of default spreading.
        self.needs: tuple[str, ...] = WORKLOAD_KINDS if self._constraints.defaults else ()

    def sign(self, pod: PodInfo) -> Hashable | None:
        """What the pure hints read of the pod: its namespace, and its hard constraints."""
        metadata = pod.metadata
        try:
            if pod.spec.topology_spread_constraints:
                own = self._constraints.of(pod, DO_NOT_SCHEDULE, Workloads())
                return metadata.namespace, own
        except SelectorError:
            return None
        if all(each.when_unsatisfiable != DO_NOT_SCHEDULE for each in self._constraints.defaults):
            return metadata.namespace, ()
        # Which services select it may change while it waits; its labels and owners say it all.
        return metadata.namespace, frozenset(metadata.labels.items()), metadata.owner_references

    # -- filter -----------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle) -> Skip | None:
        """Counts the pods of each domain; skips a pod without hard constraints.

        Raises:
            SelectorError: if the selector of a constraint cannot be compiled.
        """
        pod, snapshot = cycle.pod, cycle.snapshot
        constraints = self._constraints.of(pod, DO_NOT_SCHEDULE, snapshot.workloads)
        if not constraints:
            return SKIP
        layout = self._layout(pod, snapshot, constraints, requires_all_keys=True)
        labels = pod.metadata.labels
        hard = []
        for number, constraint in enumerate(constraints):
            domains = layout.domains[number]
            if len(domains.eligible):
                counts = layout.counts(number, _counter(snapshot, pod, constraint.selector))
            else:  # nobody counts: no counter is made for whom nobody asks
                counts = np.zeros(domains.missing + 1, dtype=np.int64)
            self_match = int(constraint.selector.matches(labels))
            smallest = _smallest(constraint, domains, counts)
            hard.append(Hard(constraint, domains, counts, smallest, self_match))
        cycle[self] = SpreadState(tuple(hard))
        return None

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Refuses nodes without a topology key, and those in domains too far ahead.

        The first constraint that is not met gives the reason.
        """
        state: SpreadState = cycle[self]
        codes = np.zeros(len(nodes), dtype=np.uint16)
        own = frozenset((cycle.pod.metadata.namespace,))
        for hard in state.hard:
            world = _world(hard, nodes, own) if state.is_shifted else None
            found = _verdicts(hard, world, nodes)
            if found is not None:
                codes = np.where(codes == 0, found, codes) if codes.any() else found
                if codes.all():
                    break
        table: list[Status] = [Reject(REASON_NO_KEY, resolvable=False), Reject(REASON)]
        return FilterStatuses(codes, table)

    def apply_deltas(self, cycle: Cycle, state: SpreadState, nodes: NodeView) -> SpreadState:  # noqa: ARG002
        """Looks at the counts with the pods that differ; ``filter`` does, as far as it has to.

        As upstream: pods that are being deleted do not count, but in a world without such a pod
        the count is lower by one all the same; and where an empty selector counts nobody, pods
        added or removed do count.
        """
        return replace(state, is_shifted=True)

    # -- score ------------------------------------------------------------------------------------

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> Skip | None:
        """Score every row, knowing which ones can take the pod; skip one without soft constraints.

        Raises:
            SelectorError: if the selector of a constraint cannot be compiled.
        """
        pod, snapshot = cycle.pod, cycle.snapshot
        constraints = self._constraints.of(pod, SCHEDULE_ANYWAY, snapshot.workloads)
        if not constraints:
            return SKIP
        requires_all_keys = self._constraints.requires_all_keys(pod)
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
        """How full the node's domains are: the weighted sum over the constraints, rounded."""
        return nodes.take(_soft(cycle[self]).raw).copy()

    def normalize(self, cycle: Cycle, scores: Scores, nodes: NodeView) -> Scores:
        """Returns the emptiest becomes the best: 100 x (max + min - score) / max.

        Nodes without a topology key that they should have get 0.
        """
        outside = _soft(cycle[self]).is_ignored
        if outside is None:
            return normalized(scores, scores)
        is_ignored = nodes.take(outside)
        found = normalized(scores, scores[~is_ignored])
        found[is_ignored] = 0
        return found

    # -- events -----------------------------------------------------------------------------------

    def events(self) -> list[ClusterEventWithHint]:
        """Pods of the namespace come, go or change their labels; nodes with the topology keys do.

        So does a toleration more for the pod itself, if a constraint leaves tainted nodes out.
        """
        return events(self._refusing)

    def _refusing(self, pod: PodInfo) -> tuple[Constraint, ...]:
        """Returns the hard constraints of a waiting pod, as they are now."""
        workloads = self._handle.snapshot.workloads if self._handle is not None else Workloads()
        return self._constraints.of(pod, DO_NOT_SCHEDULE, workloads)

    def _layout(
        self,
        pod: PodInfo,
        snapshot: Snapshot,
        constraints: tuple[Constraint, ...],
        *,
        requires_all_keys: bool,
    ) -> DomainLayout:
        question = layout_key(
            constraints,
            requires_all_keys=requires_all_keys,
            affinity=required_node_affinity(pod.pod),
            tolerations=pod.spec.tolerations,
        )
        return self._layouts.of(snapshot, question)


def _soft(state: SpreadState) -> Soft:
    assert state.soft is not None
    return state.soft


def _counter(snapshot: Snapshot, pod: PodInfo, selector: Selector) -> PodCounter:
    """Counts the pods that are to be spread together with ``pod``.

    An empty selector, which would match every pod, counts none: so it is upstream.
    """
    namespaces = frozenset((pod.metadata.namespace,))
    counted = NOTHING if selector.selects_everything else selector
    return snapshot.counters.counter(CounterKey(namespaces, counted, with_terminating=False))


# ---------------------------------------------------------------- filter


def _smallest(constraint: Constraint, domains: Domains, counts: Counts) -> int:
    if len(domains.known) < constraint.min_domains:
        return 0
    return domains.smallest(counts)


def _verdicts(hard: Hard, world: World | None, nodes: NodeView) -> npt.NDArray[np.uint16] | None:
    """1 = the node has no such key, 2 = its domain is too far ahead; uint16 shape (m,).

    None = nothing against any node.
    """
    domains, limit = hard.domains, hard.constraint.max_skew - hard.self_match
    if world is not None:
        is_ahead = world.counts - world.smallest > limit
        has_no_key = nodes.take(domains.of_row) == domains.missing
        return np.where(has_no_key, 1, is_ahead * 2).astype(np.uint16)
    verdicts = (hard.counts > limit + hard.smallest) * np.uint16(2)
    verdicts[domains.missing] = 0 if domains.is_complete else 1
    return verdicts[nodes.take(domains.of_row)] if verdicts.any() else None


def _world(hard: Hard, nodes: NodeView, namespaces: frozenset[str]) -> World:
    """The counts of each world's own domain and of the emptiest one, with the pods that differ.

    A world's changes are all on its one node. So they concern one domain, and the emptiest of the
    others is as before.
    """
    domains, counts = hard.domains, hard.counts
    if not len(domains.eligible):  # no pod counts, in no world
        nobody = np.zeros(len(nodes), dtype=np.int64)
        return World(nobody, nobody + hard.smallest)
    selector = hard.constraint.selector
    delta = nodes.change_of(CounterKey(namespaces, selector, with_terminating=True))
    delta[~nodes.take(domains.eligible_of_row)] = 0
    domain = nodes.take(domains.of_row)
    own = counts[domain] + delta
    smallest = np.full(len(nodes), hard.smallest, dtype=np.int64)
    if len(domains.known) < max(hard.constraint.min_domains, 1):
        return World(own, smallest)
    known = counts[domains.known]
    emptiest = int(known.argmin())
    least = known[emptiest]
    rest = np.delete(known, emptiest)
    second = rest.min() if len(rest) else NO_DOMAIN
    others = np.where(domain == domains.known[emptiest], second, least)
    is_known = np.zeros(domains.missing + 1, dtype=np.bool_)
    is_known[domains.known] = True
    smallest = np.where(is_known[domain], np.minimum(others, own), least)
    return World(own, smallest)
