"""Evaluates the rules of a definition (``x-kubernetes-validations``) for its objects.

Source: apiextensions-apiserver v0.36.3, pkg/apiserver/schema/cel/{validation,values,maplist}.go;
apiserver v0.36.3, pkg/cel/escaping.go.
Differs: lists of type "set" and "map" are compared in order, and loops that cost nothing are
limited, too.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mooring.apiserver.custom.definition import RULES, has_rules
from mooring.apiserver.custom.values import ABSENT, counterparts
from mooring.apiserver.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid,
    quoted,
    required,
)
from mooring.cel import CompileError, EvaluationError
from mooring.cel.cost import CostTracker
from mooring.cel.rule import Rule
from mooring.cel.times import parse_duration, parse_timestamp
from mooring.cel.values import NONE, ErrorValue, Optional, StringMap, Value
from mooring.objects.text_cache import text_cache

#: Compiled rules are shared by all objects.
_CACHE_SIZE: Final = 1024
#: Longer rules are compiled each time: a compiled rule has many times its size.
_CACHED_CHARS_MAX: Final = 8192

#: Cost units of all rules for an object.
COST_BUDGET: Final = 10_000_000
#: Steps of loops, likewise: some cost nothing.
STEP_BUDGET: Final = 5_000_000
#: Of the result of a message expression.
MESSAGE_BYTES_MAX: Final = 5 * 1024
_NO_BUDGET: Final = "running out of cost budget, no further validation rules will be run"
_OUT_OF_BUDGET: Final = f"validation failed due to {_NO_BUDGET}"
_CALL_COST_EXCEEDED: Final = "operation cancelled: actual cost limit exceeded"

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


def compile_problem(text: str) -> str:
    """Returns why a rule or message expression cannot be compiled; "" = it can."""
    compiled = _compiled(text)
    return compiled if isinstance(compiled, str) else ""


def uses_the_value_before(text: str) -> bool:
    """Returns whether a rule refers to ``oldSelf``."""
    compiled = _compiled(text)
    return isinstance(compiled, Rule) and compiled.uses_old_self


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
    node = _Node(schema, obj, old, "", is_root=True)
    for error in _errors(node, _Budget()):
        yield error if error.field else FieldError(error.type_name, "<nil>", error.body)


@dataclass(slots=True)
class _Budget:
    """Cost and steps that are left for an object; after ``is_spent`` no rule is evaluated."""

    cost: int = COST_BUDGET
    steps: int = STEP_BUDGET
    is_spent: bool = False

    def spend(self, tracker: CostTracker) -> bool:
        """Subtracts an evaluation; returns False if it was too much."""
        self.is_spent = tracker.cost > self.cost or tracker.n_steps > self.steps
        self.cost -= tracker.cost
        self.steps -= tracker.n_steps
        return not self.is_spent


class _Node(NamedTuple):
    """A value with its schema, and the one before an update; None = none."""

    schema: Any
    value: Any
    old: Any
    path: str
    is_root: bool = False

    def cel_value(self, value: Any) -> Value:
        return cel_value(value, self.schema, is_root=self.is_root)

    def invalid(self, problem: str, field: str = "") -> FieldError:
        path = f"{self.path}{field}".lstrip(".")
        return invalid(path, self.schema.get("type", ""), problem)


def _errors(node: _Node, budget: _Budget) -> Iterator[FieldError]:
    if node.value is None or not isinstance(node.schema, dict):
        return
    yield from _own_errors(node, budget)
    for child in _children(node):
        if budget.is_spent:
            return
        yield from _errors(child, budget)


def _children(node: _Node) -> Iterator[_Node]:
    schema, value, old = node.schema, node.value, node.old
    if isinstance(value, dict):
        properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
        before = old if isinstance(old, dict) else {}
        for name, item in value.items():
            path = f"{node.path}[{name}]" if more is not None else f"{node.path}.{name}".lstrip(".")
            yield _Node(properties.get(name, more), item, before.get(name), path)
    elif isinstance(value, list):
        before_of = counterparts(schema, old)
        for number, item in enumerate(value):
            before_item = before_of(item)
            before_item = None if before_item is ABSENT else before_item
            yield _Node(schema.get("items"), item, before_item, f"{node.path}[{number}]")


def _own_errors(node: _Node, budget: _Budget) -> Iterator[FieldError]:
    rules = node.schema.get(RULES) or ()
    if not rules:
        return
    if budget.cost <= 0:
        budget.is_spent = True
        yield node.invalid(_OUT_OF_BUDGET)
        return
    own = node.cel_value(node.value)
    before = None if node.old is None else node.cel_value(node.old)
    for rule in rules:
        yield from _rule_errors(rule, node, own, before, budget)
        if budget.is_spent:
            return


def _rule_errors(
    rule: dict[str, Any], node: _Node, own: Value, before: Value, budget: _Budget
) -> Iterator[FieldError]:
    compiled = _compiled(rule["rule"])
    if isinstance(compiled, str):
        return
    is_optional = bool(rule.get("optionalOldSelf"))
    if compiled.uses_old_self and node.old is None and not is_optional:
        return
    old_self: Value = before
    if is_optional:
        old_self = NONE if node.old is None else Optional(before)
    tracker = CostTracker()
    problem, result = "", None
    try:
        result = compiled.evaluate(own, old_self, tracker)
    except EvaluationError as error:
        problem = str(error)
    if not budget.spend(tracker):
        yield node.invalid(_OUT_OF_BUDGET)
    elif problem:
        budget.is_spent = problem.startswith(_CALL_COST_EXCEEDED)
        yield node.invalid(_failure(problem, (rule.get("message") or rule["rule"]).strip()))
    elif result is not True:
        refusal = _message_error(rule, node, own, before, budget)
        is_unchanged = node.old is not None and node.value == node.old
        if compiled.uses_old_self or not is_unchanged:  # otherwise upstream only warns
            yield refusal


def _failure(error: str, rule: str) -> str:
    if error.startswith("no such overload"):
        problem = "call arguments did not match a supported operator, function or macro signature"
        return f"'{error}': {problem} for rule: {rule}"
    if error.startswith(_CALL_COST_EXCEEDED):
        problem = "no further validation rules will be run due to call cost exceeds limit"
        return f"'{error}': {problem} for rule: {rule}"
    return f"{error} evaluating rule: {rule}"


def _message_error(
    rule: dict[str, Any], node: _Node, own: Value, before: Value, budget: _Budget
) -> FieldError:
    """Returns the error of a rule that is false, with the result of its message expression."""
    expression = rule.get("messageExpression") or ""
    compiled = _compiled(expression) if expression else ""
    text: Value = ""
    if isinstance(compiled, Rule):
        tracker, problem = CostTracker(), ""
        try:
            text = compiled.evaluate(own, before, tracker)
        except EvaluationError as error:
            problem = str(error)
        field = rule.get("fieldPath") or ""
        if not budget.spend(tracker):
            return node.invalid(f"messageExpression evaluation failed due to {_NO_BUDGET}", field)
        if problem.startswith(_CALL_COST_EXCEEDED):
            budget.is_spent = True
            limit = f"call cost exceeds limit for messageExpression: {quoted(expression)}"
            return node.invalid(f"no further validation rules will be run due to {limit}", field)
    message = text.strip() if isinstance(text, str) else ""
    if len(message.encode(errors="surrogatepass")) > MESSAGE_BYTES_MAX or "\n" in message:
        message = ""
    message = message or (rule.get("message") or "").strip()
    return _error(rule, node.path, node.value, message or f"failed rule: {rule['rule'].strip()}")


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
            rule_name: cel_value(value[name], part)
            for name, part in properties.items()
            if name in value
            for rule_name in names_in_rules(name)
        }
    )


def names_in_rules(name: str) -> tuple[str, ...]:
    """Returns the names that a property has in rules: a reserved word has two.

    Example:
        >>> names_in_rules("namespace"), names_in_rules("a-b"), names_in_rules("1")
        (('__namespace__', 'namespace'), ('a__dash__b',), ())
    """
    if name in _RESERVED:
        return f"__{name}__", name
    return (escaped,) if (escaped := escape(name)) else ()


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
    elif name == "byte":
        # As upstream decodes it, in the alphabet of URLs alone.
        try:
            return base64.b64decode(value, altchars=b"-_", validate=True)
        except ValueError as error:
            return ErrorValue(f"Invalid byte formatted string {value}: {error}")
    return value if parsed is None or isinstance(parsed, ErrorValue) else parsed
