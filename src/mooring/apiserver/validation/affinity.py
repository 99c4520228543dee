"""Validation of scheduling constraints, with kube-apiserver's messages.

Node affinity, pod affinity, tolerations, taints, spread constraints, scheduling gates.

Source: pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mooring.apiserver import names
from mooring.apiserver.errors import (
    Errors,
    FieldError,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
)
from mooring.apiserver.validation.metadata import (
    NO_OPERATOR,
    validate_expression,
    validate_label_selector,
)
from mooring.apiserver.validation.rules import field_errors, one_of

Object = Mapping[str, Any]

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_IN_RANGE = "must be in the range 1-100"


def validate_affinity(affinity: Object | None, field: str) -> Errors:
    """Validates a pod's affinity."""
    if not affinity:
        return
    if node_affinity := affinity.get("nodeAffinity"):
        yield from _validate_node_affinity(node_affinity, f"{field}.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        for name in (_REQUIRED, _PREFERRED):
            terms = (affinity.get(kind) or {}).get(name) or ()
            child_field = f"{field}.{kind}.{name}"
            yield from _validate_pod_terms(terms, child_field, is_weighted=name == _PREFERRED)


def _validate_node_affinity(affinity: Object, field: str) -> Errors:
    if _REQUIRED in affinity:
        yield from validate_node_selector(affinity[_REQUIRED], f"{field}.{_REQUIRED}")
    for number, term in enumerate(affinity.get(_PREFERRED, ())):
        item_field = f"{field}.{_PREFERRED}[{number}]"
        if not 1 <= term["weight"] <= 100:
            yield invalid(f"{item_field}.weight", term["weight"], _IN_RANGE)
        yield from _validate_node_term(
            term["preference"], f"{item_field}.preference", is_strict=False
        )


def validate_node_selector(selector: Object, field: str) -> Errors:
    """Validates a node selector."""
    field = f"{field}.nodeSelectorTerms"
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        return [required(field, "must have at least one node selector term")]
    return [
        error
        for number, term in enumerate(terms)
        for error in _validate_node_term(term, f"{field}[{number}]", is_strict=True)
    ]


def _validate_node_term(term: Object, field: str, *, is_strict: bool) -> Errors:
    for number, expression in enumerate(term.get("matchExpressions", ())):
        item_field = f"{field}.matchExpressions[{number}]"
        yield from validate_expression(
            expression, item_field, comparisons=("Gt", "Lt"), has_label_values=is_strict
        )
    for number, expression in enumerate(term.get("matchFields", ())):
        yield from _validate_field_expression(expression, f"{field}.matchFields[{number}]")


def _validate_field_expression(expression: Object, field: str) -> Errors:
    operator, values = expression["operator"], expression.get("values", ())
    if operator not in ("In", "NotIn"):
        yield invalid(f"{field}.operator", operator, NO_OPERATOR)
    elif len(values) != 1:
        problem = (
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        )
        yield required(f"{field}.values", problem)
    if expression["key"] != "metadata.name":
        yield invalid(f"{field}.key", expression["key"], "not a valid field selector key")
        return
    for number, value in enumerate(values):
        yield from field_errors(f"{field}.values[{number}]", value, names.dns_subdomain)


def _validate_pod_terms(terms: Iterable[Object], field: str, *, is_weighted: bool) -> Errors:
    for number, term in enumerate(terms):
        item_field = f"{field}[{number}]"
        if is_weighted:
            if not 1 <= term["weight"] <= 100:
                yield invalid(f"{item_field}.weight", term["weight"], _IN_RANGE)
            yield from _validate_pod_term(term["podAffinityTerm"], f"{item_field}.podAffinityTerm")
        else:
            yield from _validate_pod_term(term, item_field)


def _validate_pod_term(term: Object, field: str) -> Errors:
    yield from validate_label_selector(term.get("labelSelector"), f"{field}.labelSelector")
    yield from validate_label_selector(term.get("namespaceSelector"), f"{field}.namespaceSelector")
    for name in term.get("namespaces", ()):
        yield from field_errors(f"{field}.namespace", name, names.dns_label)
    yield from _validate_label_keys(term, field)
    topology = term.get("topologyKey", "")
    if not topology:
        yield required(f"{field}.topologyKey", "can not be empty")
    yield from field_errors(f"{field}.topologyKey", topology, names.qualified_name)


def _validate_label_keys(term: Object, field: str) -> Errors:
    """Validates matchLabelKeys and mismatchLabelKeys: label names, used once."""
    keys, mismatch_keys = term.get("matchLabelKeys", ()), term.get("mismatchLabelKeys", ())
    selector = term.get("labelSelector")
    for name, label_keys in (("matchLabelKeys", keys), ("mismatchLabelKeys", mismatch_keys)):
        if label_keys and selector is None:
            problem = "must not be specified when labelSelector is not set"
            yield forbidden_field(f"{field}.{name}", problem)
            continue
        for number, key in enumerate(label_keys):
            yield from field_errors(f"{field}.{name}[{number}]", key, names.qualified_name)
    # The server has merged the keys into the selector already, so one occurrence is allowed.
    selector_keys = set((selector or {}).get("matchLabels", {}))
    for condition in (selector or {}).get("matchExpressions", ()):
        key = condition["key"]
        if key in keys and key in selector_keys:
            problem = "exists in both matchLabelKeys and labelSelector"
            yield invalid(f"{field}[{keys.index(key)}]", key, problem)
        selector_keys.add(key)
    for number, key in enumerate(keys):
        if key in mismatch_keys:
            problem = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid(f"{field}.matchLabelKeys[{number}]", key, problem)


def validate_tolerations(tolerations: Iterable[Object], field: str) -> Errors:
    """Validates tolerations."""
    for number, toleration in enumerate(tolerations):
        yield from _validate_toleration(toleration, f"{field}[{number}]")


def _validate_toleration(toleration: Object, field: str) -> Errors:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    value, effect = toleration.get("value", ""), toleration.get("effect", "")
    yield from field_errors(f"{field}.key", key, names.qualified_name) if key else []
    child_field = f"{field}.operator"
    if not key and operator != "Exists":
        problem = (
            "operator must be Exists when `key` is empty, which means "
            '"match all values and all keys"'
        )
        yield invalid(child_field, operator, problem)
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        problem = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid(f"{field}.effect", effect, problem)
    if operator in ("", "Equal"):
        if problems := names.label_value(value):
            yield invalid(child_field, value, ";".join(problems))
    elif operator == "Exists":
        if value:
            problem = "value must be empty when `operator` is 'Exists'"
            yield invalid(child_field, value, problem)
    elif operator in ("Lt", "Gt"):
        # TaintTolerationComparisonOperators is off by default.
        yield not_supported(child_field, operator, ["Equal", "Exists", "Lt", "Gt"])
    else:
        yield not_supported(child_field, operator, ["Equal", "Exists"])
    if effect and effect not in EFFECTS:
        yield not_supported(f"{field}.effect", effect, EFFECTS)


def validate_taints(taints: Iterable[Object], field: str) -> Errors:
    """Validates the taints of a node."""
    key_effects: set[tuple[str, str]] = set()
    for number, taint in enumerate(taints):
        item_field = f"{field}[{number}]"
        key, value, effect = taint["key"], taint.get("value", ""), taint["effect"]
        yield from field_errors(f"{item_field}.key", key, names.qualified_name)
        if problems := names.label_value(value):
            yield invalid(f"{item_field}.value", value, ";".join(problems))
        if not effect:
            yield required(f"{item_field}.effect")
        elif effect not in EFFECTS:
            yield not_supported(f"{item_field}.effect", effect, EFFECTS)
        if (key, effect) in key_effects:
            # Upstream prints its internal type, whose fields have other names.
            internal = {"Key": key, "Value": value, "Effect": effect}
            internal["TimeAdded"] = taint.get("timeAdded")
            error = duplicate(item_field, internal)
            detail = "taints must be unique by key and effect pair"
            yield FieldError(error.type_name, item_field, f"{error.body}: {detail}")
        key_effects.add((key, effect))


def validate_spread(constraints: list[Object], field: str) -> Errors:
    """Validates topology spread constraints."""
    pairs = [(entry["topologyKey"], entry["whenUnsatisfiable"]) for entry in constraints]
    last = {pair: number for number, pair in enumerate(pairs)}
    for number, (constraint, pair) in enumerate(zip(constraints, pairs, strict=True)):
        item_field = f"{field}[{number}]"
        yield from _validate_constraint(constraint, item_field)
        if number < last[pair]:
            pair_text = f"{{{pair[0]}, {pair[1]}}}"
            yield duplicate(f"{item_field}.{{topologyKey, whenUnsatisfiable}}", pair_text)


def _validate_constraint(constraint: Object, field: str) -> Errors:
    positive = "must be greater than zero"
    if constraint["maxSkew"] <= 0:
        yield invalid(f"{field}.maxSkew", constraint["maxSkew"], positive)
    if not constraint["topologyKey"]:
        yield required(f"{field}.topologyKey", "can not be empty")
    action = constraint["whenUnsatisfiable"]
    if action not in ("DoNotSchedule", "ScheduleAnyway"):
        supported = ["DoNotSchedule", "ScheduleAnyway"]
        yield not_supported(f"{field}.whenUnsatisfiable", action, supported)
    domains = constraint.get("minDomains")
    if domains is not None:
        child_field = f"{field}.minDomains"
        if domains <= 0:
            yield invalid(child_field, domains, positive)
        if action != "DoNotSchedule":
            problem = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not"
            yield invalid(child_field, domains, f"{problem} {action}")
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        yield from one_of(f"{field}.{name}", constraint.get(name), ["Honor", "Ignore"])
    yield from _validate_label_keys(constraint, field)
    yield from validate_label_selector(constraint.get("labelSelector"), f"{field}.labelSelector")


def validate_gates(gates: Iterable[Object], field: str) -> Errors:
    """Validates scheduling gates."""
    gate_names: set[str] = set()
    for number, gate in enumerate(gates):
        item_field, name = f"{field}[{number}]", gate["name"]
        yield from field_errors(item_field, name, names.qualified_name)
        if name in gate_names:
            yield duplicate(item_field, name)
        gate_names.add(name)
