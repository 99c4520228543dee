"""The difference between two simulations of the same pods."""

from __future__ import annotations

from mooring.errors import ConfigError
from mooring.objects.counts import counted
from mooring.simulation.results import PodResult
from mooring.study.result import Result
from mooring.study.table import Table


class Comparison:
    """The changes from one result to another.

    Attributes:
        moved: Pods on another node: pod, before, after.
        newly_placed: Pods that have a node only in the second result: pod, node.
        newly_refused: Pods that have a node only in the first: pod, node, outcome, reason.
        by_node: Nodes whose number of pods changes: node, lost, gained.
    """

    def __init__(
        self, moved: Table, newly_placed: Table, newly_refused: Table, by_node: Table
    ) -> None:
        self.moved = moved
        self.newly_placed = newly_placed
        self.newly_refused = newly_refused
        self.by_node = by_node

    @property
    def is_equal(self) -> bool:
        """True if every pod has the same node in both results."""
        return not (len(self.moved) or len(self.newly_placed) or len(self.newly_refused))

    def __repr__(self) -> str:
        if self.is_equal:
            return "no pod moves"
        parts = [
            f"{counted(len(self.moved), 'pod')} on another node",
            f"{len(self.newly_placed)} newly placed",
            f"{len(self.newly_refused)} newly refused",
        ]
        return ", ".join(parts)


def compare(before: Result, after: Result) -> Comparison:
    """Returns the difference between two results; pods of only one of them are left out.

    Raises:
        ConfigError: something is not a result, such as a cluster.
    """
    for path, value in (("before", before), ("after", after)):
        if not isinstance(value, Result):
            raise ConfigError("must be a Result of Cluster.simulate", path=path, value=value)
    old = {own.pod: own for own in before.simulation.results}
    moved: list[tuple[str, str, str]] = []
    placed: list[tuple[str, str]] = []
    refused: list[tuple[str, str, str, str]] = []
    for new in after.simulation.results:
        own = old.get(new.pod)
        if own is None or own.node == new.node:
            continue
        if own.node and new.node:
            moved.append((new.pod, own.node, new.node))
        elif new.node:
            placed.append((new.pod, new.node))
        else:
            refused.append((new.pod, own.node, new.outcome, _reason(new)))
    lost: dict[str, int] = {}
    gained: dict[str, int] = {}
    for node in [*(row[1] for row in moved), *(row[1] for row in refused)]:
        lost[node] = lost.get(node, 0) + 1
    for node in [*(row[2] for row in moved), *(row[1] for row in placed)]:
        gained[node] = gained.get(node, 0) + 1
    nodes = [(node, lost.get(node, 0), gained.get(node, 0)) for node in sorted({*lost, *gained})]
    return Comparison(
        Table.of_rows(("pod", "before", "after"), moved),
        Table.of_rows(("pod", "node"), placed),
        Table.of_rows(("pod", "node", "outcome", "reason"), refused),
        Table.of_rows(("node", "lost", "gained"), nodes),
    )


def _reason(result: PodResult) -> str:
    return ", ".join(f"{count} {text}" for text, count in result.reasons.items()) or result.message
