"""Stores Events of controllers that run in the process of the API server.

They need no request: the caller makes them in the stored form, core/v1, so decoding, defaults and
validation would change nothing. This is a fifth of the work of a request, and an event more does
not change the order in which other requests are handled.

*Differs:* these events have no managedFields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mooring.apiserver.errors import ApiStatusError
from mooring.apiserver.resources import resource_named
from mooring.apiserver.storage.stored_object import key_of

if TYPE_CHECKING:
    from mooring.apiserver.registry.registry import Registry
    from mooring.apiserver.types import Object

_EVENTS: Final = resource_named("", "events")
#: The UIDs are numbers: they take nothing from the server's generator, which decides seeded runs.
_UID_BASE: Final = "65766e74-0000-4000-8000-"


class OwnEvents:
    """Creates and updates events."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._created = 0

    def create(self, event: Object) -> bool:
        """Stores a new event with a name and a namespace; returns whether it was stored.

        It is not if its namespace does not exist or is being deleted, or the name is in use.
        """
        metadata = event["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        try:
            self._registry.admission.check_namespace(_EVENTS, namespace, name)
        except ApiStatusError:
            return False
        collection, key = self._registry.collection(_EVENTS), key_of(namespace, name)
        if collection.get(key) is not None:
            return False
        metadata["creationTimestamp"] = self._registry.now()
        self._created += 1
        metadata["uid"] = f"{_UID_BASE}{self._created:012x}"
        collection.create(key, event)
        return True

    def update(self, namespace: str, name: str, fields: Object) -> bool:
        """Replaces fields of an event; returns False if it does not exist."""
        collection, key = self._registry.collection(_EVENTS), key_of(namespace, name)
        stored = collection.get(key)
        if stored is None:
            return False
        collection.replace(key, {**stored.object(), **fields})
        return True
