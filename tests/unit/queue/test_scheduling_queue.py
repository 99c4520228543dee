"""The scheduling queue: coming, waiting, being tried, and going. The cases are kube-scheduler's."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.cluster_event import UNSCHEDULABLE_TIMEOUT, EventResource
from mooring.errors import InvariantViolation
from mooring.plugins.priority_sort import PrioritySort
from mooring.queue import QueueName, SchedulingQueue
from tests.helpers.queues import (
    NODE_ADD,
    PV_ADD,
    QUEUE,
    SKIP,
    Bench,
    Refuser,
    on,
    pod,
)

ACTIVE, BACKOFF, UNSCHEDULABLE = QueueName.ACTIVE, QueueName.BACKOFF, QueueName.UNSCHEDULABLE
GATED, IN_FLIGHT, NONE = QueueName.GATED, QueueName.IN_FLIGHT, QueueName.NONE


def bench(**options: Any) -> Bench:
    """Returns a queue with Fit (requeues for new nodes) and Picky (never requeues)."""
    return Bench(Refuser("Fit", on(NODE_ADD)), Refuser("Picky", on(NODE_ADD, SKIP)), **options)


# -- order ----------------------------------------------------------------------------------------


def test_the_important_are_popped_first_then_those_that_came_first() -> None:
    it = bench()
    for name, priority in [("mid", 5), ("low", 1), ("high", 9)]:
        it.add(name, priority=priority)
    it.clock.advance(1)
    it.add("mid-later", priority=5)

    assert it.pops() == ["high", "mid", "mid-later", "low"]


def test_a_queue_sort_that_has_only_less_gives_the_same_order() -> None:
    class OnlyLess:
        name = "OnlyLess"
        less = PrioritySort().less

    class Reverse:
        name = "Reverse"

        def less(self, a: Any, b: Any) -> bool:
            return bool(a.pod.priority < b.pod.priority)

    orders = []
    for sort in (PrioritySort(), OnlyLess(), Reverse()):
        it = bench(sort=sort)
        for number in (3, 1, 4, 1, 5, 9, 2, 6):
            it.add(f"{number}-{it.clock.monotonic_s()}", priority=number)
            it.clock.advance(1)
        orders.append([name.split("-")[0] for name in it.pops()])

    assert orders[0] == orders[1] == list("96543211")
    assert orders[2] == list("11234569")


def test_a_pod_tried_again_goes_behind_its_equals() -> None:
    it = bench()
    for number in range(5):
        it.add(f"pod-{number}")
    it.clock.advance(0.000001)
    it.refuse(it.pop(), "Fit")
    it.clock.advance(10)
    it.queue.move(UNSCHEDULABLE_TIMEOUT, None, None)

    assert it.pops() == ["pod-1", "pod-2", "pod-3", "pod-4", "pod-0"]


def test_a_pod_that_fails_again_and_again_does_not_block_newer_ones() -> None:
    it = bench()
    it.unschedulable("old", "Fit", priority=9)
    it.clock.advance(2)
    it.queue.move(UNSCHEDULABLE_TIMEOUT, None, None)
    entry = it.pop()
    it.add("newer", priority=9)
    it.clock.advance(0.5)
    it.refuse(entry, "Fit")
    it.clock.advance(5)
    it.queue.move(UNSCHEDULABLE_TIMEOUT, None, None)

    assert it.pops() == ["newer", "old"]


def test_an_important_pod_in_backoff_lets_others_go_first() -> None:
    it = bench()
    it.add("mid", priority=1)
    it.add("high", priority=9)
    it.refuse(it.pop(), "Fit")
    it.queue.move(UNSCHEDULABLE_TIMEOUT, None, None)

    assert it.queue_name("high") is BACKOFF
    assert it.pop().uid == "mid"


# -- coming and going -----------------------------------------------------------------------------


def test_an_added_pod_can_be_popped_and_the_callback_runs() -> None:
    it = bench()
    it.add("a")

    assert it.queue_name("a") is ACTIVE
    assert it.last_move() == ("a", ACTIVE, "UnschedulablePodAdd")
    assert it.ready == 1
    entry = it.pop()
    assert (entry.attempts, entry.initial_attempt_s) == (1, 1000.0)
    assert it.queue_name("a") is IN_FLIGHT
    assert it.queue.pop() is None


def test_a_pod_that_is_there_already_is_updated() -> None:
    it = bench()
    it.add("a", priority=1)
    it.add("b", priority=5)
    it.add("a", priority=9)

    assert it.pops() == ["a", "b"]


def test_an_unknown_pod_that_changed_is_taken_in() -> None:
    it = bench()
    it.queue.update(pod("a"), pod("a", labels={"a": "1"}))

    assert it.last_move() == ("a", ACTIVE, "UnschedulablePodUpdate")


def test_an_update_in_the_active_queue_takes_the_place_of_the_old_version() -> None:
    it = bench()
    old = it.add("a", priority=1)
    it.add("b", priority=5)
    newer = pod("a", priority=9)
    it.queue.update(old, newer)

    entry = it.pop()

    assert entry.pod is newer
    assert it.pops() == ["b"]


def test_an_update_in_backoff_leaves_the_pod_there() -> None:
    it = bench()
    old = it.unschedulable("a", "Fit")
    it.queue.move(NODE_ADD, None, None)
    newer = pod("a", labels={"a": "1"})
    it.queue.update(old, newer)

    assert it.queue_name("a") is BACKOFF
    assert it.pop().pod is newer


@pytest.mark.parametrize("where", ["active", "backoff", "unschedulable"])
def test_a_pod_that_is_deleted_is_nowhere(where: str) -> None:
    it = bench()
    if where == "active":
        it.add("a")
    else:
        it.unschedulable("a", "Fit")
    if where == "backoff":
        it.queue.move(NODE_ADD, None, None)
    assert it.queue_name("a").value == where

    it.queue.delete("a")
    it.queue.delete("a")

    assert it.queue_name("a") is NONE
    assert it.queue.get("a") is None
    it.clock.advance(600)
    it.queue.flush()
    assert it.queue.pop() is None


def test_it_knows_how_many_pods_are_where() -> None:
    it = bench()
    for name in "abcd":
        it.add(name)
    it.refuse(it.pop(), "Fit")
    it.queue.move(NODE_ADD, None, None)
    it.refuse(it.pop(), "Picky")
    it.pop()

    assert it.queue.counts() == {
        ACTIVE: 1,
        BACKOFF: 1,
        UNSCHEDULABLE: 1,
        GATED: 0,
        IN_FLIGHT: 1,
    }
    assert sorted(entry.uid for entry in it.queue.pods()) == ["a", "b", "d"]
    assert it.queue.moves[ACTIVE, "UnschedulablePodAdd"] == 4
    assert it.queue.moves[BACKOFF, "NodeAdd"] == 1


def test_it_works_for_nobody_who_listens() -> None:
    it = bench()
    queue = SchedulingQueue({"default-scheduler": it.framework}, clock=it.clock)
    queue.add(pod("a"))
    entry = queue.pop()
    assert entry is not None
    queue.add_unschedulable(entry, entry.pod)

    assert queue.queue_of("a") is BACKOFF
    assert queue.resources() == {EventResource.NODE}


@pytest.mark.parametrize("queue_name", list(QueueName))
def test_busy_pods_are_retried_by_themselves_unschedulable_pods_are_not(
    queue_name: QueueName,
) -> None:
    assert queue_name.is_busy == (queue_name in {ACTIVE, BACKOFF, IN_FLIGHT})
    assert queue_name.waits_for_event == (queue_name in {UNSCHEDULABLE, GATED})


def test_a_pod_of_an_unknown_profile_is_our_own_mistake() -> None:
    with pytest.raises(InvariantViolation, match=r"default/a .* no profile is called 'stranger'"):
        bench().add("a", scheduler_name="stranger")


# -- attempts and backoff -------------------------------------------------------------------------


@pytest.mark.parametrize(("pops_early", "exact"), [(True, False), (False, True)])
def test_each_attempt_doubles_the_backoff_up_to_the_longest(
    *, pops_early: bool, exact: bool
) -> None:
    it = bench(pop_from_backoff=pops_early)
    it.add("a")
    for number, backoff_s in enumerate([1, 2, 4, 8, 10, 10, 10]):
        entry = it.pop()
        assert entry.attempts == number + 1
        it.refuse(entry, "Fit")
        it.queue.move(UNSCHEDULABLE_TIMEOUT, None, None)

        assert entry.backoff_expiration_s == it.clock.monotonic_s() + backoff_s
        it.clock.advance(backoff_s)
        it.queue.flush()
        assert it.queue_name("a") is BACKOFF
        it.clock.advance(0.001 if exact else 1)
        it.queue.flush()
        assert it.last_move() == ("a", ACTIVE, "BackoffComplete")


def test_refused_by_a_plugin_it_waits_for_an_event() -> None:
    it = bench()
    it.unschedulable("a", "Fit")

    assert it.last_move() == ("a", UNSCHEDULABLE, "ScheduleAttemptFailure")
    assert it.queue.next_flush_at_s() == 1030
    assert it.queue.pop() is None


def test_failed_with_an_error_it_waits_for_its_backoff_and_is_not_hurried() -> None:
    it = bench()
    it.unschedulable("a")

    assert it.last_move() == ("a", BACKOFF, "ScheduleAttemptFailure")
    assert it.queue.pop() is None
    it.clock.advance(2)
    it.queue.flush()
    assert it.pop().uid == "a"


def test_errors_in_a_row_are_counted_apart_from_refusals() -> None:
    it = bench()
    it.add("a")
    counts = []
    for by in (("Fit",), ("Fit",), (), (), ("Fit",)):
        entry = it.pop()
        it.refuse(entry, *by)
        counts.append((entry.unschedulable_count, entry.consecutive_errors))
        it.clock.advance(20)
        it.queue.flush()
        it.queue.move(NODE_ADD, None, None)

    assert counts == [(1, 0), (2, 0), (2, 1), (2, 2), (3, 0)]


def test_with_nothing_else_to_do_a_pod_in_backoff_is_tried_at_once() -> None:
    it = bench()
    it.unschedulable("a", "Fit")
    before = it.ready
    it.queue.move(NODE_ADD, None, None)

    assert it.queue_name("a") is BACKOFF
    assert it.ready == before + 1
    assert it.pop().uid == "a"
    assert it.queue.moves[ACTIVE, "PopFromBackoffQ"] == 1


def test_unless_that_is_turned_off() -> None:
    it = bench(pop_from_backoff=False)
    it.unschedulable("a", "Fit")
    it.queue.move(NODE_ADD, None, None)

    assert it.queue.pop() is None


def test_a_longest_backoff_of_zero_means_none() -> None:
    it = bench(max_backoff_s=0)
    it.unschedulable("a", "Fit")
    it.queue.move(NODE_ADD, None, None)
    assert it.queue_name("a") is ACTIVE

    it.refuse(it.pop())
    assert it.queue_name("a") is ACTIVE


def test_what_was_refused_last_time_is_forgotten_with_the_next_attempt() -> None:
    it = bench()
    it.unschedulable("a", "Fit", pending=["Picky"])
    it.queue.activate(["a"])
    entry = it.pop()
    it.refuse(entry)

    assert entry.rejectors == frozenset()
    assert it.queue_name("a") is BACKOFF


# -- events ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("refused_by", "pending_on", "hint", "after_s", "queue_name"),
    [
        ((), ("Foo",), QUEUE, 0, ACTIVE),
        (("Foo",), (), QUEUE, 0, BACKOFF),
        (("Foo",), (), QUEUE, 2, ACTIVE),
        (("Foo",), (), SKIP, 2, UNSCHEDULABLE),
        ((), ("Foo",), SKIP, 2, UNSCHEDULABLE),
        (("Bar",), (), QUEUE, 2, UNSCHEDULABLE),
    ],
)
def test_the_queue_that_an_event_moves_an_unschedulable_pod_to(
    refused_by: tuple[str, ...],
    pending_on: tuple[str, ...],
    hint: Any,
    after_s: float,
    queue_name: QueueName,
) -> None:
    it = Bench(Refuser("Foo", on(NODE_ADD, hint)), Refuser("Bar", on(PV_ADD)))
    it.unschedulable("a", *refused_by, pending=pending_on)
    it.clock.advance(after_s)

    it.queue.move(NODE_ADD, None, None)

    assert it.queue_name("a") is queue_name
    label = "ScheduleAttemptFailure" if queue_name is UNSCHEDULABLE else "NodeAdd"
    assert it.last_move() == ("a", queue_name, label)


def test_an_event_leaves_pods_in_backoff_where_they_are() -> None:
    it = bench()
    it.unschedulable("a")
    moves = len(it.moved)
    it.queue.move(NODE_ADD, None, None)

    assert it.queue_name("a") is BACKOFF
    assert len(it.moved) == moves


def test_an_event_can_be_limited_to_some_unschedulable_pods() -> None:
    it = bench(max_backoff_s=0)
    it.unschedulable("high", "Fit", priority=9)
    it.unschedulable("low", "Fit", priority=1)

    it.queue.move(NODE_ADD, None, None, only=lambda each: each.priority < 5)

    assert (it.queue_name("high"), it.queue_name("low")) == (UNSCHEDULABLE, ACTIVE)
