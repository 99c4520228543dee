"""Validates the node affinity terms of a configuration, field by field.

Source: k8s.io/component-helpers scheduling/corev1/nodeaffinity (the two functions that turn
requirements into selectors), k8s.io/apimachinery pkg/labels (NewRequirement).
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.config.field_errors import FieldError
from mooring.objects.files.documents import Path
from mooring.objects.meta import NodeSelectorRequirement, NodeSelectorTerm
from mooring.objects.names import label_key_problem, label_value_problem
from mooring.objects.selectors import parse_int64

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")


def check_term(term: NodeSelectorTerm, path: Path) -> Iterator[FieldError]:
    """Yields the faults of a term's conditions; an empty term selects nothing."""
    for i, condition in enumerate(term.match_expressions):
        yield from _expression(condition, (*path, "matchExpressions", i))
    for i, condition in enumerate(term.match_fields):
        yield from _field(condition, (*path, "matchFields", i))


def _expression(condition: NodeSelectorRequirement, path: Path) -> Iterator[FieldError]:
    operator, values = condition.operator, list(condition.values)
    if operator not in _OPERATORS:
        yield FieldError((*path, "operator"), _supported(_OPERATORS), operator)
        return
    if problem := label_key_problem(condition.key):
        yield FieldError((*path, "key"), problem, condition.key)
    here = (*path, "values")
    if operator in ("In", "NotIn") and not values:
        yield FieldError(here, "for 'in', 'notin' operators, values set can't be empty", values)
    if operator in ("Exists", "DoesNotExist") and values:
        yield FieldError(here, "values set must be empty for exists and does not exist", values)
    if operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield FieldError(
                here, "for 'Gt', 'Lt' operators, exactly one value is required", values
            )
        for i, value in enumerate(values):
            if parse_int64(value) is None:
                problem = "for 'Gt', 'Lt' operators, the value must be an integer"
                yield FieldError((*here, i), problem, value)
    for i, value in enumerate(values):
        if problem := label_value_problem(value):
            # Upstream adds the key to the place of the value.
            yield FieldError((*here, i, f"[{condition.key}]"), problem, value)


def _field(condition: NodeSelectorRequirement, path: Path) -> Iterator[FieldError]:
    if condition.operator not in _FIELD_OPERATORS:
        yield FieldError((*path, "operator"), _supported(_FIELD_OPERATORS), condition.operator)
    elif len(condition.values) != 1:
        yield FieldError((*path, "values"), "must have one element", list(condition.values))


def _supported(operators: tuple[str, ...]) -> str:
    return "must be one of " + ", ".join(operators)
