"""Selectors as people and URLs write them: ``app=web,tier in (a,b),!old`` and ``spec.nodeName=n1``.

Source: apimachinery v0.36.3, pkg/labels/selector.go (Parse) and pkg/fields/selector.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from mooring.objects.selectors import (
    DOES_NOT_EXIST,
    EVERYTHING,
    EXISTS,
    GREATER,
    IN,
    LESS,
    NOT_IN,
    Requirement,
    Selector,
    SelectorError,
    requirement,
    selector_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Pods that have not finished: a finished one uses nothing and is never to be scheduled.
LIVING_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"

#: Longer texts are refused: a URL is at most some kilobytes, and so is what stands in it.
TEXT_LENGTH_MAX: Final = 65_536

_TOKEN = re.compile(r"==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+")
_SIGNS: Final = {"=": IN, "==": IN, "!=": NOT_IN, ">": GREATER, "<": LESS}
_SETS: Final = {"in": IN, "notin": NOT_IN}
_END: Final = ""


def parse_label_selector(text: str) -> Selector:
    """Returns the selector that a text such as ``app=web,tier in (a,b),!old`` stands for.

    An empty text selects everything. ``a=`` asks for the empty value, as does ``a in ()``.

    Raises:
        SelectorError: The text is not a selector, or a key or a value cannot be a label's.

    Example:
        >>> web = parse_label_selector("app=web, tier notin (test)")
        >>> web.matches({"app": "web"}), web.matches({"app": "web", "tier": "test"})
        (True, False)
    """
    _check_length(text)
    tokens = _Tokens(text)
    if tokens.next == _END:
        return EVERYTHING
    parsed = [_requirement(tokens)]
    while tokens.take_if(","):
        parsed.append(_requirement(tokens))
    if tokens.next != _END:
        raise tokens.surprise("',' or the end")
    return selector_of(parsed)


class _Tokens:
    """The words and signs of a text, one after another; the end is an empty word."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._rest = iter([*_TOKEN.findall(text), _END])
        self.next: str = next(self._rest)

    def take(self) -> str:
        taken = self.next
        self.next = next(self._rest, _END)
        return taken

    def take_if(self, sign: str) -> bool:
        is_there = self.next == sign
        if is_there:
            self.take()
        return is_there

    @property
    def next_is_word(self) -> bool:
        return self.next != _END and self.next[0] not in "=!(),<>"

    def surprise(self, expected: str) -> SelectorError:
        text_shown = self._text if len(self._text) <= 120 else self._text[:117] + "..."
        parsed = repr(self.next) if self.next != _END else "the end"
        return SelectorError(
            f"{text_shown!r} is not a selector: found {parsed} instead of {expected}"
        )


def _requirement(tokens: _Tokens) -> Requirement:
    is_absence = tokens.take_if("!")
    if not tokens.next_is_word:
        raise tokens.surprise("a label's name")
    key = tokens.take()
    if is_absence:
        return requirement(key, DOES_NOT_EXIST)
    if tokens.next in (_END, ","):
        return requirement(key, EXISTS)
    if tokens.next in _SETS:
        return requirement(key, _SETS[tokens.take()], _set_of_values(tokens))
    if tokens.next in _SIGNS:
        return requirement(key, _SIGNS[tokens.take()], (_single_value(tokens),))
    raise tokens.surprise("one of =, ==, !=, in, notin, >, <")


def _single_value(tokens: _Tokens) -> str:
    if tokens.next in (_END, ","):
        return ""
    if not tokens.next_is_word:
        raise tokens.surprise("a value")
    return tokens.take()


def _set_of_values(tokens: _Tokens) -> tuple[str, ...]:
    """Returns the values between the brackets; nothing between two commas is the empty value."""
    if not tokens.take_if("("):
        raise tokens.surprise("'('")
    values = [_value_in_set(tokens)]
    while tokens.take_if(","):
        values.append(_value_in_set(tokens))
    if not tokens.take_if(")"):
        raise tokens.surprise("',' or ')'")
    return tuple(values)


def _value_in_set(tokens: _Tokens) -> str:
    return tokens.take() if tokens.next_is_word else ""


class FieldRequirement(msgspec.Struct, frozen=True, gc=False):
    """A field that must have a value, or must not (``is_equal`` False)."""

    field: str
    value: str
    is_equal: bool = True


class FieldSelector(msgspec.Struct, frozen=True, gc=False):
    """Conditions on an object's fields that must all hold; without any, all objects are selected.

    Which fields can be asked for is up to the one who applies it: a missing field reads as "".
    """

    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Returns whether an object with these fields (dotted name -> value) is selected."""
        return all(
            (fields.get(condition.field, "") == condition.value) is condition.is_equal
            for condition in self.requirements
        )

    def exact(self, field: str) -> str | None:
        """Returns the one value that the field must have, or None if it may have several."""
        for condition in self.requirements:
            if condition.field == field and condition.is_equal:
                return condition.value
        return None

    def __str__(self) -> str:
        """Returns the selector as it is written in a URL's ``fieldSelector``."""
        return ",".join(
            f"{condition.field}{'=' if condition.is_equal else '!='}{_escaped(condition.value)}"
            for condition in self.requirements
        )


def parse_field_selector(text: str) -> FieldSelector:
    r"""Returns the selector of a text such as ``spec.nodeName=n1,status.phase!=Failed``.

    A comma, an equals sign and a backslash in a value are written with a backslash before them.

    Raises:
        SelectorError: A part of the text has no operator, or a stray comma or backslash.

    Example:
        >>> parse_field_selector("status.phase!=Failed").matches({"status.phase": "Running"})
        True
    """
    _check_length(text)
    parts = sorted(part for part in _split_at_commas(text) if part)
    return FieldSelector(tuple(_field_requirement(part, text) for part in parts))


def _field_requirement(part: str, text: str) -> FieldRequirement:
    parsed = re.match(r"(?P<field>.*?)(?P<sign>!=|==|=)", part, re.DOTALL)
    if parsed is None:
        raise SelectorError(f"{text[:120]!r} is not a field selector: no =, == or != in {part!r}")
    value = "".join(_unescaped(part[parsed.end() :]))
    return FieldRequirement(parsed["field"], value, is_equal=parsed["sign"] != "!=")


def _split_at_commas(text: str) -> list[str]:
    """Returns the parts between commas that no backslash protects."""
    return re.findall(r"(?:\\.|[^,\\]|\\\Z)+", text, re.DOTALL)


def _unescaped(value: str) -> Iterator[str]:
    characters = iter(value)
    for character in characters:
        if character in ",=":
            raise SelectorError(f"{value!r} has a {character!r} without a backslash before it")
        if character != "\\":
            yield character
            continue
        protected = next(characters, "")
        if protected not in ("\\", ",", "="):
            raise SelectorError(f"{value!r} has a backslash that protects nothing")
        yield protected


def _escaped(value: str) -> str:
    return re.sub(r"([\\,=])", r"\\\1", value)


def _check_length(text: str) -> None:
    if len(text) > TEXT_LENGTH_MAX:
        raise SelectorError(f"a selector must have at most {TEXT_LENGTH_MAX} characters")
