"""The resources that a CustomResourceDefinition adds.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/{customresource_handler,
customresource_discovery_controller}.go.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mooring.apiserver.custom.decoding import as_read
from mooring.apiserver.custom.structs import struct_of_schema
from mooring.apiserver.resources import CustomVersion, Resource, Subresource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.apiserver.types import Object
    from mooring.objects.schema.types import CustomStruct

#: The keyword of rules in CEL.
RULES: Final = "x-kubernetes-validations"
_COSTLY: Final = (RULES, "pattern", "allOf", "anyOf", "oneOf", "not")
#: The finalizer of a definition that is being deleted: its objects are deleted first.
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGES = {None: 2, "beta": 1, "alpha": 0}
_STATUS, _SCALE = Subresource("status"), Subresource("scale", "Scale", "autoscaling", "v1")
#: In the order of discovery, which differs from that of other resources.
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


NO_WEBHOOK = (
    "spec.conversion: the webhook is not called; only the apiVersion of objects is converted"
)


def ignored_parts(definition: Object) -> list[str]:
    """Returns warnings about the parts of a definition that this server only stores."""
    conversion = definition["spec"].get("conversion") or {}
    return [NO_WEBHOOK] if conversion.get("strategy") == "Webhook" else []


def version_priority(version: str) -> tuple[int, int, int, int, str]:
    """Returns the sort key of a version: v2, v1, v1beta2, v1alpha1, then other names.

    Source: k8s.io/apimachinery pkg/version/helpers.go.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        return 1, 0, 0, 0, version
    return 0, -_STAGES[match[2]], -int(match[1]), -int(match[3] or 0), ""


def resources_of(definition: Object) -> list[Resource]:
    """Returns the resources of all versions of a definition, the preferred one first."""
    versions = sorted(definition["spec"]["versions"], key=lambda v: version_priority(v["name"]))
    is_converted = len(versions) > 1 or _has_changed(definition)
    group = definition["spec"]["group"]
    structs = {version["name"]: struct_of_schema(_schema_of(version)) for version in versions}
    served = {
        f"{group}/{version['name']}": structs[version["name"]]
        for version in versions
        if version["served"]
    }
    return [
        _resource(definition, version, is_converted, structs[version["name"]], served)
        for version in versions
    ]


def _schema_of(version: Object) -> dict[str, Any]:
    return (version.get("schema") or {}).get("openAPIV3Schema") or {}


class ServedDefinition(NamedTuple):
    """The resources of a definition, with what they were made from.

    Attributes:
        spec: Of the definition.
        names: The accepted ones.
        has_changed: Whether the spec has been changed since the definition was created.
        resources: Those of the served versions, the preferred one first.
        storage: That of the version in which objects are stored.
    """

    spec: Object
    names: Object
    has_changed: bool
    resources: list[Resource]
    storage: Resource

    @classmethod
    def of(cls, definition: Object, before: ServedDefinition | None) -> ServedDefinition:
        """Returns the resources of a definition, or ``before`` if these would be equal."""
        spec, names = definition["spec"], definition["status"]["acceptedNames"]
        made_from = spec, names, _has_changed(definition)
        if before is not None and before[:3] == made_from:
            return before
        served = {version["name"] for version in spec["versions"] if version["served"]}
        all_of = resources_of(definition)
        resources = [resource for resource in all_of if resource.version in served]
        return cls(*made_from, resources, _storage_of(definition, all_of))


def _has_changed(definition: Object) -> bool:
    return bool(definition["metadata"].get("generation", 1) > 1)


def storage_resource(definition: Object) -> Resource:
    """Returns the resource of the version in which objects are stored.

    Raises:
        ValueError: There is none: only a snapshot can have such a definition.
    """
    return _storage_of(definition, resources_of(definition))


def _storage_of(definition: Object, resources: list[Resource]) -> Resource:
    versions = definition["spec"]["versions"]
    stored = [version["name"] for version in versions if version["storage"]]
    for resource in resources:
        if resource.version in stored:
            return resource
    name = definition["metadata"]["name"]
    raise ValueError(f"{name}: no version of spec.versions has storage: true")


def with_defined_names(definition: Object) -> Object:
    """Returns a definition as if the names of its spec had been accepted."""
    status = {**definition["status"], "acceptedNames": definition["spec"]["names"]}
    return {**definition, "status": status}


def has_rules(schema: Any) -> bool:
    """Returns whether a schema, or one inside it, has rules."""
    return any(part.get(RULES) for part in _parts(schema))


def _is_costly(schema: Any) -> bool:
    return any(part.get(keyword) for part in _parts(schema) for keyword in _COSTLY)


def _parts(schema: Any) -> Iterator[Object]:
    """Yields a schema and those inside it, but for those of alternatives."""
    if not isinstance(schema, dict):
        return
    yield schema
    inner = [*(schema.get("properties") or {}).values(), schema.get("items")]
    for part in (*inner, schema.get("additionalProperties")):
        yield from _parts(part)


def _resource(
    definition: Object,
    version: Object,
    is_converted: bool,
    struct: CustomStruct,
    served_structs: dict[str, CustomStruct],
) -> Resource:
    spec, names = definition["spec"], definition["status"]["acceptedNames"]
    if not names.get("kind"):
        names = spec["names"]
    schema = _schema_of(version)
    parts = version.get("subresources") or {}
    scale = parts.get("scale")
    subresources = (*((_STATUS,) if "status" in parts else ()), *((_SCALE,) if scale else ()))
    custom = CustomVersion(
        struct=struct,
        schema=schema,
        served_structs=served_structs,
        columns=tuple(version.get("additionalPrinterColumns") or (_AGE,)),
        selectable=tuple(
            field["jsonPath"].removeprefix(".") for field in version.get("selectableFields") or ()
        ),
        scale=scale,
        replica_paths=_replica_paths(spec),
        has_status="status" in parts,
        has_rules=has_rules(schema),
        is_costly=_is_costly(schema),
        list_kind=names.get("listKind") or f"{names['kind']}List",
        converted=partial(as_read, schema=schema) if is_converted else None,
        warning=_deprecation_warning(spec["group"], names["kind"], version),
    )
    return Resource(
        spec["group"],
        version["name"],
        names["plural"],
        names.get("singular") or names["kind"].lower(),
        names["kind"],
        spec["scope"] == "Namespaced",
        tuple(names.get("shortNames") or ()),
        tuple(names.get("categories") or ()),
        verbs=_VERBS,
        subresources=subresources,
        custom=custom,
    )


#: The column of definitions without columns.
_AGE = {
    "name": "Age",
    "type": "date",
    "description": "CreationTimestamp is a timestamp representing the server time when this object "
    "was created. It is not guaranteed to be set in happens-before order across separate "
    "operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC."
    "\n\nPopulated by the system. Read-only. Null for lists. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
    "jsonPath": ".metadata.creationTimestamp",
}


def _replica_paths(spec: Object) -> dict[str, tuple[str, ...] | None]:
    paths: dict[str, tuple[str, ...] | None] = {}
    for version in spec["versions"]:
        scale = (version.get("subresources") or {}).get("scale")
        steps = tuple(scale["specReplicasPath"].removeprefix(".").split(".")) if scale else None
        paths[f"{spec['group']}/{version['name']}"] = steps
    return paths


def _deprecation_warning(group: str, kind: str, version: Object) -> str:
    if not version.get("deprecated"):
        return ""
    default = f"{group}/{version['name']} {kind} is deprecated"
    return version.get("deprecationWarning") or default


def is_established(definition: Object) -> bool:
    """Returns True if the resources of a definition are served."""
    conditions = definition["status"].get("conditions") or ()
    return any((c["type"], c["status"]) == ("Established", "True") for c in conditions)


def set_condition(
    definition: Object, now: str, name: str, *, is_true: bool, reason: str, message: str
) -> None:
    """Sets one condition of a definition."""
    conditions = definition["status"].get("conditions") or []
    status = "True" if is_true else "False"
    condition = {
        "type": name,
        "status": status,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
    for number, present in enumerate(conditions):
        if present["type"] == name:
            if present["status"] == status:
                condition["lastTransitionTime"] = present["lastTransitionTime"]
            conditions[number] = condition
            break
    else:
        conditions.append(condition)
    definition["status"]["conditions"] = conditions


def mark_terminating(definition: Object, now: str) -> None:
    """Adds the finalizer and the condition of a definition that is being deleted."""
    finalizers = definition["metadata"].setdefault("finalizers", [])
    if CLEANUP not in finalizers:
        finalizers.append(CLEANUP)
    set_condition(
        definition,
        now,
        "Terminating",
        is_true=True,
        reason="InstanceDeletionPending",
        message=(
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        ),
    )
