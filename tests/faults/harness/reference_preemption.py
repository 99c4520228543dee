"""Reference choice of the victims of a pod: slow, simple, and independent of the plugin.

Each node is decided by itself with the reference check: all pods of lower priority go, and come
back one by one. Of the candidates one is chosen by upstream's six criteria.

Source: framework/plugins/defaultpreemption/default_preemption.go (SelectVictimsOnNode,
filterPodsWithPDBViolation), framework/preemption/preemption.go (DryRunPreemption,
pickOneNodeForPreemption).
*Differs:* of equal candidates the first one is chosen, and pods that have not started count as
started last, as in ``mooring.plugins.default_preemption``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec.structs import replace

from mooring.objects.meta import LabelSelector
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.objects.workloads import PodDisruptionBudget
from tests.faults.harness.reference_fit import host_ports_of
from tests.faults.harness.reference_topology import World

#: Protocol and number.
HostPort = tuple[str, int]

#: Added to each priority, so that one more victim is never better.
OFFSET: Final = 2**31


class Limits(NamedTuple):
    """Limits the number of candidates that are searched for.

    Attributes:
        percent: Of the nodes where a preemption may help (minCandidateNodesPercentage).
        at_least: But no fewer than these (minCandidateNodesAbsolute).
    """

    percent: int
    at_least: int


#: Those of kube-scheduler.
DEFAULT_LIMITS: Final = Limits(10, 100)


class Choice(NamedTuple):
    """The victims on a node.

    Attributes:
        node: The name of the node.
        victims: The pods, the most important one first.
        violations: How many of them a budget protects.
    """

    node: str
    victims: list[Pod]
    violations: int

    @property
    def cost(self) -> tuple[float, ...]:
        """The criteria in their order; the lowest is the best."""
        priorities = [priority_of(pod) for pod in self.victims]
        highest = max(priorities)
        starts = [started_s(pod) for pod in self.victims if priority_of(pod) == highest]
        total = sum(priority + OFFSET for priority in priorities)
        return self.violations, highest, total, len(self.victims), -min(starts)


class Cluster(NamedTuple):
    """The state of a decision.

    Attributes:
        nodes: Name -> node.
        placed: The pods with a node, and its name.
        nominated: The pods that are nominated, and the name of the node.
        budgets: All budgets.
        failing: The names of the nodes where a filter fails once pods are removed.
        namespaces: Name -> labels.
    """

    nodes: Mapping[str, Node]
    placed: Sequence[tuple[Pod, str]]
    nominated: Sequence[tuple[Pod, str]]
    budgets: Sequence[PodDisruptionBudget]
    failing: Collection[str] = ()
    namespaces: Mapping[str, Mapping[str, str]] = MappingProxyType({})

    def fits(
        self, pod: Pod, node: str, removed: Iterable[Pod], freed: Collection[HostPort] = ()
    ) -> bool:
        """Returns whether a pod fits a node without some pods, with and without nominated ones.

        Args:
            pod: The preemptor.
            node: The name of the node.
            removed: The pods that are not there.
            freed: Host ports of the node that count as free, even if a pod uses them.
        """
        return not self.why_not(pod, node, removed, freed)

    def why_not(
        self, pod: Pod, node: str, removed: Iterable[Pod], freed: Collection[HostPort] = ()
    ) -> str:
        """Returns why a pod does not fit, of the attempt with nominated pods first; "" if it does.

        Source: framework/runtime/framework.go (RunFilterPluginsWithNominatedPods).
        """
        uids = {other.metadata.uid for other in removed}
        stay = [
            (_without_ports(other, freed) if freed and name == node else other, name)
            for other, name in self.placed
            if other.metadata.uid not in uids
        ]
        first = [
            (other, name)
            for other, name in self.nominated
            if name == node
            and priority_of(other) >= priority_of(pod)
            and other.metadata.uid != pod.metadata.uid
        ]
        if first:
            first = self._world(self.placed).nominated_for(pod, first)
            if why := self._world([*stay, *first]).fit_error(pod, node):
                return why
        return self._world(stay).fit_error(pod, node)

    def _world(self, placed: Iterable[tuple[Pod, str]]) -> World:
        return World(self.nodes, placed, self.namespaces)

    def victims_on(self, pod: Pod, node: str) -> Choice | None:
        """Returns the victims on a node; None if it is no candidate."""
        lower = [
            other
            for other, name in self.placed
            if name == node and priority_of(other) < priority_of(pod)
        ]
        lower.sort(key=importance)
        # Upstream has a set of ports for each node: a removed pod frees its ports, even if another
        # pod of the node uses the same.
        freed = {port for other in lower for port in host_ports_of(other)}
        if node in self.failing or not lower or not self.fits(pod, node, lower, freed):
            return None
        protected = protected_pods(lower, self.budgets)
        others = [other for other in lower if other not in protected]
        victims, violations = list(lower), 0
        for other in [*protected, *others]:
            victims.remove(other)
            ports = set(host_ports_of(other))
            freed -= ports
            if not self.fits(pod, node, victims, freed):
                victims.append(other)
                freed |= ports
                violations += other in protected
        return Choice(node, sorted(victims, key=importance), violations) if victims else None

    def candidates(
        self, pod: Pod, nodes: Sequence[str], share: float, limits: Limits = DEFAULT_LIMITS
    ) -> Iterator[Choice]:
        """Yields the candidates, from a random place in the list of the nodes on.

        Args:
            pod: The preemptor.
            nodes: Those where a preemption may help, in order.
            share: Where to begin, in [0, 1).
            limits: How many candidates are searched for.
        """
        start = int(share * len(nodes))
        limit = min(len(nodes), max(len(nodes) * limits.percent // 100, limits.at_least))
        count, has_sound = 0, False
        for name in [*nodes[start:], *nodes[:start]]:
            if has_sound and count >= limit:
                return
            choice = self.victims_on(pod, name)
            if choice is None or (choice.violations and count >= limit):
                continue
            count, has_sound = count + 1, has_sound or not choice.violations
            yield choice


def protected_pods(pods: Iterable[Pod], budgets: Iterable[PodDisruptionBudget]) -> list[Pod]:
    """Returns the pods whose eviction violates a budget, if those before them are evicted too."""
    left = {id(budget): budget.status.disruptions_allowed or 0 for budget in budgets}
    protected = []
    for pod in pods:
        is_protected = False
        for budget in budgets:
            if not _covers(budget, pod) or pod.metadata.name in budget.status.disrupted_pods:
                continue
            left[id(budget)] -= 1
            is_protected = is_protected or left[id(budget)] < 0
        if is_protected:
            protected.append(pod)
    return protected


def _without_ports(pod: Pod, freed: Collection[HostPort]) -> Pod:
    """Returns the pod without some of its host ports."""
    if not any(port in freed for port in host_ports_of(pod)):
        return pod
    containers = tuple(
        replace(
            container,
            ports=tuple(
                port
                for port in container.ports
                if (port.protocol or "TCP", port.host_port) not in freed
            ),
        )
        for container in pod.spec.containers
    )
    return replace(pod, spec=replace(pod.spec, containers=containers))


def _covers(budget: PodDisruptionBudget, pod: Pod) -> bool:
    selector: LabelSelector | None = budget.spec.selector
    if selector is None or budget.metadata.namespace != pod.metadata.namespace:
        return False
    return bool(pod.metadata.labels) and (
        selector.match_labels.items() <= pod.metadata.labels.items()
    )


def importance(pod: Pod) -> tuple[float, float]:
    """Returns the sort key of a pod: the most important one is the first."""
    return -priority_of(pod), started_s(pod)


def priority_of(pod: Pod) -> int:
    """Returns the priority of a pod."""
    return pod.spec.priority or 0


def started_s(pod: Pod) -> float:
    """Returns when a pod was started, in seconds; infinity if it was not."""
    text = pod.status.start_time
    return datetime.fromisoformat(text).timestamp() if text else math.inf
