"""The rejections of nodes: counted by plugin, and in words by group of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from mooring.decision import Rejection
from mooring.explain.reasons.case import Case, names_text
from mooring.explain.reasons.registry import causes_of, notes_of, pod_causes_of
from mooring.explain.shortage import resource_of, shortage
from mooring.simulation.utilization import (
    Amounts,
    NodeUtilization,
    Utilization,
)

#: Limits of the output: groups of nodes, causes of one group, nodes named as examples.
GROUPS_SHOWN: Final = 12
CAUSES_SHOWN: Final = 8
EXAMPLES: Final = 3

#: Node -> its rejections: the first one, or all of them.
Rejections = Mapping[str, Sequence[Rejection]]


def rejection_lines(
    of_pod: Sequence[Rejection],
    of_nodes: Rejections,
    requests: Amounts,
    utilization: Utilization,
    case: Case | None,
) -> Iterator[str]:
    """Yields why no node is feasible.

    Args:
        of_pod: The rejections before any node was filtered.
        of_nodes: The rejections of each node to explain.
        requests: The requests of the pod.
        utilization: The cluster before the decision.
        case: The pod and the cluster; None = causes are not looked up.
    """
    for rejection in of_pod:
        yield from ("", f"{rejection.plugin} rejected the pod before any node was filtered:")
        yield from (f"  {reason}" for reason in rejection.reasons)
        if case is not None:
            yield from (f"  {cause}" for cause in dict.fromkeys(pod_causes_of(case, rejection)))
    if of_nodes:
        is_all = any(len(of_node) > 1 for of_node in of_nodes.values())
        which = "all rejections of a node" if is_all else "the first rejection of a node counts"
        yield from ("", f"Rejected by ({which}):")
        yield from by_plugin(of_nodes)
        yield from ("", "What is missing, by group of nodes:")
        yield from _by_group(of_nodes, requests, utilization, case)
        if case is not None:
            yield from _notes(of_nodes, case)


def by_plugin(rejections: Rejections) -> Iterator[str]:
    """Yields the number of nodes by plugin and reason."""
    plugins: dict[str, dict[str, list[str]]] = {}
    counts: Counter[str] = Counter()
    for node, of_node in rejections.items():
        for rejection in of_node:
            counts[rejection.plugin] += 1
            for reason in rejection.reasons:
                plugins.setdefault(rejection.plugin, {}).setdefault(reason, []).append(node)
    for plugin, count in counts.most_common():
        yield f"  {plugin}: {nodes_text(count)}"
        reasons = plugins.get(plugin, {})
        for reason, nodes in sorted(reasons.items(), key=lambda item: -len(item[1])):
            yield f"    {len(nodes)} x {reason}: {examples(nodes)}"


def _by_group(
    rejections: Rejections, requests: Amounts, utilization: Utilization, case: Case | None
) -> Iterator[str]:
    groups: dict[str, list[NodeUtilization]] = {}
    for group, nodes in utilization.groups().items():
        rejected_nodes = [node for node in nodes if node.name in rejections]
        if rejected_nodes:
            groups[group] = rejected_nodes
    for group, nodes in list(groups.items())[:GROUPS_SHOWN]:
        yield f"  {nodes_text(len(nodes))} of {group}:"
        lines = list(_group_lines(nodes, rejections, requests, utilization, case))
        yield from (f"    {line}" for line in lines[:CAUSES_SHOWN])
        if len(lines) > CAUSES_SHOWN:
            yield f"    ... and {len(lines) - CAUSES_SHOWN} more causes"
    rest = list(groups.values())[GROUPS_SHOWN:]
    if rest:
        count = sum(map(len, rest))
        yield f"  ... and {nodes_text(count)} in {len(rest)} more groups"


def _group_lines(
    nodes: Sequence[NodeUtilization],
    rejections: Rejections,
    requests: Amounts,
    utilization: Utilization,
    case: Case | None,
) -> Iterator[str]:
    """Yields the causes of a group, those of most nodes first."""
    causes: dict[str, list[NodeUtilization]] = {}
    is_looked_up = set()
    for node in nodes:
        for rejection in rejections[node.name]:
            if case is None or any(map(resource_of, rejection.reasons)):
                texts = rejection.reasons
            else:
                texts = node_causes(case, node.name, rejection)
                is_looked_up.update(set(texts) - set(rejection.reasons))
            for text in texts:
                causes.setdefault(text, []).append(node)
    for text, of_cause in sorted(causes.items(), key=lambda item: -len(item[1])):
        resource = resource_of(text)
        how_many = "all" if len(of_cause) == len(nodes) else str(len(of_cause))
        if resource is not None:
            yield f"{how_many}: {shortage(resource, of_cause, requests, utilization, case)}"
        elif text in is_looked_up:
            yield f"{how_many}: {text} ({names_text([node.name for node in of_cause])})"
        else:
            yield f"{how_many}: {text}"


def node_causes(case: Case, name: str, rejection: Rejection) -> tuple[str, ...]:
    """Returns why a node was rejected, in words."""
    node = case.node(name)
    return rejection.reasons if node is None else causes_of(case, node, rejection)


def causes_on(
    name: str,
    rejection: Rejection,
    requests: Amounts,
    utilization: Utilization,
    case: Case | None,
) -> tuple[str, ...]:
    """Returns why one node was rejected, with its shortages of resources."""
    node = utilization.nodes.get(name)
    if node is not None and any(map(resource_of, rejection.reasons)):
        resources = [resource_of(reason) for reason in rejection.reasons]
        return tuple(
            shortage(resource, [node], requests, utilization, case) if resource else reason
            for resource, reason in zip(resources, rejection.reasons, strict=True)
        )
    return rejection.reasons if case is None else node_causes(case, name, rejection)


def _notes(rejections: Rejections, case: Case) -> Iterator[str]:
    """Yields the notes of each plugin about all nodes that it rejected."""
    for plugin, names in rejected_by(rejections).items():
        nodes = [node for node in map(case.node, names) if node is not None]
        lines = list(notes_of(case, plugin, nodes))
        if lines:
            yield from ("", f"{plugin}:")
            yield from (f"  {line}" for line in lines)


def rejected_by(rejections: Rejections) -> dict[str, list[str]]:
    """Returns the nodes that each plugin rejected, the plugin with most nodes first."""
    nodes: dict[str, list[str]] = {}
    for name, of_node in rejections.items():
        for rejection in of_node:
            for plugin in rejection.plugins:
                nodes.setdefault(plugin, []).append(name)
    return dict(sorted(nodes.items(), key=lambda item: -len(item[1])))


def nodes_text(count: int) -> str:
    """Returns "1 node" or "3 nodes"."""
    return "1 node" if count == 1 else f"{count} nodes"


def examples(nodes: Sequence[str]) -> str:
    """Returns the first names of a list, with "..." if there are more."""
    text = ", ".join(nodes[:EXAMPLES])
    return f"{text}, ..." if len(nodes) > EXAMPLES else text
