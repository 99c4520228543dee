"""Pods in flight and the events that are kept for them, and the block that ends an attempt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster_event import ClusterEvent
from mooring.errors import InvariantViolation
from mooring.queue.in_flight import EVENTS_DROPPED, MAX_EVENTS, InFlight
from mooring.queue.in_flight_attempt import InFlightAttempt
from mooring.queue.queued_pod import QueuedPod
from tests.helpers.queues import NODE_ADD, POD_GONE, PV_ADD, Bench, Refuser, on, pod


def events_since(flights: InFlight, uid: str) -> list[ClusterEvent]:
    return [each.event for each in flights.events_since(uid)]


def test_with_nothing_in_flight_nothing_is_kept() -> None:
    flights = InFlight()

    flights.record(NODE_ADD, None, None)

    assert flights.event_count == 0
    assert len(flights) == 0


def test_a_pod_has_the_events_since_it_was_taken_out_and_no_earlier_ones() -> None:
    flights = InFlight()
    flights.begin("a")
    flights.record(NODE_ADD, None, "node")
    flights.begin("b")
    flights.record(POD_GONE, "pod", None)

    assert events_since(flights, "a") == [NODE_ADD, POD_GONE]
    assert events_since(flights, "b") == [POD_GONE]
    assert flights.events_since("b")[0].old == "pod"
    assert flights.events_since("a")[0].new == "node"


def test_events_that_only_the_first_needed_go_with_it() -> None:
    flights = InFlight()
    flights.begin("a")
    flights.record(PV_ADD, None, None)
    flights.begin("b")
    flights.record(NODE_ADD, None, None)

    flights.done("a")

    assert flights.event_count == 1
    assert events_since(flights, "b") == [NODE_ADD]


def test_one_in_the_middle_takes_nothing_with_it() -> None:
    flights = InFlight()
    for uid, event in [("a", PV_ADD), ("b", NODE_ADD), ("c", POD_GONE)]:
        flights.begin(uid)
        flights.record(event, None, None)

    flights.done("b")

    assert flights.event_count == 3
    assert events_since(flights, "a") == [PV_ADD, NODE_ADD, POD_GONE]
    assert events_since(flights, "c") == [POD_GONE]


def test_the_last_one_takes_everything() -> None:
    flights = InFlight()
    for uid in "ab":
        flights.begin(uid)
        flights.record(NODE_ADD, None, None)
    flights.done("b")
    flights.done("a")

    assert flights.event_count == 0
    assert "a" not in flights


def test_done_twice_or_for_a_stranger_does_nothing() -> None:
    flights = InFlight()
    flights.begin("a")
    flights.record(NODE_ADD, None, None)

    flights.done("stranger")
    assert events_since(flights, "a") == [NODE_ADD]
    flights.done("a")
    flights.done("a")
    assert len(flights) == 0


def test_no_pod_is_in_flight_twice() -> None:
    flights = InFlight()
    flights.begin("a")

    with pytest.raises(InvariantViolation, match="pod a was popped twice"):
        flights.begin("a")


def test_every_attempt_has_a_number_of_its_own() -> None:
    flights = InFlight()
    first = flights.begin("a")
    flights.done("a")
    second = flights.begin("a")

    assert first != second
    assert flights.is_current("a", second)
    assert not flights.is_current("a", first)
    assert not flights.is_current("b", second)


def test_more_events_than_anybody_needs_are_not_kept() -> None:
    # A pod waits for its permit for a quarter of an hour, while nodes come and go.
    flights = InFlight()
    flights.begin("waiting")
    for _ in range(3 * MAX_EVENTS):
        flights.record(NODE_ADD, None, None)

    assert flights.event_count <= MAX_EVENTS


def test_as_many_events_as_the_limit_are_kept_and_one_more_drops_the_older_half() -> None:
    flights = InFlight(max_events=4)
    flights.begin("a")
    for turn in range(4):
        flights.record(NODE_ADD, None, turn)
    assert [each.new for each in flights.events_since("a")] == [0, 1, 2, 3]

    flights.record(NODE_ADD, None, 4)

    assert [each.new for each in flights.events_since("a")] == [None, 2, 3, 4]
    assert flights.events_since("a")[0] == EVENTS_DROPPED


def test_counts_are_those_of_events_and_of_pods_in_flight() -> None:
    flights = InFlight()
    flights.begin("a")
    flights.begin("b")
    for event in (NODE_ADD, NODE_ADD, PV_ADD):
        flights.record(event, None, None)

    assert flights.counts() == {NODE_ADD.label: 2, PV_ADD.label: 1, "PodPopped": 2}


def test_what_was_forgotten_may_have_helped() -> None:
    flights = InFlight(max_events=4)
    flights.begin("old")
    for _ in range(3):
        flights.record(PV_ADD, None, None)
    flights.begin("new")
    flights.record(NODE_ADD, None, None)
    flights.record(POD_GONE, None, None)

    assert flights.events_since("old")[0] == EVENTS_DROPPED
    assert events_since(flights, "new") == [NODE_ADD, POD_GONE]
    flights.done("old")
    assert events_since(flights, "new") == [NODE_ADD, POD_GONE]
    flights.done("new")
    assert flights.event_count == 0


@given(st.lists(st.tuples(st.sampled_from("be!dd"), st.sampled_from("abcd")), max_size=60))
def test_it_is_a_list_of_what_happened_to_each(steps: list[tuple[str, str]]) -> None:
    flights = InFlight()
    model: dict[str, list[int]] = {}
    for turn, (what, uid) in enumerate(steps):
        if what == "b" and uid not in model:
            flights.begin(uid)
            model[uid] = []
        elif what == "d":
            flights.done(uid)
            model.pop(uid, None)
        else:
            flights.record(NODE_ADD, None, turn)
            for seen in model.values():
                seen.append(turn)

        assert {one: [each.new for each in flights.events_since(one)] for one in model} == model
        assert flights.event_count == max(map(len, model.values()), default=0)
        assert len(flights) == len(model)


# -- the block ------------------------------------------------------------------------------------


def queued() -> Bench:
    bench = Bench(Refuser("Fit", on(NODE_ADD)))
    bench.add("a")
    return bench


def test_leaving_the_block_ends_the_attempt() -> None:
    bench = queued()
    entry = bench.pop()
    with bench.queue.in_flight(entry) as attempt_number:
        bench.queue.move(NODE_ADD, None, None)
        assert attempt_number.entry is entry
        assert bench.queue.in_flight_events == 1

    assert bench.queue.in_flight_events == 0


def test_an_exception_ends_it_even_when_it_was_handed_over() -> None:
    bench = queued()

    def fail_late() -> None:
        with bench.queue.in_flight(bench.pop()) as attempt_number:
            attempt_number.detach()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_late()

    assert bench.queue.counts() == dict.fromkeys(bench.queue.counts(), 0)


def test_handed_over_it_goes_on_until_it_is_done() -> None:
    bench = queued()
    with bench.queue.in_flight(bench.pop()) as attempt_number:
        attempt_number.detach()
    bench.queue.move(NODE_ADD, None, None)
    assert bench.queue.in_flight_events == 1

    attempt_number.done()
    attempt_number.done()

    assert bench.queue.in_flight_events == 0


def test_a_block_ends_the_attempt_that_it_was_made_for() -> None:
    ended: list[tuple[str, int]] = []
    entry = QueuedPod(pod("a"), 0.0, attempt_number=7)
    attempt_number = InFlightAttempt(entry, lambda each, number: ended.append((each.uid, number)))
    entry.attempt_number = 8

    attempt_number.done()

    assert ended == [("a", 7)]
