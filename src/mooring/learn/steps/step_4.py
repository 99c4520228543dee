"""Step 4: what depends only on the pod is computed once per attempt, not once per node.

PreScore runs before Score. It stores a value in the cycle for the plugin's other methods; the cycle
ends with the attempt. mooring's ``Framework`` replaces the loops of steps 2 and 3: it calls the
extension points in order, and each plugin once for all nodes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mooring import Cycle, Diagnosis, NodeView, PodInfo, Reject
from mooring.client import Client, ObjectChange
from mooring.clock import Clock, Rng
from mooring.framework import Attempt, Placement, schedule_pod
from mooring.learn import EventSink, emit_decision, tutorial_framework
from mooring.learn.steps import step_1
from mooring.learn.steps.step_3 import last_digit
from mooring.objects import Pod
from mooring.plugins import NodeUnschedulable
from mooring.scheduler.plugin_handle import PluginHandle
from mooring.state.apply import apply_change
from mooring.state.cache import Cache


class NodeNumber:
    """Prefers the node with the pod's number; for a pod without one all nodes are equal."""

    name = "NodeNumber"

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> None:  # noqa: ARG002
        """Stores the pod's digit, or "" if it has none."""
        cycle[self] = last_digit(cycle.pod.metadata.name)

    def score(self, cycle: Cycle, nodes: NodeView) -> npt.NDArray[np.int64]:
        """Returns 10 for each node that ends with the digit, else 0."""
        digit = cycle[self]
        is_equal = [digit != "" and last_digit(name) == digit for name in nodes.names]
        return 10 * np.array(is_equal, dtype=np.int64)


class Scheduler(step_1.Scheduler):
    """Runs the plugins with the framework, on the nodes of the cache."""

    def __init__(
        self, client: Client, name: str, *, clock: Clock, rng: Rng, emit: EventSink
    ) -> None:
        super().__init__(client, name, clock=clock, rng=rng, emit=emit)
        self.cache = Cache()
        self.handle = PluginHandle(self.cache, client, clock=clock, rng=rng)
        waiting = self.handle.waiting
        self.framework = tutorial_framework(
            name, self.plugins(), clock=clock, rng=rng, waiting=waiting
        )

    def plugins(self) -> list[object]:
        """Returns the plugins; the filter is mooring's version of that in step 2."""
        return [NodeUnschedulable(), NodeNumber()]

    def on_node(self, change: ObjectChange) -> None:
        """Updates the cache."""
        apply_change(self.cache, "Node", change.old, change.new)

    def choose(self, pod: Pod) -> str | Reject:
        """Returns one of the best nodes, or why there is none."""
        _, result = self.decide(PodInfo(pod))
        return Reject(result.message) if isinstance(result, Diagnosis) else result.node_name

    def decide(self, pod: PodInfo) -> tuple[Cycle, Placement | Diagnosis]:
        """Runs one attempt: all plugins see the same snapshot of the cluster."""
        snapshot = self.cache.snapshot()
        cycle, attempt = self.framework.new_cycle(pod, snapshot), Attempt(snapshot)
        result = schedule_pod(self.framework, cycle, attempt)
        emit_decision(self.emit, pod, attempt, result)
        return cycle, result
