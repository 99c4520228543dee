"""The backoff queue: refused and failed pods, until their backoff expires.

A refused pod waits 1 s after its first attempt, then 2, 4, 8 and 10 s from then on; one whose
attempt failed with an error likewise, counted from the first error in a row, unless it is
quarantined (``quarantine.py``). Expirations are
rounded down to whole seconds, so that within a second pods of higher priority go first.

Source: pkg/scheduler/backend/queue/backoff_queue.go.
"""

from __future__ import annotations

import math
from typing import Final

from mooring.queue.heap import PodHeap, SortKey
from mooring.queue.queued_pod import QueuedPod

#: Pods whose backoff ends within the same second are tried in the order of the active queue.
WINDOW_S: Final = 1.0

_NEVER: Final = float("-inf")


class BackoffQueue:
    """Heaps by expiration: refused pods, pods whose attempt ended with an error, quarantined pods.

    Args:
        initial_s: The first backoff.
        max_s: The longest backoff; 0 = no backoff at all.
        sort_key: The order of the active queue.
        window_s: Expirations are rounded down to multiples of this; 0 = exact.
    """

    def __init__(
        self, initial_s: float, max_s: float, sort_key: SortKey, *, window_s: float = WINDOW_S
    ) -> None:
        self._initial_s = initial_s
        self._max_s = max_s
        self._window_s = window_s
        window_key: SortKey = lambda entry: (self.expiration_s(entry), sort_key(entry))  # noqa: E731
        self._refused = PodHeap(window_key if window_s else self.expiration_s)
        self._failed = PodHeap(self.expiration_s)
        self._quarantined = PodHeap(self.expiration_s)
        self._heaps = (self._refused, self._failed, self._quarantined)

    def __len__(self) -> int:
        return len(self._refused) + len(self._failed) + len(self._quarantined)

    def __contains__(self, entry: QueuedPod) -> bool:
        return any(entry in heap for heap in self._heaps)

    @property
    def quarantined_count(self) -> int:
        """Number of quarantined pods."""
        return len(self._quarantined)

    def expiration_s(self, entry: QueuedPod) -> float:
        """Returns the end of the pod's backoff, rounded down to the window; -inf if it has none."""
        count = entry.consecutive_errors or entry.unschedulable_count
        if not entry.quarantine_s and (not self._max_s or not count):
            return _NEVER
        if entry.backoff_expiration_s is None:
            ends_s = entry.timestamp_s + (entry.quarantine_s or self.duration_s(count))
            entry.backoff_expiration_s = self._floor_to_window(ends_s)
        return entry.backoff_expiration_s

    def duration_s(self, count: int) -> float:
        """Returns the backoff after ``count`` attempts (at least one)."""
        # Doubling stops before numbers get huge: a pod may have failed a million times.
        return min(self._initial_s * 2.0 ** min(count - 1, 64), self._max_s)

    def is_backing_off(self, entry: QueuedPod, now_s: float) -> bool:
        """Returns whether the pod has to wait, up to the end of the window of its expiration."""
        return self.expiration_s(entry) >= self._floor_to_window(now_s)

    def add(self, entry: QueuedPod) -> None:
        """Adds a pod; one without rejecting plugins has failed with an error."""
        if entry.quarantine_s:
            self._quarantined.push(entry)
        else:
            may_pop_early = entry.rejectors and not entry.keeps_backoff
            (self._refused if may_pop_early else self._failed).push(entry)

    def update(self, entry: QueuedPod) -> None:
        """Sorts a pod again: its sort key may have changed."""
        next((heap for heap in self._heaps if entry in heap), self._failed).push(entry)

    def remove(self, entry: QueuedPod) -> bool:
        """Removes a pod. Returns False if it is not here."""
        return any(heap.remove(entry) for heap in self._heaps)

    def pop_completed(self, now_s: float) -> list[QueuedPod]:
        """Pops every pod whose backoff has expired."""
        completed = []
        for heap in self._heaps:
            while (entry := heap.peek()) is not None and not self.is_backing_off(entry, now_s):
                heap.pop()
                completed.append(entry)
        return completed

    def pop_early(self) -> QueuedPod | None:
        """Pops the refused pod with the earliest expiry before it expires (activeQ is empty).

        Pods that failed with an error, or in their binding cycle, keep their backoff: it protects
        the component that fails, and the API server, which each binding cycle writes to.
        """
        return self._refused.pop()

    def next_completion_s(self) -> float:
        """Returns when ``pop_completed`` will next return a pod; infinity if never."""
        end_s = math.inf
        for heap in self._heaps:
            entry = heap.peek()
            if entry is not None:
                end_s = min(end_s, self.expiration_s(entry))
        # Without a window a backoff is over after its expiration, not at it.
        return end_s + (self._window_s or 1e-6)

    def _floor_to_window(self, time_s: float) -> float:
        if not self._window_s:
            return time_s
        return math.floor(time_s / self._window_s) * self._window_s
