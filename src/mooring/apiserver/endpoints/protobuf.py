"""Request bodies in protobuf, converted to JSON.

client-go and kubectl send some objects in protobuf, without a fallback. A body is an envelope::

    "k8s", 0 ── Unknown ─┬─ typeMeta: apiVersion, kind
                         └─ raw: the message of that kind

``data/protobuf.json`` (``tools/protobuf_messages.py`` makes it) has the numbers, names and types
of all fields. Responses are always JSON. The result is as Go decodes it: absent pointers are
absent, other empty values may be present; it is normalized like a JSON body.

Source: k8s.io/apimachinery pkg/runtime/serializer/protobuf, pkg/runtime/generated.proto.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from mooring.apiserver.errors import bad_request
from mooring.apiserver.resources import RESOURCES
from mooring.objects.schema.decoding import time_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mooring.apiserver.resources import Resource

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
PREFIX = b"k8s\x00"
#: No object nests more deeply; a deeply nested body must not exhaust the stack.
DEPTH_MAX = 64
#: Two bytes of a body can become an object of hundreds of bytes; so their number is limited too.
VALUES_MAX = 100_000

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}
_WHOLE_MAX = 1e21
_SCHEMA = "apiextensions.JSONSchemaProps"
#: Fields of a schema that are pointers to a text, a boolean or any value: the empty one counts.
_POINTERS = frozenset(
    {
        "$ref",
        "default",
        "example",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
    }
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: Group and kind -> the version whose message is known; parts of other objects are of "v1".
_VERSIONS = MappingProxyType({(item.group, item.kind): item.version for item in RESOURCES})

#: Field number -> (name in JSON, type).
Fields = MappingProxyType[int, tuple[str, str]]


class _Malformed(Exception):
    """The body is not valid protobuf; the message has the reason."""


@cache
def messages() -> Mapping[str, Fields]:
    """Returns all messages by name, such as "core.Pod"."""
    text = files("mooring").joinpath("apiserver/data/protobuf.json").read_bytes()
    table = msgspec.json.decode(text)["messages"]
    return MappingProxyType({name: _fields(rows) for name, rows in table.items()})


def _fields(rows: dict[str, list[str]]) -> Fields:
    return MappingProxyType({int(number): (row[0], row[1]) for number, row in rows.items()})


def to_json(body: bytes, resource: Resource) -> dict[str, Any]:
    """Returns the object in a request's body.

    Args:
        body: With its envelope.
        resource: The requested resource; its kind is used if the body has none.

    Raises:
        ApiStatusError: 400, the body cannot be decoded, or its kind is unknown.
    """
    if not body.startswith(PREFIX):
        prefix = " ".join(str(byte) for byte in PREFIX)
        raise bad_request(
            f"provided data does not appear to be a protobuf message, expected prefix [{prefix}]"
        )
    try:
        return _Reader().envelope(body, resource)
    except _Malformed as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from error


class _Reader:
    """Decodes one body and counts its values."""

    def __init__(self) -> None:
        self._values = 0

    def envelope(self, body: bytes, resource: Resource) -> dict[str, Any]:
        """Returns the object in an envelope."""
        kind, api_version, raw = resource.kind, resource.api_version, b""
        for number, value in _split(body[len(PREFIX) :]):
            if number == 1:
                names = dict(_split(_as_bytes(value)))
                api_version = _text(names.get(1, b"")) or api_version
                kind = _text(names.get(2, b"")) or kind
            elif number == 2:
                raw = _as_bytes(value)
            elif number == 3 and value:
                raise _Malformed("its content is encoded")
        message = _message_of(api_version, kind)
        if message is None:
            raise bad_request(f'no kind "{kind}" is registered for version "{api_version}"')
        obj = {"kind": kind, "apiVersion": api_version}
        self._read(message, raw, obj, 0)
        return obj

    def _read(self, message: str, data: bytes, obj: dict[str, Any], depth: int) -> None:
        """Decodes the fields of a message into an object."""
        if depth > DEPTH_MAX:
            raise _Malformed("it nests too deeply")
        fields = messages()[message]
        for number, value in _split(data):
            self._values += 1
            if self._values > VALUES_MAX:
                raise _Malformed("it has too many values")
            field = fields.get(number)
            if field is None:
                continue  # of a newer version of Kubernetes
            name, type_name = field
            if not name:
                self._read(type_name, _as_bytes(value), obj, depth + 1)
            elif type_name.startswith("[]"):
                self._append(obj.setdefault(name, []), type_name[2:], value, depth)
            elif type_name.startswith("{}"):
                self._put(obj.setdefault(name, {}), type_name[2:], value, depth)
            else:
                obj[name] = self._value(type_name, value, depth)

    def _append(self, items: list[Any], type_name: str, value: int | bytes, depth: int) -> None:
        if type_name in _NUMBERS and isinstance(value, bytes):
            items.extend(_NUMBERS[type_name](number) for number in _packed(value))
        else:
            items.append(self._value(type_name, value, depth))

    def _put(self, entries: dict[str, Any], type_name: str, value: int | bytes, depth: int) -> None:
        entry = dict(_split(_as_bytes(value)))
        entries[_text(entry.get(1, b""))] = self._value(type_name, entry.get(2, b""), depth)

    def _value(self, type_name: str, value: int | bytes, depth: int) -> Any:
        if type_name in _NUMBERS:
            return _NUMBERS[type_name](_as_number(value))
        if type_name in _TEXTS:
            return _TEXTS[type_name](_as_bytes(value))
        obj: dict[str, Any] = {}
        self._read(type_name, _as_bytes(value), obj, depth + 1)
        if type_name == _SCHEMA:
            _drop_empty(obj)
        union = _UNIONS.get(type_name)
        return obj if union is None else union(obj)


def _message_of(api_version: str, kind: str) -> str | None:
    if kind == "DeleteOptions":
        return "meta.DeleteOptions"  # registered in every group
    group, slash, version = api_version.rpartition("/")
    name = f"{group.split('.')[0] if slash else 'core'}.{kind}"
    served = _VERSIONS.get((group, kind), "v1")
    return name if version == served and name in messages() else None


# ---------------------------------------------------------------------- wire format


def _split(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yields the fields of a message: their numbers and raw values."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        if number == 0:
            raise _Malformed("a field has the number 0")
        if wire_type == _VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire_type == _BYTES:
            length, position = _varint(data, position)
        elif wire_type in _FIXED:
            length = _FIXED[wire_type]
        else:
            raise _Malformed(f"field {number} has wire type {wire_type}")
        if length > end - position:
            raise _Malformed("it ends in the middle of a field")
        yield number, data[position : position + length]
        position += length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise _Malformed("it ends in the middle of a number")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & 0xFFFF_FFFF_FFFF_FFFF, position
    raise _Malformed("a number is too long")


def _packed(data: bytes) -> Iterator[int]:
    position = 0
    while position < len(data):
        value, position = _varint(data, position)
        yield value


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise _Malformed("a number instead of a text or a message")
    return value


def _as_number(value: int | bytes) -> int:
    if isinstance(value, int):
        return value
    if len(value) == 8:
        return int.from_bytes(value, "little")  # a double, see _double
    raise _Malformed("a text or a message instead of a number")


# ---------------------------------------------------------------------- values


def _int64(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _int32(value: int) -> int:
    number = _int64(value)
    if not -(1 << 31) <= number < 1 << 31:
        raise _Malformed(f"{number} does not fit into 32 bits")
    return number


def _double(value: int) -> float:
    (number,) = struct.unpack("<d", value.to_bytes(8, "little"))
    # Go writes whole numbers without a point.
    return int(number) if number.is_integer() and abs(number) < _WHOLE_MAX else float(number)


def _text(value: int | bytes) -> str:
    try:
        return _as_bytes(value).decode()
    except UnicodeDecodeError:
        raise _Malformed("a text is not UTF-8") from None


def _moment(value: bytes) -> tuple[int, int] | None:
    """Returns seconds and nanoseconds since 1970; None for the zero time."""
    parts = dict(_split(value))
    seconds, nanos = _int64(_as_number(parts.get(1, 0))), _int32(_as_number(parts.get(2, 0)))
    return (seconds, nanos) if seconds or nanos else None


def _time(value: bytes) -> str | None:
    moment = _moment(value)
    return None if moment is None else time_text(_date(moment[0], 0), "seconds")


def _micro_time(value: bytes) -> str | None:
    moment = _moment(value)
    return None if moment is None else time_text(_date(*moment), "microseconds")


def _date(seconds: int, nanos: int) -> datetime:
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise _Malformed(f"there is no date {seconds} seconds from 1970") from None


def _quantity(value: bytes) -> str:
    return _text(dict(_split(value)).get(1, b"")) or "0"


def _int_or_string(value: bytes) -> int | str:
    parts = dict(_split(value))
    if _as_number(parts.get(1, 0)):
        return _text(parts.get(3, b""))
    return _int32(_as_number(parts.get(2, 0)))


def _strings(value: bytes) -> list[str]:
    return [_text(item) for number, item in _split(value) if number == 1]


def _raw_json(value: bytes) -> Any:
    """Decodes JSON inside protobuf: managed fields, parameters, defaults of a schema."""
    raw = _as_bytes(dict(_split(value)).get(1, b""))
    if not raw:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        raise _Malformed("a JSON field is not JSON") from None


def _duration(value: bytes) -> str:
    return f"{_int64(_as_number(dict(_split(value)).get(1, 0)))}ns"


def _drop_empty(schema: dict[str, Any]) -> None:
    """Removes the empty fields that are no pointers: not all schemas are normalized later."""
    for name, value in list(schema.items()):
        if (value == "" or value is False) and name not in _POINTERS:
            del schema[name]


def _schema_or_array(obj: dict[str, Any]) -> Any:
    return obj.get("jSONSchemas") or obj.get("schema")


def _schema_or_bool(obj: dict[str, Any]) -> Any:
    return obj["schema"] if "schema" in obj else obj.get("allows", False)


def _schema_or_strings(obj: dict[str, Any]) -> Any:
    return obj.get("property") or obj.get("schema")


#: Messages of which one field is the value in JSON.
#: Source: apiextensions-apiserver v0.36.3, pkg/apis/apiextensions/v1/marshal.go.
_UNIONS: Mapping[str, Callable[[dict[str, Any]], Any]] = {
    "apiextensions.JSONSchemaPropsOrArray": _schema_or_array,
    "apiextensions.JSONSchemaPropsOrBool": _schema_or_bool,
    "apiextensions.JSONSchemaPropsOrStringArray": _schema_or_strings,
}
#: Scalars of wire type 0 (and 1), from their raw number.
_NUMBERS: Mapping[str, Callable[[int], Any]] = {
    "bool": bool,
    "int32": _int32,
    "int64": _int64,
    "uint32": lambda value: value & 0xFFFF_FFFF,
    "double": _double,
}
#: Scalars and special messages of wire type 2, from their bytes.
_TEXTS: Mapping[str, Callable[[bytes], Any]] = {
    "string": _text,
    "bytes": lambda value: base64.b64encode(value).decode("ascii"),
    "Time": _time,
    "MicroTime": _micro_time,
    "Duration": _duration,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "FieldsV1": _raw_json,
    "JSON": _raw_json,
    "RawExtension": _raw_json,
    "Strings": _strings,
}
