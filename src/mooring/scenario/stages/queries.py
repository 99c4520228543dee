"""Queries in objects: the part of the jq language that Stage documents use.

Paths (``.metadata.labels["a"]``, ``.status.conditions.[]``, ``.spec.containers[0]``), pipes, and
``select`` with comparisons. Everything else is an error when the query is compiled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

#: From one value to several values.
_Step: TypeAlias = Callable[[Any], Iterator[Any]]
_TOKEN: Final = re.compile(
    r"""\s*(?:
    (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<number>-?[0-9]+(?:\.[0-9]+)?)
  | (?P<field>\.[A-Za-z_][A-Za-z0-9_]*)
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<symbol>==|!=|//|[.\[\]()|?,])
    )""",
    re.VERBOSE,
)
_LITERALS: Final = {"true": True, "false": False, "null": None}
#: Longer queries are refused.
_LENGTH_MAX: Final = 4096
#: Parentheses nest at most so deep.
_DEPTH_MAX: Final = 32


class QueryError(ValueError):
    """A text is not a query of the supported part of the language; the message says why."""


class _NoValueError(Exception):
    """A step does not apply to a value, such as a field of a number."""


class Query:
    """A compiled query.

    Args:
        text: In the jq language.

    Raises:
        QueryError: it is no query, or uses another part of the language.

    Example:
        >>> query = Query('.conditions.[] | select( .type == "Ready" ) | .status')
        >>> query.values({"conditions": [{"type": "Ready", "status": "True"}]})
        ['True']
        >>> query.values({}) is None
        True
    """

    def __init__(self, text: str) -> None:
        self.text = text
        parser = _Parser(text)
        self._steps = parser.pipe()
        parser.expect_end()

    def values(self, value: Any) -> list[Any] | None:
        """Returns the results for a value; None if a step does not apply to what is there."""
        try:
            return list(_run(self._steps, value))
        except _NoValueError:
            return None


def _run(steps: list[_Step], value: Any) -> Iterator[Any]:
    values = iter([value])
    for step in steps:
        values = _each(step, values)
    return values


def _each(step: _Step, values: Iterator[Any]) -> Iterator[Any]:
    for value in values:
        yield from step(value)


# -- steps --------------------------------------------------------------------------------------


def _field(name: str) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if value is None:
            yield None
        elif isinstance(value, dict):
            yield value.get(name)
        else:
            raise _NoValueError

    return step


def _element(position: int) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        if value is None:
            yield None
        elif isinstance(value, list):
            yield value[position] if -len(value) <= position < len(value) else None
        else:
            raise _NoValueError

    return step


def _elements(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value
    else:
        raise _NoValueError


def _optional(step: _Step) -> _Step:
    def optional(value: Any) -> Iterator[Any]:
        try:
            yield from step(value)
        except _NoValueError:
            return

    return optional


def _select(condition: _Step) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        for result in condition(value):
            if result is not None and result is not False:
                yield value

    return step


def _literal(value: Any) -> _Step:
    def step(_: Any) -> Iterator[Any]:
        yield value

    return step


def _compared(left: _Step, right: _Step, *, is_equal: bool) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        for second in right(value):
            for first in left(value):
                # In Python 1 == True, in JSON not.
                same = first == second and isinstance(first, bool) == isinstance(second, bool)
                yield same is is_equal

    return step


def _joined(left: _Step, right: _Step, *, needs_both: bool) -> _Step:
    def step(value: Any) -> Iterator[Any]:
        for first in left(value):
            is_true = first is not None and first is not False
            if is_true is not needs_both:
                yield is_true
                continue
            for second in right(value):
                yield second is not None and second is not False

    return step


# -- parsing ------------------------------------------------------------------------------------


class _Parser:
    """A recursive descent over the tokens of a text."""

    def __init__(self, text: str) -> None:
        if len(text) > _LENGTH_MAX:
            raise QueryError(f"is longer than {_LENGTH_MAX} characters")
        self._tokens: list[tuple[str, str]] = []
        end = 0
        text = text.rstrip()
        while end < len(text):
            match = _TOKEN.match(text, end)
            if match is None:
                raise QueryError(
                    f"has a part that is not supported: {text[end : end + 20].strip()}"
                )
            self._tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
            end = match.end()
        if not self._tokens:
            raise QueryError("is empty")
        self._at = 0
        self._depth = 0

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "")

    def _next(self) -> tuple[str, str]:
        token = self._peek()
        self._at += 1
        return token

    def _takes(self, symbol: str) -> bool:
        if self._peek() == ("symbol", symbol):
            self._at += 1
            return True
        return False

    def _expect(self, symbol: str) -> None:
        if not self._takes(symbol):
            raise QueryError(f"must have {symbol} where it has {self._peek()[1] or 'its end'}")

    def expect_end(self) -> None:
        """Raises an error if there is more text."""
        if self._peek()[0] != "end":
            raise QueryError(f"has a part that is not supported: {self._peek()[1]}")

    def pipe(self) -> list[_Step]:
        """Returns the steps of a pipe."""
        steps = self._term()
        while self._takes("|"):
            steps += self._term()
        return steps

    def _term(self) -> list[_Step]:
        kind, text = self._peek()
        if kind == "word" and text == "select":
            self._next()
            self._expect("(")
            condition = self._condition()
            self._expect(")")
            return [_select(condition)]
        if kind == "field" or text == ".":
            return self._path()
        raise QueryError(f"has a part that is not supported: {text or 'its end'}")

    def _path(self) -> list[_Step]:
        steps: list[_Step] = []
        while True:
            kind, text = self._peek()
            if kind == "field":
                self._next()
                steps.append(_field(text[1:]))
            elif text == ".":
                self._next()
                following = self._peek()
                if following[0] == "string":
                    self._next()
                    steps.append(_field(_unquoted(following[1])))
                elif steps and following[1] != "[":
                    raise QueryError("must have a field after a point")
            elif text == "[":
                self._next()
                steps.append(self._bracket())
            elif text == "?" and steps:
                self._next()
                steps.append(_optional(steps.pop()))
            else:
                return steps

    def _bracket(self) -> _Step:
        kind, text = self._next()
        if text == "]":
            return _elements
        if kind == "string":
            step = _field(_unquoted(text))
        elif kind == "number" and "." not in text:
            step = _element(int(text))
        else:
            raise QueryError(f"has a part in brackets that is not supported: {text}")
        self._expect("]")
        return step

    def _condition(self) -> _Step:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise QueryError(f"nests deeper than {_DEPTH_MAX} levels")
        left = self._conjunction()
        while self._peek() == ("word", "or"):
            self._next()
            left = _joined(left, self._conjunction(), needs_both=False)
        self._depth -= 1
        return left

    def _conjunction(self) -> _Step:
        left = self._comparison()
        while self._peek() == ("word", "and"):
            self._next()
            left = _joined(left, self._comparison(), needs_both=True)
        return left

    def _comparison(self) -> _Step:
        left = self._operand()
        for symbol in ("==", "!="):
            if self._takes(symbol):
                return _compared(left, self._operand(), is_equal=symbol == "==")
        return left

    def _operand(self) -> _Step:
        kind, text = self._peek()
        if kind == "string":
            self._next()
            return _literal(_unquoted(text))
        if kind == "number":
            self._next()
            return _literal(float(text) if "." in text else int(text))
        if kind == "word" and text in _LITERALS:
            self._next()
            return _literal(_LITERALS[text])
        if self._takes("("):
            condition = self._condition()
            self._expect(")")
            return condition
        steps = self._term()

        def operand(value: Any) -> Iterator[Any]:
            return _run(steps, value)

        return operand


def _unquoted(text: str) -> str:
    try:
        value: str = json.loads(text)
    except ValueError:
        raise QueryError(f"has a text that cannot be read: {text}") from None
    return value
