"""Sizes of the requests to etcd that store objects; it refuses more than 1.5 MiB.

An object that is stored here would be stored by kube-apiserver, too. The size of a custom object is
exact. Objects of other kinds are stored as protobuf, whose size is estimated from the JSON: each
value has two bytes of its own, and names of fields have none, but for the keys of maps.

Source: go.etcd.io/etcd/api etcdserverpb/rpc.proto (TxnRequest); go.etcd.io/etcd/server/v3
etcdserver/v3_server.go (MaxRequestBytes); google.golang.org/grpc stream.go (the client's limit).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from mooring.apiserver.errors import ApiStatusError

if TYPE_CHECKING:
    from mooring.apiserver.resources import Resource
    from mooring.apiserver.types import Object

#: etcd's limit, less the 36 bytes that it adds before it compares.
REQUEST_BYTES_MAX: Final = 1_572_864 - 36
#: Of its client.
MESSAGE_BYTES_MAX: Final = 2 << 20
#: Objects whose JSON is no longer are not measured: in protobuf none is larger.
JSON_BYTES_MIN: Final = REQUEST_BYTES_MAX - 4096

#: Tag and length, or tag and number, of a field in protobuf.
_FIELD_BYTES: Final = 2
#: The fields of any kind that are maps; each entry is a message with a key and a value.
_MAPS: Final = frozenset(
    {
        *("annotations", "labels", "matchLabels", "nodeSelector"),
        *("allocatable", "capacity", "hard", "limits", "overhead", "requests", "used"),
        *("attributes", "binaryData", "data", "parameters"),
    }
)
#: The resources with a field of bytes, which are base64 in JSON, a third longer.
_BYTES: Final = {"secrets": "data", "configmaps": "binaryData"}


class RequestTooLarge(ApiStatusError):
    """Raised if an object is too large to be stored; the message is etcd's."""

    def __init__(self, size_bytes: int) -> None:
        message = "etcdserver: request is too large"
        if size_bytes > MESSAGE_BYTES_MAX:
            message = (
                "rpc error: code = ResourceExhausted desc = trying to send message larger than max "
                f"({size_bytes} vs. {MESSAGE_BYTES_MAX})"
            )
        super().__init__(500, "", message)


def check_request_size(
    resource: Resource, key: str, obj: Object, *, json_bytes: int, replaced: int
) -> None:
    """Checks that an object can be stored.

    Args:
        resource: In the version that is stored.
        key: "namespace/name", or the name alone.
        obj: With its metadata; kind and apiVersion may be absent.
        json_bytes: The length of its JSON without kind, apiVersion and resourceVersion.
        replaced: The version of the object that it replaces; 0 = none.

    Raises:
        RequestTooLarge: 500.
    """
    if json_bytes < JSON_BYTES_MIN:
        return
    if resource.custom is not None:
        stored_as = {**obj, "kind": resource.kind, "apiVersion": resource.api_version}
        metadata = {name: v for name, v in obj["metadata"].items() if name != "resourceVersion"}
        value_bytes = len(msgspec.json.encode({**stored_as, "metadata": metadata})) + len("\n")
        path = f"/registry/{resource.group}/{resource.name}/{key}"
    else:
        value_bytes = _message_bytes(obj)
        path = f"/registry/{resource.name}/{key}"
        encoded = obj.get(_BYTES.get(resource.name, "")) if not resource.group else None
        value_bytes -= sum(len(value) // 4 for value in (encoded or {}).values())
    size_bytes = _request_bytes(len(path.encode()), value_bytes, replaced)
    if size_bytes > REQUEST_BYTES_MAX:
        raise RequestTooLarge(size_bytes)


def _message_bytes(value: Any, *, is_map: bool = False) -> int:
    """Returns about how many bytes a value has as a field in protobuf."""
    if isinstance(value, str):
        size = len(value) if value.isascii() else len(value.encode())
        return _FIELD_BYTES + size
    if isinstance(value, dict):
        fields = value.get("fieldsV1")
        if fields is not None:  # it is JSON there, too
            rest = {name: inner for name, inner in value.items() if name != "fieldsV1"}
            return _message_bytes(rest) + len(msgspec.json.encode(fields)) + 2 * _FIELD_BYTES
        if is_map:
            parts = (part for pair in value.items() for part in pair)
            return _FIELD_BYTES * len(value) + sum(map(_message_bytes, parts))
        inner = (_message_bytes(part, is_map=name in _MAPS) for name, part in value.items())
        return _FIELD_BYTES + sum(inner)
    if isinstance(value, list):
        return sum(map(_message_bytes, value))
    return _FIELD_BYTES


def _request_bytes(key_bytes: int, value_bytes: int, replaced: int) -> int:
    """Returns the size of a transaction: if the key has this version, it gets a value.

    Otherwise the value of an object that should be replaced is read.
    """
    comparison = _field_bytes(key_bytes) + _FIELD_BYTES + 1 + _varint_bytes(replaced)
    put = _field_bytes(key_bytes) + _field_bytes(value_bytes)
    read = _field_bytes(_field_bytes(_field_bytes(key_bytes))) if replaced else 0
    return _field_bytes(comparison) + _field_bytes(_field_bytes(put)) + read


def _field_bytes(content_bytes: int) -> int:
    """Returns the size of a field: its tag, its length, its content."""
    return 1 + _varint_bytes(content_bytes) + content_bytes


def _varint_bytes(number: int) -> int:
    return max(1, -(-number.bit_length() // 7))
