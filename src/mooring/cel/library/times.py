"""Parts of timestamps and durations: ``getFullYear`` and the like.

Source: cel-go v0.26.0, common/stdlib/standard.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mooring.cel.declarations import Function, Overload, method
from mooring.cel.times import SECOND, Duration, LocalTime, Timestamp, in_zone, parts_as_float
from mooring.cel.types import DURATION, INT, STRING, TIMESTAMP
from mooring.cel.values import ErrorValue, Value

if TYPE_CHECKING:
    from collections.abc import Callable


def _part(read: Callable[[LocalTime], int]) -> Callable[..., Value]:
    def implementation(timestamp: Value, zone: Value = "UTC") -> Value:
        moment = in_zone(timestamp, zone)
        return moment if isinstance(moment, ErrorValue) else read(moment)

    return implementation


def _milliseconds(timestamp: Timestamp, zone: Value = "UTC") -> Value:
    moment = in_zone(timestamp, zone)
    return moment if isinstance(moment, ErrorValue) else timestamp.nanos // 1_000_000


def _length(unit: int) -> Callable[[Duration], int]:
    def implementation(duration: Duration) -> int:
        return int(parts_as_float(duration.nanos, unit))

    return implementation


def _length_milliseconds(duration: Duration) -> int:
    count = abs(duration.nanos) // 1_000_000
    return -count if duration.nanos < 0 else count


def _overloads(
    word: str,
    of_timestamp: Callable[..., Value],
    of_duration: Callable[[Duration], int] | None = None,
) -> list[Overload]:
    overloads = [
        method(f"timestamp_to_{word}", (TIMESTAMP,), INT, of_timestamp),
        method(f"timestamp_to_{word}_with_tz", (TIMESTAMP, STRING), INT, of_timestamp),
    ]
    if of_duration is not None:
        overloads.append(method(f"duration_to_{word}", (DURATION,), INT, of_duration))
    return overloads


LIBRARY: Final[dict[str, Function | list[Overload]]] = {
    "getFullYear": _overloads("year", _part(lambda moment: moment.year)),
    "getMonth": _overloads("month", _part(lambda moment: moment.month - 1)),
    "getDayOfYear": _overloads("day_of_year", _part(lambda moment: moment.day_of_year)),
    "getDayOfMonth": _overloads("day_of_month", _part(lambda moment: moment.day - 1)),
    "getDate": _overloads("day_of_month_1_based", _part(lambda moment: moment.day)),
    "getDayOfWeek": _overloads("day_of_week", _part(lambda moment: moment.day_of_week)),
    "getHours": _overloads("hours", _part(lambda moment: moment.hour), _length(3600 * SECOND)),
    "getMinutes": _overloads("minutes", _part(lambda moment: moment.minute), _length(60 * SECOND)),
    "getSeconds": _overloads("seconds", _part(lambda moment: moment.second), _length(SECOND)),
    "getMilliseconds": _overloads("milliseconds", _milliseconds, _length_milliseconds),
}
