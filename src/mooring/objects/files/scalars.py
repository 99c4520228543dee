"""Resolves plain YAML scalars to strings, numbers, booleans and null.

kubectl and kube-scheduler read YAML 1.1 as the Go library does, and this is the same reading:
``yes`` and ``on`` are booleans, ``017`` and ``0o17`` are fifteen, dates and ``1:30`` are strings.
PyYAML's own reading differs (``y``, ``1e3``, ``1:30``, dates), so it is not used.

Source: the module go.yaml.in/yaml/v2, resolve.go, and what sigs.k8s.io/yaml makes JSON of.
"""

from __future__ import annotations

import math
import re

Scalar = str | int | float | bool | None

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE"), True),
    **dict.fromkeys(("on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE"), False),
    **dict.fromkeys(("off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}

#: A word that begins otherwise is a string, whatever follows.
_FIRST_OF_OTHERS = frozenset("+-.0123456789yYnNtTfFoO~")

_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INTEGERS = (
    (re.compile(r"([-+]?)0[xX]([0-9a-fA-F]+)"), 16),
    (re.compile(r"([-+]?)0[bB]([01]+)"), 2),
    (re.compile(r"([-+]?)0[oO]?([0-7]+)"), 8),
    (re.compile(r"([-+]?)([1-9][0-9]*|0)"), 10),
)
#: Of the longest number within uint64, which is binary.
INTEGER_DIGITS_MAX = 64
_INT64_MIN = -(2**63)
_UINT64_MAX = 2**64 - 1
#: From here on Go prints a float with an exponent, which Kubernetes does not take for an integer.
_WHOLE_FLOAT_MAX = 1e21


def resolve(word: str) -> Scalar:
    """Returns the value of an unquoted word.

    Whole floats come back as int, since that is what is left of them after YAML became JSON.

    Example:
        >>> [resolve(w) for w in ("on", "0o17", "1e3", "1:30", "2020-01-01", "~")]
        [True, 15, 1000, '1:30', '2020-01-01', None]
    """
    if not word:
        return None
    if word[0] not in _FIRST_OF_OTHERS:
        return word
    if word in _WORDS:
        return _WORDS[word]
    if word[0] in "yYnNtTfFoO~":
        return word
    return _number(word)


def _number(word: str) -> Scalar:
    plain = word if word[0] == "." else word.replace("_", "")
    if word[0] != ".":
        whole = _integer(plain)
        if whole is not None:
            return whole
    if not _FLOAT.fullmatch(plain):
        return word
    value = float(plain)
    if math.isinf(value):
        return word
    if value.is_integer() and abs(value) < _WHOLE_FLOAT_MAX:
        return int(value)
    return value


def _integer(plain: str) -> int | None:
    """Returns a number within int64, or uint64 without sign; a leading 0 means octal."""
    for pattern, base in _INTEGERS:
        match = pattern.fullmatch(plain)
        if match is None:
            continue
        sign, digits = match.groups()
        if len(digits.lstrip("0")) > INTEGER_DIGITS_MAX:
            return None  # Python refuses to convert thousands of digits
        value = int(digits, base) * (-1 if sign == "-" else 1)
        is_unsigned = not sign and value <= _UINT64_MAX
        return value if is_unsigned or _INT64_MIN <= value < 2**63 else None
    return None
