"""A watch: the changes of a collection that match one client's selection.

::

    initial state ──> bookmark "initial events end" ──> changes ──> ... ──> bookmark ──> changes
    (if requested)      (if bookmarks are allowed)

``Watch`` has a position in the history and no events of its own; ``read`` is called repeatedly.
An object that begins to match the selector is ADDED, one that ceases to is DELETED.

Source: k8s.io/apiserver pkg/storage/cacher/{cacher,cache_watcher}.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mooring.apiserver.endpoints.listing import ListOptions, version_problem
from mooring.apiserver.errors import ApiStatusError, expired, version_too_large
from mooring.apiserver.storage.history import Dropped, StoreEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.apiserver.storage.selection import Selection
    from mooring.apiserver.storage.store import Store
    from mooring.apiserver.storage.stored_object import Stored

#: Events of one ``read``, so that one watcher does not delay the others.
BATCH = 500


class Event(NamedTuple):
    """One event of a watch.

    Attributes:
        kind: "ADDED", "MODIFIED", "DELETED" or "BOOKMARK".
        stored: The object; None for a bookmark.
        version: Of a bookmark: everything up to here has been sent.
        ends_initial: Of a bookmark: True if it marks the end of the initial events.
    """

    kind: str
    stored: Stored | None
    version: int = 0
    ends_initial: bool = False


class Watch:
    """One client's view of the changes of a collection."""

    def __init__(self, store: Store, selection: Selection, options: ListOptions) -> None:
        """Starts a watch with validated options.

        Raises:
            ApiStatusError: 500 (as upstream).
        """
        self._selection = selection
        self._options = options
        self._history = store.collection(selection.resource).history
        self._ends = self._history.ends
        #: Of which those that are selected are to be read, from the last one on.
        self._initial: list[Stored] = []
        self._version = store.version
        self._has_initial = False
        self._after = 0
        self._store = store
        #: Set if the watch cannot start: the stream has only this error.
        self.problem: ApiStatusError | None = None
        self._position = self._history.end
        self._begin()

    def _begin(self) -> None:
        options = self._options
        version = self._after = _parse_version(options.version)
        starts_anywhere = options.sends_initial_events is False and version == 0
        if options.sends_initial_events or starts_anywhere:
            self._position = self._history.end
        else:
            try:
                self._position = self._history.position_after(version)
            except Dropped:
                oldest = self._history.compacted
                self.problem = expired(f"too old resource version: {version} ({oldest})")
        if options.sends_initial_events and version > self._version:
            self.problem = version_too_large(version, self._version)
        elif options.sends_initial_events:
            collection = self._store.collection(self._selection.resource)
            self._initial = list(self._selection.candidates(collection))
            self._initial.reverse()  # taken from the end
            self._has_initial = True

    @property
    def is_idle(self) -> bool:
        """True if there is nothing to read now."""
        return not self._has_initial and self._position >= self._history.end

    @property
    def is_behind(self) -> bool:
        """True if initial events or many changes are left to read."""
        return bool(self._initial) or self._history.end - self._position >= BATCH

    @property
    def is_ended(self) -> bool:
        """True if the definition of the resource was changed or deleted: read what is left."""
        return self._history.ends != self._ends

    def listen(self, listener: Callable[[], None]) -> None:
        """Registers a function that is called when there may be events to read."""
        self._history.listen(self, listener)

    def close(self) -> None:
        """Stops listening."""
        self._history.unlisten(self)

    def read(self) -> list[Event]:
        """Returns the next events, at most ``BATCH``; empty if none of so many is selected.

        Raises:
            Dropped: The reader was too slow.
        """
        if self._has_initial:
            return self._read_initial()
        changes = self._history.read(self._position, BATCH)
        self._position += len(changes)
        return [
            event
            for change in changes
            # A watch from a future version gets no events before it.
            if change.version > self._after and (event := self._event(change)) is not None
        ]

    def _read_initial(self) -> list[Event]:
        candidates = self._initial[-BATCH:][::-1]
        del self._initial[-BATCH:]
        events = [Event("ADDED", stored) for stored in self._selection.of(candidates)]
        if not self._initial:
            self._has_initial = False
            # As upstream, a watch from "" or "0" without ``sendInitialEvents`` gets this
            # bookmark only if it allows bookmarks.
            if self._options.wants_bookmarks:
                events.append(Event("BOOKMARK", None, self._version, ends_initial=True))
        return events

    def bookmark(self) -> Event:
        """Returns a bookmark at the store's version; call only when the watch is idle."""
        return Event("BOOKMARK", None, self._store.version)

    def _event(self, change: StoreEvent) -> Event | None:
        is_selected = self._selection.matches(change.new)
        was_selected = self._selection.matches(change.old)
        if is_selected:
            return Event("MODIFIED" if was_selected else "ADDED", change.new)
        if was_selected and change.old is not None:
            return Event("DELETED", change.old.at_version(change.version))
        return None


def _parse_version(text: str) -> int:
    """Returns the version to watch from; an invalid one is a 500 without a reason, as upstream."""
    problem = version_problem(text)
    if problem:
        raise ApiStatusError(500, "", problem)
    return int(text.lstrip("0") or 0)
