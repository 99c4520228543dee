"""Step functions over time: exact integrals, and curves that keep their extremes.

A value holds until it changes. So a mean over time is a sum of value times length, without any
sampling; only the curves that are kept to be drawn are thinned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

#: Rows that are collected before they are thinned.
_BUFFER_ROWS: Final = 8192
#: A curve has at most about so many points.
POINTS_MAX: Final = 1000


class Curves:
    """Several step functions that change at the same instants.

    Args:
        names: Of the functions.
    """

    def __init__(self, names: Sequence[str]) -> None:
        n = len(names)
        self.names = list(names)
        self._values = np.zeros(n)
        self._area = np.zeros(n)
        self._max = np.full(n, -np.inf)
        self._at_s = 0.0
        #: When ``_values`` began to hold: the last row that is part of the integrals.
        self._since_s = 0.0
        #: Plain lists: a row becomes part of an array together with thousands of others.
        self._times: list[float] = []
        self._rows: list[Sequence[float]] = []
        self._kept: list[tuple[Any, Any]] = [(np.empty(0), np.empty(0)) for _ in range(n)]

    def set(self, at_s: float, values: Sequence[float]) -> None:
        """Sets the values from an instant on; instants come in order.

        Args:
            at_s: The instant in seconds.
            values: n numbers; the sequence is kept, so it must not change afterwards.
        """
        if at_s > self._at_s or not self._times:
            if len(self._times) == _BUFFER_ROWS:
                self._thin()
            self._at_s = at_s
            self._times.append(at_s)
            self._rows.append(values)
        else:
            self._times[-1], self._rows[-1] = at_s, values

    def finish(self, end_s: float) -> None:
        """Ends the functions: the last values hold until then."""
        self.set(end_s, self._rows[-1] if self._rows else self._values.tolist())
        self._thin()

    def mean(self, name: str) -> float:
        """Returns the mean over time of a function that has ended; 0 if no time has passed."""
        return float(self._area[self.names.index(name)] / self._at_s) if self._at_s else 0.0

    def area(self, name: str) -> float:
        """Returns the integral of a function, in its unit times seconds."""
        return float(self._area[self.names.index(name)])

    def max(self, name: str) -> float:
        """Returns the largest value that held for some time, or at the end."""
        highest = float(self._max[self.names.index(name)])
        return highest if highest > -np.inf else 0.0

    def curve(self, name: str) -> tuple[Any, Any]:
        """Returns the points of a curve: times in seconds and values, float64 (p,) each."""
        return self._kept[self.names.index(name)]

    def _thin(self) -> None:
        """Adds the collected rows to the integrals, and moves them into the curves."""
        if not self._times:
            return
        times, rows = np.array(self._times), np.array(self._rows, dtype=np.float64)
        self._times, self._rows = [], []
        lengths_s = np.diff(times, prepend=self._since_s)
        areas = np.concatenate([self._values[None, :], rows[:-1]]) * lengths_s[:, None]
        # One after the other, so that an integral does not depend on the length of the buffer.
        self._area = np.add.accumulate(np.concatenate([self._area[None, :], areas]))[-1]
        self._since_s, self._values = float(times[-1]), rows[-1].copy()
        np.maximum(self._max, rows.max(axis=0), out=self._max)
        for column in range(len(self.names)):
            old_times, old_values = self._kept[column]
            all_times = np.concatenate([old_times, times])
            all_values = np.concatenate([old_values, rows[:, column]])
            changes = np.flatnonzero(np.diff(all_values, prepend=np.nan))
            if len(all_times) - 1 not in changes[-1:]:
                changes = np.append(changes, len(all_times) - 1)
            self._kept[column] = thinned(all_times[changes], all_values[changes])


def thinned(times: Any, values: Any, points_max: int = POINTS_MAX) -> tuple[Any, Any]:
    """Returns a curve with fewer points; first, last, and the extremes of each part are kept.

    Args:
        times: float64 (p,), ascending.
        values: float64 (p,).
        points_max: The result has at most so many points.

    Example:
        >>> times, values = thinned(np.arange(5000.0), np.arange(5000.0) % 7)
        >>> len(times) <= 1000, float(values.max()), float(times[-1])
        (True, 6.0, 4999.0)
    """
    n_points = len(times)
    if n_points <= points_max:
        return times, values
    n_parts = (points_max - 2) // 2
    limits = np.linspace(0, n_points, n_parts + 1).astype(np.int64)
    lengths = np.diff(limits)
    part_of = np.repeat(np.arange(n_parts), lengths)
    is_kept = np.zeros(n_points, dtype=np.bool_)
    is_kept[[0, -1]] = True
    for extremes in (np.minimum.reduceat, np.maximum.reduceat):
        at = np.flatnonzero(values == np.repeat(extremes(values, limits[:-1]), lengths))
        # The first point of each part that has its extreme value.
        is_kept[at[np.flatnonzero(np.diff(part_of[at], prepend=-1))]] = True
    return times[is_kept], values[is_kept]
