"""Formats of strings in the schema of a definition, such as ``uri`` and ``mac``.

Source: k8s.io/kube-openapi pkg/validation/strfmt and its govalidator;
k8s.io/apiextensions-apiserver pkg/apiserver/validation/formats.go.
Differs: of an email address the parts around its @ are not parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Final

from mooring.apiserver.addresses import address_of, network_of, sloppy_address_of
from mooring.objects.go_durations import parse_duration_ns

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
#: After the "t" of a time; any character may stand before the fraction.
_CLOCK_TIME: Final = re.compile(
    r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})"
)
_LETTER: Final = r"a-zA-Z\p{L}"
_HOST_CHARACTER: Final = rf"{_LETTER}0-9\p{{S}}"
#: A name without dots may have a hyphen after its first character alone.
_HOSTNAME: Final = (
    rf"^([{_HOST_CHARACTER}](-?[{_HOST_CHARACTER}]{{0,62}})?"
    rf"|([{_HOST_CHARACTER}]([{_HOST_CHARACTER}-]{{0,61}}[{_HOST_CHARACTER}])?\.)+"
    rf"[{_LETTER}]{{2,63}})$"
)
_HOSTNAME_BYTES_MAX: Final = 255
_LABEL_BYTES_MAX: Final = 63
#: A number from 0 to 255 without leading zeros, and white space around it.
_COLOR: Final = r"[\t\n\f\r ]*(?:[1-9]?[0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*"
_CARD_NUMBER: Final = re.compile(
    r"4[0-9]{12}(?:[0-9]{3})?"
    r"|5[1-5][0-9]{14}"
    r"|6(?:011|5[0-9]{2})[0-9]{12}"
    r"|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}"
    r"|(?:2131|1800|35[0-9]{3})[0-9]{11}"
)
#: The ISBN may have white space and hyphens anywhere.
_BETWEEN_DIGITS: Final = re.compile(r"[\t\n\f\r -]+")
_MAC_OCTETS: Final = (6, 8, 20)
_AMOUNT: Final = re.compile(r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)")
#: Units of durations beside Go's own; a longer word may begin with one of the second row.
_UNITS: Final = frozenset({"ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"})
_UNIT_STARTS: Final = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_INT64_MAX: Final = 2**63 - 1


def has_format(name: str, text: str) -> bool:
    """Returns whether a text has a format; each text has a format that is not known.

    Args:
        name: Of the format; hyphens in it do not count.
        text: A value.
    """
    check = _CHECKS.get(name.replace("-", ""))
    if check is None:
        return True
    return check.fullmatch(text) is not None if isinstance(check, re.Pattern) else check(text)


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text if text[:4] != "0000" else f"2000{text[4:]}")
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    # As in upstream what follows a second "t" is not looked at.
    day, *rest = text.lower().split("t")
    match = _CLOCK_TIME.fullmatch(rest[0]) if rest else None
    return (
        match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"
    ) and _is_date(day)


def _is_duration(text: str) -> bool:
    """Returns whether Go reads a duration, or a part of the text is a number with a unit."""
    try:
        parse_duration_ns(text)
    except ValueError:
        pass
    else:
        return True
    amounts = _AMOUNT.findall(text)
    units = [unit.lower() for _, unit in amounts]
    return all(int(number) <= _INT64_MAX for number, _ in amounts) and any(
        unit in _UNITS or unit.startswith(_UNIT_STARTS) for unit in units
    )


def _is_hostname(text: str) -> bool:
    # Imported late: few clusters have custom resources.
    from mooring.cel.regex.pattern import compile_pattern

    labels = text.encode(errors="surrogatepass").split(b".")
    return (
        sum(map(len, labels)) + len(labels) - 1 <= _HOSTNAME_BYTES_MAX
        and max(map(len, labels)) <= _LABEL_BYTES_MAX
        and compile_pattern(_HOSTNAME).matches(text)
    )


def _is_uri(text: str) -> bool:
    from mooring.cel.golang.urls import URLProblem, parse_request_uri

    try:
        parse_request_uri(text)
    except URLProblem:
        return False
    return True


def _is_ipv4(text: str) -> bool:
    return "." in text and sloppy_address_of(text) is not None


def _is_ipv6(text: str) -> bool:
    return ":" in text and address_of(text) is not None


def _is_range(text: str) -> bool:
    return network_of(text) is not None


def _is_mac(text: str) -> bool:
    separator = text[2:3]
    if separator in (":", "-"):
        octets = text.split(separator)
        return len(octets) in _MAC_OCTETS and all(map(_is_hex_of(2), octets))
    groups = text.split(".")
    return 2 * len(groups) in _MAC_OCTETS and all(map(_is_hex_of(4), groups))


def _is_hex_of(n_digits: int) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(rf"[0-9a-fA-F]{{{n_digits}}}", text) is not None


def _is_isbn10(text: str) -> bool:
    digits = _BETWEEN_DIGITS.sub("", text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
        return False
    values = [10 if digit == "X" else int(digit) for digit in digits]
    return sum(number * value for number, value in enumerate(values, 1)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = _BETWEEN_DIGITS.sub("", text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    return sum(int(digit) * (1, 3)[at % 2] for at, digit in enumerate(digits)) % 10 == 0


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not _CARD_NUMBER.fullmatch(digits):
        return False
    # Every second digit from the end counts double, by the sum of its digits.
    total = sum(int(digit) for digit in digits[::-2])
    total += sum(sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return total % 10 == 0


_UUID_TEXT: Final = r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?%s-?%s-?[0-9a-f]{12}"
_FOUR: Final = "[0-9a-f]{4}"
_VARIANT: Final = "[89ab][0-9a-f]{3}"
_CHECKS: Final[dict[str, Callable[[str], bool] | re.Pattern[str]]] = {
    "bsonobjectid": re.compile(r"[0-9a-fA-F]{24}"),
    "uri": _is_uri,
    "email": re.compile(r"[^@\s]+@[^@\s]+"),
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "cidr": _is_range,
    "mac": _is_mac,
    "uuid": re.compile(_UUID_TEXT % (_FOUR, _FOUR)),
    "uuid3": re.compile(_UUID_TEXT % ("3[0-9a-f]{3}", _FOUR)),
    "uuid4": re.compile(_UUID_TEXT % ("4[0-9a-f]{3}", _VARIANT)),
    "uuid5": re.compile(_UUID_TEXT % ("5[0-9a-f]{3}", _VARIANT)),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": re.compile(r"[0-9]{3}[- ][0-9]{2}[- ][0-9]{4}"),  # its length must be 11
    "hexcolor": re.compile(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": re.compile(rf"rgb\({_COLOR},{_COLOR},{_COLOR}\)"),
    "byte": re.compile(
        r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
    ),
    "password": lambda _: True,
    "date": _is_date,
    "datetime": _is_date_time,
    "duration": _is_duration,
    "k8sshortname": re.compile(r"(?=.{1,63}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?"),
    "k8slongname": re.compile(
        r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
    ),
}
