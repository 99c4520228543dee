"""Values at runtime, and what holds for all of them: type, equality, size, text.

=====================  =============================================================
CEL                    Python
=====================  =============================================================
null, bool, string     None, bool, str
int, uint, double      int, ``Uint``, float
bytes, list            bytes, list
map                    ``MapValue``, or ``DomainMap`` for attributes and capacity
type                   ``Type``
duration, timestamp    ``Duration``, ``Timestamp`` (``mooring.cel.times``)
optional               ``Optional``
others                 classes of their libraries, with ``cel_type``
error                  ``ErrorValue``: a value too, since ``&&`` and ``||`` can absorb it
=====================  =============================================================

Source: cel-go v0.26.0, common/types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mooring.cel import types

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mooring.cel.types import Type

Value: TypeAlias = Any


class ErrorValue:
    """A failed computation. ``is_missing`` is True for a missing key or index."""

    __slots__ = ("message",)

    def __init__(self, message: str) -> None:
        self.message = message

    def __repr__(self) -> str:
        return f"ErrorValue({self.message!r})"


class Cancelled(Exception):
    """Ends an evaluation as a whole: no operator absorbs it.

    ``cost`` is what the step that was refused would have cost.
    """

    def __init__(self, message: str, cost: int = 0) -> None:
        super().__init__(message)
        self.cost = cost


class Fatal(Exception):
    """A failure that no operator absorbs: upstream's code panics."""


NO_OVERLOAD: Final = ErrorValue("no such overload")

#: Text of an evaluation that exceeds its cost limit.
COST_EXCEEDED: Final = "operation cancelled: actual cost limit exceeded"


class Uint:
    """An unsigned 64-bit integer."""

    __slots__ = ("number",)
    cel_type = types.UINT

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return f"{self.number}u"


class Optional:
    """An optional value; ``is_present`` is False for ``optional.none()``."""

    __slots__ = ("is_present", "value")
    cel_type = types.OPTIONAL

    def __init__(self, value: Value, *, is_present: bool = True) -> None:
        self.value = value
        self.is_present = is_present


NONE: Final = Optional(None, is_present=False)


class MutableList(list[Value]):
    """A list that only the loop that collects it can see: adding to it changes it."""

    __slots__ = ()


class MapValue:
    """A map with keys of any type, in the order of insertion.

    Keys that are equal as numbers (``1``, ``1u``, ``1.0``) are different keys; a lookup finds
    an int, uint or double for each other.
    """

    __slots__ = ("entries", "is_mutable")
    cel_type = types.MAP

    def __init__(self, entries: dict[Any, tuple[Value, Value]] | None = None) -> None:
        self.entries: dict[Any, tuple[Value, Value]] = {} if entries is None else entries
        self.is_mutable = False

    @classmethod
    def of_strings(cls, values: dict[str, Value]) -> MapValue:
        """Returns a map with keys of type string."""
        return cls({key: (key, value) for key, value in values.items()})

    def __len__(self) -> int:
        return len(self.entries)

    def find(self, key: Value) -> tuple[Value, bool]:
        """Returns the value of a key and whether there is one."""
        for candidate in key_candidates(key):
            entry = self.entries.get(candidate)
            if entry is not None:
                return entry[1], True
        return None, False

    def has(self, key: Value) -> bool:
        """Returns whether the map has a key."""
        return self.find(key)[1]

    def items(self) -> Iterator[tuple[Value, Value]]:
        """Yields keys and values in the order of iteration."""
        yield from self.entries.values()


class StringMap:
    """A map with string keys, iterated in the order of the keys.

    Differs: upstream's order of iteration is random.
    """

    __slots__ = ("entries",)
    cel_type = types.MAP

    def __init__(self, entries: dict[str, Value]) -> None:
        self.entries = entries

    def __len__(self) -> int:
        return len(self.entries)

    def find(self, key: Value) -> tuple[Value, bool]:
        """Returns the value of a key and whether there is one."""
        if key.__class__ is str and key in self.entries:
            return self.entries[key], True
        return None, False

    def has(self, key: Value) -> bool:
        """Returns whether the map has a key of its own."""
        return key.__class__ is str and key in self.entries

    def items(self) -> Iterator[tuple[Value, Value]]:
        """Yields keys and values, sorted by key."""
        for key in sorted(self.entries):
            yield key, self.entries[key]


EMPTY_MAP: Final = StringMap({})


class DomainMap(StringMap):
    """Attributes or capacity by domain: looking up an unknown domain finds an empty map.

    Size, iteration and ``in`` know only the domains of the device.
    """

    __slots__ = ()

    def find(self, key: Value) -> tuple[Value, bool]:
        """Returns the map of a domain; an unknown one, and any other key, has an empty map."""
        if key.__class__ is str:
            return self.entries.get(key, EMPTY_MAP), True
        return EMPTY_MAP, True


Mapping: TypeAlias = MapValue | StringMap

_TYPES: Final[dict[type, Type]] = {
    type(None): types.NULL,
    bool: types.BOOL,
    int: types.INT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    list: types.LIST,
    MutableList: types.LIST,
    types.Type: types.TYPE,
    ErrorValue: types.ERROR,
}


def type_of(value: Value) -> Type:
    """Returns the runtime type of a value."""
    simple = _TYPES.get(value.__class__)
    if simple is not None:
        return simple
    result: Type = value.cel_type
    return result


def is_mapping(value: Value) -> bool:
    """Returns whether a value is a map."""
    return isinstance(value, MapValue | StringMap)


def size(value: Value) -> int | None:
    """Returns the number of characters, bytes or entries; None for values without a size."""
    if isinstance(value, str | bytes | list | MapValue | StringMap):
        return len(value)
    return None


def map_key(value: Value) -> Any:
    """Returns what identifies a key of a map: type and value."""
    if value.__class__ is str:
        return value
    if value is None or isinstance(value, bool | int | float):
        return (value.__class__, value)
    if isinstance(value, Uint):
        return (Uint, value.number)
    if isinstance(value, types.Type):
        return (types.Type, value.name)
    identity = getattr(value, "identity", None)
    return (value.__class__, id(value) if identity is None else identity)


def key_candidates(key: Value) -> list[Any]:
    """Returns the identities under which a lookup finds a key, in order."""
    candidates = [map_key(key)]
    if key.__class__ is float and key == key and key not in (float("inf"), float("-inf")):
        if key == int(key):
            candidates += [(int, int(key)), (Uint, int(key))]
    elif key.__class__ is int and key >= 0:
        candidates.append((Uint, key))
    elif isinstance(key, Uint):
        candidates.append((int, key.number))
    return candidates


def insert(target: Mapping, key: Value, value: Value) -> MapValue | ErrorValue:
    """Returns a map with one more entry; a map that a loop collects is changed in place."""
    if target.find(key)[1]:
        return ErrorValue(f"insert failed: key {text(key)} already exists")
    if isinstance(target, MapValue) and target.is_mutable:
        target.entries[map_key(key)] = (key, value)
        return target
    result = MapValue({map_key(k): (k, v) for k, v in target.items()})
    result.entries[map_key(key)] = (key, value)
    return result


# ---------------------------------------------------------------- equality and order


def equal(left: Value, right: Value) -> bool | ErrorValue:
    """Returns whether two values are equal, as ``==`` does.

    Numbers of different types are compared by value; other values of different types are not
    equal. A value of a Kubernetes type on the left refuses any other type.
    """
    cls = left.__class__
    if cls is str:
        return right.__class__ is str and bool(left == right)
    if left is None or right is None:
        return left is right
    if cls is bool:
        return right.__class__ is bool and left is right
    if cls is int or cls is float or cls is Uint:
        return compare_numbers(left, right) == 0
    if cls is bytes:
        return right.__class__ is bytes and bool(left == right)
    if isinstance(left, list):
        return _equal_lists(left, right)
    if isinstance(left, MapValue | StringMap):
        return _equal_maps(left, right)
    if isinstance(left, types.Type):
        return isinstance(right, types.Type) and left.name == right.name
    if cls is Optional:
        return _equal_optionals(left, right)
    # The content of an optional may be an error.
    if cls is ErrorValue:
        return left  # type: ignore[no-any-return]
    result: bool | ErrorValue = left.equals(right)
    if result is NO_OVERLOAD and right.__class__ is ErrorValue:
        return right
    return result


def compare_numbers(left: Value, right: Value) -> int | None:
    """Returns -1, 0 or 1; None if a value is not a number or is NaN."""
    first = left.number if left.__class__ is Uint else left
    second = right.number if right.__class__ is Uint else right
    if second.__class__ not in (int, float) or first != first or second != second:
        return None
    if first.__class__ is float and second.__class__ is int:
        return _compare_float(first, right)
    if first.__class__ is int and second.__class__ is float:
        return -_compare_float(second, left)
    return (first > second) - (first < second)


def _compare_float(first: float, other: Value) -> int:
    """Returns the order of a double and an integer, which becomes a double too."""
    number, limits = (
        (other.number, (0.0, 2.0**64))
        if other.__class__ is Uint
        else (other, (-(2.0**63), 2.0**63))
    )
    if first < limits[0]:
        return -1
    if first > limits[1]:
        return 1
    second = float(number)
    return (first > second) - (first < second)


def _equal_lists(left: list[Value], right: Value) -> bool:
    if not isinstance(right, list) or len(left) != len(right):
        return False
    for pair in zip(left, right, strict=True):  # noqa: SIM110 - plain loops need no C stack
        if equal(*pair) is False:
            return False
    return True


def _equal_maps(left: Mapping, right: Value) -> bool:
    if not isinstance(right, MapValue | StringMap) or len(left) != len(right):
        return False
    for key, value in left.items():
        other, is_present = right.find(key)
        if not is_present or equal(value, other) is False:
            return False
    return True


def _equal_optionals(left: Optional, right: Value) -> bool | ErrorValue:
    if not isinstance(right, Optional):
        return False
    if not (left.is_present and right.is_present):
        return left.is_present == right.is_present
    return equal(left.value, right.value)


def contains(values: list[Value], element: Value) -> bool:
    """Returns whether a list has an element; comparisons that fail do not count."""
    if element is None:
        # Upstream compares the types here: Null.Equal.
        return any(value is None for value in values)
    return any(value is not None and equal(element, value) is True for value in values)


# ---------------------------------------------------------------- text


def text(value: Value) -> str:
    """Returns a value as messages write it."""
    if value is None:
        return "0"
    if value.__class__ is bool:
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(map(text, value)) + "]"
    if isinstance(value, MapValue | StringMap):
        return "{" + ", ".join(f"{text(k)}: {text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Uint):
        return str(value.number)
    if isinstance(value, Optional):
        return f"optional({text(value.value)})" if value.is_present else "optional.none()"
    if isinstance(value, types.Type):
        return value.long_text
    if value.__class__ is bytes:
        return "[" + " ".join(map(str, value)) + "]"
    return str(value)
