"""Evictions of a scenario, as disruption budgets allow them.

Source: pkg/registry/core/pod/storage/eviction.go.
Differs: a pod that is evicted is deleted in the same step, so no pod is noted as being disrupted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.objects.pod import FINISHED_PHASES, Pod
from mooring.objects.selectors import compile_label_selector
from mooring.simulation.controllers.disruption.budgets import BUDGET
from mooring.simulation.controllers.workload_pods import is_ready

if TYPE_CHECKING:
    from mooring.simulation.engine.object_table import ObjectTable


class Evictions:
    """Decides whether pods may be evicted.

    Args:
        table: The objects.
    """

    def __init__(self, table: ObjectTable) -> None:
        self._table = table

    def may_evict(self, pod: Pod) -> bool:
        """Returns whether the budgets of a pod allow its eviction, and counts it."""
        if pod.status.phase in (*FINISHED_PHASES, "Pending", ""):
            return True
        budgets = [
            budget
            for budget in self._table.objects(BUDGET).values()
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
