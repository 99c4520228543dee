"""Text as Go's standard library writes it: quoted strings, JSON, and the names of system errors.

Source: Go's strconv (Quote), encoding/json (HTML-safe escapes) and syscall (error texts).
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Final

#: Characters that Go's JSON writer escapes although JSON does not require it.
_HTML: Final = str.maketrans(
    {
        "<": "\\u003c",
        ">": "\\u003e",
        "&": "\\u0026",
        "\N{LINE SEPARATOR}": "\\u2028",
        "\N{PARAGRAPH SEPARATOR}": "\\u2029",
    }
)
#: The escapes of one letter in a quoted string.
ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
#: What a quoted string may have escapes for; nearly all texts have none of it.
_NOT_PLAIN: Final = re.compile(r"[^ !#-\[\]-~]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def go_json(value: Any, *, pretty: bool = False) -> str:
    r"""Returns compact JSON, or indented by two blanks; the order of keys is kept.

    Example:
        >>> go_json({"b": "<1>", "a": []})
        '{"b":"\\u003c1\\u003e","a":[]}'
    """
    if pretty:
        text = json.dumps(value, ensure_ascii=False, indent=2)
    else:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.translate(_HTML)


def valid_unicode(text: str) -> str:
    """Returns the text with U+FFFD for each byte that is not UTF-8, as Go writes it as JSON.

    Example:
        >>> valid_unicode("/" + chr(0xDCFF))
        '/\ufffd'
    """
    return _SURROGATE.sub("\ufffd", text)


def go_quote(text: str) -> str:
    r"""Returns the text in double quotes, with escapes for what cannot be printed.

    Example:
        >>> print(go_quote('a"b' + chr(7) + "é"))
        "a\"b\aé"
    """
    return '"' + _NOT_PLAIN.sub(lambda match: _escaped(match[0]), text) + '"'


def _escaped(character: str) -> str:
    if character in ESCAPES:
        return ESCAPES[character]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, as ``surrogateescape`` keeps it
        return f"\\x{code - 0xDC00:02x}"
    if character.isprintable():
        return character
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def error_text(error: OSError) -> str:
    """Returns a system error as Go names it: "no such file or directory"."""
    if error.errno is None:
        return str(error)
    return os.strerror(error.errno).lower()
