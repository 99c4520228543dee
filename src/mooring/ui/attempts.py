"""The latest scheduling attempts of a running scheduler, as the page lists them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

import msgspec

from mooring.clock import Clock
from mooring.decision import ERROR, SCHEDULED, UNSCHEDULABLE
from mooring.errors import SchedulerError
from mooring.framework import Attempt, Diagnosis, Placement
from mooring.framework.runtime.attempt_copy import AttemptCopy
from mooring.framework.status import PostFilterResult, Status
from mooring.objects.pod import Pod
from mooring.queue import QueuedPod
from mooring.scheduler.observer import Observer
from mooring.scheduler.reporting import error_text
from mooring.ui.whole_attempts import WholeAttempts

#: Number of attempts that are kept.
ATTEMPTS_MAX: Final = 10_000

#: The result of an attempt that evicts pods, and of one that ended after a node was selected.
PREEMPTS, REJECTED = "preempts", "rejected"


class AttemptRecord(msgspec.Struct, omit_defaults=True, rename="camel"):
    """One attempt.

    Attributes:
        number: Rises by one for each attempt of the scheduler.
        pod: "namespace/name".
        uid: The pod's UID.
        time_s: When it was made; seconds since 1970.
        result: ``scheduled``, ``unschedulable``, ``preempts``, ``rejected`` (in Reserve, Permit or
            by PreBind) or ``error``.
        node: The selected or nominated node; "" = none.
        message: Why the pod has no node, in kube-scheduler's words.
        feasible: Number of feasible nodes.
        evaluated: Number of nodes that were evaluated.
        plugins: The plugins that rejected it.
        victims: The pods that are evicted for it.
        runner_up: The second best node; "" = there was none, or no page was open.
        score: The total score of the selected node.
        runner_up_score: That of the second best.
        is_whole: Whether the verdict on each node was kept; only the latest of these still are.
    """

    number: int
    pod: str
    uid: str
    time_s: float
    result: str
    node: str = ""
    message: str = ""
    feasible: int = 0
    evaluated: int = 0
    plugins: tuple[str, ...] = ()
    victims: tuple[str, ...] = ()
    runner_up: str = ""
    score: int | None = None
    runner_up_score: int | None = None
    is_whole: bool = False


class AttemptLog(Observer):
    """Keeps the latest attempts.

    Attributes:
        is_watched: Whether a page is open: only then runner-ups are determined, and the verdict
            on each node is kept.
        last_number: The number of the last attempt; 0 before the first.
        weights_of: Returns the weight of each score plugin for a pod.
    """

    weights_of: Callable[[Pod], Mapping[str, int]]

    def __init__(self, clock: Clock, limit: int = ATTEMPTS_MAX) -> None:
        self.is_watched = False
        self.last_number = 0
        self._clock = clock
        self._records: deque[AttemptRecord] = deque(maxlen=limit)
        self._whole = WholeAttempts(clock)
        self.weights_of = lambda _: {}

    def since(self, number: int, limit: int) -> list[AttemptRecord]:
        """Returns the latest attempts after a number, the oldest first; at most ``limit``."""
        count = min(self.last_number - number, len(self._records), limit)
        return list(islice(self._records, len(self._records) - max(0, count), None))

    def of_pod(self, uid: str) -> list[AttemptRecord]:
        """Returns the attempts of a pod, the oldest first."""
        return [record for record in self._records if record.uid == uid]

    def get(self, number: int) -> AttemptRecord | None:
        """Returns an attempt by its number; None = it is not kept."""
        oldest = self.last_number - len(self._records) + 1
        return self._records[number - oldest] if oldest <= number <= self.last_number else None

    def whole(self, number: int) -> AttemptCopy | None:
        """Returns an attempt with the verdict on each node; None = it is not kept."""
        return self._whole.get(number)

    def matching(self, *, result: str, text: str, limit: int) -> Iterator[AttemptRecord]:
        """Yields the latest attempts with a result and a part of the pod's name, latest first."""
        matches = (
            record
            for record in reversed(self._records)
            if (not result or record.result == result) and (not text or text in record.pod)
        )
        return islice(matches, limit)

    # -- called by the scheduler ------------------------------------------------------------------

    def attempted(self, entry: QueuedPod, attempt: Attempt, result: Placement | Diagnosis) -> None:
        """Notes an attempt."""
        if isinstance(result, Diagnosis):
            record = self._add(entry, UNSCHEDULABLE, "", result.message)
            record.evaluated = result.node_count
            record.plugins = tuple(sorted(result.unschedulable_plugins | result.pending_plugins))
            self._keep(record, entry, attempt)
            return
        record = self._add(entry, SCHEDULED, result.node_name, "")
        record.feasible, record.evaluated = result.feasible_count, result.evaluated_count
        best = attempt.best_two(result.row) if self.is_watched else None
        if best is not None:
            record.score, record.runner_up, record.runner_up_score = best
        self._keep(record, entry, attempt)

    def preempts(self, entry: QueuedPod, post_filter_result: PostFilterResult) -> None:
        """Notes the victims of the last attempt."""
        record = self._last_of(entry)
        if record is not None:
            record.result = PREEMPTS
            record.node = post_filter_result.node_name or ""
            record.victims = tuple(victim.key for victim in post_filter_result.victims)

    def failed(self, entry: QueuedPod, why: Diagnosis | Status | SchedulerError) -> None:
        """Notes why an attempt failed after a node had been selected."""
        if isinstance(why, Diagnosis):
            return
        record = self._last_of(entry)
        is_error = isinstance(why, SchedulerError)
        result = ERROR if is_error else REJECTED
        message = error_text(why) if isinstance(why, SchedulerError) else why.message
        if record is None or record.result != SCHEDULED:
            record = self._add(entry, result, "", message)
        record.result, record.message = result, message
        if isinstance(why, Status) and why.plugin:
            record.plugins = (why.plugin,)

    def _keep(self, record: AttemptRecord, entry: QueuedPod, attempt: Attempt) -> None:
        if self.is_watched:
            weights = self.weights_of(entry.pod.pod)
            self._whole.add(record.number, attempt, record.node, weights)
            record.is_whole = record.number in self._whole

    def _add(self, entry: QueuedPod, result: str, node: str, message: str) -> AttemptRecord:
        self.last_number += 1
        record = AttemptRecord(
            self.last_number, entry.pod.key, entry.uid, self._clock.wall_s(), result, node, message
        )
        self._records.append(record)
        return record

    def _last_of(self, entry: QueuedPod) -> AttemptRecord | None:
        """Returns the last attempt of a pod, if it is among the last hundred."""
        latest = islice(reversed(self._records), 100)
        return next((record for record in latest if record.uid == entry.uid), None)
