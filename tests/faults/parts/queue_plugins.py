"""For ``queue_run``: a plugin that sorts by comparisons, calls of hints, and what is logged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from mooring.clock import Clock, Rng
from mooring.cluster_event import ClusterEventWithHint, QueueingHint
from mooring.metrics.recorders import SchedulerRecorder
from mooring.objects.pod import Pod
from mooring.queue import QueuedPod
from mooring.state import PodInfo
from tests.faults.parts.logged import Line
from tests.helpers.queues import (
    NODE_ADD,
    NODE_LABEL,
    NODE_TAINT,
    POD_UPDATE,
    PV_ADD,
    QUEUE,
    SKIP,
    Refuser,
    on,
)

#: What is logged of an error, by the extension point.
MESSAGES: Final = {
    "PreEnqueue": "a PreEnqueue plugin failed",
    "QueueingHint": "queueing hint failed",
    "Sign": "plugin failed to sign a pod",
}
QUARANTINED: Final = "a pod is quarantined"
#: The pod, the plugin, its exceptions in a row, and seconds.
Quarantined = tuple[str, str, int, float]


def log_problems(
    lines: Sequence[Line],
    errors: Mapping[tuple[str, str], int],
    quarantines: Sequence[Quarantined],
) -> Iterator[str]:
    """Compares what the queue logs with errors by plugin and point, and with quarantines."""
    expected = Counter[str]()
    for (_, point), count in errors.items():
        expected[MESSAGES[point]] += count
    actual = Counter(message for _, message, _ in lines if message != QUARANTINED)
    if actual != +expected:
        yield f"logged are {dict(actual)}, not {dict(expected)}"
    logged = [
        (it["pod"], it["plugin"], it["failures"], it["seconds"])
        for _, message, it in lines
        if message == QUARANTINED
    ]
    if logged != list(quarantines):
        yield f"logged are the quarantines {logged}, not {list(quarantines)}"


def reader(rng: Rng) -> Refuser:
    """Returns a plugin whose hint queues a pod if an object has become what the pod wants.

    It registers for some events in any order: of new nodes with an event of taints, or without.
    """
    events = NODE_ADD, NODE_LABEL, NODE_TAINT, PV_ADD, POD_UPDATE
    chosen = rng.sample(events, rng.randint(2, len(events)))
    registrations = [on(event, _has_become) for event in chosen]
    # Two hints of a plugin for one event: a pod is queued if either says so.
    more = on(chosen[0], _never)
    registrations.insert(0 if len(chosen) % 2 else len(registrations), more)
    return Refuser("Reader", *registrations)


def _never(info: PodInfo, old: Any, new: Any) -> QueueingHint:
    del info, old, new
    return SKIP


def _has_become(info: PodInfo, old: Any, new: Any) -> QueueingHint:
    was, now = map(_wants_of, (old, new))
    return QUEUE if was != now == info.metadata.labels["wants"] else SKIP


def _wants_of(obj: Any) -> Any:
    return obj.metadata.labels["wants"] if isinstance(obj, Pod) else obj


class SortWithoutKey:
    """Sorts pods as PrioritySort, by comparisons alone."""

    name = "SortWithoutKey"

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Returns whether ``a`` comes before ``b``."""
        return (-a.pod.priority, a.timestamp_s) < (-b.pod.priority, b.timestamp_s)


class HintCalls(SchedulerRecorder):
    """Compares the calls of hints that the recorder of metrics gets with what they return.

    Attributes:
        errors: Plugin -> how many of its hints failed.
    """

    __slots__ = ("_called", "_is_real", "_recorded", "_wrong", "errors")

    def __init__(self, plugins: Sequence[Any]) -> None:
        super().__init__()
        self.errors: Counter[str] = Counter()
        self._called: Counter[tuple[str, str]] = Counter()
        self._recorded: Counter[tuple[str, str]] = Counter()
        self._wrong = ""
        self._is_real: Callable[[], bool] = bool
        for plugin in plugins:
            if hasattr(plugin, "registrations"):
                plugin.registrations = tuple(
                    self._followed(plugin.name, item, item.hint) for item in plugin.registrations
                )

    def follow(self, clock: Clock, is_real: Callable[[], bool]) -> None:
        """Begins: ``is_real`` returns whether the queue calls a hint, and not its model."""
        self.now, self._is_real = clock.monotonic_s, is_real

    def _followed(self, plugin: str, item: ClusterEventWithHint, hint: Any) -> ClusterEventWithHint:
        if hint is None:
            return item

        def followed(info: PodInfo, old: Any, new: Any) -> Any:
            label = "Error"
            try:
                result = hint(info, old, new)
                label = result.value if isinstance(result, QueueingHint) else "Error"
                return result
            finally:
                self._called[plugin, label] += self._is_real()
                self.errors[plugin] += self._is_real() and label == "Error"

        return ClusterEventWithHint(item.event, followed, pure=item.pure)

    def hint_called(self, plugin: str, event: str, hint: str, started_s: float) -> None:
        """Notes a call."""
        self._recorded[plugin, hint] += 1
        if not event or started_s != self.now():
            self._wrong = f"a hint of {plugin} for {event!r} began at {started_s}"

    def problems(self) -> Iterator[str]:
        """Yields a difference since the last call."""
        # A registration without a hint queues each pod; gates have hints of their own.
        surplus = {
            pair
            for pair in self._recorded - self._called
            if pair[1] != QueueingHint.QUEUE.value and pair[0] != "SchedulingGates"
        }
        missing = self._called - self._recorded
        if surplus or missing or self._wrong:
            yield f"hints: {surplus} are recorded, {missing} are not; {self._wrong}"
        self._called.clear()
        self._recorded.clear()
