"""Cached volume usage follows every change of the objects."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from mooring.objects.pod import Pod
from mooring.state import PodInfo, audit
from mooring.state.cache import Cache
from mooring.state.volumes.csi_nodes import NO_LIMIT
from mooring.testing import cluster, make_node, make_pod
from tests.helpers.volume_objects import (
    DRIVER,
    attachment,
    claim,
    csi,
    csi_node,
    put,
    user,
    volume,
)


def remaining(cache: Cache, node: str = "a") -> int:
    """Returns how many more the node can hold, by the column."""
    return int(cache.storage.use.attached_volumes.remaining_by_row(DRIVER)[cache.nodes.row(node)])


def test_slots_of_pods_whose_volumes_count_follow_pods_and_objects() -> None:
    objects = [claim("c", volume_name="v"), volume("v", csi=csi("h")), make_node("a")]
    cache = put(Cache(), *objects)
    for number in range(100):
        cache.put_pod(make_pod(f"plain-{number}", node="a"))
    cache.put_pod(user("p", "c", node="a"))
    slots = [each.slot for each in cache.pods if each.info.spec.volumes]
    counting = cache.storage.use.counting
    assert counting().nonzero()[0].tolist() == slots

    put(cache, volume("v", local={"path": "/"}))  # as a local one it does not count
    assert not counting().any()
    put(cache, volume("v", csi=csi("h")))
    assert counting().nonzero()[0].tolist() == slots
    cache.put_pod(make_pod("last", node="a"))
    (uid,) = [each.info.uid for each in cache.pods if each.info.spec.volumes]
    cache.remove_pod(uid)
    cache.put_pod(make_pod("in-its-slot", node="a"))

    assert not counting().any()
    assert audit(cache) == []


def test_what_is_left_follows_limits_that_change() -> None:
    cache = cluster(make_node("a"))
    put(cache, csi_node("a", disk_csi_test=3), volume("v", csi=csi()))
    put(cache, attachment("x", node="a", volume="v"))
    assert remaining(cache) == 2

    put(cache, csi_node("a", disk_csi_test=1))
    assert remaining(cache) == 0
    put(cache, csi_node("a", disk_csi_test=0))
    assert remaining(cache) == -1
    cache.remove_object("CSINode", "a")
    assert remaining(cache) == NO_LIMIT - 1
    assert audit(cache) == []


def asked_and_placed(cache: Cache, pod: Pod, *between: Any) -> dict[str, str]:
    """Returns the usage of a pod whose usage was cached before objects changed."""
    cache.storage.use.usage_if_scheduled(pod)
    put(cache, *between)
    cache.put_pod(replace(pod, spec=replace(pod.spec, node_name="a")))
    assert audit(cache) == []
    return cache.storage.use.of_pod(PodInfo(pod)).volumes


def test_a_pod_that_was_asked_about_counts_as_it_is_when_it_is_placed() -> None:
    there = [make_node("a"), claim("c", volume_name="v"), volume("v", csi=csi("h"))]
    pod, handle = user("p", "c"), f"{DRIVER}/h"

    assert asked_and_placed(put(Cache(), *there), pod) == {handle: DRIVER}
    other = volume("v", csi=csi("new"))
    assert asked_and_placed(put(Cache(), *there), pod, other) == {f"{DRIVER}/new": DRIVER}
    stranger = user("stranger", node="a")
    assert asked_and_placed(put(Cache(), *there), pod, stranger) == {handle: DRIVER}
    assert asked_and_placed(put(Cache(), *there[:1]), pod, *there[1:]) == {handle: DRIVER}


def test_what_was_a_problem_before_the_pod_was_placed_may_be_none_afterwards() -> None:
    cache = put(Cache(), claim("d", volume_name="v"), volume("v", csi=csi("h")))
    cache.put_node(make_node("a"))
    pod = user("p", "absent", "d")

    assert cache.storage.use.usage_if_scheduled(pod).problem is not None
    assert asked_and_placed(cache, pod) == {f"{DRIVER}/h": DRIVER}
    assert cache.storage.use.problems == {}


def test_slots_that_count_stay_marked_when_there_are_more_pods() -> None:
    cache = put(Cache(), claim("c", volume_name="v"), volume("v", csi=csi("h")))
    cache.put_node(make_node("a"))
    expected = []
    for number in range(150):
        is_user = number % 3 == 0
        cache.put_pod(user(f"p{number}", *(["c"] if is_user else []), node="a"))
        placed = cache.pods.get(f"pod-default-p{number}")
        assert placed is not None
        if is_user:
            expected.append(placed.slot)

    assert cache.storage.use.counting().nonzero()[0].tolist() == expected
    assert audit(cache) == []
