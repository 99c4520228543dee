"""Step 2: filters rule out nodes. The choice among the others is random.

A filter is a plugin: an object with a name and a method that gets a pod and a node. This one is
also in kube-scheduler: cordoned nodes accept no new pods.
"""

from __future__ import annotations

from collections import Counter

from mooring import Reject, Status
from mooring.learn.steps import step_1
from mooring.objects import Node, Pod
from mooring.objects.tolerations import is_tolerated
from mooring.plugins.node_unschedulable import CORDONED


class NodeUnschedulable:
    """Rejects cordoned nodes, unless the pod tolerates their taint."""

    name = "NodeUnschedulable"

    def filter(self, pod: Pod, node: Node) -> Reject | None:
        """Returns why the node is rejected; None = feasible."""
        if node.spec.unschedulable and not is_tolerated(CORDONED, pod.spec.tolerations):
            return Reject("node(s) were unschedulable")
        return None


class Scheduler(step_1.Scheduler):
    """Adds filters to step 1."""

    filters = (NodeUnschedulable(),)

    def choose(self, pod: Pod) -> str | Reject:
        """Returns a random feasible node."""
        feasible = self.feasible(pod)
        return feasible if isinstance(feasible, Reject) else self.rng.choice(feasible).metadata.name

    def feasible(self, pod: Pod) -> list[Node] | Reject:
        """Returns the feasible nodes, or why there are none."""
        nodes, feasible, reasons = list(self.nodes.objects.values()), [], Counter[str]()
        for node in nodes:
            refusal = self.refusal(pod, node)
            if refusal is None:
                feasible.append(node)
            else:
                reasons[refusal.message] += 1
                reason = f"{refusal.plugin}: {refusal.message}"
                self.emit("refused", pod, node.metadata.name, reason)
        if not nodes:
            return Reject("no nodes available to schedule pods")
        counts = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        return feasible or Reject(f"0/{len(nodes)} nodes are available: {counts}.")

    def refusal(self, pod: Pod, node: Node) -> Status | None:
        """Returns the first rejection of the node; later filters are not called."""
        for plugin in self.filters:
            refusal = plugin.filter(pod, node)
            if refusal is not None:
                return refusal.named(plugin.name)
        return None
