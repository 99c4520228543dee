"""The kinds that plugins follow, before the input is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mooring.cluster_event import ActionType, ClusterEvent, ClusterEventWithHint
from mooring.errors import ConfigError
from mooring.simulation.inputs.plugin_kinds import generic_kinds, with_generic_kinds
from mooring.simulation.workload import workload_of
from mooring.testing import make_node, make_object

GROUPS, QUEUES, MAPS = "groups.v1.example.com", "queues.v1.example.com", "configmaps.v1."


class Follows:
    """Lists one kind, needs another, and registers for a third."""

    name = "Follows"
    needs: Sequence[str] = (MAPS, "Service")

    def __init__(self, handle: Any) -> None:
        self.groups = handle.lister(GROUPS)
        self.pods = handle.lister("Pod")

    def permit(self, cycle: Any, node_name: str) -> None: ...

    def pre_enqueue(self, pod: Any) -> None: ...

    def events(self) -> list[ClusterEventWithHint]:
        return [ClusterEventWithHint(ClusterEvent(QUEUES, ActionType.ADD))]


class Mistaken(Follows):
    needs = ("groups",)


def test_kinds_are_those_that_are_listed_needed_and_registered_for() -> None:
    assert set(generic_kinds(None, [f"{__name__}:Follows"])) == {GROUPS, QUEUES, MAPS}
    assert generic_kinds(None) == ()


def test_a_kind_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ConfigError, match="'groups'"):
        generic_kinds(None, [f"{__name__}:Mistaken"])


def test_objects_that_no_plugin_reads_stay_counted_alone() -> None:
    group = make_object(GROUPS, "g", kind="Group")
    config_map = make_object(MAPS, "c", kind="ConfigMap")
    definition = make_object(
        "customresourcedefinitions.v1.apiextensions.k8s.io",
        "groups.example.com",
        namespace="",
        kind="CustomResourceDefinition",
    )
    node = make_node("a")
    workload = workload_of("w", [node, group, config_map, definition])
    workload = workload._replace(
        skipped={"Group": 1, "ConfigMap": 1, "CustomResourceDefinition": 1, "Ingress of x": 2}
    )

    followed = with_generic_kinds(workload, [GROUPS])
    assert followed.objects == [node, group, definition]
    assert followed.skipped == {"ConfigMap": 1, "CustomResourceDefinition": 1, "Ingress of x": 2}
    assert with_generic_kinds(workload, []).objects == [node]
