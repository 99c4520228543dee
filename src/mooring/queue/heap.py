"""A heap of pods from which any pod can be removed."""

from __future__ import annotations

import copy
import heapq
from collections.abc import Callable, Iterator
from typing import Any

from mooring.queue.queued_pod import QueuedPod

SortKey = Callable[[QueuedPod], Any]


class PodHeap:
    """Pods in the order of ``sort_key``; of equal pods the one that was pushed first.

    A pod that is removed from the middle leaves a stale entry, recognized by its heap_sequence,
    until the entry reaches the top or half of the list is stale.
    """

    __slots__ = ("_heap_sequence", "_items", "_pods", "_sort_key")

    def __init__(self, sort_key: SortKey) -> None:
        self._sort_key = sort_key
        self._items: list[tuple[Any, int, QueuedPod]] = []
        self._pods: dict[str, QueuedPod] = {}
        self._heap_sequence = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, entry: QueuedPod) -> bool:
        return self._pods.get(entry.uid) is entry

    def __iter__(self) -> Iterator[QueuedPod]:
        """Iterates in the order of insertion."""
        return iter(list(self._pods.values()))

    def push(self, entry: QueuedPod) -> None:
        """Adds a pod, or sorts it again if its sort key has changed. Complexity: O(log n)."""
        self._heap_sequence += 1
        entry.heap_sequence = self._heap_sequence
        self._pods[entry.uid] = entry
        heapq.heappush(self._items, (self._sort_key(entry), self._heap_sequence, entry))
        self._compact()

    def peek(self) -> QueuedPod | None:
        """Returns the first pod, None if there is none."""
        items = self._items
        while items and not self._is_current(items[0]):
            heapq.heappop(items)
        return items[0][2] if items else None

    def pop(self) -> QueuedPod | None:
        """Pops the first pod; None if there is none. Complexity: O(log n)."""
        items, pods = self._items, self._pods
        while items:
            _, heap_sequence, entry = heapq.heappop(items)
            if entry.heap_sequence == heap_sequence and pods.get(entry.uid) is entry:
                del pods[entry.uid]
                return entry
        return None

    def remove(self, entry: QueuedPod) -> bool:
        """Removes a pod. Returns False if it is not here. Complexity: O(1), amortised."""
        if entry not in self:
            return False
        del self._pods[entry.uid]
        self._compact()
        return True

    def _compact(self) -> None:
        if len(self._items) > 64 and len(self._items) > 2 * len(self._pods):
            self._items = [item for item in self._items if self._is_current(item)]
            heapq.heapify(self._items)

    def _is_current(self, item: tuple[Any, int, QueuedPod]) -> bool:
        _, heap_sequence, entry = item
        return entry.heap_sequence == heap_sequence and self._pods.get(entry.uid) is entry


class ByLess:
    """A sort key made of a ``less`` function, for QueueSort plugins that have nothing faster.

    It compares a copy of the pod, taken when it was pushed: a key in a heap must not change.
    """

    __slots__ = ("_entry", "_less")

    def __init__(self, less: Callable[[Any, Any], bool], entry: QueuedPod) -> None:
        self._less = less
        self._entry = copy.copy(entry)

    def __lt__(self, other: ByLess) -> bool:
        return bool(self._less(self._entry, other._entry))

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, ByLess)
        return not (self < other or other < self)

    __hash__ = None  # type: ignore[assignment]
