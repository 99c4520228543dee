"""Serves the resources of CustomResourceDefinitions, and keeps the status of definitions.

::

    created ──> names accepted ──> established: its resources are served
                    │ conflict                      │ deleted
                    └──> not served           objects are deleted ──> definition is removed

A definition whose conditions a client has removed is not served either; its objects stay.

Upstream these are controllers; here all runs after the request that changed a definition.

Source: k8s.io/apiextensions-apiserver pkg/controller/{status,establish,finalizer}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver.custom.definition import (
    CLEANUP,
    is_established,
    set_condition,
    storage_resource,
)
from mooring.apiserver.patch.managed_fields import FieldManager, track_update
from mooring.apiserver.registry.delete_options import DeleteOptions
from mooring.apiserver.registry.registry import Target
from mooring.apiserver.resources import DEFINITIONS

if TYPE_CHECKING:
    from mooring.apiserver.registry.deletion import Deleter
    from mooring.apiserver.registry.registry import Registry
    from mooring.apiserver.storage.store import Collection
    from mooring.apiserver.storage.stored_object import Stored
    from mooring.apiserver.types import Object

_MANAGER = "kube-apiserver"


class Definitions:
    """Accepts the names of definitions, serves their resources, deletes their objects."""

    def __init__(self, registry: Registry, deleter: Deleter) -> None:
        self._registry = registry
        self._deleter = deleter
        self._seen: tuple[object, int] = (None, -1)
        #: Name -> the definition, and its object.
        self._decoded: dict[str, tuple[Stored, Object]] = {}

    def run(self) -> None:
        """Updates status and served resources after changes of definitions."""
        collection = self._registry.collection(DEFINITIONS)
        self._finish_deleted(collection)
        if (collection, collection.history.end) == self._seen:
            return
        self._decode(collection)
        by_name = {name: definition for name, (_, definition) in self._decoded.items()}
        # Names are given in the order of creation.
        order = sorted(by_name, key=lambda name: by_name[name]["metadata"]["creationTimestamp"])
        order.sort(key=lambda name: not by_name[name]["status"]["acceptedNames"]["plural"])
        for name in order:
            definition, before = by_name[name], collection.get(name)
            if definition["spec"]["names"] == definition["status"]["acceptedNames"]:
                continue
            self._accept_names(definition, [d for n, d in by_name.items() if n != name])
            assert before is not None
            writer = FieldManager(_MANAGER, DEFINITIONS, "status", self._registry.now())
            old = before.object()
            if definition != old:
                track_update(definition, old, writer)
                collection.replace(name, definition)
        self._seen = (collection, collection.history.end)
        self._registry.store.serve_custom(list(by_name.values()))

    def _decode(self, collection: Collection) -> None:
        """Decodes what is new: a definition may have a megabyte, and there may be many."""
        before, self._decoded = self._decoded, {}
        for stored in collection.in_order():
            decoded = before.get(stored.name)
            if decoded is None or decoded[0] is not stored:
                decoded = stored, stored.object()
            self._decoded[stored.name] = decoded

    def _finish_deleted(self, collection: Collection) -> None:
        for stored in list(collection.in_order()):
            if b'"deletionTimestamp"' not in stored.tail:
                continue
            definition = stored.object()
            if CLEANUP not in definition["metadata"].get("finalizers", ()):
                continue
            if self._delete_objects(definition):
                metadata = definition["metadata"]
                metadata["finalizers"] = [f for f in metadata["finalizers"] if f != CLEANUP]
                if not metadata["finalizers"]:
                    del metadata["finalizers"]
                target = Target(DEFINITIONS, "", stored.name)
                self._deleter.store_and_finish(target, definition, stored)

    def _delete_objects(self, definition: Object) -> bool:
        """Deletes all objects of a definition; returns True if none is left."""
        if not is_established(definition):
            return True
        resource = storage_resource(definition)
        objects = self._registry.store.custom_collection(resource)
        if objects is None:
            return True
        for listed in list(objects.in_order()):
            self._deleter.pause()
            stored = objects.get(listed.key)
            if stored is None or b'"deletionTimestamp"' in stored.tail:
                continue
            target = Target(objects.resource, stored.namespace, stored.name)
            self._deleter.delete(target, DeleteOptions(policy="Background"))
        return len(objects) == 0

    def _accept_names(self, definition: Object, others: list[Object]) -> None:
        """Sets acceptedNames and the conditions of a definition."""
        requested, accepted = definition["spec"]["names"], definition["status"]["acceptedNames"]
        if requested == accepted:
            return
        group = definition["spec"]["group"]
        used = [o["status"]["acceptedNames"] for o in others if o["spec"]["group"] == group]
        words = {
            word
            for names in used
            for word in (names["plural"], names.get("singular"), *(names.get("shortNames") or ()))
        }
        kinds = {word for names in used for word in (names["kind"], names.get("listKind"))}
        new, reason, message = dict(accepted), "", ""
        for field, taken in (
            ("plural", words),
            ("singular", words),
            ("shortNames", words),
            ("kind", kinds),
            ("listKind", kinds),
        ):
            problem = _conflict(requested.get(field), accepted.get(field), taken)
            if problem:
                reason, message = f"{field[0].upper()}{field[1:]}Conflict", problem
            else:
                _set(new, field, requested.get(field))
        _set(new, "categories", requested.get("categories"))
        definition["status"]["acceptedNames"] = new
        self._set_conditions(definition, reason, message)

    def _set_conditions(self, definition: Object, reason: str, message: str) -> None:
        now = self._registry.now()
        was_established = is_established(definition)
        is_accepted = not reason
        set_condition(
            definition,
            now,
            "NamesAccepted",
            is_true=is_accepted,
            reason=reason or "NoConflicts",
            message=message or "no conflicts found",
        )
        if was_established:
            return
        set_condition(
            definition,
            now,
            "Established",
            is_true=is_accepted,
            reason="InitialNamesAccepted" if is_accepted else "NotAccepted",
            message="the initial names have been accepted"
            if is_accepted
            else "not all names are accepted",
        )


def _conflict(requested: object, accepted: object, taken: set[str]) -> str:
    """Returns the problem of a requested name, or list of names; "" for none."""
    if requested == accepted or requested is None:
        return ""
    if isinstance(requested, list):
        present = accepted if isinstance(accepted, list) else []
        problems = [
            f'"{name}" is already in use'
            for name in requested
            if name not in present and name in taken
        ]
        return problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]" if problems else ""
    return f'"{requested}" is already in use' if requested in taken else ""


def _set(names: Object, field: str, value: object) -> None:
    if value is None:
        names.pop(field, None)
    else:
        names[field] = value
