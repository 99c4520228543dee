"""Scores by devices: nodes without an extended resource whose class has devices there.

Random clusters are compared with kube-scheduler in ``tests/parity/test_differential.py``; here the
numbers are done by hand.
"""

from __future__ import annotations

from typing import Any

import pytest

from mooring.config.types import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ResourceSpec,
    ScoringStrategy,
)
from mooring.plugins.node_resources import device_totals
from mooring.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from mooring.plugins.node_resources.device_totals import DeviceTotals
from mooring.plugins.node_resources.fit import NodeResourcesFit
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import Harness, make_node, make_pod
from tests.helpers.devices import (
    DRIVER,
    exactly,
    make_claim,
    make_class,
    make_device,
    make_slice,
    result_of,
)

GPU = "example.com/gpu"
CEL = f"device.driver == '{DRIVER}' && !device.allowMultipleAllocations"
SHARED: dict[str, Any] = {"allowMultipleAllocations": True}


def slices() -> list[Any]:
    """Returns four devices of node a, one of which can be shared, and two of node b and others."""
    return [
        make_slice("a-1", [make_device("d0"), make_device("d1", **SHARED)], node="a", count=9),
        make_slice("a-0", [make_device("d2"), make_device("d3")], node="a", pool="old"),
        make_slice("b-0", [make_device("d0")], node="b"),
        make_slice(
            "zone",
            [make_device("d0")],
            nodeSelector={
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
                ]
            },
        ),
        make_slice("nic", [make_device("n0")], node="a", driver="nic.test", pool="nic"),
    ]


def fit(kind: str, *names: str) -> NodeResourcesFit:
    resources = tuple(ResourceSpec(name=name, weight=1) for name in names)
    strategy = ScoringStrategy(type=kind, resources=resources)
    return NodeResourcesFit(NodeResourcesFitArgs(scoring_strategy=strategy))


def scores(plugin: Any, *objects: Any, request: str = "1") -> list[int]:
    """Returns the scores of nodes a, b and c; c has the resource from a device plugin."""
    nodes = [
        make_node("a"),
        make_node("b", labels={"zone": "b"}),
        make_node("c", allocatable={GPU: "8"}),
        make_node("d"),
    ]
    harness = Harness(nodes, [plugin])
    for obj in (make_class("gpu", CEL, resource=GPU), *slices(), *objects):
        harness.cache.put_object(type(obj).__name__, obj)
    pod = make_pod("new", requests={"cpu": "1", GPU: request}, limits={GPU: request})
    cycle, view, _ = harness.begin(pod)
    columns: list[int] = plugin.score(cycle, view).tolist()
    assert [plugin.score_node(cycle, node) for node in view] == columns
    return columns


HELD = make_claim("held", exactly(), allocated=[result_of("d0", "a")], on="a")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        # a: 4 devices, as selectors see none that can be shared, and 1 of them in use. b: 2, one
        # by the node selector. c: 8 of a device plugin. d: none, so the resource does not count.
        ("LeastAllocated", [50, 50, 87, 0]),
        ("MostAllocated", [50, 50, 12, 0]),
    ],
)
def test_devices_count_for_an_extended_resource(kind: str, expected: list[int]) -> None:
    assert scores(fit(kind, GPU), HELD) == expected


def test_a_failing_selector_counts_no_devices() -> None:
    wrong = make_class("gpu", f"device.attributes['{DRIVER}'].missing == 1", resource=GPU)
    assert scores(fit("LeastAllocated", GPU), wrong) == [0, 0, 87, 0]


def test_balance_counts_devices() -> None:
    resources = (ResourceSpec(name="cpu", weight=1), ResourceSpec(name=GPU, weight=1))
    plugin = NodeResourcesBalancedAllocation(
        NodeResourcesBalancedAllocationArgs(resources=resources)
    )
    # The balance is 100 x (1 - half the difference of the used parts), truncated; 50 + its change
    # is halved. a: cpu 0 -> 1/4, devices 1/4 -> 2/4: no change. b: devices 0 -> 1/2, so 100 -> 87.
    # c: 0 -> 1/8 of the device plugin's, so 100 -> 93. d: cpu alone is in balance.
    assert scores(plugin, HELD) == [75, 68, 71, 75]


def test_resources_stand_for_the_classes_that_there_are_now() -> None:
    totals, names = DeviceTotals(), ("cpu", GPU)
    caches = Cache(), Cache()

    def backed(cache: Cache) -> list[tuple[int, str]]:
        entries = totals.backed(cache.snapshot(), names)
        return [(position, device_class.metadata.name) for position, device_class in entries]

    caches[0].put_object("DeviceClass", make_class("first", resource=GPU))
    caches[1].put_object("DeviceClass", make_class("other"))
    assert backed(caches[0]) == [(1, "first")]
    assert backed(caches[1]) == []
    caches[1].put_object("DeviceClass", make_class("second", resource=GPU))
    assert backed(caches[1]) == [(1, "second")]
    assert backed(caches[0]) == [(1, "first")]
    caches[0].remove_object("DeviceClass", "first")
    assert backed(caches[0]) == []


def test_a_pod_scored_by_devices_has_no_signature() -> None:
    plugin = fit("LeastAllocated", GPU)
    harness = Harness([make_node("a")], [plugin])
    harness.cache.put_object("DeviceClass", make_class("gpu", CEL, resource=GPU))

    class HandleOfCache:
        snapshot = harness.cache.snapshot()

    with_handle = NodeResourcesFit(
        NodeResourcesFitArgs(
            scoring_strategy=ScoringStrategy(
                type="LeastAllocated", resources=(ResourceSpec(name=GPU, weight=1),)
            )
        ),
        HandleOfCache(),  # type: ignore[arg-type]
    )
    by_devices = PodInfo(make_pod("new", requests={GPU: "1"}))
    assert with_handle.sign(by_devices) is None
    assert with_handle.sign(PodInfo(make_pod("new", requests={"cpu": "1"}))) is not None


@pytest.mark.parametrize(
    ("allocatable", "request_", "is_feasible"),
    [
        ({}, "2", True),
        ({GPU: "0"}, "2", True),
        ({GPU: "1"}, "2", False),
        ({GPU: "2"}, "2", True),
    ],
)
@pytest.mark.parametrize("has_class", [True, False])
def test_fit_leaves_to_devices_what_the_node_has_none_of(
    allocatable: dict[str, str], request_: str, is_feasible: bool, has_class: bool
) -> None:
    plugin = NodeResourcesFit()
    harness = Harness([make_node("n", allocatable={"cpu": "4", **allocatable})], [plugin])
    if has_class:
        harness.cache.put_object("DeviceClass", make_class("gpu", resource=GPU))
    cycle, view, _ = harness.begin(make_pod("new", requests={"cpu": "1", GPU: request_}))

    (status,) = plugin.filter(cycle, view).to_list()

    (node,) = view
    assert plugin.filter_node(cycle, node) == status
    is_enough = allocatable.get(GPU) == "2"
    expected = is_feasible if has_class else is_enough
    assert (status is None) is expected
    if status is not None:
        assert status.reasons == (f"Insufficient {GPU}",)


def test_no_more_lists_of_resources_are_kept_than_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device_totals, "NAMES_MAX", 2)
    totals, cache = DeviceTotals(), Cache()
    cache.put_object("DeviceClass", make_class("gpu", resource=GPU))
    snapshot = cache.snapshot()
    lists = [(GPU,), ("cpu", GPU), ("cpu", "memory"), (GPU,), ("memory", GPU)]
    positions = [[entry[0] for entry in totals.backed(snapshot, names)] for names in lists]

    assert positions == [[0], [1], [], [0], [1]]
    assert len(totals._backed) <= 2


def test_devices_with_nodes_of_their_own_count_there_alone() -> None:
    cache = Cache()
    device_class = make_class("gpu", CEL, resource=GPU)
    cache.put_object("DeviceClass", device_class)
    devices = [
        make_device("d0", nodeName="a"),
        make_device("d1", nodeName="b"),
        make_device("d2", allNodes=True),
        make_device("d3", nodeName="a"),
    ]
    cache.put_object(
        "ResourceSlice", make_slice("s", devices, pool="p", perDeviceNodeSelection=True)
    )
    used = [result_of("d2", "p"), result_of("d1", "p")]
    cache.put_object("ResourceClaim", make_claim("used", allocated=used))
    totals, there = DeviceTotals(), cache.snapshot()

    counts = {
        name: totals.of(there.devices, make_node(name), device_class) for name in ("a", "b", "c")
    }
    assert counts == {"a": (3, 1), "b": (2, 2), "c": (1, 1)}
    assert totals.amounts(there, make_node("a"), ("cpu", GPU)) == {GPU: (3, 1)}
    assert totals.amounts(Cache().snapshot(), make_node("a"), ("cpu", GPU)) == {}
    cache.remove_object("ResourceClaim", "default/used")
    assert totals.of(cache.snapshot().devices, make_node("a"), device_class) == (3, 0)
    cache.remove_object("ResourceSlice", "s")
    assert totals.of(cache.snapshot().devices, make_node("a"), device_class) == (0, 0)
