"""``format``: texts with ``%s``, ``%d`` and the like.

``Clauses`` says what each verb does with an argument; the validator of compiled expressions has
clauses of its own, that check types.

Source: cel-go v0.26.0, ext/formatting.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

from mooring.cel import types
from mooring.cel.golang.text import parse_float
from mooring.cel.library.conversions import double_text, duration_text
from mooring.cel.library.operators import bounded
from mooring.cel.times import Duration, Timestamp
from mooring.cel.values import ErrorValue, MapValue, StringMap, Uint, Value, type_of
from mooring.objects.go_text import go_quote

if TYPE_CHECKING:
    from mooring.cel.types import Type

#: Go writes %!(BADPREC) for more decimals.
_MAX_PRECISION: Final = 1_000_000
_DEFAULT_PRECISION: Final = 6
_PRECISION = re.compile(r"\.([0-9]*)")
_SPECIAL_NUMBERS: Final = ("NaN", "Infinity", "-Infinity")


class FormatProblem(Exception):
    """A text that cannot be formatted; ``argument`` is the expression to blame, if known."""

    def __init__(self, message: str, argument: object = None) -> None:
        super().__init__(message)
        self.message = message
        self.argument = argument


class Clauses(Protocol):
    """The verbs of a format; ``verb`` is one of ``s d f e b x X o``."""

    def size(self) -> int:
        """Returns the number of arguments."""
        ...

    def format(self, index: int, verb: str, precision: int | None) -> str:
        """Returns an argument as a verb writes it."""
        ...


def format_string(template: str, args: list[Value]) -> Value:
    """Returns a template with its verbs replaced by arguments."""
    try:
        return interpolate(template, _Arguments(args))
    except FormatProblem as problem:
        return ErrorValue(problem.message)


def interpolate(template: str, clauses: Clauses) -> str:
    """Replaces the verbs of a template.

    Raises:
        FormatProblem: A verb is unknown, has no argument, or one of another type.
    """
    parts: list[str] = []
    position = index = length = 0
    while position < len(template):
        start = template.find("%", position)
        if start < 0:
            parts.append(template[position:])
            break
        parts.append(template[position:start])
        if template.startswith("%%", start):
            parts.append("%")
            position = start + 2
            continue
        if index >= clauses.size():
            raise FormatProblem(f"index {index} out of range")
        if start + 1 >= len(template):
            raise FormatProblem("unexpected end of string")
        verb, precision, position = _verb(template, start + 1)
        parts.append(_formatted(clauses, index, verb, precision))
        length += len(parts[-1])
        bounded(length)
        index += 1
    return "".join(parts)


def _formatted(clauses: Clauses, index: int, verb: str, precision: int | None) -> str:
    try:
        return clauses.format(index, verb, precision)
    except FormatProblem as problem:
        message = f"error during formatting: {problem.message}"
        raise FormatProblem(message, problem.argument) from None


def _verb(template: str, position: int) -> tuple[str, int | None, int]:
    """Returns a verb, its precision, and the position after it."""
    precision = None
    match = _PRECISION.match(template, position)
    head = "could not parse formatting clause: "
    if match is not None:
        position = match.end()
        if position >= len(template):
            raise FormatProblem(
                f"{head}error while parsing precision: could not find end of precision specifier"
            )
        if not match[1] or len(match[1]) > 18:
            reason = "value out of range" if match[1] else "invalid syntax"
            raise FormatProblem(
                f"{head}error while parsing precision: error while converting precision to "
                f'integer: strconv.Atoi: parsing "{match[1]}": {reason}'
            )
        precision = int(match[1])
    verb = template[position]
    if verb not in "sdfebxXo":
        shown_verb = chr(verb.encode()[0])
        raise FormatProblem(f'{head}unrecognized formatting clause "{shown_verb}"')
    return verb, precision, position + 1


class _Arguments:
    """The verbs for values."""

    def __init__(self, args: list[Value]) -> None:
        self._args = args

    def size(self) -> int:
        return len(self._args)

    def format(self, index: int, verb: str, precision: int | None) -> str:
        value = self._args[index]
        if verb == "s":
            return _as_text(value)
        if verb == "d":
            return _as_decimal(value)
        if verb in "fe":
            return _as_float(value, verb, precision)
        if verb in "xX":
            return _as_hex(value, verb)
        return _as_digits(value, verb)


def type_problem(verb: str, name: str, argument: object = None) -> FormatProblem:
    """Returns the problem of an argument whose type a verb does not take."""
    message = {
        "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, "
        "lists, types, durations, and timestamps",
        "d": "decimal clause can only be used on integers",
        "f": "fixed-point clause can only be used on doubles",
        "e": "scientific clause can only be used on doubles",
        "b": "only integers and bools can be formatted as binary",
        "x": "only integers, byte buffers, and strings can be formatted as hex",
        "o": "octal clause can only be used on integers",
    }[verb.lower()]
    return FormatProblem(f"{message}, was given {name}", argument)


def _as_text(value: Value) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return _list_text(value)
    if isinstance(value, MapValue | StringMap):
        return _map_text(value)
    simple = _simple_text(value)
    if simple is None:
        raise type_problem("s", type_of(value).name)
    return simple


def _simple_text(value: Value) -> str | None:
    """Returns the text of a value that has a conversion to string."""
    if value.__class__ is bool:
        return "true" if value else "false"
    if isinstance(value, Uint):
        return str(value.number)
    if value.__class__ is float:
        return double_text(value)
    if isinstance(value, int | str):
        return str(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            message = '"invalid UTF-8 in bytes, cannot convert to string"'
            raise FormatProblem(f"could not convert argument {message} to string") from None
    if isinstance(value, Duration):
        return duration_text(value)
    if isinstance(value, Timestamp):
        return value.rfc3339()
    return value.name if isinstance(value, types.Type) else None


def _nested_text(value: Value) -> str:
    """Returns an entry of a list or map: texts in quotes, doubles with six decimals."""
    if value.__class__ is float:
        return go_quote(str(value)) if _is_special(value) else f"{value:.6f}"
    if isinstance(value, Timestamp | Duration):
        return f"{_word(type_of(value))}({go_quote(_as_text(value))})"
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, bytes):
        return "b" + go_quote(_as_text(value))
    if value is None or isinstance(
        value, bool | int | Uint | list | types.Type | MapValue | StringMap
    ):
        return _as_text(value)
    raise FormatProblem(f"no formatting function for {type_of(value).name}")


def _word(entry: Type) -> str:
    return entry.text


def _list_text(values: list[Value]) -> str:
    return "[" + ", ".join([_nested_text(value) for value in values]) + "]"


def _map_text(value: MapValue | StringMap) -> str:
    pairs = []
    for key, entry in value.items():
        if not isinstance(key, str | bool | int | Uint):
            name = type_of(key).name
            raise FormatProblem(f"no formatting function for map key of type {name}")
        pairs.append((_nested_text(key), _nested_text(entry)))
    pairs.sort(key=lambda pair: pair[0])
    return "{" + ", ".join(f"{key}:{entry}" for key, entry in pairs) + "}"


def _as_decimal(value: Value) -> str:
    if value.__class__ is int:
        return str(value)
    if isinstance(value, Uint):
        return str(value.number)
    raise type_problem("d", type_of(value).name)


def _as_float(value: Value, verb: str, precision: int | None) -> str:
    if value in _SPECIAL_NUMBERS and isinstance(value, str):
        value = parse_float(value)
    if value.__class__ is not float:
        raise type_problem(verb, type_of(value).name)
    if value != value:
        return "NaN"
    if _is_special(value):
        return "∞" if value > 0 else "-∞"
    digits = _DEFAULT_PRECISION if precision is None else precision
    if digits > _MAX_PRECISION:
        return "%!(BADPREC)"
    if verb == "f":
        return f"{value:,.{digits}f}"
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    power = f"{abs(int(exponent)):02d}"
    sign = "-" if exponent.startswith("-") else ""
    return f"{mantissa}\u202f×\u202f10{(sign + power).translate(_SUPERSCRIPT)}"


_SUPERSCRIPT: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def _is_special(number: float) -> bool:
    return number != number or number in (float("inf"), float("-inf"))


def _as_hex(value: Value, verb: str) -> str:
    if value.__class__ is int or isinstance(value, Uint):
        number = value.number if isinstance(value, Uint) else value
        digits = f"{number:x}"
    elif isinstance(value, str):
        digits = value.encode().hex()
    elif isinstance(value, bytes):
        digits = value.hex()
    else:
        raise type_problem("x", type_of(value).name)
    return digits.upper() if verb == "X" else digits


def _as_digits(value: Value, verb: str) -> str:
    if verb == "b" and value.__class__ is bool:
        return "1" if value else "0"
    if value.__class__ is int:
        return format(value, verb)
    if isinstance(value, Uint):
        return format(value.number, verb)
    raise type_problem(verb, type_of(value).name)
