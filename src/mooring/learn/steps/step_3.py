"""Step 3: score plugins rank the feasible nodes. The choice among the best is random.

The plugin of this tutorial prefers a node whose name ends with the same digit as the pod's name.
"""

from __future__ import annotations

from collections.abc import Sequence

from mooring import Reject
from mooring.learn.steps import step_2
from mooring.objects import Node, Pod


def last_digit(name: str) -> str:
    """Returns the digit at the end of the name, or ""."""
    return name[-1:] if name[-1:] in tuple("0123456789") else ""


class NodeNumber:
    """Prefers the node with the pod's number: 10 for equal last digits, else 0."""

    name = "NodeNumber"

    def score(self, pod: Pod, node: Node) -> int:
        """Returns 10 or 0; higher is better."""
        digit = last_digit(pod.metadata.name)
        return 10 if digit and digit == last_digit(node.metadata.name) else 0


class Scheduler(step_2.Scheduler):
    """Adds scores to step 2."""

    scorers = (NodeNumber(),)

    def choose(self, pod: Pod) -> str | Reject:
        """Returns a random one of the best feasible nodes."""
        feasible = self.feasible(pod)
        if isinstance(feasible, Reject):
            return feasible
        scores = self.scores(pod, feasible)
        highest = max(scores.values())
        return self.rng.choice([name for name, score in scores.items() if score == highest])

    def scores(self, pod: Pod, nodes: Sequence[Node]) -> dict[str, int]:
        """Returns node name -> sum of the scores of all plugins."""
        totals = {}
        for node in nodes:
            total = sum(plugin.score(pod, node) for plugin in self.scorers)
            totals[node.metadata.name] = total
            self.emit("scored", pod, node.metadata.name, str(total))
        return totals
