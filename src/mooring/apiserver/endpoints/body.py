"""Request bodies: from bytes to an object of the expected kind, and the words for those that fail.

JSON, YAML (as ``kubectl apply --server-side`` sends it) and protobuf are read. What is not quite
right (unknown and duplicate fields) is refused, warned about or ignored, as the request says.

Source: k8s.io/apiserver pkg/endpoints/handlers/{create,rest}.go, sigs.k8s.io/json.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from mooring.apiserver.endpoints import protobuf
from mooring.apiserver.errors import Refused, bad_request, quoted, unsupported_media_type
from mooring.apiserver.resources import RESOURCES
from mooring.apiserver.schema.type_errors import find_faults
from mooring.errors import ConfigError
from mooring.objects.files.documents import yaml_documents
from mooring.objects.schema.decoding import WrongType, reader_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.apiserver.resources import Resource
    from mooring.apiserver.types import Object

JSON, YAML = "application/json", "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
ACCEPTED = (JSON, YAML, PROTOBUF)

#: Levels of a body. The deepest types of the API have about 20, open ones are free.
DEPTH_MAX = 100
#: Warnings of one answer; each is a header.
WARNINGS_MAX = 100
_KINDS = frozenset((resource.api_version, resource.kind) for resource in RESOURCES)
#: What upstream decodes first, as Go prints its type.
TYPE_META = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)
_SPACED_KEY = re.compile(rb'"\s+:')
_SUMMARY_LENGTH = 30


class Expected(NamedTuple):
    """What a body must hold.

    Attributes:
        type_name: The struct, such as "core.Pod".
        api_version: As in ``apiVersion:``.
        kind: As in ``kind:``.
    """

    type_name: str
    api_version: str
    kind: str


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
        expected: What it must be.
        resource: That the request is for.
        validation: "Strict", "Warn" or "Ignore": what to do about unknown and duplicate fields.
        warnings: Where to put what is only warned about.

    Raises:
        Refused: 400, 415.
    """
    if media_type not in ACCEPTED:
        raise unsupported_media_type(ACCEPTED)
    if media_type == PROTOBUF:
        return typed(protobuf.to_json(body, resource), expected, "Ignore", warnings)
    raw = _decoded(body, media_type, expected)
    duplicates = find_duplicates(body, raw) if media_type == JSON and validation != "Ignore" else []
    return typed(raw, expected, validation, warnings, duplicates)


def typed(
    raw: Any,
    expected: Expected,
    validation: str,
    warnings: list[str],
    duplicates: list[str] | None = None,
) -> Object:
    """Returns an object of the expected kind out of decoded JSON.

    Raises:
        Refused: 400.
    """
    _check_kind(raw, expected)
    reader = reader_of(expected.type_name)
    try:
        found = reader.read(raw)
    except WrongType:
        problem, _ = find_faults(expected.type_name, raw)
        raise bad_request(f"{_unhandled(expected)}: {problem}") from None
    problems = [f"duplicate field {quoted(field)}" for field in duplicates or ()]
    if reader.has_unknown_fields and validation != "Ignore":
        _, unknown = find_faults(expected.type_name, raw)
        problems += [f"unknown field {quoted(field)}" for field in unknown]
    if problems and validation == "Strict":
        said = "strict decoding error: " + ", ".join(problems)
        raise bad_request(f"{_unhandled(expected)}: {said}")
    if validation == "Warn":
        warnings.extend(problems[:WARNINGS_MAX])
    found["kind"], found["apiVersion"] = expected.kind, expected.api_version
    return found


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
        # Upstream names the Go file in which its registry of kinds was made.
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


def _decoded(body: bytes, media_type: str, expected: Expected) -> Any:
    try:
        raw = decode_yaml(body) if media_type == YAML else decode_json(body)
    except ValueError as why:
        raise _unrecognized(body, expected, str(why)) from why
    raw = {} if raw is None else raw
    if not isinstance(raw, dict):
        problem = f"json: cannot unmarshal {json_kind(raw)} into Go value of type {TYPE_META}"
        raise _unrecognized(body, expected, problem)
    for name in ("apiVersion", "kind"):
        if not isinstance(raw.get(name) or "", str):
            problem = f"json: cannot unmarshal {json_kind(raw[name])} into Go struct field .{name}"
            raise _unrecognized(body, expected, f"{problem} of type string")
    return raw


def _unrecognized(body: bytes, expected: Expected, problem: str) -> Refused:
    lead = f"the object provided is unrecognized (must be of type {expected.kind}): "
    lead += "couldn't get version/kind; json parse error: "
    return bad_request(f"{lead}{problem} ({_summary(body)})")


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    shown = body[:_SUMMARY_LENGTH]
    text = shown.decode(errors="replace") if body[:1] == b"{" else shown.hex()
    return text + " ..." if len(body) > _SUMMARY_LENGTH else text


def json_kind(value: Any) -> str:
    """What Go calls a value of JSON."""
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def decode_json(body: bytes) -> Any:
    """Returns the value in a JSON text.

    Raises:
        ValueError: It is not JSON, or too deep; the message is Go's where it is simple.
    """
    try:
        value = msgspec.json.decode(body)
    except UnicodeDecodeError:
        # As Go, which puts the sign for "unknown" where a text is no UTF-8.
        return decode_json(body.decode(errors="replace").encode())
    except msgspec.DecodeError as why:
        raise ValueError(_json_problem(body, str(why))) from why
    except RecursionError as why:
        raise ValueError("exceeded max depth") from why
    # Few bodies have enough brackets to be too deep; only those are looked at.
    if body.count(b"[") + body.count(b"{") > DEPTH_MAX and _is_too_deep(value):
        raise ValueError("exceeded max depth")
    return value


def _json_problem(body: bytes, said: str) -> str:
    if not body.strip() or "truncated" in said:
        return "unexpected end of JSON input"
    try:
        json.loads(body.decode("latin-1"), parse_constant=_no_constant)
    except json.JSONDecodeError as why:
        if why.pos >= len(why.doc.rstrip()):
            return "unexpected end of JSON input"
        character = why.doc[why.pos]
        if why.msg.startswith("Extra data"):
            return f"invalid character '{character}' after top-level value"
        return f"invalid character '{character}' looking for beginning of {_looked_for(why.msg)}"
    except (UnicodeError, RecursionError) as why:
        return str(why)
    return said


def _no_constant(name: str) -> None:
    """Python takes NaN and Infinity as JSON; nobody else does."""
    character = name.lstrip("-")[0]
    raise UnicodeError(f"invalid character '{character}' looking for beginning of value")


def _looked_for(message: str) -> str:
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


def decode_yaml(body: bytes) -> Any:
    """Returns the value in a YAML text of one document.

    Raises:
        ValueError: It is not YAML, or has anchors, several documents, or too many levels.
    """
    try:
        documents = list(yaml_documents(body))
    except ConfigError as why:
        raise ValueError(f"error converting YAML to JSON: {why}") from why
    except UnicodeDecodeError as why:
        raise ValueError(f"error converting YAML to JSON: {why}") from why
    if len(documents) > 1:
        raise ValueError("error converting YAML to JSON: more than one document")
    value = documents[0].value if documents else None
    if _is_too_deep(value):
        raise ValueError("exceeded max depth")
    return value


def find_duplicates(body: bytes, raw: Any) -> list[str]:
    """Returns the paths of keys that stand twice in one object of a JSON text.

    Almost no body has any. None has a text that is what one would write of what was made of it, as
    that of most programs. Else the keys are counted, before and after: more in the text means that
    some were lost, or that a string looks like a key.
    """
    written_again = msgspec.json.encode(raw)
    if body == written_again:
        return []
    written = body.count(b'":')
    if b" :" in body or b"\n:" in body or b"\t:" in body or b"\r:" in body:
        written += len(_SPACED_KEY.findall(body))
    if written <= written_again.count(b'":'):
        return []
    pairs = json.loads(body, object_pairs_hook=_Pairs)
    return sorted(_duplicates(pairs, ""))


class _Pairs(list[tuple[str, Any]]):
    """The members of one JSON object, none lost."""


def _duplicates(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, item in value:
            inner = f"{path}.{key}" if path else key
            if key in seen:
                yield inner
            seen.add(key)
            yield from _duplicates(item, inner)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _duplicates(item, f"{path}[{number}]")


__all__ = [
    "ACCEPTED",
    "JSON",
    "PROTOBUF",
    "YAML",
    "Expected",
    "Refused",
    "decode_json",
    "decode_yaml",
    "media_type_of",
    "read_object",
    "typed",
]
