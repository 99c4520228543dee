"""A pod is in one queue at a time, and the counts that metrics show."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.framework import Reject
from mooring.framework.status import Status
from mooring.queue import QueueName
from mooring.state import PodInfo
from tests.helpers.queues import NODE_ADD, PV_ADD, Bench, GatePlugin, Refuser, closed, on, pod

ACTIVE, BACKOFF, UNSCHEDULABLE = QueueName.ACTIVE, QueueName.BACKOFF, QueueName.UNSCHEDULABLE
GATED = QueueName.GATED


# -- a pod is in one queue ------------------------------------------------------------------------


def waiting_in(queue_name: QueueName) -> Bench:
    """Returns a queue with the pod "a" in one of the queues that it can be moved from."""
    it = Bench(Refuser("Fit", on(NODE_ADD)), Refuser("Slow", on(PV_ADD)))
    it.add("a")
    if queue_name is not ACTIVE:
        it.refuse(it.pop(), "Fit", "Slow")
    if queue_name is BACKOFF:
        it.queue.move(NODE_ADD, None, None)
    assert it.queue_name("a") is queue_name
    return it


def sizes(it: Bench) -> dict[QueueName, int]:
    """Returns the lengths of the queues that are not empty."""
    return {name: count for name, count in it.queue.counts().items() if count}


@pytest.mark.parametrize("before", [BACKOFF, UNSCHEDULABLE])
def test_an_activated_pod_leaves_the_queue_that_it_was_in(before: QueueName) -> None:
    it = waiting_in(before)

    it.queue.activate(["a"])

    assert sizes(it) == {ACTIVE: 1}
    entry = it.pop()
    # Neither the end of a backoff nor the flush of leftovers may touch a pod in flight.
    it.clock.advance(3600)
    it.queue.flush()
    assert entry.queue_name is QueueName.IN_FLIGHT
    assert sizes(it) == {QueueName.IN_FLIGHT: 1}
    assert it.queue.pop() is None


def test_a_pod_that_is_requeued_by_an_event_is_not_unschedulable_any_more() -> None:
    it = waiting_in(UNSCHEDULABLE)
    it.queue.move(NODE_ADD, None, None)
    assert sizes(it) == {BACKOFF: 1}

    it.clock.advance(20)
    it.queue.flush()

    assert sizes(it) == {ACTIVE: 1}
    assert it.queue.next_flush_at_s() == float("inf")


@pytest.mark.parametrize("before", [ACTIVE, BACKOFF, UNSCHEDULABLE])
def test_a_deleted_pod_is_in_no_queue_and_that_is_reported(before: QueueName) -> None:
    it = waiting_in(before)
    entry = it.queue.get("a")
    assert entry is not None

    it.queue.delete("a")

    assert sizes(it) == {}
    assert entry.queue_name is QueueName.NONE
    assert it.last_move()[:2] == ("a", QueueName.NONE)
    it.clock.advance(3600)
    it.queue.flush()
    it.queue.move(NODE_ADD, None, None)
    assert it.queue.pop() is None


def test_a_pod_in_backoff_that_gets_a_higher_priority_comes_first_of_its_second() -> None:
    it = Bench(Refuser("Fit", on(NODE_ADD)))
    old = it.unschedulable("a", "Fit")
    it.unschedulable("b", "Fit", priority=1)
    it.queue.move(NODE_ADD, None, None)

    it.queue.update(old, pod("a", priority=5))

    assert [it.queue_name(name) for name in "ab"] == [BACKOFF, BACKOFF]
    it.clock.advance(20)
    it.queue.flush()
    assert it.pops() == ["a", "b"]


def test_an_update_of_a_pod_in_backoff_leaves_it_there_alone() -> None:
    it = waiting_in(BACKOFF)
    old = it.queue.get("a")
    assert old is not None

    it.queue.update(old.pod, pod("a", labels={"x": "1"}))

    assert sizes(it) == {BACKOFF: 1}


def test_the_first_attempt_of_a_pod_is_the_first_time_that_it_was_active() -> None:
    it = waiting_in(UNSCHEDULABLE)
    entry = it.queue.get("a")
    assert entry is not None
    first_s = entry.initial_attempt_s
    it.clock.advance(100)

    it.queue.activate(["a"])

    assert first_s == 1000.0
    assert entry.initial_attempt_s == first_s


def test_the_quarantine_of_a_pod_ends_with_its_next_attempt() -> None:
    it = Bench(Refuser("Fit", on(NODE_ADD)))
    it.add("a")
    entry = it.pop()
    entry.quarantine_s = 300.0
    it.refuse(entry)
    assert it.queue.quarantined_count == 1
    it.clock.advance(301)
    it.queue.flush()
    assert it.pop() is entry

    it.refuse(entry, "Fit")
    it.queue.move(NODE_ADD, None, None)

    # It was refused: the usual backoff, which may be cut short.
    assert it.queue.quarantined_count == 0
    assert it.queue.pop() is entry


def test_a_pod_that_is_added_twice_is_queued_once_in_its_newer_version() -> None:
    it = Bench(Refuser("Fit", on(NODE_ADD)))
    it.add("a")
    newer = pod("a", labels={"x": "1"})

    it.queue.add(newer)

    assert sizes(it) == {ACTIVE: 1}
    assert it.pop().pod is newer
    assert it.queue.pop() is None


def test_a_popped_pod_is_in_flight_and_that_is_reported() -> None:
    it = Bench(Refuser("Fit", on(NODE_ADD)))
    it.add("a")

    entry = it.pop()

    assert entry.queue_name is QueueName.IN_FLIGHT
    assert it.last_move()[:2] == ("a", QueueName.IN_FLIGHT)
    assert len(it.queue.quarantine) == 1


def test_all_the_pods_of_a_list_are_activated_beyond_one_that_is_quarantined() -> None:
    it = Bench(Refuser("Fit", on(NODE_ADD)))
    for name in "abc":
        it.unschedulable(name, "Fit")
    poison = it.queue.get("a")
    assert poison is not None
    poison.quarantine_s = 300.0
    it.queue.retry_after_backoff("a")
    assert poison.is_quarantined

    it.queue.activate(["a", "unknown", "b", "c"])

    assert [it.queue_name(name) for name in "abc"] == [BACKOFF, ACTIVE, ACTIVE]


@pytest.mark.parametrize("before", [ACTIVE, BACKOFF])
def test_a_pod_that_is_tried_anyway_needs_no_backoff_after_a_failed_eviction(
    before: QueueName,
) -> None:
    it = waiting_in(before)
    entry = it.queue.get("a")
    assert entry is not None
    rejectors = entry.rejectors

    it.queue.retry_after_backoff("a")
    it.queue.retry_after_backoff("deleted meanwhile")

    assert sizes(it) == {before: 1}
    assert (entry.rejectors, entry.consecutive_errors) == (rejectors, 0)


def test_a_pod_in_flight_has_no_backoff_after_a_failed_eviction() -> None:
    it = waiting_in(ACTIVE)
    entry = it.pop()

    it.queue.retry_after_backoff("a")

    assert entry.queue_name is QueueName.IN_FLIGHT
    assert sizes(it) == {QueueName.IN_FLIGHT: 1}


# -- the flush of leftovers -----------------------------------------------------------------------


def test_leftovers_are_looked_for_every_thirty_seconds() -> None:
    # Rejected at 1000 s: too old after 1300 s, and the flushes are at 1000, 1030 ... 1330 s.
    it = Bench(Refuser("Fit", on(NODE_ADD)))
    it.unschedulable("a", "Fit")
    it.queue.flush()
    left_at_s = []
    for _ in range(400):
        it.clock.advance(1)
        it.queue.flush()
        if it.queue_name("a") is not UNSCHEDULABLE:
            left_at_s.append(it.clock.monotonic_s())
            it.refuse(it.pop(), "Fit")

    assert left_at_s == [1330.0]


def test_the_next_flush_is_not_at_once_while_a_pod_is_unschedulable() -> None:
    it = Bench(Refuser("Fit", on(NODE_ADD)))
    it.unschedulable("a", "Fit")
    it.clock.advance(100)
    it.queue.flush()

    assert it.queue.next_flush_at_s() == it.clock.monotonic_s() + 30


@pytest.mark.parametrize(
    ("has_leftovers", "after"), [(True, QueueName.BACKOFF), (False, QueueName.UNSCHEDULABLE)]
)
def test_the_flush_of_leftovers_is_an_event_for_pods_in_flight(
    after: QueueName, *, has_leftovers: bool
) -> None:
    it = Bench(Refuser("Fit", on(NODE_ADD)))
    if has_leftovers:
        it.unschedulable("leftover", "Fit")
    it.clock.advance(400)
    it.add("a")
    entry = it.pop()

    it.queue.flush()
    it.refuse(entry, "Fit")

    assert it.queue_name("a") is after


# -- counts for metrics ---------------------------------------------------------------------------


def gated(gate: Any) -> Bench:
    """Returns a queue with a PreEnqueue plugin."""
    return Bench(GatePlugin("GatePlugin", gate, on(PV_ADD)), Refuser("Fit", on(NODE_ADD)))


def rejections(it: Bench) -> dict[str, int]:
    """Returns plugin -> queued pods that it rejected."""
    counts: dict[str, int] = {}
    for (plugin, profile), count in it.queue.statistics().rejected.items():
        assert profile == "default-scheduler"
        if count:
            counts[plugin] = count
    return counts


def test_a_pod_that_is_retried_after_a_failed_eviction_has_no_rejecting_plugin_any_more() -> None:
    it = Bench(Refuser("Fit", on(NODE_ADD)))
    it.unschedulable("a", "Fit")

    it.queue.retry_after_backoff("a")

    assert rejections(it) == {}
    it.queue.delete("a")
    assert rejections(it) == {}


def test_each_plugin_that_rejected_a_queued_pod_is_counted_until_its_next_attempt() -> None:
    it = Bench(Refuser("Fit", on(NODE_ADD)), Refuser("Slow", on(PV_ADD)))
    it.unschedulable("a", "Fit", pending=["Slow"])
    it.unschedulable("b", "Fit")
    assert rejections(it) == {"Fit": 2, "Slow": 1}

    it.queue.move(PV_ADD, None, None)
    assert it.queue_name("a") is ACTIVE
    entry = it.pop()
    assert entry.uid == "a"
    assert rejections(it) == {"Fit": 1}

    it.queue.delete("b")
    assert rejections(it) == {}


def test_a_plugin_that_gates_a_pod_is_counted_once_however_often_it_refuses() -> None:
    it = gated(closed)
    it.add("a")
    it.queue.move(PV_ADD, None, None)
    it.queue.move(PV_ADD, None, None)

    assert rejections(it) == {"GatePlugin": 1}
    it.queue.delete("a")
    assert rejections(it) == {}


def closing() -> tuple[Bench, list[Status]]:
    """Returns a queue with an unschedulable pod, and what its gate returns: empty = it is open."""
    refusals: list[Status] = []
    it = gated(lambda _: refusals[0] if refusals else None)
    it.unschedulable("a", "Fit")
    return it, refusals


def test_a_pod_that_is_activated_and_gated_is_no_incoming_pod() -> None:
    it, refusals = closing()
    refusals.append(Reject("closed"))

    it.queue.activate(["a"])

    # In kube-scheduler both are the unschedulable pods, so it counts no move.
    incoming = it.queue.statistics().incoming
    assert it.queue.moves[GATED, "ForceActivate"] == 1
    assert incoming[GATED, "ForceActivate"] == 0
    assert incoming[UNSCHEDULABLE, "ScheduleAttemptFailure"] == 1


def test_a_pod_that_an_event_requeues_and_a_plugin_gates_is_an_incoming_pod() -> None:
    it, refusals = closing()
    refusals.append(Reject("closed"))

    it.queue.move(NODE_ADD, None, None)

    # kube-scheduler removes it from the unschedulable pods before it calls PreEnqueue.
    assert it.queue.moves[GATED, "NodeAdd"] == 1
    assert it.queue.statistics().incoming[GATED, "NodeAdd"] == 1


def test_a_gated_pod_that_an_event_does_not_help_is_an_incoming_pod_again() -> None:
    it = gated(closed)
    it.add("a")
    moves = len(it.moved)

    for _ in range(2):
        it.queue.move(PV_ADD, None, None)
    it.queue.move(NODE_ADD, None, None)

    assert len(it.moved) == moves
    incoming = it.queue.statistics().incoming
    assert incoming[GATED, "PersistentVolumeAdd"] == 2
    assert incoming[GATED, "NodeAdd"] == 0


@pytest.mark.parametrize("answer", [ZeroDivisionError(), "nonsense"])
def test_a_gate_that_fails_counts_as_an_error_of_its_plugin(answer: Any) -> None:
    def gate(unschedulable_pods: PodInfo) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    it = gated(gate)
    it.add("a")

    assert it.framework.errors.statistics() == {("GatePlugin", "PreEnqueue"): 1}


def test_a_gated_pod_whose_gate_stays_closed_does_not_move_at_its_own_update() -> None:
    it = gated(closed)
    old = it.add("a")
    moves = len(it.moved)

    it.queue.update(old, pod("a", labels={"x": "1"}))

    assert len(it.moved) == moves
    assert rejections(it) == {"GatePlugin": 1}


@pytest.mark.parametrize(
    ("refused_by", "pending"),
    [(("Fit",), ()), ((), ("Fit",)), (("Fit",), ("Fit",)), (("Fit", "Other"), ("Fit",))],
)
def test_a_pod_that_is_popped_or_deleted_is_rejected_by_no_plugin_any_more(
    refused_by: tuple[str, ...], pending: tuple[str, ...]
) -> None:
    it = Bench(Refuser("Fit", on(NODE_ADD)), Refuser("Other", on(NODE_ADD)))
    plugins = {*refused_by, *pending}

    for name in ("a", "b"):
        it.add(name)
        it.refuse(it.pop(), *refused_by, pending=pending)
    assert rejections(it) == dict.fromkeys(plugins, 2)
    it.queue.activate(["a"])
    assert rejections(it) == dict.fromkeys(plugins, 2)
    assert it.pop().uid == "a"
    assert rejections(it) == dict.fromkeys(plugins, 1)
    it.queue.delete("b")
    assert rejections(it) == {}
