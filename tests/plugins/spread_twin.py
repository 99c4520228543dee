"""PodTopologySpread once more, one node and one pod at a time, in dicts and loops.

Written from the reference page and the upstream source, not from the columns. It walks the pods of
every node, matches selectors by itself, and follows upstream's two "critical paths" when pods are
added or removed. Nothing here uses code of ``mooring.plugins`` or of the counters.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mooring.framework import SKIP, Cycle, FilterStatuses, NodeInfo, NodeView, Reject
from mooring.framework.interface import Scores
from mooring.framework.status import Skip
from mooring.objects.meta import LabelSelector
from mooring.objects.pod import TopologySpreadConstraint
from mooring.objects.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from mooring.state import PodInfo
from mooring.testing.harness import one_node_form
from tests.plugins.reference_plugins import NodeAffinityTwin, covers
from tests.plugins.resource_twins import quotient, rounded

HOSTNAME = "kubernetes.io/hostname"
TOO_FAR = "node(s) didn't match pod topology spread constraints"
SYSTEM = (
    TopologySpreadConstraint(
        topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway", max_skew=3
    ),
    TopologySpreadConstraint(
        topology_key="topology.kubernetes.io/zone", when_unsatisfiable="ScheduleAnyway", max_skew=5
    ),
)
MAX_INT32 = 2**31 - 1

#: Conditions (key, operator, values) that must all hold; None = matches nothing.
Conditions = list[tuple[str, str, tuple[str, ...]]] | None


class Rule(NamedTuple):
    skew: int
    key: str
    conditions: Conditions
    min_domains: int
    affinity: bool
    taints: bool


class SpreadTwin:
    name = "PodTopologySpread"

    def __init__(
        self,
        defaults: Sequence[TopologySpreadConstraint] | None = None,
        workloads: Iterable[Any] = (),
    ) -> None:
        self.is_system = defaults is None
        self.defaults = SYSTEM if defaults is None else tuple(defaults)
        self.workloads = list(workloads)

    def pre_filter(self, cycle: Cycle) -> Skip | None:
        rules = self.rules(cycle.pod, "DoNotSchedule")
        if not rules:
            return SKIP
        counts: list[dict[str, int]] = [{} for _ in rules]
        for node in NodeView.all_nodes(cycle.snapshot):
            if not all(rule.key in node.labels for rule in rules):
                continue
            for number, rule in enumerate(rules):
                if not is_included(rule, cycle.pod, node):
                    continue
                value = node.labels[rule.key]
                here = matching(node.pods, rule.conditions, cycle.pod)
                counts[number][value] = counts[number].get(value, 0) + here
        paths = []
        for of_rule in counts:
            path: list[tuple[str, int]] = [("", MAX_INT32), ("", MAX_INT32)]
            for value, count in of_rule.items():
                update(path, value, count)
            paths.append(path)
        cycle[self] = {"rules": rules, "counts": counts, "paths": paths}
        return None

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        return FilterStatuses.of(self.status(cycle, node) for node in nodes)

    def status(self, cycle: Cycle, node: NodeInfo) -> Reject | None:
        state = cycle[self]
        for rule, counts, path in zip(state["rules"], state["counts"], state["paths"], strict=True):
            if rule.key not in node.labels:
                return Reject(f"{TOO_FAR} (missing required label)", resolvable=False)
            least = path[0][1] if len(counts) >= rule.min_domains else 0
            own = 1 if holds(rule.conditions, cycle.pod.metadata.labels) else 0
            if counts.get(node.labels[rule.key], 0) + own - least > rule.skew:
                return Reject(TOO_FAR)
        return None

    def add_pod(self, cycle: Cycle, state: Any, pod: PodInfo, node: NodeInfo) -> Any:
        return self.changed(cycle, state, pod, node, 1)

    def remove_pod(self, cycle: Cycle, state: Any, pod: PodInfo, node: NodeInfo) -> Any:
        return self.changed(cycle, state, pod, node, -1)

    def changed(self, cycle: Cycle, state: Any, pod: PodInfo, node: NodeInfo, by: int) -> Any:
        state = copy.deepcopy(state)
        if pod.metadata.namespace != cycle.pod.metadata.namespace:
            return state
        if not all(rule.key in node.labels for rule in state["rules"]):
            return state
        for rule, counts, path in zip(state["rules"], state["counts"], state["paths"], strict=True):
            if not holds(rule.conditions, pod.metadata.labels):
                continue
            if is_included(rule, cycle.pod, node):
                value = node.labels[rule.key]
                counts[value] += by
                update(path, value, counts[value])
        return state

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> Skip | None:
        rules = self.rules(cycle.pod, "ScheduleAnyway")
        if not rules:
            return SKIP
        needs_all = bool(cycle.pod.spec.topology_spread_constraints) or not self.is_system
        ignored: set[str] = set()
        counts: list[dict[str, int]] = [{} for _ in rules]
        for node in nodes:
            if needs_all and not all(rule.key in node.labels for rule in rules):
                ignored.add(node.name)
                continue
            for number, rule in enumerate(rules):
                if rule.key != HOSTNAME:
                    counts[number].setdefault(node.labels.get(rule.key, ""), 0)
        sizes = [
            len(nodes) - len(ignored) if rule.key == HOSTNAME else len(counts[number])
            for number, rule in enumerate(rules)
        ]
        for node in NodeView.all_nodes(cycle.snapshot):
            if needs_all and not all(rule.key in node.labels for rule in rules):
                continue
            for number, rule in enumerate(rules):
                value = node.labels.get(rule.key, "")
                if is_included(rule, cycle.pod, node) and value in counts[number]:
                    counts[number][value] += matching(node.pods, rule.conditions, cycle.pod)
        weights = [math.log(size + 2) for size in sizes]
        state = {"soft": rules, "by_value": counts, "weights": weights, "ignored": ignored}
        if self in cycle:
            state = {**cycle[self], **state}
        cycle[self] = state
        return None

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        return np.array([self.score_of(cycle, node) for node in nodes], dtype=np.int64)

    def score_of(self, cycle: Cycle, node: NodeInfo) -> int:
        state = cycle[self]
        if node.name in state["ignored"]:
            return 0
        score = 0.0
        for number, rule in enumerate(state["soft"]):
            if rule.key not in node.labels:
                continue
            if rule.key == HOSTNAME:
                count = matching(node.pods, rule.conditions, cycle.pod)
            else:
                count = state["by_value"][number][node.labels[rule.key]]
            score += float(count) * state["weights"][number] + float(rule.skew - 1)
        return rounded(score)

    def normalize(self, cycle: Cycle, scores: Scores, nodes: NodeView) -> Scores:
        ignored = cycle[self]["ignored"]
        raw = [
            -1 if name in ignored else score
            for name, score in zip(nodes.names, scores.tolist(), strict=True)
        ]
        kept = [
            score
            for name, score in zip(nodes.names, scores.tolist(), strict=True)
            if name not in ignored
        ]
        low, high = min(kept, default=2**63 - 1), max([0, *kept])
        found = []
        for score in raw:
            if score == -1:
                found.append(0)
            else:
                found.append(100 if high == 0 else quotient(100 * (high + low - score), high))
        return np.array(found, dtype=np.int64)

    # -- what is asked for ------------------------------------------------------------------------

    def rules(self, pod: PodInfo, action: str) -> list[Rule]:
        own = pod.spec.topology_spread_constraints
        if own:
            return [
                rule_of(each, with_label_keys(each, pod.metadata.labels))
                for each in own
                if each.when_unsatisfiable == action
            ]
        conditions = self.belonging(pod)
        if not conditions:
            return []
        return [
            rule_of(each, conditions) for each in self.defaults if each.when_unsatisfiable == action
        ]

    def belonging(self, pod: PodInfo) -> list[tuple[str, str, tuple[str, ...]]]:
        """Returns the default selector: services that select the pod, and its controller."""
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        near = [each for each in self.workloads if each.metadata.namespace == namespace]
        wanted: dict[str, str] = {}
        for each in near:
            asks = each.spec.selector if isinstance(each, Service) else {}
            if all(labels.get(key) == value for key, value in asks.items()):
                wanted.update(asks)
        more: list[tuple[str, str, tuple[str, ...]]] = []
        for owner in pod.metadata.owner_references:
            if not owner.controller:
                continue
            for each in near:
                if each.metadata.name != owner.name or type(each).__name__ != owner.kind:
                    continue
                if isinstance(each, ReplicationController) and owner.api_version == "v1":
                    wanted.update(each.spec.selector)
                if isinstance(each, ReplicaSet | StatefulSet) and owner.api_version == "apps/v1":
                    more += conditions_of(each.spec.selector) or []
            break
        return [*((key, "In", (value,)) for key, value in wanted.items()), *more]


def rule_of(constraint: TopologySpreadConstraint, conditions: Conditions) -> Rule:
    return Rule(
        constraint.max_skew,
        constraint.topology_key,
        conditions,
        1 if constraint.min_domains is None else constraint.min_domains,
        (constraint.node_affinity_policy or "Honor") == "Honor",
        (constraint.node_taints_policy or "Ignore") == "Honor",
    )


def with_label_keys(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> Conditions:
    conditions = conditions_of(constraint.label_selector)
    if conditions is None:
        return None
    keys = [key for key in constraint.match_label_keys if key in labels]
    return [*((key, "In", (labels[key],)) for key in keys), *conditions]


def conditions_of(selector: LabelSelector | None) -> Conditions:
    if selector is None:
        return None
    found = [(key, "In", (value,)) for key, value in selector.match_labels.items()]
    return [*found, *((e.key, e.operator, e.values) for e in selector.match_expressions)]


def holds(conditions: Conditions, labels: Mapping[str, str]) -> bool:
    if conditions is None:
        return False
    for key, operator, values in conditions:
        value = labels.get(key)
        match operator:
            case "In":
                is_met = value is not None and value in values
            case "NotIn":
                is_met = value is None or value not in values
            case "Exists":
                is_met = value is not None
            case _:
                is_met = value is None
        if not is_met:
            return False
    return True


def matching(pods: Iterable[PodInfo], conditions: Conditions, pod: PodInfo) -> int:
    """Counts matching pods of the namespace that are not terminating; no selector matches none."""
    if conditions == []:
        return 0
    return sum(
        other.metadata.namespace == pod.metadata.namespace
        and other.metadata.deletion_timestamp is None
        and holds(conditions, other.metadata.labels)
        for other in pods
    )


def is_included(rule: Rule, pod: PodInfo, node: NodeInfo) -> bool:
    may_go = one_node_form(NodeAffinityTwin.filter)
    if rule.affinity and may_go(NodeAffinityTwin(), pod, node) is not None:
        return False
    if not rule.taints:
        return True
    return all(
        taint.effect not in ("NoSchedule", "NoExecute")
        or any(covers(toleration, taint) for toleration in pod.spec.tolerations)
        for taint in node.taints
    )


def update(path: list[tuple[str, int]], value: str, count: int) -> None:
    """Does the same as upstream's ``criticalPaths.update``."""
    if value in (path[0][0], path[1][0]):
        path[0 if value == path[0][0] else 1] = (value, count)
        if path[0][1] > path[1][1]:
            path.reverse()
    elif count < path[0][1]:
        path[:] = [(value, count), path[0]]
    elif count < path[1][1]:
        path[1] = (value, count)
