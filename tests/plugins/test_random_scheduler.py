"""The random scheduler: seeded random numbers; plain functions as plugins."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from mooring import predicate, priority
from mooring.clock import VirtualClock, seeded_random
from mooring.plugins.contrib.random_scheduler import (
    REASON,
    RandomBinder,
    RandomPredicate,
    RandomPriority,
)
from mooring.simulation.offline import OfflineHandle
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import Harness, make_node, make_pod


class Handle(OfflineHandle):
    """Records which pods were activated."""

    def __init__(self, seed: int) -> None:
        self.time = VirtualClock()
        super().__init__(Cache(), self.time, seeded_random(seed))
        self.activated: list[str] = []

    def activate(self, *uids: str) -> None:
        self.activated += uids


def random_harness(seed: int, nodes: int = 10) -> tuple[Harness, Handle]:
    handle: Any = Handle(seed)
    plugins = [RandomPredicate(handle), RandomPriority(handle), RandomBinder(handle)]
    return Harness([make_node(f"node-{n}") for n in range(nodes)], plugins), handle


def test_about_half_of_the_nodes_pass_and_each_wins_sometimes() -> None:
    harness, _ = random_harness(1)
    passed, winners = 0, Counter[str | None]()
    for number in range(400):
        decided = harness.decide(make_pod(f"pod-{number}"))
        passed += 10 - len(decided.decision.rejected)
        winners[decided.node] += 1
    assert 1800 < passed < 2200
    assert all(20 < winners[f"node-{number}"] < 70 for number in range(10))


def test_the_same_seed_is_the_same_luck() -> None:
    def luck(seed: int) -> list[str | None]:
        harness, _ = random_harness(seed)
        return [harness.decide(make_pod(f"pod-{n}")).node for n in range(50)]

    assert luck(3) == luck(3)
    assert luck(3) != luck(4)


def test_a_pod_without_luck_is_tried_again() -> None:
    harness, handle = random_harness(0, nodes=1)
    unlucky = next(
        pod
        for pod in (make_pod(f"pod-{number}") for number in range(50))
        if harness.decide(pod).node is None
    )
    found = harness.decide(unlucky)
    while found.node is not None:
        found = harness.decide(unlucky)
    assert found.message == f"0/1 nodes are available: 1 {REASON}."

    plugin = harness.plugins[0]
    cycle, _ = harness.open(unlucky)
    answer = plugin.post_filter(cycle, harness.diagnose(unlucky))
    assert answer.status is not None
    assert handle.activated == []
    handle.time.advance(1)
    handle.call_due()
    assert handle.activated == [unlucky.metadata.uid]


def test_the_dice_have_a_hundred_sides() -> None:
    handle: Any = Handle(5)
    plugin = RandomPriority(handle)
    harness = Harness([make_node(f"node-{n}") for n in range(50)], [plugin])
    rolled = [
        score
        for number in range(100)
        for score in (harness.raw_scores(make_pod(f"pod-{number}")) or {}).values()
    ]
    assert (min(rolled), max(rolled)) == (0, 99)


def test_the_words_of_the_event() -> None:
    handle: Any = Handle(0)
    note = RandomBinder(handle).scheduled_note(PodInfo(make_pod("web", namespace="shop")), "node-3")
    assert note == "pod [shop/web] is successfully scheduled to node node-3"


def test_functions_are_plugins() -> None:
    def has_ssd(node: Any, pod: Any) -> bool:
        return bool(node.labels.get("disk") == "ssd")

    def later_is_better(node: Any, pod: Any) -> int:
        return int(node.name)

    nodes = [make_node(str(n), labels={"disk": "ssd" if n % 2 else "hdd"}) for n in range(6)]
    harness = Harness(nodes, [predicate(has_ssd), priority(later_is_better)])
    decided = harness.decide(make_pod())
    assert decided.node == "5"
    assert decided.decision.rejected["4"].reasons == ("node(s) didn't pass has_ssd",)
    assert decided.decision.rejected["4"].plugin == "has_ssd"


def test_a_function_without_a_name_needs_one() -> None:
    with pytest.raises(ValueError, match="pass name="):
        predicate(lambda _node, _pod: True)
    assert predicate(lambda _node, _pod: True, name="Always").name == "Always"


def test_all_zero_scores_still_pick_a_node() -> None:
    def nothing(node: Any, pod: Any) -> int:
        return 0

    assert Harness([make_node("a"), make_node("b")], [priority(nothing)]).decide(make_pod()).node
