"""Slices: the pools of a node, and when they are gathered again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mooring.dra import ALL_FEATURES, AllocationError, NodePools, Slices, TargetNode
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


def test_slices_of_older_generations_elsewhere_do_not_count() -> None:
    parts = [
        make_slice(
            f"s{number}", [make_device(f"d{number}")], pool="p", node=node, generation=2, count=2
        )
        for number, node in enumerate("ab")
    ]
    old = make_slice("old", [make_device("d9")], pool="p", node="b")

    assert names(Slices([*parts, old]).pools(A)) == ["d0"]
    assert states(Slices([parts[0], old]).pools(A)) == {"gpu.test/p": "incomplete"}


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


# ---------------------------------------------------------------- why a pool cannot be used

UNIT = {"value": "1"}


def consuming(name: str, counter_set: str, *counters: str) -> dict[str, Any]:
    amounts = dict.fromkeys(counters, UNIT)
    return make_device(name, consumesCounters=[{"counterSet": counter_set, "counters": amounts}])


def counter_set(name: str, *counters: str) -> dict[str, Any]:
    return {"name": name, "counters": dict.fromkeys(counters, UNIT)}


@pytest.mark.parametrize(
    ("devices", "counter_sets", "problem"),
    [
        ([make_device("d0"), make_device("d1")], [], ""),
        (
            [make_device(name) for name in ("d0", "d1", "d1", "d0")],
            [],
            "several devices are named d0",
        ),
        (
            [make_device("d0")],
            [counter_set(name, "m") for name in ("x", "y", "y")],
            "several counter sets are named y",
        ),
        ([consuming("d0", "x", "m")], [counter_set("x", "m", "n")], ""),
        ([consuming("d0", "x", "m", "n")], [counter_set("x", "m", "n")], ""),
        (
            [consuming("d0", "x", "m", "n")],
            [counter_set("x", "m")],
            "a device of slice s consumes an unknown counter",
        ),
        (
            [consuming("d0", "y", "m")],
            [counter_set("x", "m")],
            "a device of slice s consumes an unknown counter",
        ),
        (
            [consuming("d0", "x", "m"), consuming("d1", "x", "other")],
            [counter_set("x", "m")],
            "a device of slice s consumes an unknown counter",
        ),
    ],
)
@pytest.mark.parametrize("is_on_another_node", [True, False])
def test_a_pool_says_why_it_is_invalid(
    devices: list[dict[str, Any]],
    counter_sets: list[dict[str, Any]],
    problem: str,
    is_on_another_node: bool,
) -> None:
    parts: list[dict[str, Any]] = [{"name": "s", "devices": devices, "node": "a"}]
    if counter_sets:
        parts.append({"name": "t", "allNodes": True, "sharedCounters": counter_sets})
    if is_on_another_node:
        parts.append({"name": "u", "devices": [make_device("elsewhere")], "node": "b"})
    slices = Slices([make_slice(**part, pool="p", count=len(parts)) for part in parts])

    (pool,) = slices.pools(A).pools

    assert pool.problem == problem
    assert pool.state == ("invalid" if problem else "")
    assert slices.pools(A).has_invalid is bool(problem)
    assert len(pool.devices) == (0 if problem else len(devices))
    assert slices.pools(A).keys == (("gpu.test", "p"),)
    assert slices.pools(A).by_key == {("gpu.test", "p"): pool}


def test_devices_of_another_node_may_contradict_the_counters() -> None:
    parts = [
        make_slice("s", [make_device("d0")], pool="p", node="a", count=3),
        make_slice("t", pool="p", allNodes=True, count=3, sharedCounters=[counter_set("x", "m")]),
        make_slice("u", [consuming("e0", "y", "m")], pool="p", node="b", count=3),
    ]
    (pool,) = Slices(parts).pools(A).pools

    assert pool.problem == "a device of slice u consumes an unknown counter"


def test_a_pool_has_the_counters_and_the_devices_that_use_them() -> None:
    parts = [
        make_slice("s", [consuming("d0", "x", "m")], pool="p", node="a", count=3),
        make_slice("t", pool="p", allNodes=True, count=3, sharedCounters=[counter_set("x", "m")]),
        make_slice("u", [consuming("e0", "x", "m")], pool="p", node="b", count=3),
    ]
    slices = Slices(parts)
    (pool,) = slices.pools(A).pools

    assert pool.counters == {("x", "m"): 10**9}
    assert [device.id.device for device in pool.devices] == ["d0"]
    assert [device.id.device for device in pool.other_devices] == ["e0"]
    assert slices.pools(A).has_counters
    assert not Slices([make_slice("s", [make_device("d0")], node="a")]).pools(A).has_counters


def test_without_the_gate_of_partitions_counters_do_not_make_a_pool_invalid() -> None:
    features = replace(ALL_FEATURES, has_partitions=False)
    device = consuming("d0", "unknown", "m")
    slices = Slices([make_slice("s", [device], pool="p", node="a")], features=features)

    (pool,) = slices.pools(A).pools

    assert (pool.state, pool.problem, len(pool.devices)) == ("", "", 1)
    assert pool.devices[0].is_blocked


@pytest.mark.parametrize(("there", "count"), [(1, 2), (3, 2), (2, 3)])
def test_a_pool_says_how_many_slices_are_missing(there: int, count: int) -> None:
    parts = [
        make_slice(f"s{number}", [make_device(f"d{number}")], pool="p", node="a", count=count)
        for number in range(there)
    ]
    (pool,) = Slices(parts).pools(A).pools

    assert pool.state == "incomplete"
    assert pool.problem == f"{there} of {count} slices of generation 1 exist"
    assert not Slices(parts).pools(A).has_invalid


def test_slices_are_counted_and_listed_by_pool() -> None:
    slices = Slices()
    for name, pool in (("s", "p"), ("t", "p"), ("u", "q")):
        slices.put(make_slice(name, pool=pool, node="a"))
    slices.put(make_slice("s", pool="p", node="b"))  # an update

    assert len(slices) == 3
    assert sorted(part.name for part in slices.of_pools([("gpu.test", "p")])) == ["s", "t"]
    keys = [("gpu.test", "p"), ("gpu.test", "unknown"), ("gpu.test", "q")]
    assert sorted(part.name for part in slices.of_pools(keys)) == ["s", "t", "u"]
    assert slices.nodes_of(("gpu.test", "p")) == {"a", "b"}
    assert slices.nodes_of(("gpu.test", "unknown")) == set()
    slices.put(make_slice("t", pool="p", allNodes=True))
    assert slices.nodes_of(("gpu.test", "p")) == {""}
    slices.remove("t")
    slices.remove("t")
    assert slices.nodes_of(("gpu.test", "p")) == {"b"}
    assert len(slices) == 2


def test_changes_are_reported_for_the_nodes_of_the_pool_before_and_after() -> None:
    changed: list[str] = []
    slices = Slices(changed=changed.append)
    slices.put(make_slice("s", pool="p", node="a"))
    assert changed == ["a"]
    changed.clear()
    slices.put(make_slice("t", pool="p", node="b"))
    assert sorted(changed) == ["a", "b"]
    changed.clear()
    version = slices.version
    slices.put(make_slice("t", pool="q", node="c"))
    assert sorted(changed) == ["a", "b", "c"]
    assert slices.version == version + 2
    changed.clear()
    slices.put(make_slice("net", pool="net", allNodes=True))
    assert changed == [""]
    changed.clear()
    slices.remove("net")
    assert changed == [""]
    slices.remove("unknown")
    assert changed == [""]
