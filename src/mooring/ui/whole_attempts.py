"""The latest attempts whole, while a page is open."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from mooring.clock import Clock
from mooring.framework import Attempt
from mooring.framework.runtime.attempt_copy import AttemptCopy

#: Number of attempts that are kept whole, and how many bytes of arrays.
WHOLE_MAX: Final = 200
WHOLE_BYTES_MAX: Final = 64 << 20
#: Copies take at most this share of the time, so that an open page does not slow a burst of pods.
COPY_SHARE_MAX: Final = 0.01


class WholeAttempts:
    """Keeps the latest attempts whole.

    Args:
        clock: Measures how long copies take.
        limit: The number of attempts that are kept.
    """

    def __init__(self, clock: Clock, limit: int = WHOLE_MAX) -> None:
        self._clock = clock
        self._limit = limit
        self._kept: OrderedDict[int, AttemptCopy] = OrderedDict()
        self._names: list[str] = []
        self._size_bytes = 0
        self._next_s = 0.0

    def __contains__(self, number: int) -> bool:
        return number in self._kept

    def get(self, number: int) -> AttemptCopy | None:
        """Returns an attempt by its number; None = it is not kept."""
        return self._kept.get(number)

    def add(self, number: int, attempt: Attempt, node: str, weights: Mapping[str, int]) -> None:
        """Keeps an attempt, unless the copies before it took too much of the time."""
        started_s = self._clock.monotonic_s()
        if started_s < self._next_s:
            return
        names = attempt.snapshot.nodes.names
        if names != self._names:
            self._names = list(names)
        whole = self._kept[number] = AttemptCopy(attempt, node, self._names, weights)
        self._size_bytes += whole.size_bytes
        while len(self._kept) > self._limit or self._size_bytes > WHOLE_BYTES_MAX:
            _, oldest = self._kept.popitem(last=False)
            self._size_bytes -= oldest.size_bytes
        ended_s = self._clock.monotonic_s()
        self._next_s = ended_s + (ended_s - started_s) / COPY_SHARE_MAX
