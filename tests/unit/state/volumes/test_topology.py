"""Nodes that can reach a volume: as columns, and label by label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.clock import seeded_random
from mooring.objects.codec.decode import convert
from mooring.state.volumes import topology as module
from mooring.state.volumes.topology import (
    ALL_NODES,
    NO_NODES,
    NodeTopology,
    OneLabel,
    TopologyMasks,
    one_label,
    topology_of_affinity,
    topology_of_class,
    topology_of_selector,
)
from mooring.testing import cluster, make_node
from tests.plugins import volume_clusters as clusters

ZONE = "topology.kubernetes.io/zone"


def of_affinity(*terms: Any) -> NodeTopology:
    document = {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}}}}
    volume = convert({"metadata": {"name": "v"}, **document}, "PersistentVolume")
    return topology_of_affinity(volume.spec.node_affinity.required)


def of_topologies(*terms: Any) -> NodeTopology:
    document = {"metadata": {"name": "c"}, "allowedTopologies": list(terms)}
    return topology_of_class(convert(document, "StorageClass").allowed_topologies)


def of_selector(selector: Any) -> NodeTopology:
    document = {"metadata": {"name": "c", "namespace": "n"}, "nodeTopology": selector}
    return topology_of_selector(convert(document, "CSIStorageCapacity").node_topology)


def within(key: str, *values: str, operator: str = "In") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("reach", "labels", "expected"),
    [
        (ALL_NODES, {}, True),
        (NO_NODES, {ZONE: "a"}, False),
        (topology_of_affinity(None), {}, True),
        (of_affinity(), {ZONE: "a"}, False),
        (of_affinity({}), {ZONE: "a"}, False),
        (of_affinity(within(ZONE, "a"), within(ZONE, "b")), {ZONE: "b"}, True),
        (of_affinity(within(ZONE, "a", operator="Near")), {ZONE: "a"}, False),
        (of_affinity(within(ZONE, "a"), within(ZONE, operator="Bad")), {ZONE: "a"}, True),
        (of_topologies(), {}, True),
        (of_topologies({}), {ZONE: "a"}, False),
        (of_topologies({"matchLabelExpressions": [{"key": ZONE, "values": []}]}), {}, False),
        (
            of_topologies({"matchLabelExpressions": [{"key": ZONE, "values": ["a", "b"]}]}),
            {ZONE: "b"},
            True,
        ),
        (of_selector(None), {}, False),
        (of_selector({}), {}, True),
        (of_selector({"matchLabels": {ZONE: "a"}}), {ZONE: "a"}, True),
        (of_selector({"matchExpressions": [{"key": ZONE, "operator": "Bad"}]}), {}, False),
    ],
)
def test_what_is_reached(reach: NodeTopology, labels: dict[str, str], expected: bool) -> None:
    assert reach.matches(labels) is expected


def test_the_name_of_a_node_does_not_count_for_a_volume() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["somewhere-else"]}

    assert of_affinity({"matchFields": [field]}).is_everywhere
    assert of_affinity({**within(ZONE, "a"), "matchFields": [field]}).matches({ZONE: "a"})
    bad = {"key": "metadata.uid", "operator": "Exists"}
    assert not of_affinity({"matchFields": [bad]}).matches({})


@pytest.mark.parametrize(
    ("reach", "expected"),
    [
        (of_affinity(within(ZONE, "a", "b")), OneLabel(ZONE, ("a", "b"))),
        (of_affinity(within(ZONE, "a"), within(ZONE, "b")), OneLabel(ZONE, ("a", "b"))),
        (of_affinity(within(ZONE, "a"), within("rack", "b")), None),
        (of_affinity(within(ZONE, "a", operator="NotIn")), None),
        (ALL_NODES, None),
        (NO_NODES, None),
    ],
)
def test_most_reaches_ask_for_one_label(reach: NodeTopology, expected: OneLabel | None) -> None:
    assert one_label(reach) == expected


@given(st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_columns_say_what_each_node_says_after_every_change(seed: int) -> None:
    rng = seeded_random(seed)
    cache = cluster(*(clusters.node(rng, name) for name in clusters.NODES[:3]))
    reaches = TopologyMasks(cache.nodes)
    asked = [of_affinity(*clusters.terms(rng)) for _ in range(4)]
    for _ in range(4):
        rows = np.array(cache.nodes.order.rows(), dtype=np.intp)
        labels = [cache.nodes.node(row).metadata.labels for row in rows.tolist()]
        for reach in asked:
            expected = [reach.matches(each) for each in labels]
            assert reaches.mask(reach)[rows].tolist() == expected
            assert reaches.reachable_rows(reach, rows).tolist() == expected
        cache.put_node(clusters.node(rng, rng.choice(clusters.NODES)))
        if rng.random() < 0.3:
            for number in range(rng.choice((1, 80))):
                cache.put_node(clusters.node(rng, f"more-{number}"))


def test_masks_are_kept_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MASKS_MAX", 2)
    cache = cluster(clusters.node(seeded_random(1), "a"))
    reaches = TopologyMasks(cache.nodes)
    first = of_affinity(within(ZONE, "a", operator="NotIn"))

    assert reaches.mask(first) is reaches.mask(first)
    for value in "bcd":
        reaches.mask(of_affinity(within(ZONE, value, operator="NotIn")))
    assert len(reaches) == 2

    cache.put_node(clusters.node(seeded_random(2), "b"))
    reaches.mask(first)
    assert len(reaches) == 1


@pytest.mark.parametrize("operator", ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
def test_values_that_no_node_has_any_more_do_not_count(operator: str) -> None:
    cache = cluster(make_node("a", labels={"size": "3"}), make_node("b", labels={"size": "5"}))
    reaches = TopologyMasks(cache.nodes)
    values = ["4"] if operator in ("Gt", "Lt") else ["3"] if "In" in operator else []
    reach = of_affinity(within("size", *values, operator=operator))
    reaches.mask(reach)
    cache.put_node(make_node("a", labels={"size": "9"}))  # frees the code of 3
    cache.put_node(make_node("b"))
    cache.put_node(make_node("c", labels={"size": "1"}))

    for name in "abc":
        row = cache.nodes.row(name)
        expected = reach.matches(cache.nodes.node(row).metadata.labels)
        assert bool(reaches.mask(reach)[row]) is expected
        assert reaches.reachable_rows(reach, np.array([row])).tolist() == [expected]
    assert not reaches.mask(reach)[cache.nodes.size :].any() or operator in (
        "NotIn",
        "DoesNotExist",
    )
