"""Distributions of amounts of time, and of other numbers, as scenario files write them.

::

    90s                                      always the same
    {uniform: {min: 1m, max: 5m}}
    {exponential: {mean: 10m}}
    {lognormal: {median: 9m, p99: 26h}}
    {weibull: {shape: 0.7, scale: 40h}}
    {gamma: {shape: 2, mean: 5m}}
    {pareto: {min: 1m, shape: 1.5}}
    {choice: [{value: 1m, weight: 3}, {value: 1h}]}
    {empirical: {values: [3s, 7s, 20s]}}     or {file: runs.csv, column: seconds}

Every draw takes one number of the stream (gamma: some), and inverts the distribution function: the
draws of two runs stay side by side even if a parameter differs.
"""

from __future__ import annotations

import csv
import gzip
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path as FilePath
from statistics import NormalDist
from typing import Any, Final, Protocol

from mooring.clock import Rng
from mooring.config.durations import duration_text, parse_duration_s
from mooring.config.field_errors import FieldError
from mooring.config.strict import nearest
from mooring.objects.files.documents import Path

_NORMAL: Final = NormalDist()
#: The quantile of the standard normal distribution at 0.99.
_Z99: Final = _NORMAL.inv_cdf(0.99)
#: The longest duration has some 292 years; nothing else of a distribution is larger.
NUMBER_MAX: Final = 9.2e9
#: A distribution that can draw a larger number is refused: sums and products stay finite.
DRAW_MAX: Final = 1e200
#: Of larger ones ``exp`` raises an error.
_EXPONENT_MAX: Final = 700.0
#: The largest number of a stream.
_P_MAX: Final = 1 - 2**-53
#: Stands for a field without a value.
_MISSING: Final = object()


class Distribution(Protocol):
    """Draws numbers; durations are in seconds."""

    def draw(self, rng: Rng) -> float:
        """Returns the next number."""
        ...

    def mean(self) -> float:
        """Returns the mean; infinity if there is none."""
        ...

    def text(self) -> str:
        """Returns the distribution in words, its numbers as durations."""
        ...


class Constant:
    """Always the same number."""

    def __init__(self, value: float) -> None:
        self.value = value

    def draw(self, rng: Rng) -> float:
        """Returns the number; takes nothing from the stream."""
        del rng
        return self.value

    def mean(self) -> float:
        """Returns the number."""
        return self.value

    def text(self) -> str:
        """Returns the number as a duration."""
        return "for ever" if self.value == math.inf else duration_text(self.value)


class Inverse:
    """A distribution whose quantile function has a formula.

    Args:
        quantile: From a probability (0 <= p < 1) to a number.
        mean: The mean.
        text: In words.
    """

    def __init__(self, quantile: Callable[[float], float], mean: float, text: str) -> None:
        self.quantile = quantile
        self._mean = mean
        self._text = text

    def draw(self, rng: Rng) -> float:
        """Returns the quantile of a uniform number."""
        return self.quantile(rng.random())

    def mean(self) -> float:
        """Returns the mean."""
        return self._mean

    def text(self) -> str:
        """Returns the distribution in words."""
        return self._text


class Gamma:
    """The gamma distribution, by Python's own generator: its quantiles have no formula."""

    def __init__(self, shape: float, mean: float) -> None:
        self._shape = shape
        self._mean = mean

    def draw(self, rng: Rng) -> float:
        """Returns the next number."""
        return rng.gammavariate(self._shape, self._mean / self._shape)

    def mean(self) -> float:
        """Returns the mean."""
        return self._mean

    def text(self) -> str:
        """Returns the distribution in words."""
        return f"gamma, mean {duration_text(self._mean)}, shape {self._shape:g}"


class Weighted:
    """One of several numbers, with weights."""

    def __init__(self, values: Sequence[float], weights: Sequence[float]) -> None:
        self._values = values
        self._limits = list(accumulate(weights))

    def draw(self, rng: Rng) -> float:
        """Returns one of the numbers."""
        limits = self._limits
        at = bisect_right(limits, rng.random() * limits[-1])
        return self._values[min(at, len(limits) - 1)]

    def mean(self) -> float:
        """Returns the weighted mean."""
        weights = [b - a for a, b in zip([0.0, *self._limits], self._limits, strict=False)]
        products = [v * w for v, w in zip(self._values, weights, strict=True)]
        return math.fsum(products) / self._limits[-1]

    def text(self) -> str:
        """Returns the distribution in words."""
        low, high = min(self._values), max(self._values)
        return f"one of {len(self._values)}, {duration_text(low)} to {duration_text(high)}"


# -- reading ------------------------------------------------------------------------------------


def distribution_of(
    value: Any, path: Path, errors: list[FieldError], *, folder: str = "."
) -> Distribution:
    """Returns the distribution that a plain value of a file describes.

    Args:
        value: A number (seconds), a duration, or a mapping with one of the forms above.
        path: Where it stands, for errors.
        errors: Gets what is wrong; the result means nothing then.
        folder: File names are relative to it.

    Example:
        >>> distribution_of({"exponential": {"mean": "10m"}}, (), []).mean()
        600.0
    """
    reading = _Reading(errors, folder)
    if not isinstance(value, dict):
        return Constant(reading.number(value, path))
    if len(value) != 1:
        errors.append(FieldError(path, f"must have one form: {_names(_FORMS)}", list(value)))
        return Constant(0.0)
    [(name, fields)] = value.items()
    form = _FORMS.get(name)
    if form is None:
        errors.append(
            FieldError((*path, name), "unknown distribution", None, nearest(str(name), [*_FORMS]))
        )
        return Constant(0.0)
    before = len(errors)
    result = form(reading, fields, (*path, name))
    return Constant(0.0) if len(errors) > before else result()


class _Reading:
    """Reads the fields of a distribution."""

    def __init__(self, errors: list[FieldError], folder: str) -> None:
        self.errors = errors
        self.folder = folder

    def error(self, path: Path, problem: str, value: Any = None) -> float:
        self.errors.append(FieldError(path, problem, value))
        return 1.0

    def number(self, value: Any, path: Path, *, above_zero: bool = False) -> float:
        """Returns a number, or the seconds of a duration."""
        if isinstance(value, str):
            try:
                seconds = parse_duration_s(value)
            except ValueError as error:
                return self.error(path, str(error), value)
        elif type(value) in (int, float):
            seconds = float(value)
        else:
            return self.error(path, 'must be a number or a duration such as "90s"', value)
        if not math.isfinite(seconds) or seconds < 0 or (above_zero and not seconds):
            limit = "above 0" if above_zero else "at least 0"
            return self.error(path, f"must be {limit}", value)
        if seconds > NUMBER_MAX:
            return self.error(path, f"must be at most {NUMBER_MAX:g}", value)
        return seconds

    def fields(
        self, value: Any, path: Path, required: Sequence[str], optional: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Returns the fields of a mapping, each of which is one of the names."""
        if not isinstance(value, dict):
            self.error(path, "must be a mapping", value)
            return {}
        names = [*required, *optional]
        for name in value:
            if name not in names:
                near = nearest(str(name), names)
                self.errors.append(FieldError((*path, name), "unknown field", None, near))
        for name in required:
            if name not in value:
                self.error((*path, name), "is required")
        return value

    def numbers(self, value: Any, path: Path, *names: str) -> list[float]:
        """Returns the numbers above 0 of a mapping that has just these names."""
        fields = self.fields(value, path, names)
        return [
            1.0
            if (own := fields.get(name, _MISSING)) is _MISSING
            else self.number(own, (*path, name), above_zero=True)
            for name in names
        ]

    def check_draws(
        self, largest: Callable[[], float], path: Path, value: float, change: str
    ) -> None:
        """Reports a parameter with which draws can be too large.

        Args:
            largest: Returns the largest draw.
            path: Where the parameter is written.
            value: Its value.
            change: How to change it: "larger" or "smaller".
        """
        try:
            is_drawn = largest() <= DRAW_MAX
        except OverflowError:
            is_drawn = False
        if not is_drawn:
            self.error(path, f"must be {change}: draws can be above {DRAW_MAX:g}", value)


_Form = Callable[[_Reading, Any, Path], Callable[[], Distribution]]


def _uniform(reading: _Reading, value: Any, path: Path) -> Callable[[], Distribution]:
    fields = reading.fields(value, path, ("max",), ("min",))
    low = reading.number(fields.get("min", 0), (*path, "min"))
    high = reading.number(fields.get("max", 0), (*path, "max"))
    if low > high:
        reading.error((*path, "min"), f"must be at most max ({duration_text(high)})", low)
    text = f"{duration_text(low)} to {duration_text(high)}"
    return lambda: Inverse(lambda p: low + (high - low) * p, (low + high) / 2, text)


def _exponential(reading: _Reading, value: Any, path: Path) -> Callable[[], Distribution]:
    [mean] = reading.numbers(value, path, "mean")
    text = f"exponential, mean {duration_text(mean)}"
    return lambda: Inverse(lambda p: -math.log1p(-p) * mean, mean, text)


def _lognormal(reading: _Reading, value: Any, path: Path) -> Callable[[], Distribution]:
    by_sigma = isinstance(value, dict) and "sigma" in value
    field = "sigma" if by_sigma else "p99"
    median, second = reading.numbers(value, path, "median", field)
    if not by_sigma and second < median:
        reading.error((*path, "p99"), f"must be at least the median ({duration_text(median)})")
    sigma = second if by_sigma else math.log(max(second, median) / median) / _Z99

    def quantile(p: float) -> float:
        # The stream can give 0, which has no normal quantile.
        return median * math.exp(sigma * _NORMAL.inv_cdf(max(p, 1e-300)))

    reading.check_draws(lambda: quantile(_P_MAX), (*path, field), second, "smaller")

    def made() -> Distribution:
        text = f"lognormal, median {duration_text(median)}, p99 {duration_text(quantile(0.99))}"
        exponent = sigma * sigma / 2
        mean = median * math.exp(exponent) if exponent < _EXPONENT_MAX else math.inf
        return Inverse(quantile, mean, text)

    return made


def _weibull(reading: _Reading, value: Any, path: Path) -> Callable[[], Distribution]:
    shape, scale = reading.numbers(value, path, "shape", "scale")
    mean = scale * math.gamma(1 + 1 / shape) if shape > 0.01 else math.inf
    text = f"Weibull, shape {shape:g}, scale {duration_text(scale)}"

    def quantile(p: float) -> float:
        return scale * float((-math.log1p(-p)) ** (1 / shape))

    reading.check_draws(lambda: quantile(_P_MAX), (*path, "shape"), shape, "larger")
    return lambda: Inverse(quantile, mean, text)


def _gamma(reading: _Reading, value: Any, path: Path) -> Callable[[], Distribution]:
    shape, mean = reading.numbers(value, path, "shape", "mean")
    # A draw is at most some hundred times the scale.
    reading.check_draws(lambda: 1e3 * mean / shape, (*path, "shape"), shape, "larger")
    return lambda: Gamma(shape, mean)


def _pareto(reading: _Reading, value: Any, path: Path) -> Callable[[], Distribution]:
    low, shape = reading.numbers(value, path, "min", "shape")
    mean = low * shape / (shape - 1) if shape > 1 else math.inf
    text = f"Pareto, at least {duration_text(low)}, shape {shape:g}"

    def quantile(p: float) -> float:
        return low * float((1 - p) ** (-1 / shape))

    reading.check_draws(lambda: quantile(_P_MAX), (*path, "shape"), shape, "larger")
    return lambda: Inverse(quantile, mean, text)


def _choice(reading: _Reading, value: Any, path: Path) -> Callable[[], Distribution]:
    values, weights = [], []
    if not isinstance(value, list) or not value:
        reading.error(path, "must be a list of {value, weight}", value)
    else:
        for at, item in enumerate(value):
            fields = reading.fields(item, (*path, at), ("value",), ("weight",))
            values.append(reading.number(fields.get("value", 0), (*path, at, "value")))
            weight = fields.get("weight", 1)
            weights.append(reading.number(weight, (*path, at, "weight"), above_zero=True))
    return lambda: Weighted(values, weights)


def _empirical(reading: _Reading, value: Any, path: Path) -> Callable[[], Distribution]:
    numbers: list[float] = []
    if isinstance(value, dict) and "values" in value:
        values = reading.fields(value, path, ("values",))["values"]
        if not isinstance(values, list) or not values:
            reading.error((*path, "values"), "must be a list of numbers or durations", values)
        else:
            numbers = [reading.number(v, (*path, "values", at)) for at, v in enumerate(values)]
    else:
        fields = reading.fields(value, path, ("file", "column"))
        if isinstance(fields.get("file"), str) and isinstance(fields.get("column"), str):
            numbers = _column(reading, fields, path)
        elif fields:
            reading.error(path, "file and column must be texts", fields)
    return lambda: Weighted(numbers, [1.0] * len(numbers))


def _column(reading: _Reading, fields: Mapping[str, str], path: Path) -> list[float]:
    """Returns the numbers of a column of a CSV file."""
    file, column = FilePath(reading.folder, fields["file"]), fields["column"]
    try:
        opened = gzip.open if file.suffix == ".gz" else open
        with opened(file, "rt", encoding="utf-8", newline="") as lines:
            return _numbers_of(reading, csv.DictReader(lines), column, path, str(fields["file"]))
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        problem = getattr(error, "strerror", None) or str(error)
        reading.error((*path, "file"), f"cannot be read: {problem.lower()}", fields["file"])
        return [1.0]


def _numbers_of(
    reading: _Reading, rows: csv.DictReader[str], column: str, path: Path, name: str
) -> list[float]:
    if column not in (rows.fieldnames or ()):
        near = nearest(column, [*(rows.fieldnames or ())])
        problem = f"is no column of {name}"
        reading.errors.append(FieldError((*path, "column"), problem, column, near))
        return [1.0]
    numbers = []
    for row in rows:
        text = row[column] or ""
        plain: Any = text
        with suppress(ValueError):
            plain = float(text)
        where = (*path, f"{name} line {rows.line_num}")
        numbers.append(reading.number(plain, where))
        if len(reading.errors) > 20:
            break
    if not numbers:
        reading.error((*path, "file"), "has no rows", name)
    return numbers or [1.0]


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)


_FORMS: Final[dict[str, _Form]] = {
    "uniform": _uniform,
    "exponential": _exponential,
    "lognormal": _lognormal,
    "weibull": _weibull,
    "gamma": _gamma,
    "pareto": _pareto,
    "choice": _choice,
    "empirical": _empirical,
}
