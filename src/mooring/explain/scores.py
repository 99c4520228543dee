"""Explains a placement: the scores of the best nodes, the runner-up, and how ties were broken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from mooring.decision import BATCHED, FIRST, NOMINATED, UNORDERED, Decision
from mooring.explain.rejections import Rejections, by_plugin, examples, nodes_text
from mooring.simulation.report import aligned

#: Nodes whose scores are compared.
NODES_COMPARED: Final = 5

#: Columns of a terminal, if it does not say.
WIDTH: Final = 80


def placement_lines(
    decision: Decision,
    weights: Mapping[str, int] | None,
    rejections: Rejections,
    *,
    width: int = WIDTH,
) -> Iterator[str]:
    """Yields why the pod goes to its node.

    Args:
        decision: The decision.
        weights: Plugin -> weight of its score; None = 1 for all.
        rejections: The rejections of each node to explain.
        width: The columns that the table may have.
    """
    if decision.total:
        yield from ("", f"Feasible: {nodes_text(len(decision.total))}. Scores of the best ones:")
        yield from _table(decision, weights, width)
        yield from _gap(decision, weights)
    elif decision.choice is None:
        yield from ("", "It is the only feasible node, so nothing was scored.")
    yield from _choice(decision)
    if rejections:
        yield from ("", f"Rejected: {nodes_text(len(rejections))}")
        yield from by_plugin(rejections)


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
        yield from ("", f"Tied with {nodes_text(len(others))}: {examples(others)}")
        if decision.choice == UNORDERED:
            yield "The nodes were visited in no fixed order, so any of them is a correct choice."
        else:
            yield "Ties are broken by the order in which the nodes were visited."


def _ranked(decision: Decision) -> list[str]:
    """Returns the scored nodes, best first: the chosen one, those tied with it, the others."""
    total = decision.total or {}
    return sorted(total, key=lambda node: (-total[node], node != decision.node))


def _table(decision: Decision, weights: Mapping[str, int] | None, width: int) -> Iterator[str]:
    """Yields the scores; the nodes have numbers if their names are too long for the width."""
    nodes = _ranked(decision)[:NODES_COMPARED]
    scores = decision.scores or {}
    zero = sorted(plugin for plugin, by_node in scores.items() if not any(by_node.values()))
    rows = list(_rows(decision, weights, nodes, frozenset(zero)))
    lines = aligned([("", *nodes), *rows])
    if max(map(len, lines)) > width:
        numbers = [f"({number})" for number in range(1, len(nodes) + 1)]
        lines = aligned([("", *numbers), *rows])
        lines += [f"  {number} {node}" for number, node in zip(numbers, nodes, strict=True)]
    yield from lines
    if zero:
        yield f"Score 0 on all nodes: {', '.join(zero)}."


def _rows(
    decision: Decision,
    weights: Mapping[str, int] | None,
    nodes: Sequence[str],
    zero: frozenset[str],
) -> Iterator[tuple[str, ...]]:
    for plugin, scores in sorted((decision.scores or {}).items()):
        weight = weights.get(plugin, 1) if weights is not None else 1
        label = f"{plugin} x {weight}" if weight != 1 else plugin
        if plugin not in zero:
            yield label, *(str(scores[node] * weight) for node in nodes)
    total = decision.total or {}
    yield "total", *(str(total[node]) for node in nodes)


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
