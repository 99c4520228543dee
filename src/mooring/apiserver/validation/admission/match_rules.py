"""Validation of what webhooks and policies apply to: operations, resources, expressions in CEL.

Source: pkg/apis/admissionregistration/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from mooring.apiserver import names
from mooring.apiserver.errors import (
    Errors,
    duplicate,
    internal_field_error,
    invalid,
    not_supported,
    required,
    too_many,
)
from mooring.apiserver.validation.admission.declared import Declared
from mooring.apiserver.validation.metadata import validate_label_selector
from mooring.apiserver.validation.rules import field_errors, one_of

if TYPE_CHECKING:
    from mooring.apiserver.types import Object
    from mooring.cel.types import Type

FAILURE_POLICIES: Final = ("Fail", "Ignore")
MATCH_POLICIES: Final = ("Equivalent", "Exact")
REINVOCATION_POLICIES: Final = ("IfNeeded", "Never")
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_CONDITIONS_MAX: Final = 64


def validate_rule(rule: Object, field: str) -> Errors:
    """Validates operations, groups, versions and resources."""
    operations = rule.get("operations") or []
    if not operations:
        yield required(f"{field}.operations")
    if len(operations) > 1 and "*" in operations:
        problem = "if '*' is present, must not specify other operations"
        yield invalid(f"{field}.operations", operations, problem)
    for number, operation in enumerate(operations):
        yield from one_of(f"{field}.operations[{number}]", operation, _OPERATIONS)
    for name, title in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = rule.get(name) or []
        if not values:
            yield required(f"{field}.{name}")
        if len(values) > 1 and "*" in values:
            problem = f"if '*' is present, must not specify other {title}"
            yield invalid(f"{field}.{name}", values, problem)
    yield from _validate_present(rule.get("apiVersions") or (), f"{field}.apiVersions")
    yield from _validate_resources(rule.get("resources") or [], f"{field}.resources")
    yield from one_of(f"{field}.scope", rule.get("scope"), _SCOPES)


def _validate_present(values: Sequence[str], field: str) -> Errors:
    yield from (required(f"{field}[{number}]") for number, value in enumerate(values) if not value)


def _validate_resources(resources: list[str], field: str) -> Errors:
    if not resources:
        yield required(field)
    with_all_subresources: set[str] = set()
    of_all_resources: set[str] = set()
    last_is_plain = False
    for number, text in enumerate(resources):
        path = f"{field}[{number}]"
        if not text:
            yield required(path)
            continue
        resource, slash, subresource = text.partition("/")
        if not slash:
            last_is_plain = text != "*"
            continue
        if resource in with_all_subresources:
            problem = f"if '{resource}/*' is present, must not specify {text}"
            yield invalid(path, text, problem)
        if subresource in of_all_resources:
            problem = f"if '*/{subresource}' is present, must not specify {text}"
            yield invalid(path, text, problem)
        if subresource == "*":
            with_all_subresources.add(resource)
        if resource == "*":
            of_all_resources.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        yield invalid(field, resources, "if '*/*' is present, must not specify other resources")
    # As upstream, which remembers the last resource without a subresource only.
    if "*" in resources and last_is_plain:
        problem = "if '*' is present, must not specify other resources without subresources"
        yield invalid(field, resources, problem)


def validate_match_resources(match: Object | None, field: str) -> Errors:
    """Validates the resources and namespaces that a policy applies to."""
    if match is None:
        return
    yield from one_of(f"{field}.matchPolicy", match.get("matchPolicy"), MATCH_POLICIES)
    for name in ("namespaceSelector", "objectSelector"):
        yield from validate_label_selector(match.get(name), f"{field}.{name}")
    for name in ("resourceRules", "excludeResourceRules"):
        for number, rule in enumerate(match.get(name) or ()):
            yield from _validate_named_rule(rule, f"{field}.{name}[{number}]")


def _validate_named_rule(rule: Object, field: str) -> Errors:
    names_before: set[str] = set()
    for number, name in enumerate(rule.get("resourceNames") or ()):
        path = f"{field}.resourceNames[{number}]"
        yield from field_errors(path, name, names.path_segment)
        if name in names_before:
            yield duplicate(path, name)
        names_before.add(name)
    yield from validate_rule(rule, field)


def validate_no_deletions(match: Object | None, field: str) -> Errors:
    """Validates that a mutating policy does not apply to deletions."""
    supported = [operation for operation in _OPERATIONS if operation != "DELETE"]
    for rule in (match or {}).get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in supported:
                path = f"{field}.resourceRules.operations"
                yield not_supported(path, operation, supported)


def validate_conditions(
    conditions: Sequence[Object], field: str, *, has_params: bool = False
) -> Errors:
    """Validates match conditions.

    Args:
        conditions: Of a webhook or policy.
        field: Their path.
        has_params: Whether the policy has parameters.
    """
    declared = Declared(has_params=has_params)
    if len(conditions) > _CONDITIONS_MAX:
        yield too_many(field, len(conditions), _CONDITIONS_MAX)
    names_before: set[str] = set()
    for number, condition in enumerate(conditions):
        path, name = f"{field}[{number}]", condition.get("name", "")
        expression = condition.get("expression", "").strip()
        yield from validate_expression(expression, f"{path}.expression", declared, ("bool",))
        if not name:
            yield required(f"{path}.name")
            continue
        yield from field_errors(f"{path}.name", name, names.qualified_name)
        if name in names_before:
            yield duplicate(f"{path}.name", name)
        names_before.add(name)


def validate_expression(
    text: str,
    field: str,
    declared: Declared,
    results: tuple[str, ...],
    if_empty: str = "",
    *,
    with_patches: bool = False,
) -> Errors:
    """Validates an expression in CEL: its syntax, names, functions and types.

    Args:
        text: The expression.
        field: Its path.
        declared: What it may refer to.
        results: Names of the types that it may have.
        if_empty: The message if there is no expression.
        with_patches: Whether it may make patches.
    """
    if not text.strip():
        yield required(field, if_empty)
        return
    compiled = _compiled(text, declared, with_patches=with_patches)
    yield from _errors(text, field, compiled, results)


def validate_variable(
    text: str, field: str, declared: Declared, name: str, if_empty: str
) -> Errors:
    """Validates the expression of a variable of any type, and declares it for the later ones."""
    # Imported late: few clusters have such expressions.
    from mooring.apiserver.validation.admission.variables import as_variable

    assert declared.variables is not None
    if not text.strip():
        yield required(field, if_empty)
        return
    compiled = _compiled(text, declared)
    declared.variables[name] = as_variable(None if compiled.undefined else compiled.result)
    yield from _errors(text, field, compiled)


class _Compiled(NamedTuple):
    """Result of the compiler: problems, or a type, and a named type that has no value."""

    problems: str = ""
    result: Type | None = None
    undefined: str = ""


def _errors(text: str, field: str, compiled: _Compiled, results: tuple[str, ...] = ()) -> Errors:
    """Yields what is wrong with an expression; without results it may have any type."""
    result = compiled.result
    if result is None:
        yield invalid(field, text, f"compilation failed: {compiled.problems}")
    elif results and result.long_text not in results:
        expected = results[0] if len(results) == 1 else f"one of [{' '.join(results)}]"
        yield invalid(field, text, f"must evaluate to {expected} but got {result.long_text}")
    elif compiled.undefined:
        problem = f"reference to undefined type: {compiled.undefined}"
        yield internal_field_error(field, f"program instantiation failed: {problem}")


def _compiled(text: str, declared: Declared, *, with_patches: bool = False) -> _Compiled:
    from mooring.apiserver.validation.admission.variables import type_of
    from mooring.cel.checker import undefined_type
    from mooring.cel.depth import deep_recursion
    from mooring.cel.environment import Environment
    from mooring.cel.syntax.parser import parse
    from mooring.cel.syntax.source import Problems, Source

    source = Source(text)
    problems = Problems(source)
    with deep_recursion():
        root = parse(source, problems, Environment.RULE)
        if not problems:
            result = type_of(root, source, problems, declared, with_patches=with_patches)
        if problems:
            return _Compiled(str(problems))
        return _Compiled(result=result, undefined=undefined_type(root))
