"""Events: which registration covers which event."""

from __future__ import annotations

import pytest

from mooring.cluster_event import (
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
)

ADD, DELETE, ALL = ActionType.ADD, ActionType.DELETE, ActionType.ALL
UPDATE, TAINT = ActionType.UPDATE, ActionType.UPDATE_NODE_TAINT
LABEL, OTHER = ActionType.UPDATE_NODE_LABEL, ActionType.UPDATE_OTHER
NODE, POD, ANY = EventResource.NODE, EventResource.POD, EventResource.ANY
ASSIGNED, UNSCHEDULED = EventResource.ASSIGNED_POD, EventResource.UNSCHEDULED_POD


@pytest.mark.parametrize(
    ("registered", "happened", "covers"),
    [
        ((NODE, ADD), (NODE, ADD), True),
        ((NODE, ADD), (NODE, DELETE), False),
        ((NODE, ADD), (POD, ADD), False),
        ((NODE, ADD | TAINT), (NODE, TAINT), True),
        ((NODE, TAINT), (NODE, LABEL), False),
        ((NODE, UPDATE), (NODE, LABEL), True),
        ((NODE, UPDATE), (NODE, OTHER), True),
        ((NODE, TAINT), (NODE, OTHER), False),
        ((NODE, ALL), (NODE, DELETE), True),
        ((ANY, ALL), (POD, DELETE), True),
        ((ANY, ADD), (POD, DELETE), False),
        # What happened to "anything" is covered by those alone who asked for anything.
        ((NODE, ALL), (ANY, ALL), False),
        ((POD, LABEL), (ANY, LABEL), False),
        ((ANY, ALL), (ANY, ALL), True),
        ((ANY, ALL), (NODE, LABEL | TAINT), True),
        ((ANY, LABEL), (POD, LABEL), True),
        ((ANY, LABEL), (POD, ActionType.UPDATE_NODE_ALLOCATABLE), False),
        ((ANY, UPDATE), (POD, LABEL), True),
        # Plugins register for pods; it happens to those with a node and to those without.
        ((POD, DELETE), (ASSIGNED, DELETE), True),
        ((POD, LABEL | TAINT), (UNSCHEDULED, LABEL), True),
        ((NODE, ALL), (ASSIGNED, ADD), False),
        # An update of which no more is known is none of the specific ones.
        ((ANY, LABEL), (POD, UPDATE), False),
        ((NODE, ADD | LABEL), (NODE, UPDATE), False),
        ((NODE, ADD | UPDATE), (NODE, UPDATE), True),
        ((NODE, LABEL), (NODE, LABEL | TAINT), False),
        ((NODE, ALL), (NODE, ActionType(0)), False),
    ],
)
def test_a_registration_covers_its_kind_and_any_of_its_actions(
    registered: tuple[EventResource, ActionType],
    happened: tuple[EventResource, ActionType],
    *,
    covers: bool,
) -> None:
    assert ClusterEvent(*registered).matches(ClusterEvent(*happened)) is covers


def test_update_is_every_kind_of_update_and_all_adds_coming_and_going() -> None:
    single = [action for action in ActionType if "UPDATE_" in (action.name or "")]

    assert sum(single) == UPDATE
    assert ALL == ADD | DELETE | UPDATE
    assert not UPDATE & (ADD | DELETE)


def test_without_a_hint_an_event_always_helps() -> None:
    assert ClusterEventWithHint(ClusterEvent(NODE, ADD)).hint is None


def test_kinds_outside_the_core_group_carry_their_group() -> None:
    # As k8s.io/kube-scheduler's EventResource constants have them.
    names = {resource.value for resource in EventResource}

    assert {"Pod", "Node", "*", "storage.k8s.io/CSINode"} <= names
    assert "resource.k8s.io/ResourceClaim" in names


@pytest.mark.parametrize(
    ("resource", "action", "label"),
    [
        (NODE, ADD, "NodeAdd"),
        (NODE, DELETE, "NodeDelete"),
        (NODE, TAINT, "NodeUpdateNodeTaint"),
        (NODE, LABEL, "NodeUpdateNodeLabel"),
        (NODE, ActionType.UPDATE_NODE_ALLOCATABLE, "NodeUpdateNodeAllocatable"),
        (NODE, ActionType.UPDATE_NODE_CONDITION, "NodeUpdateNodeCondition"),
        (NODE, ActionType.UPDATE_NODE_ANNOTATION, "NodeUpdateNodeAnnotation"),
        (NODE, ActionType.UPDATE_NODE_DECLARED_FEATURE, "NodeUpdateNodeDeclaredFeature"),
        (ASSIGNED, ADD, "AssignedPodAdd"),
        (ASSIGNED, DELETE, "AssignedPodDelete"),
        (ASSIGNED, UPDATE, "AssignedPodUpdate"),
        (ASSIGNED, OTHER, "AssignedPodUpdate"),
        (ASSIGNED, ActionType.UPDATE_POD_SCALE_DOWN, "AssignedPodUpdatePodScaleDown"),
        (UNSCHEDULED, ADD, "UnschedulablePodAdd"),
        (UNSCHEDULED, OTHER, "UnschedulablePodUpdate"),
        (UNSCHEDULED, ActionType.UPDATE_POD_LABEL, "UnschedulablePodUpdatePodLabel"),
        (UNSCHEDULED, ActionType.UPDATE_POD_TOLERATION, "UnschedulablePodUpdatePodToleration"),
        (
            UNSCHEDULED,
            ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
            "UnschedulablePodUpdatePodSchedulingGatesEliminated",
        ),
        (
            UNSCHEDULED,
            ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
            "UnschedulablePodUpdatePodGeneratedResourceClaim",
        ),
        (EventResource.CSI_NODE, ADD, "storage.k8s.io/CSINodeAdd"),
        (EventResource.PERSISTENT_VOLUME, ADD, "PersistentVolumeAdd"),
        (ANY, ALL, "*All"),
    ],
)
def test_its_label_is_that_of_kube_schedulers_metrics(
    resource: EventResource, action: ActionType, label: str
) -> None:
    assert ClusterEvent(resource, action).label == label


def test_what_happened_to_no_object_has_a_name_of_its_own() -> None:
    assert UNSCHEDULABLE_TIMEOUT.label == "UnschedulableTimeout"
    assert FORCE_ACTIVATE.label == "ForceActivate"
    assert UNSCHEDULABLE_TIMEOUT.is_wildcard
    assert FORCE_ACTIVATE.is_wildcard


@pytest.mark.parametrize(("resource", "action"), [(ANY, ADD), (NODE, ALL), (ANY, UPDATE)])
def test_anything_short_of_everything_is_no_wildcard(
    resource: EventResource, action: ActionType
) -> None:
    assert not ClusterEvent(resource, action).is_wildcard
