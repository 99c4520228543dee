"""The scenario of each step, and the expected node of each pod.

The scenarios are those of two teaching schedulers, nakamasato's and sanposhiho's, both called
mini-kube-scheduler. Where theirs have a race, these wait for the event: random outcomes
depend only on the seed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from mooring.learn.scenario_runner import ScenarioRunner

VARIANTS: Final = ("nakamasato", "sanposhiho")

Play = Callable[[ScenarioRunner], Awaitable[None]]


class Scenario(NamedTuple):
    """The scenario of a lesson.

    Attributes:
        about: Description for the user.
        play: Runs the scenario.
        ends: Pod -> the nodes that it may be on at the end; empty = it must have no node.
    """

    about: str
    play: Play
    ends: Mapping[str, tuple[str, ...]]


def names(*numbers: int) -> tuple[str, ...]:
    """Returns the nodes' names."""
    return tuple(f"node{number}" for number in numbers)


# ---- one pod, ten or eleven nodes ----


async def _ten_nodes(runner: ScenarioRunner) -> None:
    await runner.nodes(range(10))
    await runner.pods("pod1")
    await runner.until_bound("pod1")


async def _one_is_open(runner: ScenarioRunner) -> None:
    await runner.nodes(range(10), cordoned=True)
    await runner.nodes([10])
    await runner.pods("pod1")
    await runner.until_bound("pod1")


# ---- two pods: scores and permits ----


async def _half_is_open(runner: ScenarioRunner) -> None:
    await runner.nodes(range(5), cordoned=True)
    await runner.nodes(range(5, 10))
    await runner.pods("pod1", "pod8")
    await runner.until_bound("pod1", "pod8")


async def _one_and_three(runner: ScenarioRunner) -> None:
    await runner.nodes(range(10))
    await runner.pods("pod1", "pod3")
    await runner.until_bound("pod1", "pod3")


async def _one_and_nine(runner: ScenarioRunner) -> None:
    await runner.nodes(range(10))
    await runner.pods("pod1", "pod9")
    await runner.wait(4.0)
    runner.check_bound("pod1", names(1))
    runner.check_bound("pod9", ())
    await runner.until_bound("pod9")


# ---- nodes that come later ----


async def _none_is_open(runner: ScenarioRunner) -> None:
    await runner.nodes(range(9), cordoned=True)
    await runner.pods("pod1")
    await runner.wait(3.0)
    runner.check_bound("pod1", ())


async def _one_opens(runner: ScenarioRunner) -> None:
    await _none_is_open(runner)
    await runner.nodes([10])
    await runner.until_bound("pod1")


async def _five_come(runner: ScenarioRunner) -> None:
    """Rejects and requeues pod1; only node5 is feasible for pod8; then adds the other nodes."""
    await runner.nodes(range(5), cordoned=True)
    await runner.pods("pod1")
    await runner.until("pod1", "unschedulable", "failed")
    await runner.nodes([5])
    await runner.until("pod1", "backoff")
    await runner.pods("pod8")
    await runner.until("pod8", "waiting")
    await runner.nodes(range(6, 10))


async def _five_come_without_flush(runner: ScenarioRunner) -> None:
    await _five_come(runner)
    await runner.until_bound("pod8")
    await runner.wait(10.0)


async def _five_come_and_both_are_bound(runner: ScenarioRunner) -> None:
    await _five_come(runner)
    await runner.until_bound("pod8", "pod1")


_TEN = Scenario(
    "Ten nodes are created, node0 to node9, and then pod1. It may go to any of them.",
    _ten_nodes,
    {"pod1": names(*range(10))},
)
_ELEVEN = Scenario(
    "Ten cordoned nodes are created, then node10, and then pod1. Only node10 is feasible.",
    _one_is_open,
    {"pod1": names(10)},
)
_HALF = "node0 to node4 are cordoned, node5 to node9 are not. Then pod1 and pod8 are created. "
_NODE8 = {"pod8": names(8), "pod1": names(5, 6, 7, 8, 9)}
_THREE = Scenario(
    "Ten nodes are created, and then pod1 and pod3. Each has a node with its own number.",
    _one_and_three,
    {"pod1": names(1), "pod3": names(3)},
)
_NINE = Scenario(
    "Ten nodes are created, and then pod1 and pod9. After four seconds pod1 must be bound, and "
    "pod9 not yet: it waits for nine.",
    _one_and_nine,
    {"pod1": names(1), "pod9": names(9)},
)
_LATER = (
    "node0 to node4 are cordoned. pod1 is created and rejected by all of them. Then node5 is "
    "created, which requeues pod1: it backs off. pod8 is created; only node5 is feasible for it. "
    "Then node6 to node9 are created. "
)
_OPENS = Scenario(
    "node0 to node8 are cordoned. pod1 is created and rejected by all of them. After three seconds "
    "node10 is created, which requeues it.",
    _one_opens,
    {"pod1": names(10)},
)

SCENARIOS: Final[Mapping[str, tuple[Scenario, ...]]] = {
    "nakamasato": (
        _TEN,
        _ELEVEN,
        Scenario(f"{_HALF}pod8 prefers node8; pod1 has no preference.", _half_is_open, _NODE8),
        Scenario(f"{_HALF}The result is the same as in step 3.", _half_is_open, _NODE8),
        Scenario(
            f"{_HALF}pod8 waits for eight seconds, and pod1 for as many as the number of its node.",
            _half_is_open,
            _NODE8,
        ),
        Scenario(
            f"{_HALF}The result is the same as in step 5: both pods get a node, so none is "
            "unschedulable. (--variant sanposhiho has an unschedulable pod.)",
            _half_is_open,
            _NODE8,
        ),
        Scenario(
            f"{_LATER}No timer runs yet, so pod1 stays in backoff.",
            _five_come_without_flush,
            {"pod8": names(5), "pod1": ()},
        ),
        Scenario(
            f"{_LATER}When its backoff of one second is over, pod1 is retried.",
            _five_come_and_both_are_bound,
            {"pod8": names(5), "pod1": names(5, 6, 7, 8, 9)},
        ),
    ),
    "sanposhiho": (
        _TEN,
        _ELEVEN,
        _THREE,
        _THREE,
        _NINE,
        Scenario(
            "node0 to node8 are cordoned. pod1 is created, and all of them reject it.",
            _none_is_open,
            {"pod1": ()},
        ),
        _OPENS,
        _OPENS._replace(
            about=f"{_OPENS.about} (sanposhiho's ends with step 7; this is the same scenario.)"
        ),
    ),
}
