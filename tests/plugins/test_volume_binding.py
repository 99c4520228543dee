"""VolumeBinding: where a pod's volumes can be had, and what is held for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.errors import PluginError
from mooring.framework.status import Code
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.plugins import VolumeBinding
from mooring.testing import Harness, make_node, make_pod
from tests.helpers.volume_objects import (
    DRIVER,
    HOSTNAME,
    ZONE,
    capacity,
    claim,
    csi,
    csi_driver,
    csi_node,
    put,
    storage_class,
    user,
    volume,
)

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


def refusal(found: Harness, pod: Pod) -> str:
    status = found.begin(pod).refusal
    assert status is not None
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    (reason,) = status.reasons
    return reason


# ---------------------------------------------------------------- claims


@pytest.mark.parametrize(
    ("pod", "storage", "reason"),
    [
        (user("p", "c"), [], 'persistentvolumeclaim "c" not found'),
        (
            user("p", volumes=[SCRATCH]),
            [],
            "waiting for ephemeral volume controller to create the "
            'persistentvolumeclaim "p-scratch"',
        ),
        (
            user("p", "c"),
            [claim("c", volume_name="v", phase="Lost")],
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        ),
        (
            user("p", "c"),
            [claim("c", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            'persistentvolumeclaim "c" is being deleted',
        ),
        (
            user("p", volumes=[SCRATCH]),
            [claim("p-scratch", owner="another")],
            "PVC default/p-scratch was not created for pod default/p (pod is not owner)",
        ),
        (
            user("p", "c"),
            [claim("c", storage_class="now"), storage_class("now", mode="Immediate")],
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            user("p", "c"),
            [claim("c", storage_class="absent")],
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            user("p", "c"),
            [claim("c", storage_class="")],
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            user("p", "c"),
            [claim("c", volume_name="v", is_bound=False)],
            "pod has unbound immediate PersistentVolumeClaims",
        ),
    ],
)
def test_a_claim_that_is_not_to_be_had_ends_the_attempt(
    pod: Pod, storage: list[Any], reason: str
) -> None:
    assert refusal(harness(*storage), pod) == reason


def test_a_class_that_does_not_say_when_is_an_error() -> None:
    found = harness(claim("c", storage_class="s"), storage_class("s", mode=None))

    with pytest.raises(PluginError) as caught:
        found.begin(user("p", "c"))

    assert str(caught.value) == (
        'running PreFilter plugin "VolumeBinding": VolumeBindingMode not set for StorageClass "s"'
    )


@pytest.mark.parametrize("pod", [make_pod(), user("p", volumes=[{"name": "e", "emptyDir": {}}])])
def test_a_pod_without_claims_skips(pod: Pod) -> None:
    assert "VolumeBinding" in harness().begin(pod).cycle.skipped


# ---------------------------------------------------------------- bound claims


def bound(name: str = "c", **more: Any) -> list[Any]:
    return [claim(name, volume_name=name), volume(name, phase="Bound", **more)]


@pytest.mark.parametrize(
    ("storage", "expected"),
    [
        (bound(), {"a": (), "b": ()}),
        (bound(near={ZONE: "1"}), {"a": (), "b": (OUT_OF_REACH,)}),
        (bound(near={HOSTNAME: "b"}), {"a": (OUT_OF_REACH,), "b": ()}),
        ([claim("c", volume_name="gone")], {"a": (GONE,), "b": (GONE,)}),
        (
            bound(nodeAffinity={"required": {"nodeSelectorTerms": []}}),
            {"a": (OUT_OF_REACH,), "b": (OUT_OF_REACH,)},
        ),
    ],
    ids=["anywhere", "in a zone", "on a host", "gone", "nowhere"],
)
def test_a_bound_volume_must_be_reached(
    storage: list[Any], expected: dict[str, tuple[str, ...]]
) -> None:
    found = harness(*storage)

    assert found.reasons(user("p", "c")) == expected
    for status in found.statuses(user("p", "c")).values():
        assert status is None or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_the_first_volume_that_is_not_to_be_had_is_reported() -> None:
    storage: list[Any] = [*bound("c", near={ZONE: "1"}), claim("d", volume_name="gone")]
    found = harness(*storage)

    assert found.reasons(user("p", "c", "d")) == {"a": (GONE,), "b": (OUT_OF_REACH,)}
    assert found.reasons(user("p", "d", "c")) == {"a": (GONE,), "b": (GONE,)}


def test_a_volume_of_old_is_reached_by_the_drivers_label_where_the_driver_took_over() -> None:
    label = {"topology.ebs.csi.aws.com/zone": "1"}
    found = Harness(
        [make_node("a", labels=label), make_node("b", zone="1"), make_node("c", labels=label)],
        [VolumeBinding()],
    )
    ebs: dict[str, Any] = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    put(found.cache, *bound(near={ZONE: "1"}, **ebs))
    for name in "ab":
        put(found.cache, csi_node(name, migrated="kubernetes.io/aws-ebs"))

    reasons = found.reasons(user("p", "c"))

    assert reasons == {"a": (), "b": (OUT_OF_REACH,), "c": (OUT_OF_REACH,)}


def test_a_volume_that_no_driver_can_take_over_is_an_error_there() -> None:
    ebs: dict[str, Any] = {"awsElasticBlockStore": {"volumeID": "aws://z/bad"}}
    found = harness(*bound(**ebs), csi_node("a", migrated="kubernetes.io/aws-ebs"))

    statuses = found.statuses(user("p", "c"))

    assert statuses["a"] is not None
    assert statuses["a"].code is Code.ERROR
    assert statuses["a"].message.startswith("could not translate pv: failed to translate")
    assert statuses["b"] is None


def test_each_node_has_the_error_of_its_own() -> None:
    def volume_of(name: str, **source: Any) -> list[Any]:
        owner = f"default/{name}"
        return [
            claim(name, volume_name=f"v-{name}"),
            volume(f"v-{name}", claim=owner, phase="Bound", **source),
        ]

    there = Harness([*nodes(), make_node("c"), make_node("d")], [VolumeBinding()])
    put(
        there.cache,
        *LATE,
        *volume_of("c", awsElasticBlockStore={"volumeID": "aws://z/bad"}),
        *volume_of("d", awsElasticBlockStore={"volumeID": "aws://z/worse"}, near={HOSTNAME: "b"}),
        csi_node("a", migrated="kubernetes.io/aws-ebs"),
        csi_node("c", migrated="kubernetes.io/aws-ebs"),
    )
    of_first, of_second = (there.statuses(user("p", name)) for name in ("c", "d"))
    both = there.statuses(user("p", "c", "d"))

    def message(status: Any) -> tuple[Code, str] | None:
        return None if status is None else (status.code, status.message.rpartition("(")[2])

    assert {name: message(status) for name, status in of_first.items()} == {
        "a": (Code.ERROR, "aws://z/bad)"),
        "b": None,
        "c": (Code.ERROR, "aws://z/bad)"),
        "d": None,
    }
    assert message(of_second["a"]) == (Code.ERROR, "aws://z/worse)")
    assert message(both["a"]) == (Code.ERROR, "aws://z/bad)")
    assert both["b"] is None
    assert both["d"] is not None
    assert both["d"].reasons == (OUT_OF_REACH,)


def test_a_class_that_is_removed_after_pre_filter_is_an_error_that_names_it() -> None:
    there = harness(claim("c", storage_class="made"), csi_driver(has_capacity=False))
    plugin = there.plugins[0]
    cycle, view, _ = there.begin(user("p", "c"))
    there.cache.remove_object("StorageClass", "made")

    statuses = plugin.filter(cycle, view).to_list()

    assert {(status.code, status.message) for status in statuses} == {
        (Code.ERROR, 'failed to find storage class "made"')
    }


def test_other_nodes_and_a_changed_cluster_have_results_of_their_own() -> None:
    there = harness(claim("c"), volume("v", near={HOSTNAME: "a"}))
    plugin = there.plugins[0]
    cycle, view, _ = there.begin(user("p", "c"))
    names = list(view.names)

    def feasible(part: Any) -> list[str]:
        statuses = plugin.filter(cycle, part).to_list()
        return [name for name, status in zip(part.names, statuses, strict=True) if status is None]

    assert feasible(view) == ["a"]
    only_b = view.subset(np.array([names.index("b")]))
    assert feasible(only_b) == []
    put(there.cache, volume("w", near={HOSTNAME: "b"}))
    assert feasible(only_b) == ["b"]
    assert feasible(view) == ["a", "b"]


# ---------------------------------------------------------------- unbound claims


def test_a_free_volume_is_found_where_it_can_be_reached() -> None:
    found = harness(claim("c"), volume("v", near={HOSTNAME: "a"}))

    assert found.reasons(user("p", "c")) == {"a": (), "b": (NOTHING,)}


def test_two_claims_need_two_volumes_and_the_smaller_one_is_served_first() -> None:
    storage = [
        claim("large", size="2Gi"),
        claim("small", size="1Gi"),
        volume("v-large", size="2Gi", near={HOSTNAME: "a"}),
        volume("v-small", size="1Gi", near={HOSTNAME: "a"}),
        volume("only", size="5Gi", near={HOSTNAME: "b"}),
    ]
    found = harness(*storage)

    assert found.reasons(user("p", "large", "small")) == {"a": (), "b": (NOTHING,)}
    assert found.reasons(user("p", "large")) == {"a": (), "b": ()}


def test_as_upstream_a_claim_that_a_pod_uses_twice_needs_two_volumes() -> None:
    found = harness(claim("c"), volume("v"))
    assert found.reasons(user("p", "c")) == {"a": (), "b": ()}
    assert found.reasons(user("p", "c", "c")) == {"a": (NOTHING,), "b": (NOTHING,)}

    put(found.cache, volume("w", claim="default/c"))
    assert found.reasons(user("p", "c", "c")) == {"a": (), "b": ()}


@pytest.mark.parametrize(
    ("more", "fits"),
    [
        ({}, True),
        ({"claim_uid": ""}, True),
        ({"claim_uid": "of-one-before"}, False),
        ({"phase": "Pending"}, True),
        ({"size": "1Mi"}, False),
        ({"volumeMode": "Block"}, False),
        ({"volumeAttributesClassName": "gold"}, False),
        ({"storage_class": "made"}, False),
        ({"accessModes": []}, True),
    ],
)
def test_a_volume_that_is_meant_for_the_claim_is_taken(more: dict[str, Any], fits: bool) -> None:
    found = harness(claim("c"), volume("v", **{"claim": "default/c", **more}))

    assert found.reasons(user("p", "c"))["a"] == (() if fits else (NOTHING,))


def test_a_volume_meant_for_the_claim_decides_even_if_it_is_out_of_reach() -> None:
    meant = volume("meant", claim="default/c", near={HOSTNAME: "a"})
    found = harness(claim("c"), meant, volume("free"))

    assert found.reasons(user("p", "c")) == {"a": (), "b": (NOTHING,)}


@pytest.mark.parametrize(
    ("of_claim", "of_volume", "fits"),
    [
        ({"selector": {"matchLabels": {"tier": "gold"}}}, {"labels": {"tier": "gold"}}, True),
        ({"selector": {"matchLabels": {"tier": "gold"}}}, {}, False),
        ({"selector": {}}, {}, True),
        ({"volumeMode": "Block"}, {}, False),
        ({"volumeMode": "Block"}, {"volumeMode": "Block"}, True),
        ({"volumeMode": "Filesystem"}, {}, True),
        ({"volumeAttributesClassName": "gold"}, {}, False),
        ({"volumeAttributesClassName": ""}, {}, True),
        ({"accessModes": ["ReadWriteMany"]}, {}, False),
        ({"size": "1Gi"}, {"size": "1073741823"}, False),
        ({"resources": {}}, {"capacity": {}}, True),
    ],
)
def test_a_volume_must_be_what_the_claim_asks_for(
    of_claim: dict[str, Any], of_volume: dict[str, Any], fits: bool
) -> None:
    found = harness(claim("c", **of_claim), volume("v", **of_volume))

    assert found.reasons(user("p", "c"))["a"] == (() if fits else (NOTHING,))


def test_a_selector_that_cannot_be_read_is_an_error() -> None:
    broken = {"matchExpressions": [{"key": "tier", "operator": "Like"}]}
    found = harness(claim("c", selector=broken), volume("v"))

    for status in found.statuses(user("p", "c")).values():
        assert status is not None
        assert status.code is Code.ERROR
        problem = "error creating internal label selector for claim: default/c: "
        assert status.message.startswith(problem)


def test_what_is_against_a_bound_claim_is_reported_beside_what_is_against_another() -> None:
    found = harness(*bound("c", near={ZONE: "1"}), claim("d"))

    assert found.reasons(user("p", "c", "d")) == {
        "a": (NOTHING,),
        "b": (OUT_OF_REACH, NOTHING),
    }


# ---------------------------------------------------------------- volumes to be made


@pytest.mark.parametrize(
    ("topologies", "expected"),
    [
        (None, {"a": (), "b": ()}),
        ([], {"a": (), "b": ()}),
        ([{}], {"a": (NOTHING,), "b": (NOTHING,)}),
        (
            [{"matchLabelExpressions": [{"key": ZONE, "values": ["1"]}]}],
            {"a": (), "b": (NOTHING,)},
        ),
    ],
)
def test_a_volume_can_be_made_where_the_class_allows(
    topologies: Any, expected: dict[str, tuple[str, ...]]
) -> None:
    found = harness(
        claim("c", storage_class="x"),
        storage_class("x", provisioner=DRIVER, topologies=topologies),
    )

    assert found.reasons(user("p", "c")) == expected


@pytest.mark.parametrize("provisioner", ["", "kubernetes.io/no-provisioner"])
def test_without_a_provisioner_none_can_be_made(provisioner: str) -> None:
    found = harness(claim("c", storage_class="x"), storage_class("x", provisioner=provisioner))

    assert found.reasons(user("p", "c")) == {"a": (NOTHING,), "b": (NOTHING,)}


@pytest.mark.parametrize(
    ("driver", "of_claim", "fits"),
    [
        (csi_driver(), {}, False),
        (csi_driver(has_capacity=False), {}, True),
        (csi_driver(has_capacity=None), {}, True),
        (csi_driver("another"), {}, True),
        (csi_driver(), {"resources": {}}, True),
        (csi_driver(), {"size": "512Mi"}, True),
    ],
)
def test_room_is_looked_at_if_the_driver_wants_it(
    driver: Any, of_claim: dict[str, Any], fits: bool
) -> None:
    room = capacity(near={"matchLabels": {ZONE: "1"}}, capacity="600Mi")
    found = harness(driver, room, claim("c", storage_class="made", **of_claim))

    assert found.reasons(user("p", "c"))["a"] == (() if fits else (NO_ROOM,))


def test_where_nothing_is_known_of_room_there_is_none() -> None:
    found = harness(csi_driver(), claim("c", storage_class="made"))

    assert found.reasons(user("p", "c")) == {"a": (NO_ROOM,), "b": (NO_ROOM,)}


def test_a_volume_that_is_being_made_for_a_node_keeps_the_pod_there() -> None:
    found = harness(claim("c", storage_class="made", node="b"))

    assert found.reasons(user("p", "c")) == {"a": (NOTHING,), "b": ()}


def test_a_volume_that_is_being_made_for_a_node_that_is_gone_fits_nowhere() -> None:
    found = harness(claim("c", storage_class="made", node="gone"))

    assert found.reasons(user("p", "c")) == {"a": (NOTHING,), "b": (NOTHING,)}


def test_it_does_not_score() -> None:
    found = harness(claim("c"), volume("v"))

    assert found.raw_scores(user("p", "c")) is None


def test_csi_volumes_of_the_pod_itself_are_no_claims() -> None:
    pod = user("p", volumes=[{"name": "i", "csi": {"driver": DRIVER}}])

    assert "VolumeBinding" in harness(*bound(csi=csi())).begin(pod).cycle.skipped
