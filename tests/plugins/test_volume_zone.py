"""VolumeZone: a pod goes where its volumes are, by zone and region."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.cluster_event import ActionType, QueueingHint
from mooring.framework.status import Code
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.plugins import VolumeZone
from mooring.state import PodInfo
from mooring.testing import Harness, make_node, make_pod
from tests.helpers.volume_objects import claim, put, storage_class, user, volume
from tests.plugins.reference_plugins import hints

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
REASON = ("node(s) had no available volume zone",)


def node(name: str, **labels: str) -> Node:
    return make_node(name, labels=labels)


def harness(*nodes: Node, storage: tuple[Any, ...] = ()) -> Harness:
    found = Harness(nodes, [VolumeZone()])
    put(found.cache, *storage)
    return found


def at(**labels: str) -> tuple[Any, ...]:
    """Returns a claim that is bound to a volume with these labels."""
    return claim("c", volume_name="v"), volume("v", labels=labels)


@pytest.mark.parametrize(
    ("of_volume", "of_node", "fits"),
    [
        ({ZONE: "a"}, {ZONE: "a"}, True),
        ({ZONE: "a"}, {ZONE: "b"}, False),
        ({ZONE: "a__b"}, {ZONE: "b"}, True),
        ({ZONE: " a __b"}, {ZONE: "a"}, True),
        ({ZONE: "a__"}, {ZONE: "b"}, True),
        ({ZONE: "a"}, {"rack": "1"}, True),
        ({ZONE: "a"}, {REGION: "r"}, False),
        ({ZONE: "a"}, {BETA_ZONE: "a"}, False),
        ({BETA_ZONE: "a"}, {ZONE: "a"}, True),
        ({BETA_ZONE: "a"}, {BETA_ZONE: "a", ZONE: "b"}, True),
        ({BETA_ZONE: "a"}, {BETA_ZONE: "b", ZONE: "a"}, False),
        ({BETA_REGION: "r"}, {REGION: "r"}, True),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "r"}, True),
    ],
)
def test_a_node_must_be_where_the_volume_is(
    of_volume: dict[str, str], of_node: dict[str, str], fits: bool
) -> None:
    found = harness(node("n", **of_node), storage=at(**of_volume))

    assert found.reasons(user("p", "c")) == {"n": () if fits else REASON}
    status = found.statuses(user("p", "c"))["n"]
    assert status is None or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_all_volumes_of_the_pod_count() -> None:
    storage = (
        claim("c", volume_name="v"),
        volume("v", labels={ZONE: "a"}),
        claim("d", volume_name="w"),
        volume("w", labels={ZONE: "b"}),
    )
    found = harness(node("1", **{ZONE: "a"}), node("2", **{ZONE: "b"}), storage=storage)

    assert found.reasons(user("p", "c", "d")) == {"1": REASON, "2": REASON}
    assert found.reasons(user("p", "d")) == {"1": REASON, "2": ()}


@pytest.mark.parametrize(
    ("pod", "storage"),
    [
        (make_pod(), ()),
        (user("p", "c"), at(rack="1")),
        (user("p", "c"), at(**{ZONE: "__"})),
        (user("p", "c"), (claim("c", storage_class="late"), storage_class("late"))),
    ],
    ids=["no claim", "no zone", "a label that says nothing", "a claim that waits for the pod"],
)
def test_a_pod_whose_volumes_are_in_no_zone_skips(pod: Pod, storage: tuple[Any, ...]) -> None:
    assert "VolumeZone" in harness(storage=storage).begin(pod).cycle.skipped


@pytest.mark.parametrize(
    ("name", "storage", "reason"),
    [
        ("", (), "PersistentVolumeClaim had no name"),
        ("c", (), 'persistentvolumeclaim "c" not found'),
        ("c", (claim("c", volume_name="v"),), 'persistentvolume "v" not found'),
        (
            "c",
            (claim("c", storage_class=""),),
            "PersistentVolumeClaim had no pv name and storageClass name",
        ),
        ("c", (claim("c", storage_class="s"),), 'storageclass.storage.k8s.io "s" not found'),
        (
            "c",
            (claim("c", storage_class="s"), storage_class("s", mode=None)),
            'VolumeBindingMode not set for StorageClass "s"',
        ),
        (
            "c",
            (claim("c", storage_class="s"), storage_class("s", mode="Immediate")),
            "PersistentVolume had no name",
        ),
    ],
)
def test_a_claim_without_a_volume_ends_the_attempt(
    name: str, storage: tuple[Any, ...], reason: str
) -> None:
    refusal = harness(storage=storage).begin(user("p", name)).refusal

    assert refusal is not None
    assert refusal.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert refusal.reasons == (reason,)


# ---------------------------------------------------------------- events

CHANGE = ActionType.ADD | ActionType.UPDATE
CLASS = ("storage.k8s.io/StorageClass", ActionType.ADD)
NODE = ("Node", ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
PVC, PV = ("PersistentVolumeClaim", CHANGE), ("PersistentVolume", CHANGE)


def wakes(event: Any, pod: Pod, old: Any, new: Any) -> bool:
    return hints(VolumeZone())[event](PodInfo(pod), old, new) is QueueingHint.QUEUE


def test_it_hears_of_classes_nodes_claims_and_volumes() -> None:
    assert list(hints(VolumeZone())) == [CLASS, NODE, PVC, PV]
    assert hints(VolumeZone())[NODE] is None


@pytest.mark.parametrize(
    ("mode", "helps"), [("WaitForFirstConsumer", True), ("Immediate", False), (None, False)]
)
def test_a_class_comes_whose_claims_wait(mode: str | None, helps: bool) -> None:
    assert wakes(CLASS, user("p", "c"), None, storage_class("s", mode=mode)) is helps


@pytest.mark.parametrize(
    ("changed", "helps"),
    [(claim("c"), True), (claim("d"), False), (claim("c", namespace="other"), False)],
)
def test_a_claim_of_the_pod_comes_or_changes(changed: Any, helps: bool) -> None:
    assert wakes(PVC, user("p", "c"), None, changed) is helps
    assert wakes(PVC, user("p", "c"), claim("c"), changed) is helps


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        (None, {}, True),
        ({ZONE: "a"}, {ZONE: "b"}, True),
        ({ZONE: "a"}, {ZONE: "a", "tier": "gold"}, False),
        ({ZONE: "a__b"}, {ZONE: "b__a"}, False),
        ({ZONE: "a"}, {ZONE: "a", REGION: "r"}, True),
    ],
)
def test_a_volume_comes_or_is_elsewhere(
    old: dict[str, str] | None, new: dict[str, str], helps: bool
) -> None:
    before = None if old is None else volume("v", labels=old)

    assert wakes(PV, user("p", "c"), before, volume("v", labels=new)) is helps


def test_pods_with_the_same_claims_are_asked_about_together() -> None:
    pods = [user("a", "c"), user("b", "c"), user("b", "d"), user("b", "c", namespace="other")]
    signed = [VolumeZone().sign(PodInfo(pod)) for pod in pods]

    assert signed[0] == signed[1]
    assert len(set(signed)) == 3
