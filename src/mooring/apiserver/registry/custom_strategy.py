"""The strategies of custom resources and of their definitions.

Source: k8s.io/apiextensions-apiserver pkg/registry/{customresource,customresourcedefinition}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.apiserver import names
from mooring.apiserver.custom.embedded_objects import find_embedded_errors
from mooring.apiserver.custom.paths import find
from mooring.apiserver.custom.values import ABSENT, find_errors_below, find_value_errors, kind_of
from mooring.apiserver.errors import Errors, FieldError, first_errors, invalid
from mooring.apiserver.object_fields import restore_fields
from mooring.apiserver.registry.strategy import (
    Strategy,
    SubresourceStrategy,
    keep_spec,
    spec_differs,
)
from mooring.apiserver.validation.definitions import (
    validate_definition,
    validate_definition_update,
)
from mooring.apiserver.validation.metadata import validate_metadata

if TYPE_CHECKING:
    from mooring.apiserver.resources import CustomVersion
    from mooring.apiserver.types import Object

_REPLICAS_MAX = 2**31 - 1


# ---------------------------------------------------------------------- definitions


def add_stored_version(definition: Object) -> None:
    """Adds the storage version to ``status.storedVersions``."""
    stored = definition["status"].get("storedVersions") or []
    for version in definition["spec"]["versions"] or ():
        if version["storage"]:
            if version["name"] not in stored:
                stored = [*stored, version["name"]]
            break
    definition["status"]["storedVersions"] = stored or None


def _prepare_definition(definition: Object, _now: str) -> None:
    definition["status"] = {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": None,
    }
    add_stored_version(definition)


def _prepare_definition_update(new: Object, old: Object) -> None:
    restore_fields(new, old, "status")
    add_stored_version(new)


def _prepare_definition_status(new: Object, old: Object) -> None:
    keep_spec(new, old)
    if not new["status"].get("storedVersions"):
        add_stored_version(new)


DEFINITION = Strategy(
    prepare_create=_prepare_definition,
    empties_status=False,
    starts_generation=True,
    is_new_generation=spec_differs,
    validate=validate_definition,
    subresources={
        "": SubresourceStrategy(
            _prepare_definition_update, validate_definition_update, raises_generation=True
        ),
        "status": SubresourceStrategy(_prepare_definition_status),
    },
    updates_unconditionally=False,
)


# ---------------------------------------------------------------------- custom resources


def strategy_of_custom(custom: CustomVersion) -> Strategy:
    """Returns the rules for writing the objects of a custom resource."""

    def prepare_create(obj: Object, _now: str) -> None:
        if custom.has_status:
            obj.pop("status", None)

    def prepare_update(new: Object, old: Object) -> None:
        if custom.has_status:
            restore_fields(new, old, "status")

    def prepare_status(new: Object, old: Object) -> None:
        metadata, status = new["metadata"], new.get("status", ABSENT)
        entries = metadata.get("managedFields")
        new.clear()
        new.update(old)
        new["metadata"] = {k: v for k, v in old["metadata"].items() if k != "managedFields"}
        if entries:
            new["metadata"]["managedFields"] = entries
        if status is ABSENT:
            new.pop("status", None)
        else:
            new["status"] = status

    def validate(obj: Object, old: Object | None = None) -> Errors:
        before = ABSENT if old is None else old
        errors = first_errors(find_value_errors(obj, custom.schema, old=before))
        errors += find_embedded_errors(obj, custom.schema, _embedded_metadata_errors)
        yield from errors
        if custom.has_rules:
            yield from _rule_errors(errors, custom.schema, obj, old)
        yield from _replica_errors(custom, obj, "specReplicasPath")
        yield from _replica_errors(custom, obj, "statusReplicasPath")

    def validate_status(new: Object, old: Object) -> Errors:
        schema: Any = (custom.schema.get("properties") or {}).get("status")
        errors = []
        if schema is not None and "status" in new:
            before = old.get("status", ABSENT)
            errors = first_errors(find_errors_below(new["status"], schema, "status", before))
        yield from errors
        if custom.has_rules:
            yield from _rule_errors(errors, custom.schema, new, old)
        yield from _replica_errors(custom, new, "statusReplicasPath")

    return Strategy(
        prepare_create=prepare_create,
        empties_status=False,
        starts_generation=True,
        is_new_generation=_content_differs,
        validate=validate,
        subresources={
            "": SubresourceStrategy(prepare_update, validate, raises_generation=True),
            "status": SubresourceStrategy(prepare_status, validate_status),
        },
        updates_unconditionally=False,
    )


def _embedded_metadata_errors(metadata: Object) -> Errors:
    return validate_metadata(
        {**metadata, "name": metadata.get("name") or "fakename"},  # it may be absent
        namespaced=bool(metadata.get("namespace")),
        check_name=names.path_segment,
        any_finalizer=True,
    )


def _content_differs(new: Object, old: Object) -> bool:
    names = ("metadata", "apiVersion", "kind")
    after = {name: value for name, value in new.items() if name not in names}
    return after != {name: value for name, value in old.items() if name not in names}


def _rule_errors(
    errors: list[FieldError], schema: Object, new: Object, old: Object | None
) -> Errors:
    # Imported late: few clusters have custom resources.
    from mooring.apiserver.custom.rules.evaluation import find_rule_errors

    return find_rule_errors(errors, schema, new, old)


def _replica_errors(custom: CustomVersion, obj: Object, name: str) -> Errors:
    path = (custom.scale or {}).get(name)
    if not path:
        return
    replicas = next(iter(find(obj, path)), 0)
    if not isinstance(replicas, int):
        text = f"{path} accessor error: {replicas} is of the type {kind_of(replicas)}"
        yield invalid(path, 0, f"{text}, expected int64")
    elif replicas < 0:
        yield invalid(path, replicas, "should be a non-negative integer")
    elif replicas > _REPLICAS_MAX:
        yield invalid(path, replicas, f"should be less than or equal to {_REPLICAS_MAX}")
