"""The nodes that are evaluated in consecutive attempts with sampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mooring.clock import seeded_random
from mooring.config import loads
from mooring.framework import NodeError, NodeInfo, Reject, Status, per_node
from mooring.objects.node import Node
from mooring.simulation.driver import Driver
from mooring.simulation.outcome import Outcome
from mooring.testing import make_node, make_pod
from tests.helpers.configurations import in_vain
from tests.helpers.drivers import driver

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: {percentage}
profiles:
- schedulerName: default-scheduler
- schedulerName: thorough
  percentageOfNodesToScore: 100
- schedulerName: adaptive
  percentageOfNodesToScore: 0
"""

BAD, BROKEN = "bad", "broken"


class Labelled:
    """Refuses nodes labelled bad, and fails on those labelled broken."""

    name = "Labelled"

    @per_node
    def filter(self, pod: Any, node: NodeInfo) -> Status | None:
        if BAD in node.labels:
            return Reject("is bad")
        return NodeError("is broken") if BROKEN in node.labels else None


def nodes(count: int, kinds: dict[int, str] | None = None) -> list[Node]:
    """Returns ``count`` nodes in one zone, some labelled."""
    kinds = kinds or {}
    return [
        make_node(f"n{number:03}", labels={kinds[number]: ""} if number in kinds else None)
        for number in range(count)
    ]


def sampling(made: list[Node], percentage: int) -> Driver:
    return driver(made, Labelled(), config=loads(CONFIG.format(percentage=percentage)))


def walk(kinds: Sequence[str], start: int, enough: int) -> tuple[list[int], int]:
    """Returns (feasible, next start) of kube-scheduler's walk, one node at a time.

    It stops at the first feasible node beyond ``enough``, and at an error; only nodes with a
    status count as evaluated.
    """
    feasible: list[int] = []
    looked_at = 0
    for step in range(len(kinds)):
        at = (start + step) % len(kinds)
        if kinds[at] == BROKEN:
            break
        if kinds[at] == BAD:
            looked_at += 1
            continue
        if len(feasible) == enough:
            break
        feasible.append(at)
        looked_at += 1
    return feasible, (start + looked_at) % len(kinds)


def scored(outcome: Outcome) -> list[str]:
    total = outcome.decision().total
    assert total is not None
    return sorted(total)


def test_a_sample_goes_on_where_the_last_one_ended() -> None:
    found = sampling(nodes(250), 40)  # 40 % of 250: 100 feasible nodes are enough

    starts, lists = [], []
    for number in range(4):
        starts.append(found.next_start_index)
        lists.append(scored(found.attempt(make_pod(f"p{number}"), explain=True)))

    assert starts == [0, 100, 200, 50]
    assert lists[1] == [f"n{number:03}" for number in range(100, 200)]
    assert lists[2] == sorted(f"n{number % 250:03}" for number in range(200, 300))


@pytest.mark.parametrize("seed", range(8))
def test_every_walk_is_that_of_the_scalar_twin(seed: int) -> None:
    rng = seeded_random(seed)
    count = rng.choice((120, 150, 333))
    kinds = [rng.choice(("", "", "", BAD)) for _ in range(count)]
    found = sampling(nodes(count, {at: kind for at, kind in enumerate(kinds) if kind}), 50)
    enough, start = max(100, count // 2), 0

    for number in range(6):
        outcome = found.attempt(make_pod(f"p{number}"), explain=True)
        feasible, after = walk(kinds, start, enough)
        assert scored(outcome) == [f"n{at:03}" for at in sorted(feasible)]
        assert found.next_start_index == after
        start = after


def test_an_error_is_met_only_if_the_walk_gets_there_and_moves_the_start_as_far() -> None:
    kinds = {105: BROKEN}
    found = sampling(nodes(250, kinds), 40)
    labels = [kinds.get(number, "") for number in range(250)]

    results, start = [], 0
    for number in range(5):
        outcome = found.attempt(make_pod(f"p{number}"))
        results.append(outcome.result)
        start = walk(labels, start, 100)[1]
        assert found.next_start_index == start

    # From 100 on it looks at five nodes and fails at the sixth; from 105 on at none.
    assert results == ["scheduled", "error", "error", "error", "error"]
    assert start == 105


def test_all_nodes_are_looked_at_unless_the_user_asks_for_less() -> None:
    found = driver(nodes(250))

    outcome = found.attempt(make_pod(), explain=True)

    assert len(scored(outcome)) == 250
    assert outcome.decision().sampled is None
    assert found.next_start_index == 0


@pytest.mark.parametrize(
    ("scheduler_name", "count"),
    [("default-scheduler", 100), ("thorough", 250), ("adaptive", 250 * 48 // 100)],
)
def test_a_profile_s_own_percentage_counts_before_the_common_one(
    scheduler_name: str, count: int
) -> None:
    found = sampling(nodes(250), 10)

    outcome = found.attempt(make_pod(scheduler_name=scheduler_name), explain=True)

    assert len(scored(outcome)) == count


def test_profiles_share_one_start() -> None:
    found = sampling(nodes(250), 40)
    found.attempt(make_pod())
    outcome = found.attempt(make_pod("q", scheduler_name="adaptive"), explain=True)

    assert scored(outcome)[0] == "n100"
    assert found.next_start_index == 220


def test_a_start_that_is_given_counts_instead() -> None:
    found = sampling(nodes(250), 40)

    outcome = found.attempt(make_pod(), start_index=240, explain=True)

    assert scored(outcome) == sorted(f"n{number % 250:03}" for number in range(240, 340))
    assert found.next_start_index == 90


def test_a_pod_that_is_gated_or_nominated_moves_nothing() -> None:
    found = sampling(nodes(250), 40)
    found.attempt(make_pod())

    found.attempt(make_pod("gated", gates=["g"]))
    outcome = found.attempt(make_pod("nominated", nominated_node="n007"))

    assert outcome.node == "n007"
    assert found.next_start_index == 100


def test_the_nominated_node_counts_once_when_it_is_refused_first() -> None:
    found = sampling(nodes(120, {7: BAD}), 100)

    outcome = found.attempt(make_pod("nominated", nominated_node="n007"), explain=True)

    assert set(outcome.decision().rejected) == {"n007"}
    assert found.next_start_index == 0


def test_nodes_that_come_and_go_between_attempts_are_seen() -> None:
    found = sampling(nodes(120), 100)
    found.attempt(make_pod(), start_index=110)
    assert found.next_start_index == 110

    for number in range(100, 120):
        found.remove("Node", "", f"n{number}")
    found.update(make_node("fresh", allocatable={"cpu": "64", "memory": "256Gi"}))
    outcome = found.attempt(make_pod("q", requests={"cpu": "32"}), explain=True)

    assert outcome.node == "fresh"
    assert len(outcome.decision().rejected) == 100
    assert found.next_start_index == 110 % 101


def test_a_node_that_changes_is_judged_anew() -> None:
    found = driver([make_node("a", unschedulable=True)])
    assert found.attempt(make_pod()).node is None

    found.update(make_node("a"))
    assert found.attempt(make_pod()).node == "a"

    found.update(make_node("a", taints=["dedicated=infra:NoSchedule"]))
    assert found.attempt(make_pod()).message == (
        "0/1 nodes are available: 1 node(s) had untolerated taint(s). " + in_vain(1)
    )
    found.remove("Node", "", "a")
    assert found.attempt(make_pod()).message == "no nodes available to schedule pods"


def test_pods_that_come_and_go_between_attempts_are_counted() -> None:
    found = driver([make_node("a", allocatable={"cpu": "2"})])
    wants = make_pod("wants", requests={"cpu": "2"})

    found.update(make_pod("here", node="a", requests={"cpu": "1"}))
    assert found.attempt(wants).node is None
    found.remove("Pod", "default", "here")
    assert found.attempt(wants).node == "a"
