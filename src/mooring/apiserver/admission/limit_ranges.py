"""LimitRanger: sets the defaults of containers and enforces the limits of a namespace.

Source: plugin/pkg/admission/limitranger/admission.go.
Differs: several errors come in the order of the names of resources; upstream's order is random.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import convert

from mooring.objects.pod import Pod
from mooring.objects.quantity import Quantity
from mooring.objects.requests import pod_limits, pod_requests

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mooring.apiserver.types import Object

ANNOTATION = "kubernetes.io/limit-ranger"
_NANOS = 10**9
Amounts = dict[str, Quantity]


def set_defaults(pod: Object, limit_ranges: Iterable[Object]) -> None:
    """Sets requests and limits that containers lack, and an annotation that lists them."""
    for limit_range in limit_ranges:
        requests: dict[str, str] = {}
        limits: dict[str, str] = {}
        for item in limit_range["spec"].get("limits") or ():
            if item["type"] == "Container":
                requests |= item.get("defaultRequest") or {}
                limits |= item.get("default") or {}
        texts: list[str] = []
        for field, title in (("containers", "container"), ("initContainers", "init container")):
            for container in pod["spec"].get(field) or ():
                texts += _set_in_container(container, title, requests, limits)
        if texts:
            annotations = pod["metadata"].setdefault("annotations", {})
            annotations[ANNOTATION] = "LimitRanger plugin set: " + "; ".join(texts)


def _set_in_container(
    container: Object, title: str, requests: Mapping[str, str], limits: Mapping[str, str]
) -> Iterator[str]:
    """Sets the amounts that a container lacks; returns the parts of the annotation."""
    resources = container.setdefault("resources", {})
    for field, word, defaults in (("requests", "request", requests), ("limits", "limit", limits)):
        own = resources.get(field) or {}
        missing = sorted(name for name in defaults if name not in own)
        if missing:
            resources[field] = {**own, **{name: defaults[name] for name in missing}}
            yield f"{', '.join(missing)} {word} for {title} {container['name']}"


def pod_problems(pod: Object, limit_range: Object) -> list[str]:
    """Returns how a pod breaks the limits of a LimitRange."""
    problems: list[str] = []
    spec = pod["spec"]
    for item in limit_range["spec"].get("limits") or ():
        if item["type"] == "Container":
            for container in (*spec.get("containers", ()), *(spec.get("initContainers") or ())):
                resources = container.get("resources") or {}
                requests, limits = (
                    _amounts(resources.get("requests")),
                    _amounts(resources.get("limits")),
                )
                problems += _problems(item, requests, limits)
        elif item["type"] == "Pod":
            without_overhead = {key: value for key, value in spec.items() if key != "overhead"}
            typed = convert({"metadata": {}, "spec": without_overhead}, Pod)
            problems += _problems(item, dict(pod_requests(typed)), dict(pod_limits(typed)))
    return problems


def claim_problems(claim: Object, limit_range: Object) -> list[str]:
    """Returns how a claim breaks the limits of a LimitRange."""
    problems: list[str] = []
    requests = _amounts((claim["spec"].get("resources") or {}).get("requests"))
    for item in limit_range["spec"].get("limits") or ():
        if item["type"] != "PersistentVolumeClaim":
            continue
        for name, text in sorted((item.get("min") or {}).items()):
            problems += _below_min(item["type"], name, text, requests, {})
        for name, text in sorted((item.get("max") or {}).items()):
            lead = f"maximum {name} usage per {item['type']} is {text}"
            if name not in requests:
                problems.append(f"{lead}.  No request is specified")
            elif requests[name] > Quantity.from_wire(text):
                problems.append(f"{lead}, but request is {requests[name]}")
    return problems


def _amounts(texts: Mapping[str, Any] | None) -> Amounts:
    return {name: Quantity.from_wire(text) for name, text in (texts or {}).items()}


def _problems(item: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    kind = item["type"]
    for name, text in sorted((item.get("min") or {}).items()):
        yield from _below_min(kind, name, text, requests, limits)
    for name, text in sorted((item.get("max") or {}).items()):
        yield from _above_max(kind, name, text, requests, limits)
    for name, text in sorted((item.get("maxLimitRequestRatio") or {}).items()):
        yield from _above_ratio(kind, name, text, requests, limits)


def _below_min(
    kind: str, name: str, text: str, requests: Amounts, limits: Amounts
) -> Iterator[str]:
    lead, least = f"minimum {name} usage per {kind} is {text}", Quantity.from_wire(text)
    if name not in requests:
        yield f"{lead}.  No request is specified"
    elif requests[name] < least:
        yield f"{lead}, but request is {requests[name]}"
    elif name in limits and limits[name] < least:
        yield f"{lead}, but limit is {limits[name]}"


def _above_max(
    kind: str, name: str, text: str, requests: Amounts, limits: Amounts
) -> Iterator[str]:
    lead, most = f"maximum {name} usage per {kind} is {text}", Quantity.from_wire(text)
    if name not in limits:
        yield f"{lead}.  No limit is specified"
    elif limits[name] > most:
        yield f"{lead}, but limit is {limits[name]}"
    elif name in requests and requests[name] > most:
        yield f"{lead}, but request is {requests[name]}"


def _above_ratio(
    kind: str, name: str, text: str, requests: Amounts, limits: Amounts
) -> Iterator[str]:
    lead = f"{name} max limit to request ratio per {kind} is {text}"
    if name not in requests or requests[name].is_zero:
        yield f"{lead}, but no request is specified or request is 0"
    elif name not in limits or limits[name].is_zero:
        yield f"{lead}, but no limit is specified or limit is 0"
    else:
        ratio = limits[name].nanos / requests[name].nanos
        if ratio > Quantity.from_wire(text).nanos / _NANOS:
            yield f"{lead}, but provided ratio is {ratio:f}"
