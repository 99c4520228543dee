"""Tables of quotas, autoscalers, CronJobs and the kinds of networking.

Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mooring.apiserver.printers.cells import (
    Row,
    age,
    containers_of,
    field,
    formatted,
    name,
    row,
)
from mooring.apiserver.printers.core import name_and_creation
from mooring.apiserver.printers.formatting import NONE, UNKNOWN, UNSET, selector, since

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.apiserver.printers.cells import Cell
    from mooring.objects.types import Json

_HOSTS_MAX, _METRICS_MAX = 3, 2


def _quota(*, of_limits: bool) -> Cell:
    """Returns the cell of a quota's used and hard amounts: of limits, or of all others."""

    def text(quota: Json, _now_s: float) -> str:
        status = quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        names = [key for key in sorted(hard) if key.startswith("limits.") is of_limits]
        return ", ".join(f"{key}: {used.get(key, '0')}/{hard[key]}" for key in names)

    return text


def _hosts(rules: Any) -> str:
    hosts: list[str] = []
    has_more = False
    for rule in rules or ():
        has_more = has_more or len(hosts) == _HOSTS_MAX
        if rule.get("host") and not has_more:
            hosts.append(rule["host"])
    text = ",".join(hosts) or "*"
    return f"{text} + {len(rules) - _HOSTS_MAX} more..." if has_more and hosts else text


def _addresses(ingresses: Any) -> str:
    texts = {entry.get("ip") or entry.get("hostname") or "" for entry in ingresses or ()}
    return ",".join(sorted(texts - {""}))


def _metric(spec: Json, status: Json | None) -> str:
    """Returns the current value and the target of one metric."""
    kinds = {"Resource": "resource", "ContainerResource": "containerResource"}
    kinds |= {"Pods": "pods", "Object": "object", "External": "external"}
    source_name = kinds.get(spec.get("type", ""))
    if source_name is None:
        return "<unknown type>"
    source, target = spec[source_name], spec[source_name]["target"]
    current = ((status or {}).get(source_name) or {}).get("current") or {}
    if source_name in ("resource", "containerResource"):
        lead = f"{source['name']}: "
        if "averageValue" in target:
            return f"{lead}{current.get('averageValue', UNKNOWN)}/{target['averageValue']}"
        percent = current.get("averageUtilization")
        now = UNKNOWN if percent is None else f"{percent}%"
        goal = target.get("averageUtilization")
        return f"{lead}{now}/{'<auto>' if goal is None else f'{goal}%'}"
    if "averageValue" in target:
        suffix = "" if source_name == "pods" else " (avg)"
        return f"{current.get('averageValue', UNKNOWN)}/{target['averageValue']}{suffix}"
    return f"{current.get('value', UNKNOWN)}/{target.get('value')}"


def _metrics(autoscaler: Json, _now_s: float) -> str:
    specs = (autoscaler.get("spec") or {}).get("metrics") or []
    statuses = (autoscaler.get("status") or {}).get("currentMetrics") or []
    if not specs:
        return NONE
    texts = [
        _metric(spec, statuses[number] if number < len(statuses) else None)
        for number, spec in enumerate(specs)
    ]
    text = ", ".join(texts[:_METRICS_MAX])
    hidden = len(texts) - _METRICS_MAX
    return f"{text} + {hidden} more..." if hidden > 0 else text


def _last_schedule(cron_job: Json, now_s: float) -> str:
    time = (cron_job.get("status") or {}).get("lastScheduleTime")
    return since(time, now_s) if time else NONE


def _reference(reference: Json | None) -> str:
    reference = reference or {}
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def _parent(reference: Json) -> str:
    """Returns the object that an address belongs to."""
    if not reference:
        return NONE
    resource = ".".join(filter(None, (reference.get("resource"), reference.get("group"))))
    parts = (resource.lower(), reference.get("namespace"), reference.get("name", ""))
    return "/".join(part for part in parts if part)


def _parameters(parameters: Json | None) -> str:
    if parameters is None:
        return NONE
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") is not None else ""
    return f"{parameters['kind']}{group}/{parameters['name']}"


def _class_name(ingress_class: Json, now_s: float) -> str:
    annotations = ingress_class["metadata"].get("annotations") or {}
    is_default = annotations.get("ingressclass.kubernetes.io/is-default-class") == "true"
    return f"{name(ingress_class, now_s)}{' (default)' if is_default else ''}"


#: Kind -> the cells of its row.
ROWS: Mapping[str, Row] = MappingProxyType(
    {
        "CronJob": row(
            name,
            field("spec.schedule"),
            field("spec.timeZone", NONE),
            formatted("spec.suspend", lambda value: UNSET if value is None else str(value)),
            formatted("status.active", lambda jobs: len(jobs or ())),
            _last_schedule,
            age,
            *containers_of("spec.jobTemplate.spec.template"),
            formatted("spec.jobTemplate.spec.selector", lambda value: selector(value) or NONE),
        ),
        "HorizontalPodAutoscaler": row(
            name,
            formatted("spec.scaleTargetRef", _reference),
            _metrics,
            formatted("spec.minReplicas", lambda count: UNSET if count is None else str(count)),
            field("spec.maxReplicas", 0),
            field("status.currentReplicas", 0),
            age,
        ),
        "Ingress": row(
            name,
            field("spec.ingressClassName", NONE),
            formatted("spec.rules", _hosts),
            formatted("status.loadBalancer.ingress", _addresses),
            formatted("spec.tls", lambda entries: "80, 443" if entries else "80"),
            age,
        ),
        "IngressClass": row(
            _class_name, field("spec.controller"), formatted("spec.parameters", _parameters), age
        ),
        "IPAddress": row(name, formatted("spec.parentRef", _parent), age),
        "LimitRange": name_and_creation,
        "NetworkPolicy": row(
            name, formatted("spec.podSelector", lambda value: selector(value) or NONE), age
        ),
        "ResourceQuota": row(name, _quota(of_limits=False), _quota(of_limits=True), age),
        "RuntimeClass": row(name, field("handler"), age),
        "ServiceCIDR": row(name, formatted("spec.cidrs", lambda cidrs: ",".join(cidrs or ())), age),
    }
)
