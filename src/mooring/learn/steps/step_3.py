"""Step 3: score plugins say how good each node is. Chance chooses among the best.

The plugin of this tutorial likes a node whose name ends with the same digit as the pod's name.
"""

from __future__ import annotations

from collections.abc import Sequence

from mooring import Reject
from mooring.learn.steps import step_2
from mooring.objects import Node, Pod


def last_digit(name: str) -> str:
    """The digit that the name ends with; "" if it ends with none."""
    return name[-1:] if name[-1:] in tuple("0123456789") else ""


class NodeNumber:
    """Likes the node that has the pod's number: 10 for equal last digits, else 0."""

    name = "NodeNumber"

    def score(self, pod: Pod, node: Node) -> int:
        """More is better."""
        digit = last_digit(pod.metadata.name)
        return 10 if digit and digit == last_digit(node.metadata.name) else 0


class Scheduler(step_2.Scheduler):
    """As before, but some nodes are better than others."""

    scorers = (NodeNumber(),)

    def choose(self, pod: Pod) -> str | Reject:
        """Any of the best nodes that no filter refuses."""
        feasible = self.feasible(pod)
        if isinstance(feasible, Reject):
            return feasible
        scores = self.scores(pod, feasible)
        highest = max(scores.values())
        return self.rng.choice([name for name, score in scores.items() if score == highest])

    def scores(self, pod: Pod, nodes: Sequence[Node]) -> dict[str, int]:
        """Node name -> what all score plugins give it together."""
        totals = {}
        for node in nodes:
            total = sum(plugin.score(pod, node) for plugin in self.scorers)
            totals[node.metadata.name] = total
            self.tell("scored", pod, node.metadata.name, str(total))
        return totals
