"""Go's text forms of simple values, with Go's error texts: what flags are parsed and printed with.

Source: Go's packages strconv, time, encoding/csv and net; apimachinery's resource.Quantity.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable
from decimal import Decimal
from ipaddress import IPv6Address, ip_address
from typing import Final

from mooring.objects.go_durations import parse_duration_ns
from mooring.objects.quantity import Quantity, QuantityError

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})

_DIGITS: Final = {2: "[01]", 8: "[0-7]", 10: "[0-9]", 16: "[0-9a-fA-F]"}
_PREFIXES: Final = {"0x": 16, "0b": 2, "0o": 8}

_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEX_FLOAT: Final = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+"
)
_SPECIAL_FLOATS: Final = frozenset({"inf", "infinity", "nan"})
_FLOAT32_MAX: Final = (2 - 2**-23) * 2.0**127
_FLOAT32_ROUNDS_TO_INFINITY: Final = (2 - 2**-24) * 2.0**127

_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


class GoError(ValueError):
    """A value that Go refuses; the message is Go's."""


def quote(text: str) -> str:
    r"""Returns a text as Go's %q prints it.

    Example:
        >>> print(quote('a "b"'), quote("a\n\x01é"))
        "a \"b\"" "a\n\x01é"
    """
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    # Go's IsPrint accepts the ASCII space only, as Python's isprintable does.
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    if 0xD800 <= code < 0xE000:  # a byte that is no UTF-8, as Python passes arguments
        return f"\\x{code & 0xFF:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def aggregate(messages: Iterable[str]) -> str:
    """Returns several error messages as one: in brackets, without duplicates.

    Example:
        >>> aggregate(["a", "b", "a"]), aggregate(["a"])
        ('[a, b]', 'a')
    """
    unique = list(dict.fromkeys(messages))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def parse_bool(text: str) -> bool:
    """Returns the value of a boolean.

    Raises:
        GoError: it is none of the twelve words.
    """
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise _syntax("ParseBool", text)


def parse_int(text: str, *, bits: int) -> int:
    """Returns a signed integer: decimal, or with the prefix 0x, 0b, 0o or 0, with underscores.

    Raises:
        GoError: it is no integer, or does not fit.
    """
    sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    base, digits = _without_prefix(digits)
    magnitude = _magnitude(digits, base)
    if magnitude is None:
        raise _syntax("ParseInt", text)
    number = -magnitude if sign == "-" else magnitude
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise _range("ParseInt", text)
    return number


def parse_uint(text: str, *, bits: int) -> int:
    """Returns an unsigned decimal integer.

    Raises:
        GoError: it is no such integer, or does not fit.
    """
    if not re.fullmatch("[0-9]+", text):
        raise _syntax("ParseUint", text)
    number = int(text) if len(text) < 30 else 1 << bits
    if number >= 1 << bits:
        raise _range("ParseUint", text)
    return number


def _without_prefix(digits: str) -> tuple[int, str]:
    base = _PREFIXES.get(digits[:2].lower())
    if base is not None:
        # An underscore may follow the prefix.
        return base, digits[2:].removeprefix("_") if digits[2:3] == "_" else digits[2:]
    if len(digits) > 1 and digits.startswith("0"):
        return 8, digits[1:].removeprefix("_")
    return 10, digits


def _magnitude(digits: str, base: int) -> int | None:
    if not re.fullmatch(rf"{_DIGITS[base]}+(?:_{_DIGITS[base]}+)*", digits):
        return None
    short = digits.replace("_", "").lstrip("0")
    return int(short[:80] or "0", base)


def parse_float32(text: str) -> float:
    """Returns a float of 32 bits.

    Raises:
        GoError: it is no number, or too large.
    """
    if text.lstrip("+-").lower() in _SPECIAL_FLOATS and len(text) - len(text.lstrip("+-")) < 2:
        return float(text)
    if _HEX_FLOAT.fullmatch(text):
        number = float.fromhex(text)
    elif _FLOAT.fullmatch(text):
        number = float(text)
    else:
        raise _syntax("ParseFloat", text)
    if abs(number) >= _FLOAT32_ROUNDS_TO_INFINITY:
        raise _range("ParseFloat", text)
    if abs(number) > _FLOAT32_MAX:
        number = math.copysign(_FLOAT32_MAX, number)
    rounded: float = struct.unpack("f", struct.pack("f", number))[0]
    return rounded


def float32_text(number: float) -> str:
    """Returns the shortest text of a float of 32 bits, as Go's format 'g' prints it.

    Example:
        >>> [float32_text(n) for n in (50.0, 0.1, 1e6, -2.5)]
        ['50', '0.1', '1e+06', '-2.5']
    """
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    if math.isnan(number):
        return "NaN"
    packed = struct.pack("f", number)
    shortest = next(
        (
            text
            for digits in range(9)
            if struct.pack("f", float(text := f"{number:.{digits}e}")) == packed
        ),
        repr(number),
    )
    exponent = int(shortest.partition("e")[2])
    if -4 <= exponent < 21 and exponent < 6:
        return f"{Decimal(shortest):f}"
    mantissa, _, _ = shortest.partition("e")
    sign = "-" if exponent < 0 else "+"
    return f"{mantissa}e{sign}{abs(exponent):02d}"


def parse_duration_s(text: str) -> float:
    """Returns the seconds of a duration such as "1m30s".

    Raises:
        GoError: it is no duration, or longer than 292 years.
    """
    try:
        return parse_duration_ns(text) / 10**9
    except ValueError as error:
        raise GoError(str(error)) from None


def parse_csv(text: str) -> tuple[str, ...]:
    """Returns the fields of one line of comma-separated values.

    Raises:
        GoError: a quotation mark is where none may be.
    """
    if not text:
        return ()
    lines = text.split("\n")
    line = next((candidate for candidate in lines if candidate not in ("", "\r")), None)
    if line is None:
        raise GoError("EOF")
    fields: list[str] = []
    position = 0
    while True:
        if line[position : position + 1] == '"':
            field, position = _quoted_field(line, position + 1)
        else:
            end = line.find(",", position)
            end = len(line) if end < 0 else end
            field = line[position:end]
            if '"' in field:
                column = position + len(field[: field.index('"')].encode()) + 1
                raise GoError(f'parse error on line 1, column {column}: bare " in non-quoted-field')
            position = end
        fields.append(field)
        if position >= len(line):
            return tuple(fields)
        position += 1


def _quoted_field(line: str, start: int) -> tuple[str, int]:
    """Returns a field in quotation marks, and the position after it."""
    field, position = "", start
    while True:
        end = line.find('"', position)
        if end < 0:
            column = len(line.encode()) + 1
            raise GoError(
                f'parse error on line 1, column {column}: extraneous or missing " in quoted-field'
            )
        field += line[position:end]
        following = line[end + 1 : end + 2]
        if following == '"':
            field += '"'
            position = end + 2
            continue
        if following not in ("", ","):
            column = len(line[:end].encode()) + 1
            raise GoError(
                f'parse error on line 1, column {column}: extraneous or missing " in quoted-field'
            )
        return field, end + 1


def csv_text(fields: Iterable[str]) -> str:
    """Returns fields as one line of comma-separated values."""
    return ",".join(map(_csv_field, fields))


def _csv_field(field: str) -> str:
    if field == r"\." or (field and (set(field) & set(',"\r\n') or field[0].isspace())):
        return '"' + field.replace('"', '""') + '"'
    return field


def parse_ip(text: str) -> str:
    """Returns an IP address in its canonical form.

    Raises:
        GoError: it is none.
    """
    try:
        if "%" in text:
            raise ValueError
        address = ip_address(text.strip())
    except ValueError:
        raise GoError(f"failed to parse IP: {quote(text)}") from None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def parse_quantity(text: str) -> Quantity:
    """Returns a quantity such as "64Ki".

    Raises:
        GoError: it is no quantity.
    """
    try:
        return Quantity.parse(text)
    except QuantityError:
        pass
    if not re.fullmatch(r"[+-]?[0-9.]+[eEinumkKMGTP]*[-+]?[0-9]*", text):
        raise GoError(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    raise GoError("unable to parse quantity's suffix")


def _syntax(function: str, text: str) -> GoError:
    return GoError(f"strconv.{function}: parsing {quote(text)}: invalid syntax")


def _range(function: str, text: str) -> GoError:
    return GoError(f"strconv.{function}: parsing {quote(text)}: value out of range")
