"""The policies of a Job: what a failed pod means, and when some indexes are enough.

Source: pkg/controller/job/pod_failure_policy.go, success_policy.go.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, NamedTuple

from mooring.simulation.controllers.job_pods.ended_pods import failures_of
from mooring.simulation.controllers.job_pods.indexes import indexes_of
from mooring.simulation.controllers.objects import Json

if TYPE_CHECKING:
    from mooring.objects.pod import Pod


class Verdict(NamedTuple):
    """The meaning of a failed pod.

    Attributes:
        counts: Whether it counts as a failure.
        fails_index: Whether its index has failed for good.
        message: Why the Job has failed; "" = it has not.
    """

    counts: bool
    fails_index: bool = False
    message: str = ""


def verdict_of(policy: Json | None, pod: Pod) -> Verdict:
    """Returns what the first rule that matches makes of a failed pod."""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        reason = _match(rule, pod)
        if not reason:
            continue
        action = rule["action"]
        if action == "FailJob":
            text = f"{reason} matching {action} rule at index {number}"
            return Verdict(True, message=text)
        return Verdict(action != "Ignore", fails_index=action == "FailIndex")
    return Verdict(True)


def _match(rule: Json, pod: Pod) -> str:
    """Returns why a rule matches a pod; "" = it does not."""
    metadata, codes = pod.metadata, rule.get("onExitCodes")
    name = f"{metadata.namespace}/{metadata.name}"
    if codes is not None:
        for container, code in failures_of(pod):
            is_in = code in codes["values"]
            if codes.get("containerName") in (None, container) and (
                is_in == (codes["operator"] == "In")
            ):
                return f"Container {container} for pod {name} failed with exit code {code}"
        return ""
    patterns = {
        (item["type"], item.get("status", "True")) for item in rule.get("onPodConditions") or ()
    }
    for condition in pod.status.conditions:
        if (condition.type, condition.status) in patterns:
            return f"Pod {name} has condition {condition.type}"
    return ""


def success_message(policy: Json | None, succeeded: Set[int]) -> str:
    """Returns which rule of a success policy the succeeded indexes meet; "" = none."""
    if not succeeded:
        return ""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        own, count = rule.get("succeededIndexes"), rule.get("succeededCount")
        required = indexes_of(own) if own is not None else set()
        met = len(succeeded & required) if own is not None else len(succeeded)
        is_met = own is not None and bool(required) and met == len(required)
        if is_met or (count is not None and met >= count):
            return f"Matched rules at index {number}"
    return ""
