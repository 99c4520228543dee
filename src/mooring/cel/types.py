"""Types of the checker.

Source: cel-go v0.26.0, common/types/types.go and checker/format.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeAlias


class TypeKind(Enum):
    """Kinds of types."""

    ANY = "any"
    BOOL = "bool"
    BYTES = "bytes"
    DOUBLE = "double"
    DURATION = "duration"
    DYN = "dyn"
    ERROR = "error"
    INT = "int"
    LIST = "list"
    MAP = "map"
    NULL = "null"
    OPAQUE = "opaque"
    STRING = "string"
    STRUCT = "struct"
    TIMESTAMP = "timestamp"
    TYPE = "type"
    PARAM = "param"
    UINT = "uint"


class Type:
    """An immutable type; types of equal text are the same type.

    Attributes:
        name: Name at runtime, such as ``google.protobuf.Timestamp``; of a parameter, its name.
        text: How messages of the checker write it, such as ``timestamp`` or ``list(int)``.
        long_text: How messages about results write it.
    """

    __slots__ = ("kind", "long_text", "name", "params", "text")

    def __init__(self, kind: TypeKind, name: str, params: tuple[Type, ...] = ()) -> None:
        self.kind = kind
        self.name = name
        self.params = params
        self.text = _SHORT.get(kind, name)
        self.long_text = f"<{name}>" if kind is TypeKind.PARAM else name
        if params:
            self.text = f"{name}({', '.join(param.text for param in params)})"
            self.long_text = f"{name}({', '.join(param.long_text for param in params)})"

    def __repr__(self) -> str:
        return f"Type({self.text})"

    @property
    def is_dyn(self) -> bool:
        """True if any value fits, as far as the checker knows."""
        return self.kind in (TypeKind.DYN, TypeKind.ANY)

    @property
    def is_optional(self) -> bool:
        """True for ``optional_type(...)``."""
        return self.kind is TypeKind.OPAQUE and self.name == "optional_type"

    def same_as(self, other: Type) -> bool:
        """Returns whether two types are equal, names of parameters included."""
        return self is other or (self.kind is other.kind and self.text == other.text)


_SHORT: Final = {
    TypeKind.ANY: "any",
    TypeKind.DURATION: "duration",
    TypeKind.ERROR: "!error!",
    TypeKind.NULL: "null",
    TypeKind.TIMESTAMP: "timestamp",
}

ANY: Final = Type(TypeKind.ANY, "google.protobuf.Any")
BOOL: Final = Type(TypeKind.BOOL, "bool")
BYTES: Final = Type(TypeKind.BYTES, "bytes")
DOUBLE: Final = Type(TypeKind.DOUBLE, "double")
DURATION: Final = Type(TypeKind.DURATION, "google.protobuf.Duration")
DYN: Final = Type(TypeKind.DYN, "dyn")
ERROR: Final = Type(TypeKind.ERROR, "error")
INT: Final = Type(TypeKind.INT, "int")
NULL: Final = Type(TypeKind.NULL, "null_type")
STRING: Final = Type(TypeKind.STRING, "string")
TIMESTAMP: Final = Type(TypeKind.TIMESTAMP, "google.protobuf.Timestamp")
TYPE: Final = Type(TypeKind.TYPE, "type")
UINT: Final = Type(TypeKind.UINT, "uint")


def list_of(element: Type) -> Type:
    """Returns the type of lists of an element type."""
    return Type(TypeKind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """Returns the type of maps."""
    return Type(TypeKind.MAP, "map", (key, value))


def optional_of(value: Type) -> Type:
    """Returns the type of optional values."""
    return Type(TypeKind.OPAQUE, "optional_type", (value,))


def type_of(param: Type) -> Type:
    """Returns the type of a type."""
    return Type(TypeKind.TYPE, "type", (param,))


def param(name: str) -> Type:
    """Returns a type parameter."""
    return Type(TypeKind.PARAM, name)


def opaque(name: str) -> Type:
    """Returns a type whose values have no fields."""
    return Type(TypeKind.OPAQUE, name)


def struct(name: str) -> Type:
    """Returns a type of objects."""
    return Type(TypeKind.STRUCT, name)


LIST: Final = list_of(DYN)
MAP: Final = map_of(DYN, DYN)
OPTIONAL: Final = opaque("optional_type")
QUANTITY: Final = struct("kubernetes.Quantity")
SEMVER: Final = struct("kubernetes.Semver")
URL: Final = struct("kubernetes.URL")
NAMED_FORMAT: Final = struct("kubernetes.NamedFormat")
IP: Final = opaque("net.IP")
CIDR: Final = opaque("net.CIDR")
EMPTY: Final = struct("google.protobuf.Empty")
DEVICE: Final = struct("kubernetes.DRADevice")

#: Name of a type of objects -> name of a field -> its type.
Fields: TypeAlias = Mapping[str, Mapping[str, Type]]
#: Fields of the objects that have some.
FIELDS: Final[Fields] = {
    DEVICE.name: {
        "driver": STRING,
        "allowMultipleAllocations": BOOL,
        "attributes": map_of(STRING, map_of(STRING, ANY)),
        "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
    }
}


class Objects:
    """The types of objects that an expression may use, and their fields.

    Args:
        fields: Name of a type -> name of a field -> its type.
    """

    def __init__(self, fields: Fields = FIELDS) -> None:
        self._fields = fields

    def fields_of(self, name: str) -> Mapping[str, Type] | None:
        """Returns the fields of a type; None if its objects have none."""
        return self._fields.get(name)

    def is_message(self, name: str) -> bool:  # noqa: ARG002
        """Returns whether expressions may make objects of a type."""
        return False


def signature(types: list[Type], *, is_method: bool) -> str:
    """Returns argument types as messages write them: ``any.(string)``, ``(int, double)``."""
    texts = [entry.text for entry in types]
    head = f"{texts.pop(0)}." if is_method else ""
    return f"{head}({', '.join(texts)})"
