"""The exercise of each step, which is checked by what the changed scheduler does."""

from __future__ import annotations

from typing import Final, NamedTuple

from mooring.learn.scenario_runner import ScenarioRunner
from mooring.learn.scenarios import Play, Scenario, names


class Exercise(NamedTuple):
    """The exercise of a step.

    Attributes:
        task: What to change, and what the scheduler should do then.
        scenario: Shows whether it does.
    """

    task: str
    scenario: Scenario


async def _three_pods(runner: ScenarioRunner) -> None:
    await runner.nodes([4, 2, 0, 1, 3])
    await runner.pods("pod1", "pod2", "pod3", "pod4")
    await runner.until_bound("pod1", "pod2", "pod3", "pod4")


async def _zero_is_rejected(runner: ScenarioRunner) -> None:
    await runner.nodes([1], cordoned=True)
    await runner.nodes([10, 20])
    await runner.pods("pod1")
    await runner.wait(3.0)
    runner.check_bound("pod1", ())
    await runner.nodes([21])
    await runner.until_bound("pod1")


async def _eight_is_cordoned(runner: ScenarioRunner) -> None:
    await runner.nodes(range(8))
    await runner.nodes([8], cordoned=True)
    await runner.nodes([9])
    await runner.pods("pod8", "pod18", "pod28", "pod5")
    await runner.until_bound("pod8", "pod18", "pod28", "pod5")


async def _without_numbers(runner: ScenarioRunner) -> None:
    await runner.nodes(range(10))
    await runner.pods("web", "api", "db", "pod3")
    await runner.until_bound("web", "api", "db", "pod3")


async def _two_seconds(runner: ScenarioRunner) -> None:
    await runner.nodes(range(10))
    await runner.pods("pod9", "pod1")
    await runner.wait(1.5)
    for pod in ("pod9", "pod1"):
        runner.check_bound(pod, ())
    await runner.wait(2.5)


def _rejected_twice(first_s: float, second_s: float) -> Play:
    """Returns a pod that no node takes, with its number of attempts after each of two waits."""

    async def events(runner: ScenarioRunner) -> None:
        await runner.nodes(range(3), cordoned=True)
        await runner.pods("pod1")
        await runner.wait(first_s)
        runner.check_attempts("pod1", 1, 1)
        await runner.wait(second_s)
        runner.check_attempts("pod1", 2)

    return events


async def _zero_waits_for_a_node(runner: ScenarioRunner) -> None:
    await runner.nodes([10])
    await runner.pods("pod1")
    await runner.wait(3.0)
    runner.check_bound("pod1", ())
    await runner.nodes([11])
    await runner.wait(5.0)


EXERCISES: Final = (
    Exercise(
        "Change Scheduler.choose: take the first node in alphabetical order.",
        Scenario("", _three_pods, {f"pod{n}": names(0) for n in (1, 2, 3, 4)}),
    ),
    Exercise(
        "Add a second filter, which rejects nodes whose names end with 0, to Scheduler.filters.",
        Scenario("", _zero_is_rejected, {"pod1": names(21)}),
    ),
    Exercise(
        "Change NodeNumber.score: a node whose number is one more than that of the pod gets 5.",
        Scenario(
            "",
            _eight_is_cordoned,
            {"pod8": names(9), "pod18": names(9), "pod28": names(9), "pod5": names(5)},
        ),
    ),
    Exercise(
        "Change NodeNumber.pre_score: a pod without a number is treated as if its number were 0.",
        Scenario(
            "",
            _without_numbers,
            {"web": names(0), "api": names(0), "db": names(0), "pod3": names(3)},
        ),
    ),
    Exercise(
        "Change NodeNumber.permit: every pod waits for two seconds, whatever its node is.",
        Scenario("", _two_seconds, {"pod9": names(9), "pod1": names(1)}),
    ),
    Exercise(
        "Change Scheduler.put_back: two seconds after a rejection, activate the pod again with "
        "self.queue.activate, although nothing has happened.",
        Scenario("", _rejected_twice(1.0, 3.5), {"pod1": ()}),
    ),
    Exercise(
        "Add a filter plugin, which rejects nodes whose names end with 0, to Scheduler.plugins. "
        "Its events are added nodes: a new node requeues a rejected pod.",
        Scenario("", _zero_waits_for_a_node, {"pod1": names(11)}),
    ),
    Exercise(
        "Change OPTIONS: an unschedulable pod is flushed after five seconds instead of five "
        "minutes.",
        Scenario("", _rejected_twice(4.0, 9.0), {"pod1": ()}),
    ),
)


def exercise(step: int) -> Exercise:
    """Returns the exercise of a step, from 1."""
    return EXERCISES[step - 1]
