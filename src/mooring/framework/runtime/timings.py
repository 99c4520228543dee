"""Durations of plugins, by extension point, and their statuses as metrics show them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from mooring.clock import Clock
from mooring.framework.status import Code, PostFilterResult, Skip, Status, Wait
from mooring.metrics.recorders import NO_FRAMEWORK_METRICS, FrameworkRecorder

SUCCESS: Final = Code.SUCCESS.value
ERROR: Final = Code.ERROR.value
SKIPPED: Final = Code.SKIP.value
WAIT: Final = Code.WAIT.value

#: (extension point of ``Framework.call``, method) -> its name in metrics, if it is another.
_SHOWN_POINTS: Final = {
    ("NormalizeScore", "normalize"): "ScoreExtensionNormalize",
    ("PreFilterExtension", "add_pod"): "PreFilterExtensionAddPod",
    ("PreFilterExtension", "remove_pod"): "PreFilterExtensionRemovePod",
    # It does both at once, for many nodes.
    ("PreFilterExtension", "apply_deltas"): "PreFilterExtensionRemovePod",
}


_RENAMED_POINTS: Final = frozenset(point for point, _ in _SHOWN_POINTS)


@dataclass(slots=True)
class Timing:
    """The calls of one plugin at one extension point, and their total seconds."""

    calls: int = 0
    seconds: float = 0.0


class Timings:
    """(plugin name, extension point) -> Timing; grows with the plugins, not with the pods."""

    __slots__ = ("_table", "recorder")

    def __init__(self) -> None:
        self._table: dict[tuple[str, str], Timing] = {}
        #: Also gets each duration.
        self.recorder: FrameworkRecorder = NO_FRAMEWORK_METRICS

    def add(self, plugin: str, point: str, seconds: float) -> None:
        """Adds one call."""
        timing = self._table.get((plugin, point))
        if timing is None:
            timing = self._table[plugin, point] = Timing()
        timing.calls += 1
        timing.seconds += seconds

    def timed(
        self,
        clock: Clock,
        plugin: str,
        point: str,
        method: Callable[..., Any],
        *arguments: Any,
    ) -> Any:
        """Calls ``method`` and returns its result; adds its duration, also if it raises."""
        if self.recorder is NO_FRAMEWORK_METRICS:
            started_s = clock.monotonic_s()
            try:
                return method(*arguments)
            finally:
                self.add(plugin, point, clock.monotonic_s() - started_s)
        started_s, status = clock.monotonic_s(), ERROR
        try:
            result = method(*arguments)
            status = SUCCESS if result is None else code_of(result)
            return result
        finally:
            seconds = clock.monotonic_s() - started_s
            self.add(plugin, point, seconds)
            point_name = point
            if point in _RENAMED_POINTS:
                point_name = _SHOWN_POINTS.get((point, getattr(method, "__name__", "")), point)
            self.recorder.plugin(plugin, point_name, status, seconds)

    def statistics(self) -> dict[tuple[str, str], Timing]:
        """Returns a copy of the table, in order of first call."""
        return {key: Timing(timing.calls, timing.seconds) for key, timing in self._table.items()}


def code_of(result: Any) -> str:
    """Returns the name of the status code of a plugin's result.

    A result for many nodes is a success, whatever it is for each of them.
    """
    if result is Skip.SKIP:
        return SKIPPED
    if isinstance(result, PostFilterResult):
        result = result.status
    if isinstance(result, Status):
        return result.code.value
    if isinstance(result, Wait):
        return WAIT
    return SUCCESS
