"""Validates values against the schema of a definition.

Source: k8s.io/kube-openapi pkg/validation/{validate,errors}; k8s.io/apiextensions-apiserver
pkg/apiserver/validation/{validation,ratcheting}.go.
Differs: errors are in the order of the schema; upstream's order varies. Rules in CEL are
in ``rules``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import msgspec

from mooring.apiserver.custom.formats import has_format
from mooring.apiserver.errors import (
    FieldError,
    invalid,
    not_supported,
    quoted,
    required,
    too_long,
    too_many,
)

_INT64 = (-(2**63), 2**63 - 1)
#: Format of integers -> the lowest and the highest one.
_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": _INT64}
_FLOAT_INTEGER_MAX = 2.0**53 - 1
#: Floats from here on are no integers of 64 bits, and are written without exponent up to there.
_LARGE_MIN, _EXPONENT_MIN = 2.0**63, 1e21
_NO_FIELD = "<nil>"
#: There is no value before the update: the object is new, or its lists have no keys.
ABSENT: Any = object()


def find_errors_below(
    value: Any, schema: dict[str, Any], parent: str, old: Any = ABSENT
) -> Iterator[FieldError]:
    """Yields the errors of the value at ``parent``; as upstream, messages have paths below it."""
    for error in find_value_errors(value, schema, old=old):
        path = f"{parent}.{error.field}" if error.field else parent
        yield FieldError(error.type_name, path, error.body)


def find_value_errors(
    value: Any, schema: dict[str, Any], path: str = "", old: Any = ABSENT
) -> Iterator[FieldError]:
    """Yields the errors of a value.

    Args:
        value: As stored.
        schema: Of the value.
        path: Of the value, "" for the object itself.
        old: The value before the update. What an update leaves as it was has no errors.
    """
    if (value is None and schema.get("nullable")) or (old is not ABSENT and value == old):
        return
    yield from _type_errors(value, schema, path)
    yield from _combination_errors(value, schema, path, old)
    if isinstance(value, str):
        yield from _string_errors(value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_errors(value, schema, path)
    elif isinstance(value, list):
        yield from _list_errors(value, schema, path, old)
    elif isinstance(value, dict):
        yield from _mapping_errors(value, schema, path, old)
    allowed = schema.get("enum")
    if allowed is not None and not any(_is_same(value, item) for item in allowed):
        texts = [item if isinstance(item, str) else _json(item) for item in allowed]
        yield not_supported(path, value, texts)


def _is_same(value: Any, other: Any) -> bool:
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _lead(path: str) -> str:
    return f"{path} in body"


def is_json_integer(number: float) -> bool:
    """Returns whether a number of JSON is an integer: of 64 bits, or a float without a fraction.

    Floats beyond 2**53 do not count, since not all integers there have a float.
    """
    if isinstance(number, int):
        return _INT64[0] <= number <= _INT64[1]
    return number.is_integer() and abs(number) <= _FLOAT_INTEGER_MAX


def go_number(number: float) -> float:
    """Returns a number as Go decodes and encodes it.

    Integers beyond 64 bits are floats, of which the shortest digits are written.
    """
    if isinstance(number, int) and _INT64[0] <= number <= _INT64[1]:
        return number
    number = float(number)
    if is_json_integer(number):
        return int(number)
    return int(Decimal(repr(number))) if _LARGE_MIN <= abs(number) < _EXPONENT_MIN else number


def kind_of(value: Any) -> str:
    """Returns the name of a JSON value's type in a schema."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int() | float():
            return "integer" if is_json_integer(value) else "number"
        case list():
            return "array"
    return "object"


def _type_errors(value: Any, schema: dict[str, Any], path: str) -> Iterator[FieldError]:
    kind, allowed = kind_of(value), [schema["type"]] if schema.get("type") else []
    if schema.get("x-kubernetes-int-or-string"):
        allowed = ["integer", "string"]
    if not allowed or kind in allowed or (kind == "integer" and "number" in allowed):
        return
    if kind == "number" and schema.get("format") in _RANGES:
        kind, allowed = "float64", [schema["format"]]
    detail = f"{_lead(path)} must be of type {','.join(allowed)}: {quoted(kind)}"
    error = invalid(path, kind, detail)
    yield FieldError("FieldValueTypeInvalid", error.field, error.body)


def _combination_errors(
    value: Any, schema: dict[str, Any], path: str, old: Any
) -> Iterator[FieldError]:
    def errors_of(part: dict[str, Any]) -> list[FieldError]:
        return list(find_value_errors(value, part, path, old))

    options = [errors_of(part) for part in schema.get("anyOf") or ()]
    if options and all(options):
        text = f"{quoted(path)} must validate at least one schema (anyOf)"
        yield invalid(_NO_FIELD, "", text)
        yield from min(options, key=len)
    options = [errors_of(part) for part in schema.get("oneOf") or ()]
    valid = sum(not errors for errors in options)
    if options and valid != 1:
        count = f"Found {valid} valid alternatives" if valid else "Found none valid"
        text = f"{quoted(path)} must validate one and only one schema (oneOf). {count}"
        yield invalid(_NO_FIELD, "", text)
        if not valid:
            yield from min(options, key=len)
    options = [errors_of(part) for part in schema.get("allOf") or ()]
    if any(options):
        for errors in options:
            yield from errors
        yield invalid(_NO_FIELD, "", f"{quoted(path)} must validate all the schemas (allOf)")
    negated = schema.get("not")
    if negated is not None and not errors_of(negated):
        yield invalid(_NO_FIELD, "", f"{quoted(path)} must not validate the schema (not)")


def _string_errors(value: str, schema: dict[str, Any], path: str) -> Iterator[FieldError]:
    length_max, length_min = schema.get("maxLength"), schema.get("minLength")
    if length_max is not None and len(value) > length_max:
        yield too_long(path, length_max)
    if length_min is not None and len(value) < length_min:
        yield invalid(path, value, f"{_lead(path)} should be at least {length_min} chars long")
    pattern = schema.get("pattern")
    if pattern and not matches_pattern(pattern, value):
        yield invalid(path, value, f"{_lead(path)} should match '{pattern}'")
    name = schema.get("format") or ""
    if not has_format(name, value):
        text = f"{_lead(path)} must be of type {name}: {quoted(value)}"
        error = invalid(path, value, text)
        yield FieldError("FieldValueTypeInvalid", error.field, error.body)


def matches_pattern(pattern: str, text: str) -> bool:
    """Returns True if a part of the text matches a regular expression of Go."""
    # Imported late: few clusters have custom resources.
    from mooring.cel.regex.pattern import compile_pattern

    return compile_pattern(pattern).matches(text)


def _number_errors(value: float, schema: dict[str, Any], path: str) -> Iterator[FieldError]:
    yield from _range_errors(value, schema, path)
    limit = schema.get("maximum")
    is_exclusive = bool(schema.get("exclusiveMaximum"))
    if limit is not None and (value > limit or (is_exclusive and value == limit)):
        word = "less than" if is_exclusive else "less than or equal to"
        yield invalid(path, value, f"{_lead(path)} should be {word} {_number(limit)}")
    limit = schema.get("minimum")
    is_exclusive = bool(schema.get("exclusiveMinimum"))
    if limit is not None and (value < limit or (is_exclusive and value == limit)):
        word = "greater than" if is_exclusive else "greater than or equal to"
        yield invalid(path, value, f"{_lead(path)} should be {word} {_number(limit)}")
    factor = schema.get("multipleOf")
    if factor and value % factor:
        yield invalid(path, value, f"{_lead(path)} should be a multiple of {_number(factor)}")


def _range_errors(value: float, schema: dict[str, Any], path: str) -> Iterator[FieldError]:
    """Yields the error of a number that is no integer of the format's bits."""
    if schema.get("type") != "integer":
        return
    name = schema.get("format")
    name = name if name in _RANGES else ""
    lowest, highest = _RANGES.get(name, _INT64)
    exact = go_number(value)
    if not (exact == int(exact) and lowest <= exact <= highest):
        form = f"with format {name}" if name else "(default format)"
        yield invalid(_NO_FIELD, "", f"Checked value must be of type integer {form} in {path}")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


def _list_errors(
    value: list[Any], schema: dict[str, Any], path: str, old: Any
) -> Iterator[FieldError]:
    before_of = counterparts(schema, old)
    for number, item in enumerate(value):
        before = before_of(item)
        yield from find_value_errors(item, schema.get("items") or {}, f"{path}[{number}]", before)
    count_min, count_max = schema.get("minItems"), schema.get("maxItems")
    if count_min is not None and len(value) < count_min:
        text = f"{_lead(path)} should have at least {count_min} items"
        yield invalid(path, len(value), text)
    if count_max is not None and len(value) > count_max:
        yield too_many(path, len(value), count_max)
    yield from _duplicate_errors(value, schema, path)


def counterparts(schema: dict[str, Any], old: Any) -> Callable[[Any], Any]:
    """Returns what gives the item with the same keys before the update; ABSENT = there is none."""
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    is_map = schema.get("x-kubernetes-list-type") == "map"
    items = [item for item in old if isinstance(item, dict)] if isinstance(old, list) else []
    if not (is_map and items):
        return lambda _: ABSENT

    def identity(item: dict[str, Any]) -> Any:
        values = tuple([item.get(key) for key in keys])
        try:
            hash(values)
        except TypeError:  # no scalars: find_value_errors reports them
            return _json(list(values))
        return values

    # Of items with the same keys the first one counts.
    by_identity = {identity(item): item for item in reversed(items)}
    return lambda item: (
        by_identity.get(identity(item), ABSENT) if isinstance(item, dict) else ABSENT
    )


def _duplicate_errors(value: list[Any], schema: dict[str, Any], path: str) -> Iterator[FieldError]:
    """Yields the errors of elements that a list of type "set" or "map" has twice."""
    list_type = schema.get("x-kubernetes-list-type")
    if list_type not in ("set", "map"):
        return
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    for number, item in enumerate(value if list_type == "map" else ()):
        if item is not None and not isinstance(item, dict):
            problem = "must be an object for an array of list-type map"
            yield invalid(f"{path}[{number}]", item, problem)
            return
    identities: set[str] = set()
    for number, item in enumerate(value):
        identity = item
        if list_type == "map" and isinstance(item, dict):
            identity = {key: item[key] for key in keys if key in item}
        text = _json(identity)
        if text in identities:
            body = f"Duplicate value: {quoted(item) if isinstance(identity, str) else text}"
            yield FieldError("FieldValueDuplicate", f"{path}[{number}]", body)
        identities.add(text)


def _mapping_errors(
    value: dict[str, Any], schema: dict[str, Any], path: str, old: Any
) -> Iterator[FieldError]:
    lead = f"{path}." if path else ""
    before = old if isinstance(old, dict) else {}
    for name in schema.get("required") or ():
        if name not in value:
            yield required(f"{lead}{name}")
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, item in value.items():
        if name == "metadata" and (not path or schema.get("x-kubernetes-embedded-resource")):
            continue
        part = properties.get(name, additional)
        if isinstance(part, dict):
            yield from find_value_errors(item, part, f"{lead}{name}", before.get(name, ABSENT))
    count_min, count_max = schema.get("minProperties"), schema.get("maxProperties")
    if count_min is not None and len(value) < count_min:
        text = f"{_lead(path)} should have at least {count_min} properties"
        yield invalid(path, len(value), text)
    if count_max is not None and len(value) > count_max:
        yield too_many(path, len(value), count_max)
