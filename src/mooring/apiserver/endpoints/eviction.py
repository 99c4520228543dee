"""The subresource pods/eviction: deletes a pod if its disruption budget allows it.

As with kube-apiserver alone, the status of a budget is written by clients, such as the disruption
controller of ``mooring start``. A budget without a status allows nothing.

Source: pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import convert

from mooring.apiserver.errors import ApiStatusError, bad_request, forbidden, too_many_requests
from mooring.apiserver.patch.managed_fields import FieldManager, track_update
from mooring.apiserver.registry.delete_options import check_preconditions, options_of
from mooring.apiserver.registry.deletion import Deleter
from mooring.apiserver.registry.pod_strategy import set_condition
from mooring.apiserver.registry.registry import Registry, Target, check_namespace
from mooring.apiserver.resources import resource_named
from mooring.objects.meta import LabelSelector
from mooring.objects.selectors import compile_label_selector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mooring.apiserver.types import Object

_BUDGETS = resource_named("policy", "poddisruptionbudgets")
#: Evictions that the disruption controller has not confirmed yet.
DISRUPTED_PODS_MAX = 2000
VIOLATION = "Cannot evict pod as it would violate the pod's disruption budget."
MORE_THAN_ONE = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
    "support."
)


def evict(
    registry: Registry, deleter: Deleter, target: Target, eviction: Object, dry_run: Sequence[str]
) -> None:
    """Deletes a pod if its disruption budget allows it.

    Raises:
        ApiStatusError: 400, 404, 409, 429, or 500 for a pod with several budgets (as upstream).
    """
    check_namespace(target, eviction["metadata"])
    if eviction["metadata"].get("name", "") != target.name:
        raise bad_request("name in URL does not match name in Eviction object")
    delete_options = eviction.get("deleteOptions", {})
    options = options_of(delete_options, () if delete_options.get("dryRun") else dry_run)
    pod = registry.get(target).object()
    if _needs_budget_check(pod):
        budget = _budget_of(registry, pod)
        if budget is not None and not _may_evict_unready(pod, budget):
            _use_disruption(registry, target, budget, dry_run=options.dry_run)
    if options.dry_run:
        deleter.delete(target, options)
        return
    check_preconditions(target, pod, options)
    status = pod["status"]
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    set_condition(status, condition, registry.now())
    registry.collection(target.resource).replace(target.key, pod)
    deleter.delete(target, replace(options, version=None))


def _needs_budget_check(pod: Object) -> bool:
    """Returns True unless the pod does not run or is being deleted already."""
    if "deletionTimestamp" in pod["metadata"]:
        return False
    return pod["status"].get("phase") not in ("Succeeded", "Failed", "Pending")


def _budget_of(registry: Registry, pod: Object) -> Object | None:
    labels = pod["metadata"].get("labels", {})
    matches = []
    for stored in registry.collection(_BUDGETS).in_order(pod["metadata"]["namespace"]):
        budget = stored.object()
        selector = convert(budget["spec"].get("selector"), LabelSelector | None)
        if compile_label_selector(selector).matches(labels):
            matches.append(budget)
    if len(matches) > 1:
        raise ApiStatusError(500, "", MORE_THAN_ONE)
    return matches[0] if matches else None


def _may_evict_unready(pod: Object, budget: Object) -> bool:
    """Returns True if a pod that is not ready may be evicted without counting as a disruption."""
    conditions = pod["status"].get("conditions", ())
    if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget["status"]
    desired = int(status.get("desiredHealthy", 0))
    return 0 < desired <= int(status.get("currentHealthy", 0))


def _use_disruption(registry: Registry, target: Target, budget: Object, *, dry_run: bool) -> None:
    """Subtracts one from the allowed disruptions."""
    name, status = budget["metadata"]["name"], budget["status"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        message = f"The disruption budget {name} is still being processed by the server."
        raise too_many_requests(VIOLATION, retry_after_s=10, causes=[_cause(message)])
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise forbidden(_BUDGETS, name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods", {})) > DISRUPTED_PODS_MAX:
        reason = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden(_BUDGETS, name, reason)
    if allowed == 0:
        raise too_many_requests(VIOLATION, causes=[_cause(_violation_message(name, status))])
    if dry_run:
        return
    before = deepcopy(budget)
    status["disruptionsAllowed"] = allowed - 1
    if allowed == 1:
        _set_exhausted(status, registry.now())
    status.setdefault("disruptedPods", {})[target.name] = registry.now()
    track_update(budget, before, FieldManager("kube-apiserver", _BUDGETS, "status", registry.now()))
    key = Target(_BUDGETS, target.namespace, name).key
    registry.collection(_BUDGETS).replace(key, budget)


def _set_exhausted(status: Object, now: str) -> None:
    """Sets the condition that no more disruptions are allowed."""
    condition = {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": status.get("observedGeneration", 0),
        "lastTransitionTime": now,
        "reason": "InsufficientPods",
        "message": "",
    }
    conditions = status.setdefault("conditions", [])
    for position, present in enumerate(conditions):
        if present["type"] == condition["type"]:
            if present["status"] == "False":
                condition["lastTransitionTime"] = present["lastTransitionTime"]
            conditions[position] = condition
            return
    conditions.append(condition)


def _violation_message(name: str, status: Object) -> str:
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    conditions = status.get("conditions", ())
    false_conditions = [
        c for c in conditions if c["type"] == "DisruptionAllowed" and c["status"] == "False"
    ]
    condition = (
        false_conditions[0] if false_conditions and false_conditions[0].get("message") else None
    )
    if condition and condition["reason"] == "SyncFailed":
        return (
            f"The disruption budget {name} does not allow evicting pods currently because it "
            f"failed sync: {condition['message']}"
        )
    if healthy <= desired:
        return (
            f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )
    if condition:
        return (
            f"The disruption budget {name} does not allow evicting pods currently "
            f"({condition['reason']}): {condition['message']}"
        )
    return f"The disruption budget {name} does not allow evicting pods currently"


def _cause(message: str) -> dict[str, str]:
    return {"reason": "DisruptionBudget", "message": message}
