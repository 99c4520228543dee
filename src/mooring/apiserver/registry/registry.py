"""Writing objects: what kube-apiserver's generic registry does, on our store.

``Registry`` creates, changes and hands out the objects of all resources. What is special about a
resource comes from its ``Strategy``; deleting is in ``deletion``, listing and watching in
``listing``.

Source: k8s.io/apiserver pkg/registry/generic/registry/store.go and
pkg/registry/rest/{create,update}.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from mooring.apiserver.admission import Admission
from mooring.apiserver.errors import (
    ApiStatusError,
    FieldError,
    already_exists,
    bad_request,
    conflict,
    invalid,
    invalid_object,
    name_not_generated,
    not_found,
)
from mooring.apiserver.names import path_segment
from mooring.apiserver.patch.managed_fields import (
    FieldManager,
    keep_timestamps_if_unchanged,
    track_create,
    track_update,
)
from mooring.apiserver.registry.strategies import strategy_of
from mooring.apiserver.resources import struct_of
from mooring.apiserver.schema.event_conversion import is_view
from mooring.apiserver.schema.times import timestamp
from mooring.apiserver.storage.stored_object import Stored, key_of
from mooring.apiserver.types import Object
from mooring.apiserver.validation.metadata import validate_metadata, validate_metadata_update
from mooring.objects.schema.decoding import empty
from mooring.objects.schema.types import structs

if TYPE_CHECKING:
    from mooring.apiserver.registry.strategy import Strategy, SubresourceStrategy
    from mooring.apiserver.resources import Resource
    from mooring.apiserver.storage.store import Collection, Store
    from mooring.clock import Clock, Rng

#: Makes the new object from the one that is there; None if there is none.
Change = Callable[[Object | None], Object]

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
#: Upstream's alphabet for generated names: no vowels, so no words; no digits like letters.
NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
NAME_BASE_MAX = 58
NAME_ATTEMPTS = 8
#: What a client cannot decide about a new object.
_SYSTEM_FIELDS = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)


class Target(NamedTuple):
    """What a request is about.

    Attributes:
        resource: The resource.
        namespace: "" for all namespaces, and for resources without.
        name: "" for the collection.
    """

    resource: Resource
    namespace: str
    name: str = ""

    @property
    def key(self) -> str:
        """Where the object is kept."""
        return key_of(self.namespace, self.name)


class Registry:
    """All objects and the rules by which they are written."""

    def __init__(self, store: Store, *, clock: Clock, rng: Rng) -> None:
        """Works on ``store``, which nobody else writes to."""
        self.store = store
        self.clock = clock
        self.rng = rng
        self.admission = Admission(store)

    def now(self) -> str:
        """Returns the wall clock as a timestamp."""
        return timestamp(self.clock.wall_s())

    def collection(self, resource: Resource) -> Collection:
        """Returns the objects of a resource."""
        return self.store.collection(resource)

    def get(self, target: Target) -> Stored:
        """Returns an object.

        Raises:
            ApiStatusError: 404.
        """
        found = self.collection(target.resource).get(target.key)
        if found is None:
            raise not_found(target.resource, target.name)
        return found

    def create(
        self, target: Target, obj: Object, *, manager: str, dry_run: bool = False
    ) -> Stored | Object:
        """Stores a new object; a dry run answers what would be stored.

        Args:
            target: Where; its name is not looked at.
            obj: As sent by the client, with defaults; it is changed.
            manager: Who writes, for managedFields.
            dry_run: Whether everything is done but the storing.

        Raises:
            ApiStatusError: 400, 403, 404, 409, 422.
        """
        _forget_system_fields(target, obj["metadata"])
        author = FieldManager(manager, target.resource, "", self.now())
        track_create(obj, author)
        return self._create_noted(target, obj, author.now, dry_run=dry_run)

    def _create_noted(
        self, target: Target, obj: Object, now: str, *, dry_run: bool
    ) -> Stored | Object:
        """Stores a new object in which stands who wrote it."""
        resource, metadata = target.resource, obj["metadata"]
        name = metadata.get("name", "")
        self.admission.check_namespace(resource, target.namespace, name)
        if metadata.get("resourceVersion", "0") not in ("", "0"):
            raise ApiStatusError(
                500, "", "resourceVersion should not be set on objects to be created"
            )
        self.admission.admit_create(resource, obj)
        metadata["creationTimestamp"] = now
        metadata["uid"] = self.new_uid()
        base = metadata.get("generateName", "")
        is_generated = bool(base) and not name
        if is_generated:
            name = metadata["name"] = self._free_name(target, base)
        strategy = strategy_of(resource)
        self._prepare_create(resource, strategy, obj, now)
        self._validate(resource, name, self._faults_of_new(resource, strategy, obj))
        self.admission.validate_create(resource, obj)
        return self._store_new(target, name, obj, dry_run=dry_run, is_generated=is_generated)

    def _store_new(
        self, target: Target, name: str, obj: Object, *, dry_run: bool, is_generated: bool
    ) -> Stored | Object:
        resource = target.resource
        collection = self.collection(resource)
        key = key_of(target.namespace, name)
        present = collection.get(key)
        if present is not None:
            if is_generated:
                raise name_not_generated(resource, name)
            error = already_exists(resource, name)
            if "deletionTimestamp" in present.object()["metadata"]:
                error.message = f"object is being deleted: {error.message}"
            raise error
        if dry_run:
            obj["metadata"].pop("resourceVersion", None)
            return obj
        stored = collection.create(key, obj)
        if not is_view(resource):
            return stored
        # It is shown as another kind: so it need not be decoded for that.
        obj["metadata"]["resourceVersion"] = str(stored.version)
        return obj

    def _prepare_create(
        self, resource: Resource, strategy: Strategy, obj: Object, now: str
    ) -> None:
        if strategy.empties_status and "status" in obj:
            status = structs()[struct_of(self.collection(resource).resource)]["status"]
            obj["status"] = empty(status.type_name)
        if strategy.starts_generation:
            obj["metadata"]["generation"] = 1
        strategy.prepare_create(obj, now)

    def _faults_of_new(
        self, resource: Resource, strategy: Strategy, obj: Object
    ) -> list[FieldError]:
        namespaced = resource.namespaced
        check_name = strategy.check_name
        errors = validate_metadata(obj["metadata"], namespaced=namespaced, check_name=check_name)
        if not errors and path_segment(obj["metadata"]["name"]):
            errors = validate_metadata(
                obj["metadata"], namespaced=namespaced, check_name=path_segment
            )
        return errors + strategy.validate(obj)

    def _validate(self, resource: Resource, name: str, errors: list[FieldError]) -> None:
        if errors:
            stored_as = self.collection(resource).resource
            raise invalid_object(stored_as.kind, name, errors, group=stored_as.group)

    def _free_name(self, target: Target, base: str) -> str:
        """Returns a name with five random characters; of several tries the first that is free."""
        collection = self.collection(target.resource)
        name = ""
        for _ in range(NAME_ATTEMPTS):
            name = base[:NAME_BASE_MAX] + "".join(self.rng.choices(NAME_ALPHABET, k=5))
            if collection.get(key_of(target.namespace, name)) is None:
                break
        return name

    def new_uid(self) -> str:
        """Returns a random UUID (version 4) from our own generator."""
        text = f"{self.rng.getrandbits(128):032x}"
        variant = "89ab"[int(text[16], 16) % 4]
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"

    def update(
        self,
        target: Target,
        change: Change,
        *,
        author: FieldManager,
        part: str = "",
        create_if_missing: bool = False,
        uid: str = "",
        dry_run: bool = False,
    ) -> tuple[Stored | Object, bool]:
        """Replaces an object by what ``change`` makes of it; also says whether it was created.

        Args:
            target: Which object.
            change: Makes the new object; what it is given is its own.
            author: Who writes; an applier has put itself into the object already.
            part: "" or the subresource, which decides what may be changed.
            create_if_missing: True to create an absent object, as server-side apply does.
            uid: The UID that the object must have, "" for any.
            dry_run: Whether everything is done but the storing.

        Raises:
            ApiStatusError: 400, 403, 404, 409, 422.
        """
        resource = target.resource
        strategy = strategy_of(resource)
        present = self.collection(resource).get(target.key)
        if present is None:
            if not create_if_missing and (part or not strategy.creates_on_update):
                if not part:
                    self.admission.check_update(resource, target.namespace)
                raise not_found(resource, target.name)
            new = change(None)
            _forget_system_fields(target, new["metadata"])
            if not create_if_missing:
                track_create(new, author)
            return self._create_noted(target, new, author.now, dry_run=dry_run), True
        old = present.object()
        if uid and uid != old["metadata"]["uid"]:
            raise storage_conflict(target, f"UID in precondition: {uid}", "UID", old)
        new = change(present.object())
        if not create_if_missing:
            track_update(new, old, author)
        self._check_version(strategy, target, new, present)
        check_namespace(target, new["metadata"])
        if not part:
            self.admission.admit_update(resource, new, old)
        how = strategy.parts[part]
        _prepare_update(strategy, how, new, old)
        self._validate(resource, target.name, self._faults_of_change(resource, how, new, old))
        keep_timestamps_if_unchanged(new, old)
        return self.replace(target, new, old, dry_run=dry_run), False

    @staticmethod
    def _faults_of_change(
        resource: Resource, part: SubresourceStrategy, new: Object, old: Object
    ) -> list[FieldError]:
        metadata = new["metadata"]
        common = [
            *validate_metadata(metadata, namespaced=resource.namespaced, check_name=path_segment),
            *validate_metadata_update(metadata, old["metadata"]),
        ]
        # Upstream's strategies check the metadata once more: each fault is a cause twice.
        return [*common, *common, *part.validate(new, old)]

    def replace(
        self, target: Target, new: Object, old: Object, *, dry_run: bool = False
    ) -> Stored | Object:
        """Stores a checked object over another one, or deletes it if that is what was missing."""
        collection = self.collection(target.resource)
        if is_finished(target.resource, new, old):
            if not dry_run:
                collection.remove(target.key)
            return _at_version_of(old, new)
        if dry_run:
            return _at_version_of(old, new)
        return collection.replace(target.key, new)

    def _check_version(
        self, strategy: Strategy, target: Target, new: Object, present: Stored
    ) -> None:
        """Refuses a change that was made to another version than the present one."""
        resource = target.resource
        text = new["metadata"].get("resourceVersion", "")
        if text and not text.isdecimal():
            raise ApiStatusError(500, "", f'strconv.ParseUint: parsing "{text}": invalid syntax')
        version = int(text or 0)
        if version == 0 and strategy.updates_unconditionally:
            return
        if version == 0:
            error = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid_object(resource.name, target.name, [error], group=resource.group)
        if version != present.version:
            raise conflict(resource.group, resource.name, target.name, MODIFIED)


def _forget_system_fields(target: Target, metadata: Object) -> None:
    for name in _SYSTEM_FIELDS:
        metadata.pop(name, None)
    check_namespace(target, metadata)


def _prepare_update(
    strategy: Strategy, part: SubresourceStrategy, new: Object, old: Object
) -> None:
    """Takes over from the old object what a client cannot change."""
    metadata, before = new["metadata"], old["metadata"]
    _carry_over(metadata, before, "generation")
    part.prepare(new, old)
    is_new = strategy.is_new_generation
    if is_new is not None and part.raises_generation and is_new(new, old):
        metadata["generation"] = before.get("generation", 0) + 1
    if not metadata.get("uid"):
        metadata["uid"] = before["uid"]
    _carry_over(metadata, before, "creationTimestamp")
    if "deletionTimestamp" in before:
        metadata["deletionTimestamp"] = before["deletionTimestamp"]
    if "deletionGracePeriodSeconds" not in metadata:
        _carry_over(metadata, before, "deletionGracePeriodSeconds")


def _carry_over(metadata: Object, before: Object, name: str) -> None:
    if name in before:
        metadata[name] = before[name]
    else:
        metadata.pop(name, None)


def check_namespace(target: Target, metadata: Object) -> None:
    """Gives the object the namespace of the request; it may not name another one.

    Raises:
        ApiStatusError: 400.
    """
    given = metadata.get("namespace", "")
    if target.namespace and not given:
        metadata["namespace"] = target.namespace
    elif given != target.namespace and target.resource.namespaced:
        text = (
            "the namespace of the provided object does not match the namespace sent on the request"
        )
        raise bad_request(text)


def storage_conflict(target: Target, precondition: str, name: str, obj: Object) -> ApiStatusError:
    """409 in the words of upstream's storage, which are all that a client gets to see."""
    metadata = obj["metadata"]
    is_value = metadata["uid"] if name == "UID" else metadata["resourceVersion"]
    place = (
        target.resource.name
        if not target.resource.group
        else (f"{target.resource.name}.{target.resource.group}")
    )
    text = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{place}/{target.key}, "
        f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {precondition}, "
        f"{name} in object meta: {is_value}"
    )
    return conflict(target.resource.group, target.resource.name, target.name, text)


def is_finished(resource: Resource, new: Object, old: Object) -> bool:
    """Returns whether the change took away the last thing that kept a deleted object."""
    before = old["metadata"]
    if new["metadata"].get("finalizers") or "deletionTimestamp" not in before:
        return False
    if resource.kind == "Namespace" and new["spec"].get("finalizers"):
        return False
    return not before.get("deletionGracePeriodSeconds")


def _at_version_of(old: Object, new: Object) -> Object:
    metadata = {**new["metadata"], "resourceVersion": old["metadata"]["resourceVersion"]}
    return {**new, "metadata": metadata}
