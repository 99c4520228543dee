"""Checks of single values; every error has the place and the value."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from mooring.errors import ConfigError
from mooring.traces.trace import AMOUNT_MAX, Rows

_MISSING: Final = object()

#: A fraction below this is the error of a multiplication, not an amount.
_ROUNDING: Final = 1e-6

_WORDS: Final[Mapping[type, str]] = {dict: "a mapping", list: "a list", str: "a string"}


def parsed_json(data: bytes) -> Any:
    """Returns the value of a JSON text.

    Raises:
        ConfigError: It is not JSON; with the line, if it is known.
    """
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise ConfigError("is nested too deeply") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("is not UTF-8 text", line=line) from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"is not JSON: {error}", line=_line_of(data, str(error))) from None


def _line_of(data: bytes, problem: str) -> int | None:
    """Returns the line of "... (byte 17)" in the message of the decoder."""
    _, _, rest = problem.rpartition("(byte ")
    digits = rest.rstrip(")")
    return data.count(b"\n", 0, int(digits)) + 1 if digits.isdecimal() else None


def member(mapping: Mapping[Any, Any], key: str, path: str, kind: type, default: Any = None) -> Any:
    """Returns the value of a key: a dict, list or str, as ``kind`` says.

    Args:
        mapping: The mapping.
        key: The key.
        path: The path of the mapping, for errors.
        kind: The expected type.
        default: The value if the key is absent or null; None = the key is required.

    Raises:
        ConfigError: The key is absent, or its value has another type.
    """
    value = mapping.get(key)
    if value is None and default is not None:
        return default
    place = f"{path}.{key}" if path else key
    if value is None:
        raise ConfigError("is required", path=place)
    if not isinstance(value, kind):
        raise ConfigError(f"must be {_WORDS[kind]}", path=place, value=value)
    return value


def note_unread(rows: Rows, mapping: Mapping[Any, Any], read: Container[str], path: str) -> None:
    """Notes the fields of a mapping that have a value and no effect.

    Args:
        rows: Collects the notes.
        mapping: The mapping.
        read: The fields that have an effect.
        path: The path of the mapping.
    """
    for key, value in mapping.items():
        if key not in read and value is not None:
            rows.unread(str(key), path=f"{path}.{key}" if path else str(key), value=value)


def number(
    mapping: Mapping[Any, Any],
    key: str,
    path: str,
    *,
    default: Any = _MISSING,
    least: float = 0.0,
) -> Any:
    """Returns the finite number of a key, which must be at least ``least``.

    Args:
        mapping: The mapping.
        key: The key.
        path: The path of the mapping, for errors.
        default: The value if the key is absent or null; else it is required.
        least: The smallest valid number.

    Raises:
        ConfigError: The key is absent, or its value is no such number.
    """
    value = mapping.get(key)
    if value is None and default is not _MISSING:
        return default
    place = f"{path}.{key}" if path else key
    if value is None:
        raise ConfigError("is required", path=place)
    return checked_number(value, least=least, path=place)


def checked_number(
    value: Any, *, least: float = 0.0, line: int | None = None, path: str | None = None
) -> Any:
    """Returns a finite number that is at least ``least`` and at most ``AMOUNT_MAX``.

    Raises:
        ConfigError: It is not.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError("must be a number", line=line, path=path, value=value)
    # Comparisons are exact for integers of any size; nan is not equal to itself.
    if value != value or not least <= value <= AMOUNT_MAX:
        bounds = f"must be a number from {least:g} to {AMOUNT_MAX}"
        raise ConfigError(bounds, line=line, path=path, value=value)
    return value


def number_of_text(text: str, *, line: int | None, path: str, least: float = 0.0) -> float:
    """Returns the number that a text holds.

    Raises:
        ConfigError: It holds none, or a smaller one than ``least``.
    """
    try:
        # float() also takes digits of other scripts and underscores.
        value = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise ConfigError("must be a number", line=line, path=path, value=text)
    checked_number(value, least=least, line=line, path=path)
    return value


def rounded_up(amount: float) -> int:
    """Returns an amount in whole units, rounded up as Kubernetes rounds quantities.

    Example:
        >>> rounded_up(0.29 * 1000), rounded_up(290.5), rounded_up(1e-9)
        (290, 291, 1)
    """
    whole = math.ceil(amount - _ROUNDING)
    return max(1, whole) if amount > 0 else whole


def elapsed_s(begin_s: float, end_s: float) -> float:
    """Returns the seconds between two times, at least 0; nan if one is nan."""
    return end_s - begin_s if not end_s < begin_s else 0.0


def wall_time_s(text: Any, *, path: str, line: int | None = None) -> float:
    """Returns the seconds since 1970 of an RFC 3339 time.

    Raises:
        ConfigError: It is no such time.
    """
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) and "T" in text else None
        if moment is not None and moment.tzinfo is not None:
            return moment.timestamp()
    except (ValueError, OverflowError):
        pass
    raise ConfigError(
        "must be a time such as 2026-01-31T08:00:00Z", line=line, path=path, value=text
    )
