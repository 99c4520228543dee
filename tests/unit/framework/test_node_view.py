"""NodeView: the columns of hypothetical nodes equal those of plain objects and of real nodes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.clock import seeded_random
from mooring.framework import NodeView
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import cluster, make_node, make_pod
from mooring.testing.random_cluster import EXTENDED, KEYS, random_objects, random_pod

RESOURCES = ("cpu", "memory", "ephemeral-storage", EXTENDED, "example.com/nobody-has-this")


def columns(view: NodeView) -> dict[str, list[object]]:
    """Returns all columns of a view, by name."""
    found: dict[str, list[object]] = {
        "names": list(view.names),
        "pod_count": view.pod_count.tolist(),
        "allowed_pods": view.allowed_pods.tolist(),
        "unschedulable": view.unschedulable.tolist(),
        "taints": [view.taint_sets[index] for index in view.taint_ids.tolist()],
        "ports": view.has_port_conflict([("0.0.0.0", "TCP", 80)]).tolist(),
        "cpu, nonzero": view.nonzero_requested("cpu").tolist(),
        "memory, nonzero": view.nonzero_requested("memory").tolist(),
    }
    for resource in RESOURCES:
        found[f"{resource}, all"] = view.allocatable(resource).tolist()
        found[f"{resource}, used"] = view.requested(resource).tolist()
    for key in KEYS:
        codes, column = view.label(key)
        found[f"label {key}"] = [
            None if code < 0 else column.values.value(code) for code in codes.tolist()
        ]
    return found


def scalars(view: NodeView) -> dict[str, list[object]]:
    """Returns the same, from plain objects."""
    infos = list(view)
    found: dict[str, list[object]] = {
        "names": [info.name for info in infos],
        "pod_count": [info.pod_count for info in infos],
        "allowed_pods": [info.allowed_pods for info in infos],
        "unschedulable": [info.unschedulable for info in infos],
        "taints": [info.taints for info in infos],
        "ports": [any(port == 80 for _, _, port in info.used_ports()) for info in infos],
        "cpu, nonzero": [info.nonzero_requested()[0] for info in infos],
        "memory, nonzero": [info.nonzero_requested()[1] for info in infos],
    }
    for resource in RESOURCES:
        found[f"{resource}, all"] = [info.allocatable(resource) for info in infos]
        found[f"{resource}, used"] = [info.requested(resource) for info in infos]
    for key in KEYS:
        found[f"label {key}"] = [info.labels.get(key) for info in infos]
    return found


def world(seed: int) -> tuple[Cache, NodeView, list[tuple[PodInfo, ...]]]:
    """Returns a random cluster, all its nodes, and a pod to add to each of them."""
    rng = seeded_random(seed)
    cache = cluster(*random_objects(rng))
    view = NodeView.all_nodes(cache.snapshot())
    extra: list[tuple[PodInfo, ...]] = [
        (PodInfo(random_pod(rng, f"extra-{i}")),) for i in range(len(view))
    ]
    return cache, view, extra


@given(st.integers(0, 10_000))
def test_columns_say_what_the_plain_objects_say(seed: int) -> None:
    _, view, extra = world(seed)

    for each in (view, view.plus(extra), view.plus(extra).without(extra)):
        assert columns(each) == scalars(each)
    assert columns(view.plus(extra).without(extra)) == columns(view)


@given(st.integers(0, 10_000))
def test_a_world_with_pods_added_is_the_cluster_with_those_pods(seed: int) -> None:
    cache, view, extra = world(seed)
    imagined = columns(view.plus(extra))

    for name, (pod,) in zip(view.names, extra, strict=True):
        cache.put_pod(pod.on_node(name).pod)

    assert imagined == columns(NodeView.all_nodes(cache.snapshot()))


@given(st.integers(0, 10_000))
def test_a_world_with_pods_removed_is_the_cluster_without_them(seed: int) -> None:
    cache, view, _ = world(seed)
    victims = [tuple(p.info for p in cache.pods.on_row(row)[:1]) for row in view.rows.tolist()]
    imagined = columns(view.without(victims))

    for pods in victims:
        for pod in pods:
            cache.remove_pod(pod.uid)

    assert imagined == columns(NodeView.all_nodes(cache.snapshot()))


@given(st.integers(0, 10_000), st.lists(st.integers(0, 7), max_size=10))
def test_where_picks_worlds_in_the_order_asked_for_also_twice(seed: int, chosen: list[int]) -> None:
    _, view, extra = world(seed)
    larger = view.plus(extra)

    picked = larger.subset(np.array(chosen, dtype=np.intp))

    everything = columns(larger)
    assert columns(picked) == {
        name: [values[at] for at in chosen] for name, values in everything.items()
    }


def test_dead_rows_are_not_part_of_everything() -> None:
    cache = cluster(make_node("a"), make_node("b"), make_node("c"))
    cache.remove_node("b")

    assert NodeView.all_nodes(cache.snapshot()).names == ["a", "c"]


def test_what_a_view_hands_out_cannot_be_written() -> None:
    view = NodeView.all_nodes(cluster(make_node("a")).snapshot())

    for column in (view.allocatable("cpu"), view.requested("nothing"), view.taint_ids):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


def test_an_image_is_known_with_its_size_and_spread() -> None:
    cache = cluster(make_node("a", images={"web:1": 7}), make_node("b"))
    view = NodeView.all_nodes(cache.snapshot())

    size_bytes, spread, is_here = view.image("web:1")
    assert (size_bytes, spread, is_here.tolist()) == (7, 1, [True, False])
    assert view.image("db:1")[2].tolist() == [False, False]
    assert view.info(0).images() == {"web:1": (7, 1)}


def test_a_node_info_reads_like_the_node() -> None:
    cache = cluster(
        make_node("a", annotations={"k": "v"}, allocatable={"cpu": "2"}),
        make_pod("p", requests={"cpu": "500m"}, node="a"),
    )
    info = NodeView.all_nodes(cache.snapshot()).info(0)

    assert (info.free("cpu"), info.node_count) == (1500, 1)
    assert info.annotations == {"k": "v"}
    assert [pod.metadata.name for pod in info.pods] == ["p"]
    assert repr(info) == "NodeInfo(a)"


@pytest.mark.parametrize(
    "resources",
    [
        RESOURCES,
        RESOURCES[::-1],
        ("memory", "ephemeral-storage"),
        ("cpu", EXTENDED),
        ("example.com/nobody-has-this", "cpu"),
        ("memory",),
        (),
    ],
)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=10)
def test_the_lines_of_several_resources_are_those_of_each(
    resources: tuple[str, ...], seed: int
) -> None:
    _, view, extra = world(seed)
    some = view.subset(np.arange(len(view) - 1, -1, -2))
    for part in (view, some, view.plus(extra), view.plus(extra).subset(np.arange(len(view))[::-1])):
        for lines, line in (
            (part.allocatables(resources), part.allocatable),
            (part.requesteds(resources), part.requested),
        ):
            assert lines.shape == (len(resources), len(part))
            assert lines.tolist() == [line(name).tolist() for name in resources]
            assert not lines.flags.writeable
        scored = [name for name in resources if name in ("cpu", "memory")]
        lines = part.nonzero_requesteds(scored)
        assert lines.tolist() == [part.nonzero_requested(name).tolist() for name in scored]
