"""Explains a decision to a user: why a pod is placed on its node, or why it is unschedulable.

The input is a ``Decision``, of any scheduler, and the cluster before it (``Utilization``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mooring.decision import ERROR, GATED, SCHEDULED, Decision
from mooring.explain.missing_devices import explain_claims
from mooring.explain.preemption import preemption_lines
from mooring.explain.reasons.case import Case
from mooring.explain.rejections import Rejections, rejection_lines
from mooring.explain.scores import WIDTH, placement_lines
from mooring.framework import Framework
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.simulation.utilization import PODS, Amounts, Utilization, amounts_text
from mooring.state import Snapshot


def explain(
    pod: Pod,
    decision: Decision,
    utilization: Utilization,
    *,
    weights: Mapping[str, int] | None = None,
    snapshot: Snapshot | None = None,
    framework: Framework | None = None,
    rejections: Rejections | None = None,
    width: int = WIDTH,
) -> str:
    """Returns the explanation, as lines of text.

    Args:
        pod: The pod as seen by the scheduler.
        decision: The decision to explain.
        utilization: The cluster before the decision, without the pod.
        weights: Plugin -> weight of its score; None = 1 for all.
        snapshot: The objects before the decision; None = causes are not looked up.
        framework: The plugins that decided; None = plugins with their default arguments.
        rejections: The rejections of each node; None = those of the decision.
        width: The columns that tables may have.
    """
    requests = _requests_text(utilization.requests(pod))
    lines = [_summary(pod, decision, utilization), "", f"It requests {requests}."]
    case = None if snapshot is None else Case(pod, snapshot, framework)
    if rejections is None:
        rejections = {name: (rejection,) for name, rejection in decision.rejected.items()}
    if decision.result == SCHEDULED:
        lines += placement_lines(decision, weights, width=width)
    else:
        of_pod = utilization.requests(pod)
        lines += rejection_lines(decision, rejections, of_pod, utilization, case)
    if snapshot is not None:
        lines += explain_claims(pod, decision, utilization, snapshot)
    lines += _end(decision, case)
    return "\n".join(lines)


def _summary(pod: Pod, decision: Decision, utilization: Utilization) -> str:
    name = f"Pod {key(pod)}"
    if decision.node is not None:
        node = utilization.nodes.get(decision.node)
        kind = f" ({node.group})" if node else ""
        return f"{name} goes to {decision.node}{kind}."
    if decision.result == GATED:
        return f"{name} is gated: it is not scheduled until its gates are removed."
    if decision.result == ERROR:
        return f"{name} was not scheduled: the attempt failed with an error."
    return f"{name} is unschedulable: 0/{len(utilization.nodes)} nodes are feasible."


def _requests_text(amounts: Amounts) -> str:
    resources = {name: amount for name, amount in amounts.items() if name != PODS}
    return amounts_text(resources) if resources else "no resources"


def _end(decision: Decision, case: Case | None) -> Iterator[str]:
    """Yields the preemption and the message of a pod without a node."""
    if decision.result == SCHEDULED:
        return
    yield from preemption_lines(decision, case)
    if decision.message:
        yield from ("", f"Message: {decision.message}")
