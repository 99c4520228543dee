"""Numbers of JSON texts: those that Python reads and Kubernetes does not are refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NoReturn

from mooring.objects.files.scalars import INTEGER_DIGITS_MAX

#: Keys and list positions from the top.
_Path = tuple[str | int, ...]


class RefusedNumberError(ValueError):
    """A number that JSON or Python allows, and Kubernetes does not."""

    def __init__(self, problem: str, digits: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.digits = digits


def refuse_constant(name: str) -> NoReturn:
    """Raises RefusedNumberError: NaN and infinity are no JSON."""
    raise RefusedNumberError("is not a number that Kubernetes knows", name)


def finite(digits: str) -> float:
    """Returns a number with a fraction or an exponent.

    Raises:
        RefusedNumberError: it is too large.
    """
    value = float(digits)
    return value if math.isfinite(value) else refuse_constant(digits)


def integer(digits: str) -> int:
    """Returns a whole number.

    Raises:
        RefusedNumberError: it has too many digits.
    """
    # Python refuses to convert some thousands of digits.
    if len(digits) > INTEGER_DIGITS_MAX:
        problem = f"is an integer of more than {INTEGER_DIGITS_MAX} digits"
        raise RefusedNumberError(problem, digits)
    return int(digits)


def path_of_refused(text: str) -> _Path:
    """Returns the path of the first number of a JSON text that is refused; () = it is not known."""
    marks: list[object] = []

    def marked(convert: Callable[[str], Any], digits: str) -> Any:
        try:
            return convert(digits)
        except RefusedNumberError:
            marks.append(object())
            return marks[-1]

    try:
        value = json.loads(
            text,
            parse_constant=partial(marked, refuse_constant),
            parse_float=partial(marked, finite),
            parse_int=partial(marked, integer),
        )
        return next((path for path, own in _entries(value, ()) if own is marks[0]), ())
    except (ValueError, RecursionError):
        return ()


def _entries(value: Any, path: _Path) -> Iterator[tuple[_Path, Any]]:
    """Yields all values of a tree with their paths, in their order."""
    yield path, value
    if isinstance(value, dict | list):
        for step, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _entries(item, (*path, step))
