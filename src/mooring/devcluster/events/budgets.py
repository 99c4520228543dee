"""The events of the disruption controller about budgets.

Source: pkg/controller/disruption/disruption.go (trySync, getPdbForPod).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mooring.apiserver.errors import quoted
from mooring.devcluster.events.recorder import NORMAL, WARNING, EventRecorder, reference_to
from mooring.objects.kinds import kind_named
from mooring.simulation.controllers.disruption.budgets import BUDGET, NewStatus

if TYPE_CHECKING:
    from mooring.objects.pod import Pod

_COMPONENT: Final = "controllermanager"
_KIND: Final = kind_named(BUDGET)
_POD: Final = kind_named("Pod")


def record_sync(recorder: EventRecorder, result: NewStatus) -> None:
    """Records that a budget selects no pods, or why its status could not be calculated."""
    reference = reference_to(_KIND, result.budget.metadata)
    if result.pod_count == 0:
        recorder.record(_COMPONENT, reference, NORMAL, "NoPods", "No matching pods found")
    if result.failure is not None:
        text = f"Failed to calculate the number of expected pods: {result.failure}"
        recorder.record(_COMPONENT, reference, WARNING, "CalculateExpectedPodCountFailed", text)


def record_several(recorder: EventRecorder, pod: Pod, budgets: list[str]) -> None:
    """Records that several budgets select a pod; it cannot be evicted.

    Args:
        recorder: Records it.
        pod: The pod.
        budgets: The names of its budgets; upstream calculates only one of them at a change.
    """
    if len(budgets) < 2:
        return
    namespace, name = quoted(pod.metadata.namespace), quoted(pod.metadata.name)
    text = (
        f"Pod {namespace}/{name} matches multiple PodDisruptionBudgets.  "
        f"Chose {quoted(budgets[0])} arbitrarily."
    )
    reference = reference_to(_POD, pod.metadata)
    recorder.record(_COMPONENT, reference, WARNING, "MultiplePodDisruptionBudgets", text)
