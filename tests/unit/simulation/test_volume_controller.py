"""The volume controller: claims and volumes; offline it acts at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring.cli import main
from mooring.clock import SystemClock, VirtualClock, seeded_random
from mooring.errors import PluginError
from mooring.objects.codec.decode import convert
from mooring.recordings.format import read_recording
from mooring.simulation.driver import Driver
from mooring.simulation.offline import OfflineHandle, run_to_end
from mooring.simulation.replay import objects_of, replay
from mooring.simulation.volume_controller import bind, provision
from mooring.state import audit
from mooring.state.cache import Cache
from mooring.testing import cluster, make_node
from tests.helpers.volume_objects import (
    DRIVER,
    HOSTNAME,
    ZONE,
    claim,
    csi_node,
    put,
    storage_class,
    user,
    volume,
)

MADE = storage_class("made", provisioner=DRIVER)


def keys_of(affinity: Any) -> dict[str, tuple[str, ...]]:
    if affinity is None:
        return {}
    (term,) = affinity.required.node_selector_terms
    return {each.key: each.values for each in term.match_expressions}


def test_a_binding_shows_on_both_sides() -> None:
    found = bind(volume("v", size="5Gi", claim="default/c"), claim("c"))

    assert found.volume.status.phase == found.claim.status.phase == "Bound"
    assert found.claim.spec.volume_name == "v"
    assert found.claim.status.capacity == {"storage": "5Gi"}
    assert found.claim.metadata.annotations == {
        "pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes",
    }


def test_a_claim_that_named_its_volume_was_not_bound_by_the_controller() -> None:
    found = bind(volume("v"), claim("c", volume_name="v", is_bound=False))

    assert found.claim.metadata.annotations == {"pv.kubernetes.io/bind-completed": "yes"}


@pytest.mark.parametrize(
    ("node", "labels", "expected"),
    [
        (None, {ZONE: "1", HOSTNAME: "a"}, {ZONE: ("1",)}),
        (csi_node("a", disk_csi_test=None), {ZONE: "1"}, {ZONE: ("1",)}),
        (None, {}, {}),
    ],
)
def test_a_made_volume_is_near_its_node(
    node: Any, labels: dict[str, str], expected: dict[str, tuple[str, ...]]
) -> None:
    found = provision(claim("c", storage_class="made", size="3Gi"), MADE, labels, node)

    assert keys_of(found.volume.spec.node_affinity) == expected
    assert found.volume.metadata.name == "pvc-uid-c" == found.claim.spec.volume_name
    assert found.volume.spec.capacity == {"storage": "3Gi"}
    assert found.volume.spec.storage_class_name == "made"
    assert found.volume.spec.csi is not None
    assert found.volume.spec.csi.driver == DRIVER


def test_the_volume_of_a_provisioner_that_is_no_csi_driver_is_a_folder_of_a_node() -> None:
    folders = storage_class("made", provisioner="example.com/folders")

    found = provision(claim("c", storage_class="made"), folders, {HOSTNAME: "a", ZONE: "1"}, None)

    assert found.volume.spec.csi is None
    assert found.volume.spec.host_path == {"path": "/opt/volumes/pvc-uid-c"}
    assert keys_of(found.volume.spec.node_affinity) == {ZONE: ("1",)}


def test_the_driver_says_by_which_labels_it_places_volumes() -> None:
    document = {
        "metadata": {"name": "a"},
        "spec": {"drivers": [{"name": DRIVER, "topologyKeys": [HOSTNAME, "rack"]}]},
    }
    found = provision(claim("c"), MADE, {ZONE: "1", HOSTNAME: "a"}, convert(document, "CSINode"))

    assert keys_of(found.volume.spec.node_affinity) == {HOSTNAME: ("a",)}


def test_an_in_tree_provisioner_makes_volumes_of_its_driver() -> None:
    old = storage_class("old", provisioner="kubernetes.io/aws-ebs")

    found = provision(claim("c"), old, {}, None)

    assert found.volume.spec.csi is not None
    assert found.volume.spec.csi.driver == "ebs.csi.aws.com"


# ---------------------------------------------------------------- offline


def handle(cache: Cache) -> OfflineHandle:
    return OfflineHandle(cache, VirtualClock(), seeded_random(0))


def patch(cache: Cache, kind: str, name: str, change: dict[str, Any]) -> Any:
    return run_to_end(handle(cache).patch(kind, name, change))


def test_a_volume_that_is_given_to_a_claim_is_bound_at_once() -> None:
    cache = put(Cache(), volume("v", labels={"kept": "1"}), claim("c"))
    reference = {"namespace": "default", "name": "c", "uid": "uid-c"}

    patch(cache, "PersistentVolume", "v", {"spec": {"claimRef": reference}})

    bound = cache.storage.volume("v")
    assert bound is not None
    assert (bound.status.phase, bound.metadata.labels) == ("Bound", {"kept": "1"})
    found = cache.storage.claim("default/c")
    assert found is not None
    assert found.spec.volume_name == "v"
    assert audit(cache) == []


def test_a_claim_that_says_where_gets_a_new_volume_there() -> None:
    cache = put(cluster(make_node("a", zone="1")), MADE, claim("c", storage_class="made"))
    annotations = {"volume.kubernetes.io/selected-node": "a"}

    patch(cache, "PersistentVolumeClaim", "default/c", {"metadata": {"annotations": annotations}})

    made = cache.storage.volume("pvc-uid-c")
    assert made is not None
    assert keys_of(made.spec.node_affinity) == {ZONE: ("1",)}


@pytest.mark.parametrize(
    ("kind", "name", "problem"),
    [
        ("PersistentVolume", "gone", "no PersistentVolume 'gone'"),
        ("PersistentVolumeClaim", "default/gone", "no PersistentVolumeClaim 'default/gone'"),
        ("Pod", "default/p", "plugins may not patch objects of kind Pod"),
    ],
)
def test_what_cannot_be_patched_is_reported(kind: str, name: str, problem: str) -> None:
    with pytest.raises(PluginError, match=problem):
        patch(Cache(), kind, name, {})


def test_null_takes_a_field_away_and_nothing_else_happens() -> None:
    cache = put(Cache(), volume("v", claim="default/c"))

    changed = patch(cache, "PersistentVolume", "v", {"spec": {"claimRef": None}})

    assert changed.spec.claim_ref is None
    assert cache.storage.volume("v") == changed
    found = cache.storage.free_volumes("local")
    assert found is not None
    assert len(found) == 1


# ---------------------------------------------------------------- a simulation with volumes


def simulation(*objects: Any) -> Driver:
    return Driver(objects, rng=seeded_random(0), clock=SystemClock())


def test_pods_get_disks_of_their_own_and_the_last_one_none() -> None:
    disks = [volume(f"disk-{node}", near={HOSTNAME: node}) for node in "ab"]
    claims = [claim(f"c-{number}") for number in range(3)]
    driver = simulation(make_node("a"), make_node("b"), storage_class("local"), *disks, *claims)

    finals = [driver.apply(driver.attempt(user(f"p-{n}", f"c-{n}"))) for n in range(3)]

    assert sorted(final.node or "" for final in finals) == ["", "a", "b"]
    assert {obj.metadata.name for obj in finals[0].updated} >= {"c-0"}
    assert finals[2].updated == ()
    assert audit(driver.cache) == []
    assert driver.cache.storage.assumed() == ({}, {})


def test_the_volume_of_a_pod_keeps_the_next_one_near_it() -> None:
    nodes = [make_node("a", zone="1"), make_node("b", zone="2")]
    driver = simulation(*nodes, MADE, claim("c", storage_class="made"))

    first = driver.apply(driver.attempt(user("one", "c")))
    driver.update(make_node(first.node or "", zone="3"))  # it has moved away since
    second = driver.attempt(user("two", "c"))

    assert second.node is None
    assert "node(s) didn't match PersistentVolume's node affinity" in second.message


def test_without_a_volume_the_claim_waits_in_vain_and_all_is_given_back() -> None:
    class Never:
        name = "Never"

        async def pre_bind(self, cycle: Any, node_name: str) -> None:
            raise RuntimeError("no")

    driver = Driver(
        [make_node("a"), storage_class("local"), volume("v"), claim("c")],
        rng=seeded_random(0),
        clock=SystemClock(),
        plugins=[Never()],
    )

    final = driver.apply(driver.attempt(user("p", "c")))

    assert final.node is None
    assert driver.cache.storage.assumed() == ({}, {})
    found = driver.cache.storage.claim("default/c")
    assert found is not None
    assert found.spec.volume_name == "v"  # what was written stays


def test_a_recording_of_a_simulation_with_volumes_can_be_replayed(tmp_path: Path) -> None:
    manifest = tmp_path / "cluster.yaml"
    manifest.write_text(CLUSTER)
    saved = tmp_path / "run.json"
    assert main(["simulate", "--cluster", str(manifest), "--save", str(saved)]) == 0
    recording = read_recording(saved)
    again = simulation(*objects_of(recording.objects))

    steps = list(replay(recording.steps, again, objects=recording.objects, only=None))

    assert [step.step.decision.node for step in steps] == ["a", "a"]
    assert [str(each) for step in steps for each in step.differences] == []
    assert again.cache.storage.claim("default/data").spec.volume_name  # type: ignore[union-attr]


CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: a, labels: {kubernetes.io/hostname: a}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: made}
provisioner: disk.csi.test
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: default}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
  storageClassName: made
---
apiVersion: v1
kind: Pod
metadata: {name: one, namespace: default}
spec:
  containers: [{name: c, image: x}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]
---
apiVersion: v1
kind: Pod
metadata: {name: two, namespace: default}
spec:
  containers: [{name: c, image: x}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]
"""
