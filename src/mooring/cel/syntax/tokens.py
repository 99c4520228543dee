"""The tokens of an expression.

Source: cel-go v0.26.0, parser/gen/CEL.g4 (lexer rules; the longest token wins).
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Kind(IntEnum):
    """Kinds of tokens, in the order of the grammar: messages list them in this order."""

    EOF = 0
    EQUALS = 1
    NOT_EQUALS = 2
    IN = 3
    LESS = 4
    LESS_EQUALS = 5
    GREATER_EQUALS = 6
    GREATER = 7
    AND = 8
    OR = 9
    LBRACKET = 10
    RBRACKET = 11
    LBRACE = 12
    RBRACE = 13
    LPAREN = 14
    RPAREN = 15
    DOT = 16
    COMMA = 17
    MINUS = 18
    NOT = 19
    QUESTION = 20
    COLON = 21
    PLUS = 22
    STAR = 23
    SLASH = 24
    PERCENT = 25
    TRUE = 26
    FALSE = 27
    NULL = 28
    FLOAT = 31
    INT = 32
    UINT = 33
    STRING = 34
    BYTES = 35
    IDENTIFIER = 36
    ESC_IDENTIFIER = 37


_PUNCTUATION: Final = {
    "==": Kind.EQUALS, "!=": Kind.NOT_EQUALS, "<": Kind.LESS, "<=": Kind.LESS_EQUALS,
    ">=": Kind.GREATER_EQUALS, ">": Kind.GREATER, "&&": Kind.AND, "||": Kind.OR,
    "[": Kind.LBRACKET, "]": Kind.RBRACKET, "{": Kind.LBRACE, "}": Kind.RBRACE,
    "(": Kind.LPAREN, ")": Kind.RPAREN, ".": Kind.DOT, ",": Kind.COMMA, "-": Kind.MINUS,
    "!": Kind.NOT, "?": Kind.QUESTION, ":": Kind.COLON, "+": Kind.PLUS, "*": Kind.STAR,
    "/": Kind.SLASH, "%": Kind.PERCENT,
}  # fmt: skip
_KEYWORDS: Final = {
    "in": Kind.IN,
    "true": Kind.TRUE,
    "false": Kind.FALSE,
    "null": Kind.NULL,
}
DISPLAY: Final = {
    Kind.EOF: "<EOF>",
    **{kind: f"'{text}'" for text, kind in (_PUNCTUATION | _KEYWORDS).items()},
    Kind.FLOAT: "NUM_FLOAT",
    Kind.INT: "NUM_INT",
    Kind.UINT: "NUM_UINT",
    Kind.STRING: "STRING",
    Kind.BYTES: "BYTES",
    Kind.IDENTIFIER: "IDENTIFIER",
    Kind.ESC_IDENTIFIER: "ESC_IDENTIFIER",
}

_ESCAPE = (
    r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}"
    r"|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
)
# Alternatives of a body exclude each other and are possessive: linear time for any text.
_SPACE = re.compile(r"(?:[\t \r\n\f]|//[^\n]*+)++")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+")
_ESC_WORD = re.compile(r"`[A-Za-z0-9_.\-/ ]++`")
_FLOAT = re.compile(r"[0-9]++\.[0-9]++(?:[eE][+-]?[0-9]++)?|[0-9]++[eE][+-]?[0-9]++"
                    r"|\.[0-9]++(?:[eE][+-]?[0-9]++)?")  # fmt: skip
_UINT = re.compile(r"(?:0x[0-9a-fA-F]++|[0-9]++)[uU]")
_INT = re.compile(r"0x[0-9a-fA-F]++|[0-9]++")
_STRINGS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        rf'"""(?:{_ESCAPE}|(?!""")[^\\])*+"""',
        rf"'''(?:{_ESCAPE}|(?!''')[^\\])*+'''",
        rf'"(?:{_ESCAPE}|[^\\"\n\r])*+"',
        rf"'(?:{_ESCAPE}|[^\\'\n\r])*+'",
        r'[rR]"""(?:(?!""").)*+"""',
        r"[rR]'''(?:(?!''').)*+'''",
        r'[rR]"[^"\n\r]*+"',
        r"[rR]'[^'\n\r]*+'",
    )
)
#: The longest beginning of a string that can still become one: where the lexer gives up.
_PARTIAL_STRINGS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        rf'"""(?:{_ESCAPE}|[^\\])*+',
        rf"'''(?:{_ESCAPE}|[^\\])*+",
        rf'"(?:{_ESCAPE}|[^\\"\n\r])*+',
        rf"'(?:{_ESCAPE}|[^\\'\n\r])*+",
    )
)
_PARTIAL_ESCAPE = re.compile(
    r"\\(?:[0-3][0-7]?|[xX][0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7})?"
)
_PARTIAL_ESC_WORD = re.compile(r"`[A-Za-z0-9_.\-/ ]*+")


class Token(NamedTuple):
    """A token; ``offset`` in code points."""

    kind: Kind
    text: str
    offset: int


def tokenize(text: str, report: Callable[[int, str], None]) -> list[Token]:
    """Returns the tokens of a text; the last one is EOF.

    Args:
        text: The expression.
        report: Called with offset and message for every text that begins no token.
    """
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        space = _SPACE.match(text, position)
        if space is not None:
            position = space.end()
            continue
        kind, end = _longest(text, position)
        if kind is None:
            failed = text[position : end + 1]
            report(position, f"token recognition error at: '{failed}'")
            position = end + 1
            continue
        tokens.append(Token(kind, text[position:end], position))
        position = end
    tokens.append(Token(Kind.EOF, "<EOF>", len(text)))
    return tokens


def display(token: Token) -> str:
    """Returns a token as messages show it, in quotes."""
    return f"'{_escaped(token.text)}'"


def _escaped(text: str) -> str:
    return text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _longest(text: str, position: int) -> tuple[Kind | None, int]:
    """Returns kind and end of the longest token; without one, None and where it failed."""
    first = text[position]
    end: int = position
    kind: Kind | None = None
    if word := _WORD.match(text, position):
        kind, end = _KEYWORDS.get(word.group(), Kind.IDENTIFIER), word.end()
    elif first in ".0123456789":
        for candidate, pattern in ((Kind.FLOAT, _FLOAT), (Kind.UINT, _UINT), (Kind.INT, _INT)):
            match = pattern.match(text, position)
            if match is not None and match.end() > end:
                kind, end = candidate, match.end()
    if first in "\"'rR":
        string_end = _string_end(text, position)
        kind, end = (Kind.STRING, string_end) if string_end > end else (kind, end)
    elif first in "bB":
        string_end = _string_end(text, position + 1)
        kind, end = (Kind.BYTES, string_end) if string_end > end else (kind, end)
    elif first == "`" and (escaped_word := _ESC_WORD.match(text, position)):
        kind, end = Kind.ESC_IDENTIFIER, escaped_word.end()
    if kind is not None:
        return kind, end
    for length in (2, 1):
        candidate_kind = _PUNCTUATION.get(text[position : position + length])
        if candidate_kind is not None:
            return candidate_kind, position + length
    return None, _failure(text, position)


def _string_end(text: str, position: int) -> int:
    """Returns the end of the longest string literal at a position, or -1."""
    ends = [match.end() for pattern in _STRINGS if (match := pattern.match(text, position))]
    return max(ends, default=-1)


def _failure(text: str, position: int) -> int:
    """Returns the offset of the character at which no token is possible any more."""
    if text[position] in "&|=":
        return position + 1
    end = position
    for pattern in _PARTIAL_STRINGS:
        match = pattern.match(text, position)
        if match is not None:
            escape = _PARTIAL_ESCAPE.match(text, match.end())
            end = max(end, escape.end() if escape is not None else match.end())
    word = _PARTIAL_ESC_WORD.match(text, position)
    return max(end, word.end()) if word is not None else end
