"""Validation of CustomResourceDefinitions: names, versions, and structural schemas.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go and
pkg/apiserver/schema/{validation,complete,convert}.go.
Differs: URL, service and certificates of a conversion webhook, which is never called, are not
checked.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import Any

from mooring.apiserver import names
from mooring.apiserver.custom.decoding import fill_defaults
from mooring.apiserver.custom.values import find_errors_below
from mooring.apiserver.errors import (
    Errors,
    FieldError,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
    too_many,
)
from mooring.apiserver.types import Object
from mooring.apiserver.validation.rules import immutable

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = (*("byte", "date", "date-time", "double", "float", "int32", "int64", "password"),)
#: The names and signs in the path of a selectable field.
_PATH_PART = re.compile(r"'(?:[^']|(?<=\\)')*(?<!\\)'|'.*|[.\[\]]|[^.\[\]]+", re.DOTALL)
_SELECTABLE_TYPES = ("string", "boolean", "integer")
_SELECTABLE_MAX = 8
_STRATEGIES = ("None", "Webhook")
_REVIEW_VERSIONS = ("v1", "v1beta1")
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_LIST_TYPE, _LIST_KEYS = "x-kubernetes-list-type", "x-kubernetes-list-map-keys"
_MAP_TYPE = "x-kubernetes-map-type"
#: The parts of versions that may be the same in all of them.
_PER_VERSION = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
_INT_OR_STRING_TYPES = [{"type": "integer"}, {"type": "string"}]
#: Keywords that are not supported, with upstream's reasons.
_UNSUPPORTED = (
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
)
#: Keywords that allOf, anyOf, oneOf and not may not have, and what they must be.
_STRUCTURAL_ONLY = {
    "type": "empty",
    "additionalProperties": "undefined",
    "default": "undefined",
    "title": "empty",
    "description": "empty",
    "nullable": "false",
    _PRESERVE: "false",
    "x-kubernetes-embedded-resource": "false",
    _INT_OR_STRING: "false",
    "x-kubernetes-list-map-keys": "empty",
    "x-kubernetes-list-type": "undefined",
    "x-kubernetes-map-type": "undefined",
    "x-kubernetes-validations": "empty",
}
#: Of these, those that are wrong whatever their value is.
_UNDEFINED = frozenset(name for name, text in _STRUCTURAL_ONLY.items() if text == "undefined")


def validate_definition(definition: Object) -> Errors:
    """Validates a new definition."""
    spec = definition["spec"]
    name = definition["metadata"].get("name", "")
    if name != f"{spec['names']['plural']}.{spec['group']}":
        text = 'must be spec.names.plural+"."+spec.group'
        yield invalid("metadata.name", name, text)
    yield from _spec_errors(spec)
    if not definition["status"].get("storedVersions"):
        yield invalid("status.storedVersions", None, "must have at least one stored version")


def validate_definition_update(new: Object, old: Object) -> Errors:
    """Validates a change of a definition."""
    schemas = {version["name"]: version.get("schema") for version in old["spec"]["versions"]}
    versions = new["spec"].get("versions") or []
    unchanged = {
        version["name"]
        for version in versions
        if version["name"] in schemas and version.get("schema") == schemas[version["name"]]
    }
    yield from _spec_errors(new["spec"], unchanged)
    conditions = old["status"].get("conditions") or ()
    before, after = old["spec"], new["spec"]
    if any((c["type"], c["status"]) == ("Established", "True") for c in conditions):
        yield from immutable(after, before, "scope", parent="spec.")
        yield from immutable(after["names"], before["names"], "kind", parent="spec.names.")
    # By these the objects are stored.
    yield from immutable(after, before, "group", parent="spec.")
    yield from immutable(after["names"], before["names"], "plural", parent="spec.names.")
    stored = new["status"].get("storedVersions") or []
    if not stored:
        yield invalid("status.storedVersions", None, "must have at least one stored version")
        return
    present = [version["name"] for version in versions]
    for number, version in enumerate(stored):
        if version not in present:
            text = (
                f"missing from spec.versions; {version} was previously a storage version, and must "
                f"remain in spec.versions until a storage migration ensures no data remains "
                f"persisted in {version} and removes {version} from status.storedVersions"
            )
            yield invalid(f"status.storedVersions[{number}]", version, text)


def _spec_errors(spec: Object, unchanged: Container[str] = ()) -> Iterator[FieldError]:
    """Yields the errors of a specification.

    Args:
        spec: The specification.
        unchanged: Names of versions whose schemas an update leaves as they are.
    """
    group, scope = spec["group"], spec["scope"]
    if not group:
        yield required("spec.group")
    elif problems := names.dns_subdomain(group):
        yield invalid("spec.group", group, ",".join(problems))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    if not scope:
        yield required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield not_supported("spec.scope", scope, ["Cluster", "Namespaced"])
    if spec.get("preserveUnknownFields"):
        yield invalid("spec.preserveUnknownFields", True, "must be false")
    versions = spec.get("versions") or []
    common = {name for name in _PER_VERSION if _is_common(versions, name)}
    for number, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            yield required(f"spec.versions[{number}].schema.openAPIV3Schema")
    for number, version in enumerate(versions):
        if problems := names.dns_1035_label(version["name"]):
            path = f"spec.versions[{number}].name"
            yield invalid(path, version["name"], ",".join(problems))
        own = {name: value for name, value in version.items() if name not in common}
        limits_rules = version["name"] not in unchanged
        path = f"spec.versions[{number}]"
        yield from _version_errors(own, version, path, "schema", limits_rules=limits_rules)
    version_names = [version["name"] for version in versions]
    if len(set(version_names)) != len(version_names):
        text = "must contain unique version names"
        yield invalid("spec.versions", _as_go(versions), text)
    if sum(version["storage"] for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", _as_go(spec.get("versions")), text)
    yield from _name_errors(spec["names"])
    if versions:
        shared = {name: versions[0][name] for name in common if name in versions[0]}
        limits_rules = versions[0]["name"] not in unchanged
        yield from _version_errors(
            shared, versions[0], "spec", "validation", limits_rules=limits_rules
        )
    yield from _conversion_errors(spec.get("conversion") or {})


def _conversion_errors(conversion: Object) -> Errors:
    strategy, webhook = conversion.get("strategy"), conversion.get("webhook")
    if not strategy:
        yield required("spec.conversion.strategy")
    elif strategy not in _STRATEGIES:
        yield not_supported("spec.conversion.strategy", strategy, _STRATEGIES)
    if strategy != "Webhook":
        text = "should not be set when strategy is not set to Webhook"
        if webhook and webhook.get("clientConfig") is not None:
            yield forbidden_field("spec.conversion.webhookClientConfig", text)
        if webhook and webhook.get("conversionReviewVersions"):
            yield forbidden_field("spec.conversion.conversionReviewVersions", text)
        return
    client = (webhook or {}).get("clientConfig")
    path = "spec.conversion.webhookClientConfig"
    if client is None:
        yield required(path, "required when strategy is set to Webhook")
    elif (client.get("url") is None) == (client.get("service") is None):
        yield required(path, "exactly one of url or service is required")
    yield from _review_version_errors((webhook or {}).get("conversionReviewVersions") or [])


def _review_version_errors(versions: list[str]) -> Errors:
    path = "spec.conversion.conversionReviewVersions"
    if not versions:
        yield required(path)
        return
    for number, version in enumerate(versions):
        if version in versions[:number]:
            yield invalid(f"{path}[{number}]", version, "duplicate version")
    if not set(versions) & set(_REVIEW_VERSIONS):
        text = f"must include at least one of {', '.join(_REVIEW_VERSIONS)}"
        yield invalid(path, versions, text)


def _as_go(versions: list[Object] | None) -> list[Object] | None:
    """Returns the versions as upstream prints them, without what they have in common."""
    if versions is None:
        return None
    return [
        {
            "Name": version["name"],
            "Served": version["served"],
            "Storage": version["storage"],
            "Deprecated": version.get("deprecated", False),
            "DeprecationWarning": version.get("deprecationWarning"),
            **dict.fromkeys(
                ("Schema", "Subresources", "AdditionalPrinterColumns", "SelectableFields")
            ),
        }
        for version in versions
    ]


def _name_errors(requested: Object) -> Iterator[FieldError]:
    lead = "spec.names"
    for name in ("plural", "singular", "kind", "listKind"):
        if not requested.get(name):
            yield required(f"{lead}.{name}")
    for name in ("plural", "singular"):
        text = requested.get(name)
        if text and (problems := names.dns_1035_label(text)):
            yield invalid(f"{lead}.{name}", text, ",".join(problems))
    for name in ("kind", "listKind"):
        text = requested.get(name)
        if text and (problems := names.dns_1035_label(text.lower())):
            detail = "may have mixed case, but should otherwise match: " + ",".join(problems)
            yield invalid(f"{lead}.{name}", text, detail)
    for name in ("shortNames", "categories"):
        for number, text in enumerate(requested.get(name) or ()):
            if problems := names.dns_1035_label(text):
                yield invalid(f"{lead}.{name}[{number}]", text, ",".join(problems))
    if requested.get("kind") and requested["kind"] == requested.get("listKind"):
        yield invalid(
            f"{lead}.listKind", requested["kind"], "kind and listKind may not be the same"
        )


def _is_common(versions: list[Object], name: str) -> bool:
    """Returns True if all versions have the same value: upstream validates it once, in the spec."""
    return all(version.get(name) == versions[0].get(name) for version in versions)


def _version_errors(
    version: Object, whole: Object, path: str, schema_name: str, *, limits_rules: bool
) -> Iterator[FieldError]:
    """Yields the errors of some parts of a version.

    Args:
        version: The parts.
        whole: The version itself.
        path: Where the parts are.
        schema_name: The field of the schema there.
        limits_rules: Whether the cost of each rule is limited, and not only their sum.
    """
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    parts = whole.get("subresources") or {}
    if schema is not None:
        root = f"{path}.{schema_name}.openAPIV3Schema"
        if "status" in parts and schema.get("type", "object") != "object":
            text = (
                'only "object" is allowed as the type at the root of the schema if the status '
                "subresource is enabled"
            )
            yield invalid(f"{root}.type", schema["type"], text)
        if schema.get("nullable"):
            yield forbidden_field(f"{root}.nullable", "nullable cannot be true at the root")
        yield from _keyword_errors(schema, root)
        structural = sorted(
            _structural_errors(schema, root, "root"), key=lambda e: f"{e.field}: {e.body}"
        )
        yield from structural
        if not structural:
            yield from _default_errors(schema, root)
            yield from _rule_errors(schema, root, limits_rules=limits_rules)
    yield from _scale_errors(
        (version.get("subresources") or {}).get("scale"), f"{path}.subresources.scale"
    )
    yield from _column_errors(version, path)
    if version.get("selectableFields"):
        path = f"{path}.selectableFields"
        if schema is not None:
            yield from _selectable_errors(version["selectableFields"], schema, path)
        elif path == "spec.selectableFields":
            yield invalid(path, "", "may only be set when validations.schema is included")
        else:
            text = "may only be set when `version.schema.openAPIV3Schema` is not included"
            yield invalid(path, "", text)


def _scale_errors(scale: Object | None, path: str) -> Iterator[FieldError]:
    if scale is None:
        return
    for name, part in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        text = scale[name]
        if not text:
            yield required(f"{path}.{name}")
        elif not text.startswith(f"{part}."):
            yield invalid(f"{path}.{name}", text, f"should be a json path under {part}")
    selector = scale.get("labelSelectorPath")
    if selector and not selector.startswith((".spec.", ".status.")):
        text = "should be a json path under either .spec or .status"
        yield invalid(f"{path}.labelSelectorPath", selector, text)


def _column_errors(version: Object, path: str) -> Iterator[FieldError]:
    for number, column in enumerate(version.get("additionalPrinterColumns") or ()):
        lead = f"{path}.additionalPrinterColumns[{number}]"
        types = f"must be one of {','.join(_COLUMN_TYPES)}"
        if not column["name"]:
            yield required(f"{lead}.name")
        if not column["type"]:
            yield required(f"{lead}.type", types)
        elif column["type"] not in _COLUMN_TYPES:
            yield invalid(f"{lead}.type", column["type"], types)
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            formats = f"must be one of {','.join(_COLUMN_FORMATS)}"
            yield invalid(f"{lead}.format", column["format"], formats)
        if not column["jsonPath"]:
            yield required(f"{lead}.JSONPath")
        elif not column["jsonPath"].startswith("."):
            text = "must be a simple json path starting with ."
            yield invalid(f"{lead}.JSONPath", column["jsonPath"], text)


def _selectable_errors(fields: list[Object], schema: Object, path: str) -> Iterator[FieldError]:
    earlier: set[str] = set()
    for number, field in enumerate(fields):
        lead, text = f"{path}[{number}].jsonPath", field["jsonPath"]
        if not text:
            yield required(lead)
            continue
        try:
            selected = _schema_at(text, schema)
        except ValueError as error:
            yield invalid(lead, text, f"is an invalid path: {error}")
            continue
        if _PATH_PART.findall(text)[1] == "metadata":
            yield invalid(lead, text, "must not point to fields in metadata")
        if not isinstance(selected, dict) or selected.get("type") not in _SELECTABLE_TYPES:
            types = "string, boolean or integer"
            detail = f"must point to a field of type {types}. Enum string fields and strings with "
            yield invalid(lead, text, f"{detail}formats are allowed.")
        if text in earlier:
            yield duplicate(lead, text)
        earlier.add(text)
    if len(earlier) > _SELECTABLE_MAX:
        yield too_many(path, len(earlier), _SELECTABLE_MAX)


def _schema_at(text: str, schema: Any) -> Any:
    """Returns the schema of the field at a path of names.

    Raises:
        ValueError: The path has something else, or the schema has no such field.

    Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/cel (ValidFieldPath).
    """
    parts = iter(_PATH_PART.findall(text))
    for part in parts:
        if part == "[":
            raise ValueError("array notation is not allowed")
        if part != ".":
            raise ValueError(f"expected [ or . but got: {part}")
        name = next(parts, None)
        if name is None:
            raise ValueError("unexpected end of JSON path")
        below = schema if isinstance(schema, dict) else {}
        if properties := below.get("properties"):
            if name not in properties:
                raise ValueError("does not refer to a valid field")
            schema = properties[name]
        elif below.get("additionalProperties") not in (None, False):
            schema = below["additionalProperties"]
        else:
            raise ValueError("does not refer to a valid field")
    return schema


# ---------------------------------------------------------------------- schemas


def _keyword_errors(schema: Object, path: str) -> Iterator[FieldError]:
    """Yields the errors of unsupported keywords, and of combinations of keywords."""
    kind = schema.get("type")
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, list(_TYPES))
    for name in _UNSUPPORTED:
        if schema.get(name) is not None:
            yield forbidden_field(f"{path}.{name}", f"{name} is not supported")
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden_field(f"{path}.uniqueItems", text)
    if schema.get("properties") and schema.get("additionalProperties") not in (None, False):
        text = "additionalProperties and properties are mutual exclusive"
        yield forbidden_field(f"{path}.additionalProperties", text)
    if schema.get("additionalProperties") is False:
        text = "additionalProperties cannot be set to false"
        yield forbidden_field(f"{path}.additionalProperties", text)
    if schema.get(_PRESERVE) is False:
        yield invalid(f"{path}.{_PRESERVE}", False, "must be true or undefined")
    yield from _list_errors(schema, path)
    for inner_path, inner in _parts(schema, path):
        yield from _keyword_errors(inner, inner_path)


def _list_errors(schema: Object, path: str) -> Iterator[FieldError]:
    kind, list_type, keys = schema.get("type"), schema.get(_LIST_TYPE), schema.get(_LIST_KEYS)
    map_type = schema.get(_MAP_TYPE)
    if map_type is not None and kind != "object":
        text = f"must be object if {_MAP_TYPE} is specified"
        yield invalid(f"{path}.type", kind, text) if kind else required(f"{path}.type", text)
    if map_type not in (None, "atomic", "granular"):
        yield not_supported(f"{path}.{_MAP_TYPE}", map_type, ["atomic", "granular"])
    if list_type is not None and kind != "array":
        text = f"must be array if {_LIST_TYPE} is specified"
        yield invalid(f"{path}.type", kind, text) if kind else required(f"{path}.type", text)
    if list_type not in (None, "atomic", "set", "map"):
        yield not_supported(f"{path}.{_LIST_TYPE}", list_type, ["atomic", "set", "map"])
    if keys and list_type != "map":
        text = f"must be map if {_LIST_KEYS} is non-empty"
        field = f"{path}.{_LIST_TYPE}"
        yield invalid(field, list_type, text) if list_type else required(field, text)
    if list_type != "map":
        return
    if not keys:
        text = f"must not be empty if {_LIST_TYPE} is map"
        yield required(f"{path}.{_LIST_KEYS}", text)
    items = schema.get("items")
    if items is None:
        yield required(f"{path}.items", f"must have a schema if {_LIST_TYPE} is map")
        return
    if items.get("type") != "object":
        text = f"must be object if parent array's {_LIST_TYPE} is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), text)
    properties = items.get("properties") or {}
    for key in keys or ():
        if key not in properties:
            text = "entries must all be names of item properties"
            yield invalid(f"{path}.{_LIST_KEYS}", keys, text)
        elif "default" not in properties[key] and key not in (items.get("required") or ()):
            text = (
                f"this property is in {_LIST_KEYS}, so it must have a default or be a required "
                "property"
            )
            yield required(f"{path}.items.properties[{key}].default", text)


def _parts(schema: Object, path: str) -> Iterator[tuple[str, Object]]:
    """Yields the schemas directly below a schema that describe the structure of values."""
    if isinstance(schema.get("items"), dict):
        yield f"{path}.items", schema["items"]
    for name, inner in (schema.get("properties") or {}).items():
        yield f"{path}.properties[{name}]", inner
    if isinstance(schema.get("additionalProperties"), dict):
        yield f"{path}.additionalProperties", schema["additionalProperties"]


def _inner_first(schema: Object, path: str) -> Iterator[tuple[str, Object]]:
    """Yields a schema after all those inside it, with their paths."""
    for inner_path, inner in _parts(schema, path):
        yield from _inner_first(inner, inner_path)
    yield path, schema


def _structural_errors(schema: Object, path: str, level: str) -> Iterator[FieldError]:
    kind = schema.get("type")
    if kind == "array" and schema.get("items") is None:
        yield required(f"{path}.items", "must be specified")
    if level == "root" and schema.get("additionalProperties"):
        yield forbidden_field(f"{path}.additionalProperties", "must not be used at the root")
    if schema.get(_EMBEDDED) and kind != "object":
        text = f"must be object if {_EMBEDDED} is true"
        yield invalid(f"{path}.type", kind, text) if kind else required(f"{path}.type", text)
    elif not kind and not schema.get(_INT_OR_STRING) and not schema.get(_PRESERVE):
        text = {
            "root": "must not be empty at the root",
            "item": "must not be empty for specified array items",
            "field": "must not be empty for specified object fields",
        }[level]
        yield required(f"{path}.type", text)
    if level == "root" and kind and kind != "object":
        yield invalid(f"{path}.type", kind, "must be object at the root")
    if schema.get(_INT_OR_STRING) and schema.get(_PRESERVE):
        yield invalid(f"{path}.{_PRESERVE}", True, f"must be false if {_INT_OR_STRING} is true")
    if schema.get(_EMBEDDED) and not schema.get(_PRESERVE) and not schema.get("properties"):
        text = f"must not be empty if {_EMBEDDED} is true without {_PRESERVE}"
        yield required(f"{path}.properties", text)
    if level == "root" or schema.get(_EMBEDDED):
        yield from _metadata_errors(schema, path, level)
    yield from _nested_errors(schema, path)
    for inner_path, inner in _parts(schema, path):
        inner_level = "item" if inner_path.endswith(".items") else "field"
        yield from _structural_errors(inner, inner_path, inner_level)


def _metadata_errors(schema: Object, path: str, level: str) -> Iterator[FieldError]:
    properties = schema.get("properties") or {}
    for name in ("kind", "apiVersion"):
        kind = properties.get(name, {}).get("type", "string")
        if kind != "string":
            yield invalid(f"{path}.properties[{name}].type", kind, "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    if metadata.get("type") != "object":
        yield invalid(
            f"{path}.properties[metadata].type", metadata.get("type", ""), "must be object"
        )
    rest = set(metadata) - {"type", "properties", "description"}
    others = set(metadata.get("properties") or ()) - {"name", "generateName"}
    if level == "root" and (rest or others):
        text = (
            "must not specify anything other than name and generateName, but metadata is "
            "implicitly specified"
        )
        yield forbidden_field(f"{path}.properties[metadata]", text)


def _rule_errors(schema: Object, root: str, *, limits_rules: bool) -> list[FieldError]:
    # Imported late, as CEL is: few clusters have definitions.
    from mooring.apiserver.custom.rules.checks import rule_errors

    return rule_errors(_inner_first(schema, root), root, limits_rules=limits_rules)


def _pattern_errors(pattern: str, path: str) -> Iterator[FieldError]:
    # Imported late: few clusters have definitions.
    from mooring.cel.regex.pattern import compile_pattern

    try:
        compile_pattern(pattern)
    except ValueError as error:
        text = f"must be a valid regular expression, but isn't: {error}"
        yield invalid(path, pattern, text)


def _nested_errors(schema: Object, path: str) -> Iterator[FieldError]:
    """Yields the errors of allOf, anyOf, oneOf and not, which may only restrict values."""
    if pattern := schema.get("pattern"):
        yield from _pattern_errors(pattern, f"{path}.pattern")
    is_integer_or_string = schema.get(_INT_OR_STRING)
    for name in ("allOf", "anyOf", "oneOf"):
        for number, part in enumerate(schema.get(name) or ()):
            if is_integer_or_string and (
                schema[name] == _INT_OR_STRING_TYPES or part == {"anyOf": _INT_OR_STRING_TYPES}
            ):
                continue
            yield from _restriction_errors(part, schema, f"{path}.{name}[{number}]")
    if schema.get("not"):
        yield from _restriction_errors(schema["not"], schema, f"{path}.not")


def _restriction_errors(part: Object, whole: Object, path: str) -> Iterator[FieldError]:
    for name in ("anyOf", "allOf", "oneOf"):
        for number, inner in enumerate(part.get(name) or ()):
            yield from _restriction_errors(inner, whole, f"{path}.{name}[{number}]")
    if part.get("not"):
        yield from _restriction_errors(part["not"], whole, f"{path}.not")
    if pattern := part.get("pattern"):
        yield from _pattern_errors(pattern, f"{path}.pattern")
    if isinstance(part.get("items"), dict):
        yield from _restriction_errors(part["items"], whole.get("items") or {}, f"{path}.items")
    for name, inner in (part.get("properties") or {}).items():
        below = (whole.get("properties") or {}).get(name)
        inner_path = f"{path}.properties[{name}]"
        if below is None and not whole.get(_PRESERVE):
            where = re.sub(r"\.(allOf|anyOf|oneOf)\[\d+\]|\.not\b", "", inner_path)
            yield required(where, f"because it is defined in {inner_path}")
        else:
            yield from _restriction_errors(inner, below or {}, inner_path)
    for name, text in _STRUCTURAL_ONLY.items():
        if part.get(name) or (name in _UNDEFINED and part.get(name) is not None):
            yield forbidden_field(f"{path}.{name}", f"must be {text} to be structural")
    if "metadata" in (part.get("properties") or {}):
        text = "must not be specified in a nested context"
        yield forbidden_field(f"{path}.properties[metadata]", text)


def _default_errors(schema: Object, path: str) -> Iterator[FieldError]:
    """Yields the errors of defaults that are invalid by their own schema."""
    default: Any = schema.get("default")
    if default is not None:
        fill_defaults(default, schema)
        yield from find_errors_below(default, schema, f"{path}.default")
    for inner_path, inner in _parts(schema, path):
        yield from _default_errors(inner, inner_path)
