"""The status of disruption budgets; the expected numbers are counted by hand.

The rules are those of kube-controller-manager: pkg/controller/disruption/disruption.go.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mooring.client import ObjectChange
from mooring.clock import rfc3339
from mooring.objects.meta import Condition, LabelSelector, ObjectMeta, OwnerReference
from mooring.objects.pod import Pod
from mooring.objects.workloads import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from mooring.simulation.controllers.disruption.budgets import BUDGET, Budgets
from mooring.simulation.controllers.objects import Workload
from mooring.testing import make_pod

NOW_S = 1_800_000_000.0
NOW = rfc3339(NOW_S)


def budget(status: PodDisruptionBudgetStatus | None = None, **spec: Any) -> PodDisruptionBudget:
    selector = LabelSelector(match_labels={"app": "web"})
    return PodDisruptionBudget(
        metadata=ObjectMeta(name="web", namespace="default", generation=3),
        spec=PodDisruptionBudgetSpec(selector=selector, **spec),
        status=status or PodDisruptionBudgetStatus(),
    )


def owner(kind: str, name: str) -> OwnerReference:
    return OwnerReference(kind=kind, name=name, uid=f"uid-{name}", controller=True)


def workload(kind: str, name: str, replicas: int, by: OwnerReference | None = None) -> Workload:
    metadata = ObjectMeta(
        name=name,
        namespace="default",
        uid=f"uid-{name}",
        owner_references=() if by is None else (by,),
    )
    return Workload(kind=kind, metadata=metadata, spec={"replicas": replicas})


def pod(
    name: str, *, ready: bool = True, leaves: bool = False, by: OwnerReference | None = None
) -> Pod:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    status = {"phase": "Running", "conditions": [condition]}
    made = make_pod(name, labels={"app": "web"}, node="a", status=status)
    metadata = replace(
        made.metadata,
        owner_references=() if by is None else (by,),
        deletion_timestamp=NOW if leaves else None,
    )
    return replace(made, metadata=metadata)


def budgets_of(obj: PodDisruptionBudget, pods: list[Pod], *workloads: Workload) -> Budgets:
    by_key = {(item.kind, item.key): item for item in workloads}
    budgets = Budgets(lambda kind, name: by_key.get((kind, name)))
    budgets.on_change(BUDGET, ObjectChange(None, obj))
    for item in pods:
        budgets.on_change("Pod", ObjectChange(None, item))
    return budgets


def status_of(
    obj: PodDisruptionBudget, pods: list[Pod], *workloads: Workload
) -> PodDisruptionBudgetStatus:
    result = budgets_of(obj, pods, *workloads).next_status(NOW_S)
    assert result is not None
    return result.calculated.status


def counts(status: PodDisruptionBudgetStatus) -> tuple[int, int, int, int]:
    """Returns expected pods, healthy pods, desired healthy pods, and allowed disruptions."""
    return (
        status.expected_pods,
        status.current_healthy,
        status.desired_healthy,
        status.disruptions_allowed,
    )


SET = owner("StatefulSet", "db")
FOUR = [pod(f"db-{number}", by=SET) for number in range(4)]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"min_available": 3}, (4, 4, 3, 1)),
        ({"min_available": 9}, (4, 4, 9, 0)),
        ({"min_available": "50%"}, (5, 4, 3, 1)),  # of five replicas, rounded up
        ({"max_unavailable": 2}, (5, 4, 3, 1)),
        ({"max_unavailable": "30%"}, (5, 4, 3, 1)),  # two of five, rounded up
        ({"max_unavailable": 9}, (5, 4, 0, 4)),
        ({}, (0, 4, 0, 0)),
    ],
)
def test_the_counts_follow_from_the_spec_and_the_scale(
    spec: dict[str, Any], expected: tuple[int, int, int, int]
) -> None:
    assert counts(status_of(budget(**spec), FOUR, workload("StatefulSet", "db", 5))) == expected


def test_pods_that_leave_or_are_not_ready_are_not_healthy() -> None:
    pods = [pod("a"), pod("b", ready=False), pod("c", leaves=True)]
    assert counts(status_of(budget(min_available=1), pods)) == (3, 1, 1, 0)


def test_the_scale_of_a_deployment_counts_once_for_all_of_its_replica_sets() -> None:
    deployment = owner("Deployment", "web")
    sets = [workload("ReplicaSet", name, 3, deployment) for name in ("old", "new")]
    pods = [
        pod(f"{name}-{i}", by=owner("ReplicaSet", name)) for name in ("old", "new") for i in "ab"
    ]
    status = status_of(budget(max_unavailable=1), pods, workload("Deployment", "web", 4), *sets)
    assert counts(status) == (4, 4, 3, 1)


def test_a_replica_set_counts_itself_if_its_deployment_is_gone() -> None:
    own = workload("ReplicaSet", "web", 2, owner("Deployment", "gone"))
    pods = [pod(name, by=owner("ReplicaSet", "web")) for name in "ab"]
    assert counts(status_of(budget(max_unavailable=1), pods, own)) == (2, 2, 1, 1)


def test_pods_without_a_controller_have_no_scale() -> None:
    assert counts(status_of(budget(max_unavailable=1), [pod("a"), pod("b")])) == (0, 2, 0, 0)
    assert counts(status_of(budget(min_available=1), [pod("a"), pod("b")])) == (2, 2, 1, 1)


@pytest.mark.parametrize(
    ("by", "message"),
    [
        (owner("Job", "j"), "jobs.batch does not implement the scale subresource"),
        (owner("DaemonSet", "d"), "daemonsets.apps does not implement the scale subresource"),
        (owner("ReplicaSet", "gone"), 'found no controllers for pod "a"'),
    ],
)
def test_a_status_that_cannot_be_calculated_allows_nothing(
    by: OwnerReference, message: str
) -> None:
    old = PodDisruptionBudgetStatus(disruptions_allowed=2, current_healthy=3)
    status = status_of(budget(old, max_unavailable=1), [pod("a", by=by)])
    assert (status.disruptions_allowed, status.current_healthy) == (0, 3)
    [condition] = status.conditions
    assert (condition.status, condition.reason) == ("False", "SyncFailed")
    assert condition.message == message


def test_the_condition_tells_whether_pods_are_sufficient() -> None:
    first = status_of(budget(min_available=1), [pod("a"), pod("b")])
    wanted = Condition(
        type="DisruptionAllowed",
        status="True",
        reason="SufficientPods",
        observed_generation=3,
        last_transition_time=NOW,
    )
    assert first.conditions == (wanted,)
    assert first.observed_generation == 3

    later = budgets_of(budget(first, min_available=2), [pod("a"), pod("b")]).next_status(NOW_S + 60)
    assert later is not None
    [condition] = later.calculated.status.conditions
    assert (condition.status, condition.reason) == ("False", "InsufficientPods")
    assert condition.last_transition_time == rfc3339(NOW_S + 60)


def test_a_pod_whose_eviction_was_allowed_is_not_healthy_for_two_minutes() -> None:
    noted = {"a": rfc3339(NOW_S - 30), "gone": NOW, "late": rfc3339(NOW_S - 120)}
    old = PodDisruptionBudgetStatus(disrupted_pods=dict(noted))
    pods = [pod("a"), pod("b"), pod("late")]
    result = budgets_of(budget(old, min_available=1), pods).next_status(NOW_S)
    assert result is not None
    assert result.calculated.status.disrupted_pods == {"a": noted["a"]}
    assert counts(result.calculated.status) == (3, 2, 1, 1)
    assert result.calculated.again_s == pytest.approx(90.0)


def test_only_changes_that_count_queue_a_budget() -> None:
    old = pod("a", ready=False)
    budgets = budgets_of(budget(min_available=1), [old])
    assert budgets.next_status(NOW_S) is not None

    moved = replace(old, spec=replace(old.spec, node_name="b"))
    budgets.on_change("Pod", ObjectChange(old, moved))
    other = make_pod("other", labels={"app": "db"})
    budgets.on_change("Pod", ObjectChange(None, other))
    assert budgets.next_status(NOW_S) is None

    budgets.on_change("Pod", ObjectChange(moved, pod("a")))
    result = budgets.next_status(NOW_S)
    assert result is not None
    assert counts(result.calculated.status) == (1, 1, 1, 0)


def test_a_pod_that_loses_its_label_is_not_counted_any_more() -> None:
    old = pod("a")
    budgets = budgets_of(budget(min_available=0), [old])
    result = budgets.next_status(NOW_S)
    assert result is not None
    assert result.calculated.status.expected_pods == 1

    budgets.on_change(
        "Pod", ObjectChange(old, replace(old, metadata=replace(old.metadata, labels={})))
    )
    result = budgets.next_status(NOW_S)
    assert result is not None
    assert result.calculated.status.expected_pods == 0
