"""Decisions in which extenders have a say: what they are asked, and what their answers do.

The words are those of kube-scheduler v1.36.3 (pkg/scheduler/schedule_one.go, extender.go).
"""

from __future__ import annotations

from typing import Any

import pytest

from mooring.clock import seeded_random
from mooring.decision import ExtenderCall
from mooring.framework import Attempt
from mooring.queue import QueueName
from mooring.scheduler.observer import Observer
from mooring.testing import make_node, make_pod
from tests.helpers.extenders import (
    NODES,
    Play,
    away,
    configured,
    extender,
    keeps,
    names_in,
    posted,
    scores,
)
from tests.helpers.running_scheduler import run_scheduler, virtually

# ---- filter ----


@virtually
async def test_a_pod_goes_to_the_node_that_an_extender_leaves() -> None:
    play = Play(filter=keeps("b"))
    async with run_scheduler(
        *NODES, config=configured(extender()), transport_factory=play.transport_factory
    ) as life:
        await life.create(make_pod("web"))
        await life.settle()
        assert await life.node_of("web") == "b"
    ((_, _, asked),) = play.asked
    assert asked["NodeNames"] == ["a", "b", "c"]
    assert asked["Nodes"] is None
    assert play.limits == [16 << 20]


@virtually
async def test_extenders_filter_one_after_another_those_that_may_be_ignored_last() -> None:
    config = configured(
        extender("ignorable", ignorable=True), extender("first"), extender("second")
    )
    play = Play(first_filter=keeps("a", "b"), second_filter=keeps("b", "c"))
    async with run_scheduler(
        *NODES, config=config, transport_factory=play.transport_factory
    ) as life:
        await life.create(make_pod("web"))
        await life.settle()
        assert await life.node_of("web") == "b"
    asked = [(name, names_in(arguments)) for name, _, arguments in play.asked]
    assert asked == [("first", ["a", "b", "c"]), ("second", ["a", "b"]), ("ignorable", ["b"])]


@virtually
async def test_only_nodes_that_the_plugins_let_pass_are_sent() -> None:
    play = Play()
    small = make_node("small", allocatable={"cpu": "1"})
    config = configured(extender())
    async with run_scheduler(
        small, *NODES, config=config, transport_factory=play.transport_factory
    ) as life:
        await life.create(make_pod("web", requests={"cpu": "2"}))
        await life.settle()
    assert names_in(play.asked[0][2]) == ["a", "b", "c"]


@virtually
async def test_what_an_extender_says_of_nodes_is_in_the_message() -> None:
    play = Play(
        filter=lambda _: {
            "FailedNodes": {"a": "too hot", "b": "too hot", "elsewhere": "not sent"},
            "FailedAndUnresolvableNodes": {"b": "no such chip"},
        }
    )
    small = make_node("small", allocatable={"cpu": "1"})
    async with run_scheduler(
        small, *NODES, config=configured(extender()), transport_factory=play.transport_factory
    ) as life:
        await life.create(make_pod("web", requests={"cpu": "2"}))
        await life.settle()
        condition = await life.condition("web")
        told = "0/4 nodes are available: 1 Insufficient cpu, 1 no such chip, 1 too hot. "
        why = "preemption: 0/4 nodes are available: 1 No preemption victims found for incoming pod"
        assert condition["message"].startswith(told)
        assert why in condition["message"]
        entry = life.service.queue.get((await life.raw("web"))["metadata"]["uid"])
        assert entry is not None
        assert set(entry.unschedulable_plugins) == {"NodeResourcesFit", "Extender"}


@virtually
async def test_if_an_extender_leaves_no_node_any_event_wakes_the_pod() -> None:
    play = Play(filter=keeps())
    async with run_scheduler(
        *NODES, config=configured(extender()), transport_factory=play.transport_factory
    ) as life:
        await life.create(make_pod("web"))
        await life.settle()
        entry = life.service.queue.get((await life.raw("web"))["metadata"]["uid"])
        assert entry is not None
        assert entry.queue_name is QueueName.UNSCHEDULABLE
        assert set(entry.unschedulable_plugins) == {"Extender"}
        play.answers["filter"] = keeps("c")
        # A pod elsewhere that goes is no reason for any plugin.
        await life.create(make_pod("other", node="a"))
        await life.until_seen("bound", "web")
        assert await life.node_of("web") == "c"


@virtually
async def test_an_extender_that_fails_fails_the_attempt() -> None:
    play = Play(filter=away)
    async with run_scheduler(
        *NODES, config=configured(extender()), transport_factory=play.transport_factory
    ) as life:
        await life.create(make_pod("web"))
        await life.until_seen("failed", "web")
        condition = await life.condition("web")
        assert condition["reason"] == "SchedulerError"
        assert condition["message"] == 'Post "http://one/filter": no answer in 5 s'
        play.answers.clear()
        await life.until_seen("bound", "web")


@virtually
async def test_an_extender_that_fails_and_may_be_ignored_is_as_if_it_were_not_there() -> None:
    config = configured(extender(ignorable=True), extender("two"))
    play = Play(one_filter=away, two_filter=keeps("c"))
    async with run_scheduler(
        *NODES, config=config, transport_factory=play.transport_factory
    ) as life:
        await life.create(make_pod("web"))
        await life.settle()
        assert await life.node_of("web") == "c"


WRONG = [
    ({"Error": "no idea"}, "no idea"),
    (
        {"NodeNames": ["a", "moon"]},
        'extender "http://one" claims a filtered node "moon" which is not found in the input'
        " node list",
    ),
    (b"<html>", "its answer cannot be read: JSON is malformed: invalid character (byte 0)"),
    ([], "its answer cannot be read: Expected `object | null`, got `array`"),
]


@pytest.mark.parametrize(("answer", "told"), WRONG)
def test_answers_that_cannot_be_used_fail_the_attempt(answer: Any, told: str) -> None:
    @virtually
    async def fails() -> None:
        play = Play(filter=lambda _: answer)
        async with run_scheduler(
            *NODES, config=configured(extender()), transport_factory=play.transport_factory
        ) as life:
            await life.create(make_pod("web"))
            await life.until_seen("failed", "web")
            assert life.observer.of("failed")[0][2] == told
            play.answers.clear()

    fails()


@virtually
async def test_pods_that_do_not_ask_for_what_it_manages_are_not_sent() -> None:
    managed = [{"name": "example.com/chip", "ignoredByScheduler": True}]
    play = Play(filter=keeps("b"))
    config = configured(extender(managedResources=managed))
    async with run_scheduler(
        *NODES, config=config, transport_factory=play.transport_factory
    ) as life:
        await life.create(make_pod("plain"))
        await life.settle()
        assert play.asked == []
        # No node has any of it; that is for the extender to judge.
        amount = {"example.com/chip": "1"}
        await posted(life, "chip", resources={"requests": amount, "limits": amount})
        await life.settle()
        assert await life.node_of("chip") == "b"
    assert play.verbs() == ["one.filter"]


@virtually
async def test_a_nominated_node_is_asked_about_alone_first() -> None:
    play = Play(filter=lambda arguments: {"FailedNodes": dict.fromkeys(names_in(arguments), "no")})
    async with run_scheduler(
        *NODES, config=configured(extender()), transport_factory=play.transport_factory
    ) as life:
        await life.create(make_pod("web"))
        await life.until_seen("failed", "web")
        play.asked.clear()
        play.answers["filter"] = keeps("a", "b")
        status = {"status": {"nominatedNodeName": "b"}}
        await life.client.patch("Pod", "web", status, namespace="default", subresource="status")
        await life.until_seen("bound", "web")
        assert await life.node_of("web") == "b"
    assert [names_in(arguments) for _, _, arguments in play.asked] == [["b"]]


# ---- prioritize ----


@virtually
async def test_scores_count_times_weight_times_ten() -> None:
    # The plugins' scores are at most 100 times their weights: 1 x 9 x 10 = 90 is decided by them.
    config = configured(extender("one", "prioritize", weight=9))
    full = make_pod("full", node="c", requests={"cpu": "16"})
    nodes = [make_node(name, allocatable={"cpu": "32", "memory": "64Gi"}) for name in "abc"]
    calls = Calls()
    play = Play(prioritize=scores(c=1))
    async with run_scheduler(
        *nodes, full, config=config, transport_factory=play.transport_factory
    ) as life:
        setattr(life.observer, "attempted", calls.attempted)  # noqa: B010 - a method, for mypy
        await life.create(make_pod("web"))
        await life.until(lambda: calls.decisions)
    (decision,) = calls.decisions
    assert decision.total is not None
    assert decision.scores is not None
    weights = {"TaintToleration": 3, "NodeAffinity": 2, "PodTopologySpread": 2}
    weights["InterPodAffinity"] = 2
    for node in "abc":
        own = sum(
            by_node[node] * weights.get(plugin, 1) for plugin, by_node in decision.scores.items()
        )
        assert decision.total[node] == own + (90 if node == "c" else 0)
    assert decision.extenders == (ExtenderCall("http://one", scores={"a": 0, "b": 0, "c": 1}),)


class Calls(Observer):
    """Keeps decisions."""

    def __init__(self) -> None:
        self.decisions: list[Any] = []

    def attempted(self, entry: Any, attempt: Attempt, found: Any) -> None:
        name = getattr(found, "node_name", None)
        diagnosis = found if name is None else None
        outcome = "scheduled" if name else "unschedulable"
        self.decisions.append(attempt.decision(outcome, node=name, diagnosis=diagnosis))


@virtually
async def test_all_extenders_are_asked_for_scores_at_once() -> None:
    config = configured(extender("one", "prioritize"), extender("two", "prioritize", weight=50))
    play = Play(one_prioritize=scores(a=10), two_prioritize=scores(c=10))
    thinking: set[str] = set()

    async def think(name: str, _: str) -> None:
        thinking.add(name)
        await life.until(lambda: thinking == {"one", "two"})

    play.think = think
    async with run_scheduler(
        *NODES, config=config, transport_factory=play.transport_factory
    ) as life:
        await life.create(make_pod("web"))
        await life.settle()
        assert await life.node_of("web") == "c"


@pytest.mark.parametrize(
    "answer",
    [
        [{"Host": "c", "Score": 2**63}],
        [{"Host": "c", "Score": -(2**63) - 1}],
        [{"Host": "c", "Score": 2.5}],
        [{"Host": "c", "Score": True}],
        b'[{"Host": "c", "Score": NaN}]',
        b"{}",
        {"Error": "what?"},
    ],
)
def test_scores_that_make_no_sense_count_for_nothing(answer: Any) -> None:
    @virtually
    async def decides() -> None:
        config = configured(
            extender("one", "prioritize", weight=1000), extender("two", "prioritize", weight=50)
        )
        play = Play(one_prioritize=lambda _: answer, two_prioritize=scores(b=10))
        async with run_scheduler(
            *NODES, config=config, transport_factory=play.transport_factory
        ) as life:
            await life.create(make_pod("web"))
            await life.settle()
            assert await life.node_of("web") == "b"

    decides()


@virtually
async def test_of_equal_nodes_one_is_drawn() -> None:
    found = set()
    play = Play()
    config = configured(extender("one", "prioritize"))
    async with run_scheduler(
        *NODES, config=config, transport_factory=play.transport_factory
    ) as life:
        for number in range(12):
            await life.create(make_pod(f"web-{number}"))
            await life.settle()
            found.add(await life.node_of(f"web-{number}"))
            await life.delete(f"web-{number}")
            await life.settle()
    assert found == {"a", "b", "c"}
    rng = seeded_random(0)
    assert len({int(rng.random() * 3) for _ in range(12)}) == 3


@virtually
async def test_if_one_node_is_left_nobody_is_asked_for_scores() -> None:
    play = Play(filter=keeps("b"))
    config = configured(extender("one", "filter", "prioritize"))
    async with run_scheduler(
        *NODES, config=config, transport_factory=play.transport_factory
    ) as life:
        await life.create(make_pod("web"))
        await life.settle()
    assert play.verbs() == ["one.filter"]
