"""Request bodies: decoding to an object of the expected kind, with upstream's error messages.

JSON, YAML (as ``kubectl apply --server-side`` sends it) and protobuf are decoded. Unknown and
duplicate fields are refused, warned about or ignored, as ``fieldValidation`` says.

Source: k8s.io/apiserver pkg/endpoints/handlers/{create,rest}.go, sigs.k8s.io/json.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from mooring.apiserver.custom.decoding import WrongMetadata, read_custom
from mooring.apiserver.endpoints import protobuf
from mooring.apiserver.errors import ApiStatusError, bad_request, quoted, unsupported_media_type
from mooring.apiserver.resources import RESOURCES
from mooring.apiserver.schema.type_errors import find_type_errors, json_kind
from mooring.errors import ConfigError
from mooring.objects.files.documents import RepeatedKey, yaml_documents
from mooring.objects.files.limits import ALIASED_VALUES_MAX
from mooring.objects.schema.decoding import WrongType, reader_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.apiserver.resources import CustomVersion, Resource
    from mooring.apiserver.types import Object

JSON, YAML = "application/json", "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
ACCEPTED = (JSON, YAML, PROTOBUF)

#: Nesting levels of a body. The deepest types of the API have about 20; raw JSON has no limit.
DEPTH_MAX = 100
#: Warnings of one response; each is a header.
WARNINGS_MAX = 100
_KINDS = frozenset((resource.api_version, resource.kind) for resource in RESOURCES)
#: The struct that upstream decodes first, as Go prints its type.
TYPE_META = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)
_SPACED_KEY = re.compile(rb'"\s+:')
_SUMMARY_LENGTH = 30
#: An escape of a JSON string: a pair of surrogates, half of one, or another.
_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)


class Expected(NamedTuple):
    """The type that a body must have.

    Attributes:
        type_name: The struct, such as "core.Pod".
        api_version: As in ``apiVersion:``.
        kind: As in ``kind:``.
        custom: The definition of a custom resource.
    """

    type_name: str
    api_version: str
    kind: str
    custom: CustomVersion | None = None


def media_type_of(headers: Mapping[str, str]) -> str:
    """Returns the content type without its parameters; JSON if there is none."""
    return headers.get("content-type", JSON).partition(";")[0].strip().lower() or JSON


def read_object(
    body: bytes,
    media_type: str,
    expected: Expected,
    resource: Resource,
    *,
    validation: str,
    warnings: list[str],
) -> Object:
    """Returns the object in a body, with defaults.

    Args:
        body: As sent.
        media_type: One of ``ACCEPTED``.
        expected: The type that it must have.
        resource: The requested resource.
        validation: "Strict", "Warn" or "Ignore": the handling of unknown and duplicate fields.
        warnings: Warnings are appended to it.

    Raises:
        ApiStatusError: 400, 415.
    """
    if media_type not in ACCEPTED:
        raise unsupported_media_type(ACCEPTED)
    if media_type == PROTOBUF:
        return convert_object(protobuf.to_json(body, resource), expected, "Ignore", warnings)
    raw, problems = _decoded(body, media_type, expected)
    raw = with_reset_fields(raw)
    if validation == "Ignore":
        return convert_object(raw, expected, validation, warnings)
    keys = find_duplicates(body, raw) if media_type == JSON else ()
    return convert_object(raw, expected, validation, warnings, keys, problems)


def with_reset_fields(raw: Any) -> Any:
    """Returns the object with upstream's other form of an empty list of managedFields: ``[{}]``.

    Both clear the managedFields; of other lists an empty one is like none.
    """
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    if isinstance(metadata, dict) and metadata.get("managedFields") == []:
        return {**raw, "metadata": {**metadata, "managedFields": [{}]}}
    return raw


def convert_object(
    raw: Any,
    expected: Expected,
    validation: str,
    warnings: list[str],
    keys: Sequence[Key] = (),
    yaml_problems: Sequence[str] = (),
    patch_problems: Sequence[str] = (),
    *,
    drops_nulls: bool = True,
) -> Object:
    """Converts decoded JSON to an object of the expected kind.

    Args:
        raw: Decoded.
        expected: The type that it must have.
        validation: "Strict", "Warn" or "Ignore": the handling of unknown and duplicate fields.
        warnings: Warnings are appended to it.
        keys: As ``find_duplicates`` returns them.
        yaml_problems: With the keys of a YAML text, as ``decode_yaml`` returns them.
        patch_problems: With the fields of the patch that led to the object.
        drops_nulls: False for a custom object whose nulls are validated: an apply leaves them.

    Raises:
        ApiStatusError: 400.
    """
    _check_kind(raw, expected)
    if expected.custom is not None:
        obj, problems = _convert_custom(raw, expected, validation, keys, drops_nulls=drops_nulls)
        _report(yaml_problems, [*patch_problems, *problems], expected, validation, warnings)
        return obj
    reader = reader_of(expected.type_name)
    try:
        obj = reader.read(raw)
    except WrongType:
        type_error, _ = find_type_errors(expected.type_name, raw)
        raise bad_request(f"{_unhandled(expected)}: {type_error}") from None
    unknown: list[str] = []
    if reader.has_unknown_fields and validation != "Ignore":
        _, unknown = find_type_errors(expected.type_name, raw)
    problems = [*patch_problems, *_in_order(keys, unknown)]
    _report(yaml_problems, problems, expected, validation, warnings)
    obj["kind"], obj["apiVersion"] = expected.kind, expected.api_version
    return obj


def _in_order(keys: Sequence[Key], unknown: Sequence[str]) -> list[str]:
    """Returns the problems with the fields of a typed object, in the order of its text.

    What is below an unknown field is not looked at.

    Source: sigs.k8s.io/json internal/golang/encoding/json/{decode,kubernetes_patch}.go.
    """
    problems: dict[str, None] = {}
    below_unknown = tuple(f"{path}{sign}" for path in unknown for sign in ".[")
    for key in keys:
        if key.path in unknown:
            problems[_unknown(key.path)] = None
        elif key.is_repeated and not key.path.startswith(below_unknown):
            problems[_duplicate(key.path)] = None
    return list(problems | dict.fromkeys(map(_unknown, unknown)))


def _unknown(path: str) -> str:
    return f"unknown field {quoted(path)}"


def _duplicate(path: str) -> str:
    return f"duplicate field {quoted(path)}"


def _convert_custom(
    raw: Any, expected: Expected, validation: str, keys: Sequence[Key], *, drops_nulls: bool
) -> tuple[Object, list[str]]:
    """Returns a custom object, and its unknown and duplicate fields."""
    assert expected.custom is not None
    try:
        obj, unknown = read_custom(raw, expected.custom.schema, drops_nulls=drops_nulls)
    except WrongMetadata as error:
        raise bad_request(f"{_unhandled(expected)}: {error}") from None
    if validation == "Ignore":
        unknown = []
    problems = [_duplicate(key.path) for key in keys if key.is_repeated]
    problems += map(_unknown, unknown)
    obj["kind"], obj["apiVersion"] = expected.kind, expected.api_version
    return obj, list(dict.fromkeys(problems))


def _report(
    yaml_problems: Sequence[str],
    problems: list[str],
    expected: Expected,
    validation: str,
    warnings: list[str],
) -> None:
    """Refuses an object with unknown or duplicate fields, or warns about them.

    Raises:
        ApiStatusError: 400.
    """
    if validation == "Warn":
        warnings.extend([*yaml_problems, *problems][:WARNINGS_MAX])
    if validation != "Strict":
        return
    errors = [_strict_yaml_error(yaml_problems), *problems] if yaml_problems else problems
    if errors:
        raise bad_request(f"{_unhandled(expected)}: strict decoding error: {', '.join(errors)}")


def _unhandled(expected: Expected) -> str:
    version = quoted(expected.api_version.rpartition("/")[2])
    return f"{expected.kind} in version {version} cannot be handled as a {expected.kind}"


def _check_kind(raw: Any, expected: Expected) -> None:
    kind = raw.get("kind") or expected.kind
    api_version = raw.get("apiVersion") or expected.api_version
    if (kind, api_version) == (expected.kind, expected.api_version):
        return
    if not isinstance(kind, str) or not isinstance(api_version, str):
        raise bad_request("the object's kind and apiVersion must be strings")
    version = api_version.rpartition("/")[2]
    lead = f"{kind} in version {quoted(version)} cannot be handled as a {expected.kind}"
    if (api_version, kind) not in _KINDS:
        # Upstream names the Go file that creates its scheme.
        raise bad_request(
            f"{lead}: no kind {quoted(kind)} is registered for version {quoted(api_version)} in "
            'scheme "pkg/runtime/scheme.go:111"'
        )
    if kind == expected.kind:
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({expected.api_version})"
        )
    package = expected.type_name.partition(".")[0]
    converting = f"converting ({version}.{kind}) to ({package}.{expected.kind})"
    raise bad_request(f"{lead}: {converting}: unknown conversion")


def _decoded(body: bytes, media_type: str, expected: Expected) -> YamlValue:
    try:
        decoded = decode_yaml(body) if media_type == YAML else YamlValue(decode_json(body))
    except ValueError as error:
        raise _unrecognized(body, expected, str(error)) from error
    raw = {} if decoded.value is None else decoded.value
    if not isinstance(raw, dict):
        problem = f"json: cannot unmarshal {json_kind(raw)} into Go value of type {TYPE_META}"
        raise _unrecognized(body, expected, problem)
    for name in ("apiVersion", "kind"):
        if not isinstance(raw.get(name) or "", str):
            problem = f"json: cannot unmarshal {json_kind(raw[name])} into Go struct field .{name}"
            raise _unrecognized(body, expected, f"{problem} of type string")
    return decoded._replace(value=raw)


def _unrecognized(body: bytes, expected: Expected, problem: str) -> ApiStatusError:
    lead = f"the object provided is unrecognized (must be of type {expected.kind}): "
    lead += "couldn't get version/kind; json parse error: "
    return bad_request(f"{lead}{problem} ({_summary(body)})")


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    start = body[:_SUMMARY_LENGTH]
    text = start.decode(errors="replace") if body[:1] == b"{" else start.hex()
    return text + " ..." if len(body) > _SUMMARY_LENGTH else text


def decode_json(body: bytes) -> Any:
    """Returns the value in a JSON text.

    Raises:
        ValueError: It is not JSON, or too deep; simple cases have Go's message.
    """
    try:
        value = msgspec.json.decode(body)
    except UnicodeDecodeError:
        # As in Go, bytes that are not UTF-8 become the replacement character.
        return decode_json(body.decode(errors="replace").encode())
    except msgspec.DecodeError as error:
        repaired = _ESCAPES.sub(_without_lone_surrogate, body)
        if repaired == body:
            raise ValueError(_json_problem(body, str(error))) from error
        return decode_json(repaired)
    except RecursionError as error:
        raise ValueError("exceeded max depth") from error
    # Few bodies have enough brackets to be too deep; only those are walked.
    if body.count(b"[") + body.count(b"{") > DEPTH_MAX and _is_too_deep(value):
        raise ValueError("exceeded max depth")
    return value


def _without_lone_surrogate(escape: re.Match[bytes]) -> bytes:
    """Returns the replacement character for half a pair of surrogates, as Go decodes it."""
    return rb"\ufffd" if escape["lone"] else escape[0]


def _json_problem(body: bytes, message: str) -> str:
    if not body.strip() or "truncated" in message:
        return "unexpected end of JSON input"
    try:
        json.loads(body.decode("latin-1"), parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        if error.pos >= len(error.doc.rstrip()):
            return "unexpected end of JSON input"
        character = error.doc[error.pos]
        if error.msg.startswith("Extra data"):
            return f"invalid character '{character}' after top-level value"
        return (
            f"invalid character '{character}' looking for beginning of {_expected_token(error.msg)}"
        )
    except (UnicodeError, RecursionError) as error:
        return str(error)
    return message


def _refuse_constant(name: str) -> None:
    """Refuses NaN and Infinity, which Python accepts as JSON."""
    character = name.lstrip("-")[0]
    raise UnicodeError(f"invalid character '{character}' looking for beginning of value")


def _expected_token(message: str) -> str:
    return "object key string" if "property name" in message else "value"


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [
            child
            for parent in level
            if isinstance(parent, dict | list)
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


class YamlValue(NamedTuple):
    """The content of a YAML text.

    Attributes:
        value: As JSON; of equal keys in one mapping the last counts.
        problems: Go's errors about such keys.
    """

    value: Any
    problems: Sequence[str] = ()


def decode_yaml(body: bytes) -> YamlValue:
    """Returns the value in the first document of a YAML text, as upstream; others are not read.

    Raises:
        ValueError: It is not YAML, or has too many levels, or aliases for too many values.
    """
    repeated: list[RepeatedKey] = []
    try:
        documents = yaml_documents(body, aliased_max=ALIASED_VALUES_MAX, repeated=repeated)
        document = next(documents, None)
    except ConfigError as error:
        raise ValueError(f"error converting YAML to JSON: {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"error converting YAML to JSON: {error}") from error
    is_first = document is not None and document.number == 1
    value = document.value if document is not None and is_first else None
    if _is_too_deep(value):
        raise ValueError("exceeded max depth")
    problems = [f"line {line}: key {quoted(key)} already set in map" for key, line in repeated]
    return YamlValue(_with_sorted_keys(value), problems)


def check_yaml(problems: Sequence[str], validation: str, warnings: list[str]) -> None:
    """Refuses the repeated keys of an applied configuration, or warns about them.

    Raises:
        ApiStatusError: 400.
    """
    if problems and validation == "Strict":
        problem = f"error converting YAML to JSON: {_strict_yaml_error(problems)}"
        raise bad_request(f"error strict decoding YAML: {problem}")
    if validation == "Warn":
        warnings += problems


def _strict_yaml_error(problems: Sequence[str]) -> str:
    """Returns the error of Go's package yaml that has these problems."""
    return "\n  ".join(["yaml: unmarshal errors:", *problems])


def _with_sorted_keys(value: Any) -> Any:
    """Returns YAML as the JSON that it is converted to first: its keys are sorted."""
    if isinstance(value, dict):
        return {key: _with_sorted_keys(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_with_sorted_keys(item) for item in value]
    return value


class Key(NamedTuple):
    """A key of a JSON text.

    Attributes:
        path: Its path, such as "spec.containers[0].name".
        is_repeated: True if the same object has had it before.
    """

    path: str
    is_repeated: bool


_OPERATION_MEMBERS = frozenset(("op", "path", "from", "value"))


def patch_problems(body: bytes, patch: Any, *, is_json_patch: bool) -> list[str]:
    """Returns the problems with the fields of a patch: those that occur twice, unknown operations'.

    Source: k8s.io/apiserver pkg/endpoints/handlers/patch.go (applyJSPatch, strategicPatchObject).
    """
    problems = [_duplicate(key.path) for key in find_duplicates(body, patch) if key.is_repeated]
    if not is_json_patch:
        return problems
    operations = patch if isinstance(patch, list) else []
    problems += [
        _unknown(f"[{number}].{name}")
        for number, operation in enumerate(operations)
        if isinstance(operation, dict)
        for name in operation
        if name not in _OPERATION_MEMBERS
    ]
    return [f"json patch {problem}" for problem in problems]


def find_duplicates(body: bytes, raw: Any) -> list[Key]:
    """Returns the keys of a JSON text in its order if one occurs twice in an object, else nothing.

    Almost no body has any. A body that equals the encoding of its decoded value has none; most
    programs send such bodies. For others the keys of both are counted: more in the body means
    that some were lost, or that a string looks like a key; then the body is parsed in full.
    """
    encoded = msgspec.json.encode(raw)
    if body == encoded:
        return []
    key_count = body.count(b'":')
    if b" :" in body or b"\n:" in body or b"\t:" in body or b"\r:" in body:
        key_count += len(_SPACED_KEY.findall(body))
    if key_count <= encoded.count(b'":'):
        return []
    keys = list(_keys(json.loads(body, object_pairs_hook=_Pairs), ""))
    return keys if any(key.is_repeated for key in keys) else []


class _Pairs(list[tuple[str, Any]]):
    """The members of one JSON object, with duplicates."""


def _keys(value: Any, path: str) -> Iterator[Key]:
    if isinstance(value, _Pairs):
        names: set[str] = set()
        for name, item in value:
            below = f"{path}.{name}" if path else name
            yield Key(below, name in names)
            names.add(name)
            if isinstance(item, list):
                yield from _keys(item, below)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            if isinstance(item, list):
                yield from _keys(item, f"{path}[{number}]")
