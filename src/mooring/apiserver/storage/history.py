"""What happened to the objects of one resource: a bounded list of changes that watches read.

::

    dropped │ kept: change, change, change, ... │ next
            ▲                                   ▲
            compacted version                   the end that followers wait at

A watch is a position in this list, not a queue of its own: who reads too slowly finds that the
change at its position was dropped, and is closed. So no watch can hold more memory than the list.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mooring.apiserver.storage.stored_object import Stored

#: Changes kept per resource: two minutes of a cluster that binds 80 pods a second.
HISTORY_CHANGES = 20_000


class Change(NamedTuple):
    """One write.

    Attributes:
        version: The resourceVersion of the write.
        new: The object after it; None if it was deleted.
        old: The object before it; None if it was created.
    """

    version: int
    new: Stored | None
    old: Stored | None

    @property
    def key(self) -> str:
        """The key of the object that was written."""
        found = self.new or self.old
        assert found is not None
        return found.key


class Dropped(Exception):
    """The changes asked for are no longer kept."""


class History:
    """The latest changes of one resource, in the order in which they happened."""

    def __init__(self, *, compacted: int = 0, changes_max: int = HISTORY_CHANGES) -> None:
        """Starts empty; what happened up to version ``compacted`` is unknown."""
        self.compacted = compacted
        self._changes_max = changes_max
        self._changes: list[Change] = []
        self._dropped = 0
        self._listeners: dict[object, Callable[[], None]] = {}

    @property
    def end(self) -> int:
        """The position behind the last change."""
        return self._dropped + len(self._changes)

    def append(self, change: Change) -> None:
        """Adds the newest change and wake who waits for it."""
        self._changes.append(change)
        # Dropped in blocks: taking single ones from the front would move all the others.
        if len(self._changes) > self._changes_max + self._changes_max // 4:
            self.drop(len(self._changes) - self._changes_max)
        for listener in tuple(self._listeners.values()):
            listener()

    def drop(self, count: int) -> None:
        """Forgets the oldest changes."""
        count = min(count, len(self._changes))
        if count:
            self.compacted = self._changes[count - 1].version
            del self._changes[:count]
            self._dropped += count

    def position_after(self, version: int) -> int:
        """Returns the position of the first change that is newer than ``version``.

        Raises:
            Dropped: Some changes after that version are no longer kept.
        """
        if version < self.compacted:
            raise Dropped
        found = bisect_right(self._changes, version, key=lambda change: change.version)
        return self._dropped + found

    def read(self, position: int, count_max: int) -> list[Change]:
        """At most ``count_max`` changes from a position on.

        Raises:
            Dropped: The change at that position is no longer kept.
        """
        start = position - self._dropped
        if start < 0:
            raise Dropped
        return self._changes[start : start + count_max]

    def since(self, version: int) -> Iterator[Change]:
        """Returns all changes that are newer than ``version``.

        Raises:
            Dropped: Some of them are no longer kept.
        """
        start = self.position_after(version) - self._dropped
        return iter(self._changes[start:])

    def listen(self, who: object, listener: Callable[[], None]) -> None:
        """Calls ``listener`` after every change, until ``unlisten``."""
        self._listeners[who] = listener

    def unlisten(self, who: object) -> None:
        """Stops calling the listener of ``who``; it may have none."""
        self._listeners.pop(who, None)

    @property
    def listeners(self) -> int:
        """How many wait for changes."""
        return len(self._listeners)
