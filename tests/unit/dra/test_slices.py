"""Slices: the pools of a node, and when they are gathered again."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.dra import AllocationError, NodePools, Slices, TargetNode
from tests.helpers.devices import make_device, make_slice

A = TargetNode("a", {"zone": "east"})
B = TargetNode("b", {"zone": "west"})
EAST = {
    "nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["east"]}]}
    ]
}


def names(pools: NodePools) -> list[str]:
    return [device.id.device for device in pools.devices]


def states(pools: NodePools) -> dict[str, str]:
    return {pool.name: pool.state for pool in pools.pools}


def test_a_node_has_its_own_slices_and_those_that_it_can_reach() -> None:
    slices = Slices(
        [
            make_slice("own", [make_device("d0")], node="a"),
            make_slice("other", [make_device("d1")], node="b"),
            make_slice("zone", [make_device("d2")], nodeSelector=EAST),
            make_slice("net", [make_device("d3")], allNodes=True),
        ]
    )

    assert names(slices.pools(A)) == ["d0", "d3", "d2"]
    assert names(slices.pools(B)) == ["d1", "d3"]


def test_devices_are_in_the_order_of_drivers_pools_and_slices() -> None:
    slices = Slices(
        [
            make_slice("s2", [make_device("d3"), make_device("d2")], pool="p", count=2, node="a"),
            make_slice("s1", [make_device("d9")], pool="p", count=2, node="a"),
            make_slice("x", [make_device("first")], driver="aaa.test", node="a"),
            make_slice(
                "bound",
                [
                    make_device(
                        "last", bindingConditions=["ready"], bindingFailureConditions=["bad"]
                    )
                ],
                driver="aaa.test",
                pool="0",
                node="a",
            ),
        ]
    )

    assert names(slices.pools(A)) == ["first", "d9", "d3", "d2", "last"]


def test_only_the_newest_generation_counts() -> None:
    slices = Slices([make_slice("old", [make_device("d0")], pool="p", node="a")])
    slices.put(make_slice("new", [make_device("d1")], pool="p", node="a", generation=2))

    assert names(slices.pools(A)) == ["d1"]


def test_a_pool_with_a_newer_generation_elsewhere_is_dropped_unless_it_is_complete() -> None:
    old = make_slice("old", [make_device("d0")], pool="p", node="a", count=2)
    new = make_slice("new", [make_device("d1")], pool="p", node="b", generation=2)

    assert states(Slices([old, new]).pools(A)) == {}
    complete = make_slice("old", [make_device("d0")], pool="p", node="a")
    assert names(Slices([complete, new]).pools(A)) == ["d0"]


def test_a_pool_is_incomplete_until_its_last_slice_is_there() -> None:
    slices = Slices([make_slice("s1", [make_device("d0")], pool="p", node="a", count=2)])
    assert states(slices.pools(A)) == {"gpu.test/p": "incomplete"}
    assert names(slices.pools(A)) == []

    slices.put(make_slice("s2", [make_device("d1")], pool="p", node="b", count=2))
    assert names(slices.pools(A)) == ["d0"]

    slices.remove("s2")
    slices.remove("never there")
    assert states(slices.pools(A)) == {"gpu.test/p": "incomplete"}


@pytest.mark.parametrize(
    "spec",
    [
        {"devices": [make_device("d0"), make_device("d0")]},
        {
            "devices": [
                make_device(
                    "d0", consumesCounters=[{"counterSet": "x", "counters": {"c": {"value": "1"}}}]
                )
            ]
        },
    ],
    ids=["a device twice", "unknown counters"],
)
def test_a_pool_that_contradicts_itself_is_invalid(spec: dict[str, Any]) -> None:
    pools = Slices([make_slice("s", spec["devices"], node="a")]).pools(A)

    assert states(pools) == {"gpu.test/a": "invalid"}
    assert pools.has_invalid


def test_devices_may_select_nodes_themselves() -> None:
    devices = [make_device("d0", nodeName="a"), make_device("d1", allNodes=True)]
    slices = Slices([make_slice("s", devices, pool="p", perDeviceNodeSelection=True)])

    assert [device.is_on(B) for device in slices.pools(B).devices] == [False, True]
    only_a = Slices([make_slice("s", devices[:1], pool="p", perDeviceNodeSelection=True)])
    assert states(only_a.pools(B)) == {}


def test_pools_are_kept_until_a_slice_or_the_labels_change() -> None:
    slices = Slices(
        [
            make_slice("own", [make_device("d0")], node="a"),
            make_slice("other", [make_device("d1")], node="b"),
            make_slice("zone", [make_device("d2")], nodeSelector=EAST),
        ]
    )
    before = slices.pools(A)
    version = slices.version

    slices.put(make_slice("other", [make_device("d9")], node="b"))
    assert slices.pools(A) is before
    assert slices.pools(TargetNode("a", {"zone": "east"})) is before
    assert slices.version > version
    assert names(slices.pools(TargetNode("a", {}))) == ["d0"]
    slices.put(make_slice("own", [make_device("d7")], node="a"))
    assert names(slices.pools(A)) == ["d7", "d2"]


def test_an_invalid_node_selector_is_an_error_that_names_the_slice() -> None:
    bad = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Near"}]}]}
    slices = Slices([make_slice("odd", [make_device("d0")], nodeSelector=bad)])

    with pytest.raises(AllocationError, match=r"^gather pool information: .* for slice odd: "):
        slices.pools(A)
