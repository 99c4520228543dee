"""Names of upstream's types, for the texts of its internal errors."""

from __future__ import annotations

from typing import Final

from mooring.cel.values import Uint, Value, type_of

_GO_TYPES: Final = {
    "kubernetes.Semver": "cel.Semver",
    "kubernetes.Quantity": "cel.Quantity",
    "kubernetes.URL": "cel.URL",
    "kubernetes.NamedFormat": "cel.Format",
    "net.IP": "cel.IP",
    "net.CIDR": "cel.CIDR",
    "int": "types.Int",
    "uint": "types.Uint",
    "double": "types.Double",
    "string": "types.String",
    "bool": "types.Bool",
    "bytes": "types.Bytes",
    "null_type": "types.Null",
    "google.protobuf.Duration": "types.Duration",
    "google.protobuf.Timestamp": "types.Timestamp",
    "optional_type": "*types.Optional",
    "type": "*types.Type",
    "list": "*types.baseList",
    "map": "*types.baseMap",
}
#: The Go types of values that upstream cannot convert back to values of the language.
_NATIVE_TYPES: Final = {
    "kubernetes.Semver": "semver.Version",
    "kubernetes.Quantity": "*resource.Quantity",
    "kubernetes.URL": "*url.URL",
    "net.IP": "netip.Addr",
    "net.CIDR": "netip.Prefix",
}
_UNHASHABLE: Final = frozenset({"kubernetes.Semver", "kubernetes.NamedFormat", "bytes"})


def go_type(value: Value) -> str:
    """Returns the name of upstream's type of a value, for its internal errors."""
    return _GO_TYPES.get(type_of(value).name, type_of(value).name)


def unhashable(value: Value) -> str:
    """Returns upstream's name of a type whose values cannot be looked up, or ""."""
    return go_type(value) if type_of(value).name in _UNHASHABLE else ""


def native_type(value: Value) -> str:
    """Returns the Go type in a value that upstream cannot convert back, or ""."""
    return _NATIVE_TYPES.get(type_of(value).name, "")


def is_key(value: Value) -> bool:
    """Returns whether a value can be the key of a map or the index of a list."""
    return isinstance(value, str | bool | int | float | Uint)
