"""The node at which each attempt begins, and an extender that is called for half of the pods.

Of many nodes a hundred are enough, so that an attempt ends behind them: also if the extender
rejects all of them, or fails. Without a verb that compares nodes the first that fits is enough.

In half of the runs the cluster seems to change during each call. Then plugins are called once more,
which may reject the pod: the attempt starts over, three times at most. If they raise, it fails.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from random import Random
from typing import Any, Final

from mooring.errors import ExtenderError, PluginError, SchedulerError
from mooring.framework import Attempt, Diagnosis, Placement, Reject
from mooring.framework.extender import FilterResult, PrioritizeResult
from mooring.framework.status import PostFilterResult, Status
from mooring.queue import QueuedPod
from mooring.scheduler.observer import Observer
from mooring.state import PodInfo

#: So many nodes there are, and so many are enough to compare, whatever the percentage.
MANY_NODES: Final = 130
ENOUGH: Final = 100
PERCENTAGE: Final = 1
FAILING: Final = 0.1
REJECTING: Final = 0.1
TRIES_MAX: Final = 3
CHANGED: Final = "the cluster changed 3 times while extenders were called"
FITS, REFUSED, RAISED = "fits", "refused", "raised"


class SlowExtender:
    """An extender that answers late, rejects all nodes, or fails.

    Attributes:
        name: Its URL.
        is_ignorable: Whether attempts go on without it.
        weight: The factor of its scores.
        has_filter: Whether it filters nodes.
        has_prioritize: Whether it scores nodes.
        called: UIDs of the pods whose nodes were sent in this attempt.
        is_changing: Whether the cluster seems to change during each call.
        checks: UID -> the results of the plugins after the calls for an attempt.
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
        self._sent: set[str] = set()
        self.is_changing = rng.random() < 0.5
        self._refusing = rng.choice((0.1, 0.7))
        self.checks: dict[str, list[str]] = {}

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

    def buffer_events(self) -> AbstractContextManager[Mapping[tuple[str, str], Any]]:
        """Returns the events that are buffered during the calls: one, or none."""
        return nullcontext({("Node", "a"): None} if self.is_changing else {})

    def pre_filter(self, pod: PodInfo) -> Status | None:
        """Rejects a pod, or raises, if the plugins are called once more after the calls."""
        if pod.uid not in self._sent:
            return None
        self._sent.discard(pod.uid)
        refused, raised = self._rng.random() < self._refusing, self._rng.random() < FAILING
        result = RAISED if raised else REFUSED if refused else FITS
        self.checks.setdefault(pod.uid, []).append(result)
        if raised:
            raise ValueError("cannot tell")
        return Reject("changed") if refused else None

    def end_try(self, uid: str) -> None:
        """Follows a try that ends without a node."""
        self._sent.discard(uid)

    async def _answer(self, pod: PodInfo) -> None:
        self.called.add(pod.uid)
        if self.is_changing:
            self._sent.add(pod.uid)
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
        self._tries: Counter[str] = Counter()

    def attempted(self, entry: QueuedPod, attempt: Attempt, result: Placement | Diagnosis) -> None:
        """Compares the first node, and counts those that were looked at."""
        if attempt.start_index != self._start:
            first = f"begins at node {attempt.start_index}, not {self._start}"
            self._report(f"the attempt at {entry.pod.key} {first}")
        self._start = attempt.start_index
        self._tries[entry.uid] += 1
        if self._extender is not None and not isinstance(result, Placement):
            self._extender.end_try(entry.uid)
        self._end(entry, has_filtered=isinstance(result, Placement))

    def failed(self, entry: QueuedPod, why: Diagnosis | Status | SchedulerError) -> None:
        """Counts the nodes of an attempt that an extender has failed."""
        if isinstance(why, ExtenderError):
            self._end(entry, has_filtered=True)
        checks, tries = self._checks(entry.uid)
        is_changed = CHANGED in str(why)
        if is_changed and not checks:
            # Without a node victims are compared, which are gone.
            is_right = tries == TRIES_MAX
        else:
            is_right = is_changed is (checks == [REFUSED] * TRIES_MAX) and tries <= TRIES_MAX
        if not is_right:
            self._report(f"{entry.pod.key} fails with {why} after {tries} tries: {checks}")
        if isinstance(why, PluginError) is not (RAISED in checks):
            self._report(f"{entry.pod.key} fails with {why!r} after {checks}")

    def preempts(self, entry: QueuedPod, post_filter_result: PostFilterResult) -> None:
        """Checks that no victims are evicted that are gone after the calls, as all are here."""
        extender = self._extender
        if extender and extender.is_changing and extender.is_interested(entry.pod):
            names = [victim.key for victim in post_filter_result.victims]
            self._report(f"{entry.pod.key} evicts {names}, which are gone")

    def bound(self, entry: QueuedPod, node_name: str) -> None:
        """Checks that the pod fits the node after the last call."""
        del node_name
        checks, tries = self._checks(entry.uid)
        if checks and checks != [*[REFUSED] * (tries - 1), FITS]:
            self._report(f"{entry.pod.key} is bound after {tries} tries: {checks}")

    def _checks(self, uid: str) -> tuple[list[str], int]:
        """Returns the checks and the number of tries of the attempt that has ended."""
        if self._extender is not None:
            self._extender.end_try(uid)
        checks = self._extender.checks.pop(uid, []) if self._extender is not None else []
        return checks, self._tries.pop(uid, 0)

    def _end(self, entry: QueuedPod, *, has_filtered: bool) -> None:
        called = set() if self._extender is None else self._extender.called
        if has_filtered or entry.uid in called:
            self._start = (self._start + self._enough) % self._n_nodes
        called.discard(entry.uid)
