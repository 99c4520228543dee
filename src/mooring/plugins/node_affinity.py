"""NodeAffinity: a pod's nodeSelector and node affinity, and the profile's added affinity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mooring.cluster_event import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from mooring.config.types import NodeAffinityArgs
from mooring.errors import ConfigError
from mooring.framework import (
    SKIP,
    Cycle,
    FilterStatuses,
    NodeView,
    PreFilterResult,
    Reject,
    Status,
    default_normalize,
)
from mooring.framework.interface import Scores
from mooring.framework.selector_matching import NodeTermEvaluator, matches_required
from mooring.framework.status import Skip
from mooring.objects.node import Node
from mooring.objects.selectors import (
    IN,
    NODE_NAME_FIELD,
    CompiledNodeSelector,
    NodeTerm,
    PreferredNodeTerm,
    RequiredNodeAffinity,
    SelectorError,
    compile_node_selector,
    preferred_node_terms,
    required_node_affinity,
)
from mooring.state import Change, PodInfo

Bools = npt.NDArray[np.bool_]

REASON = "node(s) didn't match Pod's node affinity/selector"
REASON_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"


@dataclass(frozen=True, slots=True)
class NodeAffinityState:
    """What the pod insists on (for filter), and what it prefers (for score)."""

    required: RequiredNodeAffinity
    preferred: tuple[PreferredNodeTerm, ...] | None


class NodeAffinity:
    """Refuses nodes outside the required affinity of the pod, or of the profile.

    Prefers those with the highest sum of weights of matching preferred terms.

    Source: pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go.
    """

    name = "NodeAffinity"
    reads = Change.LABELS
    normalized_zero = 0

    def __init__(self, args: NodeAffinityArgs | None = None) -> None:
        """``args.added_affinity`` is ANDed to the affinity of every pod.

        Raises:
            ConfigError: if it cannot be compiled.
        """
        added = args.added_affinity if args is not None else None
        self._added_required: CompiledNodeSelector | None = None
        self._added_preferred: tuple[PreferredNodeTerm, ...] | None = None
        if added is None:
            return
        required = added.required_during_scheduling_ignored_during_execution
        preferred = added.preferred_during_scheduling_ignored_during_execution
        try:
            self._added_required = compile_node_selector(required) if required else None
            self._added_preferred = preferred_node_terms(preferred) if preferred else None
        except SelectorError as error:
            raise ConfigError(str(error), path="addedAffinity") from error
        for problem in self._added_required.problems if self._added_required else ():
            raise ConfigError(problem, path="addedAffinity")

    def sign(self, pod: PodInfo) -> Hashable:
        """Returns the pod's nodeSelector and node affinity."""
        affinity = pod.spec.affinity
        if not pod.spec.node_selector and (affinity is None or affinity.node_affinity is None):
            return ()
        node_affinity = affinity.node_affinity if affinity is not None else None
        return tuple(sorted(pod.spec.node_selector.items())), node_affinity

    def pre_filter(self, cycle: Cycle) -> Status | PreFilterResult | Skip | None:
        """Skips a pod without requirements; narrow the nodes if every term names some."""
        pod = cycle.pod.pod
        required = required_node_affinity(pod)
        if required.selects_everything and self._added_required is None:
            return SKIP
        cycle[self] = NodeAffinityState(required, None)
        if required.affinity is None:
            return None
        names = _named_nodes(cycle.pod)
        if names is None:
            return None
        return PreFilterResult(names) if names else Reject(REASON_CONFLICT, resolvable=False)

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Refuses nodes outside the added affinity first, then those outside the pod's own."""
        required: RequiredNodeAffinity = cycle[self].required
        fits = matches_required(required, nodes)
        enforced = self._added_required
        if enforced is None:
            return FilterStatuses.refuse(~fits, Reject(REASON, resolvable=False))
        codes = np.where(fits, 0, 2)
        codes[~NodeTermEvaluator(nodes).any_term(enforced)] = 1
        table: list[Status] = [
            Reject(REASON_ENFORCED, resolvable=False),
            Reject(REASON, resolvable=False),
        ]
        return FilterStatuses(codes.astype(np.uint16), table)

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> Skip | None:  # noqa: ARG002
        """Skips a pod without preferences, if the profile adds none.

        Raises:
            SelectorError: if a preferred term of the pod cannot be compiled.
        """
        affinity = cycle.pod.spec.affinity
        own = affinity.node_affinity if affinity is not None else None
        terms = own.preferred_during_scheduling_ignored_during_execution if own else ()
        if not terms and self._added_preferred is None:
            return SKIP
        required = cycle[self].required if self in cycle else RequiredNodeAffinity()
        cycle[self] = NodeAffinityState(required, preferred_node_terms(terms))
        return None

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """Returns the sum of the weights of the preferred terms that match."""
        weights: Counter[NodeTerm] = Counter()
        for preferred in (*(self._added_preferred or ()), *(cycle[self].preferred or ())):
            weights[preferred.term] += preferred.weight
        conditions, total = NodeTermEvaluator(nodes), np.zeros(len(nodes), dtype=np.int64)
        for term, weight in weights.items():
            total += conditions.term(term) * np.int64(weight)
        return total

    def normalize(self, cycle: Cycle, scores: Scores, nodes: NodeView) -> Scores:  # noqa: ARG002
        """Returns the highest sum becomes 100."""
        return default_normalize(scores)

    def events(self) -> list[ClusterEventWithHint]:
        """Returns a node that matches, and did not before."""
        node = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
        return [ClusterEventWithHint(node, self._after_node_change, pure=True)]

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> QueueingHint:
        """Whether the node meets the added affinity and the pod's own now, and did not before.

        *Differs:* upstream compares the pod's own affinity alone with before, and so sleeps through
        a node that only now meets the added one.

        Raises:
            SelectorError: if a term of the pod cannot be compiled and no other one matches.
        """
        required = required_node_affinity(pod.pod)
        if not self._admits(required, new):
            return QueueingHint.SKIP
        was_admitted = old is not None and self._admits(required, old)
        return QueueingHint.SKIP if was_admitted else QueueingHint.QUEUE

    def _admits(self, required: RequiredNodeAffinity, node: Node) -> bool:
        labels, name = node.metadata.labels, node.metadata.name
        enforced = self._added_required
        if enforced is not None and not enforced.matches(labels, name):
            return False
        if required.matches(labels, name):
            return True
        if required.affinity is not None and required.labels.matches(labels):
            for problem in required.affinity.problems:
                raise SelectorError(problem)
        return False


def _named_nodes(pod: PodInfo) -> frozenset[str] | None:
    """The nodes that the terms of the pod's required affinity name, if every one of them does.

    United over the terms, and within a term what all of its fields agree on. None if a term names
    no node, or if there is no term.
    """
    affinity = pod.spec.affinity
    own = affinity.node_affinity if affinity is not None else None
    required = own.required_during_scheduling_ignored_during_execution if own else None
    names: set[str] = set()
    for term in required.node_selector_terms if required else ():
        of_term: frozenset[str] | None = None
        for field in term.match_fields:
            if field.key == NODE_NAME_FIELD and field.operator == IN:
                listed = frozenset(field.values)
                of_term = listed if of_term is None else of_term & listed
        if of_term is None:
            return None
        names |= of_term
    return frozenset(names) if required and required.node_selector_terms else None
