"""Patches of one condition in a pod's status.

Source: pkg/api/v1/pod/util.go (UpdatePodCondition).
"""

from __future__ import annotations

from typing import Any

from mooring.clock import rfc3339
from mooring.objects.pod import Pod


def condition_patch(
    pod: Pod,
    *,
    kind: str,
    status: str,
    reason: str,
    message: str,
    now_s: float,
    only_changed: bool = True,
) -> dict[str, Any] | None:
    """Returns the condition as the API writes it; None if the pod has it already.

    Args:
        pod: The version whose status is compared.
        kind: Type of the condition, such as "PodScheduled".
        status: "True" or "False".
        reason: One word for programs.
        message: A sentence for people.
        now_s: Seconds since 1970-01-01 UTC; the transition time, if the status changes.
        only_changed: Return None if the pod has the condition already.
    """
    before = next(
        (condition for condition in pod.status.conditions if condition.type == kind), None
    )
    is_same = before is not None and (before.status, before.reason, before.message) == (
        status,
        reason,
        message,
    )
    if is_same and only_changed:
        return None
    patch: dict[str, Any] = {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": pod.metadata.generation,
        "lastProbeTime": None,
    }
    if before is None or before.status != status:
        patch["lastTransitionTime"] = rfc3339(now_s)
    return patch
