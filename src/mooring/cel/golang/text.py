"""Floating point numbers as Go's standard library writes and reads them.

Source: Go's strconv and fmt packages.
"""

from __future__ import annotations

import re
from typing import Final

#: Powers of ten from here on are written with an exponent.
_EXPONENT_FROM: Final = 6
_FLOAT = re.compile(
    r"[+-]?(?:(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?|inf(?:inity)?|nan)",
    re.IGNORECASE,
)
_HEX_FLOAT = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]++(?:\.[0-9a-fA-F]*+)?|\.[0-9a-fA-F]++)[pP][+-]?[0-9]++"
)


def shortest(number: float) -> str:
    """Returns a double without exponent, with as few digits as needed (``'f', -1``)."""
    special = _special(number)
    if special:
        return special
    text = repr(number)
    if "e" not in text:
        return text.removesuffix(".0")
    mantissa, exponent = text.split("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    power = int(exponent)
    if power >= 0:
        return sign + whole + fraction.ljust(power, "0")
    return f"{sign}0." + "0" * (-power - 1) + whole + fraction


def general(number: float) -> str:
    """Returns a double as ``%g`` does: with an exponent below 1e-4, and from 1e6 on.

    >>> general(1.5), general(1e21), general(100000.0)
    ('1.5', '1e+21', '100000')
    """
    special = _special(number)
    if special:
        return special
    if number == 0:
        return "-0" if str(number)[0] == "-" else "0"
    digits = repr(number)
    mantissa = digits.split("e")[0].replace(".", "").lstrip("-").strip("0")
    power = _power(digits)
    if -4 <= power < _EXPONENT_FROM:
        return shortest(number)
    sign = "-" if number < 0 else ""
    fraction = f".{mantissa[1:]}" if len(mantissa) > 1 else ""
    return f"{sign}{mantissa[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _power(text: str) -> int:
    """Returns the decimal exponent of a number written by ``repr``."""
    head, _, exponent = text.partition("e")
    whole, _, fraction = head.lstrip("-").partition(".")
    if whole.strip("0"):
        return len(whole.lstrip("0")) - 1 + int(exponent or "0")
    return -(len(fraction) - len(fraction.lstrip("0")) + 1) + int(exponent or "0")


def _special(number: float) -> str:
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "+Inf" if number > 0 else "-Inf"
    return ""


def parse_float(text: str) -> float | None:
    """Returns the double of a text, or None where Go's ``ParseFloat`` fails."""
    if _HEX_FLOAT.fullmatch(text):
        try:
            return float.fromhex(text)
        except OverflowError:
            return None
    if "_" in text or not _FLOAT.fullmatch(text):
        return None
    number = float(text)
    is_named = text.lstrip("+-")[0] in "iInN"
    return number if is_named or number not in (float("inf"), float("-inf")) else None
