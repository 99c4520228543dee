"""The kinds that a scheduler watches for its plugins.

The form of a resource's name is that of kube-scheduler, pkg/scheduler/eventhandlers.go.
"""

from __future__ import annotations

from typing import Any

import pytest

from mooring.cluster_event import ActionType, ClusterEvent, ClusterEventWithHint, EventResource
from mooring.errors import ConfigError, PluginError
from mooring.framework import Reject
from mooring.objects import kinds
from mooring.objects.meta import key
from mooring.testing import make_node, make_pod
from tests.helpers.running_scheduler import run_scheduler, virtually

BUDGETS = "poddisruptionbudgets.v1.policy"
CONFIG_MAPS = "configmaps.v1."
MAPS = "/api/v1/namespaces/default/configmaps"


class Follower:
    """Rejects pods until there is a ConfigMap with their name."""

    name = "Follower"
    resource = CONFIG_MAPS

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.maps = handle.lister(self.resource)

    def pre_filter(self, cycle: Any) -> Reject | None:
        namespace, name = cycle.pod.metadata.namespace, cycle.pod.metadata.name
        return None if self.maps.get(name, namespace) is not None else Reject("no ConfigMap")

    def events(self) -> list[ClusterEventWithHint]:
        return [ClusterEventWithHint(ClusterEvent(self.resource, ActionType.ADD))]


def follower(resource: str, **more: Any) -> str:
    plugin = type("Own", (Follower,), {"resource": resource, **more})
    globals()[plugin.__name__] = plugin
    return f"{__name__}:{plugin.__name__}"


@virtually
async def test_a_new_object_requeues_the_pods_that_the_plugin_rejected() -> None:
    plugin = f"{__name__}:Follower"
    async with run_scheduler(make_node("a"), make_pod("web"), plugins=[plugin]) as life:
        await life.settle()
        assert await life.node_of("web") == ""
        body = b'{"metadata": {"name": "web"}, "data": {"a": "b"}}'
        await life.world.client.write("POST", MAPS, body)
        await life.settle()
        assert await life.node_of("web") == "a"
        handle = life.service.handle
        (listed,) = [obj for obj in handle.lister(CONFIG_MAPS) if obj.metadata.name == "web"]
        assert (key(listed), listed["data"]) == ("default/web", {"a": "b"})
        label = f"{CONFIG_MAPS}Add"
        moves = [line for line in life.observer.lines if line[2] == label]
        assert [name for _, name, _ in moves] == ["web"]


@virtually
async def test_only_kinds_that_are_listed_at_the_start_are_watched() -> None:
    plugin = f"{__name__}:Follower"
    async with run_scheduler(make_node("a"), plugins=[plugin]) as life:
        assert CONFIG_MAPS in life.service.informers
        with pytest.raises(PluginError, match="in the plugin's constructor"):
            life.service.handle.lister("secrets.v1.")


@virtually
async def test_a_kind_with_a_struct_can_be_listed_and_its_events_registered() -> None:
    async with run_scheduler(make_node("a"), plugins=[follower(BUDGETS)]) as life:
        assert "PodDisruptionBudget" in life.service.informers
        assert life.service.handle.lister("PodDisruptionBudget").list() == []


@virtually
async def test_a_kind_with_events_of_its_own_is_named_by_the_member() -> None:
    with pytest.raises(ConfigError, match="register for Node with a member of EventResource"):
        async with run_scheduler(plugins=[follower("nodes.v1.")]):
            pass


@virtually
async def test_a_name_that_is_no_resource_is_an_error() -> None:
    with pytest.raises(ConfigError, match="is not read by mooring"):
        async with run_scheduler(plugins=[follower("podgroups.v1")]):
            pass


@pytest.mark.parametrize("name", ["podgroups.v1", "PodGroup", "Node"])
def test_an_event_of_a_resource_needs_its_whole_name(name: str) -> None:
    with pytest.raises(ValueError, match=r"RESOURCE\.VERSION\.GROUP"):
        ClusterEvent(name, ActionType.ADD)


def test_an_event_of_a_resource_matches_its_registrations_alone() -> None:
    happened = ClusterEvent("podgroups.v1.example.com", ActionType.ADD)

    assert ClusterEvent("podgroups.v1.example.com", ActionType.ADD).matches(happened)
    assert ClusterEvent(EventResource.ANY, ActionType.ALL).matches(happened)
    assert not ClusterEvent("podgroups.v2.example.com", ActionType.ADD).matches(happened)
    assert not ClusterEvent(EventResource.NODE, ActionType.ALL).matches(happened)
    assert happened.label == "podgroups.v1.example.comAdd"
    assert kinds.kind_named("podgroups.v1.example.com").is_generic
