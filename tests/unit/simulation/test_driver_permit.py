"""Pods that wait in Permit, on virtual time: allowed, refused, out of time, deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mooring.errors import InvariantViolation
from mooring.framework import Cycle, Reject, Wait
from mooring.framework.waiting_pods import MAX_WAIT_S
from mooring.objects.pod import Pod
from mooring.simulation.driver import Driver
from mooring.simulation.outcome import Outcome
from mooring.testing import make_node, make_pod
from tests.helpers.drivers import Calls, Scripted, driver, usage

NODES = [make_node("a", allocatable={"cpu": "2"})]


def pod(name: str) -> Pod:
    return make_pod(name, requests={"cpu": "1"})


def tried(found: Driver, *names: str) -> list[Outcome]:
    return [found.apply(found.attempt(pod(name))) for name in names]


def told(outcomes: Sequence[Outcome]) -> list[tuple[str, str | None, str]]:
    return [(found.info.metadata.name, found.node, found.message) for found in outcomes]


class Gang:
    """Holds pods back until ``size`` of them are there; one that is refused takes all with it."""

    name = "Gang"

    def __init__(self, size: int, wait_s: float = 60.0) -> None:
        self.size = size
        self.wait_s = wait_s
        self.driver: Driver | None = None
        self.given_back: list[str] = []

    @property
    def _waiting(self) -> list[Any]:
        assert self.driver is not None
        return list(self.driver.frameworks["default-scheduler"].waiting)

    def permit(self, cycle: Cycle, node_name: str) -> Wait | None:
        if len(self._waiting) + 1 < self.size:
            return Wait(self.wait_s)
        for waiting in self._waiting:
            waiting.allow(self.name)
        return None

    def reserve(self, cycle: Cycle, node_name: str) -> None:
        pass

    def unreserve(self, cycle: Cycle, node_name: str) -> None:
        self.given_back.append(cycle.pod.metadata.name)
        for waiting in self._waiting:
            waiting.reject(self.name, "the gang fell apart")


def gang(size: int, *others: Any) -> tuple[Driver, Gang]:
    plugin = Gang(size)
    found = driver(NODES, plugin, *others)
    plugin.driver = found
    return found, plugin


# ---------------------------------------------------------------- allowed


def test_a_waiting_pod_counts_on_its_node_and_is_not_bound_yet() -> None:
    calls: Calls = []
    found = driver(NODES, Scripted("Holds", calls, permit=Wait(5), bind=None))

    (outcome,) = tried(found, "p")

    assert outcome.node == "a"
    assert usage(found, "a") == (1, 1000)
    assert found.cache.is_assumed(outcome.info.uid)
    assert [point for _, point, _ in calls] == ["permit"]
    assert found.time.monotonic_s() == 0.0


def test_pods_that_waited_are_bound_when_another_plugin_lets_them_go() -> None:
    calls: Calls = []
    found, _ = gang(2, Scripted("Binds", calls, bind=None, post_bind=None))

    first, second = tried(found, "p", "q")

    assert (first.node, second.node) == ("a", "a")
    assert found.cache.assumed_count() == 0
    assert usage(found, "a") == (2, 2000)
    assert [call[1:] for call in calls] == [
        ("bind", "q"),
        ("post_bind", "q"),
        ("bind", "p"),
        ("post_bind", "p"),
    ]
    assert told(found.settle()) == [("p", "a", "")]
    assert found.settle() == []
    assert found.time.monotonic_s() == 0.0


def test_all_plugins_that_wait_have_to_allow_it() -> None:
    plugins = [Scripted(name, [], permit=Wait(9)) for name in ("A", "B")]
    found = driver(NODES, *plugins)
    tried(found, "p")
    (waiting,) = found.frameworks["default-scheduler"].waiting

    waiting.allow("A")
    assert found.cache.assumed_count() == 1
    waiting.allow("B")

    assert told(found.settle()) == [("p", "a", "")]
    assert found.cache.assumed_count() == 0


# ---------------------------------------------------------------- refused


def test_a_pod_that_another_plugin_refuses_gives_its_room_back_at_once() -> None:
    calls: Calls = []
    found = driver(
        [make_node("a", allocatable={"cpu": "1"}), make_node("b", unschedulable=True)],
        Scripted("Holds", calls, permit=lambda c: Wait(5) if c.pod.metadata.name == "p" else None),
        Scripted("Gives", calls, reserve=None, unreserve=None),
    )
    tried(found, "p")
    (waiting,) = found.frameworks["default-scheduler"].waiting

    waiting.reject("Other", "preempted by better")
    tried(found, "elsewhere")  # the node is full; afterwards p is unreserved
    (late,) = tried(found, "q")

    assert late.node == "a"
    ((name, node, message),) = told(found.settle())
    assert (name, node) == ("p", None)
    assert message == "0/1 nodes are available: 1 preempted by better."
    assert ("Gives", "unreserve", "p") in calls
    assert usage(found, "a") == (1, 1000)


def test_one_gang_member_that_fails_takes_those_that_wait_with_it() -> None:
    fails = Scripted(
        "Fails", [], permit=lambda c: Reject("no") if c.pod.metadata.name == "r" else None
    )
    nodes = [make_node("a", allocatable={"cpu": "9"})]
    plugin = Gang(9)
    found = driver(nodes, plugin, fails)
    plugin.driver = found

    p, q, r = tried(found, "p", "q", "r")

    assert (p.node, q.node, r.node) == ("a", "a", None)
    assert told(found.settle()) == [
        (name, None, "0/1 nodes are available: 1 the gang fell apart.") for name in "pq"
    ]
    assert plugin.given_back == ["r", "p", "q"]
    assert usage(found, "a") == (0, 0)


def test_a_refused_wait_is_reported_with_the_plugin_that_ended_it() -> None:
    found = driver(NODES, Scripted("Holds", [], permit=Wait(5)))
    tried(found, "p")
    next(iter(found.frameworks["default-scheduler"].waiting)).reject("Other", "no")

    (outcome,) = found.settle()

    decision = outcome.decision()
    assert decision.unschedulable_plugins == ("Other",)
    assert decision.reason == "Unschedulable"
    assert outcome.nominated == ""


# ---------------------------------------------------------------- out of time


def test_time_goes_on_only_as_far_as_the_next_deadline() -> None:
    waits = {"p": 7.0, "q": 2.5, "r": 4.0}
    plugin = Scripted("Slow", [], permit=lambda c: Wait(waits[c.pod.metadata.name]))
    found = driver([make_node("a", allocatable={"cpu": "9"})], plugin)
    tried(found, *waits)

    settled = found.settle()

    assert told(settled) == [
        (
            name,
            None,
            f"0/1 nodes are available: 1 rejected due to timeout after waiting {text} at "
            "plugin Slow.",
        )
        for name, text in (("q", "2.5s"), ("r", "4s"), ("p", "7s"))
    ]
    assert found.time.monotonic_s() == 7.0
    assert usage(found, "a") == (0, 0)


@pytest.mark.parametrize(
    ("wait_s", "told_as"), [(0.0, "0s"), (0.0005, "500µs"), (90.25, "1m30.25s"), (1e6, "15m0s")]
)
def test_waits_are_cut_at_15_minutes_and_told_as_go_does(wait_s: float, told_as: str) -> None:
    found = driver(NODES, Scripted("Slow", [], permit=Wait(wait_s)))
    tried(found, "p")

    (outcome,) = found.settle()

    assert f"after waiting {told_as} at plugin Slow" in outcome.message
    assert found.time.monotonic_s() == min(wait_s, MAX_WAIT_S)


def test_of_two_plugins_the_one_whose_time_is_up_first_is_named() -> None:
    found = driver(
        NODES, Scripted("Long", [], permit=Wait(30)), Scripted("Short", [], permit=Wait(10))
    )
    tried(found, "p")

    found.time.advance(45.0)  # both are over by now, as when another pod's PreBind took so long

    ((_, _, message),) = told(found.settle())
    assert message.endswith("after waiting 10s at plugin Short.")
    assert found.time.monotonic_s() == 45.0


# ---------------------------------------------------------------- trouble after the wait


@pytest.mark.parametrize(
    ("answer", "result", "message"),
    [
        (Reject("volume is gone"), "unschedulable", "volume is gone"),
        (OSError("disk"), "error", 'running PreBind plugin "Binds": OSError: disk'),
    ],
)
def test_a_binding_that_fails_after_the_wait_gives_everything_back(
    answer: Any, result: str, message: str
) -> None:
    calls: Calls = []
    fails_for_p = Scripted(
        "Binds",
        calls,
        pre_bind=lambda c: _answer(answer) if c.pod.metadata.name == "p" else None,
        post_bind=None,
    )
    found, plugin = gang(2, fails_for_p)

    tried(found, "p", "q")
    (outcome,) = found.settle()

    assert (outcome.result, outcome.message, outcome.node) == (result, message, None)
    assert plugin.given_back == ["p"]
    assert [name for _, point, name in calls if point == "post_bind"] == ["q"]
    assert usage(found, "a") == (1, 1000)


def _answer(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


def test_our_own_bug_after_a_wait_is_not_turned_into_an_outcome() -> None:
    bug = InvariantViolation("row 3")
    found, _ = gang(
        2,
        Scripted("Binds", [], bind=lambda c: _answer(bug) if c.pod.metadata.name == "p" else None),
    )

    with pytest.raises(InvariantViolation, match="row 3"):
        tried(found, "p", "q")


def test_a_pod_deleted_while_it_waits_is_refused_and_gone() -> None:
    calls: Calls = []
    found = driver(
        NODES,
        Scripted("Holds", calls, permit=Wait(50), reserve=None, unreserve=None, bind=None),
    )
    tried(found, "p", "q")

    found.remove("Pod", "default", "p")

    assert usage(found, "a") == (1, 1000)
    assert calls[-1] == ("Holds", "unreserve", "p")
    settled = told(found.settle())
    assert settled[0] == ("p", None, "0/1 nodes are available: 1 removed.")
    assert settled[1][0] == "q"
    assert found.time.monotonic_s() == 50.0


def test_a_node_deleted_under_a_waiting_pod_does_not_lose_it() -> None:
    found, _ = gang(2)
    tried(found, "p")

    found.remove("Node", "", "a")
    found.update(make_node("b"))
    (late,) = tried(found, "q")

    assert late.node == "b"
    assert told(found.settle()) == [("p", "a", "")]
    assert usage(found, "b") == (1, 1000)
    assert usage(found, "a")[0] == 1
