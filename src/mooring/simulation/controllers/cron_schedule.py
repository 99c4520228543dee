"""The schedules of CronJobs: which instants follow a moment.

Source: github.com/robfig/cron/v3 parser.go, spec.go, constantdelay.go.
Differs: without a time zone a schedule is in UTC, not in the zone of the controller's machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from mooring.config.durations import parse_duration_s

#: From a moment to the next instant of a schedule, in seconds since 1970; None = there is none.
NextTime: TypeAlias = Callable[[float], int | None]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
#: The first and the last value of each field, and its names.
_FIELDS: Final[tuple[tuple[int, int, Mapping[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_DESCRIPTORS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "@yearly": "0 0 1 1 *",
        "@annually": "0 0 1 1 *",
        "@monthly": "0 0 1 * *",
        "@weekly": "0 0 * * 0",
        "@daily": "0 0 * * *",
        "@midnight": "0 0 * * *",
        "@hourly": "0 * * * *",
    }
)
_EVERY: Final = "@every "
#: A schedule without an instant in so many years has none, such as that of 31 February.
_YEARS_MAX: Final = 5


class _Fields(NamedTuple):
    """The values of the five fields.

    Attributes:
        needs_both_days: True if a day must match both fields of days; otherwise one is enough.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    needs_both_days: bool

    def has_day(self, moment: datetime) -> bool:
        """Returns whether the schedule has an instant on this day."""
        if moment.month not in self.months:
            return False
        is_day = moment.day in self.days
        is_weekday = moment.isoweekday() % 7 in self.weekdays
        return is_day and is_weekday if self.needs_both_days else is_day or is_weekday


def parse_schedule(text: str, zone_name: str | None = None) -> NextTime:
    """Returns the function that finds the next instant of a schedule.

    Raises:
        ValueError: The schedule is invalid, or the time zone is unknown.

    Example:
        >>> next_time = parse_schedule("*/15 8-9 * * mon-fri")
        >>> datetime.fromtimestamp(next_time(1_767_225_600.0), UTC).isoformat()
        '2026-01-01T08:00:00+00:00'
    """
    if text.startswith(("TZ=", "CRON_TZ=")):
        zone, _, text = text.partition(" ")
        zone_name = zone.partition("=")[2]
    text = text.strip()
    if text.startswith(_EVERY):
        return _every(max(1, int(parse_duration_s(text.removeprefix(_EVERY)))))
    parts = _DESCRIPTORS.get(text, text).split()
    if len(parts) != len(_FIELDS):
        raise ValueError(f"a schedule has {len(_FIELDS)} fields: {text!r}")
    fields = _read_fields(parts)
    zone_info = _zone(zone_name)
    return lambda after_s: _next_time(fields, zone_info, after_s)


def _zone(name: str | None) -> tzinfo:
    try:
        return ZoneInfo(name) if name else UTC
    except (KeyError, OSError) as error:
        raise ValueError(f"no time zone {name!r}") from error


def _every(interval_s: int) -> NextTime:
    return lambda after_s: int(after_s) + interval_s


def _read_fields(parts: list[str]) -> _Fields:
    values: list[frozenset[int]] = []
    stars: list[bool] = []
    for text, (low, high, names) in zip(parts, _FIELDS, strict=True):
        ranges = [_read_range(part, low, high, names) for part in text.split(",") if part]
        values.append(frozenset().union(*(numbers for numbers, _ in ranges)))
        stars.append(any(is_star for _, is_star in ranges))
    minutes, hours, days, months, weekdays = values
    return _Fields(minutes, hours, days, months, weekdays, stars[2] or stars[4])


def _read_range(text: str, low: int, high: int, names: Mapping[str, int]) -> tuple[range, bool]:
    """Returns the values of one range, and whether it stands for every value."""
    ends, _, step_text = text.partition("/")
    step = int(step_text or "1")
    first, hyphen, last = ends.lower().partition("-")
    if first in ("*", "?"):
        return range(low, high + 1, step), step == 1
    start = end = names[first] if first in names else int(first)
    if hyphen:
        end = names[last] if last in names else int(last)
    elif step_text:
        end = high
    if not low <= start <= end <= high:
        raise ValueError(f"not a range between {low} and {high}: {text!r}")
    return range(start, end + 1, step), False


def _next_time(fields: _Fields, zone: tzinfo, after_s: float) -> int | None:
    """Returns the first whole minute after a moment that matches.

    It steps in real time and reads the local time at each step, so an hour that the clocks skip has
    no instant, and one that they repeat has its instants twice.
    """
    time_s = (int(after_s) // 60 + 1) * 60
    moment = datetime.fromtimestamp(time_s, zone)
    year_last = moment.year + _YEARS_MAX
    while moment.year <= year_last:
        if not (moment.hour in fields.hours and fields.has_day(moment)):
            time_s += 3600 - 60 * moment.minute
        elif moment.minute in fields.minutes:
            return time_s
        else:
            time_s += 60
        moment = datetime.fromtimestamp(time_s, zone)
    return None
