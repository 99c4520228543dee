"""A line for every node: its total score, or why it was rejected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mooring.decision import Decision, Rejection
from mooring.simulation.utilization import Utilization


def node_lines(
    decision: Decision,
    causes: Mapping[str, Sequence[tuple[Rejection, Sequence[str]]]],
    utilization: Utilization,
) -> Iterator[str]:
    """Yields the nodes: the scored ones, best first, then the others in the cluster's order."""
    total = decision.total or {}
    scored = sorted(total, key=lambda name: (-total[name], name != decision.node))
    for name in scored:
        yield f"  {name}: score {total[name]}"
    for name in utilization.nodes:
        of_node = causes.get(name, ())
        if of_node:
            texts = (f"{item.plugin}: {cause}" for item, of_item in of_node for cause in of_item)
            yield f"  {name}: {'; '.join(texts)}"
        elif name == decision.node and name not in total:
            yield f"  {name}: chosen"
        elif name not in total:
            yield f"  {name}: not rejected"
