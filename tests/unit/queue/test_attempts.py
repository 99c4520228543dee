"""The scheduling queue: what happens during an attempt, activation, and flushing of leftovers."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mooring.cluster_event import ActionType, ClusterEvent, EventResource
from mooring.queue import QueueName
from mooring.queue.in_flight import InFlight
from tests.helpers.queues import NODE_ADD, PV_ADD, PV_UPDATE, SKIP, Bench, Refuser, on, pod

TOLERATED = ClusterEvent(EventResource.UNSCHEDULED_POD, ActionType.UPDATE_POD_TOLERATION)

ACTIVE, BACKOFF, UNSCHEDULABLE = QueueName.ACTIVE, QueueName.BACKOFF, QueueName.UNSCHEDULABLE
IN_FLIGHT, NONE = QueueName.IN_FLIGHT, QueueName.NONE


def bench(**options: Any) -> Bench:
    """Returns a queue with Fit (requeues for new nodes) and Picky (never requeues)."""
    return Bench(Refuser("Fit", on(NODE_ADD)), Refuser("Picky", on(NODE_ADD, SKIP)), **options)


# -- an attempt and what happens during it --------------------------------------------------------


@pytest.mark.parametrize("when", ["in flight", "unschedulable"])
def test_the_second_of_two_changes_of_a_pod_counts_too(when: str) -> None:
    it = Bench(Refuser("Tolerant", on(TOLERATED)))
    old = it.add("a")
    new = pod("a", labels={"a": "1"}, tolerations=[{"key": "gpu", "operator": "Exists"}])
    with it.queue.in_flight(it.pop()) as flight:
        if when == "in flight":
            it.queue.update(old, new)
        it.queue.add_unschedulable(flight.entry, old, refused_by=["Tolerant"])
    if when == "unschedulable":
        assert it.queue_name("a") is UNSCHEDULABLE
        it.queue.update(old, new)

    assert it.queue_name("a") is BACKOFF


def test_a_retry_after_a_failed_eviction_is_not_popped_before_its_backoff() -> None:
    it = bench()
    it.unschedulable("a", "Fit")
    it.queue.retry_after_backoff("a")

    assert it.queue_name("a") is BACKOFF
    assert it.queue.pop() is None
    it.clock.advance(2.0)
    it.queue.flush()
    assert it.pops() == ["a"]


@pytest.mark.parametrize(("refusals", "backoff_s"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10)])
def test_the_backoff_after_a_failed_eviction_begins_then_and_grows_with_the_attempts(
    refusals: int, backoff_s: int
) -> None:
    it = bench()
    it.add("a")
    for number in range(refusals):
        it.refuse(it.pop(), "Fit")
        if number < refusals - 1:
            it.queue.move(NODE_ADD, None, None)
            it.clock.advance(20)
            it.queue.flush()
    # The eviction took a while: the backoff counts from its end, not from that of the attempt.
    it.clock.advance(30)
    it.queue.retry_after_backoff("a")

    it.clock.advance(backoff_s)
    it.queue.flush()
    assert it.pops() == []
    it.clock.advance(1)
    it.queue.flush()
    assert it.pops() == ["a"]


def test_a_pod_whose_backoff_was_computed_before_waits_anew_after_a_failed_eviction() -> None:
    it = bench()
    it.unschedulable("a", "Fit")
    entry = it.queue.get("a")
    assert entry is not None
    # As the queue page does: it reads the end of the backoff of a pod that is unschedulable.
    old_end_s = it.queue._queues.backoff.expiration_s(entry)
    it.clock.advance(100)

    it.queue.retry_after_backoff("a")

    assert it.queue._queues.backoff.expiration_s(entry) == old_end_s + 100


def test_an_attempt_that_ended_without_a_queue_leaves_the_pod_in_none() -> None:
    # The newest version is another pod of the same name: only the attempt ends.
    it = bench()
    it.add("a")
    entry = it.pop()
    assert entry.queue_name is IN_FLIGHT

    with it.queue.in_flight(entry):
        it.queue.add_unschedulable(entry, pod("a", uid="other"), refused_by=["Fit"])

    assert entry.queue_name is NONE
    assert it.queue_name("a") is NONE


def test_events_are_kept_only_while_somebody_needs_them() -> None:
    it = bench()
    it.add("a")
    it.queue.move(NODE_ADD, None, None)
    assert it.queue.in_flight_events == 0
    entry = it.pop()
    it.queue.move(NODE_ADD, None, None)
    it.queue.move(PV_UPDATE, None, None)
    assert it.queue.in_flight_events == 1

    it.refuse(entry, "Picky")

    assert it.queue.in_flight_events == 0
    assert it.queue_name("a") is UNSCHEDULABLE


@pytest.mark.parametrize(
    ("refused_by", "pending_on", "queue_name"),
    [
        (["Fit"], [], BACKOFF),
        (["Picky"], [], UNSCHEDULABLE),
        (["Picky"], ["Fit"], ACTIVE),
        (["Fit"], ["Picky"], BACKOFF),
        ([], [], BACKOFF),
    ],
)
def test_an_event_in_the_middle_of_an_attempt_counts_at_its_end(
    refused_by: list[str], pending_on: list[str], queue_name: QueueName
) -> None:
    it = bench()
    it.add("a")
    with it.queue.in_flight(it.pop()) as flight:
        it.queue.move(NODE_ADD, None, None)
        it.queue.add_unschedulable(
            flight.entry, flight.entry.pod, refused_by=refused_by, pending_on=pending_on
        )

    assert it.last_move() == ("a", queue_name, "ScheduleAttemptFailure")


def test_an_event_before_the_attempt_does_not() -> None:
    it = bench()
    it.add("other")
    it.add("a")
    it.pop()
    it.queue.move(NODE_ADD, None, None)
    it.refuse(it.pop(), "Fit")

    assert it.queue_name("a") is UNSCHEDULABLE


def test_of_several_events_the_best_counts() -> None:
    it = Bench(Refuser("Fit", on(NODE_ADD)), Refuser("Volume", on(PV_ADD)))
    it.add("a")
    entry = it.pop()
    it.queue.move(NODE_ADD, None, None)
    it.queue.move(PV_ADD, None, None)
    it.refuse(entry, "Fit", pending=["Volume"])

    assert it.queue_name("a") is ACTIVE


def test_when_too_much_happened_to_remember_the_pod_is_tried_again() -> None:
    it = bench()
    it.queue._in_flight = InFlight(max_events=4)
    it.add("a")
    entry = it.pop()
    for _ in range(9):
        it.queue.move(NODE_ADD, None, None)
    it.refuse(entry, "Picky")

    assert it.queue_name("a") is BACKOFF


def test_a_pod_that_is_bound_is_no_more_the_queues_business() -> None:
    it = bench()
    it.add("a")
    with it.queue.in_flight(it.pop()) as flight:
        flight.detach()
    assert it.queue_name("a") is IN_FLIGHT
    flight.done()

    assert it.queue_name("a") is NONE
    assert it.queue.pods() == []


def test_one_whose_binding_fails_late_comes_back_as_an_error() -> None:
    it = bench()
    it.add("a")
    with it.queue.in_flight(it.pop()) as flight:
        flight.detach()
    flight.done()

    it.queue.add_unschedulable(flight.entry, flight.entry.pod)

    assert it.queue_name("a") is BACKOFF


def test_one_that_was_taken_in_meanwhile_is_left_where_it_is() -> None:
    it = bench()
    it.add("a")
    with it.queue.in_flight(it.pop()) as flight:
        flight.detach()
    flight.done()
    it.add("a")

    it.queue.add_unschedulable(flight.entry, flight.entry.pod, refused_by=["Fit"])

    assert it.queue_name("a") is ACTIVE
    assert len(it.queue.pods()) == 1


def test_one_that_is_tried_again_meanwhile_stays_in_flight() -> None:
    it = bench()
    it.add("a")
    with it.queue.in_flight(it.pop()) as first:
        first.detach()
    first.done()
    it.add("a")
    second = it.pop()

    it.queue.add_unschedulable(first.entry, first.entry.pod, refused_by=["Fit"])

    assert it.queue_name("a") is IN_FLIGHT
    it.queue.move(NODE_ADD, None, None)
    it.refuse(second, "Fit")
    assert it.queue_name("a") is BACKOFF


# -- activation -----------------------------------------------------------------------------------


@pytest.mark.parametrize("event", [None, NODE_ADD])
def test_an_activated_pod_is_tried_at_once(event: Any) -> None:
    it = bench()
    it.unschedulable("a", "Fit")
    if event:
        it.queue.move(event, None, None)

    it.queue.activate(["a", "unknown"])

    assert it.last_move() == ("a", ACTIVE, "ForceActivate")


def test_one_that_is_active_already_is_left_alone() -> None:
    it = bench()
    it.add("a")
    moves = len(it.moved)
    it.queue.activate(["a"])

    assert len(it.moved) == moves
    assert it.pops() == ["a"]


def test_activated_in_the_middle_of_its_attempt_it_is_tried_again_and_no_other() -> None:
    it = bench()
    it.add("a")
    it.add("b")
    first, second = it.pop(), it.pop()
    it.queue.activate(["a"])
    it.refuse(first, "Picky")
    it.refuse(second, "Picky")

    assert (it.queue_name("a"), it.queue_name("b")) == (BACKOFF, UNSCHEDULABLE)


def test_activating_a_stranger_is_not_remembered() -> None:
    it = bench()
    it.add("a")
    it.pop()
    it.queue.activate(["unknown"])

    assert it.queue.in_flight_events == 0


# -- flushing -------------------------------------------------------------------------------------


def test_after_five_minutes_an_unschedulable_pod_is_retried() -> None:
    it = bench()
    it.unschedulable("mid", "Picky", priority=5)
    it.unschedulable("high", "Picky", priority=9)
    it.clock.advance(300)
    it.queue.flush()
    assert it.queue_name("mid") is UNSCHEDULABLE
    it.clock.advance(30)
    it.queue.flush()

    assert it.queue.moves[ACTIVE, "UnschedulableTimeout"] == 2
    entry = it.pop()
    assert (entry.uid, entry.was_flushed) == ("high", True)
    it.refuse(entry, "Picky")
    assert not entry.was_flushed


def test_leftovers_are_looked_for_every_thirty_seconds_only() -> None:
    it = bench(max_unschedulable_s=10)
    it.unschedulable("a", "Picky")
    it.clock.advance(29)
    it.queue.flush()
    assert it.queue_name("a") is UNSCHEDULABLE
    it.clock.advance(1)
    it.queue.flush()
    assert it.queue_name("a") is ACTIVE


def test_the_time_counts_from_the_last_attempt() -> None:
    it = bench()
    it.unschedulable("a", "Fit")
    it.clock.advance(290)
    it.queue.move(NODE_ADD, None, None)
    it.refuse(it.pop(), "Fit")
    it.clock.advance(60)
    it.queue.flush()

    assert it.queue_name("a") is UNSCHEDULABLE


def test_it_says_when_flushing_is_worth_it() -> None:
    it = bench()
    assert it.queue.next_flush_at_s() == math.inf
    it.unschedulable("a", "Picky")
    assert it.queue.next_flush_at_s() == 1030
    it.unschedulable("b")
    assert it.queue.next_flush_at_s() == 1002
    it.clock.advance(2)
    it.queue.flush()
    assert it.queue_name("b") is ACTIVE
    assert it.queue.next_flush_at_s() == 1030


def test_what_comes_out_of_backoff_together_is_popped_by_importance() -> None:
    it = bench()
    for name, priority in [("low", 1), ("high", 9)]:
        it.unschedulable(name, priority=priority)
    it.clock.advance(2)
    it.queue.flush()

    assert it.pops() == ["high", "low"]
