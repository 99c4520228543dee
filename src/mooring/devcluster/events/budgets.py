"""The events of the disruption controller about budgets.

Source: pkg/controller/disruption/disruption.go (trySync).
"""

from __future__ import annotations

from typing import Final

from mooring.devcluster.events.recorder import NORMAL, WARNING, EventRecorder, reference_to
from mooring.objects.kinds import kind_named
from mooring.simulation.controllers.disruption.budgets import BUDGET, NewStatus

_COMPONENT: Final = "controllermanager"
_KIND: Final = kind_named(BUDGET)


def record_sync(recorder: EventRecorder, result: NewStatus) -> None:
    """Records that a budget selects no pods, or why its status could not be calculated."""
    reference = reference_to(_KIND, result.budget.metadata)
    if result.pod_count == 0:
        recorder.record(_COMPONENT, reference, NORMAL, "NoPods", "No matching pods found")
    if result.failure is not None:
        text = f"Failed to calculate the number of expected pods: {result.failure}"
        recorder.record(_COMPONENT, reference, WARNING, "CalculateExpectedPodCountFailed", text)
