"""ResourceQuota: refuses objects that exceed a quota of their namespace.

The usage is that of the quotas' status, which ``registry.controllers.quota_status`` keeps.

Source: k8s.io/apiserver pkg/admission/plugin/resourcequota/controller.go (CheckRequest).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.apiserver.admission.quota_usage import (
    Amounts,
    limits_compute,
    matches,
    missing_problem,
    usage_of,
)
from mooring.objects.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mooring.apiserver.resources import Resource
    from mooring.apiserver.types import Object

_ZERO = Quantity.of_value(0)


def quota_problem(
    quotas: Iterable[Object], resource: Resource, new: Object, old: Object | None
) -> str:
    """Returns why the quotas of a namespace do not admit an object; "" = they do."""
    added, is_pod = usage_of(resource, new), resource.qualified == "pods"
    for quota in quotas:
        status = quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        counts = any(name in hard for name in added) or (is_pod and limits_compute(hard))
        if not counts or not matches(quota, resource, new):
            continue
        name = quota["metadata"]["name"]
        problem = missing_problem(new, hard) if is_pod else ""
        if problem:
            return f"failed quota: {name}: {problem}"
        before: Amounts = {}
        if old is not None and matches(quota, resource, old):
            before = usage_of(resource, old)
        problem = _exceeded(_difference(added, before), hard, used)
        if problem:
            return f"exceeded quota: {name}, {problem}"
    return ""


def _difference(after: Amounts, before: Amounts) -> Amounts:
    """Returns what an object adds: nothing where it shrinks."""
    return {
        name: Quantity(amount.nanos - before.get(name, _ZERO).nanos, amount.format)
        for name, amount in after.items()
        if amount > before.get(name, _ZERO)
    }


def _exceeded(added: Amounts, hard: Mapping[str, str], used: Mapping[str, str]) -> str:
    exceeded = [
        name
        for name in sorted(added)
        if name in hard
        and Quantity.from_wire(used.get(name, "0")) + added[name] > Quantity.from_wire(hard[name])
    ]
    if not exceeded:
        return ""
    requested = ",".join(f"{name}={added[name]}" for name in exceeded)
    taken = ",".join(f"{name}={used.get(name, '0')}" for name in exceeded)
    limits = ",".join(f"{name}={hard[name]}" for name in exceeded)
    return f"requested: {requested}, used: {taken}, limited: {limits}"
