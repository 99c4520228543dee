"""Validation of the rules of a new definition.

Source: apiextensions-apiserver v0.36.3, pkg/apis/apiextensions/validation/validation.go
(ValidateCustomResourceDefinitionOpenAPISchema).
Differs: paths are not looked up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from mooring.apiserver.custom.definition import RULES
from mooring.apiserver.custom.rules.costs import MAX_COST, Costs, most_values
from mooring.apiserver.custom.rules.evaluation import compile_problem, uses_the_value_before
from mooring.apiserver.custom.rules.types import SelfType, compiled, self_type
from mooring.apiserver.errors import (
    FieldError,
    internal_field_error,
    invalid,
    not_supported,
    required,
)
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
_NO_TYPE: Final = (
    "internal error: failed to construct type information for x-kubernetes-validations rules: "
    "unable to convert structural schema to CEL declarations"
)
#: The path of a schema, and the schema.
Located = tuple[str, dict[str, Any]]
#: Between the path of a schema and the rest of that of a schema in it.
_PARTS: Final = re.compile(r"\.items\b|\.additionalProperties\b|\.properties\[")


def rule_errors(schemas: Iterable[Located], root: str, *, limits_rules: bool) -> list[FieldError]:
    """Returns the errors of rules: of what they consist of, or else of their compilation.

    Args:
        schemas: The paths of schemas, and the schemas.
        root: The path of that of the whole object.
        limits_rules: Whether the cost of each rule is limited, and not only their sum.
    """
    located = dict(schemas)
    ruled = {path: schema[RULES] for path, schema in located.items() if schema.get(RULES)}
    errors = [
        error
        for path, rules in ruled.items()
        for number, rule in enumerate(rules)
        for error in _form_errors(rule, f"{path}.{RULES}[{number}]")
    ]
    if errors:
        return errors
    checks = _Checks(located, root, limits_rules=limits_rules)
    for path in ruled:
        errors += checks.errors(path)
    return [*errors, *checks.costs.errors(root)]


class _Checks:
    """Compiles the rules of a schema and of those in it.

    Attributes:
        costs: What the rules cost that were compiled.
    """

    def __init__(
        self, located: Mapping[str, dict[str, Any]], root: str, *, limits_rules: bool
    ) -> None:
        self.costs = Costs(limits_rules=limits_rules)
        self._located = located
        self._root = root
        #: Path -> whether the rules of a schema can see the value.
        self._is_typed: dict[str, bool] = {}

    def errors(self, path: str) -> Iterator[FieldError]:
        """Yields the errors of the rules of the schema at a path."""
        schema = self._located[path]
        declared = self._type(path)
        around = list(self._around(path))
        if declared is None or not all(self._is_typed_at(outer) for outer, _ in around):
            yield internal_field_error(f"{path}.{RULES}", _NO_TYPE)
            return
        count = most_values(outer for _, outer in around)
        if count is None:
            count = declared.self.instances_max
        uncorrelated = next((outer for outer, it in around if _is_uncorrelated(it)), "")
        for number, rule in enumerate(schema[RULES]):
            expressions = _Expressions(rule, f"{path}.{RULES}[{number}]", declared)
            yield from expressions.errors(self.costs, count)
            yield from expressions.errors_of_old_self(uncorrelated)

    def _type(self, path: str) -> SelfType | None:
        declared = self_type(self._located[path], is_root=path == self._root)
        self._is_typed[path] = declared is not None
        return declared

    def _is_typed_at(self, path: str) -> bool:
        """Returns whether the rules of a schema, if it has any, can see the value."""
        if not self._located[path].get(RULES):
            return True
        if path not in self._is_typed:
            self._type(path)
        return self._is_typed[path]

    def _around(self, path: str) -> Iterator[Located]:
        """Yields the schemas around one, the outermost first."""
        for part in _PARTS.finditer(path):
            outer = path[: part.start()]
            if outer in self._located:
                yield outer, self._located[outer]


def _is_uncorrelated(schema: dict[str, Any]) -> bool:
    """Returns whether what is in a list has no value before an update."""
    return schema.get("type") == "array" and schema.get("x-kubernetes-list-type") != "map"


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


class _Expressions:
    """The expressions of a rule: the rule itself, and that of its message."""

    def __init__(self, rule: dict[str, Any], path: str, declared: SelfType) -> None:
        self._rule = rule
        self._path = path
        self._declared = declared
        self._is_valid = False

    def errors(self, costs: Costs, count: int) -> Iterator[FieldError]:
        """Yields the errors of both expressions.

        Args:
            costs: The costs of the rules of the definition.
            count: How many values of the schema an object may have.
        """
        problem, cost = self._compile(self._rule["rule"], _OF_RULES)
        self._is_valid = not problem
        path = f"{self._path}.rule"
        yield from costs.add(path, "estimated rule cost", min(cost * count, MAX_COST))
        if problem:
            yield invalid(path, _internal_form(self._rule), problem)
            return
        expression = self._rule.get("messageExpression")
        if not expression:
            return
        path = f"{self._path}.messageExpression"
        problem, cost = self._compile(expression, _OF_MESSAGES)
        if problem:
            yield invalid(path, _internal_form(self._rule), f"messageExpression {problem}")
        else:
            yield from costs.add(path, "estimated messageExpression cost", cost)

    def errors_of_old_self(self, uncorrelated: str) -> Iterator[FieldError]:
        """Yields the errors of ``oldSelf``, once the rule is compiled.

        Args:
            uncorrelated: The path below which values have none before an update; "" = none.
        """
        text, is_optional = self._rule["rule"], self._rule.get("optionalOldSelf")
        uses_old_self = self._is_valid and uses_the_value_before(text)
        if uses_old_self and uncorrelated:
            problem = "oldSelf cannot be used on the uncorrelatable portion of the schema within "
            yield invalid(f"{self._path}.rule", text, f"{problem}{uncorrelated}")
        elif not uses_old_self and is_optional is not None:
            problem = "may not be set if oldSelf is not used in rule"
            yield invalid(f"{self._path}.optionalOldSelf", is_optional, problem)

    def _compile(self, text: str, result: tuple[Type, str]) -> tuple[str, int]:
        """Returns why an expression is invalid, "" if it is not, and its greatest cost.

        Args:
            text: The expression.
            result: The type that it must have, and the message if it has another.
        """
        if len(text) > MAX_RULE_BYTES:  # not worth a check, which takes long
            return compile_problem(text), 0
        is_old_optional = bool(self._rule.get("optionalOldSelf"))
        typed = compiled(text, self._declared, is_old_optional=is_old_optional)
        if typed.problems:
            return f"compilation failed: {typed.problems}", 0
        if not typed.result.same_as(result[0]):
            return result[1], 0
        problem = compile_problem(text)
        return problem, 0 if problem else typed.cost


def _internal_form(rule: dict[str, Any]) -> dict[str, Any]:
    absent = {"reason": None, "optionalOldSelf": None}
    return {name[0].upper() + name[1:]: rule.get(name, absent.get(name, "")) for name in _FIELDS}
