"""Evaluates the rules of a definition (``x-kubernetes-validations``) for its objects.

Source: apiextensions-apiserver v0.36.3, pkg/apiserver/schema/cel/{validation,values,maplist}.go;
apiserver v0.36.3, pkg/cel/escaping.go.
Differs: there is no budget for all rules together, and lists of type "set" and "map" are compared
in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from mooring.apiserver.custom.values import ABSENT, counterparts
from mooring.apiserver.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid,
    required,
)
from mooring.cel import CompileError, EvaluationError
from mooring.cel.rule import Rule
from mooring.cel.times import parse_duration, parse_timestamp
from mooring.cel.values import NONE, ErrorValue, Optional, StringMap, Value
from mooring.objects.text_cache import text_cache

RULES: Final = "x-kubernetes-validations"

#: Compiled rules are shared by all objects.
_CACHE_SIZE: Final = 1024
#: Longer rules are compiled each time: a compiled rule has many times its size.
_CACHED_CHARS_MAX: Final = 8192

_RESERVED: Final = frozenset(
    [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
_ESCAPED: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_TO_ESCAPE: Final = re.compile(r"__|[-./]")
_NAME: Final = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")

#: Errors after which the rules are not evaluated.
_BLOCKING: Final = frozenset(
    f"FieldValue{name}"
    for name in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid")
)
_NOT_EVALUATED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing"
    " errors to complete validation"
)


def has_rules(schema: Any) -> bool:
    """Returns whether a schema, or one inside it, has rules."""
    return any(True for _ in _rules_in(schema))


def compile_problem(text: str) -> str:
    """Returns why a rule or message expression cannot be compiled; "" = it can."""
    compiled = _compiled(text)
    return compiled if isinstance(compiled, str) else ""


def _rules_in(schema: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(schema, dict):
        return
    yield from schema.get(RULES) or ()
    parts = [*(schema.get("properties") or {}).values(), schema.get("items")]
    for part in (*parts, schema.get("additionalProperties")):
        yield from _rules_in(part)


@text_cache(_CACHE_SIZE, chars_max=_CACHED_CHARS_MAX)
def _compiled(text: str) -> Rule | str:
    """Returns a rule, or why it cannot be compiled."""
    try:
        return Rule(text)
    except CompileError as error:
        return str(error)


# ---------------------------------------------------------------------- objects


def find_rule_errors(
    errors: list[FieldError], schema: dict[str, Any], obj: Any, old: Any = None
) -> Iterator[FieldError]:
    """Yields the errors of the rules of a schema; ``errors`` are those of the schema itself."""
    if not has_rules(schema):
        return
    if any(error.type_name in _BLOCKING for error in errors):
        yield invalid("<nil>", None, _NOT_EVALUATED)
        return
    for error in _errors(schema, obj, old, "", is_root=True):
        yield error if error.field else FieldError(error.type_name, "<nil>", error.body)


def _errors(
    schema: Any, value: Any, old: Any, path: str, *, is_root: bool = False
) -> Iterator[FieldError]:
    if value is None or not isinstance(schema, dict):
        return
    for rule in schema.get(RULES) or ():
        yield from _rule_errors(rule, schema, value, old, path, is_root=is_root)
    if isinstance(value, dict):
        properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
        before = old if isinstance(old, dict) else {}
        for name, item in value.items():
            below = f"{path}[{name}]" if more is not None else f"{path}.{name}".lstrip(".")
            yield from _errors(properties.get(name, more), item, before.get(name), below)
    elif isinstance(value, list):
        before_of = counterparts(schema, old)
        for number, item in enumerate(value):
            before_item = before_of(item)
            before_item = None if before_item is ABSENT else before_item
            yield from _errors(schema.get("items"), item, before_item, f"{path}[{number}]")


def _rule_errors(
    rule: dict[str, Any], schema: dict[str, Any], value: Any, old: Any, path: str, *, is_root: bool
) -> Iterator[FieldError]:
    compiled = _compiled(rule["rule"])
    if isinstance(compiled, str):
        return
    is_optional = bool(rule.get("optionalOldSelf"))
    if compiled.uses_old_self and old is None and not is_optional:
        return
    own = cel_value(value, schema, is_root=is_root)
    before: Value = None if old is None else cel_value(old, schema, is_root=is_root)
    if is_optional:
        before = NONE if old is None else Optional(before)
    text = (rule.get("message") or rule["rule"]).strip()
    try:
        if compiled.evaluate(own, before) is True:
            return
    except EvaluationError as error:
        yield invalid(path, schema.get("type", ""), _failure(str(error), text))
        return
    if not compiled.uses_old_self and old is not None and value == old:
        return  # as before the update: upstream only warns
    yield _error(rule, path, value, _message(rule, own, before))


def _failure(error: str, rule: str) -> str:
    if error.startswith("no such overload"):
        problem = "call arguments did not match a supported operator, function or macro signature"
        return f"'{error}': {problem} for rule: {rule}"
    if error.startswith("operation cancelled: actual cost limit exceeded"):
        problem = "no further validation rules will be run due to call cost exceeds limit"
        return f"'{error}': {problem} for rule: {rule}"
    return f"{error} evaluating rule: {rule}"


def _message(rule: dict[str, Any], own: Value, before: Value) -> str:
    """Returns the result of the message expression, or else the message."""
    expression = rule.get("messageExpression")
    compiled = _compiled(expression) if expression else ""
    if isinstance(compiled, Rule):
        try:
            text = compiled.evaluate(own, before)
        except EvaluationError:
            text = ""
        if isinstance(text, str) and text.strip() and "\n" not in text:
            return text.strip()
    message = (rule.get("message") or "").strip()
    return message or f"failed rule: {rule['rule'].strip()}"


def _error(rule: dict[str, Any], path: str, value: Any, detail: str) -> FieldError:
    below = rule.get("fieldPath") or ""
    path = (path + below).lstrip(".")
    match rule.get("reason"):
        case "FieldValueForbidden":
            return forbidden_field(path, detail)
        case "FieldValueRequired":
            return required(path, detail)
        case "FieldValueDuplicate":
            return duplicate(path, value)
    if isinstance(value, dict | list):
        return FieldError("FieldValueInvalid", path, f"Invalid value: {detail}")
    return invalid(path, value, detail)


# ---------------------------------------------------------------------- values


def cel_value(value: Any, schema: Any, *, is_root: bool = False) -> Value:
    """Returns a JSON value as rules see it.

    Example:
        >>> cel_value({"max-size": 2}, {"properties": {"max-size": {"type": "number"}}}).entries
        {'max__dash__size': 2.0}
    """
    schema = schema if isinstance(schema, dict) else {}
    if isinstance(value, dict):
        return _map(value, schema, is_root=is_root)
    if isinstance(value, list):
        return [cel_value(item, schema.get("items")) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        if schema.get("type") == "number":
            return float(value)
        return int(value) if schema.get("type") == "integer" else value
    if isinstance(value, str):
        return _text(value, schema.get("format"))
    return value


def _map(value: dict[str, Any], schema: dict[str, Any], *, is_root: bool) -> StringMap:
    properties, more = schema.get("properties"), schema.get("additionalProperties")
    if properties is None and not is_root:
        return StringMap({name: cel_value(item, more) for name, item in value.items()})
    properties = dict(properties or {})
    if is_root or schema.get("x-kubernetes-embedded-resource"):
        text = {"type": "string"}
        names = {"name": text, "generateName": text}
        properties |= {"apiVersion": text, "kind": text, "metadata": {"properties": names}}
    return StringMap(
        {
            escaped: cel_value(value[name], part)
            for name, part in properties.items()
            if name in value and (escaped := escape(name))
        }
    )


def escape(name: str) -> str:
    """Returns the name of a property in rules; "" = rules cannot name it."""
    if name in _RESERVED:
        return f"__{name}__"
    if not _NAME.fullmatch(name):
        return ""
    return _TO_ESCAPE.sub(lambda match: _ESCAPED[match[0]], name)


def _text(value: str, name: str | None) -> Value:
    """Returns a string with a format as the value of its type."""
    parsed: Value = value
    if name in ("date-time", "datetime"):
        parsed = parse_timestamp(value)
    elif name == "date":
        parsed = parse_timestamp(f"{value}T00:00:00Z")
    elif name == "duration":
        parsed = parse_duration(value)
    return value if parsed is None or isinstance(parsed, ErrorValue) else parsed
