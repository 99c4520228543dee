"""Volumes and claims without an API server: writes are applied and bound at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from mooring.errors import PluginError
from mooring.framework.interface import PATCHED_KINDS
from mooring.objects.codec.merge_patch import patched
from mooring.objects.meta import key
from mooring.objects.storage import PersistentVolume, PersistentVolumeClaim
from mooring.objects.volume_claims import SELECTED_NODE, claim_class
from mooring.simulation.volume_controller import Bound, completed, provisioned_on_node
from mooring.state.cache import Cache


class OfflineVolumes:
    """Stands in for the API server and the volume controller, over a cache.

    Objects written here have no resourceVersion, so the cache always accepts them as newer.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        #: Objects written since the last ``take_written``, by kind and key.
        self._written: dict[tuple[str, str], Any] = {}

    def patch(self, kind: str, object_key: str, patch: Mapping[str, Any]) -> Any:
        """Applies a merge patch, runs the volume controller, and returns the patched object.

        Raises:
            PluginError: if plugins may not patch the kind, or the object does not exist.
        """
        storage = self._cache.storage
        if kind not in PATCHED_KINDS:
            raise PluginError("", "patch", f"plugins may not patch objects of kind {kind}")
        current = (
            storage.volume(object_key) if kind == PATCHED_KINDS[0] else storage.claim(object_key)
        )
        if current is None:
            raise PluginError("", "patch", f"no {kind} {object_key!r}")
        changed = patched(current, patch)
        changed = replace(changed, metadata=replace(changed.metadata, resource_version=""))
        self._put(changed)
        bound = self._bound(changed)
        if bound is not None:
            self._put(bound.volume)
            self._put(bound.claim)
        return changed

    def take_written(self) -> tuple[Any, ...]:
        """Returns the current versions of the objects written since the last call."""
        written, self._written = self._written, {}
        return tuple(written.values())

    def _put(self, obj: Any) -> None:
        kind = type(obj).__name__
        self._written[kind, key(obj)] = obj
        self._cache.put_object(kind, obj)

    def _bound(self, changed: PersistentVolume | PersistentVolumeClaim) -> Bound | None:
        """Returns the volume controller's binding after a change, or None."""
        storage, nodes = self._cache.storage, self._cache.nodes
        if isinstance(changed, PersistentVolume):
            return completed(changed, storage.claim)
        node_name = changed.metadata.annotations.get(SELECTED_NODE, "")
        row = nodes.live_row(node_name)
        node = nodes.node(row) if row >= 0 else None
        storage_class = storage.storage_class(claim_class(changed))
        return provisioned_on_node(changed, storage_class, node, storage.csi_nodes.get(node_name))
