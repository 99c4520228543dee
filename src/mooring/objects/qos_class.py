"""The quality-of-service class of a pod: Guaranteed, Burstable or BestEffort.

Source: pkg/apis/core/helper/qos/qos.go (ComputePodQOS).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.objects.quantity import Quantity
from mooring.objects.text_cache import text_cache

_COMPUTE = ("cpu", "memory")


def qos_class(spec: dict[str, Any]) -> str:
    """Returns the class of a pod spec (decoded JSON), by its requests and limits of cpu and memory.

    Returns:
        "Guaranteed", "Burstable" or "BestEffort".
    """
    if "resources" in spec:
        parts: list[dict[str, Any]] = [spec["resources"]]
    else:
        containers = (*(spec.get("containers") or ()), *spec.get("initContainers", ()))
        parts = [container["resources"] for container in containers]
    if not any(parts):
        return "BestEffort"
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    is_limited = True
    for part in parts:
        _add(requests, part.get("requests"))
        is_limited &= _add(limits, part.get("limits")) == len(_COMPUTE)
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if is_limited and requests == limits else "Burstable"


def _add(total: dict[str, int], resources: Mapping[str, Any] | None) -> int:
    """Adds cpu and memory, in billionths, to ``total``; returns how many are positive."""
    added = 0
    if not resources:
        return added
    for name in _COMPUTE:
        text = resources.get(name)
        if text is not None and (nanos := _nanos(text)) > 0:
            total[name] = total.get(name, 0) + nanos
            added += 1
    return added


@text_cache(16384)
def _nanos(text: str) -> int:
    return Quantity.from_wire(text).nanos
