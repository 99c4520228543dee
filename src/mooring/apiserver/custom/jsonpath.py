"""JSON paths of printer columns, in the whole language of kubectl's templates.

Names, ``['name']``, indexes, slices, unions, ``*``, ``..`` and filters are read. Selectable fields
and the scale subresource have simpler paths: ``paths``.

Source: k8s.io/client-go v0.36.3, util/jsonpath (parser.go, jsonpath.go).
Differs: a column with ``range`` and ``end`` has no value.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from mooring.objects.selectors import parse_int64
from mooring.objects.text_cache import text_cache

_CACHE_SIZE: Final = 512
#: Longer paths are parsed each time.
_CACHED_CHARS_MAX: Final = 1024
_QUOTED_KEY: Final = re.compile(r"'([^']*)'", re.DOTALL)
_SLICE: Final = re.compile(r"(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?")
_COMPARISON: Final = re.compile(r"([^!<>=]+)([!<>=]+)(.+?)", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?[0-9.]*")
_WORD_END: Final = frozenset(" \t\r\n.,[]$@{}")
_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = MappingProxyType(
    {
        "==": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }
)


class JsonPathError(ValueError):
    """A path that cannot be read, or that does not apply to an object."""


class Name(NamedTuple):
    """The value of a key."""

    key: str


class Slice(NamedTuple):
    """Elements of a list; None = not given. ``is_index``: one element."""

    start: int | None
    stop: int | None
    step: int | None
    is_index: bool


class Filter(NamedTuple):
    """The elements of a list for which a comparison holds, or ``left`` exists."""

    left: tuple[Any, ...]
    comparison: str = ""
    right: tuple[Any, ...] = ()


class Union(NamedTuple):
    """The values at several paths."""

    paths: tuple[tuple[Any, ...], ...]


class Literal(NamedTuple):
    """A text, a number or a boolean."""

    value: str | float | bool


class Word(NamedTuple):
    """``*``, ``..``, or a word of the templates such as ``range``."""

    text: str


Step: TypeAlias = Name | Slice | Filter | Union | Literal | Word
Path: TypeAlias = tuple[Step, ...]


@text_cache(_CACHE_SIZE, chars_max=_CACHED_CHARS_MAX)
def parse(text: str) -> Path:
    """Returns the steps of a path.

    Raises:
        JsonPathError: it cannot be read.

    Example:
        >>> parse(".spec.parts[0]['name']")
        (Name(key='spec'), Name(key='parts'), Slice(start=0, stop=1, step=None, is_index=True), \
Name(key='name'))
    """
    return tuple(_Parser(text).steps())


def evaluate(path: Path, obj: Any) -> list[Any]:
    """Returns the values at a path; none if a key is missing.

    Raises:
        JsonPathError: the path does not apply, as an index to an object or beyond a list.
    """
    values = [obj]
    for step in path:
        values = _EVALUATE[type(step)](step, values)
    return values


class _Parser:
    """Reads a path from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def steps(self) -> list[Step]:
        """Returns the steps up to the end, or to a closing brace."""
        steps: list[Step] = []
        while self._position < len(self._text):
            rest = self._text[self._position :]
            if rest[0] == "}":
                break
            if rest[0] in " @$":
                self._position += 1
            elif rest.startswith("[?("):
                steps.append(self._filter())
            elif rest.startswith(".."):
                if steps and steps[-1] == Word(".."):
                    raise JsonPathError("invalid multiple recursive descent")
                self._position += 2
                steps.append(Word(".."))
                if self._text[self._position :][:1].isalnum() or rest[2:3] == "_":
                    steps.append(self._name())
            elif rest[0] == "[":
                steps += self._brackets()
            elif rest[0] == ".":
                self._position += 1
                steps.append(self._name())
            else:
                steps.append(self._literal(rest))
        return steps

    def _name(self) -> Step:
        start = self._position
        while self._position < len(self._text) and self._text[self._position] not in _WORD_END:
            self._position += 2 if self._text[self._position] == "\\" else 1
        name = self._text[start : self._position]
        return Word("*") if name == "*" else Name(name.replace("\\", ""))

    def _literal(self, rest: str) -> Step:
        if rest[0] in "'\"":
            end = 1
            while end < len(rest) and (rest[end] != rest[0] or rest[end - 1] == "\\"):
                end += 1
            if end >= len(rest):
                raise JsonPathError("unterminated quoted string")
            self._position += end + 1
            return Literal(re.sub(r"\\(.)", r"\1", rest[1:end]))
        if rest[0] in "+-" or rest[0].isdigit():
            match = _NUMBER.match(rest)
            number = match.group() if match is not None else ""
            self._position += len(number)
            try:
                return Literal(int(number) if "." not in number else float(number))
            except ValueError:
                raise JsonPathError(f"cannot parse number {number}") from None
        if rest[0] == "_" or rest[0].isalnum():
            word = re.split(r"[ \t\r\n.,\[\]$@{}]", rest, maxsplit=1)[0]
            self._position += len(word)
            return Literal(word == "true") if word in ("true", "false") else Word(word)
        raise JsonPathError(f"unrecognized character in action: {rest[0]}")

    def _brackets(self) -> list[Step]:
        end = self._text.find("]", self._position)
        if end < 0 or "\n" in self._text[self._position : end]:
            raise JsonPathError("unterminated array")
        text = self._text[self._position + 1 : end]
        self._position = end + 1
        if text == "*":
            text = ":"
        parts = text.split(",")
        if len(parts) > 1:
            return [Union(tuple(parse(f"[{part.strip(' ')}]") for part in parts))]
        if quoted := _QUOTED_KEY.fullmatch(text):
            return list(parse(f".{quoted[1]}"))
        match = _SLICE.fullmatch(text)
        if match is None:
            raise JsonPathError(f"invalid array index {text}")
        start, stop, step = (_index((part or "").removeprefix(":")) for part in match.groups())
        if match[2] is None:
            return [Slice(start, (start or 0) + 1, step, is_index=True)]
        return [Slice(start, stop, step, is_index=False)]

    def _filter(self) -> Step:
        start = self._position = self._position + 3
        quote, is_closed = "", False
        while True:
            if self._position >= len(self._text) or self._text[self._position] == "\n":
                raise JsonPathError("unterminated filter")
            character = self._text[self._position]
            self._position += 1
            if character in "'\"":
                if not quote:
                    quote = character
                elif character == quote and self._text[self._position - 2] != "\\":
                    is_closed = True
            elif character == ")" and bool(quote) == is_closed:
                break
        inner = self._text[start : self._position - 1]
        if self._text[self._position :][:1] != "]":
            raise JsonPathError("unclosed array expect ]")
        self._position += 1
        match = _COMPARISON.fullmatch(inner)
        if match is None:
            return Filter(parse(inner))
        return Filter(parse(match[1]), match[2], parse(match[3]))


# -- evaluation -----------------------------------------------------------------------------------


def _key(step: Name, values: list[Any]) -> list[Any]:
    return [value[step.key] for value in values if isinstance(value, dict) and step.key in value]


def _slice(step: Slice, values: list[Any]) -> list[Any]:
    result: list[Any] = []
    for value in values:
        if value is None:
            continue
        if not isinstance(value, list):
            raise JsonPathError(f"{type(value).__name__} is not array or slice")
        length = len(value)
        start = step.start or 0
        start += length if start < 0 else 0
        stop = length if step.stop is None else step.stop
        if stop < 0 or (stop == 0 and step.is_index):
            stop += length
        if start == stop:
            return result
        if not (0 <= start < length and 0 <= stop <= length and start <= stop):
            raise JsonPathError("array index out of bounds")
        if step.step is not None and step.step <= 0:
            raise JsonPathError("step must be > 0")
        result += value[start : stop : step.step or 1]
    return result


def _filtered(step: Filter, values: list[Any]) -> list[Any]:
    result: list[Any] = []
    for value in values:
        if not isinstance(value, list):
            raise JsonPathError(f"{value} is not array or slice and cannot be filtered")
        result += [item for item in value if _holds(step, item)]
    return result


def _holds(step: Filter, item: Any) -> bool:
    if not step.comparison:
        try:
            return bool(evaluate(step.left, item))
        except JsonPathError:
            return False
    sides = [evaluate(step.left, item)]
    if sides[0]:
        sides.append(evaluate(step.right, item))
    if any(len(side) > 1 for side in sides):
        raise JsonPathError("can only compare one element at a time")
    if not all(sides):
        return False
    (left,), (right,) = sides
    kinds = {_comparable_kind(left), _comparable_kind(right)}
    has_order = step.comparison in ("==", "!=") or bool not in kinds
    if len(kinds) > 1 or not has_order or step.comparison not in _COMPARE:
        raise JsonPathError("invalid type for comparison")
    return _COMPARE[step.comparison](left, right)


def _comparable_kind(value: Any) -> type:
    if type(value) not in (str, int, float, bool):
        raise JsonPathError("invalid type for comparison")
    return type(value)


def _union(step: Union, values: list[Any]) -> list[Any]:
    result = []
    for path in step.paths:
        found_values = values
        for inner in path:
            found_values = _EVALUATE[type(inner)](inner, found_values)
        result += found_values
    return result


def _literal(step: Literal, values: list[Any]) -> list[Any]:
    return [step.value] if isinstance(step.value, str) else [step.value] * len(values)


def _word(step: Word, values: list[Any]) -> list[Any]:
    if step.text == "..":
        return [inner for value in values for inner in _containers(value)]
    if step.text != "*":
        raise JsonPathError(f"unrecognized identifier {step.text}")
    return [child for value in values for child in _children(value)]


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _containers(value: Any) -> list[Any]:
    """Returns a value and all below it that have children; a text has its bytes."""
    if isinstance(value, str):
        return [value] if value else []
    children = _children(value)
    if not children:
        return []
    return [value, *(inner for child in children for inner in _containers(child))]


_EVALUATE: Final[Mapping[type, Callable[[Any, list[Any]], list[Any]]]] = MappingProxyType(
    {
        Name: _key,
        Slice: _slice,
        Filter: _filtered,
        Union: _union,
        Literal: _literal,
        Word: _word,
    }
)


def _index(text: str) -> int | None:
    """Returns a number of an array's brackets; None if it is absent.

    Raises:
        JsonPathError: It is larger than an int64.
    """
    if text in ("", "-"):
        return None
    number = parse_int64(text)
    if number is None:
        raise JsonPathError(f"array index {text} is not a number")
    return number
