"""Arrival processes: the instants at which something arrives.

::

    {poisson: {rate: 12/min}}                 independent arrivals
    {interval: {every: 30s}}                  one after another, always as far apart
    {uniform: {count: 500, until: 1h}}        a number of arrivals, anywhere in a span
    {bursts: {size: 50, every: 10m}}          many at once
    {hourly: {rates: [2/min, 5/min, ...]}}    24 rates, one for each hour of the day
    {at: [0s, 10m, 2h]}                       these instants

All have ``from`` (0s) and ``until``; those without an end of their own also ``count``, the largest
number of arrivals.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from mooring.clock import Rng
from mooring.config.durations import duration_text, parse_duration_s
from mooring.config.field_errors import FieldError
from mooring.config.strict import nearest
from mooring.objects.files.documents import Path
from mooring.objects.go_durations import UNITS_NS

_RATE: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*/\s*(s|sec|min|m|h|hour|d|day)\s*")
_PER_S: Final = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "hour": 3600, "d": 86400}
_HOUR_S: Final = 3600.0
HOURS: Final = 24


class Arrivals:
    """The instants of one process.

    Attributes:
        is_endless: Whether the process has no end.
        text: In words.

    Args:
        instants: Gives the instants from 0 on, in seconds, for a stream.
        from_s: Is added to all of them.
        until_s: Instants at or after it are left out; counted from the start of the run.
        count_max: The largest number of instants.
        is_endless: Whether ``instants`` has no end.
        text: In words.
    """

    def __init__(
        self,
        instants: Callable[[Rng], Iterator[float]],
        *,
        from_s: float,
        until_s: float,
        count_max: int | None,
        is_endless: bool,
        text: str,
    ) -> None:
        self._instants = instants
        self._from_s = from_s
        self._until_s = until_s
        self._count_max = count_max
        self.is_endless = is_endless and until_s == math.inf and count_max is None
        self.text = text

    def instants(self, rng: Rng) -> Iterator[float]:
        """Yields the instants in order, in seconds from the start of the run."""
        return islice(self._before_end(rng), self._count_max)

    def _before_end(self, rng: Rng) -> Iterator[float]:
        for instant_s in self._instants(rng):
            if self._from_s + instant_s >= self._until_s:
                return
            yield self._from_s + instant_s


def arrivals_of(value: Any, path: Path, errors: list[FieldError]) -> Arrivals:
    """Returns the process that a plain value of a file describes.

    Args:
        value: A mapping with one of the forms above.
        path: Where it stands, for errors.
        errors: Gets what is wrong; the result means nothing then.

    Example:
        >>> every = {"interval": {"every": "30s", "until": "2m"}}
        >>> list(arrivals_of(every, (), []).instants(Rng(0)))
        [0.0, 30.0, 60.0, 90.0]
    """
    reading = _Reading(errors)
    if not isinstance(value, dict) or len(value) != 1:
        reading.error(path, f"must be a mapping with one of {', '.join(_FORMS)}", value)
        return _NONE
    [(name, fields)] = value.items()
    path = (*path, name)
    form = _FORMS.get(name)
    if form is None:
        errors.append(FieldError(path, "unknown process", None, nearest(str(name), [*_FORMS])))
        return _NONE
    if name == "at":
        return _at(reading, fields, path)
    before = len(errors)
    common = ("from", "until", "count")
    reading.check_fields(fields, path, [*form.fields, *common])
    if len(errors) > before:
        return _NONE
    from_s = reading.duration(fields.get("from", "0s"), (*path, "from"))
    until_s = math.inf
    if "until" in fields:
        until_s = reading.duration(fields["until"], (*path, "until"), above_s=from_s)
    count_max = None
    if "count" in fields:
        count_max = reading.integer(fields["count"], (*path, "count"))
    elif name == "uniform":
        reading.error((*path, "count"), "is required")
    if name == "uniform" and until_s == math.inf:
        reading.error((*path, "until"), "is required")
    if len(errors) > before:
        return _NONE
    span = _Span(from_s, until_s, count_max or 0)
    instants, text = form.make(reading, fields, path, span)
    return Arrivals(
        instants,
        from_s=from_s,
        until_s=until_s,
        count_max=count_max,
        is_endless=True,
        text=text + span.text(),
    )


class _Span:
    """From when to when, and how many."""

    def __init__(self, from_s: float, until_s: float, count: int) -> None:
        self.from_s = from_s
        self.until_s = until_s
        self.count = count

    def text(self) -> str:
        """Returns the limits in words."""
        parts = [f", from {duration_text(self.from_s)}"] if self.from_s else []
        if self.until_s < math.inf:
            parts.append(f", until {duration_text(self.until_s)}")
        return "".join(parts) + (f", at most {self.count}" if self.count else "")


class _Reading:
    """Reads the fields of a process."""

    def __init__(self, errors: list[FieldError]) -> None:
        self._errors = errors

    def error(self, path: Path, problem: str, value: Any = None) -> None:
        self._errors.append(FieldError(path, problem, value))

    def check_fields(self, fields: Any, path: Path, names: Sequence[str]) -> None:
        if not isinstance(fields, dict):
            self.error(path, "must be a mapping", fields)
            return
        for name in fields:
            if name not in names:
                near = nearest(str(name), list(names))
                self._errors.append(FieldError((*path, name), "unknown field", None, near))

    def duration(self, value: Any, path: Path, *, above_s: float = -1.0) -> float:
        try:
            seconds = parse_duration_s(value) if isinstance(value, str) else float("nan")
        except ValueError as error:
            self.error(path, str(error), value)
            return 1.0
        if math.isnan(seconds):
            self.error(path, 'must be a duration such as "90s" or "12h"', value)
            return 1.0
        if seconds <= above_s or seconds < 0:
            limit = "at least 0s" if above_s < 0 else f"after {duration_text(above_s)}"
            self.error(path, f"must be {limit}", value)
        return seconds

    def integer(self, value: Any, path: Path) -> int:
        if type(value) is not int or value < 1:
            self.error(path, "must be an integer of at least 1", value)
            return 1
        return value

    def rate(self, value: Any, path: Path, *, can_be_zero: bool = False) -> float:
        """Returns arrivals per second."""
        match = _RATE.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            self.error(path, 'must be a rate such as "12/min", "0.5/s" or "3/h"', value)
            return 1.0
        unit = match[2]
        per_s = float(match[1]) / _PER_S.get(unit, UNITS_NS["h"] * 24 // 10**9)
        if not per_s and not can_be_zero:
            self.error(path, "must be above 0", value)
            return 1.0
        return per_s


_Made = tuple[Callable[[Rng], Iterator[float]], str]


class _Form:
    def __init__(
        self, fields: Sequence[str], make: Callable[[_Reading, Any, Path, _Span], _Made]
    ) -> None:
        self.fields = fields
        self.make = make


def _poisson(reading: _Reading, fields: Any, path: Path, span: _Span) -> _Made:
    del span
    rate = reading.rate(fields.get("rate"), (*path, "rate"))

    def instants(rng: Rng) -> Iterator[float]:
        at_s = 0.0
        while True:
            at_s -= math.log1p(-rng.random()) / rate
            yield at_s

    return instants, f"Poisson, {fields.get('rate')}"


def _interval(reading: _Reading, fields: Any, path: Path, span: _Span) -> _Made:
    del span
    every_s = reading.duration(fields.get("every"), (*path, "every"), above_s=0.0)
    return lambda _: _multiples(every_s), f"one every {duration_text(every_s)}"


def _uniform(reading: _Reading, fields: Any, path: Path, span: _Span) -> _Made:
    del reading, fields, path

    def instants(rng: Rng) -> Iterator[float]:
        return iter(sorted(rng.random() * (span.until_s - span.from_s) for _ in range(span.count)))

    return instants, "uniform"


def _bursts(reading: _Reading, fields: Any, path: Path, span: _Span) -> _Made:
    del span
    size = reading.integer(fields.get("size"), (*path, "size"))
    every_s = reading.duration(fields.get("every"), (*path, "every"), above_s=0.0)

    def instants(rng: Rng) -> Iterator[float]:
        del rng
        for at_s in _multiples(every_s):
            for _ in range(size):
                yield at_s

    return instants, f"{size} every {duration_text(every_s)}"


def _hourly(reading: _Reading, fields: Any, path: Path, span: _Span) -> _Made:
    """Returns a Poisson process with rates by the hour: one of the highest rate, thinned."""
    texts = fields.get("rates")
    path = (*path, "rates")
    if not isinstance(texts, list) or len(texts) != HOURS:
        reading.error(path, f"must be a list of {HOURS} rates", texts)
        return _no_instants, ""
    rates = [reading.rate(rate, (*path, at), can_be_zero=True) for at, rate in enumerate(texts)]
    highest = max(rates)
    if not highest:
        reading.error(path, "must not all be 0", texts)
        return _no_instants, ""

    def instants(rng: Rng) -> Iterator[float]:
        at_s = 0.0
        while True:
            at_s -= math.log1p(-rng.random()) / highest
            hour = int((span.from_s + at_s) // _HOUR_S) % HOURS
            if rng.random() * highest < rates[hour]:
                yield at_s

    return instants, "by the hour"


def _at(reading: _Reading, value: Any, path: Path) -> Arrivals:
    if not isinstance(value, list) or not value:
        reading.error(path, "must be a list of durations", value)
        value = []
    times = sorted(reading.duration(item, (*path, number)) for number, item in enumerate(value))
    return Arrivals(
        lambda _: iter(times),
        from_s=0.0,
        until_s=math.inf,
        count_max=None,
        is_endless=False,
        text=f"{len(times)} instants",
    )


def _multiples(step_s: float) -> Iterator[float]:
    number = 0
    while True:
        yield number * step_s
        number += 1


def _no_instants(rng: Rng) -> Iterator[float]:
    del rng
    return iter(())


_FORMS: Final = {
    "poisson": _Form(("rate",), _poisson),
    "interval": _Form(("every",), _interval),
    "uniform": _Form((), _uniform),
    "bursts": _Form(("size", "every"), _bursts),
    "hourly": _Form(("rates",), _hourly),
    "at": _Form((), _interval),
}
_NONE: Final = Arrivals(
    _no_instants, from_s=0.0, until_s=0.0, count_max=None, is_endless=False, text=""
)
