"""The reports of a framework about its extension points, beside plain rules.

Source: pkg/scheduler/framework/runtime/framework.go: the deferred observations of
``scheduler_framework_extension_point_duration_seconds``, one for each point that is run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from mooring.clock import VirtualClock
from mooring.framework.runtime.timings import Timings
from mooring.metrics.recorders import POINTS, FrameworkRecorder
from tests.faults.parts.logged import Line
from tests.faults.parts.points_model import (
    CODES,
    ERROR,
    PREEMPTION,
    RAISED,
    SKIP,
    SKIPPED,
    SUCCESS,
    WAIT,
    WAITS,
    PointsModel,
)
from tests.faults.parts.timed_points import PluginCalls

#: A pod is signed whenever results are looked for, which is no report of its own.
SIGN: Final = "Sign"
#: A reading of the clock.
TICK_S: Final = 0.125
#: What plugins raise, and where.
RAISED_TEXT: Final = "ValueError: drawn in"
PLACE: Final = "points_plugins.py"
#: Points that take no time if no plugin is called.
MAY_BE_EMPTY: Final = ("Reserve", "Permit", "PreBindPreFlight", "PreBind", "PostBind")
#: Methods that count evaluations.
COUNTED: Final = (
    "failed",
    "filtered",
    "filtered_again",
    "filtered_once",
    "pre_filter_stopped",
    "scored",
)
#: An extension point, and the code of its status; or an attempt of preemption.
Report = tuple[str, str]


class PointRecorder(FrameworkRecorder):
    """Keeps the reports of the extension points of a pod.

    Its time goes on with each reading, so that each duration is that of its own readings.

    Attributes:
        reports: In their order.
        problems: Durations that are not within the time since the report before.

    Args:
        counting: Counts the evaluations of plugins.
        calls: Gets the timed calls of plugins.
    """

    __slots__ = (
        "_calls",
        "_last_s",
        "_n_signed",
        "_time_s",
        "problems",
        "reports",
        *COUNTED,
    )

    def __init__(self, counting: FrameworkRecorder, calls: PluginCalls) -> None:
        super().__init__()
        self._calls = calls
        self.counts_refused = counting.counts_refused
        for name in COUNTED:
            setattr(self, name, getattr(counting, name))
        self.reports: list[Report] = []
        self.problems: list[str] = []
        self._n_signed = 0
        self._time_s = self._last_s = 0.0
        self.now = self._tick
        self.succeeded = {
            point: self._signed if point == SIGN else self._taking(point, SUCCESS)
            for point in POINTS
        }
        self.pre_flight_skipped = self._taking("PreBindPreFlight", SKIP)

    def _taking(self, point: str, code: str) -> Callable[[float], None]:
        return partial(self._report, point, code)

    def _signed(self, seconds: float) -> None:
        """Counts that a pod was signed, from one reading of the clock to the next one."""
        self._n_signed += 1
        if seconds != TICK_S:
            self.problems.append(f"Sign takes {seconds} s")

    def _tick(self) -> float:
        self._time_s += TICK_S
        return self._time_s

    def _report(self, point: str, code: str, seconds: float) -> None:
        is_nothing = not seconds and point in MAY_BE_EMPTY
        self._check(point, self._time_s if is_nothing else self._time_s - seconds, is_nothing)
        self.reports.append((point, code))

    def _check(self, point: str, started_s: float, is_nothing: bool = False) -> None:
        """Checks that a point has begun after the report before it, and takes time.

        A pod is signed once before its PreFilter, and not again.
        """
        if self._n_signed != (point == "PreFilter"):
            self.problems.append(f"{point}: the pod was signed {self._n_signed} times before")
        self._n_signed = 0
        if not self._last_s <= started_s < self._time_s + is_nothing:
            times = f"from {started_s} to {self._time_s} s, and the last one ended at"
            self.problems.append(f"{point} takes {times} {self._last_s} s")
        self._last_s = self._time_s

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Keeps a timed call, which takes from one reading of the clock to the next one."""
        self._calls.recorded[plugin, point, status] += 1
        if seconds != TICK_S:
            self.problems.append(f"{point} of {plugin} takes {seconds} s")

    def preemption_attempted(self) -> None:
        """Keeps that an attempt of preemption is counted."""
        self.reports.append(PREEMPTION)

    def plugin_failed(self, plugin: str, point: str) -> None:
        """Keeps an error."""
        self._calls.failed[plugin, point] += 1

    def point(self, point: str, status: str, started_s: float) -> None:
        """Keeps a report."""
        self._tick()
        self._check(point, started_s)
        self.reports.append((point, status))


def log_problems(lines: Sequence[Line]) -> Iterator[str]:
    """Yields what is wrong with a line about an error that does not fail its pod.

    It names the plugin, the point and the pod, and where the plugin has raised, if it has.
    """
    for _, message, fields in lines:
        plugin, point, text = fields["plugin"], fields["extension_point"], fields["error"]
        named = f'"{plugin}" filter plugin' if point == "Filter" else f'{point} plugin "{plugin}"'
        has_raised = RAISED_TEXT in text
        place = fields.get("at", "").rpartition(":")[0].endswith(PLACE)
        parts = text.startswith(f"running {named}: "), "pod" in fields, place == has_raised
        if message != "a plugin failed" or not all(parts):
            yield f"{message}: {fields}"


class TimedCalls(VirtualClock):
    """The clock of a framework, of which each timed call of a plugin has two readings.

    Attributes:
        readings: How many there were.
    """

    def __init__(self) -> None:
        super().__init__()
        self.readings = 0

    def monotonic_s(self) -> float:
        """Returns a later time than before."""
        self.readings += 1
        return self.readings * TICK_S

    def problems(self, timings: Timings) -> Iterator[str]:
        """Yields a difference of the calls that are counted, and of their time."""
        counted = timings.statistics()
        n_calls = sum(timing.calls for timing in counted.values())
        if 2 * n_calls != self.readings:
            yield f"{n_calls} timed calls are counted, but {self.readings} times were read"
        for pair, timing in counted.items():
            if timing.seconds != timing.calls * TICK_S:
                yield f"{timing.calls} calls of {pair} have taken {timing.seconds} s"


def expected_reports(model: PointsModel, *, is_timed: bool) -> list[Report]:
    """Returns the reports of a pod with a node, by the results of the plugins."""
    reports = list(_until_bound(model, is_timed=is_timed))
    is_bound = reports[-1] == ("Bind", SUCCESS)
    return [*reports, ("PostBind" if is_bound else "Unreserve", SUCCESS)]


def _until_bound(model: PointsModel, *, is_timed: bool) -> Iterator[Report]:
    """Yields the reports up to the first point that fails, or to Bind."""
    code = _code(model.kinds_at("reserve"))
    yield "Reserve", code
    if code != SUCCESS:
        return
    waits = False
    code = SUCCESS
    for kind in model.kinds_at("permit", of_all=True):
        waits = waits or kind == WAITS
        if kind not in (None, WAITS):
            code = _code([kind])
            break
    yield "Permit", WAIT if code == SUCCESS and waits else code
    if code != SUCCESS:
        return
    working = model.pre_binders(is_timed=is_timed)
    yield "PreBindPreFlight", ERROR if working is None else SUCCESS if working else SKIP
    if working is None:
        return
    code = _code(model.pre_bind(working))
    yield "PreBind", code
    if code != SUCCESS:
        return
    for kind in model.kinds_at("bind", of_all=True):
        if kind != SKIPPED:
            yield "Bind", _code([kind])
            return
    yield "Bind", SKIP


def _code(kinds: Iterable[str | None]) -> str:
    """Returns the code of the first result that is none of success."""
    first = next((kind for kind in kinds if kind is not None), None)
    if first is None:
        return SUCCESS
    return ERROR if first == RAISED else CODES[first]
