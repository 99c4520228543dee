"""Converts JSON to the object that kube-apiserver would return for it.

kube-apiserver decodes every body into a Go struct and encodes that struct again: unknown fields are
dropped, empty values are omitted, quantities and times get their canonical form. This module does
the same with the table of ``types``.

It also sets defaults. If a value has a wrong type, this fast reader only raises ``WrongType``;
``checks`` and ``apiserver.schema.type_errors`` walk the value again and report the details.
"""

from __future__ import annotations

import binascii
import re
import string
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from mooring.objects.go_durations import quote
from mooring.objects.quantity import Quantity
from mooring.objects.schema.defaults import DEFAULTS
from mooring.objects.schema.types import (
    ALWAYS,
    DEDUCED,
    NULL,
    POINTER,
    Field,
    cached_by_type,
    is_struct,
    structs,
)
from mooring.objects.text_cache import text_cache
from mooring.objects.types import Json

ValueReader = Callable[[Json], Json]

#: Most pods are created from few templates, so their specs are cached.
_CACHED = ("core.Pod", "core.PodSpec")
#: Specs in the cache, none of them larger than this as sent: some 40 MiB at most.
CACHE_SIZE = 1024
CACHED_BYTES_MAX = 16 << 10
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode

_INT32, _INT64 = 2**31, 2**63
_SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_MICROS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
#: What Go's parser takes: also a comma, and hours of one digit.
_RFC3339 = re.compile(
    r"(?P<day>\d{4}-(?P<month>\d\d)-\d\d)T(?P<hour>\d\d?):(?P<minute>\d\d):(?P<second>\d\d)"
    r"(?P<fraction>[.,]\d+)?(?:Z|(?P<sign>[+-])(?P<zone_hour>\d\d):(?P<zone_minute>\d\d))",
    re.ASCII,
)
#: With the point, those of a time in microseconds.
_MICRO_DIGITS = 7
_ZONE_HOURS_MAX = 24
QUANTITY_PROBLEM = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_TIME_FORMAT = "2006-01-02T15:04:05Z07:00"
_MICRO_FORMAT = "2006-01-02T15:04:05.000000Z07:00"
_QUANTITY_CACHE = 16384
_BASE64 = frozenset((string.ascii_letters + string.digits + "+/").encode())
_PAD, _GROUP = ord("="), 4
_CANONICAL_BASE64 = re.compile(
    r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?"
)
_NANOS_PER_MILLI = 10**6
#: Structs and their fields that are a boolean or a struct of the same type.
SCHEMA_OR_BOOL = frozenset(
    {
        ("apiextensions.JSONSchemaProps", "additionalItems"),
        ("apiextensions.JSONSchemaProps", "additionalProperties"),
    }
)
NO_SCHEMA_OR_BOOL = "boolean or JSON schema expected"


class WrongType(Exception):
    """A value has another type than its field; the message is Go's, or empty."""


class TypedReader:
    """Converts objects of one type; ``has_unknown_fields`` is about the last one."""

    def __init__(self, type_name: str, *, fills_defaults: bool = True) -> None:
        self.type_name = type_name
        self._defaults = DEFAULTS if fills_defaults else {}
        self.has_unknown_fields = False
        #: Struct -> its reader; None while it is compiled: the type contains itself.
        self._compiled: dict[str, ValueReader | None] = {}
        self._read = self._reader(type_name)

    def read(self, value: Json) -> dict[str, Json]:
        """Returns the object as Go would encode it; sets ``has_unknown_fields``.

        Raises:
            WrongType: A value has another type than its field.
        """
        self.has_unknown_fields = False
        obj: dict[str, Json] = self._read(value)
        return obj

    def _reader(self, type_name: str) -> ValueReader:
        if type_name.startswith("[]"):
            return _list_reader(self._reader(type_name[2:]))
        if type_name.startswith("{}"):
            return _map_reader(self._reader(type_name[2:]))
        if is_struct(type_name):
            if type_name in self._compiled:
                return self._compiled[type_name] or self._later(type_name)
            self._compiled[type_name] = None
            reader = self._compiled[type_name] = self._struct_reader(type_name)
            is_cached = (self.type_name, type_name) == _CACHED
            return self._cached_reader(reader) if is_cached else reader
        return SCALARS[type_name]

    def _later(self, type_name: str) -> ValueReader:
        """Returns a reader that looks up the reader of a recursive type when it is called."""

        def read(value: Json) -> Json:
            reader = self._compiled[type_name]
            assert reader is not None
            return reader(value)

        return read

    def _struct_reader(self, type_name: str) -> ValueReader:
        table: dict[str, tuple[ValueReader, bool, bool]] = {}
        always: list[tuple[str, ValueReader | None]] = []
        for name, field in structs()[type_name].items():
            reader = self._reader(field.type_name)
            if (type_name, name) in SCHEMA_OR_BOOL:
                reader = _schema_or_bool(self._reader(type_name))
            if field.type_name == "{}Quantity" and type_name.startswith("core."):
                reader = _map_reader(_milli_quantity)
            is_kept = field.presence in (POINTER, ALWAYS, NULL)
            # Empty lists and mappings are encoded as null.
            is_nulled = field.is_list or field.is_map
            table[name] = (reader, is_kept, is_nulled)
            if field.presence in (ALWAYS, NULL):
                zero = None if field.presence == NULL else _zero_of(field, reader)
                always.append((name, zero))
        lookup = table.get
        default = self._defaults.get(type_name)

        def read(value: Json) -> Json:
            if type(value) is not dict:
                raise WrongType
            obj = {}
            for name, item in value.items():
                entry = lookup(name)
                if entry is None:
                    self.has_unknown_fields = True
                elif item is not None:
                    converted = entry[0](item)
                    if converted:
                        obj[name] = converted
                    elif entry[1]:
                        obj[name] = None if entry[2] else converted
            for name, zero in always:
                if name not in obj:
                    obj[name] = zero({}) if zero is not None else None
            if default is not None:
                default(obj)
            return obj

        return read

    def _cached_reader(self, read: ValueReader) -> ValueReader:
        """Returns a reader with a cache; its results are copies that the caller may change."""
        packed_by_key: dict[bytes, bytes] = {}

        def read_cached(value: Json) -> Json:
            try:
                key = _pack(value)
            except (OverflowError, TypeError, ValueError):  # values that only YAML has
                return read(value)
            packed = packed_by_key.get(key)
            if packed is not None:
                return _unpack(packed)
            had_unknown, self.has_unknown_fields = self.has_unknown_fields, False
            fresh = read(value)
            if not self.has_unknown_fields and len(key) <= CACHED_BYTES_MAX:
                if len(packed_by_key) >= CACHE_SIZE:
                    packed_by_key.clear()
                packed_by_key[key] = _pack(fresh)
            self.has_unknown_fields |= had_unknown
            return fresh

        return read_cached


def _zero_of(field: Field, reader: ValueReader) -> ValueReader | None:
    """Returns the zero value's reader for an absent field that is always written; None = null."""
    if is_struct(field.type_name):
        return reader
    zero = _ZEROS.get(field.type_name)
    return None if zero is None else lambda _: zero


@cached_by_type
def reader_of(type_name: str) -> TypedReader:
    """Returns the reader for a type; compiled once."""
    return TypedReader(type_name)


def empty(type_name: str) -> dict[str, Json]:
    """Returns the encoding of an empty struct, without defaults."""
    return _empty_reader(type_name).read({})


@cached_by_type
def _empty_reader(type_name: str) -> TypedReader:
    return TypedReader(type_name, fills_defaults=False)


def _list_reader(element: ValueReader) -> ValueReader:
    def read(value: Json) -> Json:
        if type(value) is not list:
            raise WrongType
        return [element(item) if item is not None else _null_element(element) for item in value]

    return read


def _map_reader(element: ValueReader) -> ValueReader:
    if element is _string:

        def read_strings(value: Json) -> Json:
            if type(value) is not dict:
                raise WrongType
            has_null = False
            for item in value.values():
                if type(item) is not str:
                    if item is not None:
                        raise WrongType
                    has_null = True
            return {key: item or "" for key, item in value.items()} if has_null else value

        return read_strings

    def read(value: Json) -> Json:
        if type(value) is not dict:
            raise WrongType
        return {
            key: element(item) if item is not None else _null_element(element)
            for key, item in value.items()
        }

    return read


def _null_element(element: ValueReader) -> Json:
    """Returns the zero value, which Go uses for a null inside a list or map; null for any JSON."""
    if element is _any:
        return None
    zeros: tuple[Json, ...] = ("", 0, False, [], {})
    for zero in zeros:
        try:
            return element(zero)
        except WrongType:
            continue
    return None


def _string(value: Json) -> Json:
    if type(value) is not str:
        raise WrongType
    return value


def _bool(value: Json) -> Json:
    if type(value) is not bool:
        raise WrongType
    return value


def _int32(value: Json) -> Json:
    if type(value) is not int or not -_INT32 <= value < _INT32:
        raise WrongType
    return value


def _int64(value: Json) -> Json:
    if type(value) is not int or not -_INT64 <= value < _INT64:
        raise WrongType
    return value


def _float64(value: Json) -> Json:
    if type(value) is not float and type(value) is not int:
        raise WrongType
    return value


def _any(value: Json) -> Json:
    return value


def _schema_or_bool(read_schema: ValueReader) -> ValueReader:
    def read(value: Json) -> Json:
        if type(value) is bool:
            return value
        if type(value) is not dict:
            raise WrongType(NO_SCHEMA_OR_BOOL)
        return read_schema(value)

    return read


def _bytes(value: Json) -> Json:
    if type(value) is not str:
        raise WrongType
    if _CANONICAL_BASE64.fullmatch(value):
        return value
    text = value.encode()
    offset = corrupt_base64_offset(text)
    if offset >= 0:
        raise WrongType(f"illegal base64 data at input byte {offset}")
    return binascii.b2a_base64(binascii.a2b_base64(text), newline=False).decode()


def corrupt_base64_offset(text: bytes) -> int:
    """Returns where Go's decoder of base64 gives up; -1 = it does not.

    Line ends are skipped. Source: Go's encoding/base64 (decodeQuantum).
    """
    group: list[int] = []
    letters = [(at, code) for at, code in enumerate(text) if code not in b"\r\n"]
    for number, (at, code) in enumerate(letters):
        if code in _BASE64:
            group = [] if len(group) == _GROUP - 1 else [*group, at]
            continue
        if code != _PAD or len(group) < 2:
            return at
        rest = letters[number + 1 :]
        if len(group) == 2:
            if not rest:
                return len(text)
            if rest[0][1] != _PAD:
                return rest[0][0] - 1
            rest = rest[1:]
        return rest[0][0] if rest else -1
    return len(text) - len(group) if group else -1


@text_cache(_QUANTITY_CACHE)
def canonical_quantity(text: str) -> str:
    """Returns the canonical form of a quantity.

    Raises:
        WrongType: It is not a quantity.
    """
    try:
        amount = Quantity.from_wire(text)
    except ValueError as error:
        raise WrongType(QUANTITY_PROBLEM) from error
    return str(Quantity(amount.nanos, amount.format))


def _quantity(value: Json) -> Json:
    if type(value) is str:
        return canonical_quantity(value)
    if type(value) is int or type(value) is float:
        return canonical_quantity(str(value))
    raise WrongType(QUANTITY_PROBLEM)


@text_cache(_QUANTITY_CACHE)
def _rounded(text: str) -> str:
    amount = Quantity.from_wire(text)
    if amount.nanos % _NANOS_PER_MILLI == 0:
        return text
    milli = -(-amount.nanos // _NANOS_PER_MILLI)
    return str(Quantity(milli * _NANOS_PER_MILLI, amount.format))


def _milli_quantity(value: Json) -> Json:
    """Returns a quantity of a resource list, rounded up to a thousandth."""
    return _rounded(_quantity(value))


def _int_or_string(value: Json) -> Json:
    return value if type(value) is str else _int32(value)


def _time(value: Json) -> Json:
    if type(value) is not str:
        raise WrongType
    if _SECONDS.fullmatch(value) and _is_date_time(value):
        return value
    return time_text(_moment(value, _TIME_FORMAT), "seconds")


def _micro_time(value: Json) -> Json:
    if type(value) is not str:
        raise WrongType
    if _MICROS.fullmatch(value) and _is_date_time(value):
        return value
    moment = _moment(value, _MICRO_FORMAT, n_digits=_MICRO_DIGITS)
    return time_text(moment, "microseconds")


def time_text(moment: datetime, precision: str) -> str:
    """Returns a moment in UTC as Go writes it, to "seconds" or "microseconds".

    The year has four digits, which strftime does not write everywhere.
    """
    return f"{moment.replace(tzinfo=None).isoformat(timespec=precision)}Z"


def _moment(text: str, layout: str, *, n_digits: int = 0) -> datetime:
    """Returns the moment of a time that is not in canonical form.

    Args:
        text: The time.
        layout: Of Go, for errors.
        n_digits: Of the fraction, with its point; 0 for any number.

    Raises:
        WrongType: The text is no time.
    """
    parts = _RFC3339.match(text)
    if parts is None:
        raise _no_time(text, f' as "{layout}": cannot parse {quote(text)} as "2006"')
    fraction = parts["fraction"] or ""
    if n_digits and len(fraction) != n_digits:
        rest = text[parts.end("second") + (n_digits if len(fraction) > n_digits else 0) :]
        part = "Z07:00" if len(fraction) > n_digits else ".000000"
        raise _no_time(text, f' as "{layout}": cannot parse {quote(rest)} as "{part}"')
    problem = _number_out_of_range(parts)
    if not problem and parts.end() < len(text):
        problem = f"extra text: {quote(text[parts.end() :])}"
    if problem:
        raise _no_time(text, f": {problem}")
    clock_time = f"{int(parts['hour']):02}:{parts['minute']}:{parts['second']}"
    micros = fraction[1:_MICRO_DIGITS].ljust(_MICRO_DIGITS - 1, "0")
    zone = timedelta(hours=int(parts["zone_hour"] or 0), minutes=int(parts["zone_minute"] or 0))
    try:
        moment = datetime.fromisoformat(f"{parts['day']}T{clock_time}.{micros}+00:00")
        return moment + zone if parts["sign"] == "-" else moment - zone
    except (ValueError, OverflowError) as error:
        raise _no_time(text, ": day out of range") from error


def _no_time(text: str, problem: str) -> WrongType:
    return WrongType(f"parsing time {quote(text)}{problem}")


def _is_date_time(text: str) -> bool:
    """Returns whether the numbers of a time exist; Go has a year 0, which is a leap year."""
    try:
        datetime.fromisoformat(text if text[:4] != "0000" else f"2000{text[4:]}")
    except ValueError:
        return False
    return text[11:13] != "24"


def _number_out_of_range(parts: re.Match[str]) -> str:
    """Returns the error of the first number that cannot be, in the order of Go's checks; or ""."""
    if not 1 <= int(parts["month"]) <= 12:
        return "month out of range"
    limits = (
        ("hour", "hour", 24),
        ("minute", "minute", 60),
        ("second", "second", 60),
        ("zone_hour", "time zone offset hour", _ZONE_HOURS_MAX + 1),
        ("zone_minute", "time zone offset minute", 60),
    )
    problems = (
        f"{name} out of range" for group, name, limit in limits if int(parts[group] or 0) >= limit
    )
    return next(problems, "")


#: Scalar type -> its reader.
SCALARS: dict[str, ValueReader] = {
    "string": _string,
    "bool": _bool,
    "int32": _int32,
    "int64": _int64,
    "float64": _float64,
    "any": _any,
    DEDUCED: _any,
    "bytes": _bytes,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "Time": _time,
    "MicroTime": _micro_time,
    "Duration": _string,
}
_ZEROS: dict[str, Json] = {
    "string": "",
    "bool": False,
    "int32": 0,
    "int64": 0,
    "float64": 0,
    "Quantity": "0",
    "IntOrString": 0,
}
