"""The status of a disruption budget, from its pods and their workloads.

Source: pkg/controller/disruption/disruption.go (getExpectedPodCount, getExpectedScale,
buildDisruptedPodMap, countHealthyPods, updatePdbStatus, failSafe).
Differs: the scale of custom resources is not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from mooring.clock import rfc3339
from mooring.objects.meta import Condition, OwnerReference, controller_of
from mooring.objects.workloads import PodDisruptionBudget, PodDisruptionBudgetStatus
from mooring.simulation.controllers.deployment.limits import scaled
from mooring.simulation.controllers.workload_pods import is_ready

if TYPE_CHECKING:
    from mooring.objects.pod import Pod
    from mooring.simulation.controllers.objects import Workload

#: A pod whose eviction was allowed counts as disrupted for so long, if it is not deleted.
DELETION_TIMEOUT_S: Final = 120.0
#: The clock has surely moved on after so many seconds, whatever the precision of its numbers.
AGAIN_S_MIN: Final = 0.001
CONDITION: Final = "DisruptionAllowed"
SUFFICIENT_PODS, INSUFFICIENT_PODS, SYNC_FAILED = "SufficientPods", "InsufficientPods", "SyncFailed"
#: The kinds of owners without the subresource scale.
_WITHOUT_SCALE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "DaemonSet": "daemonsets.apps",
        "Job": "jobs.batch",
        "CronJob": "cronjobs.batch",
        "Node": "nodes",
    }
)

#: Returns a workload by kind, and its key "namespace/name"; None = there is none.
FindWorkload = Callable[[str, str], "Workload | None"]


class SyncFailure(Exception):
    """A status cannot be calculated.

    Attributes:
        is_unknown_owner: True if the workload that controls a pod is not there.
    """

    def __init__(self, message: str, *, is_unknown_owner: bool = False) -> None:
        super().__init__(message)
        self.is_unknown_owner = is_unknown_owner


class Calculated(NamedTuple):
    """A new status.

    Attributes:
        status: The status.
        again_s: After so many seconds it must be calculated again, if nothing changes before.
    """

    status: PodDisruptionBudgetStatus
    again_s: float | None = None


def calculate(
    budget: PodDisruptionBudget, pods: Sequence[Pod], find: FindWorkload, now_s: float
) -> Calculated:
    """Returns the status of a budget.

    Args:
        budget: With its last status.
        pods: All pods that it selects, finished ones too.
        find: Finds the workloads that control pods.
        now_s: The wall clock.

    Raises:
        SyncFailure: it cannot be calculated.
    """
    expected, desired = _counts(budget, pods, find)
    disrupted = _disrupted_pods(budget, pods, now_s)
    healthy = sum(
        pod.metadata.deletion_timestamp is None
        and pod.metadata.name not in disrupted
        and is_ready(pod)
        for pod in pods
    )
    allowed = max(0, healthy - desired) if expected > 0 else 0
    status = replace(
        budget.status,
        observed_generation=budget.metadata.generation,
        disrupted_pods=disrupted,
        disruptions_allowed=allowed,
        current_healthy=healthy,
        desired_healthy=desired,
        expected_pods=expected,
    )
    reason = SUFFICIENT_PODS if allowed else INSUFFICIENT_PODS
    again_s = None
    if disrupted:
        first_s = min(_seconds(time) for time in disrupted.values())
        again_s = max(AGAIN_S_MIN, first_s + DELETION_TIMEOUT_S - now_s)
    return Calculated(_with_condition(status, reason, "", now_s), again_s)


def failed(budget: PodDisruptionBudget, failure: SyncFailure, now_s: float) -> Calculated:
    """Returns the status of a budget that cannot be calculated: it allows no disruption."""
    status = replace(budget.status, disruptions_allowed=0)
    return Calculated(_with_condition(status, SYNC_FAILED, str(failure), now_s))


def _counts(
    budget: PodDisruptionBudget, pods: Sequence[Pod], find: FindWorkload
) -> tuple[int, int]:
    """Returns the number of expected pods, and how many must be healthy."""
    spec = budget.spec
    if spec.max_unavailable is not None:
        expected = _scale(pods, find)
        return expected, max(0, expected - _share(spec.max_unavailable, expected))
    if isinstance(spec.min_available, str):
        expected = _scale(pods, find)
        return expected, _share(spec.min_available, expected)
    if spec.min_available is not None:
        return len(pods), spec.min_available
    return 0, 0


def _share(value: int | str, total: int) -> int:
    """Returns a number, or a percentage of ``total``, rounded up."""
    if isinstance(value, str) and not (value.endswith("%") and value[:-1].isdecimal()):
        raise SyncFailure("invalid value for IntOrString: invalid type: string is not a percentage")
    return scaled(value, total, rounds_up=True)


def _scale(pods: Iterable[Pod], find: FindWorkload) -> int:
    """Returns the sum of the replicas of all workloads that control one of the pods."""
    scales: dict[str, int] = {}
    owner_uids: set[str] = set()
    for pod in pods:
        owner = controller_of(pod.metadata)
        if owner is None or owner.uid in owner_uids:
            continue
        owner_uids.add(owner.uid)
        workload = _scaled_workload(pod, owner, find)
        scales[workload.metadata.uid] = workload.replicas
    return sum(scales.values())


def _scaled_workload(pod: Pod, owner: OwnerReference, find: FindWorkload) -> Workload:
    """Returns the workload whose replicas count: of a Deployment's ReplicaSet its Deployment."""
    if owner.kind in _WITHOUT_SCALE:
        text = f"{_WITHOUT_SCALE[owner.kind]} does not implement the scale subresource"
        raise SyncFailure(text)
    namespace = pod.metadata.namespace
    workload = find(owner.kind, f"{namespace}/{owner.name}")
    if workload is not None and workload.metadata.uid == owner.uid:
        own = controller_of(workload.metadata)
        if workload.kind != "ReplicaSet" or own is None or own.kind != "Deployment":
            return workload
        deployment = find("Deployment", f"{namespace}/{own.name}")
        # The scale of the ReplicaSet itself counts if its Deployment is gone.
        is_there = deployment is not None and deployment.metadata.uid == own.uid
        return deployment if deployment is not None and is_there else workload
    raise SyncFailure(f'found no controllers for pod "{pod.metadata.name}"', is_unknown_owner=True)


def _disrupted_pods(
    budget: PodDisruptionBudget, pods: Iterable[Pod], now_s: float
) -> dict[str, str | None]:
    """Returns the pods whose eviction was allowed, and whose deletion is still awaited."""
    before = budget.status.disrupted_pods
    if not before:
        return {}
    return {
        pod.metadata.name: before[pod.metadata.name]
        for pod in pods
        if pod.metadata.deletion_timestamp is None
        and pod.metadata.name in before
        and _seconds(before[pod.metadata.name]) + DELETION_TIMEOUT_S > now_s
    }


def _seconds(time: str | None) -> float:
    return datetime.fromisoformat(time).timestamp() if time else 0.0


def _with_condition(
    status: PodDisruptionBudgetStatus, reason: str, message: str, now_s: float
) -> PodDisruptionBudgetStatus:
    """Returns the status with its condition; its time changes only with its status."""
    value = "True" if reason == SUFFICIENT_PODS else "False"
    old = next((item for item in status.conditions if item.type == CONDITION), None)
    since = rfc3339(now_s)
    if old is not None and old.status == value and old.last_transition_time:
        since = old.last_transition_time
    condition = Condition(
        type=CONDITION,
        status=value,
        observed_generation=status.observed_generation,
        last_transition_time=since,
        reason=reason,
        message=message,
    )
    others = tuple(item for item in status.conditions if item.type != CONDITION)
    return replace(status, conditions=(*others, condition))
