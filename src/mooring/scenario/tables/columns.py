"""Columns of results that need few bytes a row: a run may have millions of pods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final, overload

import numpy as np

#: Rows that become Python objects at once.
CHUNK: Final = 8192
#: From here on floats do not represent every whole number.
_WHOLE_MAX: Final = 1 << 53

Time = float | int | None


class Times(Sequence[Time]):
    """Seconds to the microsecond, an integer if there is no fraction; None for nan.

    Args:
        values: float64 (n,).

    Example:
        >>> list(Times([1.0, 2.5, float("nan")]))
        [1, 2.5, None]
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: Any) -> None:
        self._values = np.asarray(values, np.float64)

    def __len__(self) -> int:
        """Returns the number of rows."""
        return len(self._values)

    @overload
    def __getitem__(self, index: int) -> Time: ...

    @overload
    def __getitem__(self, index: slice) -> Times: ...

    def __getitem__(self, index: int | slice) -> Time | Times:
        """Returns one row, or a part of the column."""
        if isinstance(index, slice):
            return Times(self._values[index])
        return _times([float(self._values[index])])[0]

    def __iter__(self) -> Iterator[Time]:
        """Yields the rows."""
        starts = range(0, len(self), CHUNK)
        return chain.from_iterable(
            _times(self._values[start : start + CHUNK].tolist()) for start in starts
        )

    def __eq__(self, other: object) -> bool:
        """Returns whether the other sequence has the same rows."""
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        """Returns the first rows."""
        rest = ", ..." if len(self) > 5 else ""
        return f"Times([{', '.join(map(str, self[:5]))}{rest}])"


def _times(values: list[float]) -> list[Time]:
    """Returns seconds as ``Times`` shows them: as ``plain``, for numbers that all are floats."""
    rounded = [round(seconds, 6) for seconds in values]
    return [
        None  # nan: it alone differs from itself
        if seconds != seconds
        else int(seconds)
        if seconds.is_integer() and abs(seconds) < _WHOLE_MAX
        else seconds
        for seconds in rounded
    ]


def plain(value: Any) -> Any:
    """Returns a number without a fraction as an integer."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE_MAX:
        return int(value)
    return value


def numbers(values: Sequence[int]) -> list[int]:
    """Returns integers as a list in which equal ones are one object."""
    objects: dict[int, int] = {}
    return [objects.setdefault(value, value) for value in values]
