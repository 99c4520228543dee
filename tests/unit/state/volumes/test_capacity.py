"""Capacity for new volumes: equal to a scan of all capacities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.clock import seeded_random
from mooring.objects.storage import CSIStorageCapacity
from mooring.state.cache import Cache
from mooring.state.volumes.capacity import Capacities, volume_limit
from mooring.state.volumes.topology import TopologyMasks, topology_of_selector
from mooring.testing import cluster, make_node
from tests.helpers.volume_objects import HOSTNAME, ZONE, capacity
from tests.plugins import volume_clusters as clusters

GIGABYTE = 1 << 30


def known(cache: Cache, *objects: CSIStorageCapacity) -> Capacities:
    found = Capacities(cache.nodes, TopologyMasks(cache.nodes))
    for obj in objects:
        found.put(obj.metadata.name, obj)
    return found


def room(cache: Cache, found: Capacities, size_bytes: int) -> list[str]:
    """Returns the nodes where a volume of this size can be made."""
    rows = np.array(cache.nodes.order.rows(), dtype=np.intp)
    return [cache.nodes.names[row] for row in rows[found.can_hold(size_bytes, rows)].tolist()]


@pytest.mark.parametrize(
    ("near", "amounts", "expected"),
    [
        ({"matchLabels": {ZONE: "1"}}, {"capacity": "1Gi"}, ["a"]),
        ({"matchLabels": {ZONE: "1"}}, {"capacity": "1073741823"}, []),
        ({"matchLabels": {ZONE: "1"}}, {"capacity": "9Gi", "maximumVolumeSize": "1Mi"}, []),
        ({"matchLabels": {ZONE: "1"}}, {"capacity": "0", "maximumVolumeSize": "2Gi"}, ["a"]),
        ({"matchLabels": {ZONE: "1"}}, {}, []),
        ({"matchLabels": {ZONE: "1", HOSTNAME: "b"}}, {"capacity": "1Gi"}, []),
        ({}, {"capacity": "1Gi"}, ["a", "b"]),
        (None, {"capacity": "1Gi"}, []),
        ({"matchExpressions": [{"key": ZONE, "operator": "Bad"}]}, {"capacity": "1Gi"}, []),
        (
            {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["1"]}]},
            {"capacity": "1Gi"},
            ["b"],
        ),
    ],
)
def test_room_is_where_the_topology_says(
    near: dict[str, Any] | None, amounts: dict[str, str], expected: list[str]
) -> None:
    cache = cluster(make_node("a", zone="1"), make_node("b", zone="2"))

    found = known(cache, capacity(near=near, **amounts))

    assert room(cache, found, GIGABYTE) == expected


def test_the_largest_of_several_counts_and_each_may_change_or_go() -> None:
    cache = cluster(make_node("a", zone="1"))
    here = {"matchLabels": {ZONE: "1"}}
    found = known(
        cache,
        capacity("small", near=here, capacity="1Gi"),
        capacity("large", near=here, capacity="5Gi"),
    )
    assert room(cache, found, 4 * GIGABYTE) == ["a"]

    found.put("large", capacity("large", near=here, capacity="3Gi"))
    assert room(cache, found, 4 * GIGABYTE) == []
    assert room(cache, found, 3 * GIGABYTE) == ["a"]
    found.remove("large")
    assert room(cache, found, 3 * GIGABYTE) == []
    found.remove("small")
    found.remove("never-there")
    assert len(found) == 0


def test_a_zone_that_comes_later_has_its_room() -> None:
    cache = cluster(make_node("a", zone="1"))
    found = known(cache, capacity(near={"matchLabels": {ZONE: "2"}}, capacity="5Gi"))
    assert room(cache, found, GIGABYTE) == []

    cache.put_node(make_node("b", zone="2"))

    assert room(cache, found, GIGABYTE) == ["b"]


def test_one_for_two_zones_counts_in_each_also_if_it_comes_later() -> None:
    cache = cluster(make_node("a", zone="1"), make_node("b", zone="2"), make_node("c", zone="3"))
    found = known(cache, capacity("other", near={"matchLabels": {ZONE: "3"}}, capacity="1Gi"))
    assert room(cache, found, GIGABYTE) == ["c"]

    zones = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["1", "2"]}]}
    found.put("both", capacity("both", near=zones, capacity="1Gi"))

    assert sorted(room(cache, found, GIGABYTE)) == ["a", "b", "c"]


@given(st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_it_is_a_walk_over_all_of_them_after_every_change(seed: int) -> None:
    rng = seeded_random(seed)
    cache = cluster(*(clusters.node(rng, name) for name in clusters.NODES[:3]))
    found, objects = known(cache), dict[str, CSIStorageCapacity]()
    for _ in range(10):
        obj = clusters.capacity(rng, f"c-{rng.randrange(6)}")
        if rng.random() < 0.75:
            found.put(obj.metadata.name, obj)
            objects[obj.metadata.name] = obj
        else:
            found.remove(obj.metadata.name)
            objects.pop(obj.metadata.name, None)
        if rng.random() < 0.3:
            cache.put_node(clusters.node(rng, rng.choice(clusters.NODES)))
        size_bytes = rng.choice((0, 1, GIGABYTE, 2 * GIGABYTE, 4 * GIGABYTE))

        expected = [
            cache.nodes.names[row]
            for row in cache.nodes.order.rows()
            if any(fits(each, size_bytes, cache, row) for each in objects.values())
        ]
        assert room(cache, found, size_bytes) == expected


def fits(obj: CSIStorageCapacity, size_bytes: int, cache: Cache, row: int) -> bool:
    limit = volume_limit(obj)
    labels = cache.nodes.node(row).metadata.labels
    is_large = limit is not None and limit.value() >= size_bytes
    return is_large and topology_of_selector(obj.node_topology).matches(labels)


def test_each_row_gets_the_size_of_the_first_capacity_by_name_that_is_large_enough() -> None:
    cache = cluster(make_node("a", zone="1"), make_node("b", zone="2"), make_node("c"))
    zone = {"matchLabels": {ZONE: "1"}}
    there = known(
        cache,
        capacity("b-everywhere", near={}, capacity="3Gi"),
        capacity("a-in-zone", near=zone, capacity="9Gi", maximumVolumeSize="2Gi"),
        capacity("c-in-zone", near=zone, capacity="7Gi"),
        capacity("unknown-size", near=zone, maximumVolumeSize="8Gi"),
    )
    rows = np.array([cache.nodes.row(name) for name in ("c", "a", "b")], dtype=np.intp)

    def sizes(gigabytes: int) -> list[int]:
        return [
            size // GIGABYTE if size > 0 else size
            for size in there.sizes(gigabytes * GIGABYTE, rows).tolist()
        ]

    assert sizes(2) == [3, 9, 3]
    assert sizes(3) == [3, 3, 3]
    assert sizes(4) == [-1, 7, -1]
    assert sizes(8) == [-1, 0, -1]
    assert sizes(9) == [-1, -1, -1]
    there.remove("a-in-zone")
    assert sizes(2) == [3, 3, 3]


def test_a_capacity_without_a_limit_or_without_nodes_is_not_kept() -> None:
    cache = cluster(make_node("a", zone="1"))
    bad = {"matchExpressions": [{"key": ZONE, "operator": "Bad"}]}
    here = {"matchLabels": {ZONE: "1"}}

    assert len(known(cache, capacity("a", near=None, capacity="1Gi"))) == 0
    assert len(known(cache, capacity("a", near=bad, capacity="1Gi"))) == 0
    assert len(known(cache, capacity("a", near=here))) == 0
    there = known(cache, capacity("a", near=here, capacity="1Gi"))
    assert len(there) == 1
    there.put("a", capacity("a", near=None, capacity="1Gi"))
    assert len(there) == 0
    assert room(cache, there, 0) == []


def test_capacities_that_are_removed_leave_no_label_behind() -> None:
    cache = cluster(make_node("a", zone="1"))
    zones = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["1", "2"]}]}
    there = known(cache, capacity("a", near=zones, capacity="1Gi"))
    assert room(cache, there, 0) == ["a"]

    there.remove("a")

    assert (len(there), there._by_label, there._others) == (0, {}, {})
    assert room(cache, there, 0) == []
