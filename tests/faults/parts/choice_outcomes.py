"""The results of PostFilter for a preemptor without victims: code, message, nomination.

::

    must not preempt             Unschedulable, why          the nomination stays
    no candidate, and an error   Error, all texts            the nomination stays
    no candidate                 Unschedulable, FitError     the nomination is cleared

Source: pkg/scheduler/framework/preemption/preemption.go (Preempt, DryRunPreemption);
framework/plugins/defaultpreemption/default_preemption.go (PostFilter, PodEligibleToPreemptOthers).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from mooring.framework import Code
from mooring.objects.pod import Pod
from tests.faults.harness.reference_fit import host_ports_of
from tests.faults.harness.reference_preemption import Cluster, priority_of

NEVER: Final = "not eligible due to preemptionPolicy=Never."
TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
NO_VICTIMS: Final = "No preemption victims found for incoming pod"
NO_HELP: Final = "Preemption is not helpful for scheduling"
#: The text of a failure of a filter, before the name of the node.
FAILED: Final = 'running "FailingFilter" filter plugin: ValueError: injected failure on'
#: How a text of the reference begins -> the reason of the filter; the first one counts.
REASONS: Final = {
    "ports ": "node(s) didn't have free ports for the requested pod ports",
    "anti-affinity on ": "node(s) didn't match pod anti-affinity rules",
    "anti-affinity of ": "node(s) didn't satisfy existing pods anti-affinity rules",
    "no label for its affinity": "node(s) didn't match pod affinity rules",
    "affinity": "node(s) didn't match pod affinity rules",
}


class Outcome(NamedTuple):
    """The result of an attempt without victims.

    Attributes:
        code: Of the status.
        texts: The message; of several errors each of them, since their order is any.
        node_name: "" = the nomination is cleared, None = it stays.
    """

    code: Code
    texts: frozenset[str]
    node_name: str | None


class NodeOutcome(NamedTuple):
    """The reasons of the status of a node that is no candidate, and the text of an error."""

    reasons: tuple[str, ...]
    error: str = ""


def outcome_of(result: Any) -> Outcome | None:
    """Returns what a result of PostFilter says; None = it has victims."""
    if result.status is None:
        return None
    status, prefix = result.status, "preemption: "
    message = status.message
    if not message.startswith(prefix):
        return Outcome(status.code, frozenset({f"without a prefix: {message}"}), result.node_name)
    texts = {message.removeprefix(prefix)}
    if status.code is Code.ERROR and ", " in message:
        texts = set(message.removeprefix(prefix)[1:-1].split(", "))
    return Outcome(status.code, frozenset(texts), result.node_name)


def expected_outcome(
    cluster: Cluster, pod: Pod, helpful: Sequence[str], *, may_not: bool
) -> Outcome | None:
    """Returns what PostFilter has to say; None = there are candidates.

    Args:
        cluster: The cluster.
        pod: The preemptor.
        helpful: The nodes that were rejected with a code that preemption may help.
        may_not: Whether the pod must not preempt.
    """
    if may_not:
        text = NEVER if pod.spec.preemption_policy == "Never" else TERMINATING
        return Outcome(Code.UNSCHEDULABLE, frozenset({text}), None)
    if any(cluster.victims_on(pod, name) for name in helpful):
        return None
    nodes = [node_outcome(cluster, pod, name) for name in helpful]
    errors = frozenset(node.error for node in nodes if node.error)
    if errors:
        return Outcome(Code.ERROR, errors, None)
    reasons = Counter(reason for node in nodes for reason in node.reasons)
    if others := len(cluster.nodes) - len(helpful):
        reasons[NO_HELP] += others
    text = fit_error_message(len(cluster.nodes), reasons)
    return Outcome(Code.UNSCHEDULABLE, frozenset({text}), "")


def node_outcome(cluster: Cluster, pod: Pod, node: str) -> NodeOutcome:
    """Returns why a node is no candidate, which it is not."""
    lower = lower_on(cluster, pod, node)
    if not lower:
        return NodeOutcome((NO_VICTIMS,))
    freed = {port for other in lower for port in host_ports_of(other)}
    if why := cluster.why_not(pod, node, lower, freed):
        return NodeOutcome(tuple(_reasons(why)))
    if node in cluster.failing:
        return NodeOutcome((), f"{FAILED} {node}")
    return NodeOutcome((), f'expected at least one victim pod on node "{node}"')


def lower_on(cluster: Cluster, pod: Pod, node: str) -> list[Pod]:
    """Returns the pods of a node that have a lower priority."""
    return [
        other
        for other, name in cluster.placed
        if name == node and priority_of(other) < priority_of(pod)
    ]


def failures(cluster: Cluster, pod: Pod, helpful: Iterable[str]) -> set[str]:
    """Returns the nodes on which a filter fails that is called: those before it accept them."""
    without = cluster._replace(failing=())
    return {
        name
        for name in helpful
        if name in cluster.failing
        and (without.victims_on(pod, name) is not None or node_outcome(cluster, pod, name).error)
    }


def fit_error_message(n_nodes: int, reasons: Counter[str]) -> str:
    """Returns the message of kube-scheduler's FitError: the counts are sorted as texts."""
    texts = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return f"0/{n_nodes} nodes are available: {', '.join(texts)}."


def _reasons(why: str) -> Iterable[str]:
    """Yields the reasons of the filter that rejects a node, from the text of the reference."""
    for beginning, reason in REASONS.items():
        if why.startswith(beginning):
            yield reason
            return
    for part in why.split(", "):
        name = part.partition(":")[0]
        yield "Too many pods" if name == "pods" else f"Insufficient {name}"
