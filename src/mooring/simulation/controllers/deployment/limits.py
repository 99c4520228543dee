"""The limits of a rolling update: pods that it may add, and pods that may be unavailable."""

from __future__ import annotations

import math
from typing import Any

from mooring.simulation.controllers.objects import Workload


def max_surge(deployment: Workload) -> int:
    """Returns how many pods there may be beyond the replicas."""
    return _limits(deployment)[0]


def max_unavailable(deployment: Workload) -> int:
    """Returns how many of the replicas may be unavailable."""
    return min(_limits(deployment)[1], deployment.replicas)


def _limits(deployment: Workload) -> tuple[int, int]:
    strategy = deployment.spec.get("strategy", {})
    if strategy.get("type") != "RollingUpdate":
        return 0, 0
    rolling = strategy.get("rollingUpdate") or {}
    replicas = deployment.replicas
    surge = scaled(rolling.get("maxSurge", 0), replicas, rounds_up=True)
    unavailable = scaled(rolling.get("maxUnavailable", 0), replicas, rounds_up=False)
    if surge == 0 and unavailable == 0:  # 25% of one pod, rounded down: it would never end
        unavailable = 1
    return surge, unavailable


def scaled(value: Any, total: int, *, rounds_up: bool) -> int:
    """Returns a number, or a percentage of ``total``."""
    if isinstance(value, int):
        return value
    share = int(str(value).removesuffix("%")) * total
    return math.ceil(share / 100) if rounds_up else share // 100
