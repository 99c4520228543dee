"""The node at which each attempt begins, and an extender that is called for half of the pods.

Of many nodes a hundred are enough, so that an attempt ends behind them: also if the extender
rejects all of them, or fails. Without a verb that compares nodes the first that fits is enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from mooring.errors import ExtenderError, SchedulerError
from mooring.framework import Attempt, Diagnosis, Placement
from mooring.framework.extender import FilterResult, PrioritizeResult
from mooring.framework.status import Status
from mooring.queue import QueuedPod
from mooring.scheduler.observer import Observer
from mooring.state import PodInfo

#: So many nodes there are, and so many are enough to compare, whatever the percentage.
MANY_NODES: Final = 130
ENOUGH: Final = 100
PERCENTAGE: Final = 1
FAILING: Final = 0.1
REJECTING: Final = 0.1


class SlowExtender:
    """An extender that answers late, rejects all nodes, or fails.

    Attributes:
        name: Its URL.
        is_ignorable: Whether attempts go on without it.
        weight: The factor of its scores.
        has_filter: Whether it filters nodes.
        has_prioritize: Whether it scores nodes.
        called: UIDs of the pods whose nodes were sent in this attempt.
    """

    name = "http://slow"
    weight = 1
    has_preempt = has_bind = False

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.is_ignorable = rng.random() < 0.5
        self.has_filter = rng.random() < 0.7
        self.has_prioritize = rng.random() < 0.5
        self.called: set[str] = set()

    @property
    def enough(self) -> int:
        """The number of nodes after which an attempt looks at no other."""
        return ENOUGH if self.has_filter or self.has_prioritize else 1

    def is_interested(self, pod: PodInfo) -> bool:
        """Returns whether it is called for this pod."""
        return int(pod.metadata.name.rpartition("-")[2]) % 2 == 0

    async def filter(self, pod: PodInfo, names: Sequence[str]) -> FilterResult:
        """Accepts all nodes, or none."""
        await self._answer(pod)
        is_rejecting = self._rng.random() < REJECTING
        return FilterResult([] if is_rejecting else names, {}, {})

    async def prioritize(self, pod: PodInfo, names: Sequence[str]) -> PrioritizeResult:
        """Scores all nodes."""
        await self._answer(pod)
        return PrioritizeResult(names, [self._rng.randrange(11) for _ in names])

    async def _answer(self, pod: PodInfo) -> None:
        self.called.add(pod.uid)
        await asyncio.sleep(self._rng.choice((0.0, 0.0, 0.5)))
        if self._rng.random() < FAILING:
            raise ExtenderError("out of order")


class Starts(Observer):
    """Checks at which node each attempt begins.

    Args:
        n_nodes: The number of nodes; plugins accept all.
        extender: Is called for some pods; None = there is no extender.
        report: Called with each problem.
    """

    def __init__(
        self, n_nodes: int, extender: SlowExtender | None, report: Callable[[str], None]
    ) -> None:
        self._n_nodes, self._extender, self._report = n_nodes, extender, report
        self._enough = min(n_nodes, 1 if extender is None else extender.enough)
        self._start = 0

    def attempted(self, entry: QueuedPod, attempt: Attempt, result: Placement | Diagnosis) -> None:
        """Compares the first node, and counts those that were looked at."""
        if attempt.start_index != self._start:
            first = f"begins at node {attempt.start_index}, not {self._start}"
            self._report(f"the attempt at {entry.pod.key} {first}")
        self._start = attempt.start_index
        self._end(entry, has_filtered=isinstance(result, Placement))

    def failed(self, entry: QueuedPod, why: Diagnosis | Status | SchedulerError) -> None:
        """Counts the nodes of an attempt that an extender has failed."""
        if isinstance(why, ExtenderError):
            self._end(entry, has_filtered=True)

    def _end(self, entry: QueuedPod, *, has_filtered: bool) -> None:
        called = set() if self._extender is None else self._extender.called
        if has_filtered or entry.uid in called:
            self._start = (self._start + self._enough) % self._n_nodes
        called.discard(entry.uid)
