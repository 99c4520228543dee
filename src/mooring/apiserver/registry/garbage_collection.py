"""``GarbageCollector``: deletes objects whose owners are gone.

Upstream this is a controller; here it runs with the request that removes an owner, writes a
dependent, or begins the deletion of an owner with a finalizer.

::

    the owners of a dependent                        the dependent
    ------------------------------------------------------------------------------------------
    a kind that is not served                        stays
    a namespaced kind, and it has no namespace       stays
    some exist                                       stays; loses the references to the others
    some wait for it in foreground, none else        deleted; in foreground if it has dependents
    none exists                                      deleted, in the background

Source: pkg/controller/garbagecollector/{garbagecollector,graph_builder,operations}.go.
Differs: a dependent of a kind that is not served is not looked at again when this kind is served.
"""

from __future__ import annotations

from contextlib import suppress
from enum import Enum, auto
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from mooring.apiserver.errors import ApiStatusError
from mooring.apiserver.registry.delete_options import DeleteOptions
from mooring.apiserver.registry.registry import Target
from mooring.apiserver.resources import GATED_BY_PATH, RESOURCES, Resource
from mooring.apiserver.validation.metadata import FOREGROUND, ORPHAN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from collections.abc import Collection as Container

    from mooring.apiserver.registry.registry import Registry
    from mooring.apiserver.storage.store import Collection
    from mooring.apiserver.storage.stored_object import Stored
    from mooring.apiserver.types import Object


class Deleter(Protocol):
    """Deletes objects for the garbage collector."""

    def delete(self, target: Target, options: DeleteOptions) -> object:
        """Deletes an object."""
        ...

    def store_and_finish(self, target: Target, new: Object, present: Stored) -> object:
        """Stores a change; processes the removal if it removed the last finalizer."""
        ...

    def enqueue(self, work: Callable[[], None]) -> None:
        """Does work now, or after the present one."""
        ...

    def pause(self) -> None:
        """Lets other writes come first."""
        ...


class _OwnerState(Enum):
    """The state of the object that a reference names."""

    EXISTS = auto()
    #: It exists, and is being deleted after its dependents.
    WAITS = auto()
    ABSENT = auto()
    #: Its kind is not served, or cannot own the dependent.
    UNKNOWN = auto()


class _Waiting(NamedTuple):
    """An owner that is being deleted in foreground, and a dependent for which it waits."""

    target: Target
    collection: Collection
    blocking: Stored


class _Kinds:
    """The resource of each kind that is served."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._custom: Mapping[tuple[str, str, str], Resource] | None = None
        self._by_kind: Mapping[tuple[str, str], Resource] = _BUILT_IN

    def get(self, api_version: str, kind: str) -> Resource | None:
        """Returns the resource of a kind in any version that is served; None if there is none."""
        custom = self._registry.store.custom
        if custom is not self._custom:
            self._custom, self._by_kind = custom, {**_BUILT_IN, **_by_kind(custom.values())}
        return self._by_kind.get((api_version, kind))


class GarbageCollector:
    """Deletes dependents whose owners are gone, and owners that have waited for them."""

    def __init__(self, registry: Registry, deleter: Deleter) -> None:
        self._registry = registry
        self._deleter = deleter
        self._kinds = _Kinds(registry)
        #: UID -> owner.
        self._waiting: dict[str, _Waiting] = {}

    def run(self) -> None:
        """Checks the owners of dependents that were written since the last call."""
        for collection in self._registry.store.collections():
            if collection.new_owners:
                self._deleter.enqueue(partial(self._check_new, collection))
        for uid, waiting in list(self._waiting.items()):
            if waiting.collection.get(waiting.blocking.key) is not waiting.blocking:
                self._deleter.enqueue(partial(self._finish, uid, waiting.target))

    def resume(self) -> None:
        """Continues the deletions in foreground that were pending in a snapshot."""
        self._waiting.clear()
        for collection in self._registry.store.collections():
            for stored in list(collection.in_order()):
                if _waits(stored):
                    self.begin(_target_of(collection, stored), stored.object()["metadata"])

    def begin(self, target: Target, metadata: Object) -> None:
        """Processes the finalizers "orphan" and "foregroundDeletion" of an owner."""
        uid, finalizers = metadata["uid"], metadata.get("finalizers", [])
        if ORPHAN in finalizers:
            for collection in self._registry.store.collections():
                for stored in collection.owned_by(uid):
                    self._remove_owners(collection, stored, [uid])
            self._remove_finalizer(target, ORPHAN)
        elif FOREGROUND in finalizers:
            self._deleter.enqueue(partial(self._collect_dependents, uid))
            self._deleter.enqueue(partial(self._finish, uid, target))

    def on_removed(self, last: Stored) -> None:
        """Collects the dependents of a removed object, and its owners that have waited for it."""
        metadata = last.object()["metadata"]
        self._waiting.pop(metadata["uid"], None)
        self._collect_dependents(metadata["uid"])
        for owner in metadata.get("ownerReferences", ()):
            waiting = self._waiting.get(owner["uid"])
            if waiting is not None:
                self._finish(owner["uid"], waiting.target)

    def _check_new(self, collection: Collection) -> None:
        new, collection.new_owners = collection.new_owners, {}
        for key, owners in new.items():
            stored = collection.get(key)
            if stored is None:
                continue
            # Most owners exist; then the dependent need not be decoded.
            if any(self._state_of(o, stored.namespace) is not _OwnerState.EXISTS for o in owners):
                self._deleter.pause()
                self._collect(collection, key)

    def _collect_dependents(self, uid: str) -> None:
        for collection in self._registry.store.collections():
            for dependent in collection.owned_by(uid):
                self._deleter.pause()
                self._collect(collection, dependent.key)

    def _collect(self, collection: Collection, key: str) -> None:
        """Deletes an object without owners, or removes the references to those that are gone."""
        stored = collection.get(key)
        if stored is None:
            return
        metadata = stored.object()["metadata"]
        owners = metadata.get("ownerReferences")
        if not owners or "deletionTimestamp" in metadata:
            return
        states = {owner["uid"]: self._state_of(owner, stored.namespace) for owner in owners}
        if _OwnerState.UNKNOWN in states.values():
            return
        others = [uid for uid, state in states.items() if state is not _OwnerState.EXISTS]
        if len(others) < len(states):
            if others:
                self._remove_owners(collection, stored, others)
                self._finish_all(others)
            return
        if _OwnerState.WAITS in states.values() and self._registry.store.is_owner(metadata["uid"]):
            if any(_waits(dependent) for _, dependent in self._dependents(metadata["uid"])):
                self._unblock(collection, stored)
                self._finish_all(others)
            policy = "Foreground"
        else:
            policy = _policy_of(metadata)
        with suppress(ApiStatusError):  # it may not be deleted
            self._deleter.delete(_target_of(collection, stored), DeleteOptions(policy=policy))

    def _state_of(self, owner: Object, namespace: str) -> _OwnerState:
        """Returns the state of an owner of an object in a namespace ("" = without)."""
        resource = self._kinds.get(owner["apiVersion"], owner["kind"])
        if resource is None or (resource.namespaced and not namespace):
            return _OwnerState.UNKNOWN
        target = Target(resource, namespace if resource.namespaced else "", owner["name"])
        stored = self._registry.collection(resource).get(target.key)
        if stored is None or stored.uid != owner["uid"]:
            return _OwnerState.ABSENT
        return _OwnerState.WAITS if _waits(stored) else _OwnerState.EXISTS

    def _dependents(self, uid: str) -> Iterator[tuple[Collection, Stored]]:
        """Returns the dependents of an owner, in no particular order."""
        for collection in self._registry.store.collections():
            for dependent in collection.dependents_of(uid):
                yield collection, dependent

    def _finish_all(self, uids: Container[str]) -> None:
        """Finishes later the owners that wait for a dependent whose references have changed."""
        for uid in uids:
            if uid in self._waiting:
                self._deleter.enqueue(partial(self._finish, uid, self._waiting[uid].target))

    def _finish(self, uid: str, target: Target) -> None:
        """Finishes the deletion of an owner in foreground, unless it waits for a dependent."""
        self._waiting.pop(uid, None)
        present = self._registry.collection(target.resource).get(target.key)
        if present is None or not _waits(present) or present.uid != uid:
            return
        for collection, dependent in self._dependents(uid):
            if _blocks(dependent, uid):
                self._waiting[uid] = _Waiting(target, collection, dependent)
                return
        self._remove_finalizer(target, FOREGROUND)

    def _remove_finalizer(self, target: Target, finalizer: str) -> None:
        present = self._registry.collection(target.resource).get(target.key)
        if present is None:
            return
        obj = present.object()
        metadata = obj["metadata"]
        remaining = [name for name in metadata.get("finalizers", []) if name != finalizer]
        if remaining:
            metadata["finalizers"] = remaining
        else:
            metadata.pop("finalizers", None)
        self._deleter.store_and_finish(target, obj, present)

    def _remove_owners(
        self, collection: Collection, dependent: Stored, uids: Container[str]
    ) -> None:
        obj = dependent.object()
        metadata = obj["metadata"]
        remaining = [owner for owner in metadata["ownerReferences"] if owner["uid"] not in uids]
        if remaining:
            metadata["ownerReferences"] = remaining
        else:
            del metadata["ownerReferences"]
        collection.replace(dependent.key, obj)

    def _unblock(self, collection: Collection, dependent: Stored) -> None:
        """Lets no owner wait for a dependent: it is part of a circle."""
        obj = dependent.object()
        for owner in obj["metadata"]["ownerReferences"]:
            if owner.get("blockOwnerDeletion"):
                owner["blockOwnerDeletion"] = False
        collection.replace(dependent.key, obj)


def _by_kind(resources: Container[Resource]) -> dict[tuple[str, str], Resource]:
    return {(r.api_version, r.kind): r for r in resources if r.is_stored}


_BUILT_IN: Final[Mapping[tuple[str, str], Resource]] = MappingProxyType(
    _by_kind([*RESOURCES, *GATED_BY_PATH.values()])
)


def _target_of(collection: Collection, stored: Stored) -> Target:
    return Target(collection.resource, stored.namespace, stored.name)


def _policy_of(metadata: Object) -> str:
    """Returns the policy that the finalizers of an object ask for."""
    finalizers = metadata.get("finalizers", ())
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"


def _waits(stored: Stored) -> bool:
    """Returns whether an object is being deleted in foreground."""
    if b'"foregroundDeletion"' not in stored.tail:
        return False
    metadata = stored.object()["metadata"]
    return "deletionTimestamp" in metadata and FOREGROUND in metadata.get("finalizers", ())


def _blocks(dependent: Stored, uid: str) -> bool:
    """Returns whether the deletion of an owner in foreground waits for a dependent."""
    owners = dependent.object()["metadata"].get("ownerReferences", ())
    return any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in owners)
