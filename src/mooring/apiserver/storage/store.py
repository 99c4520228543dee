"""In-memory storage of the embedded API server: objects as bytes, with one version counter.

``Store`` owns the counter of resourceVersions; ``Collection`` has the objects of one resource by
key, and their history. All is synchronous, so every write is atomic. ``registry`` validates
writes; storage checks only keys and versions.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left, insort
from contextlib import contextmanager
from heapq import merge
from typing import TYPE_CHECKING, Any

import msgspec

from mooring.apiserver.custom.definition import (
    ServedDefinition,
    is_established,
    storage_resource,
    with_defined_names,
)
from mooring.apiserver.errors import ApiStatusError
from mooring.apiserver.resources import DEFINITIONS, GATED_BY_PATH, RESOURCES, Resource
from mooring.apiserver.storage.field_selectors import pod_fields
from mooring.apiserver.storage.history import HISTORY_CHANGES, History, StoreEvent
from mooring.apiserver.storage.request_size import check_request_size
from mooring.apiserver.storage.stored_object import Stored, head_of, key_of, tail_of
from mooring.apiserver.types import Object
from mooring.serial_executor import SerialExecutor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: Resources whose objects are stored as those of another resource.
_STORED_AS = {("events.k8s.io", "events"): ("", "events")}
_PODS = ("", "pods")
SNAPSHOT_FORMAT = "mooring-apiserver-2"
#: Snapshots of earlier releases, which have no checksum.
_FORMAT_WITHOUT_CHECKSUM = "mooring-apiserver-1"
#: The end of a snapshot: the checksum of all bytes before.
_CHECKSUM = re.compile(rb'"sha256":"([0-9a-f]{64})"}\s*\Z')
_CHECKSUM_BYTES_MAX = 100
#: Objects per slice of a snapshot, about one millisecond of work.
SLICE_OBJECTS = 500


class SnapshotError(ValueError):
    """The bytes are not a snapshot of a store."""


def _slices(head: bytes, collections: list[tuple[str, list[Stored]]]) -> Iterator[bytes]:
    digest = hashlib.sha256()
    for piece in _pieces(head, collections):
        digest.update(piece)
        yield piece
    yield b'"sha256":"%b"}\n' % digest.hexdigest().encode()


def _pieces(head: bytes, collections: list[tuple[str, list[Stored]]]) -> Iterator[bytes]:
    yield head
    for number, (name, objects) in enumerate(collections):
        yield (b",\n" if number else b"") + msgspec.json.encode(name) + b":["
        for start in range(0, len(objects), SLICE_OBJECTS):
            piece = (stored.encoded() for stored in objects[start : start + SLICE_OBJECTS])
            yield (b",\n" if start else b"") + b",\n".join(piece)
        yield b"]"
    yield b"\n},\n"


def _check_snapshot(data: bytes) -> None:
    """Checks the checksum at the end of a snapshot.

    Raises:
        SnapshotError: It is missing, or is not that of the other bytes.
    """
    tail_start = max(len(data) - _CHECKSUM_BYTES_MAX, 0)
    checksum = _CHECKSUM.search(data[tail_start:])
    if checksum is None:
        raise SnapshotError("the snapshot is damaged: its checksum is missing")
    content = memoryview(data)[: tail_start + checksum.start()]
    if hashlib.sha256(content).hexdigest().encode() != checksum[1]:
        raise SnapshotError("the snapshot is damaged: its checksum is wrong")


def _defined_name(definition: Object) -> tuple[str, str]:
    """Returns the group and the plural name by which a definition's objects are stored."""
    spec = definition["spec"]
    return spec["group"], spec["names"]["plural"]


class Versions:
    """The one counter of resourceVersions of a store."""

    def __init__(self, latest: int = 0) -> None:
        self.latest = latest

    def next(self) -> int:
        """Returns the version of the next write."""
        self.latest += 1
        return self.latest


class Index:
    """Index from values to keys; a key may have several values."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[str, ...]] = {}
        self._keys: dict[str, dict[str, None]] = {}

    def put(self, key: str, values: tuple[str, ...]) -> bool:
        """Sets the values of a key; returns whether they have changed."""
        before = self._values.get(key, ())
        if before == values:
            return False
        for value in dict.fromkeys(before):
            keys = self._keys[value]
            del keys[key]
            if not keys:
                del self._keys[value]
        if values:
            self._values[key] = values
        else:
            self._values.pop(key, None)
        for value in values:
            self._keys.setdefault(value, {})[key] = None
        return True

    def keys(self, value: str) -> Iterable[str]:
        """Returns the keys with a value, in no particular order."""
        return self._keys.get(value, ())


class Collection:
    """The objects of one resource."""

    def __init__(
        self, versions: Versions, writes: SerialExecutor, resource: Resource, *, changes_max: int
    ) -> None:
        """Starts empty; earlier changes are not available."""
        self.resource = resource
        self._versions = versions
        self._commit = writes.commit
        self._head = head_of(resource)
        self._objects: dict[str, Stored] = {}
        #: All keys, sorted: lists are in this order, and a namespace is a range of it.
        self._keys: list[str] = []
        self._has_nodes = (resource.group, resource.name) == _PODS
        self._by_node = Index()
        self._by_owner = Index()
        #: Key -> owners, of the objects whose owners were not checked yet.
        self.new_owners: dict[str, list[Object]] = {}
        self.history = History(compacted=versions.latest, changes_max=changes_max)

    def __len__(self) -> int:
        return len(self._objects)

    def store_as(self, resource: Resource) -> None:
        """Stores later writes in another version of a custom resource."""
        self.resource = resource
        self._head = head_of(resource)

    def get(self, key: str) -> Stored | None:
        """Returns the object with this key, or None."""
        return self._objects.get(key)

    def create(self, key: str, obj: Object, *, is_limited: bool = False) -> Stored:
        """Stores a new object under the next version.

        Args:
            key: "namespace/name", or the name alone.
            obj: With its metadata.
            is_limited: Whether it must not be larger than what etcd stores.

        Raises:
            KeyError: There is an object with this key.
            RequestTooLarge: 500.
        """
        tail = self._tail_of(key, obj, is_limited=is_limited)
        return self._commit(lambda: self._create(key, obj, tail))

    def _create(self, key: str, obj: Object, tail: bytes) -> Stored:
        if key in self._objects:
            raise KeyError(key)
        return self._write(key, obj, tail, None)

    def replace(self, key: str, obj: Object, *, is_limited: bool = False) -> Stored:
        """Replaces the object with this key; an equal object is not written.

        Args:
            key: "namespace/name", or the name alone.
            obj: With its metadata.
            is_limited: Whether it must not be larger than what etcd stores.

        Raises:
            KeyError: There is no object with this key.
            RequestTooLarge: 500.
        """
        tail = self._tail_of(key, obj, is_limited=is_limited)
        return self._commit(lambda: self._replace(key, obj, tail))

    def _replace(self, key: str, obj: Object, tail: bytes) -> Stored:
        old = self._objects[key]
        return old if tail == old.tail else self._write(key, obj, tail, old)

    def _tail_of(self, key: str, obj: Object, *, is_limited: bool) -> bytes:
        tail = tail_of(obj)
        if is_limited:
            old = self._objects.get(key)
            replaced = old.version if old else 0
            check_request_size(self.resource, key, obj, json_bytes=len(tail), replaced=replaced)
        return tail

    def remove(self, key: str) -> Stored:
        """Deletes an object; returns its last state, at the version of the deletion.

        Raises:
            KeyError: There is no object with this key.
        """
        return self._commit(lambda: self._remove(key))

    def _remove(self, key: str) -> Stored:
        old = self._objects.pop(key)
        del self._keys[bisect_left(self._keys, key)]
        self._by_node.put(key, ())
        self._by_owner.put(key, ())
        self.new_owners.pop(key, None)
        last = old.at_version(self._versions.next())
        self.history.append(StoreEvent(last.version, None, old))
        return last

    def _write(self, key: str, obj: Object, tail: bytes, old: Stored | None) -> Stored:
        version = self._versions.next()
        new = Stored(self._head, key, version, tail, obj["metadata"].get("labels"))
        if self._has_nodes:
            new.fields = pod_fields(obj)  # selectors need them; avoids decoding the object again
        self._index(key, obj)
        self._objects[key] = new
        if old is None:
            insort(self._keys, key)
        self.history.append(StoreEvent(version, new, old))
        return new

    def _index(self, key: str, obj: Object) -> None:
        owners = obj["metadata"].get("ownerReferences")
        uids = tuple([owner["uid"] for owner in owners]) if owners else ()
        if self._by_owner.put(key, uids) and uids:
            self.new_owners[key] = owners
        if self._has_nodes:
            node = obj.get("spec", {}).get("nodeName")
            self._by_node.put(key, (node,) if node else ())

    def in_order(self, namespace: str = "", *, after: str = "") -> Iterator[Stored]:
        """Returns the objects of a namespace ("" = all) in key order, from a key on."""
        start, stop = self._key_range(namespace, after)
        objects = self._objects
        return (objects[key] for key in self._keys[start:stop])

    def _key_range(self, namespace: str, after: str) -> tuple[int, int]:
        """Returns the range of a namespace's keys, from a key on."""
        start, stop = 0, len(self._keys)
        if namespace:
            start = bisect_left(self._keys, f"{namespace}/")
            stop = bisect_left(self._keys, f"{namespace}0")  # "0" comes right after "/"
        return max(start, bisect_left(self._keys, after) if after else 0), stop

    def on_node(self, node: str) -> list[Stored]:
        """Returns the pods whose ``spec.nodeName`` is this one, in the order of their keys."""
        return [self._objects[key] for key in sorted(self._by_node.keys(node))]

    def owned_by(self, uid: str) -> list[Stored]:
        """Returns the objects that name an owner with this UID, in the order of their keys."""
        return [self._objects[key] for key in sorted(self._by_owner.keys(uid))]

    def dependents_of(self, uid: str) -> Iterator[Stored]:
        """Returns the objects that name an owner with this UID, in no particular order."""
        return (self._objects[key] for key in self._by_owner.keys(uid))

    def has_owned(self, uid: str) -> bool:
        """Returns whether an object names an owner with this UID."""
        return bool(self._by_owner.keys(uid))

    def count(self, namespace: str = "") -> int:
        """Returns the number of objects in a namespace ("" = in all)."""
        if not namespace:
            return len(self._keys)
        start = bisect_left(self._keys, f"{namespace}/")
        return bisect_left(self._keys, f"{namespace}0") - start

    def at_version(self, version: int, namespace: str = "", *, after: str = "") -> Iterator[Stored]:
        """Returns the objects as they were at a version, else like ``in_order``.

        Raises:
            Dropped: Some changes since then are no longer stored.
        """
        before: dict[str, Stored | None] = {}
        for change in self.history.since(version):
            before.setdefault(change.key, change.old)
        start, stop = self._key_range(namespace, after)
        keys = self._keys[start:stop]
        first, last = (f"{namespace}/", f"{namespace}0") if namespace else ("", None)
        deleted = (
            key
            for key, old in before.items()
            if old is not None and key not in self._objects and key >= max(first, after)
        )
        deleted_keys = sorted(key for key in deleted if last is None or key < last)
        candidates = (before.get(key, self._objects.get(key)) for key in merge(keys, deleted_keys))
        return (stored for stored in candidates if stored is not None)

    def restore(self, key: str, version: int, obj: Object) -> None:
        """Restores an object of a snapshot, without a change in the history."""
        tail = tail_of(obj)
        self._objects[key] = Stored(self._head, key, version, tail, obj["metadata"].get("labels"))
        insort(self._keys, key)
        self._index(key, obj)


class Store:
    """All objects, and the counter of versions.

    Attributes:
        writes: The order of the writes; all changes are commits of it.
    """

    def __init__(
        self, *, changes_max: int = HISTORY_CHANGES, writes: SerialExecutor | None = None
    ) -> None:
        """Starts empty.

        Args:
            changes_max: Number of changes per resource that watches can go back.
            writes: Those of the store that will take the objects of this one.
        """
        self.writes = writes if writes is not None else SerialExecutor()
        self._versions = Versions()
        self._changes_max = changes_max
        self._collections: dict[tuple[str, str], Collection] = {}
        #: (group, version, plural name) -> the resource that a definition has added.
        self.custom: Mapping[tuple[str, str, str], Resource] = {}
        #: (group, plural name) -> the definition that is served.
        self._served: dict[tuple[str, str], ServedDefinition] = {}
        #: (group, plural name) -> the objects of a definition that is not served.
        self._unserved: dict[tuple[str, str], Collection] = {}
        self._make_collections()

    def _make_collections(self) -> None:
        for resource in (*RESOURCES, *GATED_BY_PATH.values()):
            name = (resource.group, resource.name)
            if resource.is_stored and name not in _STORED_AS:
                self._collections[name] = self._new_collection(resource)

    def _new_collection(self, resource: Resource) -> Collection:
        return Collection(self._versions, self.writes, resource, changes_max=self._changes_max)

    def serve_custom(self, definitions: list[Object]) -> None:
        """Serves the custom resources of the established ones of all definitions.

        Objects of definitions that are not established stay in the store; those of deleted
        definitions are dropped. Watches of a resource end when it is no longer served, or the
        spec or the accepted names change.
        """
        served = [self._served_definition(d) for d in definitions if is_established(d)]
        defined = {_defined_name(definition) for definition in definitions}
        self.writes.commit(lambda: self._serve_custom(served, defined))

    def _served_definition(self, definition: Object) -> ServedDefinition:
        plural = definition["status"]["acceptedNames"].get("plural", "")
        name = definition["spec"]["group"], plural
        return ServedDefinition.of(definition, self._served.get(name))

    def _serve_custom(
        self, definitions: list[ServedDefinition], defined: set[tuple[str, str]]
    ) -> None:
        self.custom = {
            (resource.group, resource.version, resource.name): resource
            for served in definitions
            for resource in served.resources
        }
        by_name = {(served.storage.group, served.storage.name): served for served in definitions}
        for name in self._served.keys() - by_name.keys():
            collection = self._unserved[name] = self._collections.pop(name)
            collection.history.end_watches()
        for name in self._unserved.keys() - defined:
            del self._unserved[name]
        for name, served in by_name.items():
            if name in self._unserved:
                self._collections[name] = self._unserved.pop(name)
            elif name not in self._collections:
                self._collections[name] = self._new_custom_collection(served.storage)
            collection = self._collections[name]
            before = self._served.get(name, served)
            if before is not served and before[:2] != served[:2]:
                collection.history.end_watches()
            collection.store_as(served.storage)
        self._served = by_name

    def _new_custom_collection(self, resource: Resource) -> Collection:
        collection = self._new_collection(resource)
        # Changes of an earlier resource of this name are gone: clients list again.
        collection.history.compacted = self.version
        return collection

    def custom_collection(self, resource: Resource) -> Collection | None:
        """Returns the objects of a custom resource; None if it is not served."""
        return self._collections.get((resource.group, resource.name))

    @property
    def version(self) -> int:
        """The resourceVersion of the latest write."""
        return self._versions.latest

    def collection(self, resource: Resource) -> Collection:
        """Returns the objects of a resource; both event resources have one collection."""
        name = (resource.group, resource.name)
        return self._collections[_STORED_AS.get(name, name)]

    def collections(self) -> list[Collection]:
        """Returns all collections, in the order of ``RESOURCES``."""
        return list(self._collections.values())

    def resources(self) -> list[Resource]:
        """Returns all resources whose objects are stored, each once."""
        return [collection.resource for collection in self.collections()]

    def is_owner(self, uid: str) -> bool:
        """Returns whether any object names an owner with this UID."""
        return any(collection.has_owned(uid) for collection in self._collections.values())

    def statistics(self) -> dict[str, int]:
        """Returns the number of objects of each resource that has any."""
        return {
            collection.resource.qualified: len(collection)
            for collection in self.collections()
            if len(collection)
        }

    def snapshot(self) -> bytes:
        """Returns all objects, without the history, as one JSON document."""
        return b"".join(self.snapshot_slices())

    def snapshot_slices(self) -> Iterator[bytes]:
        """Returns the snapshot in slices of some objects each, all as of the call.

        Stored objects are immutable, so references to the current ones suffice.
        """
        collections = [
            (collection.resource.qualified, list(collection.in_order()))
            for collection in (*self.collections(), *self._unserved.values())
            if len(collection)
        ]
        head = f'{{"format":"{SNAPSHOT_FORMAT}","version":{self.version},"objects":{{\n'
        return _slices(head.encode(), collections)

    @contextmanager
    def loaded(self, data: bytes) -> Iterator[None]:
        """Loads a snapshot; takes the former objects back if the block cannot serve the new ones.

        Raises:
            SnapshotError: The bytes are not a snapshot, or the block has failed on its objects.
        """
        former = Store(changes_max=self._changes_max)
        former._take(self)
        self.load(data)
        try:
            yield
        except (ApiStatusError, AttributeError, LookupError, TypeError, ValueError) as error:
            self._take(former)
            text = str(error) if isinstance(error, ApiStatusError) else repr(error)
            raise SnapshotError(f"its objects cannot be served: {text}") from error

    def load(self, data: bytes) -> None:
        """Replaces all objects by those of a snapshot; watches must start anew.

        Raises:
            SnapshotError: The bytes are not a snapshot; then nothing is changed.
        """
        try:
            snapshot: dict[str, Any] = msgspec.json.decode(data)
            if snapshot["format"] != _FORMAT_WITHOUT_CHECKSUM:
                if snapshot["format"] != SNAPSHOT_FORMAT:
                    raise SnapshotError(f"format {snapshot['format']!r} is not {SNAPSHOT_FORMAT!r}")
                _check_snapshot(data)
            loaded = Store(changes_max=self._changes_max, writes=self.writes)
            loaded._versions.latest = int(snapshot["version"])
            loaded._restore(snapshot["objects"])
        except SnapshotError:
            raise
        except KeyError as error:
            raise SnapshotError(f"not a snapshot of an API server: no {error}") from error
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            raise SnapshotError(f"not a snapshot of an API server: {error}") from error
        self._take(loaded)

    def _take(self, other: Store) -> None:
        """Takes the objects of another store, which is not used any more."""
        self._versions, self._collections = other._versions, other._collections
        self.custom, self._served = other.custom, other._served
        self._unserved = other._unserved

    def skip_versions(self, count: int) -> None:
        """Skips the next ``count`` versions, so that versions lost in a crash are never reused."""
        self._versions.latest += count
        for collection in (*self._collections.values(), *self._unserved.values()):
            collection.history.compacted = self.version

    def _restore(self, objects: dict[str, list[Object]]) -> None:
        definitions = objects.get(DEFINITIONS.qualified, [])
        for definition in definitions:
            if definition["metadata"]["name"] in objects and not is_established(definition):
                resource = storage_resource(with_defined_names(definition))
                unserved = self._new_custom_collection(resource)
                self._unserved[_defined_name(definition)] = unserved
        self.serve_custom(definitions)
        collections = (*self._collections.values(), *self._unserved.values())
        by_name = {c.resource.qualified: c for c in collections}
        for collection in by_name.values():
            collection.history.compacted = self.version
        for name, items in objects.items():
            collection = by_name[name]
            for obj in items:
                metadata = obj["metadata"]
                namespace = metadata["namespace"] if collection.resource.namespaced else ""
                key, version = key_of(namespace, metadata["name"]), int(metadata["resourceVersion"])
                if collection.get(key) is not None:
                    raise SnapshotError(f"not a snapshot of an API server: {name} {key} twice")
                if version > self.version:
                    text = f"{name} {key} has version {version}, of {self.version}"
                    raise SnapshotError(f"not a snapshot of an API server: {text}")
                collection.restore(key, version, obj)
