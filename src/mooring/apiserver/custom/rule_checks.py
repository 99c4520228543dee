"""Validation of the rules of a new definition.

Source: apiextensions-apiserver v0.36.3, pkg/apis/apiextensions/validation/validation.go
(ValidateCustomResourceDefinitionOpenAPISchema).
Differs: costs are not estimated, and paths are not looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from mooring.apiserver.custom.definition import RULES
from mooring.apiserver.custom.rule_types import SelfType, compiled, self_type
from mooring.apiserver.custom.rules import compile_problem, uses_the_value_before
from mooring.apiserver.errors import FieldError, invalid, not_supported, required
from mooring.cel.rule import MAX_RULE_BYTES
from mooring.cel.types import BOOL, STRING, Type

_REASONS: Final = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)
#: Upstream prints its internal type, whose fields have other names.
_FIELDS: Final = ("rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf")

#: Types of results, and the messages if there is another.
_OF_RULES: Final = BOOL, "cel expression must evaluate to a bool"
_OF_MESSAGES: Final = STRING, "must evaluate to a string"
#: The path of a schema, and the schema.
Located = tuple[str, dict[str, Any]]


def rule_errors(schemas: Iterable[Located], root: str) -> list[FieldError]:
    """Returns the errors of rules: of what they consist of, or else of their compilation.

    Args:
        schemas: The paths of schemas, and the schemas.
        root: The path of that of the whole object.
    """
    located = dict(schemas)
    ruled = {path: schema[RULES] for path, schema in located.items() if schema.get(RULES)}
    errors = [
        error
        for path, rules in ruled.items()
        for number, rule in enumerate(rules)
        for error in _form_errors(rule, f"{path}.{RULES}[{number}]")
    ]
    return errors or [
        error for path in ruled for error in _errors_of_schema(path, located, is_root=path == root)
    ]


def _errors_of_schema(
    path: str, located: Mapping[str, dict[str, Any]], *, is_root: bool
) -> Iterator[FieldError]:
    """Yields the errors of the rules of a schema; ``located``: this one and those around it."""
    schema = located[path]
    declared = self_type(schema, is_root=is_root)
    uncorrelated = _uncorrelated(path, located)
    for number, rule in enumerate(schema[RULES]):
        yield from _compile_errors(rule, f"{path}.{RULES}[{number}]", declared, uncorrelated)


def _uncorrelated(path: str, located: Mapping[str, dict[str, Any]]) -> str:
    """Returns the outermost path below which values have none before an update; "" = none."""
    end = -1
    while (end := path.find(".items", end + 1)) >= 0:
        around = located.get(path[:end])
        if around is not None and around.get("x-kubernetes-list-type") != "map":
            return path[:end]
    return ""


def _form_errors(rule: dict[str, Any], path: str) -> Iterator[FieldError]:
    text, message = rule.get("rule") or "", rule.get("message") or ""
    expression, field_path = rule.get("messageExpression") or "", rule.get("fieldPath") or ""
    if not text.strip():
        yield required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    elif "\n" in text.strip() and not message:
        problem = "message must be specified if rule contains line breaks"
        yield required(f"{path}.message", problem)
    if expression and not expression.strip():
        problem = "messageExpression must be non-empty if specified"
        yield required(f"{path}.messageExpression", problem)
    if rule.get("reason") is not None and rule["reason"] not in _REASONS:
        yield not_supported(f"{path}.reason", rule["reason"], _REASONS)
    if field_path and not field_path.strip():
        yield invalid(f"{path}.fieldPath", field_path, "must be non-empty if specified")
    if "\n" in field_path:
        yield invalid(f"{path}.fieldPath", field_path, "must not contain line breaks")


def _compile_errors(
    rule: dict[str, Any], path: str, declared: SelfType | None, uncorrelated: str
) -> Iterator[FieldError]:
    text, expression = rule["rule"], rule.get("messageExpression")
    is_optional = rule.get("optionalOldSelf")
    is_old_optional = bool(is_optional)
    problem = _problem(text, declared, _OF_RULES, is_old_optional=is_old_optional)
    uses_old_self = not problem and uses_the_value_before(text)
    if problem:
        yield invalid(f"{path}.rule", _internal_form(rule), problem)
    elif expression and (
        problem := _problem(expression, declared, _OF_MESSAGES, is_old_optional=is_old_optional)
    ):
        detail = f"messageExpression {problem}"
        yield invalid(f"{path}.messageExpression", _internal_form(rule), detail)
    if uses_old_self and uncorrelated:
        problem = "oldSelf cannot be used on the uncorrelatable portion of the schema within "
        yield invalid(f"{path}.rule", text, f"{problem}{uncorrelated}")
    elif not uses_old_self and is_optional is not None:
        problem = "may not be set if oldSelf is not used in rule"
        yield invalid(f"{path}.optionalOldSelf", is_optional, problem)


def _problem(
    text: str, declared: SelfType | None, result: tuple[Type, str], *, is_old_optional: bool
) -> str:
    """Returns why an expression is invalid, "" if it is not.

    Args:
        text: The expression.
        declared: The type of ``self``, if it has one.
        result: The type that it must have, and the message if it has another.
        is_old_optional: Whether ``oldSelf`` is an optional value.
    """
    if declared is not None and len(text) <= MAX_RULE_BYTES:
        typed = compiled(text, declared, is_old_optional=is_old_optional)
        if typed.problems:
            return f"compilation failed: {typed.problems}"
        if not typed.result.same_as(result[0]):
            return result[1]
    return compile_problem(text)


def _internal_form(rule: dict[str, Any]) -> dict[str, Any]:
    absent = {"reason": None, "optionalOldSelf": None}
    return {name[0].upper() + name[1:]: rule.get(name, absent.get(name, "")) for name in _FIELDS}
