"""Validation of HorizontalPodAutoscalers, with kube-apiserver's messages.

Source: pkg/apis/autoscaling/validation/validation.go, with the feature gates' defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, forbidden_field, invalid, not_supported, required
from mooring.apiserver.validation.resources import validate_resource_name
from mooring.apiserver.validation.rules import (
    NOT_NEGATIVE,
    field_errors,
    not_negative,
    required_value,
)
from mooring.objects.quantity import Quantity

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

#: Type of a metric -> the field with its source.
_SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_POLICY_TYPES = ("Percent", "Pods")
_SELECT_POLICIES = ("Disabled", "Max", "Min")
_PERIOD_S_MAX, _WINDOW_S_MAX = 1800, 3600


def validate_autoscaler(autoscaler: Object, old: Object | None = None) -> Errors:
    """Validates a new or changed autoscaler; an API version that does not change is not refused."""
    spec = autoscaler["spec"]
    low, high = spec.get("minReplicas"), spec["maxReplicas"]
    if low is not None and low < 1:
        yield invalid("spec.minReplicas", low, "must be greater than or equal to 1")
    if high == 0:
        yield required("spec.maxReplicas", "must be set and greater than 0")
    elif high < 0:
        yield invalid("spec.maxReplicas", high, "must be greater than or equal to 1")
    if low is not None and high < low:
        yield invalid("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`")
    target = spec["scaleTargetRef"]
    is_checked = old is None or _version_and_kind(old["spec"]["scaleTargetRef"]) != (
        _version_and_kind(target)
    )
    yield from _validate_reference(
        target,
        "spec.scaleTargetRef",
        checks_version=is_checked,
        needs_group=target["kind"] != "ReplicationController",
    )
    for number, metric in enumerate(spec.get("metrics") or ()):
        yield from _validate_metric(metric, f"spec.metrics[{number}]")
    for name, rules in (spec.get("behavior") or {}).items():
        yield from _validate_rules(rules, f"spec.behavior.{name}")


def validate_autoscaler_status(autoscaler: Object, _old: Object) -> Errors:
    """Validates the status of an autoscaler."""
    status = autoscaler.get("status") or {}
    yield from not_negative(status, "status", "currentReplicas", "desiredReplicas")


def _version_and_kind(reference: Mapping[str, Any]) -> tuple[str, str]:
    return reference.get("apiVersion", ""), reference["kind"]


def _validate_reference(
    reference: Mapping[str, Any], field: str, *, checks_version: bool, needs_group: bool
) -> Errors:
    for name in ("kind", "name"):
        yield from required_value(f"{field}.{name}", reference[name], names.path_segment)
    version = reference.get("apiVersion", "")
    if not checks_version:
        return
    if version.count("/") > 1:
        problem = f"unexpected GroupVersion string: {version}"
        yield invalid(f"{field}.apiVersion", version, problem)
    elif needs_group and not version.rpartition("/")[0]:
        yield invalid(f"{field}.apiVersion", version, "apiVersion must specify API group")


def _validate_metric(metric: Mapping[str, Any], field: str) -> Errors:
    kind = metric["type"]
    if not kind:
        yield required(f"{field}.type", "must specify a metric source type")
    if kind not in _SOURCES:
        yield not_supported(f"{field}.type", kind, sorted(_SOURCES))
    present = [name for name in _VALIDATE if name in metric]
    if present:  # upstream validates only the first one
        yield from _VALIDATE[present[0]](metric[present[0]], f"{field}.{present[0]}")
    source = _SOURCES.get(kind)
    if source is None:
        yield not_supported(f"{field}.type", kind, sorted(_SOURCES))
    elif source not in metric:
        problem = "must populate information for the given metric source"
        yield required(f"{field}.{source}", problem)
    if len(present) != 1:
        for other in sorted(set(present) - {source}):
            problem = "must populate the given metric source only"
            yield forbidden_field(f"{field}.{other}", problem)


def _validate_object(source: Mapping[str, Any], field: str) -> Errors:
    yield from _validate_reference(
        source["describedObject"],
        f"{field}.describedObject",
        checks_version=True,
        needs_group=False,
    )
    yield from _validate_identifier(source["metric"], f"{field}.metric")
    yield from _validate_target(source["target"], f"{field}.target")
    if "value" not in source["target"] and "averageValue" not in source["target"]:
        problem = "must set either a target value or averageValue"
        yield required(f"{field}.target.averageValue", problem)


def _validate_external(source: Mapping[str, Any], field: str) -> Errors:
    target = source["target"]
    yield from _validate_identifier(source["metric"], f"{field}.metric")
    yield from _validate_target(target, f"{field}.target")
    if "value" not in target and "averageValue" not in target:
        problem = "must set either a target value for metric or a per-pod target"
        yield required(f"{field}.target.averageValue", problem)
    if "value" in target and "averageValue" in target:
        problem = "may not set both a target value for metric and a per-pod target"
        yield forbidden_field(f"{field}.target.value", problem)


def _validate_pods(source: Mapping[str, Any], field: str) -> Errors:
    yield from _validate_identifier(source["metric"], f"{field}.metric")
    yield from _validate_target(source["target"], f"{field}.target")
    if "averageValue" not in source["target"]:
        problem = "must specify a positive target averageValue"
        yield required(f"{field}.target.averageValue", problem)


def _validate_resource(source: Mapping[str, Any], field: str) -> Errors:
    if not source["name"]:
        yield required(f"{field}.name", "must specify a resource name")
    yield from _validate_utilization(source["target"], f"{field}.target")


def _validate_container_resource(source: Mapping[str, Any], field: str) -> Errors:
    if not source["name"]:
        yield required(f"{field}.name", "must specify a resource name")
    else:
        yield from validate_resource_name(source["name"], f"{field}.name", is_of_container=True)
    if not source["container"]:
        yield required(f"{field}.container", "must specify a container")
    else:
        yield from field_errors(f"{field}.container", source["container"], names.dns_label)
    yield from _validate_utilization(source["target"], f"{field}.target")


#: Field of a metric -> validates its source, in upstream's order.
_VALIDATE: Mapping[str, Callable[[Mapping[str, Any], str], Errors]] = MappingProxyType(
    {
        "object": _validate_object,
        "external": _validate_external,
        "pods": _validate_pods,
        "resource": _validate_resource,
        "containerResource": _validate_container_resource,
    }
)


def _validate_identifier(identifier: Mapping[str, Any], field: str) -> Errors:
    if not identifier["name"]:
        yield required(f"{field}.name", "must specify a metric name")
    else:
        yield from field_errors(f"{field}.name", identifier["name"], names.path_segment)


def _validate_target(target: Mapping[str, Any], field: str) -> Errors:
    kind = target["type"]
    if not kind:
        yield required(f"{field}.type", "must specify a metric target type")
    if kind not in ("AverageValue", "Utilization", "Value"):
        problem = "must be either Utilization, Value, or AverageValue"
        yield invalid(f"{field}.type", kind, problem)
    for name in ("value", "averageValue"):
        if name in target and Quantity.from_wire(target[name]).nanos <= 0:
            yield invalid(f"{field}.{name}", target[name], "must be positive")
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        yield invalid(f"{field}.averageUtilization", utilization, "must be greater than 0")


def _validate_utilization(target: Mapping[str, Any], field: str) -> Errors:
    """Validates the target of a resource: an amount, or a part of the requests."""
    yield from _validate_target(target, field)
    if "averageUtilization" not in target and "averageValue" not in target:
        problem = "must set either a target raw value or a target utilization"
        yield required(f"{field}.averageUtilization", problem)
    if "averageUtilization" in target and "averageValue" in target:
        problem = "may not set both a target raw value and a target utilization"
        yield forbidden_field(f"{field}.averageValue", problem)


def _validate_rules(rules: Mapping[str, Any], field: str) -> Errors:
    window = rules.get("stabilizationWindowSeconds")
    if window is not None and window < 0:
        problem = "must be greater than or equal to zero"
        yield invalid(f"{field}.stabilizationWindowSeconds", window, problem)
    if window is not None and window > _WINDOW_S_MAX:
        problem = f"must be less than or equal to {_WINDOW_S_MAX}"
        yield invalid(f"{field}.stabilizationWindowSeconds", window, problem)
    select = rules.get("selectPolicy")
    if select not in (None, *_SELECT_POLICIES):
        yield not_supported(f"{field}.selectPolicy", select, _SELECT_POLICIES)
    if not rules.get("policies"):
        yield required(f"{field}.policies", "must specify at least one Policy")
    for number, policy in enumerate(rules.get("policies") or ()):
        yield from _validate_policy(policy, f"{field}.policies[{number}]")
    tolerance = rules.get("tolerance")
    if tolerance is not None and Quantity.from_wire(tolerance).nanos < 0:
        yield invalid(f"{field}.tolerance", tolerance, NOT_NEGATIVE)


def _validate_policy(policy: Mapping[str, Any], field: str) -> Errors:
    if policy["type"] not in _POLICY_TYPES:
        yield not_supported(f"{field}.type", policy["type"], _POLICY_TYPES)
    for name in ("value", "periodSeconds"):
        if policy[name] <= 0:
            yield invalid(f"{field}.{name}", policy[name], "must be greater than zero")
    if policy["periodSeconds"] > _PERIOD_S_MAX:
        problem = f"must be less than or equal to {_PERIOD_S_MAX}"
        yield invalid(f"{field}.periodSeconds", policy["periodSeconds"], problem)
