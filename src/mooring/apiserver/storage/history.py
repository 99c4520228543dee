"""The history of one resource: a bounded list of changes that watches read.

::

    dropped │ change, change, change, ... │ next
            ▲                             ▲
            compacted version             the end that watches wait at

A watch is a position in this list, not a queue of its own. If a watch reads too slowly, the change
at its position has been dropped, and the watch is closed. So watches need no memory of their own.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mooring.apiserver.storage.stored_object import Stored

#: Changes stored per resource: two minutes of a cluster that binds 80 pods a second.
HISTORY_CHANGES = 20_000
#: Bytes of their objects: a hundred of the largest ones.
HISTORY_BYTES_MAX = 128 * 1024 * 1024


class StoreEvent(NamedTuple):
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
        stored = self.new or self.old
        assert stored is not None
        return stored.key


class Dropped(Exception):
    """Raised if the requested changes are no longer stored."""


class History:
    """The latest changes of one resource, in the order in which they happened."""

    def __init__(self, *, compacted: int = 0, changes_max: int = HISTORY_CHANGES) -> None:
        """Starts empty; changes up to version ``compacted`` are not available."""
        self.compacted = compacted
        self._changes_max = changes_max
        self._changes: list[StoreEvent] = []
        self._bytes = 0
        self._dropped = 0
        self._listeners: dict[object, Callable[[], None]] = {}
        #: How often all watches were ended.
        self.ends = 0

    def end_watches(self) -> None:
        """Ends the present watches, after they have read all changes."""
        self.ends += 1
        for listener in tuple(self._listeners.values()):
            listener()

    @property
    def end(self) -> int:
        """The position behind the last change."""
        return self._dropped + len(self._changes)

    @property
    def latest(self) -> int:
        """The version of the last change; 0 before the first."""
        return self._changes[-1].version if self._changes else self.compacted

    def append(self, change: StoreEvent) -> None:
        """Appends a change and calls the listeners."""
        self._changes.append(change)
        self._bytes += _bytes_of(change)
        # Dropped in blocks: removing single ones from the front would move all the others.
        if len(self._changes) > self._changes_max + self._changes_max // 4:
            self.drop(len(self._changes) - self._changes_max)
        if self._bytes > HISTORY_BYTES_MAX:
            self.drop(self._count_above(HISTORY_BYTES_MAX * 3 // 4))
        for listener in tuple(self._listeners.values()):
            listener()

    def _count_above(self, bytes_max: int) -> int:
        """Returns how many of the oldest changes exceed a size; never the last one."""
        left = self._bytes
        for count, change in enumerate(self._changes[:-1]):
            if left <= bytes_max:
                return count
            left -= _bytes_of(change)
        return len(self._changes) - 1

    def drop(self, count: int) -> None:
        """Drops the oldest changes."""
        count = min(count, len(self._changes))
        if count:
            self.compacted = self._changes[count - 1].version
            self._bytes -= sum(map(_bytes_of, self._changes[:count]))
            del self._changes[:count]
            self._dropped += count

    def position_after(self, version: int) -> int:
        """Returns the position of the first change that is newer than ``version``.

        Raises:
            Dropped: Some changes after that version are no longer stored.
        """
        if version < self.compacted:
            raise Dropped
        index = bisect_right(self._changes, version, key=lambda change: change.version)
        return self._dropped + index

    def read(self, position: int, count_max: int) -> list[StoreEvent]:
        """Returns at most ``count_max`` changes from a position on.

        Raises:
            Dropped: The change at that position is no longer stored.
        """
        start = position - self._dropped
        if start < 0:
            raise Dropped
        return self._changes[start : start + count_max]

    def since(self, version: int) -> Iterator[StoreEvent]:
        """Returns all changes that are newer than ``version``.

        Raises:
            Dropped: Some of them are no longer stored.
        """
        start = self.position_after(version) - self._dropped
        return iter(self._changes[start:])

    def listen(self, owner: object, listener: Callable[[], None]) -> None:
        """Calls ``listener`` after every change, until ``unlisten``."""
        self._listeners[owner] = listener

    def unlisten(self, owner: object) -> None:
        """Removes the listener of ``owner``, if any."""
        self._listeners.pop(owner, None)

    @property
    def listeners(self) -> int:
        """Number of listeners."""
        return len(self._listeners)


def _bytes_of(change: StoreEvent) -> int:
    """Returns the size of an object; that before the change is mostly in an earlier one."""
    return 0 if change.new is None else len(change.new.tail)
