"""Carrying a decision out: whatever goes wrong on the way, the capacity is given back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.errors import Conflict, InvariantViolation, OutcomeUnknown
from mooring.framework import SKIP, Cycle, Pending, Reject, Wait
from mooring.simulation.driver import Driver
from mooring.simulation.outcome import Outcome
from mooring.testing import make_node, make_pod
from tests.helpers.drivers import Calls, Scripted, driver, usage


def carried_out(*plugins: Any) -> tuple[Driver, Outcome]:
    """Returns the outcome of binding one pod to the only node, and the driver."""
    found = driver([make_node("a")], *plugins)
    return found, found.apply(found.attempt(make_pod("p", requests={"cpu": "1"})))


def pair(calls: Calls, **answers: Any) -> list[Scripted]:
    """Returns two plugins at every point; the second one has prepared results."""
    fine: dict[str, Any] = dict.fromkeys(
        ("reserve", "unreserve", "permit", "pre_bind", "bind", "post_bind")
    )
    return [Scripted("A", calls, **(fine | {"bind": SKIP})), Scripted("B", calls, **fine | answers)]


def test_a_pod_that_nobody_stops_goes_through_all_points_in_order() -> None:
    calls: Calls = []

    found, outcome = carried_out(*pair(calls))

    assert outcome.node == "a"
    assert [(plugin, point) for plugin, point, _ in calls] == [
        (plugin, point)
        for point in ("reserve", "permit", "pre_bind", "bind", "post_bind")
        for plugin in "AB"
    ]
    assert usage(found, "a") == (1, 1000)
    assert not found.cache.is_assumed(outcome.info.uid)


def test_the_pod_counts_on_its_node_before_it_is_bound() -> None:
    seen: list[tuple[int, int]] = []
    calls: Calls = []

    def look(cycle: Cycle) -> None:
        seen.append((len(found.cache.pods), found.cache.assumed_count()))

    found = driver([make_node("a")], Scripted("A", calls, reserve=look, unreserve=None, bind=look))
    found.apply(found.attempt(make_pod("p")))

    assert seen == [(1, 1), (1, 1)]
    assert found.cache.assumed_count() == 0


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("point", ["reserve", "permit"])
@pytest.mark.parametrize(
    ("refusal", "pending"), [(Reject("no licence"), ()), (Pending("no licence"), ("B",))]
)
def test_a_refusal_by_reserve_or_permit_is_one_of_that_node(
    point: str, refusal: Any, pending: tuple[str, ...]
) -> None:
    calls: Calls = []

    found, outcome = carried_out(*pair(calls, **{point: refusal}))

    assert (outcome.result, outcome.node, outcome.nominated) == ("unschedulable", None, "")
    assert outcome.message == "0/1 nodes are available: 1 no licence."
    assert outcome.reasons == {"no licence": 1}
    decision = outcome.decision()
    assert decision.reason == "Unschedulable"
    assert decision.unschedulable_plugins == ("B",)
    assert decision.pending_plugins == pending
    assert decision.rejected["a"].plugin == "B"
    assert usage(found, "a") == (0, 0)


@pytest.mark.parametrize("point", ["pre_bind", "bind"])
def test_a_refusal_by_pre_bind_or_bind_says_nothing_of_nodes(point: str) -> None:
    found, outcome = carried_out(*pair([], **{point: Reject("volume is gone", "sorry")}))

    assert (outcome.result, outcome.node, outcome.nominated) == ("unschedulable", None, "")
    assert outcome.message == "volume is gone, sorry"
    assert outcome.reasons == {"volume is gone, sorry": 1}
    decision = outcome.decision()
    assert (decision.result, decision.reason) == ("unschedulable", "Unschedulable")
    assert (decision.unschedulable_plugins, decision.rejected) == ((), {})
    assert usage(found, "a") == (0, 0)


@pytest.mark.parametrize(
    ("point", "reached"),
    [
        ("reserve", ["A reserve", "B reserve"]),
        ("permit", ["A reserve", "B reserve", "A permit", "B permit"]),
        ("pre_bind", ["A pre_bind", "B pre_bind"]),
        ("bind", ["A bind", "B bind"]),
    ],
)
@pytest.mark.parametrize("answer", [Reject("no"), ValueError("broken")])
def test_whatever_stops_a_pod_is_followed_by_unreserve_in_reverse(
    point: str, reached: list[str], answer: Any
) -> None:
    calls: Calls = []

    found, outcome = carried_out(*pair(calls, **{point: answer}))

    told = [f"{plugin} {point}" for plugin, point, _ in calls]
    assert outcome.node is None
    assert told[-2:] == ["B unreserve", "A unreserve"]
    assert told[:-2][-len(reached) :] == reached
    assert not any("post_bind" in call for call in told)
    assert usage(found, "a") == (0, 0)


def test_a_plugin_behind_the_one_that_refused_gives_back_too() -> None:
    calls: Calls = []
    plugins = [
        Scripted("A", calls, reserve=Reject("no"), unreserve=None),
        Scripted("B", calls, reserve=None, unreserve=None),
    ]

    carried_out(*plugins)

    assert [(plugin, point) for plugin, point, _ in calls] == [
        ("A", "reserve"),
        ("B", "unreserve"),
        ("A", "unreserve"),
    ]


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("point", "called"),
    [("reserve", "Reserve"), ("permit", "Permit"), ("pre_bind", "PreBind"), ("bind", "Bind")],
)
def test_an_exception_is_an_error_with_point_and_plugin(point: str, called: str) -> None:
    found, outcome = carried_out(*pair([], **{point: OSError("disk")}))

    assert (outcome.result, outcome.node, outcome.nominated) == ("error", None, "")
    assert outcome.message == f'running {called} plugin "B": OSError: disk'
    decision = outcome.decision()
    assert (decision.reason, decision.message) == ("SchedulerError", outcome.message)
    assert usage(found, "a") == (0, 0)


@pytest.mark.parametrize(
    "error", [Conflict("is bound to b", status=409), OutcomeUnknown("no answer in 5 s")]
)
def test_what_the_api_server_says_against_a_binding_is_reported_as_it_is(error: Exception) -> None:
    found, outcome = carried_out(*pair([], bind=error))

    assert (outcome.result, outcome.message) == ("error", str(error))
    assert usage(found, "a") == (0, 0)


def test_an_error_in_unreserve_or_post_bind_stops_nobody() -> None:
    calls: Calls = []

    found, outcome = carried_out(*pair(calls, permit=Reject("no"), unreserve=KeyError("x")))
    assert (outcome.result, calls[-1][:2]) == ("unschedulable", ("A", "unreserve"))
    assert usage(found, "a") == (0, 0)

    found, outcome = carried_out(*pair(calls, post_bind=KeyError("x")))
    assert outcome.node == "a"
    assert usage(found, "a") == (1, 1000)


@pytest.mark.parametrize("point", ["reserve", "permit", "pre_bind", "bind"])
def test_our_own_bug_is_not_turned_into_an_outcome(point: str) -> None:
    found = driver([make_node("a")], *pair([], **{point: InvariantViolation("row 3")}))
    outcome = found.attempt(make_pod("p"))

    with pytest.raises(InvariantViolation, match="row 3"):
        found.apply(outcome)

    assert usage(found, "a") == (0, 0)


def test_an_attempt_that_broke_down_in_permit_leaves_the_room_to_the_next_pod() -> None:
    calls: Calls = []
    fails_once = iter([ValueError("broken")])

    def permit(cycle: Cycle) -> None:
        for error in fails_once:
            raise error

    found = driver([make_node("a", allocatable={"cpu": "1"})], Scripted("A", calls, permit=permit))
    first = found.apply(found.attempt(make_pod("p", requests={"cpu": "1"})))
    second = found.apply(found.attempt(make_pod("q", requests={"cpu": "1"})))

    assert (first.result, second.node) == ("error", "a")
    assert usage(found, "a") == (1, 1000)


# ---------------------------------------------------------------- waiting for what never comes


def test_a_pre_bind_that_waits_for_an_object_runs_into_its_deadline() -> None:
    class WaitsForVolume:
        name = "WaitsForVolume"

        def __init__(self) -> None:
            self.driver: Driver | None = None

        async def pre_bind(self, cycle: Cycle, node_name: str) -> None:
            assert self.driver is not None
            await self.driver.handle.until(
                "PersistentVolumeClaim", "default/data", lambda claim: True, 600.0
            )

    plugin = WaitsForVolume()
    found = driver([make_node("a")], plugin)
    plugin.driver = found

    outcome = found.apply(found.attempt(make_pod("p")))

    assert outcome.result == "error"
    assert outcome.message.endswith(
        "timed out after 600 s waiting for PersistentVolumeClaim default/data"
    )
    assert found.time.monotonic_s() == 600.0
    assert usage(found, "a") == (0, 0)


def test_a_pre_bind_that_waits_for_anything_else_is_reported() -> None:
    class Never:
        def __await__(self) -> Any:
            yield

    class Sleeps:
        name = "Sleeps"

        async def pre_bind(self, cycle: Cycle, node_name: str) -> None:
            await Never()

    found, outcome = carried_out(Sleeps())

    assert outcome.result == "error"
    assert "awaited something other than handle.until" in outcome.message
    assert usage(found, "a") == (0, 0)


def test_a_pre_bind_whose_own_work_is_cancelled_fails_its_pod() -> None:
    class Leaks:
        name = "Leaks"

        async def pre_bind(self, cycle: Cycle, node_name: str) -> None:
            raise asyncio.CancelledError

    found, outcome = carried_out(Leaks())

    assert outcome.result == "error"
    assert outcome.message == 'running PreBind plugin "Leaks": its own work was cancelled'
    assert usage(found, "a") == (0, 0)


@pytest.mark.parametrize("answer", [Wait(3), SKIP, True])
def test_an_answer_that_reserve_does_not_know_is_an_error(answer: Any) -> None:
    found, outcome = carried_out(*pair([], reserve=answer))

    assert outcome.result == "error"
    assert outcome.message == f'running Reserve plugin "B": returned {answer!r}'
    assert usage(found, "a") == (0, 0)
