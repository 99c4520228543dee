"""Step 2: filters say which nodes can take the pod at all. Chance chooses among these.

A filter is a plugin: an object with a name and a method that is asked about a pod and a node. Here
is one that kube-scheduler has too: nodes that somebody has cordoned take no new pods.
"""

from __future__ import annotations

from collections import Counter

from mooring import Reject, Status
from mooring.learn.steps import step_1
from mooring.objects import Node, Pod
from mooring.objects.tolerations import is_tolerated
from mooring.plugins.node_unschedulable import CORDONED


class NodeUnschedulable:
    """Refuses nodes that are cordoned, unless the pod tolerates that."""

    name = "NodeUnschedulable"

    def filter(self, pod: Pod, node: Node) -> Reject | None:
        """None: nothing is against it."""
        if node.spec.unschedulable and not is_tolerated(CORDONED, pod.spec.tolerations):
            return Reject("node(s) were unschedulable")
        return None


class Scheduler(step_1.Scheduler):
    """As before, but not every node will do."""

    filters = (NodeUnschedulable(),)

    def choose(self, pod: Pod) -> str | Reject:
        """Any node that no filter refuses."""
        feasible = self.feasible(pod)
        return feasible if isinstance(feasible, Reject) else self.rng.choice(feasible).metadata.name

    def feasible(self, pod: Pod) -> list[Node] | Reject:
        """The nodes that can take the pod; if there are none, why not."""
        nodes, found, reasons = list(self.nodes.objects.values()), [], Counter[str]()
        for node in nodes:
            refusal = self.refusal(pod, node)
            if refusal is None:
                found.append(node)
            else:
                reasons[refusal.message] += 1
                told = f"{refusal.plugin}: {refusal.message}"
                self.tell("refused", pod, node.metadata.name, told)
        if not nodes:
            return Reject("no nodes available to schedule pods")
        told = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        return found or Reject(f"0/{len(nodes)} nodes are available: {told}.")

    def refusal(self, pod: Pod, node: Node) -> Status | None:
        """What the first filter says that refuses the node; the others are not asked."""
        for plugin in self.filters:
            refusal = plugin.filter(pod, node)
            if refusal is not None:
                return refusal.named(plugin.name)
        return None
