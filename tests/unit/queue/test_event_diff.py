"""Cluster events of updates of pods and nodes. The tables are kube-scheduler's behaviour."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.cluster_event import ActionType, ClusterEvent, EventResource
from mooring.queue import node_changes, pod_changes
from mooring.state import PodInfo
from mooring.testing import make_node, make_pod

LABEL, SMALLER = ActionType.UPDATE_POD_LABEL, ActionType.UPDATE_POD_SCALE_DOWN
GATES = ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
TOLERATION = ActionType.UPDATE_POD_TOLERATION
CLAIM = ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM
OTHER = ActionType.UPDATE_OTHER
TAINT, ALLOCATABLE = ActionType.UPDATE_NODE_TAINT, ActionType.UPDATE_NODE_ALLOCATABLE
NODE_LABEL, CONDITION = ActionType.UPDATE_NODE_LABEL, ActionType.UPDATE_NODE_CONDITION
ANNOTATION = ActionType.UPDATE_NODE_ANNOTATION
FEATURE = ActionType.UPDATE_NODE_DECLARED_FEATURE

Fields = dict[str, Any]
CPU_1: Fields = {"requests": {"cpu": "1"}}
CPU_2: Fields = {"requests": {"cpu": "2"}}


def actions_of(events: list[ClusterEvent]) -> list[ActionType]:
    return [event.action for event in events]


def claims(*names: tuple[str, str | None]) -> Fields:
    found = [{"name": name, "resourceClaimName": claim} for name, claim in names]
    return {"status": {"resourceClaimStatuses": found}}


def extended(claim: str, *requests: str) -> Fields:
    mappings = [
        {"containerName": "c", "resourceName": "example.com/gpu", "requestName": request}
        for request in requests
    ]
    status = {"resourceClaimName": claim, "requestMappings": mappings}
    return {"status": {"extendedResourceClaimStatus": status}}


def resized(allocated: str) -> Fields:
    """Returns a container that asks for 1 cpu, of which ``allocated`` is given so far."""
    status = {
        "name": "container-0",
        "allocatedResources": {"cpu": allocated},
        "resources": {"requests": {"cpu": allocated}},
    }
    return {**CPU_1, "status": {"containerStatuses": [status]}}


@pytest.mark.parametrize(
    ("before", "after", "actions"),
    [
        ({}, {}, [OTHER]),
        ({}, {"status": {"phase": "Failed"}}, [OTHER]),
        ({"labels": {"a": "1"}}, {"labels": {"a": "2"}}, [LABEL]),
        ({"labels": {"a": "1"}}, {}, [LABEL]),
        (CPU_2, CPU_1, [SMALLER]),
        (CPU_1, CPU_2, [OTHER]),
        (CPU_1, {"requests": {"cpu": "1000m"}}, [OTHER]),
        (CPU_1, {}, [SMALLER]),
        # One resource less is enough, even if another is more.
        (CPU_2, {"requests": {"cpu": "1", "memory": "1Gi"}}, [SMALLER]),
        ({"requests": {"example.com/gpu": "1"}}, {}, [SMALLER]),
        # What counts is what the node still holds for it while a resize goes on.
        (resized("2"), resized("1"), [SMALLER]),
        ({"gates": ["a"]}, {}, [GATES]),
        ({"gates": ["a", "b"]}, {"gates": ["a"]}, [OTHER]),
        ({}, {"tolerations": ["gpu"]}, [TOLERATION]),
        # They can be added but not changed, so kube-scheduler counts them.
        ({"tolerations": ["gpu"]}, {"tolerations": ["cpu"]}, [OTHER]),
        ({}, claims(("gpu", "gpu-x1")), [CLAIM]),
        (claims(("gpu", None)), claims(("gpu", "gpu-x1")), [CLAIM]),
        (claims(("gpu", "gpu-x1")), claims(("gpu", "gpu-x1")), [OTHER]),
        ({}, extended("claim", "request"), [CLAIM]),
        (extended("claim", "one"), extended("claim", "one", "two"), [CLAIM]),
        (extended("claim", "one"), extended("claim", "one"), [OTHER]),
    ],
)
def test_an_update_of_a_pod_is_the_events_of_what_changed(
    before: Fields, after: Fields, actions: list[ActionType]
) -> None:
    events = pod_changes(PodInfo(make_pod(**before)), PodInfo(make_pod(**after)))

    assert actions_of(events) == actions


def test_several_changes_are_several_events_in_a_fixed_order() -> None:
    before = PodInfo(make_pod(labels={"a": "1"}, gates=["g"], **CPU_2))
    after = PodInfo(make_pod(tolerations=["gpu"], **CPU_1, **claims(("gpu", "x"))))

    found = actions_of(pod_changes(before, after))

    assert found == [LABEL, SMALLER, GATES, TOLERATION, CLAIM]


@pytest.mark.parametrize(
    ("before", "after", "resource"),
    [
        ("", "", EventResource.UNSCHEDULED_POD),
        ("", "node-1", EventResource.ASSIGNED_POD),
        ("node-1", "node-1", EventResource.ASSIGNED_POD),
    ],
)
def test_whether_it_is_assigned_is_what_the_newer_version_says(
    before: str, after: str, resource: EventResource
) -> None:
    events = pod_changes(PodInfo(make_pod(node=before)), PodInfo(make_pod(node=after)))

    assert {event.resource for event in events} == {resource}


def conditions(**statuses: str) -> Fields:
    found = [{"type": kind, "status": status} for kind, status in statuses.items()]
    return {"status": {"conditions": found}}


def heard_at(time: str) -> Fields:
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": time}
    return {"status": {"conditions": [ready]}}


@pytest.mark.parametrize(
    ("before", "after", "actions"),
    [
        ({}, {}, []),
        ({"allocatable": {"cpu": "4"}}, {"allocatable": {"cpu": "8"}}, [ALLOCATABLE]),
        ({"allocatable": {"cpu": "4"}}, {"allocatable": {"cpu": "4000m"}}, []),
        ({}, {"allocatable": {"example.com/gpu": "1"}}, [ALLOCATABLE]),
        ({"labels": {"a": "1"}}, {"labels": {"a": "2"}}, [NODE_LABEL]),
        ({}, {"taints": ["gpu:NoSchedule"]}, [TAINT]),
        ({"taints": ["gpu:NoSchedule"]}, {}, [TAINT]),
        ({"unschedulable": True}, {}, [TAINT]),
        # A cordon requeues no pod, and a node that stays cordoned neither.
        ({}, {"unschedulable": True}, []),
        ({"unschedulable": True}, {"unschedulable": True}, []),
        # Uncordoned and untainted: both events are reported, as upstream.
        ({"unschedulable": True, "taints": ["a:NoSchedule"]}, {}, [TAINT, TAINT]),
        (conditions(Ready="False"), conditions(Ready="True"), [CONDITION]),
        ({}, conditions(Ready="True"), [CONDITION]),
        (conditions(A="True", B="True"), conditions(B="True", A="True"), []),
        # A heartbeat is no news.
        (heard_at("2026-01-01T00:00:00Z"), heard_at("2026-01-01T00:00:10Z"), []),
        ({"annotations": {"a": "1"}}, {"annotations": {"a": "2"}}, [ANNOTATION]),
        ({}, {"status": {"declaredFeatures": ["F"]}}, [FEATURE]),
        ({}, {"images": {"nginx": 1}}, []),
    ],
)
def test_an_update_of_a_node_is_the_events_of_what_changed(
    before: Fields, after: Fields, actions: list[ActionType]
) -> None:
    events = node_changes(make_node(**before), make_node(**after))

    assert actions_of(events) == actions
    assert {event.resource for event in events} <= {EventResource.NODE}


def test_several_changes_of_a_node_come_in_a_fixed_order() -> None:
    before = make_node(unschedulable=True, **conditions(Ready="False"))
    after = make_node(
        allocatable={"cpu": "8"},
        labels={"a": "1"},
        taints=["a:NoSchedule"],
        annotations={"a": "1"},
        **conditions(Ready="True"),
    )

    found = actions_of(node_changes(before, after))

    assert found == [TAINT, ALLOCATABLE, NODE_LABEL, TAINT, CONDITION, ANNOTATION]


def test_a_pod_does_not_ask_for_less_than_itself() -> None:
    same = PodInfo(make_pod(**CPU_1))

    assert actions_of(pod_changes(same, same)) == [OTHER]
