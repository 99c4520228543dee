"""The random scheduler: filters nodes at random, and scores the feasible ones at random.

An example of a first scheduler: seeded, binding by UID, and with retries of pods that fit no node.
``docs/guides/random-scheduler.md`` builds it step by step.

Source: the idea and the messages are those of martonsereg/random-scheduler.
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

#: The number of different priorities: 0 to 99.
PRIORITIES: Final = 100

#: The delay until a pod is retried for which all nodes failed.
RETRY_S: Final = 1.0


class RandomPredicate(Predicate):
    """Accepts or rejects each node at random, with probability 1/2."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        super().__init__(self._is_accepted, "RandomPredicate", REASON)

    def _is_accepted(self, node: NodeInfo, pod: PodInfo) -> bool:
        del node, pod
        return self._handle.random() < 0.5

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Activates the pod after RETRY_S: no cluster event would make it schedulable."""
        del diagnosis
        uid = cycle.pod.uid
        self._handle.call_later(RETRY_S, lambda: self._handle.activate(uid))
        return PostFilterResult(Reject())

    def events(self) -> list[ClusterEventWithHint]:
        """Registers no events."""
        return []


class RandomPriority(Priority):
    """Scores each node at random: 0 to 99."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        super().__init__(self._random_score, "RandomPriority")

    def _random_score(self, node: NodeInfo, pod: PodInfo) -> int:
        del node, pod
        return int(self._handle.random() * PRIORITIES)


class RandomBinder:
    """Binds as DefaultBinder does, with its own text of the Scheduled event."""

    name = "RandomBinder"

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def bind(self, cycle: Cycle, node_name: str) -> None:
        """Binds the cycle's pod."""
        await self._handle.bind(cycle.pod, node_name)

    def scheduled_note(self, pod: PodInfo, node_name: str) -> str:
        """Returns the text of the Scheduled event."""
        metadata = pod.metadata
        key = f"{metadata.namespace}/{metadata.name}"
        return f"pod [{key}] is successfully scheduled to node {node_name}"
