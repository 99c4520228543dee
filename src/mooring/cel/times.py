"""Durations and timestamps: values, parsing, arithmetic and parts.

Source: cel-go v0.26.0, common/types/duration.go, timestamp.go, overflow.go; Go's time package.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mooring.cel import types
from mooring.cel.values import NO_OVERLOAD, ErrorValue, Value
from mooring.objects.go_text import go_quote
from mooring.objects.selectors import parse_int64

SECOND: Final = 1_000_000_000
_MAX_INT64: Final = 2**63 - 1
_MIN_SECONDS: Final = -62_135_596_800
_MAX_SECONDS: Final = 253_402_300_799
_DAY: Final = 86_400
_UNITS: Final = {
    "ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 1_000_000, "s": SECOND,
    "m": 60 * SECOND, "h": 3600 * SECOND,
}  # fmt: skip
_DURATION = re.compile(r"([0-9]*+)(?:\.([0-9]*+))?+(ns|us|µs|μs|ms|s|m|h)")
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]++))?+"
    r"(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
TIMESTAMP_OVERFLOW: Final = ErrorValue("timestamp overflow")
INTEGER_OVERFLOW: Final = ErrorValue("integer overflow")


class Duration:
    """A number of nanoseconds within int64."""

    __slots__ = ("nanos",)
    cel_type = types.DURATION

    def __init__(self, nanos: int) -> None:
        self.nanos = nanos

    @property
    def identity(self) -> int:
        """The value as a key of a map."""
        return self.nanos

    @property
    def seconds(self) -> float:
        """The length in seconds, as Go rounds it."""
        return parts_as_float(self.nanos, SECOND)

    def equals(self, other: Value) -> bool:
        """Returns whether another value is the same duration."""
        return isinstance(other, Duration) and self.nanos == other.nanos

    def __str__(self) -> str:
        """Returns Go's text, such as ``1h30m0s``."""
        return _go_duration(self.nanos)


class Timestamp:
    """A point in time: seconds since 1970, nanoseconds, and the offset that it was written with."""

    __slots__ = ("nanos", "offset_s", "seconds")
    cel_type = types.TIMESTAMP

    def __init__(self, seconds: int, nanos: int = 0, offset_s: int = 0) -> None:
        self.seconds = seconds
        self.nanos = nanos
        self.offset_s = offset_s

    @property
    def total(self) -> int:
        """Nanoseconds since 1970."""
        return self.seconds * SECOND + self.nanos

    @property
    def identity(self) -> tuple[int, int]:
        """The value as a key of a map."""
        return self.total, self.offset_s

    def equals(self, other: Value) -> bool:
        """Returns whether another value is the same point in time."""
        return isinstance(other, Timestamp) and self.total == other.total

    def rfc3339(self) -> str:
        """Returns the text with as many decimals as needed."""
        moment = local_time(self.seconds + self.offset_s)
        decimals = f".{self.nanos:09d}".rstrip("0") if self.nanos else ""
        return f"{moment.date}T{moment.clock}{decimals}{self._zone(':') or 'Z'}"

    def _zone(self, colon: str) -> str:
        if not self.offset_s:
            return ""
        minutes = abs(self.offset_s) // 60
        sign = "-" if self.offset_s < 0 else "+"
        return f"{sign}{minutes // 60:02d}{colon}{minutes % 60:02d}"

    def __str__(self) -> str:
        moment = local_time(self.seconds + self.offset_s)
        decimals = f".{self.nanos:09d}".rstrip("0") if self.nanos else ""
        zone = self._zone("")
        suffix = f"{zone} {zone}" if zone else "+0000 UTC"
        return f"{moment.date} {moment.clock}{decimals} {suffix}"


class LocalTime(NamedTuple):
    """The parts of a point in time on a calendar and a clock."""

    year: int
    month: int
    day: int
    day_of_year: int
    day_of_week: int
    hour: int
    minute: int
    second: int

    @property
    def date(self) -> str:
        """Year, month and day."""
        return f"{self.year:04d}-{self.month:02d}-{self.day:02d}"

    @property
    def clock(self) -> str:
        """Hours, minutes and seconds."""
        return f"{self.hour:02d}:{self.minute:02d}:{self.second:02d}"


def local_time(seconds: int) -> LocalTime:
    """Returns calendar and clock of a number of seconds since 1970-01-01T00:00:00.

    ``day_of_year`` begins with 0, ``day_of_week`` with Sunday as 0.
    """
    days, rest = divmod(seconds, 86_400)
    year, month, day = _civil(days)
    first_day = _days(year, 1, 1)
    hour, minute_and_second = divmod(rest, 3600)
    minute, second = divmod(minute_and_second, 60)
    return LocalTime(year, month, day, days - first_day, (days + 4) % 7, hour, minute, second)


def _days(year: int, month: int, day: int) -> int:
    """Returns the days from 1970-01-01 to a date of the proleptic Gregorian calendar."""
    shifted = year - (month <= 2)
    era, year_of_era = divmod(shifted, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146_097 + day_of_era - 719_468


def _civil(days: int) -> tuple[int, int, int]:
    """Returns year, month and day of a number of days since 1970-01-01."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    return year_of_era + era * 400 + (month <= 2), month, day


# ---------------------------------------------------------------- parsing


def parse_duration(text: str) -> Duration | None:
    """Returns a duration such as ``1h30m`` or ``-1.5s``, or None.

    >>> parse_duration("1.5s").nanos, parse_duration("1")
    (1500000000, None)
    """
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return Duration(0)
    total = 0
    position = 0
    while position < len(rest):
        match = _DURATION.match(rest, position)
        if match is None or not (match[1] or match[2]):
            return None
        unit = _UNITS[match[3]]
        whole = int(match[1]) if len(match[1]) < 40 else 2**64
        fraction = (match[2] or "")[:18]
        total += whole * unit + int(int(fraction or "0") * (unit / 10 ** len(fraction)))
        if total > _MAX_INT64 + (sign < 0):
            return None
        position = match.end()
    return Duration(sign * total) if rest else None


def parse_timestamp(text: str) -> Timestamp | ErrorValue | None:
    """Returns an RFC 3339 timestamp, None for another text, an error outside years 1 to 9999."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match[index]) for index in range(1, 7))
    if not (1 <= month <= 12 and hour < 24 and minute < 60 and second < 60):
        return None
    if not 1 <= day <= _month_length(year, month):
        return None
    offset_s = 0
    if match[8]:
        hours, minutes = int(match[9]), int(match[10])
        if hours > 24 or minutes >= 60:
            return None
        offset_s = (hours * 3600 + minutes * 60) * (-1 if match[8] == "-" else 1)
    seconds = _days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset_s
    if not _MIN_SECONDS <= seconds <= _MAX_SECONDS:
        return TIMESTAMP_OVERFLOW
    return Timestamp(seconds, int((match[7] or "")[:9].ljust(9, "0")), offset_s)


def timestamp_of(seconds: int) -> Timestamp | ErrorValue:
    """Returns the timestamp of a number of seconds since 1970."""
    if not _MIN_SECONDS <= seconds <= _MAX_SECONDS:
        return TIMESTAMP_OVERFLOW
    return Timestamp(seconds)


def _month_length(year: int, month: int) -> int:
    next_year, next_month = (year, month + 1) if month < 12 else (year + 1, 1)
    return _days(next_year, next_month, 1) - _days(year, month, 1)


# ---------------------------------------------------------------- arithmetic


def duration_of(nanos: int) -> Duration | ErrorValue:
    """Returns a duration, or the error of an overflow."""
    return Duration(nanos) if -_MAX_INT64 - 1 <= nanos <= _MAX_INT64 else INTEGER_OVERFLOW


def shift(timestamp: Timestamp, nanos: int) -> Timestamp | ErrorValue:
    """Returns a timestamp moved by a duration."""
    seconds, rest = divmod(timestamp.total + nanos, SECOND)
    if not _MIN_SECONDS <= seconds <= _MAX_SECONDS:
        return TIMESTAMP_OVERFLOW
    return Timestamp(seconds, rest, timestamp.offset_s)


def difference(first: Timestamp, second: Timestamp) -> Duration | ErrorValue:
    """Returns the duration from ``second`` to ``first``."""
    if not -_MAX_INT64 - 1 <= (first.seconds - second.seconds) * SECOND <= _MAX_INT64:
        return INTEGER_OVERFLOW
    return duration_of(first.total - second.total)


def parts_as_float(nanos: int, unit: int) -> float:
    """Returns nanoseconds in a unit, rounded as Go does."""
    whole = abs(nanos) // unit
    rest = abs(nanos) % unit
    amount = float(whole) + float(rest) / float(unit)
    return -amount if nanos < 0 else amount


# ---------------------------------------------------------------- time zones


def in_zone(timestamp: Value, zone: Value) -> LocalTime | ErrorValue:
    """Returns a timestamp in a time zone: a name of the database, or an offset such as -08:00."""
    if not isinstance(timestamp, Timestamp) or not isinstance(zone, str):
        return NO_OVERLOAD
    hours, colon, minutes = zone.partition(":")
    if not colon:
        offset = _named_offset(timestamp, zone)
        return offset if isinstance(offset, ErrorValue) else local_time(timestamp.seconds + offset)
    numbers: list[int] = []
    for part in (hours, minutes):
        number = _number(part)
        if isinstance(number, ErrorValue):
            return number
        numbers.append(number)
    total = numbers[0] * 60 + (-numbers[1] if zone[0] == "-" else numbers[1])
    offset_s = int(parts_as_float(_wrapped(_wrapped(total) * 60 * SECOND), SECOND))
    return local_time(timestamp.seconds + offset_s)


def _number(text: str) -> int | ErrorValue:
    """Returns a decimal int64, or the error of Go's strconv.Atoi; any number of zeros may lead."""
    problem = "invalid syntax"
    if re.fullmatch(r"[+-]?[0-9]+", text):
        sign = "-" if text[0] == "-" else ""
        number = parse_int64(sign + (text.lstrip("+-0") or "0"))
        if number is not None:
            return number
        problem = "value out of range"
    return ErrorValue(f"strconv.Atoi: parsing {go_quote(text)}: {problem}")


def _wrapped(number: int) -> int:
    """Returns a number as int64, as Go's arithmetic does."""
    return (number + 2**63) % 2**64 - 2**63


def _named_offset(timestamp: Timestamp, name: str) -> int | ErrorValue:
    if name in ("", "UTC", "Local"):
        return 0
    if ".." in name or name[0] in "/\\":
        return ErrorValue("time: invalid location name")
    if "\0" in name:
        return ErrorValue("invalid argument")
    try:
        zone = ZoneInfo(name)
        # A local time outside the years 1 to 9999 is none of Python's.
        seconds = min(max(timestamp.seconds, _MIN_SECONDS + _DAY), _MAX_SECONDS - _DAY)
        offset = datetime.fromtimestamp(seconds, tz=zone).utcoffset()
    except (ZoneInfoNotFoundError, ValueError, OSError, OverflowError):
        return ErrorValue(f"unknown time zone {name}")
    return 0 if offset is None else offset.days * 86_400 + offset.seconds


def _go_duration(nanos: int) -> str:
    sign, rest = ("-", -nanos) if nanos < 0 else ("", nanos)
    if rest < SECOND:
        for unit, size in (("ms", 1_000_000), ("µs", 1000), ("ns", 1)):
            if rest >= size:
                return f"{sign}{_decimal(rest, size)}{unit}"
        return "0s"
    hours, rest = divmod(rest, 3600 * SECOND)
    minutes, rest = divmod(rest, 60 * SECOND)
    head = f"{hours}h" if hours else ""
    head += f"{minutes}m" if hours or minutes else ""
    return f"{sign}{head}{_decimal(rest, SECOND)}s"


def _decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    if not rest:
        return str(whole)
    return f"{whole}.{str(rest).rjust(len(str(unit)) - 1, '0').rstrip('0')}"
