"""Validation of HorizontalPodAutoscalers, with kube-apiserver's messages.

Source: pkg/apis/autoscaling/validation/validation.go.
Differs: of the targets of metrics only those of resources are validated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.apiserver import names
from mooring.apiserver.errors import Errors, forbidden_field, invalid, not_supported, required
from mooring.apiserver.validation.rules import required_value

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def validate_autoscaler(autoscaler: Object) -> Errors:
    """Validates a new or changed autoscaler."""
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
    for name in ("kind", "name"):
        field = f"spec.scaleTargetRef.{name}"
        yield from required_value(field, target[name], names.path_segment)
    version = target.get("apiVersion", "")
    if version.count("/") > 1:
        problem = f"unexpected GroupVersion string: {version}"
        yield invalid("spec.scaleTargetRef.apiVersion", version, problem)
    elif version and "/" not in version and version != "v1":
        problem = "apiVersion must specify API group"
        yield invalid("spec.scaleTargetRef.apiVersion", version, problem)
    for number, metric in enumerate(spec.get("metrics") or ()):
        yield from _validate_metric(metric, f"spec.metrics[{number}]")
    for name, rules in (spec.get("behavior") or {}).items():
        yield from _validate_rules(rules, f"spec.behavior.{name}")


def _validate_metric(metric: Mapping[str, Any], field: str) -> Errors:
    kind = metric["type"]
    if not kind:
        yield required(f"{field}.type", "must specify a metric source type")
    if kind not in _SOURCES:
        for _ in range(2):  # upstream checks it twice
            yield not_supported(f"{field}.type", kind, sorted(_SOURCES))
        return
    if "resource" in metric:
        yield from _validate_resource(metric["resource"], f"{field}.resource")
    source = _SOURCES[kind]
    if source not in metric:
        problem = "must populate information for the given metric source"
        yield required(f"{field}.{source}", problem)
    for other in sorted(_SOURCES.values()):
        if other in metric and other != source:
            problem = "must populate the given metric source only"
            yield forbidden_field(f"{field}.{other}", problem)


def _validate_resource(source: Mapping[str, Any], field: str) -> Errors:
    if not source["name"]:
        yield required(f"{field}.name", "must specify a resource name")
    target = source["target"]
    kind = target["type"]
    if not kind:
        yield required(f"{field}.target.type", "must specify a metric target type")
    kinds = ("AverageValue", "Utilization", "Value")
    if kind not in kinds:
        problem = "must be either Utilization, Value, or AverageValue"
        yield invalid(f"{field}.target.type", kind, problem)
    utilization, value = target.get("averageUtilization"), target.get("averageValue")
    if utilization is not None and utilization < 1:
        problem = "must be greater than 0"
        yield invalid(f"{field}.target.averageUtilization", utilization, problem)
    if utilization is None and value is None:
        problem = "must set either a target raw value or a target utilization"
        yield required(f"{field}.target.averageUtilization", problem)
    if utilization is not None and value is not None:
        problem = "may not set both a target raw value and a target utilization"
        yield forbidden_field(f"{field}.target.averageValue", problem)


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


def _validate_policy(policy: Mapping[str, Any], field: str) -> Errors:
    if policy["type"] not in _POLICY_TYPES:
        yield not_supported(f"{field}.type", policy["type"], _POLICY_TYPES)
    for name in ("value", "periodSeconds"):
        if policy[name] <= 0:
            yield invalid(f"{field}.{name}", policy[name], "must be greater than zero")
    if policy["periodSeconds"] > _PERIOD_S_MAX:
        problem = f"must be less than or equal to {_PERIOD_S_MAX}"
        yield invalid(f"{field}.periodSeconds", policy["periodSeconds"], problem)
