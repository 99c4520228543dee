"""Expectations of a scenario: lines that make it a test.

::

    expect:
    - wait.p99_s: "< 10m"
    - pods.pending: "== 0"
    - allocated.cpu: ">= 80%"
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mooring.config.durations import parse_duration_s
from mooring.config.field_errors import FieldError
from mooring.objects.files.documents import Path

_COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_LINE: Final = re.compile(r"\s*(<=|>=|==|!=|<|>)\s*(\S+)\s*")


@dataclass(frozen=True, slots=True)
class Expectation:
    """A limit for one measure.

    Attributes:
        measure: Its name.
        comparison: One of < <= > >= == !=.
        limit: The number.
        text: As it is written.
        path: Where it is written.
    """

    measure: str
    comparison: str
    limit: float
    text: str
    path: Path = ()

    def holds(self, value: float | None) -> bool:
        """Returns whether a value is within the limit; one that does not exist is not."""
        return value is not None and _COMPARISONS[self.comparison](value, self.limit)


def expectations_of(
    lines: Sequence[Mapping[str, Any]], path: Path, errors: list[FieldError]
) -> list[Expectation]:
    """Returns the expectations of a file; what is wrong is added to ``errors``."""
    expectations = []
    for at, line in enumerate(lines):
        for measure, value in line.items():
            where = (*path, at, measure)
            match = _LINE.fullmatch(value) if isinstance(value, str) else None
            limit = None if match is None else limit_of(match[2])
            if match is None or limit is None:
                errors.append(
                    FieldError(where, 'must be a limit such as "< 10m" or ">= 80%"', value)
                )
                continue
            expectations.append(Expectation(measure, match[1], limit, f"{measure} {value}", where))
    return expectations


def limit_of(text: str) -> float | None:
    """Returns a number, a share ("80%"), or the seconds of a duration; None = it is neither.

    No value is ever beyond nan or infinity: neither is a limit.

    Example:
        >>> limit_of("80%"), limit_of("10m"), limit_of("3"), limit_of("soon"), limit_of("nan")
        (0.8, 600.0, 3.0, None, None)
    """
    try:
        number = float(text[:-1]) / 100 if text.endswith("%") else float(text)
        return number if math.isfinite(number) else None
    except ValueError:
        pass
    try:
        return parse_duration_s(text)
    except ValueError:
        return None


def is_duration(text: str) -> bool:
    """Returns whether a limit is a duration: no number, and no share.

    Example:
        >>> is_duration("10m"), is_duration("3"), is_duration("80%"), is_duration("soon")
        (True, False, False, False)
    """
    try:
        parse_duration_s(text)
    except ValueError:
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False
