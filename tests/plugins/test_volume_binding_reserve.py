"""VolumeBinding in Reserve: what is held for a pod, and given back."""

from __future__ import annotations

from typing import Any

import numpy as np

from mooring.framework import Cycle
from mooring.framework.runtime import bind as binding
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.plugins import VolumeBinding
from mooring.state import audit
from mooring.testing import Harness, make_node
from tests.helpers.volume_objects import (
    DRIVER,
    HOSTNAME,
    claim,
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


def bound(name: str = "c", **more: Any) -> list[Any]:
    return [claim(name, volume_name=name), volume(name, phase="Bound", **more)]


# ---------------------------------------------------------------- Reserve


def decided(found: Harness, pod: Pod, node: str = "a") -> Cycle:
    """Returns an attempt that has come as far as Reserve on ``node``."""
    cycle, view, _ = found.begin(pod)
    found.plugins[0].filter(cycle, view)
    assert binding.reserve(found.framework, cycle, node) is None
    return cycle


def test_what_is_reserved_is_not_free_any_more() -> None:
    found = harness(claim("c"), claim("d"), volume("v"), volume("w", size="2Gi"))
    storage = found.cache.storage

    cycle = decided(found, user("p", "c"))
    ((name, assumed),) = storage.assumed()[0].items()
    assert name == "v"
    assert assumed.spec.claim_ref is not None
    assert assumed.spec.claim_ref.uid == "uid-c"
    assert assumed.metadata.annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}
    other = decided(found, user("q", "d"))
    assert sorted(storage.assumed()[0]) == ["v", "w"]
    assert audit(found.cache) == []

    for each in (cycle, other, cycle):
        binding.unreserve(found.framework, each, "a")
    assert found.framework.errors.statistics() == {}
    assert storage.assumed() == ({}, {})


def test_a_volume_to_be_made_is_placed() -> None:
    found = harness(claim("c", storage_class="made"))

    cycle = decided(found, user("p", "c"), "b")

    ((_, assumed),) = found.cache.storage.assumed()[1].items()
    assert assumed.metadata.annotations == {"volume.kubernetes.io/selected-node": "b"}
    assert found.reasons(user("q", "c")) == {"a": (NOTHING,), "b": ()}
    binding.unreserve(found.framework, cycle, "b")
    assert found.reasons(user("q", "c")) == {"a": (), "b": ()}


def test_two_pods_with_one_claim_take_one_volume_and_the_first_keeps_it() -> None:
    found = harness(claim("c"), volume("v"), volume("w"))

    first = decided(found, user("p", "c"))
    second = decided(found, user("q", "c"))
    assert sorted(found.cache.storage.assumed()[0]) == ["v"]

    binding.unreserve(found.framework, second, "a")
    assert sorted(found.cache.storage.assumed()[0]) == ["v"]
    binding.unreserve(found.framework, first, "a")
    assert found.cache.storage.assumed() == ({}, {})


def test_a_volume_that_the_user_meant_for_the_claim_is_not_marked_as_ours() -> None:
    found = harness(claim("c"), volume("v", claim="default/c", claim_uid=""))

    decided(found, user("p", "c"))

    ((_, assumed),) = found.cache.storage.assumed()[0].items()
    assert assumed.metadata.annotations == {}
    assert assumed.spec.claim_ref is not None
    assert assumed.spec.claim_ref.uid == "uid-c"


def test_a_pod_whose_claims_are_bound_reserves_nothing_and_skips_pre_bind() -> None:
    found = harness(*bound())

    cycle = decided(found, user("p", "c"))

    assert found.cache.storage.assumed() == ({}, {})
    assert binding.pre_binders(found.framework, cycle, "a") == []


def test_a_pod_with_something_to_bind_goes_through_pre_bind() -> None:
    found = harness(claim("c"), volume("v"))

    cycle = decided(found, user("p", "c"))

    assert binding.pre_binders(found.framework, cycle, "a") == found.plugins


def test_what_was_found_before_is_looked_for_again_if_volumes_have_changed_since() -> None:
    found = harness(claim("c"), volume("v"))
    cycle, view, _ = found.begin(user("p", "c"))
    found.plugins[0].filter(cycle, view)

    put(found.cache, volume("v", size="3Gi", version="2"), volume("new", size="2Gi"))
    binding.reserve(found.framework, cycle, "a")

    assert sorted(found.cache.storage.assumed()[0]) == ["new"]


def test_without_filter_nothing_is_bound() -> None:
    found = harness(claim("c"), volume("v"))
    cycle, _, _ = found.begin(user("p", "c"))

    assert binding.reserve(found.framework, cycle, "a") is None
    assert found.cache.storage.assumed() == ({}, {})
    assert binding.pre_binders(found.framework, cycle, "a") == []


def test_a_node_that_was_not_filtered_last_is_searched_again() -> None:
    there = harness(
        claim("c"), volume("of-a", near={HOSTNAME: "a"}), volume("of-b", near={HOSTNAME: "b"})
    )
    storage = there.cache.storage
    for node, other in (("a", "b"), ("b", "a")):
        cycle, view, _ = there.begin(user("p", "c"))
        plugin = there.plugins[0]
        plugin.filter(cycle, view.subset(np.array([list(view.names).index(other)])))

        assert binding.reserve(there.framework, cycle, node) is None

        volumes, _ = storage.assumed()
        assert list(volumes) == [f"of-{node}"]
        # The result is used once: a second call holds nothing more.
        version = storage.version
        assert plugin.reserve(cycle, node) is None
        assert storage.version == version
        plugin.unreserve(cycle, node)
        assert storage.assumed() == ({}, {})
    assert audit(there.cache) == []
