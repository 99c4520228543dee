"""Checks that what a part returns as its statistics does not change afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any


class Snapshots:
    """The statistics that were read last.

    Args:
        reads: Functions that return them.
    """

    def __init__(self, *reads: Callable[[], Any]) -> None:
        self._reads = reads
        #: By function, what was returned, and how it was.
        self._last: dict[int, tuple[Any, Any]] = {}

    def problems(self) -> Iterator[str]:
        """Yields the statistics that have changed since they were read, and reads them again."""
        for number, read in enumerate(self._reads):
            returned, before = self._last.get(number, (None, None))
            if returned != before:
                yield f"statistics that were {before} have become {returned}"
            returned = read()
            self._last[number] = returned, deepcopy(returned)
