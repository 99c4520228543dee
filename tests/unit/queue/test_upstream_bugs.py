"""Bugs that kube-scheduler's queue really had, by their number at kubernetes/kubernetes.

Each of these tests fails if the bug is put into this queue.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mooring.queue import QueuedPod, QueueName
from tests.helpers.queues import NODE_ADD, NODE_TAINT, PV_ADD, SKIP, Bench, Refuser, on, pod

BACKOFF, ACTIVE, IN_FLIGHT = QueueName.BACKOFF, QueueName.ACTIVE, QueueName.IN_FLIGHT


def bench(on_ready: Callable[[], None] | None = None) -> Bench:
    fit, volume = Refuser("Fit", on(NODE_ADD)), Refuser("Volume", on(PV_ADD))
    return Bench(fit, volume, on_ready=on_ready)


STEPS = ["popped", "another is popped", "another is parked", "another is done", "unschedulable"]


@pytest.mark.parametrize("step", STEPS)
def test_120413_an_event_at_any_step_of_an_attempt_is_not_missed(step: str) -> None:
    it = bench()
    it.add("a", priority=9)
    it.add("b", priority=5)
    it.add("c", priority=1)

    def reached(now: str) -> None:
        if now == step:
            it.queue.move(NODE_ADD, None, None)

    entry = it.pop()
    reached("popped")
    second, third = it.pop(), it.pop()
    reached("another is popped")
    it.refuse(second, "Volume")
    reached("another is parked")
    it.queue.done(third.uid)
    reached("another is done")
    it.refuse(entry, "Fit")
    reached("unschedulable")

    assert it.queue_name("a") is BACKOFF
    assert it.queue_name("b") is QueueName.UNSCHEDULABLE
    assert it.queue.in_flight_events == 0


def test_139186_a_pod_popped_as_soon_as_it_is_back_stays_in_flight() -> None:
    # The callback pops at once, before the first attempt has left its block.
    popped: list[QueuedPod] = []
    it = bench(on_ready=lambda: popped.append(it.pop()))
    it.add("a")
    with it.queue.in_flight(popped[0]):
        it.queue.move(NODE_ADD, None, None)
        it.queue.add_unschedulable(popped[0], popped[0].pod, refused_by=["Fit"])

    assert [entry.uid for entry in popped] == ["a", "a"]
    assert it.queue_name("a") is IN_FLIGHT


def test_139450_the_second_attempt_has_its_events_and_comes_back_too() -> None:
    it = bench()
    it.add("a")
    first = it.pop()
    with it.queue.in_flight(first):
        it.queue.move(NODE_ADD, None, None)
        it.queue.add_unschedulable(first, first.pod, refused_by=["Fit"])
        second = it.pop()
    it.queue.move(NODE_ADD, None, None)
    it.add("a")
    assert it.queue_name("a") is IN_FLIGHT
    assert it.queue.pop() is None

    it.refuse(second, "Fit")

    assert it.queue_name("a") is BACKOFF
    assert it.queue.in_flight_events == 0


@pytest.mark.parametrize("is_known", [True, False])
def test_138316_a_pod_recreated_during_its_attempt_leaves_nothing_in_flight(
    *, is_known: bool
) -> None:
    it = bench()
    it.add("web", uid="AAAA")
    entry = it.pop()
    it.queue.delete("AAAA")
    recreated = pod("web", uid="BBBB")
    if is_known:
        it.queue.add(recreated)
    it.queue.move(NODE_ADD, None, None)

    # Looked up by name, the newest version is another pod; it comes by itself, or has come.
    it.queue.add_unschedulable(entry, recreated, refused_by=["Fit"])

    assert it.queue.in_flight_events == 0
    assert it.queue_name("AAAA") is QueueName.NONE
    assert it.queue_name("BBBB") is (ACTIVE if is_known else QueueName.NONE)
    it.queue.add(recreated)
    new = it.pop()
    assert (new.uid, new.attempts, new.unschedulable_count) == ("BBBB", 1, 0)


def test_138316_a_recreated_pod_does_not_meet_the_old_ones_attempt() -> None:
    it = bench()
    it.add("web", uid="AAAA")
    old = it.pop()
    it.queue.delete("AAAA")
    it.add("web", uid="BBBB")
    new = it.pop()
    it.queue.done(old.uid)
    it.queue.move(NODE_ADD, None, None)
    it.refuse(new, "Fit")

    assert it.queue_name("BBBB") is BACKOFF
    assert it.queue.in_flight_events == 0


def test_126962_pods_that_are_skipped_because_they_are_deleted_leave_no_events() -> None:
    it = bench()
    for number in range(20):
        it.add(f"pod-{number}")
        with it.queue.in_flight(it.pop()):
            it.queue.move(NODE_ADD, None, None)

    assert it.queue.in_flight_events == 0
    assert it.queue.counts()[IN_FLIGHT] == 0


def test_127016_an_update_during_an_attempt_does_not_queue_the_pod_twice() -> None:
    it = bench()
    old = it.add("a")
    entry = it.pop()
    newer = pod("a", labels={"a": "1"})
    it.queue.update(old, newer)
    it.queue.add(newer)

    assert it.queue.pop() is None
    assert it.queue.pods() == []
    it.queue.add_unschedulable(entry, newer, refused_by=["Fit"])
    assert len(it.queue.pods()) == 1


def test_106545_deleted_and_recreated_seen_as_one_update() -> None:
    it = bench()
    old = it.unschedulable("web", "Fit", uid="AAAA")
    it.queue.update(old, pod("web", uid="BBBB"))

    assert it.queue_name("AAAA") is QueueName.NONE
    assert it.queue_name("BBBB") is ACTIVE
    new = it.pop()
    assert (new.attempts, new.rejectors) == (1, frozenset())


def test_102790_a_pod_whose_coming_was_missed_is_taken_in_with_its_next_change() -> None:
    it = bench()
    it.queue.update(pod("a"), pod("a", labels={"a": "1"}))

    assert it.pops() == ["a"]


def test_109437_a_plugin_that_waits_for_nodes_wakes_when_one_loses_its_taint() -> None:
    it = Bench(Refuser("Affinity", on(NODE_ADD, SKIP)))
    it.unschedulable("a", "Affinity")
    it.queue.move(NODE_TAINT, None, None)

    assert it.queue_name("a") is BACKOFF


def test_72122_a_pod_that_no_event_helps_is_not_forgotten() -> None:
    it = bench()
    it.unschedulable("a", "Nobody")
    for _ in range(11):
        it.clock.advance(30)
        it.queue.move(NODE_ADD, None, None)
        it.queue.flush()

    assert it.queue_name("a") is ACTIVE
