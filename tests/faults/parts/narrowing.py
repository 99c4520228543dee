"""The nodes that PreFilter of a scripted plugin leaves, anew at each call.

After calls of extenders PreFilter runs once more if the cluster has changed meanwhile: the node
that was chosen must be one of those that are left then.

Source: pkg/scheduler/schedule_one.go (findNodesThatFitPod, evaluateNominatedNode). *Differs:*
upstream does not filter again after calls of extenders.
"""

from __future__ import annotations

from collections.abc import Sequence

from mooring.clock import Rng
from mooring.framework import Cycle
from mooring.framework.status import PreFilterResult
from mooring.state import PodInfo


class Narrowing:
    """The nodes that are left.

    Args:
        rng: Draws them; None = all nodes are left.
    """

    def __init__(self, rng: Rng | None) -> None:
        self._rng = rng
        #: UID -> the nodes that the last call has left.
        self._left: dict[str, frozenset[str]] = {}

    def left(self, cycle: Cycle, node_names: Sequence[str]) -> PreFilterResult | None:
        """Returns the nodes that are left, at least one of those that exist; None = all."""
        self._left.pop(cycle.pod.uid, None)
        nodes = cycle.snapshot.nodes
        names = [name for name in node_names if nodes.live_row(name) >= 0]
        if self._rng is None or not names or self._rng.random() < 0.4:
            return None
        left = frozenset(self._rng.sample(names, self._rng.randint(1, len(names))))
        self._left[cycle.pod.uid] = left
        return PreFilterResult(left)

    def problem(self, pod: PodInfo, node_name: str) -> str:
        """Returns what is wrong with the node of a pod; "" = nothing.

        As in upstream, PreFilter does not limit the node that the pod is nominated to.
        """
        left = self._left.get(pod.uid, {node_name})
        if node_name in left or node_name == pod.status.nominated_node_name:
            return ""
        return f"{pod.key} is on {node_name}, but PreFilter leaves {sorted(left)}"
