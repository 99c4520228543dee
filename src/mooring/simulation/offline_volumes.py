"""Volumes and claims where there is no API server: written, and bound at once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo, replace

from mooring.errors import PluginError
from mooring.framework.interface import PATCHED_KINDS
from mooring.objects.meta import key
from mooring.objects.storage import PersistentVolume, PersistentVolumeClaim
from mooring.objects.volume_claims import (
    NO_PROVISIONER,
    SELECTED_NODE,
    claim_class,
    is_bound_to,
    is_fully_bound,
)
from mooring.simulation.volume_controller import Bound, bind, provision
from mooring.state import Cache


class OfflineVolumes:
    """Stands in for the API server and the volume controller, over a cache.

    What is written here has no resourceVersion: the cache takes it for news in any case.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        #: What was written lately, by kind and key.
        self._written: dict[tuple[str, str], Any] = {}

    def patch(self, kind: str, object_key: str, patch: Mapping[str, Any]) -> Any:
        """Changes an object by a merge patch, let the controller act, and returns the change.

        Raises:
            PluginError: if it is of another kind, or is not there.
        """
        storage = self._cache.storage
        if kind not in PATCHED_KINDS:
            raise PluginError("", "patch", f"objects of kind {kind} are not for plugins to change")
        found = (
            storage.volume(object_key) if kind == PATCHED_KINDS[0] else storage.claim(object_key)
        )
        if found is None:
            raise PluginError("", "patch", f"{kind} {object_key} is not there")
        changed = _merged(found, patch)
        changed = replace(changed, metadata=replace(changed.metadata, resource_version=""))
        self._put(changed)
        bound = self._bound(changed)
        if bound is not None:
            self._put(bound.volume)
            self._put(bound.claim)
        return changed

    def take_written(self) -> tuple[Any, ...]:
        """Returns the objects that were written since this was asked last, as they are now."""
        written, self._written = self._written, {}
        return tuple(written.values())

    def _put(self, obj: Any) -> None:
        kind = type(obj).__name__
        self._written[kind, key(obj)] = obj
        self._cache.put_object(kind, obj)

    def _bound(self, changed: PersistentVolume | PersistentVolumeClaim) -> Bound | None:
        """What the volume controller makes of a change; None = nothing."""
        if isinstance(changed, PersistentVolume):
            return self._bound_volume(changed)
        return self._provisioned(changed)

    def _bound_volume(self, volume: PersistentVolume) -> Bound | None:
        reference = volume.spec.claim_ref
        if reference is None:
            return None
        claim = self._cache.storage.claim(f"{reference.namespace}/{reference.name}")
        if claim is None or is_fully_bound(claim) or not is_bound_to(reference, claim):
            return None
        return bind(volume, claim)

    def _provisioned(self, claim: PersistentVolumeClaim) -> Bound | None:
        storage, nodes = self._cache.storage, self._cache.nodes
        node_name = claim.metadata.annotations.get(SELECTED_NODE, "")
        found = storage.storage_class(claim_class(claim))
        row = nodes.live_row(node_name)
        if is_fully_bound(claim) or found is None or row < 0:
            return None
        if found.provisioner in ("", NO_PROVISIONER):
            return None
        labels = nodes.node(row).metadata.labels
        return provision(claim, found, labels, storage.csi_nodes.get(node_name))


def _merged(struct: Any, patch: Mapping[str, Any]) -> Any:
    """A JSON merge patch (RFC 7386) of a struct: null takes a field away.

    Fields that the struct does not have are passed over: nobody reads them.
    """
    changes = {}
    kind: type[Struct] = type(struct)
    for each in _fields(kind):
        if each.encode_name not in patch:
            continue
        before, after = getattr(struct, each.name), patch[each.encode_name]
        if after is None:
            changes[each.name] = getattr(kind(), each.name)
        elif isinstance(before, Struct) and isinstance(after, Mapping):
            changes[each.name] = _merged(before, after)
        elif isinstance(before, dict) and isinstance(after, Mapping):
            both = {**before, **after}
            changes[each.name] = {k: v for k, v in both.items() if v is not None}
        else:
            changes[each.name] = msgspec.convert(after, each.type)
    return replace(struct, **changes)


@cache
def _fields(kind: type[Struct]) -> tuple[FieldInfo, ...]:
    return msgspec.structs.fields(kind)
