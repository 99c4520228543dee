"""What is done to each scheduler, and where its pods must end.

Two teaching schedulers come in steps like these: nakamasato's and sanposhiho's, both called
mini-kube-scheduler. The scenarios are theirs. Where theirs depend on who is faster, here it is
waited for: outcomes that are left to chance are left to the seed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from mooring.learn.scenario_runner import Stage

VARIANTS: Final = ("nakamasato", "sanposhiho")

Play = Callable[[Stage], Awaitable[None]]


class Scenario(NamedTuple):
    """What happens in a lesson.

    Attributes:
        about: What is about to happen, for people.
        play: Does it.
        ends: Pod -> the nodes that it may be on at the end; none = it must have no node.
    """

    about: str
    play: Play
    ends: Mapping[str, tuple[str, ...]]


def names(*numbers: int) -> tuple[str, ...]:
    """Returns the nodes' names."""
    return tuple(f"node{number}" for number in numbers)


# ---- one pod, ten or eleven nodes ----


async def _ten_nodes(stage: Stage) -> None:
    await stage.nodes(range(10))
    await stage.pods("pod1")
    await stage.until_bound("pod1")


async def _one_is_open(stage: Stage) -> None:
    await stage.nodes(range(10), cordoned=True)
    await stage.nodes([10])
    await stage.pods("pod1")
    await stage.until_bound("pod1")


# ---- two pods: scores and permits ----


async def _half_is_open(stage: Stage) -> None:
    await stage.nodes(range(5), cordoned=True)
    await stage.nodes(range(5, 10))
    await stage.pods("pod1", "pod8")
    await stage.until_bound("pod1", "pod8")


async def _one_and_three(stage: Stage) -> None:
    await stage.nodes(range(10))
    await stage.pods("pod1", "pod3")
    await stage.until_bound("pod1", "pod3")


async def _one_and_nine(stage: Stage) -> None:
    await stage.nodes(range(10))
    await stage.pods("pod1", "pod9")
    await stage.wait(4.0)
    stage.check_bound("pod1", names(1))
    stage.check_bound("pod9", ())
    await stage.until_bound("pod9")


# ---- nodes that come later ----


async def _none_is_open(stage: Stage) -> None:
    await stage.nodes(range(9), cordoned=True)
    await stage.pods("pod1")
    await stage.wait(3.0)
    stage.check_bound("pod1", ())


async def _one_opens(stage: Stage) -> None:
    await _none_is_open(stage)
    await stage.nodes([10])
    await stage.until_bound("pod1")


async def _five_come(stage: Stage) -> None:
    """pod1 is refused and woken; pod8 sees node5 alone; the other nodes come after that."""
    await stage.nodes(range(5), cordoned=True)
    await stage.pods("pod1")
    await stage.until("pod1", "parked", "failed")
    await stage.nodes([5])
    await stage.until("pod1", "backoff")
    await stage.pods("pod8")
    await stage.until("pod8", "waiting")
    await stage.nodes(range(6, 10))


async def _five_come_and_nobody_flushes(stage: Stage) -> None:
    await _five_come(stage)
    await stage.until_bound("pod8")
    await stage.wait(10.0)


async def _five_come_and_both_are_bound(stage: Stage) -> None:
    await _five_come(stage)
    await stage.until_bound("pod8", "pod1")


_TEN = Scenario(
    "Ten nodes are created, node0 to node9, and then pod1. It may go to any of them.",
    _ten_nodes,
    {"pod1": names(*range(10))},
)
_ELEVEN = Scenario(
    "Ten cordoned nodes are created, then node10, and then pod1. Only node10 takes it.",
    _one_is_open,
    {"pod1": names(10)},
)
_HALF = "node0 to node4 are cordoned, node5 to node9 are not. Then come pod1 and pod8. "
_NODE8 = {"pod8": names(8), "pod1": names(5, 6, 7, 8, 9)}
_THREE = Scenario(
    "Ten nodes are created, and then pod1 and pod3. Each has a node with its own number.",
    _one_and_three,
    {"pod1": names(1), "pod3": names(3)},
)
_NINE = Scenario(
    "Ten nodes are created, and then pod1 and pod9. After four seconds pod1 must be on its node, "
    "and pod9 not yet: it waits for nine.",
    _one_and_nine,
    {"pod1": names(1), "pod9": names(9)},
)
_LATER = (
    "node0 to node4 are cordoned. pod1 comes, and is refused by all of them. Then node5 is "
    "created, which wakes pod1: it backs off. pod8 comes, and finds no other node than node5. Then "
    "node6 to node9 are created. "
)
_OPENS = Scenario(
    "node0 to node8 are cordoned. pod1 comes, and is refused by all of them. After three seconds "
    "node10 is created, which wakes it.",
    _one_opens,
    {"pod1": names(10)},
)

SCENARIOS: Final[Mapping[str, tuple[Scenario, ...]]] = {
    "nakamasato": (
        _TEN,
        _ELEVEN,
        Scenario(f"{_HALF}pod8 likes node8; pod1 likes all of them.", _half_is_open, _NODE8),
        Scenario(f"{_HALF}All is as in step 3, and should be.", _half_is_open, _NODE8),
        Scenario(
            f"{_HALF}pod8 waits for eight seconds, and pod1 for as many as its node says.",
            _half_is_open,
            _NODE8,
        ),
        Scenario(
            f"{_HALF}The outcome is as in step 5: all of them find a node, so nobody is parked. "
            "(--variant sanposhiho shows a pod that is.)",
            _half_is_open,
            _NODE8,
        ),
        Scenario(
            f"{_LATER}Nobody looks at the clock yet, so pod1 backs off for ever.",
            _five_come_and_nobody_flushes,
            {"pod8": names(5), "pod1": ()},
        ),
        Scenario(
            f"{_LATER}When its second of backoff is over, pod1 is tried again.",
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
            "node0 to node8 are cordoned. pod1 comes, is refused by all of them, and is parked.",
            _none_is_open,
            {"pod1": ()},
        ),
        _OPENS,
        _OPENS._replace(
            about=f"{_OPENS.about} (sanposhiho's ends with step 7; this is the same scenario.)"
        ),
    ),
}
