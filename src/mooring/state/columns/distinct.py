"""Numbers the distinct values of a column of small ints."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mooring.state.types import Rows


def number_distinct(values: npt.NDArray[np.integer[Any]]) -> tuple[Rows, Rows]:
    """Returns the distinct values, ascending, and for each value its index among them.

    The values are 0 or greater, at least one. Complexity: O(values + highest value).

    Example:
        >>> distinct, index = number_distinct(np.array([7, 3, 7]))
        >>> distinct.tolist(), index.tolist()
        ([3, 7], [1, 0, 1])
    """
    distinct = np.bincount(values).nonzero()[0]
    index_of = np.empty(int(distinct[-1]) + 1, dtype=np.intp)
    index_of[distinct] = np.arange(len(distinct))
    return distinct, index_of[values]
