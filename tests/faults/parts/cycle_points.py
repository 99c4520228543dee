"""Records of the extension points of bindings, and the end of recorded events before them."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from mooring.metrics.registry import Metrics
from mooring.queue import QueueName, SchedulingQueue
from mooring.scheduler.pods_in_prebind import PodsInPreBind

SECONDS: Final = "scheduler_framework_extension_point_duration_seconds_sum"
ROUNDING_S: Final = 1e-3
POINTS: Final = "scheduler_framework_extension_point_duration_seconds_count"


def point_problems(metrics: Metrics, n_preempted: int) -> Iterator[str]:
    """Yields the extension points of bindings that are recorded too often, or too rarely.

    Each reservation that succeeds is followed by Permit, and so on.

    Args:
        metrics: Of a scheduler in which nothing is being bound.
        n_preempted: Attempts that were; one may be just when its PreBind ends.
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
        least = expected - (n_preempted if point == "Bind" else 0)
        if not least <= real <= expected:
            yield f"{point} is recorded {real} times, not {expected}"


class Durations:
    """Compares the durations of extension points with what the plugin has taken, on virtual time.

    Args:
        plugin: The only one that takes time; in PreBind and in Bind.
    """

    def __init__(self, plugin: Any) -> None:
        self._spent_s: defaultdict[str, float] = defaultdict(float)
        for method, point in (("pre_bind", "PreBind"), ("bind", "Bind")):
            setattr(plugin, method, self._measured(getattr(plugin, method), point))

    def _measured(self, call: Callable[..., Awaitable[Any]], point: str) -> Any:
        async def measured(*args: Any) -> Any:
            loop = asyncio.get_running_loop()
            started_s = loop.time()
            try:
                return await call(*args)
            finally:
                self._spent_s[point] += loop.time() - started_s

        return measured

    def problems(self, metrics: Metrics) -> Iterator[str]:
        """Yields the points whose durations do not add up; 0 s for all others."""
        sums: defaultdict[str, float] = defaultdict(float)
        for family in metrics.collect():
            for name, labels, value, *_ in family.samples:
                if name == SECONDS:
                    sums[labels["extension_point"]] += value
        for point in sorted({*sums, *self._spent_s}):
            if abs(sums[point] - self._spent_s[point]) > ROUNDING_S:
                yield f"{point} has {sums[point]:.2f} s, not {self._spent_s[point]:.2f} s"


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
