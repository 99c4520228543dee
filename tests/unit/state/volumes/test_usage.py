"""Volume usage: pods, attachments, and changes of their objects."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.objects.pod import Pod
from mooring.state import PodInfo, audit
from mooring.state.cache import Cache
from mooring.state.volumes.csi_nodes import NO_LIMIT
from mooring.state.volumes.limits import Problem, VolumeObjects, attach_limit_volumes
from mooring.testing import cluster, make_node, make_pod
from tests.helpers.volume_objects import (
    DRIVER,
    attachment,
    claim,
    csi,
    csi_node,
    put,
    storage_class,
    user,
    volume,
)

EBS = {"name": "e", "awsElasticBlockStore": {"volumeID": "vol-1"}}
BAD_EBS = {"name": "e", "awsElasticBlockStore": {"volumeID": "aws://z/bad"}}
SCRATCH = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}


def known(*objects: Any) -> VolumeObjects:
    return put(Cache(), *objects).storage.objects


def count(cache: Cache, node: str = "a", driver: str = DRIVER) -> int:
    """Volumes of the driver on the node, by the column and by the node's name alike."""
    found = cache.storage.use.attached_volumes.count(driver, node)
    assert limit(cache, node, driver) - remaining(cache, node, driver) == found
    assert audit(cache) == []
    return found


def remaining(cache: Cache, node: str = "a", driver: str = DRIVER) -> int:
    """Returns how many more the node can hold, by the column."""
    return int(cache.storage.use.attached_volumes.remaining_by_row(driver)[cache.nodes.row(node)])


def limit(cache: Cache, node: str = "a", driver: str = DRIVER) -> int:
    return cache.storage.csi_nodes.limit(driver, node)


# ---------------------------------------------------------------- what counts


@pytest.mark.parametrize(
    ("pod", "objects", "volumes"),
    [
        (user(), [], {}),
        (user("p", "c"), [claim("c", volume_name="v"), volume("v", csi=csi("h"))], {"h": DRIVER}),
        (user("p", "c"), [claim("c", volume_name="v"), volume("v", local={"path": "/"})], {}),
        (
            user("p", "c"),
            [
                claim("c", volume_name="v"),
                volume("v", awsElasticBlockStore={"volumeID": "vol-9"}),
            ],
            {"vol-9": "ebs.csi.aws.com"},
        ),
        (
            user("p", "c"),
            [
                claim("c", volume_name="v"),
                volume("v", awsElasticBlockStore={"volumeID": "aws://z/bad"}),
            ],
            {},
        ),
        (user("p", "c"), [claim("c", volume_name="gone", storage_class="")], {}),
        (
            user("p", "c"),
            [
                claim("c", volume_name="gone", storage_class="made"),
                storage_class("made", provisioner=DRIVER),
            ],
            {"\0default/c": DRIVER},
        ),
        (user("p", "c"), [claim("c", storage_class="absent")], {}),
        (
            user("p", "c"),
            [
                claim("c", storage_class="old"),
                storage_class("old", provisioner="kubernetes.io/gce-pd"),
            ],
            {"\0default/c": "pd.csi.storage.gke.io"},
        ),
        (
            user("p", "c"),
            [
                claim("c", storage_class="old"),
                storage_class("old", provisioner="kubernetes.io/azure-file"),
            ],
            {},
        ),
        (user("p", volumes=[EBS]), [], {"vol-1": "ebs.csi.aws.com"}),
        (user("p", volumes=[{"name": "f", "azureFile": {"secretName": "s"}}]), [], {}),
        (user("p", volumes=[{"name": "f", "emptyDir": {}}]), [], {}),
    ],
)
def test_the_volumes_of_a_pod_that_count(
    pod: Pod, objects: list[Any], volumes: dict[str, str]
) -> None:
    found = attach_limit_volumes(pod, known(*objects))

    assert found.problem is None
    assert found.volumes == {f"{driver}/{handle}": driver for handle, driver in volumes.items()}


@pytest.mark.parametrize(
    ("pod", "objects", "problem", "of_placed"),
    [
        (
            user("p", "c"),
            [],
            Problem(
                'looking up PVC default/c: persistentvolumeclaim "c" not found', is_absence=True
            ),
            None,
        ),
        (user("p", ""), [], Problem("PersistentVolumeClaim had no name"), ...),
        (
            user("p", volumes=[SCRATCH]),
            [claim("p-scratch", owner="another")],
            Problem("PVC default/p-scratch was not created for pod default/p (pod is not owner)"),
            ...,
        ),
        (
            user("p", volumes=[BAD_EBS]),
            [],
            Problem(
                "converting volume(e) from inline to csi: failed to translate Kubernetes ID to "
                "EBS Volume ID Invalid format for AWS volume (aws://z/bad)"
            ),
            ...,
        ),
    ],
)
def test_what_cannot_be_counted_is_reported(
    pod: Pod, objects: list[Any], problem: Problem, of_placed: Any
) -> None:
    storage = known(*objects)

    assert attach_limit_volumes(pod, storage).problem == problem
    expected = problem if of_placed is ... else of_placed
    assert attach_limit_volumes(pod, storage, is_placed=True).problem == expected


def test_without_a_csi_node_nothing_is_migrated() -> None:
    pod = user("p", "c", volumes=[EBS, BAD_EBS])
    found = attach_limit_volumes(pod, known(claim("c")), has_csi_node=False)

    assert found.volumes == {}
    assert found.problem is None


# ---------------------------------------------------------------- pods come and go


def test_a_volume_that_several_pods_share_counts_once_per_node() -> None:
    cache = cluster(make_node("a"), make_node("b"))
    put(cache, claim("c", volume_name="v"), volume("v", csi=csi()))
    for name, node in (("one", "a"), ("two", "a"), ("three", "b")):
        cache.put_pod(user(name, "c", node=node))
    assert (count(cache, "a"), count(cache, "b")) == (1, 1)

    cache.remove_pod("pod-default-one")
    assert count(cache, "a") == 1
    cache.remove_pod("pod-default-two")
    assert (count(cache, "a"), count(cache, "b")) == (0, 1)
    cache.remove_pod("pod-default-three")
    volumes = cache.storage.use.attached_volumes
    assert (len(volumes), volumes.items(), volumes._counts) == (0, {}, {})


def test_a_claim_that_gets_its_volume_counts_as_that_from_then_on() -> None:
    cache = cluster(make_node("a"))
    put(cache, claim("c", storage_class="made"), storage_class("made", provisioner=DRIVER))
    cache.put_pod(user("p", "c", node="a"))
    attached_volumes = cache.storage.use.attached_volumes
    assert attached_volumes.items() == {(f"{DRIVER}/\0default/c", "a"): (1, 0)}

    put(cache, claim("c", storage_class="made", volume_name="v"))
    put(cache, volume("v", csi=csi("h"), storage_class="made"))

    assert attached_volumes.items() == {(f"{DRIVER}/h", "a"): (1, 0)}
    assert count(cache) == 1


@pytest.mark.parametrize(
    ("kind", "at", "remaining"),
    [
        ("PersistentVolume", "v", 1),
        ("PersistentVolumeClaim", "default/c", 0),
        ("StorageClass", "made", 1),
    ],
)
def test_objects_that_go_are_not_counted_on(kind: str, at: str, remaining: int) -> None:
    cache = cluster(make_node("a"))
    put(cache, storage_class("made", provisioner=DRIVER))
    put(cache, claim("c", storage_class="made", volume_name="v"))
    put(cache, volume("v", csi=csi("h"), storage_class="made"))
    cache.put_pod(user("p", "c", node="a"))
    assert count(cache) == 1

    cache.remove_object(kind, at)

    # Without the volume the class says which driver it is.
    assert count(cache) == remaining


@pytest.mark.parametrize("late", ["claim", "volume", "class", "all"])
def test_an_object_that_comes_after_the_pod_counts_from_then_on(late: str) -> None:
    objects = {
        "class": storage_class("made", provisioner=DRIVER),
        "claim": claim("c", storage_class="made", volume_name="v"),
        "volume": volume("v", csi=csi("h", "other.test"), storage_class="made"),
    }
    if late == "class":
        del objects["volume"]
    cache = cluster(make_node("a"))
    put(cache, *(obj for kind, obj in objects.items() if late not in (kind, "all")))
    cache.put_pod(user("p", "c", node="a"))
    put(cache, *(obj for kind, obj in reversed(objects.items()) if late in (kind, "all")))

    volumes = cache.storage.use.attached_volumes.items()
    driver, handle = (DRIVER, "\0default/c") if late == "class" else ("other.test", "h")
    assert volumes == {(f"{driver}/{handle}", "a"): (1, 0)}
    assert count(cache, driver=driver) == 1


def test_a_pod_in_a_newer_version_counts_as_before() -> None:
    cache = cluster(make_node("a"))
    put(cache, claim("c", volume_name="v"), volume("v", csi=csi()))
    config = {"name": "config", "configMap": {"name": "c"}}
    pod = user("p", "c", volumes=[config])
    with cache.assume(PodInfo(pod).on_node("a"), "a") as held:
        held.keep()
    assert count(cache) == 1

    cache.put_pod(user("p", "c", volumes=[config], node="a"))
    assert count(cache) == 1
    cache.put_pod(user("p", node="a"))  # no API server lets a pod's volumes change
    assert count(cache) == 0


def test_a_claim_is_in_use_while_a_pod_on_a_node_names_it() -> None:
    cache = cluster(make_node("a"))
    use = cache.storage.use
    cache.put_pod(user("p", "c", node="a"))
    cache.put_pod(user("q", volumes=[SCRATCH], node="a"))

    assert use.is_claim_used("default/c")
    assert not use.is_claim_used("other/c")
    assert not use.is_claim_used("default/q-scratch")

    cache.remove_node("a")
    assert not use.is_claim_used("default/c")
    cache.put_node(make_node("a"))
    assert use.is_claim_used("default/c")
    cache.remove_pod("pod-default-p")
    assert not use.is_claim_used("default/c")


def test_pods_that_cannot_be_counted_are_known_by_node() -> None:
    cache = cluster(make_node("a"))
    problems = cache.storage.use.problems
    put(cache, claim("p-scratch", owner="another"))
    cache.put_pod(user("p", volumes=[SCRATCH], node="a"))
    assert list(problems) == ["a"]
    assert "was not created for pod default/p" in problems["a"]["pod-default-p"]

    put(cache, claim("p-scratch", owner="pod-default-p"))
    assert problems == {}
    put(cache, claim("p-scratch"))
    assert list(problems) == ["a"]
    cache.remove_pod("pod-default-p")
    assert problems == {}
    assert audit(cache) == []


def test_a_pod_that_is_on_no_node_is_read_when_asked_about() -> None:
    cache = put(Cache(), claim("c", volume_name="v"), volume("v", csi=csi("h")))

    found = cache.storage.use.of_pod(PodInfo(user("p", "c")))

    assert found.volumes == {f"{DRIVER}/h": DRIVER}
    assert cache.storage.use.uses() == []


# ---------------------------------------------------------------- attachments


def test_an_attachment_counts_once_with_the_pods_of_its_volume() -> None:
    cache = cluster(make_node("a"))
    put(cache, attachment("one", node="a", volume="v"), attachment("two", node="a", volume="v"))
    assert count(cache) == 0
    put(cache, volume("v", csi=csi("h")), claim("c", volume_name="v"))
    assert count(cache) == 1

    cache.put_pod(user("p", "c", node="a"))
    assert count(cache) == 1
    attached_volumes = cache.storage.use.attached_volumes
    assert attached_volumes.is_attached(f"{DRIVER}/h", "a")
    assert attached_volumes.pods_on(f"{DRIVER}/h", "a") == 1

    cache.remove_pod("pod-default-p")
    assert count(cache) == 1
    for name in ("one", "two", "two"):
        cache.remove_object("VolumeAttachment", name)
    assert count(cache) == 0


@pytest.mark.parametrize(
    "obj",
    [
        attachment("x", node="a", volume=None),
        attachment("x", node="a", volume="gone"),
        attachment("x", node="a", volume="old"),
        attachment("x", node="a", volume="v", attacher=""),
        attachment("x", node="elsewhere", volume="v"),
    ],
)
def test_attachments_that_count_for_nothing_on_the_node(obj: Any) -> None:
    cache = cluster(make_node("a"))
    old = volume("old", awsElasticBlockStore={"volumeID": "vol-1"})
    put(cache, volume("v", csi=csi()), old, obj)

    assert count(cache) == 0
    assert count(cache, driver="") == 0


def test_what_is_known_of_a_node_waits_for_the_node() -> None:
    cache = cluster(make_node("a"))
    put(cache, csi_node("late", disk_csi_test=2), volume("v", csi=csi()))
    put(cache, attachment("x", node="late", volume="v"))
    limits = cache.storage.csi_nodes
    count(cache)
    assert remaining(cache) == NO_LIMIT

    cache.put_node(make_node("late"))

    row = cache.nodes.row("late")
    assert (count(cache, "late"), remaining(cache, "late")) == (1, 1)
    assert limits.has_csi_node_by_row()[row] == limits.has_limits()[row] == 1


def test_a_row_that_gets_another_node_has_the_numbers_of_that_one() -> None:
    cache = cluster(make_node("a"))
    put(cache, csi_node("a", disk_csi_test=2), volume("v", csi=csi()))
    put(cache, attachment("x", node="a", volume="v"))
    assert count(cache) == 1
    row = cache.nodes.row("a")
    assert remaining(cache) == 1

    cache.remove_node("a")
    cache.put_pod(make_pod("ghost", node="b"))
    cache.remove_object("VolumeAttachment", "x")
    cache.put_node(make_node("b"))

    assert cache.nodes.row("b") == row
    assert count(cache, "b") == 0
    assert remaining(cache, "b") == NO_LIMIT


def test_csi_nodes_say_limits_and_what_they_have_taken_over() -> None:
    cache = cluster(make_node("a"), make_node("b"))
    put(
        cache,
        csi_node("a", migrated="kubernetes.io/aws-ebs,x", disk_csi_test=None, other=0),
        csi_node("b"),
    )
    found = cache.storage.csi_nodes
    rows = [cache.nodes.row("a"), cache.nodes.row("b")]

    assert [remaining(cache, name) for name in "ab"] == [NO_LIMIT, NO_LIMIT]
    assert [remaining(cache, name, "other") for name in "ab"] == [0, NO_LIMIT]
    assert found.has_limits()[rows].tolist() == [1, 0]
    assert found.have_migrated("kubernetes.io/aws-ebs")[rows].tolist() == [1, 0]
    assert found.has_migrated("x", "a")
    assert not found.has_migrated("", "b")

    cache.remove_object("CSINode", "a")
    assert found.has_csi_node_by_row()[rows].tolist() == [0, 1]
    assert found.have_migrated("kubernetes.io/aws-ebs")[rows].tolist() == [0, 0]
    assert [remaining(cache, name, "other") for name in "ab"] == [NO_LIMIT, NO_LIMIT]


def test_columns_are_bounded_and_grow_with_the_nodes() -> None:
    cache = cluster(make_node("a"))
    for number in range(200):
        cache.storage.use.attached_volumes.remaining_by_row(f"driver-{number}")
    assert len(cache.storage.use.attached_volumes.columns()) <= 64

    for number in range(100):
        cache.put_node(make_node(f"n-{number}"))
    column = cache.storage.use.attached_volumes.remaining_by_row("driver-199")
    assert len(column) == cache.nodes.capacity
    assert not column.flags.writeable


# ---------------------------------------------------------------- several volumes of a pod


def test_the_volumes_before_a_problem_count_and_those_after_it_do_not() -> None:
    objects = known(
        *(claim(name, volume_name=f"v-{name}") for name in ("c", "d", "e")),
        *(volume(f"v-{name}", csi=csi(f"h-{name}")) for name in ("c", "d", "e")),
    )
    names = ["c", "d", "", "e"]
    counted = attach_limit_volumes(user("p", *names), objects)

    assert counted.problem == Problem("PersistentVolumeClaim had no name")
    assert counted.volumes == {f"{DRIVER}/h-c": DRIVER, f"{DRIVER}/h-d": DRIVER}
    assert counted.dependencies == (
        ("PersistentVolumeClaim", "default/c"),
        ("PersistentVolume", "v-c"),
        ("PersistentVolumeClaim", "default/d"),
        ("PersistentVolume", "v-d"),
    )
    assert counted.concerns_limits


def test_a_placed_pod_counts_the_volumes_after_a_claim_that_is_absent() -> None:
    objects = known(claim("d", volume_name="v"), volume("v", csi=csi()))

    pod = user("p", "absent", "d", volumes=[EBS])
    counted = attach_limit_volumes(pod, objects, is_placed=True)

    ebs = "ebs.csi.aws.com"
    assert counted.volumes == {f"{DRIVER}/handle": DRIVER, f"{ebs}/vol-1": ebs}
    assert counted.problem is None
    assert ("PersistentVolumeClaim", "default/absent") in counted.dependencies
    pending = attach_limit_volumes(pod, objects)
    assert pending.problem is not None
    assert pending.problem.is_absence
    assert (pending.volumes, pending.concerns_limits) == ({}, True)


def test_volumes_in_use_are_listed_with_the_nodes_of_their_pods() -> None:
    cache = cluster(make_node("a"), make_node("b"), make_node("c"))
    put(cache, claim("c", volume_name="v"), volume("v", csi=csi("h")))
    put(cache, attachment("x", node="c", volume="v"))
    for name, node in (("one", "a"), ("two", "b")):
        cache.put_pod(user(name, "c", node=node))
    volumes, name = cache.storage.use.attached_volumes, f"{DRIVER}/h"

    assert (len(volumes), volumes.nodes_of(name), volumes.nodes_of("x")) == (1, ["a", "b"], [])
    assert volumes.driver_of(name, "c") == DRIVER
    assert [volumes.pods_on(name, node) for node in "abcx"] == [1, 1, 0, 0]
    assert [volumes.is_attached(name, node) for node in "abcx"] == [False, False, True, False]
    cache.remove_pod("pod-default-one")
    assert volumes.nodes_of(name) == ["b"]


def test_csi_nodes_are_listed_with_their_drivers() -> None:
    cache = cluster(make_node("a"), make_node("b"))
    put(cache, csi_node("a", disk_csi_test=-3, other=None))
    csi_nodes = cache.storage.csi_nodes
    rows = [cache.nodes.row("a"), cache.nodes.row("b")]

    assert [name for name, _ in csi_nodes.items()] == ["a"]
    assert csi_nodes.get("a") is csi_nodes.items()[0][1]
    assert csi_nodes.get("b") is None
    drivers = {name: csi_nodes.have_driver(name)[rows].tolist() for name in (DRIVER, "other", "x")}
    assert drivers == {DRIVER: [1, 0], "other": [1, 0], "x": [0, 0]}
    assert limit(cache) == 0  # a negative limit
    put(cache, csi_node("b", other=4))
    assert csi_nodes.have_driver("other")[rows].tolist() == [1, 1]
    assert csi_nodes.have_driver(DRIVER)[rows].tolist() == [1, 0]


@pytest.mark.parametrize("is_late", [True, False])
def test_an_attachment_that_changes_its_volume_is_listed_there_alone(is_late: bool) -> None:
    cache = cluster(make_node("a"))
    volumes = volume("v", csi=csi("h")), volume("w", csi=csi("i"))
    if not is_late:
        put(cache, *volumes)
    put(cache, attachment("x", node="a", volume="v"))
    put(cache, attachment("x", node="a", volume="w"))
    put(cache, *volumes)

    attached = cache.storage.use.attached_volumes.items()
    assert attached == {(f"{DRIVER}/i", "a"): (0, 1)}
    put(cache, attachment("x", node="a", volume=None))
    assert count(cache) == 0


def test_an_unbound_claim_counts_as_long_as_its_class_is_there() -> None:
    cache = cluster(make_node("a"))
    made = storage_class("made", provisioner=DRIVER)
    put(cache, claim("c", storage_class="made"), made)
    cache.put_pod(user("p", "c", node="a"))
    assert count(cache) == 1

    cache.remove_object("StorageClass", "made")
    cache.remove_object("StorageClass", "made")
    assert count(cache) == 0
    put(cache, storage_class("made", provisioner="other.test"))
    assert (count(cache), count(cache, driver="other.test")) == (0, 1)
    put(cache, made)
    assert (count(cache), count(cache, driver="other.test")) == (1, 0)


def test_the_problems_of_other_pods_on_the_node_stay() -> None:
    cache = cluster(make_node("a"), make_node("b"))
    problems = cache.storage.use.problems
    put(cache, *(claim(f"{name}-scratch", owner="another") for name in "pqr"))
    for name, node in (("p", "a"), ("q", "a"), ("r", "b")):
        cache.put_pod(user(name, volumes=[SCRATCH], node=node))
    assert {node: list(of) for node, of in problems.items()} == {
        "a": ["pod-default-p", "pod-default-q"],
        "b": ["pod-default-r"],
    }

    cache.remove_pod("pod-default-p")
    assert {node: list(of) for node, of in problems.items()} == {
        "a": ["pod-default-q"],
        "b": ["pod-default-r"],
    }
    cache.remove_pod("pod-default-r")
    assert list(problems) == ["a"]
    assert audit(cache) == []
