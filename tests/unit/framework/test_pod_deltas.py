"""Line-ups: sums over those that have left are those of plain views without the same pods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.clock import Rng, seeded_random
from mooring.framework import NodeView
from mooring.framework import pod_deltas as module
from mooring.framework.pod_deltas import RemovedPods, VictimMatrix
from mooring.objects.selectors import selector_of_labels
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.state.tables.counters import CounterKey, CounterKeys
from mooring.testing import make_node, make_pod
from mooring.testing.harness import cluster

DATABASE = selector_of_labels({"app": "db"})
APPS = CounterKey(frozenset({"default"}), DATABASE, with_terminating=True)
RESOURCES = ("cpu", "memory", "ephemeral-storage", "example.com/gpu", "nothing")


def full_cluster(rng: Rng) -> Cache:
    objects: list[Any] = [make_node(f"n{number}") for number in range(4)]
    for number in range(rng.randint(0, 14)):
        requests = {
            "cpu": rng.choice(("0", "1", "250m")),
            "memory": rng.choice(("1", "1Gi", str(2**62))),
            "example.com/gpu": rng.choice(("0", "1", "3")),
        }
        objects.append(
            make_pod(
                f"p{number}",
                node=f"n{rng.randrange(4)}",
                requests=requests,
                labels={"app": rng.choice(("db", "web"))},
                host_ports=[1000 + number] if rng.random() < 0.5 else (),
            )
        )
    return cluster(*objects)


def lineup_of(cache: Cache, rng: Rng) -> VictimMatrix:
    """Returns some of the pods of each node, in any order."""
    rows = [[placed.slot for placed in cache.pods.on_row(row)] for row in range(4)]
    chosen = [rng.sample(slots, k=rng.randint(0, len(slots))) for slots in rows]
    width = max(map(len, chosen))
    matrix = np.full((4, width), -1, dtype=np.intp)
    for row, slots in enumerate(chosen):
        matrix[row, : len(slots)] = slots
    return VictimMatrix(cache.snapshot(), matrix)


def told(view: NodeView) -> dict[str, Any]:
    columns = {name: view.requested(name).tolist() for name in RESOURCES}
    columns["nonzero"] = [view.nonzero_requested(name).tolist() for name in ("cpu", "memory")]
    columns["pods"] = view.pod_count.tolist()
    columns["apps"] = view.change_of(APPS).tolist()
    ports = [("0.0.0.0", "TCP", 1000 + number) for number in range(0, 14, 2)]
    columns["ports"] = view.has_port_conflict(ports).tolist()
    columns["names"] = [sorted(pod.key for pod in node.pods) for node in view]
    return columns


@given(st.integers(0, 2**32))
@settings(max_examples=120, deadline=None)
def test_a_view_over_a_line_up_says_what_one_without_those_pods_says(seed: int) -> None:
    rng = seeded_random(seed)
    cache = full_cluster(rng)
    lineup, snapshot = lineup_of(cache, rng), cache.snapshot()
    extra = [(PodInfo(make_pod(f"extra-{n}", labels={"app": "db"})),) for n in range(4)]

    for _ in range(6):
        worlds = np.array(rng.sample(range(4), k=rng.randint(1, 4)), dtype=np.intp)
        view = NodeView(snapshot, worlds, removed=RemovedPods(lineup, worlds))
        gone = [lineup.removed_pods(world) for world in worlds.tolist()]
        plain = NodeView(snapshot, worlds).without(gone)

        assert told(view) == told(plain)
        added = [extra[world] for world in worlds.tolist()]
        assert told(view.plus(added)) == told(plain.plus(added))
        some = np.array([0], dtype=np.intp)
        assert told(view.subset(some)) == told(plain.subset(some))
        move(lineup, worlds, rng)


def move(lineup: VictimMatrix, worlds: Any, rng: Rng) -> None:
    """Reprieves or removes pods on these nodes."""
    if not lineup.slots.shape[1]:
        return
    rank = rng.randrange(lineup.slots.shape[1])
    here = worlds[lineup.is_pod[worlds, rank]]
    is_gone = lineup.removed[here, rank]
    lineup.reprieve(here[is_gone], rank)
    lineup.remove_victim(here[~is_gone], rank)


def test_what_left_reads_like_a_sequence() -> None:
    cache = cluster(make_node("a"), make_pod("p", node="a"), make_pod("q", node="a"))
    slots = np.array([[placed.slot for placed in cache.pods.on_row(0)]], dtype=np.intp)
    leaving = RemovedPods(VictimMatrix(cache.snapshot(), slots), np.array([0, 0], dtype=np.intp))

    names = [[pod.metadata.name for pod in pods] for pods in leaving]
    assert names == [["p", "q"], ["p", "q"]]
    assert (len(leaving), leaving[1], leaving[1:]) == (2, leaving[0], [leaving[0]])


def test_a_pod_is_asked_about_once() -> None:
    pods = [make_pod(f"p{n}", node="a", labels={"app": "db"}) for n in range(5)]
    cache = cluster(make_node("a"), *pods)
    slots = np.array([[placed.slot for placed in cache.pods.on_row(0)]], dtype=np.intp)
    lineup, asked = VictimMatrix(cache.snapshot(), slots), list[str]()

    def amount(pod: PodInfo) -> int:
        asked.append(pod.metadata.name)
        return 2

    assert lineup.sums(amount, "mine").tolist() == [10]
    assert lineup.sums(amount, "mine").tolist() == [10]
    assert len(asked) == 5


def test_amounts_of_a_column_are_summed_by_slot_and_there_are_none_beyond_its_end() -> None:
    pods = [make_pod(f"p{n}", node="a") for n in range(5)]
    cache = cluster(make_node("a"), *pods)
    slots = np.array([[placed.slot for placed in cache.pods.on_row(0)] + [-1]], dtype=np.intp)
    lineup = VictimMatrix(cache.snapshot(), slots)

    assert lineup.sums_of_column(np.array([1, 1, 0, 1]), "some").tolist() == [3]
    lineup.reprieve(np.array([0], dtype=np.intp), 0)
    assert lineup.sums_of_column(np.array([]), "some").tolist() == [2]  # the first ones are kept


def test_kinds_are_judged_once_for_all_line_ups_of_a_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    apps = ["db", "web", "db", "db", "web", "new"]
    pods = [make_pod(f"p{n}", node="a", labels={"app": app}) for n, app in enumerate(apps)]
    snapshot = cluster(make_node("a"), *pods).snapshot()
    slots = np.array([placed.slot for placed in snapshot.pods.on_row(0)], dtype=np.intp)
    judged = list[str]()
    counts = module._counts

    def noted(kinds: Any, keys: Any) -> Any:
        judged.extend(dict(kind.labels)["app"] for kind in kinds)
        return counts(kinds, keys)

    monkeypatch.setattr(module, "_counts", noted)
    known, key = (
        module.LabelClassCounts(snapshot),
        CounterKey(None, DATABASE, with_terminating=True),
    )
    of_all = [1, 0, 1, 1, 0, 0]
    for some in ([0, 1, 2], [3, 4], [4, 5, 0], []):
        assert known.of(slots[some], key).tolist() == [of_all[at] for at in some]
    twice = CounterKeys((key, key))
    assert known.of(slots, twice).tolist() == [2 * each for each in of_all]

    assert sorted(judged) == ["db", "db", "new", "new", "web", "web"]


def held(lineup: VictimMatrix) -> bool:
    world = np.array([0], dtype=np.intp)
    wanted = (("0.0.0.0", "TCP", 443),)
    return bool(lineup.has_port_conflict(wanted, world, world)[0])


def test_of_two_that_hold_a_port_the_first_to_leave_frees_it_and_either_takes_it_again() -> None:
    pods = [make_pod(name, node="a", host_ports=[443]) for name in ("stays", "one", "two")]
    cache = cluster(make_node("a"), *pods)
    by_name = {placed.info.metadata.name: placed.slot for placed in cache.pods}
    slots = np.array([[by_name["one"], by_name["two"]]], dtype=np.intp)
    lineup, world = VictimMatrix(cache.snapshot(), slots), np.array([0], dtype=np.intp)

    assert not held(lineup)
    lineup.reprieve(world, 0)
    assert held(lineup)
    lineup.reprieve(world, 1)
    lineup.remove_victim(world, 1)
    assert not held(lineup)


@pytest.mark.parametrize("with_terminating", [True, False])
@pytest.mark.parametrize("namespaces", [None, ("red",), ("red", "blue"), ()])
def test_a_key_counts_the_pods_of_its_namespaces(
    namespaces: tuple[str, ...] | None, with_terminating: bool
) -> None:
    pods = [
        make_pod(
            f"p{number}",
            node="a",
            namespace=namespace,
            labels={"app": app},
            metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"} if dying else {},
        )
        for number, (namespace, app, dying) in enumerate(
            [
                ("red", "db", False),
                ("red", "db", True),
                ("blue", "db", False),
                ("green", "db", False),
                ("red", "web", False),
            ]
        )
    ]
    snapshot = cluster(make_node("a"), *pods).snapshot()
    placed = list(snapshot.pods.on_row(0))
    slots = np.array([entry.slot for entry in placed], dtype=np.intp)
    names = None if namespaces is None else frozenset(namespaces)
    key = CounterKey(names, DATABASE, with_terminating=with_terminating)
    other = CounterKey(frozenset({"green"}), DATABASE, with_terminating=True)
    counts = module.LabelClassCounts(snapshot)

    expected = [int(key.counts(entry.info)) for entry in placed]
    assert counts.of(slots, key).tolist() == expected
    both = CounterKeys((key, other, key))
    assert counts.of(slots, both).tolist() == [
        2 * int(key.counts(entry.info)) + int(other.counts(entry.info)) for entry in placed
    ]
    assert counts.of(slots, both).tolist() == [both.counts(entry.info) for entry in placed]
