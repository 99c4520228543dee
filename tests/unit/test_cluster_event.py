"""Events: which registration covers which event."""

from __future__ import annotations

import pytest

from mooring.cluster_event import ActionType, ClusterEvent, ClusterEventWithHint, EventResource

ADD, DELETE, ALL = ActionType.ADD, ActionType.DELETE, ActionType.ALL
UPDATE, TAINT = ActionType.UPDATE, ActionType.UPDATE_NODE_TAINT
LABEL, OTHER = ActionType.UPDATE_NODE_LABEL, ActionType.UPDATE_OTHER
NODE, POD, ANY = EventResource.NODE, EventResource.POD, EventResource.ANY


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
