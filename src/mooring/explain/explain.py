"""Explains a decision to a user: why a pod is placed on its node, or why it is unschedulable.

The input is a ``Decision``, of any scheduler, and the cluster before it (``Utilization``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from mooring.decision import (
    BATCHED,
    ERROR,
    FIRST,
    GATED,
    NOMINATED,
    SCHEDULED,
    UNORDERED,
    Decision,
    Rejection,
)
from mooring.explain.missing_devices import explain_claims
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.simulation.report import aligned
from mooring.simulation.utilization import (
    PODS,
    Amounts,
    NodeUtilization,
    Utilization,
    amount_text,
    amounts_text,
    short_name,
)
from mooring.state import Snapshot

#: Limits of the output: nodes with their scores; nodes named as examples; groups of nodes.
NODES_COMPARED: Final = 5
EXAMPLES: Final = 3
GROUPS_SHOWN: Final = 12

INSUFFICIENT: Final = "Insufficient "
TOO_MANY_PODS: Final = "Too many pods"


def explain(
    pod: Pod,
    decision: Decision,
    utilization: Utilization,
    *,
    weights: Mapping[str, int] | None = None,
    snapshot: Snapshot | None = None,
) -> str:
    """Returns the explanation, as lines of text.

    Args:
        pod: The pod as seen by the scheduler.
        decision: The decision to explain.
        utilization: The cluster before the decision, without the pod.
        weights: Plugin -> weight of its score; None = 1 for all.
        snapshot: The claims and devices before the decision; None = they are not explained.
    """
    requests = _requests_text(utilization.requests(pod))
    lines = [_summary(pod, decision, utilization), "", f"It requests {requests}."]
    if decision.result == SCHEDULED:
        lines += _explain_placement(decision, weights)
    else:
        lines += _explain_unschedulable(decision, utilization.requests(pod), utilization)
    if snapshot is not None:
        lines += explain_claims(pod, decision, utilization, snapshot)
    lines += _end(decision)
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


# ---- unschedulable ----


def _explain_unschedulable(
    decision: Decision, requests: Amounts, utilization: Utilization
) -> Iterator[str]:
    if decision.prefilter is not None:
        rejection = decision.prefilter
        yield from ("", f"{rejection.plugin} rejected the pod before any node was filtered:")
        yield from (f"  {reason}" for reason in rejection.reasons)
    elif decision.rejected:
        yield from ("", "Rejected by (the first rejection of a node counts):")
        yield from _by_plugin(decision.rejected)
        yield from ("", "What is missing, by group of nodes:")
        yield from _by_group(decision.rejected, requests, utilization)


def _end(decision: Decision) -> Iterator[str]:
    """Yields the preemption and the message of a pod without a node."""
    if decision.result == SCHEDULED:
        return
    yield from _preemption(decision)
    if decision.message:
        yield from ("", f"Message: {decision.message}")


def _by_plugin(rejected: Mapping[str, Rejection]) -> Iterator[str]:
    plugins: dict[str, dict[str, list[str]]] = {}
    counts: Counter[str] = Counter()
    for node, rejection in rejected.items():
        counts[rejection.plugin] += 1
        for reason in rejection.reasons:
            plugins.setdefault(rejection.plugin, {}).setdefault(reason, []).append(node)
    for plugin, count in counts.most_common():
        yield f"  {plugin}: {_nodes(count)}"
        reasons = plugins.get(plugin, {})
        for reason, nodes in sorted(reasons.items(), key=lambda item: -len(item[1])):
            yield f"    {len(nodes)} x {reason}: {_examples(nodes)}"


def _by_group(
    rejected: Mapping[str, Rejection], requests: Amounts, utilization: Utilization
) -> Iterator[str]:
    groups: dict[str, list[NodeUtilization]] = {}
    for group, nodes in utilization.groups().items():
        rejected_nodes = [node for node in nodes if node.name in rejected]
        if rejected_nodes:
            groups[group] = rejected_nodes
    for group, nodes in list(groups.items())[:GROUPS_SHOWN]:
        yield f"  {_nodes(len(nodes))} of {group}:"
        yield from (f"    {line}" for line in _group_lines(nodes, rejected, requests))
    rest = list(groups.values())[GROUPS_SHOWN:]
    if rest:
        count = sum(map(len, rest))
        yield f"  ... and {_nodes(count)} in {len(rest)} more groups"


def _group_lines(
    nodes: Sequence[NodeUtilization], rejected: Mapping[str, Rejection], requests: Amounts
) -> Iterator[str]:
    reasons: dict[str, list[NodeUtilization]] = {}
    for node in nodes:
        for reason in rejected[node.name].reasons:
            reasons.setdefault(reason, []).append(node)
    for reason, rejected_nodes in sorted(reasons.items(), key=lambda item: -len(item[1])):
        resource = _resource_of(reason)
        if resource is None:
            yield f"{_all_or_count(rejected_nodes, nodes)}: {reason}"
        else:
            shortage = _shortage(resource, rejected_nodes, requests)
            yield f"{_all_or_count(rejected_nodes, nodes)}: {shortage}"


def _shortage(resource: str, nodes: Sequence[NodeUtilization], requests: Amounts) -> str:
    """Returns the best node's shortage, or that no node is large enough even when empty."""
    requested = requests.get(resource, 0)
    name = short_name(resource)
    largest = max(node.allocatable.get(resource, 0) for node in nodes)
    if largest == 0:
        return f"no {name} at all"
    if requested > largest:
        return (
            f"too small even when empty: {amount_text(resource, requested)} {name} requested,"
            f" the largest has {amount_text(resource, largest)}"
        )
    best = max(nodes, key=lambda node: node.free(resource))
    missing = requested - best.free(resource)
    if missing <= 0:
        return f"{name} is free on {best.name}, but reserved for pods that are nominated to it"
    return (
        f"{name} short by {amount_text(resource, missing)} at best"
        f" ({best.name} has {amount_text(resource, best.free(resource))} free"
        f" of {amount_text(resource, best.allocatable.get(resource, 0))})"
    )


def _resource_of(reason: str) -> str | None:
    if reason == TOO_MANY_PODS:
        return PODS
    if reason.startswith(INSUFFICIENT):
        return reason.removeprefix(INSUFFICIENT)
    return None


def _preemption(decision: Decision) -> Iterator[str]:
    preemption = decision.preemption
    if preemption is None:
        return
    yield ""
    if preemption.nominated is None:
        yield "Preemption was tried: it makes no node feasible."
        return
    victims = ", ".join(preemption.victims)
    yield f"Preemption on {preemption.nominated} evicts: {victims}."
    others = [node for node in preemption.candidates if node != preemption.nominated]
    if others:
        yield f"  Other candidates: {_examples(others)}"


# ---- placed ----


def _explain_placement(decision: Decision, weights: Mapping[str, int] | None) -> Iterator[str]:
    if decision.total:
        yield from ("", f"Feasible: {_nodes(len(decision.total))}. Scores of the best ones:")
        yield from aligned(_score_rows(decision, weights))
        yield from _gap(decision, weights)
    elif decision.choice is None:
        yield from ("", "It is the only feasible node, so nothing was scored.")
    yield from _choice(decision)
    if decision.rejected:
        yield from ("", f"Rejected: {_nodes(len(decision.rejected))}")
        yield from _by_plugin(decision.rejected)


def _choice(decision: Decision) -> Iterator[str]:
    if decision.choice == NOMINATED:
        yield from ("", "It was nominated to this node, which is tried first.")
    elif decision.choice == BATCHED:
        yield from (
            "",
            "It is the next best node of the equal pod before it (batching).",
        )
    elif decision.choice == FIRST:
        yield from ("", "No score plugin is enabled, so the first feasible node was chosen.")
    elif len(decision.tied) > 1:
        others = [node for node in decision.tied if node != decision.node]
        yield from ("", f"Tied with {_nodes(len(others))}: {_examples(others)}")
        if decision.choice == UNORDERED:
            yield "The nodes were visited in no fixed order, so any of them is a correct choice."
        else:
            yield "Ties are broken by the order in which the nodes were visited."


def _ranked(decision: Decision) -> list[str]:
    """Returns the scored nodes, best first: the chosen one, those tied with it, the others."""
    total = decision.total or {}
    return sorted(total, key=lambda node: (-total[node], node != decision.node))


def _score_rows(decision: Decision, weights: Mapping[str, int] | None) -> list[tuple[str, ...]]:
    nodes = _ranked(decision)[:NODES_COMPARED]
    rows: list[tuple[str, ...]] = [("", *nodes)]
    for plugin, scores in sorted((decision.scores or {}).items()):
        weight = weights.get(plugin, 1) if weights is not None else 1
        label = f"{plugin} x {weight}" if weight != 1 else plugin
        rows.append((label, *(str(scores[node] * weight) for node in nodes)))
    total = decision.total or {}
    rows.append(("total", *(str(total[node]) for node in nodes)))
    return rows


def _gap(decision: Decision, weights: Mapping[str, int] | None) -> Iterator[str]:
    """Yields the distance to the runner-up, and the plugins that made the difference."""
    total, scores = decision.total or {}, decision.scores or {}
    ranked = _ranked(decision)
    best = ranked[0]
    runner_up = next((node for node in ranked if total[node] < total[best]), None)
    if runner_up is None:
        yield "All of them have the same total."
        return
    gaps = {
        plugin: (nodes[best] - nodes[runner_up]) * (weights or {}).get(plugin, 1)
        for plugin, nodes in scores.items()
    }
    parts = [
        f"{plugin} {gap:+d}"
        for plugin, gap in sorted(gaps.items(), key=lambda item: (-abs(item[1]), item[0]))
        if gap
    ]
    detail = f": {', '.join(parts)}" if parts else ""
    yield f"Runner-up: {runner_up}, {total[best] - total[runner_up]} behind{detail}."


# ---- text ----


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _examples(nodes: Sequence[str]) -> str:
    examples = ", ".join(nodes[:EXAMPLES])
    return f"{examples}, ..." if len(nodes) > EXAMPLES else examples


def _all_or_count(part: Sequence[NodeUtilization], nodes: Sequence[NodeUtilization]) -> str:
    return "all" if len(part) == len(nodes) else str(len(part))
