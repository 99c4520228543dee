"""What becomes of the objects that an owner leaves behind: the garbage collector in short.

Real clusters have a controller for it, which does the same a moment later.

Source: pkg/controller/garbagecollector.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from mooring.apiserver.delete_options import DeleteOptions
from mooring.apiserver.resources import RESOURCES
from mooring.apiserver.rest import Registry, Target
from mooring.apiserver.status import Refused
from mooring.apiserver.validation_meta import FOREGROUND, ORPHAN
from mooring.apiserver.views import is_view

if TYPE_CHECKING:
    from mooring.apiserver.deletion import Deleter
    from mooring.apiserver.stored import Object, Stored

#: All resources whose objects are stored, each once.
COLLECTED = tuple(each for each in RESOURCES if each.is_stored and not is_view(each))


class GarbageCollector:
    """Follows ownerReferences when owners go."""

    def __init__(self, registry: Registry, deleter: Deleter) -> None:
        self._registry = registry
        self._deleter = deleter

    def delete_dependents(self, uid: str) -> int:
        """Delete the objects that no owner is left of; answers how many still stand."""
        left = 0
        for resource in COLLECTED:
            for stored in self._registry.collection(resource).owned_by(uid):
                target = Target(resource, stored.namespace, stored.name)
                found = stored.object()
                others = [o for o in found["metadata"]["ownerReferences"] if o["uid"] != uid]
                if any(self._exists(owner, stored.namespace) for owner in others):
                    found["metadata"]["ownerReferences"] = others
                    self._registry.collection(resource).replace(stored.key, found)
                else:
                    self._try_to_delete(target)
                    left += self._registry.collection(resource).get(stored.key) is not None
        return left

    def _try_to_delete(self, target: Target) -> None:
        """Delete a dependent; one that may not be deleted stays, and harms nobody else."""
        with suppress(Refused):
            self._deleter.delete(target, DeleteOptions(policy="Background"))

    def _exists(self, owner: Object, namespace: str) -> bool:
        for resource in COLLECTED:
            if (resource.api_version, resource.kind) == (owner["apiVersion"], owner["kind"]):
                key = Target(resource, namespace if resource.namespaced else "", owner["name"]).key
                stored = self._registry.collection(resource).get(key)
                return stored is not None and stored.object()["metadata"]["uid"] == owner["uid"]
        return False

    def release(self, target: Target, metadata: Object) -> None:
        """Do what the finalizers "orphan" and "foregroundDeletion" wait for."""
        uid, finalizers = metadata["uid"], metadata.get("finalizers", [])
        if ORPHAN in finalizers:
            for resource in COLLECTED:
                collection = self._registry.collection(resource)
                for stored in collection.owned_by(uid):
                    found = stored.object()
                    _disown(found["metadata"], uid)
                    collection.replace(stored.key, found)
            self._without_finalizer(target, ORPHAN)
        elif FOREGROUND in finalizers and not self.delete_dependents(uid):
            self._without_finalizer(target, FOREGROUND)

    def _without_finalizer(self, target: Target, finalizer: str) -> None:
        present = self._registry.collection(target.resource).get(target.key)
        if present is None:
            return
        found = present.object()
        metadata = found["metadata"]
        left = [name for name in metadata.get("finalizers", []) if name != finalizer]
        if left:
            metadata["finalizers"] = left
        else:
            metadata.pop("finalizers", None)
        self._deleter.replaced(target, found, present)

    def finish_owners(self, last: Stored) -> None:
        """Let owners go that were waiting in the foreground for this dependent."""
        for owner in last.object()["metadata"].get("ownerReferences", ()):
            for resource in COLLECTED:
                if (resource.api_version, resource.kind) != (owner["apiVersion"], owner["kind"]):
                    continue
                namespace = last.namespace if resource.namespaced else ""
                target = Target(resource, namespace, owner["name"])
                found = self._registry.collection(resource).get(target.key)
                if found is not None and b'"foregroundDeletion"' in found.tail:
                    self.release(target, found.object()["metadata"])


def _disown(metadata: Object, uid: str) -> None:
    left = [owner for owner in metadata["ownerReferences"] if owner["uid"] != uid]
    if left:
        metadata["ownerReferences"] = left
    else:
        del metadata["ownerReferences"]
