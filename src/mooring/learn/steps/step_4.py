"""Step 4: what a plugin must know of the pod is worked out once an attempt, not once a node.

PreScore runs before Score; what it notes in the cycle is there for the plugin's other methods, and
gone with the attempt. To carry that, mooring's ``Framework`` takes the place of our own loops: it
does what steps 2 and 3 did, point by point, and asks each plugin about all nodes at once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mooring import Cycle, Diagnosis, NodeView, PodInfo, Reject
from mooring.client import Change, Client
from mooring.clock import Clock, Rng
from mooring.framework import Attempt, Placement, schedule_pod
from mooring.learn import Tell, tell_decision, tutorial_framework
from mooring.learn.steps import step_1
from mooring.learn.steps.step_3 import last_digit
from mooring.objects import Pod
from mooring.plugins import NodeUnschedulable
from mooring.scheduler.plugin_handle import PluginHandle
from mooring.state import Cache


class NodeNumber:
    """Likes the node that has the pod's number; a pod without one likes all nodes alike."""

    name = "NodeNumber"

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> None:  # noqa: ARG002
        """Note the pod's digit, or that it has none."""
        cycle[self] = last_digit(cycle.pod.metadata.name)

    def score(self, cycle: Cycle, nodes: NodeView) -> npt.NDArray[np.int64]:
        """10 for each node that ends with the digit, else 0."""
        digit = cycle[self]
        is_equal = [digit != "" and last_digit(name) == digit for name in nodes.names]
        return 10 * np.array(is_equal, dtype=np.int64)


class Scheduler(step_1.Scheduler):
    """As before, but the framework runs the plugins, on the nodes that the cache knows."""

    def __init__(self, client: Client, name: str, *, clock: Clock, rng: Rng, tell: Tell) -> None:
        super().__init__(client, name, clock=clock, rng=rng, tell=tell)
        self.cache = Cache()
        self.handle = PluginHandle(self.cache, client, clock=clock, rng=rng)
        waiting = self.handle.waiting
        self.framework = tutorial_framework(
            name, self.plugins(), clock=clock, rng=rng, waiting=waiting
        )

    def plugins(self) -> list[object]:
        """Who is asked; the filter is that of step 2, as mooring has it."""
        return [NodeUnschedulable(), NodeNumber()]

    def on_node(self, change: Change) -> None:
        """Keep the cache as the cluster is."""
        if change.new is None:
            self.cache.remove_node(change.old.metadata.name)
        else:
            self.cache.put_node(change.new)

    def choose(self, pod: Pod) -> str | Reject:
        """One of the best nodes, or why there is none."""
        _, found = self.decide(PodInfo(pod))
        return Reject(found.message) if isinstance(found, Diagnosis) else found.node_name

    def decide(self, pod: PodInfo) -> tuple[Cycle, Placement | Diagnosis]:
        """One attempt: all plugins look at the same snapshot of the cluster."""
        snapshot = self.cache.snapshot()
        cycle, attempt = self.framework.new_cycle(pod, snapshot), Attempt(snapshot)
        found = schedule_pod(self.framework, cycle, attempt)
        tell_decision(self.tell, pod, attempt, found)
        return cycle, found
