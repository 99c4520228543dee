"""Moves between queues: gates, updates of unschedulable pods, calls from plugins."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mooring.cluster_event import UNSCHEDULABLE_TIMEOUT, ActionType, ClusterEvent, EventResource
from mooring.framework import Reject
from mooring.framework.status import Status
from mooring.plugins.scheduling_gates import SchedulingGates
from mooring.queue import QueueName
from mooring.state import PodInfo
from tests.helpers.queues import (
    NODE_ADD,
    POD_UPDATE,
    PV_ADD,
    QUEUE,
    SKIP,
    Bench,
    Gate,
    GatePlugin,
    PluginWithoutEvents,
    Refuser,
    closed,
    on,
    pod,
)

ACTIVE, BACKOFF, UNSCHEDULABLE = QueueName.ACTIVE, QueueName.BACKOFF, QueueName.UNSCHEDULABLE
GATED = QueueName.GATED

POD_LABEL = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_LABEL)
POD_TOLERATION = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION)
OPEN = {"open": ""}


class Switch:
    """A gate that can be opened and closed from outside."""

    def __init__(self, *, is_open: bool = False) -> None:
        self.is_open = is_open

    def __call__(self, unschedulable_pods: PodInfo) -> Status | None:
        return None if self.is_open else Reject("closed")


def gated(gate: Gate, *others: Any, **options: Any) -> tuple[Bench, GatePlugin]:
    keeper = GatePlugin("GatePlugin", gate, on(PV_ADD))
    return Bench(keeper, Refuser("Fit", on(NODE_ADD)), *others, **options), keeper


# -- gates ----------------------------------------------------------------------------------------


def test_a_pod_that_no_gate_lets_in_is_unschedulable_behind_it() -> None:
    it, _ = gated(closed)
    it.add("a")

    assert it.last_move() == ("a", GATED, "UnschedulablePodAdd")
    assert it.queue.counts()[GATED] == 1
    entry = it.queue.get("a")
    assert entry is not None
    assert entry.gating_plugin == "GatePlugin"
    assert entry.initial_attempt_s is None
    assert it.ready == 0
    assert it.queue.pop() is None


def test_it_is_asked_about_again_only_when_its_keeper_hears_of_something() -> None:
    it, keeper = gated(closed)
    it.add("a")
    assert keeper.asked == 1

    it.queue.move(NODE_ADD, None, None)
    it.queue.move(UNSCHEDULABLE_TIMEOUT, None, None)
    assert keeper.asked == 1
    it.queue.move(PV_ADD, None, None)
    assert keeper.asked == 2
    assert it.queue_name("a") is GATED
    assert len(it.moved) == 1


def test_when_the_gate_opens_the_pod_goes_on() -> None:
    switch = Switch()
    it, _ = gated(switch)
    it.add("a")
    switch.is_open = True
    it.clock.advance(5)
    it.queue.move(PV_ADD, None, None)

    assert it.last_move() == ("a", ACTIVE, "PersistentVolumeAdd")
    entry = it.pop()
    assert entry.gating_plugin == ""
    assert entry.initial_attempt_s == 1005


def test_an_open_gate_may_give_way_to_the_next_one() -> None:
    first, second = Switch(), Switch()
    keepers = GatePlugin("First", first, on(PV_ADD)), GatePlugin("Second", second, on(NODE_ADD))
    it = Bench(*keepers)
    it.add("a")
    first.is_open = True
    it.queue.move(PV_ADD, None, None)
    assert it.queue_name("a") is GATED
    assert keepers[1].asked == 1

    it.queue.move(PV_ADD, None, None)
    assert keepers[1].asked == 1
    second.is_open = True
    it.queue.move(NODE_ADD, None, None)
    assert it.queue_name("a") is ACTIVE


def test_the_keeper_that_refused_last_is_asked_first() -> None:
    first, second = Switch(is_open=True), Switch()
    keepers = GatePlugin("First", first, on(PV_ADD)), GatePlugin("Second", second, on(PV_ADD))
    it = Bench(*keepers)
    it.add("a")
    assert (keepers[0].asked, keepers[1].asked) == (1, 1)

    it.queue.move(PV_ADD, None, None)

    assert (keepers[0].asked, keepers[1].asked) == (1, 2)


def test_a_gate_that_closes_during_an_attempt_holds_the_pod_before_its_backoff() -> None:
    switch = Switch(is_open=True)
    it, keeper = gated(switch)
    it.add("a")
    entry = it.pop()
    switch.is_open = False
    it.refuse(entry)

    assert it.last_move() == ("a", GATED, "ScheduleAttemptFailure")
    switch.is_open = True
    it.queue.move(PV_ADD, None, None)
    assert it.queue_name("a") is BACKOFF
    asked = keeper.asked
    it.clock.advance(2)
    it.queue.flush()
    assert it.queue_name("a") is ACTIVE
    assert keeper.asked == asked


def test_a_requeued_pod_may_be_gated() -> None:
    switch = Switch(is_open=True)
    it, _ = gated(switch)
    it.unschedulable("a", "Fit")
    switch.is_open = False
    it.queue.move(NODE_ADD, None, None)

    assert it.last_move() == ("a", GATED, "NodeAdd")
    assert it.queue.counts()[UNSCHEDULABLE] == 0
    switch.is_open = True
    it.queue.move(NODE_ADD, None, None)
    assert it.queue_name("a") is GATED


def test_activation_asks_the_gate_unless_the_pod_was_in_backoff() -> None:
    switch = Switch()
    it, keeper = gated(switch)
    it.add("gated")
    it.queue.activate(["gated"])
    assert it.queue_name("gated") is GATED
    switch.is_open = True
    it.queue.activate(["gated"])
    assert it.queue_name("gated") is ACTIVE

    it.refuse(it.pop())
    asked, switch.is_open = keeper.asked, False
    it.queue.activate(["gated"])
    assert it.queue_name("gated") is ACTIVE
    assert keeper.asked == asked


def test_pods_behind_a_gate_are_no_leftovers() -> None:
    it, keeper = gated(closed)
    it.add("a")
    it.clock.advance(3600)
    it.queue.flush()

    assert it.queue_name("a") is GATED
    assert keeper.asked == 1


def test_unless_their_keeper_wants_to_hear_of_everything() -> None:
    switch = Switch()

    class DeafKeeper(PluginWithoutEvents):
        def pre_enqueue(self, unschedulable_pods: PodInfo) -> Status | None:
            return switch(unschedulable_pods)

    it = Bench(DeafKeeper("GatePlugin"))
    it.add("a")
    it.clock.advance(331)
    it.queue.flush()
    assert it.queue_name("a") is GATED
    switch.is_open = True
    it.clock.advance(30)
    it.queue.flush()

    assert it.last_move() == ("a", ACTIVE, "UnschedulableTimeout")


@pytest.mark.parametrize("answer", [ZeroDivisionError(), "nonsense"])
def test_a_keeper_that_fails_holds_the_pod_back_and_that_is_logged(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    answers = [answer, None]

    def gate(unschedulable_pods: PodInfo) -> Any:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    it, _ = gated(gate)
    with caplog.at_level(logging.ERROR):
        it.add("a")
    assert it.queue_name("a") is GATED
    assert [record.message for record in caplog.records] == ["a PreEnqueue plugin failed"]

    it.queue.move(PV_ADD, None, None)
    assert it.queue_name("a") is ACTIVE


# -- updates of unschedulable pods -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint", "after_s", "queue_name"),
    [(QUEUE, 0, BACKOFF), (QUEUE, 10, ACTIVE), (SKIP, 10, UNSCHEDULABLE)],
)
def test_an_unschedulable_pod_that_changes_may_be_retried(
    hint: Any, after_s: float, queue_name: QueueName
) -> None:
    it = Bench(Refuser("Foo", on(POD_UPDATE, hint)))
    old = it.unschedulable("a", "Foo")
    it.clock.advance(after_s)
    newer = pod("a", metadata={"annotations": {"foo": "test"}})
    it.queue.update(old, newer)

    label = "ScheduleAttemptFailure" if queue_name is UNSCHEDULABLE else "UnschedulablePodUpdate"
    assert it.last_move() == ("a", queue_name, label)
    entry = it.queue.get("a")
    assert entry is not None
    assert entry.pod is newer


def test_only_if_what_changed_is_what_its_rejector_registered_for() -> None:
    it = Bench(Refuser("Foo", on(POD_LABEL)))
    old = it.unschedulable("a", "Foo")
    it.queue.update(old, newer := pod("a", tolerations=["gpu"]))
    assert it.queue_name("a") is UNSCHEDULABLE
    it.queue.update(newer, pod("a", tolerations=["gpu"], labels={"a": "1"}))

    assert it.last_move() == ("a", BACKOFF, "UnschedulablePodUpdatePodLabel")


def test_several_changes_are_tried_one_after_the_other_until_one_helps() -> None:
    it = Bench(Refuser("Foo", on(POD_LABEL, SKIP), on(POD_TOLERATION)))
    old = it.unschedulable("a", "Foo")
    it.queue.update(old, pod("a", labels={"a": "1"}, tolerations=["gpu"]))

    assert it.last_move() == ("a", BACKOFF, "UnschedulablePodUpdatePodToleration")


def test_an_update_in_the_middle_of_an_attempt_counts_at_its_end() -> None:
    it = Bench(Refuser("Foo", on(POD_LABEL)))
    old = it.add("a")
    entry = it.pop()
    newer = pod("a", labels={"a": "1"})
    it.queue.update(old, newer)
    assert it.queue_name("a") is QueueName.IN_FLIGHT

    with it.queue.in_flight(entry):
        it.queue.add_unschedulable(entry, newer, refused_by=["Foo"])

    assert it.queue_name("a") is BACKOFF
    assert it.pop().pod is newer


def test_when_the_last_gate_is_taken_away_the_pod_is_tried() -> None:
    it = Bench(SchedulingGates())
    it.add("other", gates=["a"])
    first = it.add("a", gates=["a", "b"])
    it.queue.update(first, second := pod("a", gates=["b"]))
    assert it.queue_name("a") is GATED

    it.queue.update(second, pod("a"))

    assert it.last_move()[:2] == ("a", ACTIVE)
    assert it.moved[-1][2] == "UnschedulablePodUpdatePodSchedulingGatesEliminated"
    assert it.queue_name("other") is GATED


def test_an_update_groups_the_pod_anew() -> None:
    # Its hints are asked about what it is now, not what it was.
    asked: list[PodInfo] = []

    def hint(unschedulable_pods: PodInfo, old: Any, new: Any) -> Any:
        asked.append(unschedulable_pods)
        return SKIP

    it = Bench(Refuser("Foo", on(NODE_ADD, hint)))
    old = it.unschedulable("a", "Foo")
    it.queue.update(old, newer := pod("a", labels=OPEN))
    it.queue.move(NODE_ADD, None, None)

    assert asked == [newer]


# -- called from inside ---------------------------------------------------------------------------


def test_a_hint_may_activate_pods() -> None:
    def hint(unschedulable_pods: PodInfo, old: Any, new: Any) -> Any:
        it.queue.activate(["b"])
        return QUEUE

    it = Bench(Refuser("Foo", on(NODE_ADD, hint)))
    for name in "abc":
        it.unschedulable(name, "Foo")
    it.queue.move(NODE_ADD, None, None)

    assert [it.queue_name(name) for name in "abc"] == [BACKOFF, ACTIVE, BACKOFF]


def test_the_callback_for_a_ready_pod_may_pop_at_once() -> None:
    popped: list[str] = []

    def pop() -> None:
        if (entry := it.queue.pop()) is not None:
            popped.append(entry.uid)

    it = Bench(Refuser("Foo", on(NODE_ADD)), on_ready=pop)
    it.add("a")
    it.add("b")

    assert popped == ["a", "b"]
    assert it.queue.counts()[QueueName.IN_FLIGHT] == 2
