"""The usage of quotas: what an object counts, and which quotas count it.

Source: pkg/quota/v1/evaluator/core, k8s.io/apiserver pkg/quota/v1/generic/evaluator.go.
Differs: of services only their number counts, not their node ports and load balancers; the scope
VolumeAttributesClass matches nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import convert

from mooring.objects.pod import Pod
from mooring.objects.qos_class import qos_class
from mooring.objects.quantity import Quantity
from mooring.objects.requests import pod_limits, pod_requests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.apiserver.resources import Resource
    from mooring.apiserver.types import Object

Amounts = dict[str, Quantity]

ONE = Quantity.of_value(1)
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES = "hugepages-"
#: Each container must have these if a quota limits them.
_REQUIRED = frozenset(
    ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
)
#: Resources that quotas count by their own name, besides "count/...".
_COUNTED = ("configmaps", "replicationcontrollers", "resourcequotas", "secrets", "services")
_ENDED = ("Failed", "Succeeded")


def usage_of(resource: Resource, obj: Object) -> Amounts:
    """Returns the amounts that an object adds to quotas."""
    usage = {f"count/{resource.qualified}": ONE}
    if resource.qualified == "pods":
        if (obj.get("status") or {}).get("phase") not in _ENDED:
            usage |= _pod_usage(obj)
    elif resource.qualified == "persistentvolumeclaims":
        usage |= _claim_usage(obj)
    elif resource.qualified in _COUNTED:
        usage[resource.name] = ONE
    return usage


def _pod_usage(pod: Object) -> Amounts:
    typed = convert({"metadata": {}, "spec": pod["spec"]}, Pod)
    return {"pods": ONE, **compute_usage(dict(pod_requests(typed)), dict(pod_limits(typed)))}


def compute_usage(requests: Amounts, limits: Amounts) -> Amounts:
    """Returns requests and limits under the names that quotas have for them."""
    usage: Amounts = {}
    for name in _COMPUTE:
        if name in requests:
            usage[name] = usage[f"requests.{name}"] = requests[name]
        if name in limits:
            usage[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if name.startswith(_HUGE_PAGES):
            usage[name] = usage[f"requests.{name}"] = amount
        elif "/" in name:
            usage[f"requests.{name}"] = amount
    return usage


def _claim_usage(claim: Object) -> Amounts:
    spec = claim["spec"]
    annotations = claim["metadata"].get("annotations") or {}
    storage_class = annotations.get("volume.beta.kubernetes.io/storage-class")
    storage_class = storage_class or spec.get("storageClassName") or ""
    usage = {"persistentvolumeclaims": ONE}
    text = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if text is not None:
        usage["requests.storage"] = Quantity.from_wire(text)
    if storage_class:
        prefix = f"{storage_class}.storageclass.storage.k8s.io/"
        usage |= {f"{prefix}{name}": amount for name, amount in usage.items()}
    return usage


def matches(quota: Object, resource: Resource, obj: Object) -> bool:
    """Returns True if all scopes of a quota match an object."""
    spec = quota["spec"]
    terms = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    terms += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    if not terms:
        return True
    return resource.qualified == "pods" and all(_scope_matches(term, obj) for term in terms)


def _scope_matches(term: Mapping[str, Any], pod: Object) -> bool:
    scope, spec = term["scopeName"], pod["spec"]
    if scope in ("Terminating", "NotTerminating"):
        return ("activeDeadlineSeconds" in spec) is (scope == "Terminating")
    if scope in ("BestEffort", "NotBestEffort"):
        return (qos_class(spec) == "BestEffort") is (scope == "BestEffort")
    if scope == "CrossNamespacePodAffinity":
        return any(term.get("namespaces") or "namespaceSelector" in term for term in _terms(spec))
    return scope == "PriorityClass" and _priority_matches(term, spec.get("priorityClassName"))


def _priority_matches(term: Mapping[str, Any], name: str | None) -> bool:
    operator, values = term["operator"], term.get("values") or ()
    if operator == "In":
        return name in values
    if operator == "NotIn":
        return name not in values
    return bool(name) is (operator == "Exists")


def _terms(spec: Object) -> list[Mapping[str, Any]]:
    """Returns all terms of a pod's affinity to other pods."""
    affinity = spec.get("affinity") or {}
    terms: list[Mapping[str, Any]] = []
    for name in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(name) or {}
        terms += part.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        preferred = part.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [weighted["podAffinityTerm"] for weighted in preferred]
    return terms


def missing_problem(pod: Object, hard: Mapping[str, str]) -> str:
    """Returns which limited resources the containers of a pod lack; "" = none."""
    spec = pod["spec"]
    if spec.get("resources"):
        return ""
    containers_by_name: dict[str, set[str]] = {}
    for container in (*spec.get("containers", ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        present = compute_usage(dict.fromkeys(requests, ONE), dict.fromkeys(limits, ONE))
        for name in _REQUIRED.intersection(hard).difference(present):
            containers_by_name.setdefault(name, set()).add(container["name"])
    parts = (
        f"{name} for: {','.join(sorted(containers))}"
        for name, containers in sorted(containers_by_name.items())
    )
    text = "; ".join(parts)
    return f"must specify {text}" if text else ""
