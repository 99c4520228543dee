"""Registry: reads and writes objects of the store, as kube-apiserver's generic registry.

``Registry`` creates, updates and returns the objects of all resources. The rules of one resource
are in its ``Strategy``; ``deletion`` deletes, ``endpoints`` lists and watches.

Source: k8s.io/apiserver pkg/registry/generic/registry/store.go and
pkg/registry/rest/{create,update}.go.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import partial
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
    quoted,
)
from mooring.apiserver.names import path_segment
from mooring.apiserver.object_fields import restore_fields
from mooring.apiserver.patch.managed_fields import (
    FieldManager,
    keep_timestamps_if_unchanged,
    track_create,
    track_update,
)
from mooring.apiserver.registry.disabled_fields import drop_disabled_fields
from mooring.apiserver.registry.service_addresses import SERVICES, ServiceAddresses
from mooring.apiserver.registry.strategies import strategy_of
from mooring.apiserver.registry.validation import errors_of_change, errors_of_new
from mooring.apiserver.resources import struct_of
from mooring.apiserver.schema.event_conversion import as_of_today, is_view
from mooring.apiserver.storage.request_size import RequestTooLarge
from mooring.apiserver.storage.stored_object import Stored, key_of
from mooring.apiserver.types import Object
from mooring.clock import random_uuid, rfc3339, seeded_random
from mooring.objects.schema.decoding import empty
from mooring.objects.schema.types import structs

if TYPE_CHECKING:
    from mooring.apiserver.registry.strategy import Strategy, SubresourceStrategy
    from mooring.apiserver.resources import Resource
    from mooring.apiserver.storage.store import Collection, Store
    from mooring.clock import Clock, Rng

#: Returns the new object, given the stored one or None.
UpdateFunction = Callable[[Object | None], Object]

#: Returns the errors of fields that the client may not change, of the new and the old object.
AuthorizeChange = Callable[[Object, Object], Iterable[FieldError]]


def _allow(_new: Object, _old: Object) -> Iterable[FieldError]:
    return ()


MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
#: Upstream's alphabet for generated names: no vowels, so no words; no digits like letters.
NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
NAME_BASE_MAX = 58
NAME_ATTEMPTS = 8
#: Fields of a new object that a client cannot set.
_SYSTEM_FIELDS = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)


class Target(NamedTuple):
    """The object or collection of a request.

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
        """The storage key of the object."""
        return key_of(self.namespace, self.name)


class Registry:
    """All objects and the rules by which they are written."""

    def __init__(self, store: Store, *, clock: Clock, rng: Rng) -> None:
        """Reads and writes ``store``; no other code may write to it."""
        self.store = store
        self.clock = clock
        self.rng = rng
        self.admission = Admission(store)
        self._addresses = ServiceAddresses(store)

    def now(self) -> str:
        """Returns the wall clock as a timestamp; the same in all of a write."""
        return self.store.writes.decided("now", lambda: rfc3339(self.clock.wall_s()))

    def collection(self, resource: Resource) -> Collection:
        """Returns the objects of a resource."""
        return self.store.collection(resource)

    def get(self, target: Target) -> Stored:
        """Returns an object.

        Raises:
            ApiStatusError: 404; 400, no object can have the name.
        """
        stored = self.collection(target.resource).get(target.key)
        if stored is None:
            raise absent(target)
        return stored

    def create(
        self,
        target: Target,
        obj: Object,
        *,
        manager: str,
        dry_run: bool = False,
        uid: str = "",
    ) -> Stored | Object:
        """Stores a new object; a dry run returns the object that would be stored.

        Args:
            target: The resource and namespace; the name is ignored.
            obj: As sent by the client, with defaults; it is changed.
            manager: The field manager, for managedFields.
            dry_run: True to do everything except storing.
            uid: Of the object; "" = a random one.

        Raises:
            ApiStatusError: 400, 403, 404, 409, 422.
        """
        _remove_system_fields(target, obj["metadata"])
        writer = FieldManager(manager, target.resource, "", self.now())
        strategy_of(target.resource).subresources[""].set_times(obj, writer.now)
        track_create(obj, writer)
        return self._create_tracked(target, obj, writer.now, dry_run=dry_run, uid=uid)

    def _create_tracked(
        self,
        target: Target,
        obj: Object,
        now: str,
        *,
        dry_run: bool,
        uid: str = "",
        is_apply: bool = False,
        authorize: Callable[[], None] = lambda: None,
    ) -> Stored | Object:
        """Stores a new object that has its managedFields."""
        resource, metadata = target.resource, obj["metadata"]
        name = metadata.get("name", "")
        self.admission.check_namespace(resource, target.namespace, name)
        self.admission.admit_create(resource, obj)
        metadata["creationTimestamp"] = now
        metadata["uid"] = uid or self.store.writes.decided("uid", self.new_uid)
        base = metadata.get("generateName", "")
        is_generated = bool(base) and not name
        if is_generated:
            name = metadata["name"] = self.store.writes.decided(
                "name", lambda: self._free_name(target, base)
            )
        self._prepare_create(resource, obj, now)
        name = metadata.get("name", "")
        errors = [*self.admission.admin_access_errors(resource, obj, None)]
        errors += errors_of_new(self.store.writes, resource, obj)
        self._check_errors(resource, name, errors)
        authorize()
        self.admission.validate_create(resource, obj)
        if resource is SERVICES:
            self._addresses.assign(obj)
        if not dry_run and _has_version(obj):
            message = "resourceVersion should not be set on objects to be created"
            raise ApiStatusError(500, "", message)
        collection, key = self.collection(resource), key_of(target.namespace, name)
        _check_free(resource, name, collection.get(key), is_generated=is_generated)
        if dry_run:
            return obj
        stored = _write_limited(collection.create, key, obj, is_apply=is_apply)
        if not is_view(resource):
            return stored
        # It is rendered as another kind; returning it here avoids decoding it again.
        obj["metadata"]["resourceVersion"] = str(stored.version)
        return obj

    def _prepare_create(self, resource: Resource, obj: Object, now: str) -> None:
        strategy = strategy_of(resource)
        if strategy.empties_status and "status" in obj:
            status = structs()[struct_of(self.collection(resource).resource)]["status"]
            obj["status"] = empty(status.type_name)
        if strategy.starts_generation:
            obj["metadata"]["generation"] = 1
        strategy.prepare_create(obj, now)
        drop_disabled_fields(resource, obj, None)
        strategy.subresources[""].set_times(obj, now)

    def _check_errors(self, resource: Resource, name: str, errors: list[FieldError]) -> None:
        if errors:
            stored_as = self.collection(resource).resource
            raise invalid_object(stored_as.kind, name, errors, group=stored_as.group)

    def _free_name(self, target: Target, base: str) -> str:
        """Returns a name with five random characters: the first of several that is not in use."""
        collection = self.collection(target.resource)
        name = ""
        for _ in range(NAME_ATTEMPTS):
            name = base[:NAME_BASE_MAX] + "".join(self.rng.choices(NAME_ALPHABET, k=5))
            if collection.get(key_of(target.namespace, name)) is None:
                break
        return name

    def new_uid(self) -> str:
        """Returns a random UUID (version 4) from our own generator."""
        return random_uuid(self.rng)

    def update(
        self,
        target: Target,
        change: UpdateFunction,
        *,
        writer: FieldManager,
        subresource: str = "",
        create_if_missing: bool = False,
        is_tracked: bool = False,
        uid: str = "",
        dry_run: bool = False,
        authorize: AuthorizeChange = _allow,
        authorize_create: Callable[[], None] = lambda: None,
    ) -> tuple[Stored | Object, bool]:
        """Replaces an object by the result of ``change``; returns it, and True if it was created.

        Args:
            target: The object.
            change: Returns the new object; it may modify its argument.
            writer: The field manager; an apply has set managedFields already.
            subresource: "" for the main resource; decides what may be changed.
            create_if_missing: True to create an absent object, as server-side apply does.
            is_tracked: True if ``change`` sets the managedFields, without an apply.
            uid: The UID that the object must have, "" = any.
            dry_run: True to do everything except storing.
            authorize: Returns the errors of fields that the client may not change.
            authorize_create: Raises error 403 if the client may not create the object.

        Raises:
            ApiStatusError: 400, 403, 404, 409, 422.
        """
        resource = target.resource
        strategy = strategy_of(resource)
        present = self.collection(resource).get(target.key)
        if present is None:
            # Differs: upstream creates a Service, without its address, when its status is written.
            if subresource or not (create_if_missing or strategy.creates_on_update):
                if not subresource:
                    self.admission.check_update(resource, target.namespace)
                raise absent(target)
            new = change(None)
            _version_of(new["metadata"])
            if uid:
                raise storage_conflict(target, f"UID in precondition: {uid}", "UID", _NOTHING)
            _make_new(target, new, keeps_version=dry_run)
            is_apply = create_if_missing
            if not is_apply:
                track_create(new, writer)
            create = partial(self._create_tracked, authorize=authorize_create)
            return create(target, new, writer.now, dry_run=dry_run, is_apply=is_apply), True
        old = as_of_today(resource, present.object())
        if uid and uid != old["metadata"]["uid"]:
            raise storage_conflict(target, f"UID in precondition: {uid}", "UID", old)
        new = change(present.object())
        rules = strategy.subresources[subresource]
        if not create_if_missing:
            rules.set_times(new, writer.now)
            if not is_tracked:
                track_update(new, old, writer)
        self._check_version(strategy, target, new, present)
        check_namespace(target, new["metadata"])
        if not subresource:
            self.admission.admit_update(resource, new, old)
        _prepare_update(resource, rules, new, old)
        rules.set_times(new, writer.now)
        rules.stamp(new, old, writer.now)
        errors = [*self.admission.admin_access_errors(resource, new, old), *authorize(new, old)]
        errors += errors_of_change(self.store.writes, resource, rules, new, old)
        self._check_errors(resource, target.name, errors)
        self.admission.validate_update(resource, subresource, new, old)
        if resource is SERVICES and not subresource:
            self._addresses.assign(new)
        keep_timestamps_if_unchanged(new, old)
        is_apply = create_if_missing
        return self.replace(target, new, old, dry_run=dry_run, is_apply=is_apply), False

    def replace(
        self,
        target: Target,
        new: Object,
        old: Object,
        *,
        dry_run: bool = False,
        is_apply: bool = False,
    ) -> Stored | Object:
        """Stores a validated version, or deletes the object if its last finalizer was removed.

        Raises:
            RequestTooLarge: 500, it is too large.
        """
        collection = self.collection(target.resource)
        if finalizers_cleared(target.resource, new, old):
            if not dry_run:
                collection.remove(target.key)
            return _at_version_of(old, new)
        if dry_run:
            return _at_version_of(old, new)
        return _write_limited(collection.replace, target.key, new, is_apply=is_apply)

    def _check_version(
        self, strategy: Strategy, target: Target, new: Object, present: Stored
    ) -> None:
        """Checks that a change is based on the current version."""
        resource = target.resource
        version = _version_of(new["metadata"])
        if version == 0 and strategy.updates_unconditionally:
            return
        if version == 0:
            error = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid_object(resource.name, target.name, [error], group=resource.group)
        if version != present.version:
            raise conflict(resource.group, resource.name, target.name, MODIFIED)


def absent(target: Target) -> ApiStatusError:
    """Returns the error of an object that is not stored."""
    problems = path_segment(target.name)
    if problems:
        return bad_request(f"Name parameter invalid: {quoted(target.name)}: {';'.join(problems)}")
    return not_found(target.resource, target.name)


def _check_free(
    resource: Resource, name: str, present: Stored | None, *, is_generated: bool
) -> None:
    """Checks that no object has the name of a new one.

    Raises:
        ApiStatusError: 409.
    """
    if present is None:
        return
    if is_generated:
        raise name_not_generated(resource, name)
    error = already_exists(resource, name)
    if "deletionTimestamp" in present.object()["metadata"]:
        error.message = f"object is being deleted: {error.message}"
    raise error


def _write_limited(
    write: Callable[..., Stored], key: str, obj: Object, *, is_apply: bool
) -> Stored:
    """Stores an object; without its managedFields if it is too large with them.

    Those of an apply are needed.

    Raises:
        RequestTooLarge: 500.
    """
    try:
        return write(key, obj, is_limited=True)
    except RequestTooLarge:
        if is_apply:
            raise
        obj["metadata"].pop("managedFields", None)
        return write(key, obj, is_limited=True)


#: Of an unsigned int64.
_VERSION_DIGITS_MAX = 20
#: What upstream's storage has instead of an absent object.
_NOTHING: Object = {"metadata": {"uid": "", "resourceVersion": ""}}


def _version_of(metadata: Object) -> int:
    """Returns the resourceVersion that a client has sent, as a number; 0 = none.

    Raises:
        ApiStatusError: 500, it is not a number.
    """
    text = metadata.get("resourceVersion", "")
    if not (text.isascii() and text.isdecimal()):
        if not text:
            return 0
        raise ApiStatusError(500, "", f'strconv.ParseUint: parsing "{text}": invalid syntax')
    digits = text.lstrip("0")
    if len(digits) > _VERSION_DIGITS_MAX or int(digits or 0) >= 2**64:
        raise ApiStatusError(500, "", f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(digits or 0)


def derived_uid(registry: Registry, target: Target) -> str:
    """Returns the UID of an object that the server creates by itself, at this version.

    It takes nothing from the server's generator, whose numbers decide seeded runs.
    """
    version, now = registry.store.version, registry.now()
    text = f"{target.resource.qualified}/{target.key}/{version}/{now}"
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return random_uuid(seeded_random(number))


def _has_version(obj: Object) -> bool:
    return obj["metadata"].get("resourceVersion", "0") not in ("", "0")


def _remove_system_fields(target: Target, metadata: Object) -> None:
    for name in _SYSTEM_FIELDS:
        metadata.pop(name, None)
    check_namespace(target, metadata)


def _make_new(target: Target, obj: Object, *, keeps_version: bool) -> None:
    """Removes what a new object cannot have from the object of an update."""
    _remove_system_fields(target, obj["metadata"])
    if not keeps_version:
        obj["metadata"].pop("resourceVersion", None)  # that of another object, now deleted


def _prepare_update(
    resource: Resource, rules: SubresourceStrategy, new: Object, old: Object
) -> None:
    """Copies the fields that a client cannot change from the old object."""
    metadata, before = new["metadata"], old["metadata"]
    restore_fields(metadata, before, "generation")
    rules.prepare(new, old)
    drop_disabled_fields(resource, new, old)
    is_new = strategy_of(resource).is_new_generation
    if is_new is not None and rules.raises_generation and is_new(new, old):
        metadata["generation"] = before.get("generation", 0) + 1
    if not metadata.get("uid"):
        metadata["uid"] = before["uid"]
    restore_fields(metadata, before, "creationTimestamp")
    if "deletionTimestamp" in before:
        metadata["deletionTimestamp"] = before["deletionTimestamp"]
    if "deletionGracePeriodSeconds" not in metadata:
        restore_fields(metadata, before, "deletionGracePeriodSeconds")


def check_namespace(target: Target, metadata: Object) -> None:
    """Sets the object's namespace to that of the request; it may not have another one.

    That of an object without namespaces is removed.

    Raises:
        ApiStatusError: 400.
    """
    namespace = metadata.get("namespace", "")
    if target.namespace and not namespace:
        metadata["namespace"] = target.namespace
    elif not target.resource.namespaced:
        metadata.pop("namespace", None)
    elif namespace != target.namespace:
        text = (
            "the namespace of the provided object does not match the namespace sent on the request"
        )
        raise bad_request(text)


def storage_conflict(target: Target, precondition: str, name: str, obj: Object) -> ApiStatusError:
    """Returns error 409 with the message of upstream's storage."""
    metadata = obj["metadata"]
    actual = metadata["uid"] if name == "UID" else metadata["resourceVersion"]
    text = (
        "StorageError: invalid object, Code: 4, Key: "
        f"/registry/{target.resource.qualified}/{target.key}, "
        f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {precondition}, "
        f"{name} in object meta: {actual}"
    )
    return conflict(target.resource.group, target.resource.name, target.name, text)


def finalizers_cleared(resource: Resource, new: Object, old: Object) -> bool:
    """Returns True if a change removed the last finalizer of an object that is being deleted."""
    before = old["metadata"]
    if new["metadata"].get("finalizers") or "deletionTimestamp" not in before:
        return False
    if resource.kind == "Namespace" and new["spec"].get("finalizers"):
        return False
    return not before.get("deletionGracePeriodSeconds")


def _at_version_of(old: Object, new: Object) -> Object:
    metadata = {**new["metadata"], "resourceVersion": old["metadata"]["resourceVersion"]}
    return {**new, "metadata": metadata}
