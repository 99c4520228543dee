"""Go's durations, as configuration files write them: "15s", "1h30m", "1.5s", "100ms".

Source: Go's package time, ParseDuration and Duration.String.
"""

from __future__ import annotations

import re
from fractions import Fraction

from mooring.objects.go_durations import UNITS_NS

_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_NS_MAX = 2**63 - 1
_NS_PER_S = 10**9


def parse_duration_s(text: str) -> float:
    """Seconds in a duration's text, to the nanosecond.

    Raises:
        ValueError: The text is not a duration, or longer than 292 years.

    Example:
        >>> parse_duration_s("1m1.5s")
        61.5
    """
    unsigned = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    if unsigned == "0":
        return 0.0
    total_ns = 0
    position = 0
    while position < len(unsigned):
        match = _PART.match(unsigned, position)
        if match is None:
            break
        number, unit = match.groups()
        total_ns += int(Fraction(number) * UNITS_NS[unit])
        position = match.end()
    if not unsigned or position < len(unsigned):
        raise ValueError('is not a duration such as "15s" or "1m30s"')
    if total_ns > _NS_MAX:
        raise ValueError("is longer than a duration can be")
    return (-total_ns if text.startswith("-") else total_ns) / _NS_PER_S


def duration_text(duration_s: float) -> str:
    """Returns a duration as Go prints it.

    Example:
        >>> [duration_text(s) for s in (0, 15, 90, 3600, 0.25, 1.5)]
        ['0s', '15s', '1m30s', '1h0m0s', '250ms', '1.5s']
    """
    total_ns = round(duration_s * _NS_PER_S)
    if total_ns == 0:
        return "0s"
    sign = "-" if total_ns < 0 else ""
    total_ns = abs(total_ns)
    for unit in ("ns", "µs", "ms"):
        if total_ns < UNITS_NS[unit] * 1000:
            return f"{sign}{_decimal(total_ns, UNITS_NS[unit])}{unit}"
    minutes, rest_ns = divmod(total_ns, UNITS_NS["m"])
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest_ns, _NS_PER_S)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else sign + text


def _decimal(amount: int, unit: int) -> str:
    """Returns ``amount / unit`` without trailing zeros; ``unit`` is a power of ten."""
    whole, rest = divmod(amount, unit)
    digits = str(rest).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}" if rest else str(whole)
