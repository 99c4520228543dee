"""Preemption's dry run a second time: one node and one pod at a time, on real clusters.

Written from the reference page, without hypothetical nodes: whether a pod fits without its victims
is the result of the filters on a cluster without them, with and without nominated pods. Nothing
here uses code of ``mooring.plugins.default_preemption.plugin``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from mooring.objects.meta import LabelSelector
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.objects.workloads import PodDisruptionBudget
from mooring.state import PodInfo
from mooring.testing import Harness

NO_HELP = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


class VolumeMatches(NamedTuple):
    victims: list[str]
    violations: int


@dataclass
class Answer:
    """The result of the dry run of all nodes."""

    candidates: dict[str, VolumeMatches] = field(default_factory=dict)
    acceptable: list[str] = field(default_factory=list)
    message: str = ""


class PreemptionTwin:
    def __init__(
        self,
        nodes: Sequence[Node],
        pods: Sequence[Pod],
        budgets: Iterable[PodDisruptionBudget],
        plugins: Callable[[], list[Any]],
    ) -> None:
        self.nodes = list(nodes)
        self.pods = list(pods)
        self.budgets = list(budgets)
        self.plugins = plugins
        self.stays: dict[str, list[Pod]] = {}

    def answer(self, pod: Pod, potential: Iterable[str]) -> Answer:
        """Runs the dry run on the nodes called ``potential``."""
        answer, reasons, tried = Answer(), Counter[str](), 0
        found: dict[str, tuple[list[Pod], int]] = {}
        for name in potential:
            tried += 1
            result = self.on_node(pod, name)
            if isinstance(result, tuple):
                found[name] = result
                continue
            reasons.update(result)
        for name, (victims, violations) in found.items():
            keys = sorted(f"{each.metadata.namespace}/{each.metadata.name}" for each in victims)
            answer.candidates[name] = VolumeMatches(keys, violations)
        answer.acceptable = sorted(best(found))
        if tried < len(self.nodes):
            reasons[NO_HELP] += len(self.nodes) - tried
        parts = sorted(f"{count} {reason}" for reason, count in reasons.items())
        told = f"0/{len(self.nodes)} nodes are available: {', '.join(parts)}."
        answer.message = f"preemption: {told}"
        return answer

    def on_node(self, pod: Pod, name: str) -> tuple[list[Pod], int] | Sequence[str]:
        lower = [
            each
            for each in self.pods
            if each.spec.node_name == name and priority(each) < priority(pod)
        ]
        if not lower:
            return [NO_VICTIMS]
        gone = {each.metadata.uid for each in lower}
        refusal = self.refusal(pod, name, gone)
        if refusal:
            return refusal
        lower.sort(key=importance)
        protected, others = self.split(lower)
        violations = 0
        for each in [*protected, *others]:
            gone.discard(each.metadata.uid)
            if self.refusal(pod, name, gone):
                gone.add(each.metadata.uid)
                violations += each in protected
        return [each for each in lower if each.metadata.uid in gone], violations

    def refusal(self, pod: Pod, name: str, gone: set[str]) -> Sequence[str]:
        """Returns why the pod does not fit without its victims; empty = it fits."""
        here = [each for each in self.pods if each.metadata.uid not in gone]
        nominated_pods = [
            PodInfo(each).on_node(name).pod
            for each in self.pods
            if each.status.nominated_node_name == name
            and priority(each) >= priority(pod)
            and each.metadata.uid != pod.metadata.uid
        ]
        if nominated_pods:
            refusal = self.asked(pod, name, [*here, *nominated_pods])
            if refusal:
                return refusal
        return self.asked(pod, name, here)

    def asked(self, pod: Pod, name: str, pods: list[Pod]) -> Sequence[str]:
        placed = [each for each in pods if each.spec.node_name]
        harness = Harness([*self.nodes, *placed], self.plugins(), cache_results=False)
        opened = harness.begin(pod)
        assert opened.refusal is None
        for plugin in harness.framework.filters:
            if plugin.name in opened.cycle.skipped:
                continue
            position = opened.view.names.index(name)
            statuses = plugin.filter(opened.cycle, opened.view)
            code = int(statuses.codes[position])
            if code:
                return list(statuses.table[code - 1].reasons)
        return []

    def split(self, pods: list[Pod]) -> tuple[list[Pod], list[Pod]]:
        left = [budget.status.disruptions_allowed for budget in self.budgets]
        protected: list[Pod] = []
        others: list[Pod] = []
        for pod in pods:
            is_violated = False
            for number, budget in enumerate(self.budgets):
                if not selects(budget, pod):
                    continue
                left[number] -= 1
                is_violated |= left[number] < 0
            (protected if is_violated else others).append(pod)
        return protected, others


def best(found: dict[str, tuple[list[Pod], int]]) -> list[str]:
    """Returns the five rules, one after another."""
    rules: list[Callable[[list[Pod], int], float]] = [
        lambda _, violations: violations,
        lambda victims, _: max(map(priority, victims)),
        lambda victims, _: sum(priority(each) + 2**31 for each in victims),
        lambda victims, _: len(victims),
        lambda victims, _: -first_start(victims),
    ]
    names = list(found)
    for rule in rules:
        values = {name: rule(*found[name]) for name in names}
        names = [name for name in names if values[name] == min(values.values())]
    return names


def first_start(victims: list[Pod]) -> float:
    top = max(map(priority, victims))
    return min(started(each) for each in victims if priority(each) == top)


def priority(pod: Pod) -> int:
    return pod.spec.priority or 0


def importance(pod: Pod) -> tuple[int, float]:
    return -priority(pod), started(pod)


def started(pod: Pod) -> float:
    text = pod.status.start_time
    return datetime.fromisoformat(text).timestamp() if text else float(2**62)


def selects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    metadata, selector = pod.metadata, budget.spec.selector
    if budget.metadata.namespace != metadata.namespace or not metadata.labels:
        return False
    if selector is None or metadata.name in budget.status.disrupted_pods:
        return False
    return holds(selector, metadata.labels)


def holds(selector: LabelSelector, labels: dict[str, str]) -> bool:
    """Supports ``matchLabels`` and the operator Exists, which is all that the tests use."""
    if not selector.match_labels and not selector.match_expressions:
        return False
    if any(each.operator != "Exists" for each in selector.match_expressions):
        return False  # an unknown operator
    keys = [each.key for each in selector.match_expressions]
    pairs = selector.match_labels.items()
    return all(key in labels for key in keys) and all(labels.get(k) == v for k, v in pairs)
