"""Validation of the rules of a new definition.

Source: apiextensions-apiserver v0.36.3, pkg/apis/apiextensions/validation/validation.go
(ValidateCustomResourceDefinitionOpenAPISchema).
Differs: the types of fields are not checked, costs are not estimated, and paths are not looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from mooring.apiserver.custom.definition import RULES
from mooring.apiserver.custom.rules import compile_problem
from mooring.apiserver.errors import FieldError, invalid, not_supported, required

_REASONS: Final = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)
#: Upstream prints its internal type, whose fields have other names.
_FIELDS: Final = ("rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf")

#: The path of a schema, and the schema.
Located = tuple[str, dict[str, Any]]


def rule_errors(schemas: Iterable[Located]) -> list[FieldError]:
    """Returns the errors of rules: of what they consist of, or else of their compilation."""
    rules = [
        (f"{path}.{RULES}[{number}]", rule)
        for path, schema in schemas
        for number, rule in enumerate(schema.get(RULES) or ())
    ]
    errors = [error for path, rule in rules for error in _form_errors(rule, path)]
    return errors or [error for path, rule in rules for error in _compile_errors(rule, path)]


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


def _compile_errors(rule: dict[str, Any], path: str) -> Iterator[FieldError]:
    if problem := compile_problem(rule["rule"]):
        yield invalid(f"{path}.rule", _internal_form(rule), problem)
    expression = rule.get("messageExpression")
    if expression and (problem := compile_problem(expression)):
        detail = f"messageExpression {problem}"
        yield invalid(f"{path}.messageExpression", _internal_form(rule), detail)


def _internal_form(rule: dict[str, Any]) -> dict[str, Any]:
    absent = {"reason": None, "optionalOldSelf": None}
    return {name[0].upper() + name[1:]: rule.get(name, absent.get(name, "")) for name in _FIELDS}
