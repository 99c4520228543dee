"""The random scheduler: a coin for each node, dice for the ones that are left.

It is what many wrote who wrote their first scheduler, done right: seeded, binding by UID, and a pod
that had no luck is tried again. ``docs/guides/random-scheduler.md`` builds it step by step.

Source: the idea and the texts are those of martonsereg/random-scheduler.
"""

from __future__ import annotations

from typing import Final

from mooring.cluster_event import ClusterEventWithHint
from mooring.framework import Cycle, Diagnosis, NodeInfo, Reject
from mooring.framework.functions import Predicate, Priority
from mooring.framework.interface import Handle
from mooring.framework.status import PostFilterResult
from mooring.state import PodInfo

REASON: Final = "node(s) had no luck"

#: Priorities go from 0 to 99.
PRIORITIES: Final = 100

#: A pod that no coin let pass is tried again after so long.
RETRY_S: Final = 1.0


class RandomPredicate(Predicate):
    """Each node takes the pod or not: a coin is flipped."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        super().__init__(self._flips_heads, "RandomPredicate", REASON)

    def _flips_heads(self, node: NodeInfo, pod: PodInfo) -> bool:
        del node, pod
        return self._handle.random() < 0.5

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Nobody had luck. No event would change that, so the pod is tried again by itself."""
        del diagnosis
        uid = cycle.pod.uid
        self._handle.call_later(RETRY_S, lambda: self._handle.activate(uid))
        return PostFilterResult(Reject())

    def events(self) -> list[ClusterEventWithHint]:
        """Nothing that happens brings luck."""
        return []


class RandomPriority(Priority):
    """Each node is as good as the dice say: 0 to 99."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        super().__init__(self._rolls, "RandomPriority")

    def _rolls(self, node: NodeInfo, pod: PodInfo) -> int:
        del node, pod
        return int(self._handle.random() * PRIORITIES)


class RandomBinder:
    """Binds as DefaultBinder does, and says so in the random scheduler's own words."""

    name = "RandomBinder"

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def bind(self, cycle: Cycle, node_name: str) -> None:
        """Binds the cycle's pod."""
        await self._handle.bind(cycle.pod, node_name)

    def scheduled_note(self, pod: PodInfo, node_name: str) -> str:
        """Returns the text of the event Scheduled."""
        metadata = pod.metadata
        where = f"{metadata.namespace}/{metadata.name}"
        return f"pod [{where}] is successfully scheduled to node {node_name}"
