"""Protects claims, volumes and classes of volume attributes, and lets them go when they are unused.

Upstream these are three controllers; here it runs after every request. A claim is used by the pods
that have a node and mount it, a volume by the claim to which it is bound, a class by the claims and
volumes that name it. An object without the finalizer that is not deleted gets it: a client took it
away, or the object is of a data file.

::

    DELETE ──> Terminating, with the finalizer of ``admission/protection``
                   │  nothing uses it (any more)
                   └──> the finalizer is removed ──> no others? ──> removed

Source: pkg/controller/volume/{pvcprotection,pvprotection,vacprotection}.
Differs: a bound volume whose claim does not exist is not used: no controller may be here that
releases it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mooring.apiserver.admission.protection import (
    CLAIMS,
    CLASSES,
    PROTECTIONS,
    VOLUMES,
    protect,
)
from mooring.apiserver.errors import ApiStatusError
from mooring.apiserver.patch.managed_fields import FieldManager
from mooring.apiserver.registry.changes import Changes
from mooring.apiserver.registry.registry import Target
from mooring.apiserver.resources import Resource, resource_named
from mooring.apiserver.storage.stored_object import key_of

if TYPE_CHECKING:
    from mooring.apiserver.registry.deletion import Deleter
    from mooring.apiserver.registry.registry import Registry
    from mooring.apiserver.storage.stored_object import Stored
    from mooring.apiserver.types import Object

_PODS: Final = resource_named("", "pods")
_READ: Final = (_PODS, *PROTECTIONS)
_MANAGER: Final = "kube-controller-manager"
#: Finds the finalizer in a stored object, without decoding it.
_HAS_FINALIZER: Final = {
    resource: re.compile(rb'"finalizers":\[[^]]*"%b"' % re.escape(finalizer).encode())
    for resource, finalizer in PROTECTIONS.items()
}


class StorageProtection:
    """Adds the finalizers of storage objects; removes those of deleted ones that are not in use."""

    def __init__(self, registry: Registry, deleter: Deleter) -> None:
        self._registry = registry
        self._deleter = deleter
        self._changes = {resource: Changes(registry.store, resource) for resource in PROTECTIONS}
        #: Deleted objects with the finalizer -> the key of a pod that uses it; "" = unknown.
        self._waiting: dict[tuple[Resource, str], str] = {}
        #: The pods of the store, which another snapshot replaces, and the latest version.
        self._handled: tuple[object, int] = (None, -1)
        self._is_used: Mapping[Resource, Callable[[Stored], bool]] = {
            CLAIMS: self._is_claim_used,
            VOLUMES: self._is_volume_used,
            CLASSES: self._is_class_used,
        }

    def run(self) -> None:
        """Lets objects go that nothing uses since the last change."""
        while self._has_changes():
            for resource, key in list(self._waiting):
                self._release(resource, key)

    def _has_changes(self) -> bool:
        """Notes which objects wait, protects others; returns True if one may be released now."""
        for resource, changes in self._changes.items():
            for change in changes.take():
                if change.new is None:
                    continue
                if b'"deletionTimestamp"' in change.new.tail:
                    self._waiting.setdefault((resource, change.key), "")
                elif not _HAS_FINALIZER[resource].search(change.new.tail):
                    self._protect(Target(resource, change.new.namespace, change.new.name))
        if not self._waiting:
            return False
        version = max(self._registry.collection(resource).history.latest for resource in _READ)
        state = (self._registry.collection(_PODS), version)
        is_new, self._handled = state != self._handled, state
        return is_new

    def _protect(self, target: Target) -> None:
        """Adds the finalizer to a stored object, as the controllers of upstream do."""

        def change(obj: Object | None) -> Object:
            assert obj is not None
            protect(target.resource, obj)
            return obj

        present = self._registry.collection(target.resource).get(target.key)
        if present is None or "deletionTimestamp" in present.object()["metadata"]:
            return  # the change was an earlier one
        writer = FieldManager(_MANAGER, target.resource, "", self._registry.now())
        with suppress(ApiStatusError):  # an old object that is not valid any more
            self._registry.update(target, change, writer=writer)

    def _release(self, resource: Resource, key: str) -> None:
        """Removes the finalizer of an object, unless it is used."""
        present = self._registry.collection(resource).get(key)
        obj = {} if present is None else present.object()
        metadata, finalizer = obj.get("metadata", {}), PROTECTIONS[resource]
        finalizers = metadata.get("finalizers") or []
        if present is None or "deletionTimestamp" not in metadata or finalizer not in finalizers:
            del self._waiting[resource, key]
            return
        if self._is_used[resource](present):
            return
        del self._waiting[resource, key]
        remaining = [name for name in finalizers if name != finalizer]
        if remaining:
            metadata["finalizers"] = remaining
        else:
            del metadata["finalizers"]
        target = Target(resource, present.namespace, present.name)
        self._deleter.store_and_finish(target, obj, present)

    # -- who uses an object -----------------------------------------------------------------------

    def _is_claim_used(self, claim: Stored) -> bool:
        pods = self._registry.collection(_PODS)
        last = pods.get(self._waiting[CLAIMS, claim.key])
        references = claim.object()["metadata"].get("ownerReferences") or ()
        owners = {owner["uid"] for owner in references if owner.get("controller")}
        candidates = [] if last is None else [last]
        user = next(
            (
                pod
                for pod in (*candidates, *self._pods_that_may_use(claim, owners))
                if _uses(pod.object(), claim.name, owners)
            ),
            None,
        )
        self._waiting[CLAIMS, claim.key] = "" if user is None else user.key
        return user is not None

    def _pods_that_may_use(self, claim: Stored, owners: set[str]) -> Iterator[Stored]:
        """Yields the pods that contain the claim's name, or its owner's UID."""
        texts = [f'"claimName":{json.dumps(claim.name)}', *(f'"uid":"{uid}"' for uid in owners)]
        parts = [text.encode() for text in texts]
        for pod in self._registry.collection(_PODS).in_order(claim.namespace):
            if any(part in pod.tail for part in parts):
                yield pod

    def _is_volume_used(self, volume: Stored) -> bool:
        obj = volume.object()
        reference = obj["spec"].get("claimRef") or {}
        if (obj.get("status") or {}).get("phase") != "Bound":
            return False
        key = key_of(reference.get("namespace", ""), reference.get("name", ""))
        claim = self._registry.collection(CLAIMS).get(key)
        if claim is None:
            return False
        uid = reference.get("uid", "")
        return not uid or bool(claim.object()["metadata"]["uid"] == uid)

    def _is_class_used(self, attributes_class: Stored) -> bool:
        # The end of the names of all fields that name a class.
        part = f'olumeAttributesClassName":{json.dumps(attributes_class.name)}'.encode()
        return any(
            part in stored.tail
            for resource in (VOLUMES, CLAIMS)
            for stored in self._registry.collection(resource).in_order()
        )


def _uses(pod: Object, claim: str, owners: set[str]) -> bool:
    """Returns True if a pod with a node mounts a claim, also that of an ephemeral volume."""
    spec, metadata = pod["spec"], pod["metadata"]
    if not spec.get("nodeName"):
        return False
    is_shut_down = metadata.get("deletionGracePeriodSeconds") == 0
    is_owner = metadata["uid"] in owners and not is_shut_down
    return any(
        (volume.get("persistentVolumeClaim") or {}).get("claimName") == claim
        or (
            is_owner
            and volume.get("ephemeral") is not None
            and f"{metadata['name']}-{volume['name']}" == claim
        )
        for volume in spec.get("volumes") or ()
    )
