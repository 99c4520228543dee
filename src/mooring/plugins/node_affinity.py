"""NodeAffinity: nodeSelector and node affinity of the pod, and added affinity of the profile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

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

REASON = "node(s) didn't match Pod's node affinity/selector"
REASON_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"


@dataclass(frozen=True, slots=True)
class NodeAffinityState:
    """The pod's required affinity (for filter) and preferred terms (for score)."""

    required: RequiredNodeAffinity
    preferred: tuple[PreferredNodeTerm, ...] | None


class NodeAffinity:
    """Rejects nodes that do not match the required affinity of the pod and of the profile.

    Prefers those with the highest sum of weights of matching preferred terms.

    Source: pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go.
    """

    name = "NodeAffinity"
    reads = Change.LABELS
    signs_claim_names = False
    normalized_zero = 0

    def __init__(self, args: NodeAffinityArgs | None = None) -> None:
        """Compiles ``args.added_affinity``, which is ANDed with the affinity of every pod.

        Raises:
            ConfigError: if it cannot be compiled.
        """
        added = args.added_affinity if args is not None else None
        self.added_required: CompiledNodeSelector | None = None
        self._added_preferred: tuple[PreferredNodeTerm, ...] | None = None
        if added is None:
            return
        required = added.required_during_scheduling_ignored_during_execution
        preferred = added.preferred_during_scheduling_ignored_during_execution
        try:
            self.added_required = compile_node_selector(required) if required else None
            self._added_preferred = preferred_node_terms(preferred) if preferred else None
        except SelectorError as error:
            raise ConfigError(str(error), path="addedAffinity") from error
        for problem in self.added_required.problems if self.added_required else ():
            raise ConfigError(problem, path="addedAffinity")

    def sign(self, pod: PodInfo) -> Hashable:
        """Returns the pod's nodeSelector and node affinity."""
        affinity = pod.spec.affinity
        if not pod.spec.node_selector and (affinity is None or affinity.node_affinity is None):
            return ()
        node_affinity = affinity.node_affinity if affinity is not None else None
        return tuple(sorted(pod.spec.node_selector.items())), node_affinity

    def pre_filter(self, cycle: Cycle) -> Status | PreFilterResult | Skip | None:
        """Skips a pod without requirements; restricts the nodes if every term names nodes."""
        pod = cycle.pod.pod
        required = required_node_affinity(pod)
        if required.selects_everything and self.added_required is None:
            return SKIP
        cycle[self] = NodeAffinityState(required, None)
        if required.affinity is None:
            return None
        names = _required_node_names(cycle.pod)
        if names is None:
            return None
        return PreFilterResult(names) if names else Reject(REASON_CONFLICT, resolvable=False)

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Rejects nodes by the added affinity first, then by the pod's own."""
        required: RequiredNodeAffinity = cycle[self].required
        fits = matches_required(required, nodes)
        enforced = self.added_required
        if enforced is None:
            return FilterStatuses.reject(~fits, Reject(REASON, resolvable=False))
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
        spec = cycle.pod.spec
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        terms = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
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
        evaluator, total = NodeTermEvaluator(nodes), np.zeros(len(nodes), dtype=np.int64)
        for term, weight in weights.items():
            total += evaluator.term(term) * np.int64(weight)
        return total

    def normalize(self, cycle: Cycle, scores: Scores, nodes: NodeView) -> Scores:  # noqa: ARG002
        """Scales the sums so that the highest becomes 100."""
        return default_normalize(scores)

    def events(self) -> list[ClusterEventWithHint]:
        """Registers added nodes and changes of node labels."""
        node = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
        return [ClusterEventWithHint(node, self._after_node_change, pure=True)]

    def _after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> QueueingHint:
        """Queues if the node matches the added affinity and the pod's own now, not before.

        *Differs:* upstream compares only the pod's own affinity with the old node, and so skips a
        node that has begun to match the added affinity.

        Raises:
            SelectorError: if a term of the pod cannot be compiled and no other term matches.
        """
        required = required_node_affinity(pod.pod)
        if not self._matches(required, new):
            return QueueingHint.SKIP
        did_match = old is not None and self._matches(required, old)
        return QueueingHint.SKIP if did_match else QueueingHint.QUEUE

    def _matches(self, required: RequiredNodeAffinity, node: Node) -> bool:
        labels, name = node.metadata.labels, node.metadata.name
        enforced = self.added_required
        if enforced is not None and not enforced.matches(labels, name):
            return False
        if required.matches(labels, name):
            return True
        if required.affinity is not None and required.labels.matches(labels):
            for problem in required.affinity.problems:
                raise SelectorError(problem)
        return False


def _required_node_names(pod: PodInfo) -> frozenset[str] | None:
    """Returns the node names in the pod's required affinity, if every term has any.

    The union over the terms of the intersection of each term's fields. None if a term has no node
    name, or if there is no term.
    """
    spec = pod.spec
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    names: set[str] = set()
    for term in required.node_selector_terms if required else ():
        term_names: frozenset[str] | None = None
        for field in term.match_fields:
            if field.key == NODE_NAME_FIELD and field.operator == IN:
                field_names = frozenset(field.values)
                term_names = field_names if term_names is None else term_names & field_names
        if term_names is None:
            return None
        names |= term_names
    return frozenset(names) if required and required.node_selector_terms else None
