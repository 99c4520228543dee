"""What is wrong with where a pod wants to run, in kube-apiserver's words.

Node affinity, pod affinity, tolerations, taints, spread constraints, scheduling gates.

Source: pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mooring.apiserver import names
from mooring.apiserver.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
)
from mooring.apiserver.validation.metadata import each, validate_label_selector

Object = Mapping[str, Any]

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NO_OPERATOR = "not a valid selector operator"
_IN_RANGE = "must be in the range 1-100"


def validate_affinity(affinity: Object | None, field: str) -> list[FieldError]:
    """What is wrong with a pod's affinity."""
    if not affinity:
        return []
    errors: list[FieldError] = []
    if near := affinity.get("nodeAffinity"):
        errors += _validate_node_affinity(near, f"{field}.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        for name, terms in affinity.get(kind, {}).items():
            where = f"{field}.{kind}.{name}"
            errors += _validate_pod_terms(terms, where, is_weighted=name == _PREFERRED)
    return errors


def _validate_node_affinity(affinity: Object, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if _REQUIRED in affinity:
        errors += validate_node_selector(affinity[_REQUIRED], f"{field}.{_REQUIRED}")
    for number, term in enumerate(affinity.get(_PREFERRED, ())):
        where = f"{field}.{_PREFERRED}[{number}]"
        if not 1 <= term["weight"] <= 100:
            errors.append(invalid(f"{where}.weight", term["weight"], _IN_RANGE))
        errors += _validate_node_term(term["preference"], f"{where}.preference", is_strict=False)
    return errors


def validate_node_selector(selector: Object, field: str) -> list[FieldError]:
    """What is wrong with a node selector."""
    field = f"{field}.nodeSelectorTerms"
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        return [required(field, "must have at least one node selector term")]
    return [
        error
        for number, term in enumerate(terms)
        for error in _validate_node_term(term, f"{field}[{number}]", is_strict=True)
    ]


def _validate_node_term(term: Object, field: str, *, is_strict: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for number, asked in enumerate(term.get("matchExpressions", ())):
        errors += _validate_expression(
            asked, f"{field}.matchExpressions[{number}]", is_strict=is_strict
        )
    for number, asked in enumerate(term.get("matchFields", ())):
        errors += _validate_field_expression(asked, f"{field}.matchFields[{number}]")
    return errors


def _validate_expression(asked: Object, field: str, *, is_strict: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, values = asked["operator"], asked.get("values", ())
    where = f"{field}.values"
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(where, "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            problem = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden_field(where, problem))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            problem = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(required(where, problem))
    else:
        errors.append(invalid(f"{field}.operator", operator, _NO_OPERATOR))
    errors += each(f"{field}.key", asked["key"], names.qualified_name(asked["key"]))
    if is_strict:
        for number, value in enumerate(values):
            errors += each(f"{where}[{number}]", value, names.label_value(value))
    return errors


def _validate_field_expression(asked: Object, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, values = asked["operator"], asked.get("values", ())
    if operator not in ("In", "NotIn"):
        errors.append(invalid(f"{field}.operator", operator, _NO_OPERATOR))
    elif len(values) != 1:
        problem = (
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        )
        errors.append(required(f"{field}.values", problem))
    if asked["key"] != "metadata.name":
        errors.append(invalid(f"{field}.key", asked["key"], "not a valid field selector key"))
        return errors
    for number, value in enumerate(values):
        errors += each(f"{field}.values[{number}]", value, names.dns_subdomain(value))
    return errors


def _validate_pod_terms(
    terms: Iterable[Object], field: str, *, is_weighted: bool
) -> list[FieldError]:
    errors: list[FieldError] = []
    for number, term in enumerate(terms):
        where = f"{field}[{number}]"
        if is_weighted:
            if not 1 <= term["weight"] <= 100:
                errors.append(invalid(f"{where}.weight", term["weight"], _IN_RANGE))
            errors += _validate_pod_term(term["podAffinityTerm"], f"{where}.podAffinityTerm")
        else:
            errors += _validate_pod_term(term, where)
    return errors


def _validate_pod_term(term: Object, field: str) -> list[FieldError]:
    errors = validate_label_selector(term.get("labelSelector"), f"{field}.labelSelector")
    errors += validate_label_selector(term.get("namespaceSelector"), f"{field}.namespaceSelector")
    for name in term.get("namespaces", ()):
        errors += each(f"{field}.namespace", name, names.dns_label(name))
    errors += _validate_label_keys(term, field)
    topology = term.get("topologyKey", "")
    if not topology:
        errors.append(required(f"{field}.topologyKey", "can not be empty"))
    return errors + each(f"{field}.topologyKey", topology, names.qualified_name(topology))


def _validate_label_keys(term: Object, field: str) -> list[FieldError]:
    """MatchLabelKeys and mismatchLabelKeys: names of labels, used once."""
    errors: list[FieldError] = []
    keys, others = term.get("matchLabelKeys", ()), term.get("mismatchLabelKeys", ())
    selector = term.get("labelSelector")
    for name, listed in (("matchLabelKeys", keys), ("mismatchLabelKeys", others)):
        if listed and selector is None:
            problem = "must not be specified when labelSelector is not set"
            errors.append(forbidden_field(f"{field}.{name}", problem))
        for number, key in enumerate(listed):
            errors += each(f"{field}.{name}[{number}]", key, names.qualified_name(key))
    # The server has merged the keys into the selector already: each may stand there once.
    seen = set((selector or {}).get("matchLabels", {}))
    for condition in (selector or {}).get("matchExpressions", ()):
        key = condition["key"]
        if key in keys and key in seen:
            problem = "exists in both matchLabelKeys and labelSelector"
            errors.append(invalid(f"{field}[{keys.index(key)}]", key, problem))
        seen.add(key)
    for number, key in enumerate(keys):
        if key in others:
            problem = "exists in both matchLabelKeys and mismatchLabelKeys"
            errors.append(invalid(f"{field}.matchLabelKeys[{number}]", key, problem))
    return errors


def validate_tolerations(tolerations: Iterable[Object], field: str) -> list[FieldError]:
    """What is wrong with tolerations."""
    errors: list[FieldError] = []
    for number, each_one in enumerate(tolerations):
        errors += _validate_toleration(each_one, f"{field}[{number}]")
    return errors


def _validate_toleration(obj: Object, field: str) -> list[FieldError]:
    key, operator = obj.get("key", ""), obj.get("operator", "")
    value, effect = obj.get("value", ""), obj.get("effect", "")
    errors = each(f"{field}.key", key, names.qualified_name(key)) if key else []
    where = f"{field}.operator"
    if not key and operator != "Exists":
        problem = (
            "operator must be Exists when `key` is empty, which means "
            '"match all values and all keys"'
        )
        errors.append(invalid(where, operator, problem))
    if "tolerationSeconds" in obj and effect != "NoExecute":
        problem = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.append(invalid(f"{field}.effect", effect, problem))
    if operator in ("", "Equal"):
        if problems := names.label_value(value):
            errors.append(invalid(where, value, ";".join(problems)))
    elif operator == "Exists":
        if value:
            problem = "value must be empty when `operator` is 'Exists'"
            errors.append(invalid(where, value, problem))
    elif operator in ("Lt", "Gt"):
        # TaintTolerationComparisonOperators is off by default.
        errors.append(not_supported(where, operator, ["Equal", "Exists", "Lt", "Gt"]))
    else:
        errors.append(not_supported(where, operator, ["Equal", "Exists"]))
    if effect and effect not in EFFECTS:
        errors.append(not_supported(f"{field}.effect", effect, EFFECTS))
    return errors


def validate_taints(taints: Iterable[Object], field: str) -> list[FieldError]:
    """What is wrong with the taints of a node."""
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for number, taint in enumerate(taints):
        where = f"{field}[{number}]"
        key, value, effect = taint["key"], taint.get("value", ""), taint["effect"]
        errors += each(f"{where}.key", key, names.qualified_name(key))
        if problems := names.label_value(value):
            errors.append(invalid(f"{where}.value", value, ";".join(problems)))
        if not effect:
            errors.append(required(f"{where}.effect"))
        elif effect not in EFFECTS:
            errors.append(not_supported(f"{where}.effect", effect, EFFECTS))
        if (key, effect) in seen:
            # Upstream shows its internal type, whose fields have other names.
            shown = {"Key": key, "Value": value, "Effect": effect}
            shown["TimeAdded"] = taint.get("timeAdded")
            twice = duplicate(where, shown)
            detail = "taints must be unique by key and effect pair"
            errors.append(FieldError(twice.type_name, where, f"{twice.body}: {detail}"))
        seen.add((key, effect))
    return errors


def validate_spread(constraints: list[Object], field: str) -> list[FieldError]:
    """What is wrong with topology spread constraints."""
    errors: list[FieldError] = []
    for number, constraint in enumerate(constraints):
        where = f"{field}[{number}]"
        errors += _validate_constraint(constraint, where)
        pair = (constraint["topologyKey"], constraint["whenUnsatisfiable"])
        rest = constraints[number + 1 :]
        if any((one["topologyKey"], one["whenUnsatisfiable"]) == pair for one in rest):
            shown = f"{{{pair[0]}, {pair[1]}}}"
            errors.append(duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", shown))
    return errors


def _validate_constraint(constraint: Object, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    positive = "must be greater than zero"
    if constraint["maxSkew"] <= 0:
        errors.append(invalid(f"{field}.maxSkew", constraint["maxSkew"], positive))
    if not constraint["topologyKey"]:
        errors.append(required(f"{field}.topologyKey", "can not be empty"))
    action = constraint["whenUnsatisfiable"]
    if action not in ("DoNotSchedule", "ScheduleAnyway"):
        known = ["DoNotSchedule", "ScheduleAnyway"]
        errors.append(not_supported(f"{field}.whenUnsatisfiable", action, known))
    domains = constraint.get("minDomains")
    if domains is not None:
        where = f"{field}.minDomains"
        if domains <= 0:
            errors.append(invalid(where, domains, positive))
        if action != "DoNotSchedule":
            problem = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not"
            errors.append(invalid(where, domains, f"{problem} {action}"))
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        policy = constraint.get(name)
        if policy is not None and policy not in ("Honor", "Ignore"):
            errors.append(not_supported(f"{field}.{name}", policy, ["Honor", "Ignore"]))
    errors += _validate_label_keys(constraint, field)
    return errors + validate_label_selector(
        constraint.get("labelSelector"), f"{field}.labelSelector"
    )


def validate_gates(gates: Iterable[Object], field: str) -> list[FieldError]:
    """What is wrong with scheduling gates."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for number, gate in enumerate(gates):
        where, name = f"{field}[{number}]", gate["name"]
        errors += each(where, name, names.qualified_name(name))
        if name in seen:
            errors.append(duplicate(where, name))
        seen.add(name)
    return errors
