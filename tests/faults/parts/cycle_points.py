"""Records of the extension points of bindings, and the end of recorded events before them."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from mooring.metrics.registry import Metrics
from mooring.queue import QueueName, SchedulingQueue
from mooring.scheduler.pods_in_prebind import PodsInPreBind

SECONDS: Final = "scheduler_framework_extension_point_duration_seconds_sum"
ERRORS: Final = "scheduler_plugin_errors_total"
ROUNDING_S: Final = 1e-3
METHODS: Final = {
    "pre_filter": "PreFilter",
    "reserve": "Reserve",
    "permit": "Permit",
    "pre_bind": "PreBind",
    "bind": "Bind",
}
POINTS: Final = "scheduler_framework_extension_point_duration_seconds_count"


def point_problems(metrics: Metrics, n_preempted: int, n_broken: int) -> Iterator[str]:
    """Yields the extension points of bindings that are recorded too often, or too rarely.

    Each reservation that succeeds is followed by Permit, and so on.

    Args:
        metrics: Of a scheduler in which nothing is being bound.
        n_preempted: Attempts that were; one may be just when its PreBind ends.
        n_broken: Attempts that ended between two points, since the scheduler's own code raised.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for family in metrics.collect():
        for name, labels, value, *_ in family.samples:
            if name == POINTS:
                counts[labels["extension_point"], labels["status"]] += int(value)
                counts[labels["extension_point"], ""] += int(value)
    permitted = counts["Permit", "Success"] + counts["Permit", "Wait"]
    pairs = {
        "Permit": (counts["Permit", ""], counts["Reserve", "Success"]),
        "PreBindPreFlight": (counts["PreBindPreFlight", ""], permitted),
        "Bind": (counts["Bind", ""], counts["PreBind", "Success"]),
        "PostBind": (counts["PostBind", ""], counts["Bind", "Success"]),
    }
    for point, (real, expected) in pairs.items():
        least = expected - n_broken - (n_preempted if point == "Bind" else 0)
        if not least <= real <= expected:
            yield f"{point} is recorded {real} times, not {expected}"


class MeasuredPlugin:
    """Compares metrics with what the only plugin that fails or takes time has done.

    Args:
        plugin: Takes time in PreBind and in Bind, on virtual time; raises at any point.

    Attributes:
        raised: Extension point -> how many errors are to be counted.
    """

    def __init__(self, plugin: Any) -> None:
        self._spent_s: defaultdict[str, float] = defaultdict(float)
        self.raised: Counter[str] = Counter()
        for method, point in METHODS.items():
            call = getattr(plugin, method)
            is_async = inspect.iscoroutinefunction(call)
            measured = self._awaited(call, point) if is_async else self._called(call, point)
            setattr(plugin, method, measured)

    def _called(self, call: Callable[..., Any], point: str) -> Any:
        def called(*args: Any) -> Any:
            try:
                return call(*args)
            except ValueError:
                self.raised[point] += 1
                raise

        return called

    def _awaited(self, call: Callable[..., Awaitable[Any]], point: str) -> Any:
        async def awaited(*args: Any) -> Any:
            loop = asyncio.get_running_loop()
            started_s = loop.time()
            try:
                return await call(*args)
            except ValueError:
                self.raised[point] += 1
                raise
            finally:
                self._spent_s[point] += loop.time() - started_s

        return awaited

    def problems(self, metrics: Metrics) -> Iterator[str]:
        """Yields the points whose durations do not add up, and those with other errors."""
        sums: defaultdict[str, float] = defaultdict(float)
        errors: Counter[str] = Counter()
        for family in metrics.registry.collect():
            for name, labels, value, *_ in family.samples:
                if name == SECONDS:
                    sums[labels["extension_point"]] += value
                elif name == ERRORS:
                    errors[labels["extension_point"]] += int(value)
        for point in sorted({*sums, *self._spent_s}):
            if abs(sums[point] - self._spent_s[point]) > ROUNDING_S:
                yield f"{point} has {sums[point]:.2f} s, not {self._spent_s[point]:.2f} s"
        if errors != self.raised:
            yield f"{dict(errors)} errors of plugins are counted, not {dict(self.raised)}"


class EndsOfFlights:
    """Checks that events for a pod are no longer recorded in PreBind and Bind.

    Args:
        queue: Of the scheduler.
        pods: In PreBind.
        report: Called with what is wrong.
    """

    def __init__(
        self, queue: SchedulingQueue, pods: PodsInPreBind, report: Callable[[str], None]
    ) -> None:
        self._queue, self._report = queue, report
        real: Any = pods
        self._run, real.run = real.run, self._runs

    def check(self, uid: str) -> None:
        """Checks that no events are recorded for a pod: none can help it now."""
        if self._queue.queue_of(uid) is QueueName.IN_FLIGHT:
            self._report(f"events are recorded for {uid} while it is bound")

    async def _runs(self, uid: str, work: Awaitable[Any]) -> Any:
        self.check(uid)
        return await self._run(uid, work)
