"""Values of string and bytes literals: quotes, raw strings and escapes.

Source: cel-go v0.26.0, parser/unescape.go.
"""

from __future__ import annotations

from typing import Final

_SIMPLE: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "`": "`",
    "?": "?",
}
_HEX_DIGITS: Final = {"x": 2, "X": 2, "u": 4, "U": 8}
_UNABLE: Final = "unable to unescape string"


class EscapeError(ValueError):
    """A literal with an escape that stands for no character."""


def unquote_string(token: str) -> str:
    r"""Returns the value of a string literal with its quotes.

    Raises:
        EscapeError: An escape is not a code point.

    >>> unquote_string(r"'a\u00e9'")
    'aé'
    """
    body, is_raw = _body(token)
    if is_raw or "\\" not in body:
        return body
    parts: list[str] = []
    position = 0
    while position < len(body):
        if body[position] != "\\":
            parts.append(body[position])
            position += 1
            continue
        code, position = _escape(body, position + 1, is_bytes=False)
        parts.append(chr(code))
    return "".join(parts)


def unquote_bytes(token: str) -> bytes:
    r"""Returns the value of a bytes literal without its leading ``b``.

    Raises:
        EscapeError: An escape is not a byte.

    >>> unquote_bytes(r"'a\xff'")
    b'a\xff'
    """
    body, is_raw = _body(token)
    if is_raw or "\\" not in body:
        return body.encode()
    parts = bytearray()
    position = 0
    while position < len(body):
        if body[position] != "\\":
            parts += body[position].encode()
            position += 1
            continue
        code, position = _escape(body, position + 1, is_bytes=True)
        parts.append(code & 0xFF)
    return bytes(parts)


def _body(token: str) -> tuple[str, bool]:
    text = token.replace("\r\n", "\n").replace("\r", "\n")
    is_raw = text[0] in "rR"
    if is_raw:
        text = text[1:]
    if len(text) >= 6 and text[:3] in ('"""', "'''"):
        return text[3:-3], is_raw
    return text[1:-1], is_raw


def _escape(body: str, position: int, *, is_bytes: bool) -> tuple[int, int]:
    """Returns the code of the escape whose letter is at ``position``, and the position after it."""
    letter = body[position]
    simple = _SIMPLE.get(letter)
    if simple is not None:
        return ord(simple), position + 1
    n_digits = _HEX_DIGITS.get(letter)
    if n_digits is not None:
        if is_bytes and letter in "uU":
            raise EscapeError(_UNABLE)
        digits, base = body[position + 1 : position + 1 + n_digits], 16
        end = position + 1 + n_digits
    else:
        digits, base = body[position : position + 3], 8
        end = position + 3
    code = int(digits, base)
    if not is_bytes and (code > 0x10FFFF or 0xD800 <= code <= 0xDFFF):
        raise EscapeError("invalid unicode code point")
    return code, end
