"""Applies changes of watched objects to a cache."""

from __future__ import annotations

from typing import Any

from mooring.objects.meta import key
from mooring.state.cache import Cache


def apply_change(cache: Cache, kind: str, old: Any, new: Any) -> None:
    """Adds, updates or removes an object in a cache; pods without a node are ignored.

    Args:
        cache: The cache.
        kind: Of the object, such as "Node".
        old: The object before; None if it was created.
        new: The object now; None if it was deleted.
    """
    if kind == "Node":
        if new is None:
            cache.remove_node(old.metadata.name)
        else:
            cache.put_node(new)
    elif kind == "Pod":
        if new is None:
            cache.remove_pod(old.metadata.uid)
        elif new.spec.node_name:
            cache.put_pod(new)
    elif new is None:
        cache.remove_object(kind, key(old))
    else:
        cache.put_object(kind, new)
