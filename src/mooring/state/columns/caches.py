"""Caches with a limit: the least recently used entry is evicted.

They are not for single numbers or columns that an owner keeps up to date itself: those have no
entries to evict.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TypeVar

import numpy as np

from mooring.state.columns.change_log import Change, ChangeLog

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LRUCache(OrderedDict[K, V]):
    """The ``limit`` most recently used entries, in the order of their use; no value is None.

    ``recent`` and ``put`` count as a use; the other methods of a dict do not. Complexity: O(1).

    Example:
        >>> cache = LRUCache[str, int](2)
        >>> cache.put("a", 1), cache.put("b", 2), cache.recent("a"), cache.put("c", 3)
        (1, 2, 1, 3)
        >>> list(cache)
        ['a', 'c']
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        #: May be changed; ``evict`` and the next ``put`` apply it.
        self.limit = limit

    def recent(self, key: K) -> V | None:
        """Returns the value of ``key``, which is then the most recently used; None if absent."""
        value = self.get(key)
        if value is not None:
            self.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> V:
        """Adds or replaces an entry, as the most recently used, and returns its value."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > self.limit:
            self.evict()
        return value

    def evict(self, space: int = 0) -> list[tuple[K, V]]:
        """Removes the least recently used until ``space`` more fit in, and returns the removed."""
        return [self.popitem(last=False) for _ in range(len(self) + space - self.limit)]


class NodeCache(LRUCache[K, V]):
    """An LRU cache of values that depend on the columns ``reads`` of all nodes.

    ``invalidate_if_stale`` must be called before entries are read or added, once per snapshot.
    """

    def __init__(self, limit: int, reads: Change) -> None:
        super().__init__(limit)
        #: Rises when the entries are invalidated: whatever was computed from them is stale too.
        self.version = 0
        self._reads = int(reads)
        self._log: ChangeLog | None = None
        self._size = 0
        self._generation = 0

    def invalidate_if_stale(self, log: ChangeLog, size: int) -> None:
        """Clears the cache if a column that it reads changed, or the table has more rows.

        Args:
            log: The changes of the node table; with another log, all entries are stale.
            size: The number of rows in use. A row for pods on an unknown node is added without a
                change of existence; the capacity grows only together with the size.
        """
        is_same_table = log is self._log and size == self._size
        if is_same_table and log.generation == self._generation:
            return
        changes = log.since(self._generation) if is_same_table else None
        if changes is None or int(np.bitwise_or.reduce(changes[1])) & self._reads:
            self.clear()
            self.version += 1
        self._log, self._size, self._generation = log, size, log.generation
