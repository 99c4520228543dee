"""Bounded log of the nodes whose devices changed, from which cached results update themselves."""

from __future__ import annotations

from collections import deque
from typing import Final

#: Entries that are kept; a cache that is further behind starts again.
LENGTH_MAX: Final = 4096

#: The entry for a change that concerns all nodes.
ALL_NODES: Final = ""


class DeviceChanges:
    """The names of the last nodes with changes, numbered by an increasing generation."""

    def __init__(self) -> None:
        self.generation = 0
        self._names: deque[str] = deque(maxlen=LENGTH_MAX)

    def add(self, node_name: str) -> None:
        """Records that a slice or a device of a node changed; ``ALL_NODES`` = of any node."""
        self.generation += 1
        self._names.append(node_name)

    def since(self, generation: int) -> set[str] | None:
        """Returns the nodes with changes since ``generation``; None = all, or too many."""
        count = self.generation - generation
        if count > len(self._names):
            return None
        names = {self._names[-number] for number in range(1, count + 1)}
        return None if ALL_NODES in names else names
