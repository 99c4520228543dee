"""VolumeBinding: which events wake a pod, and which pods may be asked about together."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.cluster_event import ActionType, QueueingHint
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.plugins import VolumeBinding
from mooring.state import PodInfo
from mooring.testing import Harness, make_node, make_pod
from tests.helpers.volume_objects import (
    DRIVER,
    MIGRATED,
    capacity,
    claim,
    csi_driver,
    csi_node,
    put,
    storage_class,
    user,
)
from tests.plugins.reference_plugins import hints

OUT_OF_REACH = "node(s) didn't match PersistentVolume's node affinity"
NOTHING = "node(s) didn't find available persistent volumes to bind"
NO_ROOM = "node(s) did not have enough free storage"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

SCRATCH = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
LATE = (storage_class("local"), storage_class("made", provisioner=DRIVER))


def nodes() -> list[Node]:
    return [make_node("a", zone="1"), make_node("b", zone="2")]


def harness(*storage: Any) -> Harness:
    found = Harness(nodes(), [VolumeBinding()])
    put(found.cache, *LATE, *storage)
    return found


# ---------------------------------------------------------------- events

CHANGE = ActionType.ADD | ActionType.UPDATE
CLASS = ("storage.k8s.io/StorageClass", CHANGE)
PVC, PV = ("PersistentVolumeClaim", CHANGE), ("PersistentVolume", CHANGE)
NODE = ("Node", ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
CSI_NODE = ("storage.k8s.io/CSINode", CHANGE)
CSI_DRIVER = ("storage.k8s.io/CSIDriver", ActionType.UPDATE)
CAPACITY = ("storage.k8s.io/CSIStorageCapacity", CHANGE)


def wakes(event: Any, old: Any, new: Any, pod: Pod | None = None) -> bool:
    hint = hints(VolumeBinding())[event]
    return hint(PodInfo(pod or user("p", "c")), old, new) is QueueingHint.QUEUE


def test_it_hears_of_all_that_its_answers_follow_from() -> None:
    assert list(hints(VolumeBinding())) == [CLASS, PVC, PV, NODE, CSI_NODE, CSI_DRIVER, CAPACITY]
    assert hints(VolumeBinding())[PV] is hints(VolumeBinding())[NODE] is None


def test_a_class_comes_or_allows_other_places() -> None:
    one = storage_class("s", topologies=[{}])

    assert wakes(CLASS, None, one)
    assert wakes(CLASS, storage_class("s"), one)
    assert not wakes(CLASS, one, storage_class("s", topologies=[{}], mode="Immediate"))


@pytest.mark.parametrize(
    ("changed", "helps"),
    [
        (claim("c"), True),
        (claim("p-scratch"), True),
        (claim("d"), False),
        (claim("c", namespace="other"), False),
    ],
)
def test_a_claim_of_the_pod_comes_or_changes(changed: Any, helps: bool) -> None:
    pod = user("p", "c", volumes=[SCRATCH])

    assert wakes(PVC, None, changed, pod) is helps
    assert wakes(PVC, claim("c"), changed, pod) is helps


def test_a_node_has_other_drivers_or_they_took_more_over() -> None:
    assert wakes(CSI_NODE, None, csi_node("a"))
    assert wakes(CSI_NODE, csi_node("a"), csi_node("a", migrated="x"))
    assert wakes(CSI_NODE, csi_node("a", migrated="x"), csi_node("a"))
    assert not wakes(CSI_NODE, csi_node("a"), csi_node("a", disk_csi_test=3))
    assert MIGRATED in csi_node("a", migrated="x").metadata.annotations


@pytest.mark.parametrize(
    ("before", "after", "name", "helps"),
    [
        (True, False, DRIVER, True),
        (True, None, DRIVER, True),
        (True, True, DRIVER, False),
        (False, True, DRIVER, False),
        (None, False, DRIVER, False),
        (True, False, "another", False),
    ],
)
def test_a_driver_that_the_pod_names_does_not_tell_of_room_any_more(
    before: bool | None, after: bool | None, name: str, helps: bool
) -> None:
    pod = user("p", "c", volumes=[{"name": "i", "csi": {"driver": DRIVER}}])
    old, new = csi_driver(name, has_capacity=before), csi_driver(name, has_capacity=after)

    assert wakes(CSI_DRIVER, old, new, pod) is helps
    assert not wakes(CSI_DRIVER, old, new)


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        (None, {}, True),
        ({"capacity": "1Gi"}, {"capacity": "2Gi"}, True),
        ({"capacity": "2Gi"}, {"capacity": "1Gi"}, False),
        ({"capacity": "1Gi"}, {"capacity": "1024Mi"}, False),
        ({}, {"capacity": "0"}, True),
        ({"capacity": "1Gi"}, {}, False),
        ({"capacity": "9Gi", "maximumVolumeSize": "1Gi"}, {"capacity": "2Gi"}, True),
        ({"capacity": "1Gi"}, {"capacity": "9Gi", "maximumVolumeSize": "1Gi"}, False),
    ],
)
def test_there_is_more_room_somewhere(
    old: dict[str, str] | None, new: dict[str, str], helps: bool
) -> None:
    before = None if old is None else capacity(near={}, **old)

    assert wakes(CAPACITY, before, capacity(near={}, **new)) is helps


def test_pods_with_the_same_claims_are_asked_about_together() -> None:
    inline = {"name": "i", "csi": {"driver": DRIVER}}
    pods = [
        user("a", "c"),
        user("b", "c"),
        user("b", "c", volumes=[inline]),
        user("b", volumes=[SCRATCH]),
        user("c", volumes=[SCRATCH]),
    ]
    signed = [VolumeBinding().sign(PodInfo(pod)) for pod in pods]

    assert signed[0] == signed[1]
    assert len(set(signed)) == 4
    assert VolumeBinding().sign(PodInfo(make_pod())) == ()
