"""The disruption controller of a simulation: the status of disruption budgets.

Source: pkg/controller/disruption/disruption.go (trySync, getExpectedPodCount, updatePdbStatus).
Differs: a pod that is evicted is deleted in the same step, so no pod is noted as being disrupted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.objects.meta import controller_of
from mooring.objects.pod import FINISHED_PHASES, Pod
from mooring.objects.selectors import compile_label_selector
from mooring.objects.workloads import PodDisruptionBudget, PodDisruptionBudgetStatus
from mooring.simulation.controllers.deployment.limits import scaled
from mooring.simulation.controllers.workload_pods import is_ready

if TYPE_CHECKING:
    from mooring.client import ObjectChange
    from mooring.simulation.controllers.cluster import ControlledObjects
    from mooring.simulation.engine.object_table import ObjectTable

_BUDGET = "PodDisruptionBudget"


class DisruptionController:
    """Keeps the status of all budgets; an engine's controller.

    Args:
        table: The objects.
        workloads: The scales of workloads.
    """

    def __init__(self, table: ObjectTable, workloads: ControlledObjects) -> None:
        self._table = table
        self._workloads = workloads
        self._namespaces: set[str] = set()

    def start(self) -> None:
        """Watches the table."""
        self._namespaces |= {
            budget.metadata.namespace for budget in self._table.objects(_BUDGET).values()
        }
        self._table.listen(self._on_change)

    @property
    def has_work(self) -> bool:
        """True if pods or budgets have changed."""
        return bool(self._namespaces)

    async def work(self) -> None:
        """Updates the budgets of all namespaces with changes."""
        namespaces, self._namespaces = self._namespaces, set()
        for budget in list(self._table.objects(_BUDGET).values()):
            if budget.metadata.namespace in namespaces:
                self._update(budget)

    def _on_change(self, kind: str, change: ObjectChange) -> None:
        if kind == _BUDGET or (kind == "Pod" and self._table.objects(_BUDGET)):
            obj = change.new if change.new is not None else change.old
            if kind == _BUDGET and change.old is not None and change.new is not None:
                return  # its own write
            self._namespaces.add(obj.metadata.namespace)

    def _update(self, budget: PodDisruptionBudget) -> None:
        pods = self.pods_of(budget)
        expected, desired = self._counts(budget, pods)
        healthy = sum(is_ready(pod) and pod.metadata.deletion_timestamp is None for pod in pods)
        allowed = max(0, healthy - desired) if expected > 0 else 0
        status = PodDisruptionBudgetStatus(
            observed_generation=budget.metadata.generation,
            disruptions_allowed=allowed,
            current_healthy=healthy,
            desired_healthy=desired,
            expected_pods=expected,
            conditions=budget.status.conditions,
        )
        if status != budget.status:
            self._table.put(replace(budget, status=status))

    def pods_of(self, budget: PodDisruptionBudget) -> list[Pod]:
        """Returns the unfinished pods that a budget selects."""
        selector = compile_label_selector(budget.spec.selector)
        return [
            pod
            for pod in self._table.objects("Pod").values()
            if pod.metadata.namespace == budget.metadata.namespace
            and pod.status.phase not in FINISHED_PHASES
            and selector.matches(pod.metadata.labels)
        ]

    def _counts(self, budget: PodDisruptionBudget, pods: list[Pod]) -> tuple[int, int]:
        """Returns the number of expected pods, and how many must be healthy."""
        spec = budget.spec
        if spec.max_unavailable is not None:
            expected = self._scale(pods)
            return expected, max(
                0, expected - scaled(spec.max_unavailable, expected, rounds_up=True)
            )
        if isinstance(spec.min_available, str):
            expected = self._scale(pods)
            return expected, scaled(spec.min_available, expected, rounds_up=True)
        return len(pods), spec.min_available or 0

    def _scale(self, pods: Iterable[Pod]) -> int:
        """Returns the sum of the replicas of all workloads that control one of the pods."""
        scales: dict[str, int] = {}
        for pod in pods:
            owner = controller_of(pod.metadata)
            if owner is None or owner.uid in scales:
                continue
            name = f"{pod.metadata.namespace}/{owner.name}"
            workload = self._workloads.workloads.get(owner.kind, {}).get(name)
            if workload is not None and owner.kind in ("ReplicaSet", "StatefulSet"):
                scales[owner.uid] = workload.replicas
        return sum(scales.values())

    def may_evict(self, pod: Pod) -> bool:
        """Returns whether the budgets of a pod allow its eviction, and counts it.

        Source: pkg/registry/core/pod/storage/eviction.go.
        """
        if pod.status.phase in (*FINISHED_PHASES, "Pending", ""):
            return True
        budgets = [
            budget
            for budget in self._table.objects(_BUDGET).values()
            if budget.metadata.namespace == pod.metadata.namespace
            and compile_label_selector(budget.spec.selector).matches(pod.metadata.labels)
        ]
        if not budgets:
            return True
        if len(budgets) > 1:
            return False
        [budget] = budgets
        status = budget.status
        if not is_ready(pod):
            if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
                return True
            if 0 < status.desired_healthy <= status.current_healthy:
                return True
        if status.disruptions_allowed < 1:
            return False
        left = replace(status, disruptions_allowed=status.disruptions_allowed - 1)
        self._table.put(replace(budget, status=left))
        return True
