"""Attempts with extenders in a cluster of more than 100 nodes, and what is recorded of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.framework import Attempt
from mooring.scheduler.observer import Observer
from mooring.testing import make_node, make_pod
from tests.helpers.extenders import Play, away, configured, extender, keeps, names_in
from tests.helpers.preemption_fixture import pod, preempting, small
from tests.helpers.running_scheduler import run_scheduler, virtually

MANY = [make_node(f"node-{number:03}") for number in range(150)]


def sent(play: Play) -> list[list[str]]:
    """Returns the names of the nodes in each call."""
    return [names_in(arguments) for _, _, arguments in play.asked]


@pytest.mark.parametrize("fails_first", [False, True])
@virtually
async def test_each_attempt_begins_at_the_node_where_the_last_one_ended(fails_first: bool) -> None:
    """Of 150 nodes 100 are looked at, the least number; also when the extender fails."""
    play = Play(filter=away if fails_first else keeps())
    config = configured(extender(), percentageOfNodesToScore=10)
    async with run_scheduler(
        *MANY, config=config, transport_factory=play.transport_factory
    ) as life:
        await life.create(make_pod("first"))
        await life.until_seen("failed", "first")
        play.answers["filter"] = lambda arguments: {"NodeNames": names_in(arguments)}
        for name in ("second", "third"):
            await life.create(make_pod(name))
            await life.until_seen("bound", name)
    every = [f"node-{number:03}" for number in range(150)] * 2
    calls = sent(play)
    assert len(calls) >= 3
    for number, names in enumerate(calls):
        begin = 100 * number % 150
        assert sorted(names) == sorted(every[begin : begin + 100])


class Decisions(Observer):
    """Keeps the decision of each attempt that has failed."""

    def __init__(self) -> None:
        self.made: list[Any] = []

    def attempted(self, entry: Any, attempt: Attempt, result: Any) -> None:
        if getattr(result, "node_name", None) is None:
            decision = attempt.decision("unschedulable", node=None, diagnosis=result)
            self.made.append((entry.pod.metadata.name, decision.preemption))


@pytest.mark.parametrize("with_extender", [True, False])
@virtually
async def test_what_preemption_has_chosen_is_part_of_the_decision(with_extender: bool) -> None:
    decisions, play = Decisions(), Play()
    options: dict[str, Any] = {"instant_deletion": True}
    if with_extender:
        options |= {
            "config": configured(extender("one", "filter", "preempt")),
            "transport_factory": play.transport_factory,
        }
    async with preempting(small("a"), small("b"), **options) as life:
        await life.create(pod("old"), pod("top", "top"))
        await life.settle()
        setattr(life.observer, "attempted", decisions.attempted)  # noqa: B010 - a method, for mypy
        await life.create(pod("new", "high"))
        await life.until_seen("bound", "new")
        old = (await life.client.list("Pod", "default")).items
        assert [it.metadata.name for it in old] == ["new", "top"]
    name, preemption = decisions.made[0]
    assert (name, preemption.victims) == ("new", ("default/old",))
    assert list(preemption.candidates) == [preemption.nominated]
    assert preemption.candidates[preemption.nominated].victims == ("default/old",)


@virtually
async def test_without_a_preemption_there_is_none_in_the_decision() -> None:
    decisions = Decisions()
    async with preempting(small("a")) as life:
        setattr(life.observer, "attempted", decisions.attempted)  # noqa: B010 - a method, for mypy
        await life.create(pod("big", "polite", cpu="9"))
        await life.until_seen("failed", "big")
    assert decisions.made[0][0] == "big"
    assert decisions.made[0][1] is None or decisions.made[0][1].victims == ()


@virtually
async def test_a_change_elsewhere_does_not_repeat_a_preemption_whose_victims_are_there() -> None:
    play = Play()
    config = configured(extender("one", "filter", "preempt"))
    async with preempting(config=config, transport_factory=play.transport_factory) as life:
        await life.create(pod("old"))
        await life.settle()

        async def change(_: str, verb: str) -> None:
            if verb == "preempt":
                await life.create(make_pod("elsewhere", scheduler_name="other"))
                await asyncio.sleep(1)  # until the watch has reported it

        play.think = change
        await life.create(pod("new", "high"))
        await life.until_seen("failed", "new")
        assert play.verbs().count("one.preempt") == 1
        assert life.observer.names("attempted").count("new") == 1
