"""Validation of admission policies and their bindings.

Source: pkg/apis/admissionregistration/validation/validation.go.
Differs: permission to read the kind of parameters is not checked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from mooring.apiserver import names
from mooring.apiserver.errors import (
    Errors,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
)
from mooring.apiserver.validation.admission.declared import Declared
from mooring.apiserver.validation.admission.match_rules import (
    FAILURE_POLICIES,
    REINVOCATION_POLICIES,
    validate_conditions,
    validate_expression,
    validate_match_resources,
    validate_no_deletions,
    validate_variable,
)
from mooring.apiserver.validation.metadata import validate_label_selector
from mooring.apiserver.validation.rules import (
    field_errors,
    one_of,
    required_one_of,
    required_value,
)

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS: Final = ("Audit", "Deny", "Warn")
_PATCH_TYPES: Final = ("ApplyConfiguration", "JSONPatch")
_ABSENT_PARAMETERS: Final = ("Deny", "Allow")
_ANNOTATIONS_MAX: Final = 20
_ANNOTATION_BYTES_MAX: Final = 5 * 1024
_IDENTIFIER: Final = re.compile("[_a-zA-Z][_a-zA-Z0-9]*")
_EXCLUSIVE: Final = "name and selector are mutually exclusive"
_NO_EXPRESSION: Final = "expression is not specified"
_NOTHING: Final = "validations or auditAnnotations must contain at least one item"


# -- policies --------------------------------------------------------------------------------------


def validate_validating(policy: Object) -> Errors:
    """Validates a new or changed ValidatingAdmissionPolicy."""
    spec, field = policy["spec"], "spec"
    yield from _validate_shared_parts(spec)
    variables = spec.get("variables") or ()
    declared = Declared(
        has_params=spec.get("paramKind") is not None, variables={} if variables else None
    )
    yield from _validate_variables(variables, declared)
    validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or ()
    if not validations and not annotations:
        yield required(f"{field}.validations", _NOTHING)
        yield required(f"{field}.auditAnnotations", _NOTHING)
        return
    for number, validation in enumerate(validations):
        yield from _validate_validation(validation, f"{field}.validations[{number}]", declared)
    yield from _validate_annotations(policy, annotations, declared)


def validate_mutating(policy: Object) -> Errors:
    """Validates a new or changed MutatingAdmissionPolicy."""
    spec = policy["spec"]
    yield from _validate_shared_parts(spec, is_mutating=True)
    declared = Declared(has_params=spec.get("paramKind") is not None, variables={})
    yield from _validate_variables(spec.get("variables") or (), declared)
    mutations = spec.get("mutations") or ()
    if not mutations:
        yield required("spec.mutations", "mutations must contain at least one item")
    for number, mutation in enumerate(mutations):
        yield from _validate_mutation(mutation, f"spec.mutations[{number}]", declared)
    policy_name = spec.get("reinvocationPolicy")
    yield from required_one_of("spec.reinvocationPolicy", policy_name, REINVOCATION_POLICIES)


def _validate_shared_parts(spec: Object, *, is_mutating: bool = False) -> Errors:
    policy, match = spec.get("failurePolicy"), spec.get("matchConstraints")
    kind = spec.get("paramKind")
    yield from one_of("spec.failurePolicy", policy, FAILURE_POLICIES)
    if kind is not None:
        yield from _validate_parameter_kind(kind, "spec.paramKind")
    if match is None:
        yield required("spec.matchConstraints")
    else:
        yield from validate_match_resources(match, "spec.matchConstraints")
        if not match.get("resourceRules"):
            yield required("spec.matchConstraints.resourceRules")
    if is_mutating:
        yield from validate_no_deletions(match, "spec.matchConstraints")
    conditions = spec.get("matchConditions") or ()
    yield from validate_conditions(conditions, "spec.matchConditions", has_params=kind is not None)


def _validate_parameter_kind(kind: Object, field: str) -> Errors:
    version_text, kind_text = kind.get("apiVersion", ""), kind.get("kind", "")
    group, _, version = version_text.rpartition("/")
    if not version_text:
        yield required(f"{field}.apiVersion")
    elif version_text.count("/") > 1:
        problem = f"unexpected GroupVersion string: {version_text}"
        yield invalid(f"{field}.apiVersion", version_text, problem)
    else:
        if group and (problems := names.dns_subdomain(group)):
            yield invalid(f"{field}.apiVersion", group, ",".join(problems))
        if not version:
            yield invalid(f"{field}.apiVersion", version_text, "version must be specified")
        elif problems := names.dns_1035_label(version):
            yield invalid(f"{field}.apiVersion", version, ",".join(problems))
    if not kind_text:
        yield required(f"{field}.kind")
    elif problems := names.dns_1035_label(kind_text.lower()):
        problem = f"may have mixed case, but should otherwise match: {','.join(problems)}"
        yield invalid(f"{field}.kind", kind_text, problem)


def _validate_variables(variables: Any, declared: Declared) -> Errors:
    for number, variable in enumerate(variables):
        field, name = f"spec.variables[{number}]", variable.get("name", "")
        if not name.strip():
            yield required(f"{field}.name", "name is not specified")
        elif not _IDENTIFIER.fullmatch(name):
            yield invalid(f"{field}.name", name, "must be a valid CEL identifier")
        text = variable.get("expression", "")
        yield from validate_variable(text, f"{field}.expression", declared, name, _NO_EXPRESSION)


def _validate_validation(validation: Object, field: str, declared: Declared) -> Errors:
    text, message = validation.get("expression", ""), validation.get("message", "")
    yield from validate_expression(text, f"{field}.expression", declared, ("bool",), _NO_EXPRESSION)
    expression = validation.get("messageExpression", "")
    if expression and not expression.strip():
        problem = "must be non-empty if specified"
        yield invalid(f"{field}.messageExpression", expression, problem)
    elif expression:
        # No permissions are asked for in messages.
        of_messages = Declared(
            has_params=declared.has_params, has_authorizer=False, variables=declared.variables
        )
        yield from validate_expression(
            expression, f"{field}.messageExpression", of_messages, ("string",)
        )
    if message and not message.strip():
        yield invalid(f"{field}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip() or "\r" in message.strip():
        yield invalid(f"{field}.message", message, "must not contain line breaks")
    yield from one_of(f"{field}.reason", validation.get("reason"), _REASONS)


def _validate_annotations(policy: Object, annotations: Any, declared: Declared) -> Errors:
    if len(annotations) > _ANNOTATIONS_MAX:
        problem = f"must not have more than {_ANNOTATIONS_MAX} auditAnnotations"
        yield invalid("spec.auditAnnotations", annotations, problem)
    keys: set[str] = set()
    for number, annotation in enumerate(annotations):
        field, key = f"spec.auditAnnotations[{number}]", annotation.get("key", "")
        name, text = policy["metadata"].get("name"), annotation.get("valueExpression", "").strip()
        if name:
            yield from field_errors(f"{field}.key", f"{name}/{key}", names.qualified_name)
        else:
            yield invalid(f"{field}.key", key, "requires metadata.name be non-empty")
        if len(text.encode()) > _ANNOTATION_BYTES_MAX:
            problem = f"must not exceed {_ANNOTATION_BYTES_MAX} bytes in length"
            yield required(f"{field}.valueExpression", problem)
        else:
            problem = "valueExpression is not specified"
            results = "string", "null_type"
            yield from validate_expression(
                text, f"{field}.valueExpression", declared, results, problem
            )
        if key in keys:
            yield duplicate(f"{field}.key", key)
        keys.add(key)


def _validate_mutation(mutation: Object, field: str, declared: Declared) -> Errors:
    kind = mutation.get("patchType")
    fields = {"JSONPatch": "jsonPatch", "ApplyConfiguration": "applyConfiguration"}
    if kind not in fields:
        yield from required_one_of(f"{field}.patchType", kind, _PATCH_TYPES)
        return
    own = fields.pop(kind)
    (other,) = fields.values()
    if mutation.get(own) is None:
        yield required(f"{field}.{own}", f"must be specified when patchType is {kind}")
    else:
        text = mutation[own].get("expression", "").strip()
        results = "list(JSONPatch)" if own == "jsonPatch" else "Object"
        yield from validate_expression(
            text, f"{field}.{own}.expression", declared, (results,), with_patches=True
        )
    if mutation.get(other) is not None:
        problem = f"must not be specified when patchType is {kind}"
        yield invalid(f"{field}.{other}", f"{{{other}}}", problem)


# -- bindings --------------------------------------------------------------------------------------


def validate_binding(binding: Object) -> Errors:
    """Validates a new or changed binding of either kind of policy."""
    spec = binding["spec"]
    yield from required_value("spec.policyName", spec.get("policyName", ""), names.dns_subdomain)
    if (reference := spec.get("paramRef")) is not None:
        yield from _validate_parameters(reference, "spec.paramRef")
    match = spec.get("matchResources")
    yield from validate_match_resources(match, "spec.matchResources")
    if binding["kind"].startswith("Mutating"):
        yield from validate_no_deletions(match, "spec.matchResources")
    else:
        actions = spec.get("validationActions") or []
        yield from _validate_actions(actions, "spec.validationActions")


def _validate_parameters(reference: Object, field: str) -> Errors:
    name, selector = reference.get("name", ""), reference.get("selector")
    if name:
        yield from field_errors(f"{field}.name", name, names.path_segment)
        if selector is not None:
            yield forbidden_field(f"{field}.name", _EXCLUSIVE)
    if selector is not None:
        yield from validate_label_selector(selector, f"{field}.selector")
        if name:
            yield forbidden_field(f"{field}.selector", _EXCLUSIVE)
    if not name and selector is None:
        yield required(field, "one of name or selector must be specified")
    action = reference.get("parameterNotFoundAction")
    yield from required_one_of(f"{field}.parameterNotFoundAction", action, _ABSENT_PARAMETERS)


def _validate_actions(actions: list[str], field: str) -> Errors:
    for number, action in enumerate(actions):
        if action not in _ACTIONS:
            yield not_supported(f"{field}[{number}]", action, _ACTIONS)
        if action in actions[:number]:
            yield duplicate(f"{field}[{number}]", action)
    if {"Deny", "Warn"} <= set(actions):
        problem = (
            "must not contain both Deny and Warn (repeating the same validation failure "
            "information in the API response and headers serves no purpose)"
        )
        yield invalid(field, actions, problem)
    if not actions:
        yield required(field, "at least one validation action is required")
