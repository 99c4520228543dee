"""The worst that an API server lets through: no attempt crashes, and none takes long."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.clock import SystemClock
from mooring.errors import PluginError
from mooring.plugins import NodeVolumeLimits, VolumeBinding, VolumeRestrictions, VolumeZone
from mooring.testing import Harness, make_node
from tests.helpers.volume_objects import (
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

PLUGINS = (VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone)

#: CPU seconds; the bar is 0.05 on a quiet machine.
WORST_S = 0.5


def harness(*storage: Any, nodes: int = 2) -> Harness:
    made = [make_node(f"n-{number}", zone=f"z-{number % 3}") for number in range(nodes)]
    found = Harness(made, [plugin() for plugin in PLUGINS])
    put(found.cache, storage_class("local"), *storage)
    return found


HUGE, NEGATIVE = "999999999999E", "-1Gi"


@pytest.mark.parametrize(
    "storage",
    [
        [claim("c", size=HUGE), volume("v", size=HUGE)],
        [claim("c", size=NEGATIVE), volume("v", size=NEGATIVE)],
        [claim("c", size="0"), volume("v", size="1n")],
        [claim("c", selector={"matchLabels": {"": ""}}), volume("v")],
        [claim("c"), volume("v", near={"": ""})],
        [claim("c"), volume("v", near={"a" * 400: "b" * 400})],
        [claim("c", volume_name="v"), volume("v", labels={ZONE: "__"})],
        [claim("c", accessModes=[]), volume("v", accessModes=[])],
        [
            claim("c", storage_class="m", size=HUGE),
            storage_class("m", provisioner="d", topologies=[{"matchLabelExpressions": [{}]}]),
            csi_driver("d"),
            capacity(storage_class="m", near={"matchLabels": {"": ""}}, capacity=NEGATIVE),
        ],
        [claim("c", volume_name="v"), volume("v", csi=csi("")), csi_node("n-0", d=2**31 - 1)],
        [claim("c", volume_name="v"), volume("v", csi=csi("a/b", "c/d"))],
    ],
)
def test_odd_objects_never_crash_an_attempt(storage: list[Any]) -> None:
    found = harness(*storage)
    try:
        found.decide(user("p", "c", "c"))
    except PluginError as error:  # an error of the pod, with the plugin's name
        blamed = error.plugin
    else:
        return
    assert blamed in {plugin.name for plugin in PLUGINS}


def test_huge_sizes_are_compared_and_not_rounded() -> None:
    found = harness(claim("c", size="9223372036854775808"), volume("v", size="9223372036854775807"))

    assert found.decide(user("p", "c")).node is None
    put(found.cache, volume("w", size="9223372036854775808"))
    assert found.decide(user("p", "c")).node is not None


def timed(found: Harness, pod: Any) -> float:
    """Returns CPU seconds of the second attempt; the first one may fill caches."""
    clock = SystemClock()
    found.decide(pod)
    started_s = clock.cpu_s()
    found.decide(pod)
    return clock.cpu_s() - started_s


def test_a_pod_with_a_hundred_claims_is_decided_in_time() -> None:
    claims = [claim(f"c-{number}") for number in range(100)]
    disks = [volume(f"v-{number}", near={HOSTNAME: f"n-{number}"}) for number in range(2_000)]
    disks += [volume(f"w-{number}") for number in range(200)]
    found = harness(*claims, *disks, nodes=2_000)

    assert timed(found, user("p", *(f"c-{number}" for number in range(100)))) < WORST_S


def test_a_thousand_volumes_that_are_all_reached_in_other_ways_are_looked_through_in_time() -> None:
    terms = [
        {"matchExpressions": [{"key": "rack", "operator": "NotIn", "values": [f"{number}"]}]}
        for number in range(1_000)
    ]
    volumes = [
        volume(f"v-{n}", nodeAffinity={"required": {"nodeSelectorTerms": [term]}})
        for n, term in enumerate(terms)
    ]
    found = harness(claim("c"), *volumes, nodes=2_000)

    assert timed(found, user("p", "c")) < WORST_S


def test_a_volume_with_a_thousand_terms_is_looked_at_in_time() -> None:
    terms = [
        {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [f"x-{number}"]}]}
        for number in range(1_000)
    ]
    affinity = {"required": {"nodeSelectorTerms": terms}}
    storage = [claim("c", volume_name="v"), volume("v", nodeAffinity=affinity)]
    found = harness(*storage, nodes=2_000)

    assert timed(found, user("p", "c")) < WORST_S
    assert found.decide(user("p", "c")).node is None


def test_a_pod_with_a_thousand_disks_is_decided_in_time() -> None:
    disks = [{"name": f"d-{n}", "gcePersistentDisk": {"pdName": f"d-{n}"}} for n in range(1_000)]
    found = harness(nodes=2_000)
    for number in range(200):
        found.cache.put_pod(user(f"p-{number}", volumes=disks[number : number + 5], node="n-1"))

    assert timed(found, user("new", volumes=disks)) < WORST_S
