"""Each step's scheduler by itself: what it adds to the one before, and its edges."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import Any

import pytest

from mooring import Diagnosis, Reject
from mooring.clock import VirtualClock, seeded_random
from mooring.framework import Attempt, schedule_pod
from mooring.learn import tutorial_framework
from mooring.learn.steps import step_1, step_2, step_3, step_4, step_5, step_7
from mooring.learn.steps.step_3 import last_digit
from mooring.plugins import NodeUnschedulable
from mooring.queue import QueueName
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import check_conformance, make_node, make_pod
from tests.helpers.lesson_fixture import NAME, STEPS, Lab, in_lab, virtually, working

CORDON = "node.kubernetes.io/unschedulable"
EVENTFUL = (7, 8)


def pod_lines(found: Lab, pod: str, what: str) -> list[str]:
    return [line.detail for line in found.lines(pod, what)]


# ---- step 1: any node ----


def test_step_1_chooses_every_node_about_equally_often() -> None:
    async def play(found: Lab) -> Counter[str]:
        await found.runner.nodes(range(5))
        pod = make_pod("pod1")
        return Counter(found.scheduler.choose(pod) for _ in range(1000))

    counts = in_lab(1, play)
    assert set(counts) == {f"node{number}" for number in range(5)}
    assert min(counts.values()) > 150  # of 200; fewer would be 4 sigma off


@pytest.mark.parametrize("step", STEPS)
def test_pods_that_were_there_before_the_scheduler_are_scheduled(step: int) -> None:
    async def work() -> None:
        found = Lab(step, 0, lambda _method, _path: None)
        await found.client.create(make_node("node10"))
        for name in ("pod1", "pod2"):
            await found.client.create(make_pod(name, scheduler_name=NAME))
        async with working(found.scheduler):
            await found.runner.until_bound("pod1", "pod2")
        assert found.runner.failures == []

    virtually(work)


@pytest.mark.parametrize("step", range(1, 6))
def test_a_refused_binding_is_tried_again_a_second_later(step: int) -> None:
    left = [2]

    def fault(method: str, path: str) -> Any:
        if not path.endswith("/binding") or not left[0]:
            return None
        left[0] -= 1
        return 403, {}, b'{"kind": "Status", "message": "not now"}'

    async def play(found: Lab) -> None:
        await found.runner.nodes([10])
        await found.runner.pods("pod1")
        await asyncio.sleep(5.0)
        failed, (bound,) = found.lines("pod1", "failed"), found.lines("pod1", "bound")
        assert ["not now" in line.detail for line in failed] == [True, True]
        assert bound.time_s - failed[0].time_s == pytest.approx(2.0, abs=0.1)

    in_lab(step, play, fault=fault)


# ---- step 2: filters ----


@pytest.mark.parametrize(
    ("toleration", "cordoned", "refused"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"key": CORDON, "operator": "Exists", "effect": "NoSchedule"}, True, False),
        ({"key": CORDON, "operator": "Exists"}, True, False),
        ({"operator": "Exists"}, True, False),
        ({"key": CORDON, "operator": "Exists", "effect": "NoExecute"}, True, True),
        ({"key": "other", "operator": "Exists"}, True, True),
    ],
)
def test_step_2_refuses_cordoned_nodes_but_to_pods_that_tolerate_it(
    toleration: dict[str, str], cordoned: bool, refused: bool
) -> None:
    pod = make_pod("pod1", tolerations=[toleration] if toleration else [])
    node = make_node("node1", unschedulable=cordoned)

    assert (step_2.NodeUnschedulable().filter(pod, node) is not None) is refused


class Refuses:
    """A filter that refuses some nodes, and counts how often it is asked."""

    def __init__(self, name: str, *nodes: str) -> None:
        self.name = name
        self.nodes = nodes
        self.asked: list[str] = []

    def filter(self, pod: Any, node: Any) -> Reject | None:
        self.asked.append(node.metadata.name)
        return Reject(f"{self.name} says no") if node.metadata.name in self.nodes else None


def test_step_2_asks_no_filter_after_the_first_refusal_and_counts_reasons() -> None:
    async def play(found: Lab) -> Any:
        await found.runner.nodes(range(3))
        found.scheduler.filters = first, second
        return found.scheduler.feasible(make_pod("pod1"))

    first, second = Refuses("A", "node0", "node2"), Refuses("B", "node1")
    answer = in_lab(2, play)

    assert answer.message == "0/3 nodes are available: 2 A says no, 1 B says no."
    assert first.asked == ["node0", "node1", "node2"]
    assert second.asked == ["node1"]


# ---- step 3: scores ----


@pytest.mark.parametrize(
    ("pod", "node", "score"),
    [
        ("pod8", "node8", 10),
        ("pod8", "node9", 0),
        ("pod8", "node18", 10),
        ("pod10", "node0", 10),
        ("pod10", "node1", 0),
        ("pod", "node8", 0),
        ("pod8", "node", 0),
        ("pod", "node", 0),
    ],
)
def test_step_3_and_step_4_give_the_same_scores(pod: str, node: str, score: int) -> None:
    assert step_3.NodeNumber().score(make_pod(pod), make_node(node)) == score

    cache = Cache()
    cache.put_node(make_node(node))
    cache.put_node(make_node("other-"))  # a single node is not scored at all
    framework = tutorial_framework(
        "s", [step_4.NodeNumber()], clock=VirtualClock(), rng=seeded_random(0)
    )
    snapshot = cache.snapshot()
    attempt = Attempt(snapshot)
    schedule_pod(framework, framework.new_cycle(PodInfo(make_pod(pod)), snapshot), attempt)
    decision = attempt.decision("scheduled", node=node, diagnosis=None)
    assert decision.scores == {"NodeNumber": {node: score, "other-": 0}}


def test_a_digit_is_a_digit_and_nothing_that_only_looks_like_one() -> None:
    assert [last_digit(name) for name in ("pod٣", "pod²", "pod3")] == ["", "", "3"]


@pytest.mark.parametrize("number", [step_4.NodeNumber(), step_5.NodeNumber, step_7.NodeNumber])
def test_the_plugin_keeps_the_contract(number: Any) -> None:
    check_conformance(number)


def test_chance_is_fair_among_the_best_and_never_takes_another() -> None:
    cache = Cache()
    for name in ("node1", "node8", "node18", "node28"):
        cache.put_node(make_node(name))
    plugins = [NodeUnschedulable(), step_4.NodeNumber()]
    framework = tutorial_framework("s", plugins, clock=VirtualClock(), rng=seeded_random(1))
    chosen: Counter[str] = Counter()
    for _ in range(900):
        snapshot = cache.snapshot()
        cycle = framework.new_cycle(PodInfo(make_pod("pod8")), snapshot)
        found = schedule_pod(framework, cycle, Attempt(snapshot))
        assert not isinstance(found, Diagnosis)
        assert snapshot.nodes.names[found.row] == found.node_name
        chosen[found.node_name] += 1

    assert set(chosen) == {"node8", "node18", "node28"}
    assert min(chosen.values()) > 240


# ---- step 4: the framework, and plugins that fail ----


class Broken(step_7.NodeNumber):
    """Raises while it scores."""

    def score(self, cycle: Any, nodes: Any) -> Any:
        raise ZeroDivisionError("no luck")


@pytest.mark.parametrize("step", [4, 5, 6, 7])
def test_a_plugin_that_raises_fails_the_pod_and_is_named(step: int) -> None:
    async def play(found: Lab) -> None:
        for plugin in found.scheduler.framework.scorers:
            plugin.__class__ = Broken
        await found.runner.nodes([10, 20])
        await found.runner.pods("pod1", "pod2")
        await asyncio.sleep(0.5)
        for pod in ("pod1", "pod2"):
            detail = pod_lines(found, pod, "failed")[0]
            message, _, place = detail.partition(" (")
            assert message == 'running Score plugin "NodeNumber": ZeroDivisionError: no luck'
            assert re.fullmatch(r".*/test_steps\.py:\d+\)", place)

    in_lab(step, play)


# ---- step 5: Permit ----


class NeverAllows(step_5.NodeNumber):
    """Forgets whom it holds back."""

    def _allow(self, uid: str) -> None:
        pass


@pytest.mark.parametrize("step", [5, 6, 7])
def test_who_is_not_allowed_in_time_is_refused(step: int) -> None:
    async def play(found: Lab) -> None:
        for plugin in found.scheduler.framework.plugins("permit"):
            plugin.__class__ = NeverAllows
        await found.runner.nodes([4])
        await found.runner.pods("pod1")
        await asyncio.sleep(10.5)
        (failed,), (waiting,) = found.lines("pod1", "failed"), found.lines("pod1", "waiting")
        assert failed.time_s - waiting.time_s == pytest.approx(10.0, abs=0.1)
        reason = "rejected due to timeout after waiting 10s at plugin NodeNumber"
        assert failed.detail.endswith(f"{reason}." if "0/1" in failed.detail else reason)
        assert not list(found.scheduler.handle.waiting_pods())

    in_lab(step, play)


@pytest.mark.parametrize("step", [5, 6, 7, 8])
@pytest.mark.parametrize("number", [0, 10, 1, 9])
def test_a_node_says_how_long_a_pod_waits(step: int, number: int) -> None:
    async def play(found: Lab) -> float:
        await found.runner.nodes([number])
        await found.runner.pods("pod1")
        await found.runner.until_bound("pod1")
        return found.lines("pod1", "bound")[0].time_s - found.lines("pod1", "popped")[0].time_s

    assert in_lab(step, play) == pytest.approx(number % 10, abs=0.05)


# ---- step 6: the queue ----


@pytest.mark.parametrize("step", [6, 7, 8])
def test_the_higher_priority_goes_first(step: int) -> None:
    async def play(found: Lab) -> list[str]:
        queue = found.scheduler.queue
        for name, priority in (("low", 1), ("high", 9), ("low-too", 1)):
            queue.add(PodInfo(make_pod(name, uid=name, priority=priority)))
        return [queue.pop().pod.metadata.name for _ in range(3)]

    assert in_lab(step, play) == ["high", "low", "low-too"]


def test_step_6_leaves_an_unschedulable_pod_in_its_queue() -> None:
    async def play(found: Lab) -> None:
        await found.runner.nodes([0], cordoned=True)
        await found.runner.pods("pod1")
        await found.runner.until("pod1", "unschedulable")
        await found.runner.nodes([10])
        await asyncio.sleep(600.0)
        assert found.words("pod1", "popped") == ["popped"]
        assert found.scheduler.queue.counts()[QueueName.UNSCHEDULABLE] == 1
        assert found.scheduler.entries == {}

    in_lab(6, play)


# ---- steps 7 and 8: events ----


@pytest.mark.parametrize("step", EVENTFUL)
@pytest.mark.parametrize(
    ("patch", "wakes"),
    [
        ({"spec": {"unschedulable": False}}, True),
        ({"metadata": {"labels": {"a": "b"}}}, False),
        ({"metadata": {"annotations": {"a": "b"}}}, False),
        ({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}, False),
    ],
)
def test_only_changes_of_a_node_that_can_help_wake_a_pod(
    step: int, patch: dict[str, Any], wakes: bool
) -> None:
    async def play(found: Lab) -> bool:
        await found.runner.nodes([0], cordoned=True)
        await found.runner.pods("pod1")
        await asyncio.sleep(3.0)
        await found.client.patch("Node", "node0", patch)
        await asyncio.sleep(0.5)
        return len(found.lines("pod1", "popped")) == 2

    assert in_lab(step, play) is wakes


@pytest.mark.parametrize("step", EVENTFUL)
def test_another_cordoned_node_wakes_nobody(step: int) -> None:
    async def play(found: Lab) -> None:
        await found.runner.nodes([0], cordoned=True)
        await found.runner.pods("pod1")
        await asyncio.sleep(3.0)
        await found.runner.nodes([1], cordoned=True)
        await asyncio.sleep(0.5)
        assert found.words("pod1", "popped") == ["popped"]

    in_lab(step, play)


@pytest.mark.parametrize("step", [4, 5, 6, 7, 8])
def test_a_node_that_is_gone_takes_no_pod(step: int) -> None:
    async def play(found: Lab) -> None:
        await found.runner.nodes([10, 20])
        await found.client.delete("Node", "node20")
        await asyncio.sleep(0.1)
        names = [f"pod{number}" for number in range(20)]
        await found.runner.pods(*names)
        await found.runner.until_bound(*names)
        assert {found.event_log.node_of(f"default/{name}") for name in names} == {"node10"}

    in_lab(step, play)


def test_steps_are_grown_from_each_other() -> None:
    for step, before in ((step_2, step_1), (step_3, step_2), (step_5, step_4)):
        assert issubclass(step.Scheduler, before.Scheduler)
