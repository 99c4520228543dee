"""Kubernetes quantities ("100m", "1.5Gi", "2e3") with exact arithmetic.

A quantity is an exact count of billionths. Finer amounts are rounded away from zero, so
that a nonzero request stays nonzero. Comparing and adding are exact; ``value()`` and ``milli()``
round.

Source: apimachinery v0.36.3, pkg/api/resource (quantity.go, suffix.go, amount.go).
Differs: a number that no int64 can hold is limited to it by ``value()`` and ``milli()``; upstream
lets it wrap around. Negative amounts always round away from zero; upstream rounds some of them up.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from mooring.objects.text_cache import CHARS_MAX

if TYPE_CHECKING:
    from mooring.objects.meta import RawQuantity

BINARY_SI: Final = "BinarySI"
DECIMAL_SI: Final = "DecimalSI"
DECIMAL_EXPONENT: Final = "DecimalExponent"

_NANOS: Final = 1_000_000_000
MAX_INT64: Final = 2**63 - 1

#: Quantities are capped at 10**60 units: an exponent must not create gigabytes of digits.
_MAX_DIGITS: Final = 60
_LARGEST: Final = 10**_MAX_DIGITS * _NANOS

#: Digits after the point that can matter once 2**60 multiplies them; later ones only say "more".
_BINARY_FRACTION_DIGITS: Final = 80

#: A cluster has few distinct amounts; a hostile one must not fill the memory.
_CACHE_SIZE: Final = 16_384

#: Blanks around a quantity that are removed. Upstream removes all, but parses the text of the JSON
#: with its escapes: tabs, lines and what clients write as \\u00a0 are none.
_SPACES: Final = " "

# All quantifiers are possessive: linear time for any text.
_PATTERN = re.compile(
    r"(?P<sign>[+-]?)0*+(?P<whole>[0-9]*+)(?:\.(?P<fraction>[0-9]*+))?+"
    r"(?P<suffix>[eEinumkKMGTP]*+[-+]?[0-9]*+)",
    re.ASCII,
)
_DECIMAL_EXPONENTS: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_EXPONENTS: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIXES: Final = {exponent: text for text, exponent in _DECIMAL_EXPONENTS.items()}
_BINARY_SUFFIXES: Final = {exponent: text for text, exponent in _BINARY_EXPONENTS.items()}


class QuantityError(ValueError):
    """A text that is not a quantity; the message has the text and the reason."""

    def __init__(self, text: str, problem: str) -> None:
        excerpt = text if len(text) <= 64 else text[:61] + "..."
        super().__init__(f"{excerpt!r} is not a quantity: {problem}")
        self.text = text
        self.problem = problem


class Quantity(msgspec.Struct, frozen=True, eq=False, gc=False):
    """An exact amount: ``nanos`` billionths, and its format.

    Two quantities are equal if their amounts are, in any format.

    Example:
        >>> Quantity.parse("1.5Gi").value(), Quantity.parse("100500u").milli()
        (1610612736, 101)
        >>> str(Quantity.parse("900m") + Quantity.parse("0.1"))
        '1'
    """

    nanos: int = 0
    format: str = DECIMAL_SI
    #: The parsed text, if it is in canonical form, else "".
    written: str = ""

    @staticmethod
    def parse(text: str) -> Quantity:
        """Parses a quantity without surrounding spaces.

        Raises:
            QuantityError: The text is not a quantity.
        """
        return _parse(text) if len(text) <= CHARS_MAX else _parsed(text)

    @staticmethod
    def from_wire(raw: RawQuantity) -> Quantity:
        """Parses a quantity from JSON: text, or a bare number.

        Raises:
            QuantityError: The value is not a quantity.
        """
        if raw.__class__ is str:
            return _parse_wire(raw) if len(raw) <= CHARS_MAX else _parsed(raw.strip(_SPACES))
        return _parse(repr(raw))

    @staticmethod
    def of_value(value: int) -> Quantity:
        """Returns a whole number of units."""
        return Quantity(value * _NANOS)

    @staticmethod
    def of_milli(milli: int) -> Quantity:
        """Returns a whole number of thousandths."""
        return Quantity(milli * 1_000_000)

    def value(self) -> int:
        """Returns whole units, rounded away from zero, within int64."""
        return _int64(_divide_away_from_zero(self.nanos, _NANOS))

    def milli(self) -> int:
        """Returns thousandths, rounded away from zero, within int64."""
        return _int64(_divide_away_from_zero(self.nanos, 1_000_000))

    @property
    def is_zero(self) -> bool:
        """True if the amount is zero."""
        return self.nanos == 0

    def __add__(self, other: Quantity) -> Quantity:
        # Zero has no format of its own: it adopts the other one's.
        form = self.format if self.nanos else other.format
        return Quantity(self.nanos + other.nanos, form)

    def __sub__(self, other: Quantity) -> Quantity:
        form = self.format if self.nanos else other.format
        return Quantity(self.nanos - other.nanos, form)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nanos, self.format)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Quantity) -> bool:
        return self.nanos <= other.nanos

    def __gt__(self, other: Quantity) -> bool:
        return self.nanos > other.nanos

    def __ge__(self, other: Quantity) -> bool:
        return self.nanos >= other.nanos

    def __str__(self) -> str:
        """Returns the canonical text: the largest suffix that leaves no fraction."""
        return self.written or _canonical(self.nanos, self.format)


ZERO: Final = Quantity()


@lru_cache(maxsize=_CACHE_SIZE)
def _parse_wire(text: str) -> Quantity:
    return _parsed(text.strip(_SPACES))


@lru_cache(maxsize=_CACHE_SIZE)
def _parse(text: str) -> Quantity:
    return _parsed(text)


def _parsed(text: str) -> Quantity:
    """Parses a quantity without the caches, which keep no long texts."""
    if not text:
        raise QuantityError(text, "it is empty")
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise QuantityError(text, "it must be a number, then a suffix such as m, k, Mi or e3")
    base, exponent, form = _interpret(text, match["suffix"])
    sign = -1 if match["sign"] == "-" else 1
    whole, fraction = match["whole"], match["fraction"] or ""
    if _is_short(len(whole or "0"), len(fraction), base=base, exponent=exponent):
        return _parse_short(text, match, base=base, exponent=exponent, form=form)
    if not any(map(str.isdigit, text.removesuffix(match["suffix"]))):
        # Upstream accepts "Ki" as 0 and refuses "Ei": only its slow path requires a digit.
        raise QuantityError(text, "it has no digits")
    if base == 10:
        nanos = _decimal_nanos(whole + fraction, exponent - len(fraction))
        if nanos == _LARGEST and form == DECIMAL_SI:
            # Its canonical text would be that of one unit, since there is no suffix for it.
            nanos -= _NANOS
        return Quantity(sign * nanos, form)
    nanos = min(_binary_nanos(whole, fraction, exponent), MAX_INT64 * _NANOS)
    is_below_one = 0 < nanos < _NANOS
    return Quantity(sign * nanos, DECIMAL_SI if is_below_one else form)


def _interpret(text: str, suffix: str) -> tuple[int, int, str]:
    """Returns base, exponent and format of a suffix."""
    decimal = _DECIMAL_EXPONENTS.get(suffix)
    if decimal is not None:
        return 10, decimal, DECIMAL_SI
    binary = _BINARY_EXPONENTS.get(suffix)
    if binary is not None:
        return 2, binary, BINARY_SI
    digits = suffix[1:]
    if suffix[0] in "eE" and re.fullmatch(r"[+-]?[0-9]+", digits, re.ASCII):
        # Go reads an int64 and keeps its lower 32 bits.
        sign = -1 if digits[0] == "-" else 1
        magnitude = digits.lstrip("+-").lstrip("0") or "0"
        parsed = sign * int(magnitude) if len(magnitude) <= 19 else 2**64
        if -(2**63) <= parsed < 2**63:
            return 10, (parsed + 2**31) % 2**32 - 2**31, DECIMAL_EXPONENT
    raise QuantityError(text, f"there is no suffix {suffix[:32]!r}")


def _is_short(n_whole: int, n_fraction: int, *, base: int, exponent: int) -> bool:
    """Returns whether upstream parses it as one int64: then the text may be canonical."""
    if base == 10:
        return n_whole + n_fraction <= 18 and exponent - n_fraction >= -9
    return n_fraction == 0 and 15 - n_whole - exponent * 3 // 10 - 1 >= 0


def _parse_short(
    text: str, match: re.Match[str], *, base: int, exponent: int, form: str
) -> Quantity:
    whole, fraction = match["whole"], match["fraction"] or ""
    digits = (whole or "0") + fraction
    count = int(digits)
    sign = -1 if match["sign"] == "-" else 1
    if base == 2:
        written = text if count & 7 else ""
        return Quantity(sign * (count << exponent) * _NANOS, form, written)
    scale = exponent - len(fraction)
    is_canonical = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    nanos = sign * _decimal_nanos(digits, scale)
    written = text if is_canonical and len(digits) + scale <= _MAX_DIGITS else ""
    return Quantity(nanos, form, written)


def _decimal_nanos(digits: str, scale: int) -> int:
    """Returns ``digits * 10**scale`` in billionths, rounded up, at most 10**60 units."""
    digits = digits.lstrip("0")
    if not digits:
        return 0
    if len(digits) + scale > _MAX_DIGITS:
        return _LARGEST
    n_digits = len(digits) + scale + 9
    if n_digits <= 0:
        return 1
    if n_digits >= len(digits):
        return int(int(digits) * 10 ** (n_digits - len(digits)))
    has_remainder = digits[n_digits:].strip("0") != ""
    return int(digits[:n_digits]) + has_remainder


def _binary_nanos(whole: str, fraction: str, exponent: int) -> int:
    """Returns ``whole.fraction * 2**exponent`` in billionths, rounded up and capped."""
    if len(whole) > _MAX_DIGITS:
        return int(10**_MAX_DIGITS) * _NANOS
    digits = fraction[:_BINARY_FRACTION_DIGITS]
    if fraction[_BINARY_FRACTION_DIGITS:].strip("0"):
        digits += "1"
    count = int((whole + digits) or "0")
    return _divide_away_from_zero(count * _NANOS << exponent, int(10 ** len(digits)))


def _divide_away_from_zero(number: int, divisor: int) -> int:
    return -(-number // divisor) if number >= 0 else number // divisor


def wrap_int64(number: int) -> int:
    """Returns ``number`` wrapped to int64, as Go does on overflow.

    >>> wrap_int64(2**63)
    -9223372036854775808
    """
    if -MAX_INT64 <= number <= MAX_INT64:
        return number
    return (number + 2**63) % 2**64 - 2**63


def _int64(number: int) -> int:
    return max(-MAX_INT64 - 1, min(number, MAX_INT64))


def _canonical(nanos: int, form: str) -> str:
    if nanos == 0:
        return "0"
    sign, rest = ("-", -nanos) if nanos < 0 else ("", nanos)
    if form == BINARY_SI and rest >= 1024 * _NANOS and rest % _NANOS == 0:
        count, exponent = rest // _NANOS, 0
        while count % 1024 == 0:
            count, exponent = count // 1024, exponent + 10
        return f"{sign}{count}{_BINARY_SUFFIXES.get(exponent, '')}"
    exponent = -9
    while rest % 1000 == 0:
        rest, exponent = rest // 1000, exponent + 3
    if form == DECIMAL_EXPONENT:
        return f"{sign}{rest}e{exponent}" if exponent else f"{sign}{rest}"
    # Beyond E upstream has no suffix and drops it; so do we.
    return f"{sign}{rest}{_DECIMAL_SUFFIXES.get(exponent, '')}"
