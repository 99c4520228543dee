"""Compares metrics with what the scheduler did.

That is counted from outside: pods that are popped, moves of the queue, calls of the observer, and
of preemptions what was decided in which attempt, and what of it was carried out. Each counter and
gauge has to agree with it, every seven seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from mooring.cluster_event import UNSCHEDULABLE_TIMEOUT
from mooring.framework import Diagnosis
from mooring.framework.status import Code, Status
from mooring.metrics.registry import Metrics
from mooring.queue import QueueName
from mooring.scheduler.metrics import SchedulerMetrics
from mooring.scheduler.service import Service
from tests.faults.twins.attached_queue import AttachedQueue
from tests.faults.twins.preemption_log import PreemptionLog

#: Seconds between two comparisons: a refresh takes a millisecond.
EVERY: Final = 7

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"
#: Gated pods count as unschedulable there, and pods in flight do not.
LABELS: Final = {
    QueueName.ACTIVE: "active",
    QueueName.BACKOFF: "backoff",
    QueueName.UNSCHEDULABLE: "unschedulable",
    QueueName.GATED: "unschedulable",
}
REJECTIONS: Final = (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING)


class ActionLog:
    """The log of what a scheduler did, and its metrics.

    Args:
        service: Has these metrics, and has not begun yet.
        metrics: Of the service.
        queue: Reports the calls of its queue.
        report: Called with each difference.
    """

    def __init__(
        self,
        service: Service,
        metrics: Metrics,
        queue: AttachedQueue,
        report: Callable[[str], None],
    ) -> None:
        self._service, self._metrics, self._report = service, metrics, report
        self._queue = queue
        # That of the sizes of all buffers takes a tenth of a second.
        self._refreshes = [
            refresh
            for refresh in metrics._on_scrape
            if refresh.__qualname__.startswith(SchedulerMetrics.__name__)
        ]
        self._results: Counter[str] = Counter()
        self._incoming: Counter[tuple[str, str]] = Counter()
        #: UID -> label of the queue that a pod is in.
        self._labels: dict[str, str | None] = {}
        #: Label of the event that requeues pods at this moment; None = there is none.
        self._event: str | None = None
        self._preemptions = PreemptionLog(service, report)
        self._pops: Counter[str] = Counter()
        #: Attempts of bound pods, by their number of pops.
        self._attempts: list[int] = []
        self._skipped = self._ticks = 0
        self._follow_observer(service.scheduler._observer)
        self._follow_calls(service)

    def _follow_observer(self, observer: Any) -> None:
        for name in ("failed", "bound"):
            self._follow(observer, name, getattr(self, f"_on_{name}"))

    def _follow_calls(self, service: Service) -> None:
        scheduler: Any = service.scheduler
        self._follow(scheduler._reporting, "skipped", self._on_skipped)
        self._follow(scheduler._reporting, "failed_for_good", self._on_failed_for_good)
        queue: Any = service.queue
        real_pop, real_note = queue.pop, queue._queues.on_move

        def pop() -> Any:
            entry = real_pop()
            if entry is not None:
                self._pops[entry.uid] += 1
            return entry

        def note(entry: Any, queue_name: QueueName, why: str) -> None:
            label = LABELS.get(queue_name)
            # Pods that are gated, or are not any longer, stay among the unschedulable ones.
            is_gated_anew = label == "unschedulable" and self._labels.get(entry.uid) == label
            if label is not None and not is_gated_anew:
                self._incoming[label, why] += 1
            self._labels[entry.uid] = label
            real_note(entry, queue_name, why)

        queue.pop = pop
        queue._queues.on_move = note
        self._follow_events(queue)

    def _follow_events(self, queue: Any) -> None:
        """Counts pods that an event takes out of the unschedulable ones, and PreEnqueue puts back.

        kube-scheduler counts them like pods that come from elsewhere.
        """
        real_move, real_flush = queue.move, queue.flush
        real_passes = queue._queues._passes_pre_enqueue

        def move(event: Any, *arguments: Any, **named: Any) -> None:
            self._event = event.label
            real_move(event, *arguments, **named)
            self._event = None

        def flush() -> None:
            self._event = UNSCHEDULABLE_TIMEOUT.label
            real_flush()
            self._event = None

        def passes(entry: Any) -> bool:
            passed: bool = real_passes(entry)
            was_here = self._labels.get(entry.uid) == "unschedulable"
            if not passed and was_here and self._event is not None:
                self._incoming["unschedulable", self._event] += 1
            return passed

        queue.move, queue.flush = move, flush
        queue._queues._passes_pre_enqueue = passes

    def _follow(self, owner: Any, name: str, follow: Callable[..., None]) -> None:
        real = getattr(owner, name)

        def call(*args: Any, **named: Any) -> Any:
            follow(*args)
            return real(*args, **named)

        setattr(owner, name, call)

    # -- what happens -----------------------------------------------------------------------------

    def _on_failed(self, entry: Any, why: Any) -> None:
        del entry
        self._results[_result_of(why)] += 1

    def _on_failed_for_good(self, pod: Any, why: Any) -> None:
        del pod
        self._results[_result_of(why)] += 1

    def _on_bound(self, entry: Any, node_name: str) -> None:
        del node_name
        self._results[SCHEDULED] += 1
        self._attempts.append(self._pops[entry.uid])

    def _on_skipped(self, _: Any) -> None:
        self._skipped += 1

    # -- comparison -------------------------------------------------------------------------------

    def on_tick(self) -> None:
        """Compares every ``EVERY`` calls; called once per second."""
        self._ticks += 1
        if self._ticks % EVERY:
            return
        for refresh in self._refreshes:
            refresh()
        for name, actual, expected in self._pairs():
            if actual != expected:
                self._report(f"{name} is {actual}, not {expected}")

    def _pairs(self) -> Iterator[tuple[str, Any, Any]]:
        """Yields metrics, with what they show and what they must show."""
        actual: Counter[str] = Counter()
        for (result, _), number in self._children("scheduler_schedule_attempts_total"):
            actual[result] += number.value
        # A pod of the same name that was created again has no observer's call.
        failures = actual[UNSCHEDULABLE] + actual[ERROR]
        yield "scheduled", actual[SCHEDULED], self._results[SCHEDULED]
        for result in (UNSCHEDULABLE, ERROR):
            yield result, actual[result] >= self._results[result], True
        popped = self._pops.total()
        ended = actual[SCHEDULED] + failures + self._skipped
        in_flight = self._service.queue.counts()[QueueName.IN_FLIGHT]
        yield "attempts", ended <= popped, True
        if not in_flight and self._service.is_idle:
            yield "attempts at rest", ended, popped
        attempts = self._metrics.distributions("scheduler_pod_scheduling_attempts").children[()]
        yield "scheduler_pod_scheduling_attempts", _of(attempts), _sums(self._attempts)
        yield from self._of_preemptions()
        yield from self._gauges()

    def _of_preemptions(self) -> Iterator[tuple[str, Any, Any]]:
        log = self._preemptions
        victims = self._metrics.distributions("scheduler_preemption_victims").children[()]
        yield "scheduler_preemption_victims", _of(victims), _sums(log.victims)
        name = "scheduler_preemption_attempts_total"
        yield name, sum(number.value for _, number in self._children(name)), log.attempts
        name = "scheduler_preemption_goroutines_execution_total"
        ends = {labels[0]: number.value for labels, number in self._children(name) if number.value}
        yield name, ends, dict(log.ends)

    def _gauges(self) -> Iterator[tuple[str, Any, Any]]:
        service = self._service
        incoming = {
            labels: number.value
            for labels, number in self._children("scheduler_queue_incoming_pods_total")
            # A pod that is popped from the backoff queue counts, and is not moved.
            if number.value and labels[1] != "PopFromBackoffQ"
        }
        yield "scheduler_queue_incoming_pods_total", incoming, dict(self._incoming)
        pending = Counter(queued.queue.value for queued in self._queue._twin.pods.values())
        pending.pop(QueueName.IN_FLIGHT.value, None)
        gauges = {
            labels[0]: number.value
            for labels, number in self._children("scheduler_pending_pods")
            if number.value
        }
        yield "scheduler_pending_pods", gauges, dict(pending)
        sizes = {
            labels[0]: number.value for labels, number in self._children("scheduler_cache_size")
        }
        yield "nodes in the cache", sizes["nodes"], len(service.informers["Node"].objects)
        for profile, framework in service.profiles.items():
            expected = dict(framework.cache_statistics())
            actual = {
                result: number.value
                for (name, result), number in self._children("mooring_result_cache_lookups_total")
                if name == profile
            }
            yield "mooring_result_cache_lookups_total", actual, expected

    def _children(self, name: str) -> list[tuple[tuple[str, ...], Any]]:
        return list(self._metrics.numbers(name).children.items())


def _result_of(why: Any) -> str:
    is_rejection = isinstance(why, Diagnosis) or (
        isinstance(why, Status) and why.code in REJECTIONS
    )
    return UNSCHEDULABLE if is_rejection else ERROR


def _of(distribution: Any) -> tuple[float, float]:
    return sum(distribution.counts), distribution.sum


def _sums(values: list[int]) -> tuple[float, float]:
    return len(values), sum(values)
