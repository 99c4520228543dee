"""Validation of ResourceQuotas, LimitRanges and RuntimeClasses, with kube-apiserver's messages.

Source: pkg/apis/core/validation/validation.go, pkg/apis/node/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.apiserver import names as name_checks
from mooring.apiserver.errors import (
    Errors,
    duplicate,
    forbidden_field,
    invalid,
    required,
)
from mooring.apiserver.validation.affinity import validate_tolerations
from mooring.apiserver.validation.metadata import validate_labels
from mooring.apiserver.validation.resources import (
    QUOTA_RESOURCES,
    validate_quantity,
    validate_resource_name,
)
from mooring.apiserver.validation.rules import IMMUTABLE, field_errors, immutable, required_value
from mooring.objects.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mooring.apiserver.types import Object

_POD_COUNT = frozenset(("pods",))
_COMPUTE = _POD_COUNT | {"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu"}
_COMPUTE |= {"requests.memory"}
#: Scope -> the standard resources to which it can apply.
SCOPES: Mapping[str, frozenset[str]] = {
    "Terminating": _COMPUTE,
    "NotTerminating": _COMPUTE,
    "BestEffort": _POD_COUNT,
    "NotBestEffort": _COMPUTE,
    "PriorityClass": _COMPUTE,
    "VolumeAttributesClass": frozenset(("persistentvolumeclaims", "requests.storage")),
    "CrossNamespacePodAffinity": _COMPUTE,
}
_SCOPES_THAT_EXIST = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "CrossNamespacePodAffinity",
)
_EXISTS_PROBLEM = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
    "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
    "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
_CONFLICTS = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_LIMIT_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_HUGE_PAGES = ("hugepages-", "requests.hugepages-")


def validate_quota(quota: Object) -> Errors:
    """Validates a ResourceQuota."""
    spec = quota["spec"]
    hard = spec.get("hard") or {}
    yield from _validate_amounts(hard, "spec.hard")
    scopes = spec.get("scopes") or ()
    yield from _validate_scopes(scopes, hard, "spec.scopes", scopes)
    selector = spec.get("scopeSelector")
    if selector is None:
        return
    field = "spec.scopeSelector.matchExpressions"
    terms = selector.get("matchExpressions") or ()
    for term in terms:
        yield from _validate_term(term, hard, field, selector)
    yield from _conflicts([term["scopeName"] for term in terms], field, scopes or None)


def _validate_amounts(amounts: Mapping[str, str], field: str) -> Errors:
    for name, text in sorted(amounts.items()):
        path = f"{field}[{name}]"
        yield from validate_resource_name(name, path)
        is_standard = name in QUOTA_RESOURCES or name.startswith(_HUGE_PAGES)
        if "/" not in name and not is_standard:
            yield invalid(path, name, "must be a standard resource for quota")
        yield from validate_quantity(name, text, path)


def _validate_scopes(scopes: Any, hard: Mapping[str, str], field: str, value: Any) -> Errors:
    for scope in scopes:
        yield from _validate_scope(scope, hard, field, field, (value, value))
    yield from _conflicts(scopes, field, value)


def _validate_scope(
    scope: str, hard: Mapping[str, str], field: str, name_field: str, values: tuple[Any, Any]
) -> Errors:
    if scope not in SCOPES:
        yield invalid(name_field, values[0], "unsupported scope")
        return
    for name in sorted(hard):
        if name in QUOTA_RESOURCES and name not in SCOPES[scope]:
            yield invalid(field, values[1], "unsupported scope applied to resource")


def _conflicts(scopes: Any, field: str, value: Any) -> Errors:
    return [invalid(field, value, "conflicting scopes") for pair in _CONFLICTS if pair <= {*scopes}]


def _validate_term(
    term: Mapping[str, Any], hard: Mapping[str, str], field: str, selector: Any
) -> Errors:
    scope, operator, values = term["scopeName"], term["operator"], term.get("values") or ()
    internal = {"MatchExpressions": [_internal(other) for other in selector["matchExpressions"]]}
    yield from _validate_scope(scope, hard, field, f"{field}.scopeName", (scope, internal))
    if scope in _SCOPES_THAT_EXIST and operator != "Exists":
        yield invalid(f"{field}.operator", operator, _EXISTS_PROBLEM)
    if operator in ("In", "NotIn"):
        if not values:
            problem = "must be at least one value when `operator` is 'In' or 'NotIn' for scope "
            yield required(f"{field}.values", f"{problem}selector")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            problem = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope "
            yield invalid(f"{field}.values", values, f"{problem}selector")
    else:
        yield invalid(f"{field}.operator", operator, "not a valid selector operator")


def _internal(term: Mapping[str, Any]) -> dict[str, Any]:
    values = term.get("values")
    return {"ScopeName": term["scopeName"], "Operator": term["operator"], "Values": values}


def validate_quota_update(new: Object, old: Object) -> Errors:
    """Validates a changed ResourceQuota; its scopes are immutable."""
    yield from validate_quota(new)
    scopes = new["spec"].get("scopes") or []
    if {*scopes} != {*(old["spec"].get("scopes") or ())}:
        yield invalid("spec.scopes", scopes or None, IMMUTABLE)
    yield from validate_quota(new)


def validate_quota_status(new: Object, _old: Object) -> Errors:
    """Validates a changed status of a ResourceQuota."""
    for name in ("hard", "used"):
        yield from _validate_amounts(new.get("status", {}).get(name) or {}, f"status.{name}")


def validate_limit_range(limit_range: Object) -> Errors:
    """Validates a LimitRange."""
    types: list[str] = []
    for number, limit in enumerate(limit_range["spec"].get("limits") or ()):
        field, kind = f"spec.limits[{number}]", limit["type"]
        problems = [*field_errors(f"{field}.type", kind, name_checks.qualified_name)]
        yield from problems
        if not problems and "/" not in kind and kind not in _LIMIT_TYPES:
            problem = "must be a standard limit type or fully qualified"
            yield invalid(f"{field}.type", kind, problem)
        if kind in types:
            yield duplicate(f"{field}.type", kind)
        types.append(kind)
        yield from _validate_limit(limit, field)


def _validate_limit(limit: Object, field: str) -> Errors:
    kind = limit["type"]
    checked = ["max", "min"]
    for name in ("default", "defaultRequest"):
        if kind == "Pod" and limit.get(name):
            yield forbidden_field(f"{field}.{name}", "may not be specified when `type` is 'Pod'")
        elif kind != "Pod":
            checked.append(name)
    is_bounded = any("storage" in (limit.get(name) or {}) for name in ("min", "max"))
    for name in checked:
        for resource in sorted(limit.get(name) or ()):
            yield from _validate_limited(kind, resource, f"{field}.{name}[{resource}]")
    if kind == "PersistentVolumeClaim" and not is_bounded:
        problem = "either minimum or maximum storage value is required, but neither was provided"
        yield required(f"{field}.limits", problem)
    for resource in sorted(limit.get("maxLimitRequestRatio") or ()):
        yield from _validate_limited(kind, resource, f"{field}.maxLimitRequestRatio[{resource}]")
    checked.append("maxLimitRequestRatio")
    for resource in sorted({key for name in checked for key in limit.get(name) or ()}):
        texts = {name: (limit.get(name) or {}).get(resource) for name in checked}
        yield from _validate_order(texts, field, resource)


def _validate_limited(kind: str, resource: str, field: str) -> Errors:
    is_of_container = kind in ("Pod", "Container")
    return validate_resource_name(resource, field, is_of_container=is_of_container)


#: Two amounts of which the first may not exceed the second, the field and value of the error, and
#: how the message names them.
_ORDER = (
    ("min", "max", "min", "min", "min value", "max value"),
    (
        "min",
        "defaultRequest",
        "defaultRequest",
        "defaultRequest",
        "min value",
        "default request value",
    ),
    (
        "defaultRequest",
        "max",
        "defaultRequest",
        "defaultRequest",
        "default request value",
        "max value",
    ),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request value",
        "default limit value",
    ),
    ("min", "default", "default", "min", "min value", "default value"),
    ("default", "max", "default", "max", "default value", "max value"),
)


def _validate_order(texts: Mapping[str, str | None], field: str, resource: str) -> Errors:
    amounts = {name: Quantity.from_wire(text) for name, text in texts.items() if text is not None}
    for low, high, at, value, low_title, high_title in _ORDER:
        if low in amounts and high in amounts and amounts[low].nanos > amounts[high].nanos:
            problem = f"{low_title} {texts[low]} is greater than {high_title} {texts[high]}"
            yield invalid(f"{field}.{at}[{resource}]", texts[value], problem)
    yield from _validate_ratio(amounts, texts, f"{field}.maxLimitRequestRatio[{resource}]")


def _validate_ratio(
    amounts: Mapping[str, Quantity], texts: Mapping[str, str | None], field: str
) -> Iterator[Any]:
    ratio = amounts.get("maxLimitRequestRatio")
    if ratio is None:
        return
    text = texts["maxLimitRequestRatio"]
    if ratio.nanos < 10**9:
        yield invalid(field, text, f"ratio {text} is less than 1")
    low, high = amounts.get("min"), amounts.get("max")
    if low is not None and high is not None and low.nanos:
        limit = high.nanos / low.nanos
        if ratio.nanos / 10**9 > limit:
            problem = f"ratio {text} is greater than max/min = {limit:f}"
            yield invalid(field, text, problem)


def validate_runtime_class(runtime_class: Object) -> Errors:
    """Validates a RuntimeClass."""
    yield from required_value("handler", runtime_class["handler"], name_checks.dns_label)
    overhead = (runtime_class.get("overhead") or {}).get("podFixed") or {}
    for name, text in sorted(overhead.items()):
        field = f"overhead.limits[{name}]"
        yield from validate_resource_name(name, field, is_of_container=True)
        yield from validate_quantity(name, text, field)
    scheduling = runtime_class.get("scheduling") or {}
    yield from validate_labels(scheduling.get("nodeSelector") or {}, "scheduling.nodeSelector")
    yield from _validate_own_tolerations(scheduling.get("tolerations") or ())


def _validate_own_tolerations(tolerations: Sequence[Object]) -> Errors:
    field = "scheduling.tolerations"
    yield from validate_tolerations(tolerations, field)
    keys: set[tuple[str, ...]] = set()
    names = ("key", "operator", "value", "effect")
    for number, toleration in enumerate(tolerations):
        key = tuple(toleration.get(name, "") for name in names)
        if key in keys:
            internal = {name.capitalize(): toleration.get(name, "") for name in names}
            internal["TolerationSeconds"] = toleration.get("tolerationSeconds")
            yield duplicate(f"{field}[{number}]", internal)
        keys.add(key)


def validate_runtime_class_update(new: Object, old: Object) -> Errors:
    """Validates a changed RuntimeClass; its handler is immutable."""
    yield from immutable(new, old, "handler")
