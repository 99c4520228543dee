"""A plain model of the series of an event recorder: which event counts in which object.

A series begins with an event, and counts those like it. It ends once, at one of the looks every six
minutes, if its last event is older than that and no write of it is under way; its last count is
written then. One that goes on is written anew every half an hour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mooring.client.event_recorder import Recorder
from mooring.objects.meta import Event

QUIET_S: Final = 360.0
REFRESH_S: Final = 1800.0
#: A look is due every six minutes, and checked for once a minute.
LOOK_S_MAX: Final = QUIET_S + 61.0
SERIES_MAX: Final = 10_000


@dataclass
class Series:
    """Events that are alike.

    Attributes:
        name: Of the object that counts them.
        count: How many.
        last_s: When the last one was recorded.
    """

    name: str
    count: int
    last_s: float


class AttachedRecorder:
    """Compares the series of a recorder with the model, after each event and each look.

    Args:
        recorder: Has recorded nothing yet.
        now_s: The recorder's clock.
        report: Called with each problem.
    """

    def __init__(
        self, recorder: Recorder, now_s: Callable[[], float], report: Callable[[str], None]
    ) -> None:
        self._now_s = now_s
        self._report = report
        self._series: dict[Any, Series] = {}
        self._finished_s = self._refreshed_s = now_s()
        real: Any = recorder
        self._real = real
        #: Names of the objects that were queued to be written in this call.
        self._queued: list[str] = []
        self._put = real._writes.put
        real._writes.put = self._on_put
        self._add, self._update = real._add_to_series, real._update_series
        real._add_to_series, real._update_series = self._on_event, self._on_look

    def _on_put(self, key: Any, *args: Any, **named: Any) -> None:
        self._queued.append(key)
        self._put(key, *args, **named)

    def _on_event(self, event: Event, happened_at_s: float) -> None:
        self._queued = []
        self._add(event, happened_at_s)
        key = _key(event)
        series = self._series.get(key)
        if series is None:
            if len(self._series) >= SERIES_MAX:
                del self._series[next(iter(self._series))]
            series = self._series[key] = Series(event.metadata.name, 0, 0.0)
        series.count, series.last_s = series.count + 1, happened_at_s
        # The first two are written at once, and the others when the series ends or is refreshed.
        self._compare(event.reason, [series.name] if series.count <= 2 else [])

    def _on_look(self) -> None:
        self._queued, now_s = [], self._now_s()
        names = [series.name for series in self._series.values()]
        busy = {name for name in names if name in self._real._writes}
        self._update()
        expected: list[str] = []
        if now_s - self._refreshed_s >= REFRESH_S:
            self._refreshed_s = now_s
            expected += [series.name for series in self._series.values() if series.count > 1]
            busy |= set(expected)
        if now_s - self._finished_s >= QUIET_S:
            self._finished_s = now_s
            for key, series in list(self._series.items()):
                if series.name not in busy and now_s - series.last_s > QUIET_S:
                    del self._series[key]
                    expected += [series.name] if series.count > 1 else []
        self._compare("the look at all series", expected)

    def _compare(self, when: str, queued: list[str]) -> None:
        """Compares all series, and which of them were queued to be written."""
        real = {
            series.event.metadata.name: (_count(series.event), series.last_at_s)
            for series in self._real._series.values()
        }
        expected = {series.name: (series.count, series.last_s) for series in self._series.values()}
        if real != expected:
            names = {name for name in {*real, *expected} if real.get(name) != expected.get(name)}
            name = min(names)
            self._report(f"after {when} {name} is {real.get(name)}, not {expected.get(name)}")
        if self._queued != queued:
            self._report(f"{when} writes {self._queued}, not {queued}")

    def unwritten(self, stored: Mapping[str, Any]) -> str:
        """Returns which series has repeated events, but is stored as a single one; "" if none has.

        Args:
            stored: Name -> the stored event, while no write is under way.
        """
        for series in self._series.values():
            if series.count > 1 and not stored.get(series.name, {}).get("series"):
                return f"the series {series.name} has {series.count} events, but one is stored"
        return ""

    def overdue(self) -> str:
        """Returns for how long the series were not looked at; "" if that is not too long."""
        since_s = self._now_s() - self._finished_s
        return f"no series was ended for {since_s:.0f} s" if since_s > LOOK_S_MAX else ""


def _count(event: Event) -> int:
    return event.series.count if event.series is not None else 1


def _key(event: Event) -> Any:
    regarding, related = event.regarding, event.related
    return (
        (event.type, event.action, event.reason),
        (event.reporting_controller, event.reporting_instance),
        regarding,
        related,
    )
