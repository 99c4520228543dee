"""Follows each choice of victims: eligibility, candidates, their criteria, the order of victims."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from mooring.decision import Preemption, PreemptionCandidate
from mooring.framework import Code, Cycle, Diagnosis, PostFilterResult
from mooring.objects.pod import Pod
from mooring.scheduler.service import Service
from mooring.state import PodInfo
from tests.faults.harness.reference_preemption import (
    DEFAULT_LIMITS,
    Choice,
    Cluster,
    importance,
    priority_of,
)

#: Of the choices without victims one of so many is compared: most attempts have none.
EVERY: Final = 8


class Recorded:
    """The handle of a plugin, whose last random number is remembered."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.last = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def random(self) -> float:
        """Draws a random number."""
        self.last = self._real.random()
        return self.last


class AttachedChoice:
    """Compares DefaultPreemption with the reference choice.

    Attributes:
        compared: Number of choices that were compared.
        with_victims: How many of them had victims.
        limits: How many candidates the plugin has to search for.
        failing: The names of the nodes where a filter fails once pods are removed.
        namespaces: Name -> labels, for terms that select namespaces.

    Args:
        service: Has not begun yet.
        report: Called with each difference.
    """

    def __init__(self, service: Service, report: Callable[[str], None]) -> None:
        self.compared = self.with_victims = 0
        self.limits = DEFAULT_LIMITS
        self.failing: frozenset[str] = frozenset()
        self.namespaces: dict[str, dict[str, str]] = {}
        self._service = service
        self._report = report
        self._calls = 0
        for framework in service.profiles.values():
            for plugin in framework.plugins("post_filter"):
                if plugin.name == "DefaultPreemption":
                    self._attach(plugin)

    def _attach(self, plugin: Any) -> None:
        handle = plugin._handle = Recorded(plugin._handle)
        real = plugin.post_filter

        def post_filter(cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
            result: PostFilterResult = real(cycle, diagnosis)
            self._calls += 1
            if result.victims or self._calls % EVERY == 0:
                self._compare(cycle, diagnosis, result, handle.last)
            return result

        plugin.post_filter = post_filter

    def _compare(
        self, cycle: Cycle, diagnosis: Diagnosis, result: PostFilterResult, share: float
    ) -> None:
        pod, cluster = cycle.pod.pod, self._cluster()
        self.compared += 1
        self.with_victims += bool(result.victims)
        chosen, victims = result.node_name or "", [victim.pod for victim in result.victims]
        candidates: list[Choice] = []
        if not self._may_not(pod, diagnosis, cluster):
            helpful = list(self._helpful(diagnosis))
            candidates = list(cluster.candidates(pod, helpful, share, self.limits))
        best = min(candidates, key=lambda choice: choice.cost, default=None)
        key = cycle.pod.key
        expected = [(it.node, _names(it.victims), it.violations) for it in candidates]
        if (offered := _offered(result)) != expected:
            self._report(f"{key} has the candidates {offered}, not {expected}")
        record = result.record() if result.record is not None else None
        if record is not None and record != (due := _recorded(candidates, best)):
            self._report(f"{key} is recorded with {record}, not {due}")
        if best is None:
            if victims:
                self._report(f"{key} evicts {_names(victims)} on {chosen}, but must not")
            return
        if chosen != best.node:
            costs = {choice.node: (choice.cost, _names(choice.victims)) for choice in candidates}
            self._report(f"{key} preempts on {chosen!r}, not on {best.node}, of {costs}")
            return
        if _names(victims) != _names(best.victims):
            self._report(f"{key} evicts {_names(victims)}, not {_names(best.victims)}")
        if list(map(importance, victims)) != list(map(importance, best.victims)):
            self._report(f"{key} evicts {_names(victims)} in another order than by importance")

    def _cluster(self) -> Cluster:
        service = self._service
        cache = service.cache
        nodes = {node.metadata.name: node for node in cache.nodes.objects if node is not None}
        return Cluster(
            nodes,
            # Pods that are equally important are ordered as they are counted on their node.
            [(info.pod, name) for name, info in self._placed()],
            [(info.pod, name) for info, name in cache.nominator.pods()],
            list(service.informers["PodDisruptionBudget"].objects.values()),
            self.failing,
            self.namespaces,
        )

    def _placed(self) -> Iterator[tuple[str, PodInfo]]:
        cache = self._service.cache
        rows = dict.fromkeys(placed.row for placed in cache.pods)
        for row in rows:
            for placed in cache.pods.on_row(row):
                yield cache.nodes.names[row], placed.info

    def _helpful(self, diagnosis: Diagnosis) -> Iterator[str]:
        """Yields the nodes where the removal of pods may help, in order."""
        nodes = self._service.cache.nodes
        names = [nodes.names[row] for row in diagnosis.rows_of(Code.UNSCHEDULABLE, nodes).tolist()]
        codes = {name: diagnosis.status_of(name) for name in nodes.names if name}
        expected = {
            name
            for name, status in codes.items()
            if status is not None and status.code is Code.UNSCHEDULABLE
        }
        live = {node.metadata.name for node in nodes.objects if node is not None}
        if set(names) != expected & live:
            self._report(f"nodes to preempt on: {sorted(names)}, not {sorted(expected & live)}")
        yield from names

    def _may_not(self, pod: Pod, diagnosis: Diagnosis, cluster: Cluster) -> bool:
        """Returns whether the pod must not preempt: by its policy, or as victims still leave."""
        if pod.spec.preemption_policy == "Never":
            return True
        uid = pod.metadata.uid
        own = [name for other, name in cluster.nominated if other.metadata.uid == uid]
        name = own[0] if own else pod.status.nominated_node_name
        status = diagnosis.status_of(name) if name else None
        if status is None or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return False
        return any(
            at == name and priority_of(other) < priority_of(pod) and _leaves(other)
            for other, at in cluster.placed
        )


def _leaves(pod: Pod) -> bool:
    """Returns whether a pod is terminating since a scheduler has evicted it."""
    conditions = {condition.type: condition for condition in pod.status.conditions}
    target = conditions.get("DisruptionTarget")
    is_evicted = target is not None and target.reason == "PreemptionByScheduler"
    is_true = target is not None and target.status == "True"
    return pod.metadata.deletion_timestamp is not None and is_evicted and is_true


def _recorded(candidates: list[Choice], best: Choice | None) -> Preemption:
    """Returns what a recording of the decision has of the candidates."""
    if best is None:
        return Preemption(None, (), {}, ())
    in_order = sorted(candidates, key=lambda choice: choice.node)
    keys = {it.node: tuple(sorted(map(_key, it.victims))) for it in in_order}
    return Preemption(
        best.node,
        keys[best.node],
        {it.node: PreemptionCandidate(keys[it.node], it.violations) for it in in_order},
        tuple(it.node for it in in_order if it.cost == best.cost),
    )


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def _offered(result: PostFilterResult) -> list[tuple[str, list[str], int]]:
    """Returns the candidates that extenders would get, with victims and violations."""
    return [
        (it.node_name, _names([victim.pod for victim in it.victims]), it.violations)
        for it in (result.candidates() if result.candidates is not None else ())
    ]


def _names(pods: list[Pod]) -> list[str]:
    return sorted(pod.metadata.name for pod in pods)
