"""The usage of quotas: what an object counts, and which quotas count it.

Source: pkg/quota/v1/evaluator/core, k8s.io/apiserver pkg/quota/v1/generic/evaluator.go.
Differs: a resource claim does not count for the extended resource that stands for its class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import convert

from mooring.objects.pod import Pod
from mooring.objects.qos_class import qos_class
from mooring.objects.quantity import Quantity
from mooring.objects.requests import pod_limits, pod_requests
from mooring.objects.volume_claims import BETA_CLASS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.apiserver.resources import Resource
    from mooring.apiserver.types import Object

Amounts = dict[str, Quantity]

_PER_CLASS = ".deviceclass.resource.k8s.io/devices"
ONE = Quantity.of_value(1)
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES = "hugepages-"
#: Each container must have these if a quota limits them.
_REQUIRED = frozenset(
    ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
)
#: Resources that quotas count by their own name, besides "count/...".
_COUNTED = ("configmaps", "replicationcontrollers", "resourcequotas", "secrets", "services")
#: The devices of a request for all of them, at worst: the most that a claim can have.
_DEVICES_MAX = 32
_ENDED = ("Failed", "Succeeded")


def usage_of(resource: Resource, obj: Object) -> Amounts:
    """Returns the amounts that an object adds to quotas."""
    usage = {f"count/{resource.qualified}": ONE}
    if resource.qualified == "pods":
        if (obj.get("status") or {}).get("phase") not in _ENDED:
            usage |= _pod_usage(obj)
    elif resource.qualified == "persistentvolumeclaims":
        usage |= _claim_usage(obj)
    elif resource.qualified == "resourceclaims.resource.k8s.io":
        usage |= _devices_usage(obj)
    elif resource.qualified in _COUNTED:
        usage[resource.name] = ONE
    if resource.qualified == "services":
        usage |= _service_usage(obj["spec"])
    return usage


def can_count(resource: Resource, hard: Mapping[str, str]) -> bool:
    """Returns True if objects of a resource can count for a name of a quota, of thousands maybe."""
    if resource.qualified in ("pods", "persistentvolumeclaims"):
        return bool(hard)
    if f"count/{resource.qualified}" in hard or resource.qualified in hard:
        return True
    if resource.qualified == "services":
        return any(name.startswith("services.") for name in hard)
    is_claims = resource.qualified == "resourceclaims.resource.k8s.io"
    return is_claims and any(name.endswith(_PER_CLASS) for name in hard)


def _service_usage(spec: Object) -> Amounts:
    ports = spec.get("ports") or ()
    count = 0
    if spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        count = sum(bool(port.get("nodePort")) for port in ports)
    elif spec["type"] in ("NodePort", "LoadBalancer"):
        count = len(ports)
    balancers = int(spec["type"] == "LoadBalancer")
    return {
        "services.nodeports": Quantity.of_value(count),
        "services.loadbalancers": Quantity.of_value(balancers),
    }


def _devices_usage(claim: Object) -> Amounts:
    """Returns the number of devices by class; of alternatives the most that any can need."""
    count_by_class: dict[str, int] = {}
    for request in (claim["spec"].get("devices") or {}).get("requests") or ():
        most: dict[str, int] = {}
        for option in request.get("firstAvailable") or (request.get("exactly"),):
            if option is not None:
                name, count = option["deviceClassName"], _device_count(option)
                most[name] = max(most.get(name, 0), count)
        for name, count in most.items():
            count_by_class[name] = count_by_class.get(name, 0) + count
    return {f"{n}{_PER_CLASS}": Quantity.of_value(c) for n, c in count_by_class.items()}


def _device_count(request: Object) -> int:
    if request.get("allocationMode") == "All":
        return _DEVICES_MAX
    return int(request.get("count") or 0)


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
    storage_class = annotations.get(BETA_CLASS, spec.get("storageClassName") or "")
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
    scope_matches = _SCOPES.get(resource.qualified)
    return scope_matches is not None and all(scope_matches(term, obj) for term in terms)


def _claim_scope_matches(term: Mapping[str, Any], claim: Object) -> bool:
    if term["scopeName"] != "VolumeAttributesClass":
        return False
    status = claim.get("status") or {}
    names = (
        claim["spec"].get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return any(_name_matches(term, name) for name in list(filter(None, names)) or [None])


def _pod_scope_matches(term: Mapping[str, Any], pod: Object) -> bool:
    scope, spec = term["scopeName"], pod["spec"]
    if scope in ("Terminating", "NotTerminating"):
        return ("activeDeadlineSeconds" in spec) is (scope == "Terminating")
    if scope in ("BestEffort", "NotBestEffort"):
        return (qos_class(spec) == "BestEffort") is (scope == "BestEffort")
    if scope == "CrossNamespacePodAffinity":
        return any(term.get("namespaces") or "namespaceSelector" in term for term in _terms(spec))
    return scope == "PriorityClass" and _name_matches(term, spec.get("priorityClassName"))


_SCOPES = {"pods": _pod_scope_matches, "persistentvolumeclaims": _claim_scope_matches}


def _name_matches(term: Mapping[str, Any], name: str | None) -> bool:
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


def limits_compute(hard: Mapping[str, str]) -> bool:
    """Returns whether a quota limits a resource that each container must specify then."""
    return not _REQUIRED.isdisjoint(hard)


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
