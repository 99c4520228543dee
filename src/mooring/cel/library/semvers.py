"""Semantic versions.

Source: apiserver v0.36.3, pkg/cel/library/semverlib.go and pkg/cel/semver.go; blang/semver v4.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from mooring.cel.declarations import Function, Overload, function, method
from mooring.cel.types import BOOL, INT, SEMVER, STRING
from mooring.cel.values import NO_OVERLOAD, ErrorValue, Value
from mooring.objects.go_text import go_quote
from mooring.objects.text_cache import text_cache

#: A part of a prerelease: numbers come before texts.
_Part: TypeAlias = tuple[int, int, str]

_ALPHANUMERIC = re.compile(r"[0-9A-Za-z-]*")
_DIGITS = re.compile(r"[0-9]*")


class Semver:
    """A semantic version; build metadata do not count in comparisons."""

    __slots__ = ("key", "text")
    cel_type = SEMVER

    def __init__(self, text: str, numbers: tuple[int, int, int], pre: tuple[_Part, ...]) -> None:
        self.text = text
        #: Orders versions: one without prerelease comes after those with.
        self.key = (*numbers, not pre, pre)

    def equals(self, other: Value) -> bool | ErrorValue:
        """Returns whether versions are equal; other types are refused."""
        return self.key == other.key if isinstance(other, Semver) else NO_OVERLOAD

    def __str__(self) -> str:
        return self.text


class _Invalid(Exception):
    """A text that is not a version."""


@text_cache(4096)
def parse(text: str) -> Semver | ErrorValue:
    """Returns the version of a text, or the error of blang/semver.

    >>> parse("1.2").message
    'No Major.Minor.Patch elements found'
    """
    try:
        return _parsed(text)
    except _Invalid as problem:
        return ErrorValue(str(problem))


def _parsed(text: str) -> Semver:
    if not text:
        raise _Invalid("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise _Invalid("No Major.Minor.Patch elements found")
    major = _number(parts[0], "major number", "Major number")
    minor = _number(parts[1], "minor number", "Minor number")
    rest, _, build = parts[2].partition("+")
    has_build = "+" in parts[2]
    patch_text, dash, prerelease = rest.partition("-")
    patch = _number(patch_text, "patch number", "Patch number")
    pre = tuple(_prerelease(part) for part in prerelease.split(".")) if dash else ()
    for part in build.split(".") if has_build else ():
        if not part:
            raise _Invalid("Build meta data is empty")
        if not _ALPHANUMERIC.fullmatch(part):
            raise _Invalid(f"Invalid character(s) found in build meta data {go_quote(part)}")
    return Semver(_text(major, minor, patch, prerelease, build), (major, minor, patch), pre)


def _text(major: int, minor: int, patch: int, prerelease: str, build: str) -> str:
    head = f"{major}.{minor}.{patch}"
    return head + (f"-{prerelease}" if prerelease else "") + (f"+{build}" if build else "")


def _number(text: str, name: str, name_at_start: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise _Invalid(f"Invalid character(s) found in {name} {go_quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise _Invalid(f"{name_at_start} must not contain leading zeroes {go_quote(text)}")
    return _uint64(text)


def _uint64(text: str) -> int:
    if not text:
        raise _Invalid('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or int(text) >= 2**64:
        raise _Invalid(f"strconv.ParseUint: parsing {go_quote(text)}: value out of range")
    return int(text)


def _prerelease(text: str) -> _Part:
    if not text:
        raise _Invalid("Prerelease is empty")
    if _DIGITS.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            raise _Invalid(
                f"Numeric PreRelease version must not contain leading zeroes {go_quote(text)}"
            )
        return 0, _uint64(text), ""
    if not _ALPHANUMERIC.fullmatch(text):
        raise _Invalid(f"Invalid character(s) found in prerelease {go_quote(text)}")
    return 1, 0, text


def _normalized(text: str) -> Semver | ErrorValue:
    """Parses a version after dropping ``v`` and leading zeros and adding missing parts."""
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            digits = part.lstrip("0")
            parts[index] = digits if digits and digits[0] in "0123456789" else "0" + digits
    if len(parts) < 3:
        if any(mark in parts[-1] for mark in "+-"):
            return ErrorValue("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return parse(".".join(parts))


def _semver(text: str, normalize: bool = False) -> Value:
    return _normalized(text) if normalize else parse(text)


def _is_semver(text: str, normalize: bool = False) -> bool:
    return not isinstance(_semver(text, normalize), ErrorValue)


def _is_greater(left: Semver, right: Semver) -> bool:
    return left.key > right.key


def _is_less(left: Semver, right: Semver) -> bool:
    return left.key < right.key


def _compare(left: Semver, right: Semver) -> int:
    return (left.key > right.key) - (left.key < right.key)


def _part(index: int, value: Semver) -> int:
    # Upstream converts the unsigned number to int64.
    number = int(str(value.key[index]))
    return number if number < 2**63 else number - 2**64


_TWO: Final = (SEMVER, SEMVER)

LIBRARY: Final[dict[str, Function | list[Overload]]] = {
    "semver": [
        function("string_to_semver", (STRING,), SEMVER, parse),
        function("string_bool_to_semver", (STRING, BOOL), SEMVER, _semver),
    ],
    "isSemver": [
        function("is_semver_string", (STRING,), BOOL, _is_semver),
        function("is_semver_string_bool", (STRING, BOOL), BOOL, _is_semver),
    ],
    "isGreaterThan": [method("semver_is_greater_than", _TWO, BOOL, _is_greater)],
    "isLessThan": [method("semver_is_less_than", _TWO, BOOL, _is_less)],
    "compareTo": [method("semver_compare_to", _TWO, INT, _compare)],
    "major": [method("semver_major", (SEMVER,), INT, lambda value: _part(0, value))],
    "minor": [method("semver_minor", (SEMVER,), INT, lambda value: _part(1, value))],
    "patch": [method("semver_patch", (SEMVER,), INT, lambda value: _part(2, value))],
}
