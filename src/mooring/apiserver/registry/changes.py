"""``Changes``: the changes of a resource since the last look, for what follows every change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver.storage.history import Dropped, StoreEvent

if TYPE_CHECKING:
    from mooring.apiserver.resources import Resource
    from mooring.apiserver.storage.history import History
    from mooring.apiserver.storage.store import Store


class Changes:
    """The changes of one resource that were not returned yet.

    Attributes:
        had_gap: Whether the last call returned all objects, since changes after an earlier call
            are unknown.
    """

    def __init__(self, store: Store, resource: Resource) -> None:
        """Begins with all stored objects."""
        self._store = store
        self._resource = resource
        self._history: History | None = None
        self._position = 0
        self.had_gap = False

    def take(self) -> list[StoreEvent]:
        """Returns the changes since the last call; all objects as new ones if they are unknown."""
        collection = self._store.collection(self._resource)
        history = collection.history
        self.had_gap = False
        if history is self._history and history.end == self._position:
            return []
        is_first = self._history is None
        position, self._position = self._position, history.end
        is_same, self._history = history is self._history, history
        try:
            if is_same:
                return history.read(position, history.end - position)
        except Dropped:
            pass
        self.had_gap = not is_first
        return [StoreEvent(stored.version, stored, None) for stored in collection.in_order()]
