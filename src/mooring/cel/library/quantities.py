"""Kubernetes quantities.

Source: apiserver v0.36.3, pkg/cel/library/quantity.go and pkg/cel/quantity.go; apimachinery
v0.36.3, pkg/api/resource.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mooring.cel import types
from mooring.cel.declarations import Function, Overload, function, method
from mooring.cel.types import BOOL, DOUBLE, INT, QUANTITY, STRING
from mooring.cel.values import NO_OVERLOAD, ErrorValue, Value
from mooring.objects.quantity import Quantity, QuantityError
from mooring.objects.text_cache import text_cache

if TYPE_CHECKING:
    from collections.abc import Callable

_NANOS: Final = 1_000_000_000
_FORMAT_PATTERN: Final = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_SHAPE = re.compile(r"[+-]?[0-9]*+(?:\.[0-9]*+)?+[eEinumkKMGTP]*+[-+]?[0-9]*+", re.ASCII)
_PARTS = re.compile(r"([+-]?)0*([0-9]*)\.?([0-9]*)(.*)", re.DOTALL)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15,
                   "E": 18}  # fmt: skip
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


class QuantityValue:
    """A quantity: its exact amount, and the scale that upstream keeps it with.

    ``scale`` is the power of ten of upstream's integer form, or None where upstream keeps an
    arbitrary decimal, which is never an integer to ``isInteger``. ``is_sum`` is True for results
    of ``add`` and ``sub``: upstream returns these by pointer, and no quantity equals a pointer.
    """

    __slots__ = ("_scale", "is_sum", "quantity")
    cel_type = QUANTITY

    def __init__(
        self,
        quantity: Quantity,
        scale: int | None = None,
        *,
        text: str = "",
        is_sum: bool = False,
    ) -> None:
        self.quantity = quantity
        self.is_sum = is_sum
        self._scale: int | str | None = text or scale

    @property
    def scale(self) -> int | None:
        """The power of ten, found when it is first needed."""
        if isinstance(self._scale, str):
            self._scale = _scale_of(self._scale)
        return self._scale

    @property
    def integer(self) -> int | None:
        """The amount, if upstream can read it as int64."""
        if self.scale is None or self.scale < 0:
            return None
        amount = self.quantity.nanos // _NANOS
        return amount if -(2**63) <= amount < 2**63 else None

    @property
    def identity(self) -> int:
        """Each value is a key of its own in a map."""
        return id(self)

    def equals(self, other: Value) -> bool | ErrorValue:
        """Returns whether amounts are equal; other types and results of sums are refused."""
        if not isinstance(other, QuantityValue) or other.is_sum:
            return NO_OVERLOAD
        return self.quantity.nanos == other.quantity.nanos

    def __str__(self) -> str:
        return str(self.quantity)


@text_cache(4096)
def parse(text: str) -> QuantityValue | ErrorValue:
    """Returns the quantity of a text, or upstream's error."""
    try:
        return QuantityValue(Quantity.parse(text), text=text)
    except QuantityError:
        return ErrorValue(_problem(text))


def _quantity(text: str) -> Value:
    """Returns the quantity of a text as a value of its own, which is no other's key in a map."""
    value = parse(text)
    if isinstance(value, ErrorValue):
        return value
    return QuantityValue(value.quantity, text=text)


def of_quantity(quantity: Quantity | str) -> QuantityValue | ErrorValue:
    """Returns a quantity of the API; its text decides about the scale."""
    if isinstance(quantity, str):
        return parse(quantity)
    return QuantityValue(quantity, text=str(quantity))


def _problem(text: str) -> str:
    if not text or not _SHAPE.fullmatch(text) or not re.search(r"[0-9.]", text[:2]):
        return f"quantities must match the regular expression '{_FORMAT_PATTERN}'"
    match = _PARTS.fullmatch(text)
    suffix = match[4] if match is not None else ""
    if suffix in _DECIMAL or suffix in _BINARY or re.fullmatch(r"[eE][+-]?[0-9]+", suffix):
        return "unable to parse numeric part of quantity"
    return "unable to parse quantity's suffix"


def _scale_of(text: str) -> int | None:
    """Returns the scale that upstream's parser gives an amount."""
    match = _PARTS.fullmatch(text)
    if match is None:
        return None
    whole, fraction, suffix = match[2] or "0", match[3], match[4]
    if suffix in _BINARY:
        is_short = not fraction and 15 - len(whole) - _BINARY[suffix] * 3 // 10 - 1 >= 0
        return 0 if is_short else None
    exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    scale = exponent - len(fraction)
    return scale if len(whole) + len(fraction) <= 18 and scale >= -9 else None


def _sum_scale(first: QuantityValue, second: QuantityValue, total: int) -> int | None:
    """Returns the scale of a sum: the finer one, if the amounts fit int64 with it."""
    if first.scale is None or second.scale is None:
        return None
    if not second.quantity.nanos:
        return first.scale
    if not first.quantity.nanos:
        return second.scale
    scale = min(first.scale, second.scale)
    amounts = (first.quantity.nanos, second.quantity.nanos, total)
    if all(-(2**63) <= _scaled(amount, scale) < 2**63 for amount in amounts):
        return scale
    return None


def _scaled(nanos: int, scale: int) -> int:
    power = -9 - scale
    return nanos * 10**power if power >= 0 else nanos // int(10**-power)


def _combine(sign: int) -> Callable[[QuantityValue, Value], Value]:
    def implementation(left: QuantityValue, right: Value) -> Value:
        other = (
            right
            if isinstance(right, QuantityValue)
            else QuantityValue(Quantity.of_value(right), 0)
        )
        total = left.quantity + other.quantity if sign > 0 else left.quantity - other.quantity
        return QuantityValue(total, _sum_scale(left, other, total.nanos), is_sum=True)

    return implementation


def _is_quantity(text: str) -> bool:
    return not isinstance(parse(text), ErrorValue)


def _as_integer(value: QuantityValue) -> Value:
    amount = value.integer
    return ErrorValue("cannot convert value to integer") if amount is None else amount


def _is_integer(value: QuantityValue) -> bool:
    return value.integer is not None


def _as_float(value: QuantityValue) -> float:
    scale = value.scale
    if scale is None or scale < 0:
        power = -scale if scale is not None else 9
        return float(_scaled(value.quantity.nanos, -power)) * 10.0**-power
    return float(_scaled(value.quantity.nanos, scale)) * 10.0**scale


def _sign(value: QuantityValue) -> int:
    return (value.quantity.nanos > 0) - (value.quantity.nanos < 0)


def _compare(left: QuantityValue, right: QuantityValue) -> int:
    return (left.quantity.nanos > right.quantity.nanos) - (
        left.quantity.nanos < right.quantity.nanos
    )


def _is_greater(left: QuantityValue, right: QuantityValue) -> bool:
    return left.quantity.nanos > right.quantity.nanos


def _is_less(left: QuantityValue, right: QuantityValue) -> bool:
    return left.quantity.nanos < right.quantity.nanos


_TWO: Final = (QUANTITY, QUANTITY)

LIBRARY: Final[dict[str, Function | list[Overload]]] = {
    "quantity": [function("string_to_quantity", (STRING,), QUANTITY, _quantity)],
    "isQuantity": [function("is_quantity_string", (STRING,), BOOL, _is_quantity)],
    "sign": [function("quantity_sign", (QUANTITY,), INT, _sign)],
    "isGreaterThan": [method("quantity_is_greater_than", _TWO, BOOL, _is_greater)],
    "isLessThan": [method("quantity_is_less_than", _TWO, BOOL, _is_less)],
    "compareTo": [method("quantity_compare_to", _TWO, INT, _compare)],
    "asApproximateFloat": [method("quantity_get_float", (QUANTITY,), DOUBLE, _as_float)],
    "asInteger": [method("quantity_get_int", (QUANTITY,), INT, _as_integer)],
    "isInteger": [method("quantity_is_integer", (QUANTITY,), BOOL, _is_integer)],
    "add": [
        method("quantity_add", _TWO, QUANTITY, _combine(1)),
        method("quantity_add_int", (QUANTITY, INT), QUANTITY, _combine(1)),
    ],
    "sub": [
        method("quantity_sub", _TWO, QUANTITY, _combine(-1)),
        method("quantity_sub_int", (QUANTITY, INT), QUANTITY, _combine(-1)),
    ],
}

__all__ = ["LIBRARY", "QuantityValue", "of_quantity", "parse", "types"]
