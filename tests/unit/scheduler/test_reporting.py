"""Events and conditions on the API server: texts and reasons."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mooring.client import Client, Recorder
from mooring.clock import VirtualClock, seeded_random
from mooring.errors import Forbidden, PluginError, SchedulerError
from mooring.framework import Code, Diagnosis, Reject, Status
from mooring.scheduler.reporting import NOTE_LENGTH_MAX, Reporting, error_text
from mooring.scheduler.status_writer import StatusWriter
from mooring.state import PodInfo
from mooring.testing import make_pod
from tests.helpers.client_servers import Script, answer
from tests.helpers.running_scheduler import virtually


class Office:
    """A Reporting, and what lies on its recorders' and its writer's desks."""

    def __init__(self, *names: str, notes: Any = None, answers: Sequence[Any] = ()) -> None:
        clock, rng = VirtualClock(), seeded_random(0)
        self.script = Script(*answers)
        client = Client(self.script, rng=rng)
        self.recorders = {
            name: Recorder(client, controller=name, instance=f"{name}-x", clock=clock, rng=rng)
            for name in names or ("default-scheduler",)
        }
        self.writer = StatusWriter(client, clock=clock, rng=seeded_random(0), sleep=asyncio.sleep)
        self.reporting = Reporting(self.recorders, self.writer, notes)

    def event(self, name: str = "default-scheduler") -> Any:
        """Returns the one event of a scheduler."""
        (series,) = self.recorders[name]._writes.values()
        return series.event

    def word(self) -> Any:
        """Returns the one word about a pod's status."""
        (word,) = self.writer._writes.values()
        return word


def info(**more: Any) -> PodInfo:
    return PodInfo(make_pod("web", **more))


def refusal(*reasons: str) -> Diagnosis:
    found = Diagnosis(1)
    found.reasons.update(reasons)
    return found


def test_a_profile_may_have_a_note_of_its_own_for_bound_pods() -> None:
    office = Office(
        "default-scheduler", "own", notes={"own": lambda pod, node: f"{pod.key}@{node}"}
    )
    office.reporting.bound(info(), "a")
    office.reporting.bound(info(scheduler_name="own"), "b")
    assert office.event().note == "Successfully assigned default/web to a"
    assert office.event("own").note == "default/web@b"


def test_a_bound_pod_is_reported_in_kube_schedulers_words() -> None:
    office = Office()
    office.reporting.bound(info(), "a")
    event = office.event()
    assert (event.type, event.reason, event.action) == ("Normal", "Scheduled", "Binding")
    assert event.note == "Successfully assigned default/web to a"
    assert len(office.writer) == 0


def test_a_pod_that_is_being_deleted_is_reported_without_a_condition() -> None:
    office = Office()
    office.reporting.skipped(info())
    event = office.event()
    assert (event.type, event.reason, event.action) == (
        "Warning",
        "FailedScheduling",
        "Scheduling",
    )
    assert event.note == "skip schedule deleting pod: default/web"
    assert len(office.writer) == 0


@pytest.mark.parametrize(
    ("why", "reason", "message"),
    [
        (
            refusal("Insufficient cpu"),
            "Unschedulable",
            "0/1 nodes are available: 1 Insufficient cpu.",
        ),
        (Diagnosis(0), "Unschedulable", "no nodes available to schedule pods"),
        (Reject("not now", "nor then"), "Unschedulable", "not now, nor then"),
        (
            PluginError("P", "Filter", "oops"),
            "SchedulerError",
            'running "P" filter plugin: oops',
        ),
        (SchedulerError("odd"), "SchedulerError", "odd"),
    ],
)
def test_a_failure_has_its_reason_and_its_message(why: Any, reason: str, message: str) -> None:
    office = Office()
    office.reporting.failed(info(), why, "")
    event, word = office.event(), office.word()
    assert (event.type, event.reason, event.action, event.note) == (
        "Warning",
        "FailedScheduling",
        "Scheduling",
        message,
    )
    assert (word.reason, word.message, word.nominated, word.announced) == (
        reason,
        message,
        "",
        None,
    )


def test_each_scheduler_speaks_for_itself_and_the_default_one_for_the_nameless() -> None:
    office = Office("default-scheduler", "second")
    office.reporting.bound(info(scheduler_name=""), "a")
    office.reporting.bound(info(scheduler_name="second"), "b")
    assert office.event().note.endswith(" to a")
    assert office.event("second").note.endswith(" to b")
    assert office.event("second").reporting_controller == "second"


@pytest.mark.parametrize(
    ("length", "buffered"), [(NOTE_LENGTH_MAX, NOTE_LENGTH_MAX), (NOTE_LENGTH_MAX + 1, 1020)]
)
def test_a_long_note_is_cut_and_says_so(length: int, buffered: int) -> None:
    office = Office()
    message = "x" * length
    office.reporting.failed(info(), SchedulerError(message), None)
    note = office.event().note
    assert note == (message if length == buffered else "x" * buffered + " ...")
    assert len(note) <= NOTE_LENGTH_MAX
    assert office.word().message == message


def test_no_half_of_a_character_is_left_by_the_cut() -> None:
    office = Office()
    office.reporting.failed(info(), SchedulerError("x" + "é" * 600), None)
    note = office.event().note
    assert note.endswith("é ...")
    assert len(note.encode()) <= NOTE_LENGTH_MAX


def test_an_error_tells_first_who_met_it() -> None:
    error = SchedulerError("refused")
    assert error_text(error) == "refused"
    error.add_note('running Bind plugin "B"')
    assert error_text(error) == 'running Bind plugin "B": refused'


def test_the_event_of_a_victim_is_of_the_scheduler_that_evicts_it() -> None:
    office = Office("first", "second")
    victim, preemptor = info(scheduler_name="elsewhere"), info(scheduler_name="second")

    office.reporting.preempted(victim, preemptor, "Preempted by a pod")

    event = office.event("second")
    assert (event.type, event.reason, event.action, event.note) == (
        "Normal",
        "Preempted",
        "Preempting",
        "Preempted by a pod",
    )
    assert (event.regarding.uid, event.related.uid) == (victim.uid, preemptor.uid)
    assert not office.recorders["first"]._writes


@pytest.mark.parametrize("note_length", [10, 2000])
def test_a_failed_eviction_is_an_event_of_the_preemptor(note_length: int) -> None:
    office = Office("first", "second")
    victim = PodInfo(make_pod("old", scheduler_name="first"))
    text = "x" * note_length
    error = Forbidden("DELETE /x: no", status=403, server_message=text)

    office.reporting.eviction_failed(victim, info(scheduler_name="second"), error)

    event = office.event("second")
    assert (event.type, event.reason, event.action) == (
        "Warning",
        "FailedPreemption",
        "Preempting",
    )
    assert event.regarding.name == "web"
    note = f"preemption: cannot evict pod default/old: {text}"
    assert event.note == (note if note_length == 10 else note[:1020] + " ...")
    assert not office.recorders["first"]._writes


def test_a_plugin_reports_with_its_own_reason_and_action() -> None:
    office = Office()
    office.reporting.reported(info(), "Reason", "Action", "note")
    event = office.event()
    assert (event.type, event.reason, event.action, event.note) == (
        "Normal",
        "Reason",
        "Action",
        "note",
    )


def test_a_quarantine_is_an_event_of_its_own_and_part_of_the_condition() -> None:
    office = Office()
    error = PluginError("P", "Filter", "oops")
    office.reporting.failed(info(), error, "a", "b", quarantine_s=59.6)
    events = [series.event for series in office.recorders["default-scheduler"]._writes.values()]
    text = "quarantined for 60 s, because attempts raise again and again"
    message = 'running "P" filter plugin: oops'
    assert [(event.type, event.reason, event.action, event.note) for event in events] == [
        ("Warning", "FailedScheduling", "Scheduling", message),
        ("Warning", "Quarantined", "Scheduling", text),
    ]
    word = office.word()
    assert (word.message, word.nominated, word.announced) == (f"{message}; {text}", "a", "b")


def test_the_condition_of_a_pod_that_is_being_bound_is_not_written_any_more() -> None:
    office = Office()
    office.reporting.failed(info(), refusal("full"), None)
    office.reporting.failed(PodInfo(make_pod("other")), refusal("full"), None)
    office.reporting.placed(info())
    assert office.word().pod.metadata.name == "other"


def test_what_was_stored_of_a_pod_that_is_bound_or_gone_is_forgotten() -> None:
    ends: list[Callable[[Reporting], None]] = [
        lambda reporting: reporting.bound(info(), "a"),
        lambda reporting: reporting.failed_for_good(info(), SchedulerError("odd")),
    ]
    for end in ends:
        office = Office()
        for pod in (info(), PodInfo(make_pod("other"))):
            office.writer._stored[pod.uid] = pod.pod
        end(office.reporting)
        assert [pod.metadata.name for pod in office.writer._stored.values()] == ["other"]


@pytest.mark.parametrize(
    ("response", "may_be_stored"),
    [(answer(200, {"metadata": {"name": "web"}}), True), (answer(403, {}), False)],
)
@virtually
async def test_a_nomination_is_written_before_the_binding(
    response: Any, may_be_stored: bool
) -> None:
    office = Office(answers=[response])
    assert await office.reporting.expected(info(), "a") is may_be_stored
    (request,) = office.script.requests
    assert request.body["status"] == {"nominatedNodeName": "a"}


def test_the_failure_of_a_pod_that_is_gone_is_an_event_alone() -> None:
    office = Office()
    office.reporting.failed_for_good(info(), SchedulerError("odd"))
    event = office.event()
    assert (event.type, event.reason, event.note) == ("Warning", "FailedScheduling", "odd")
    assert len(office.writer) == 0


def test_an_error_of_the_api_server_has_the_servers_own_text() -> None:
    error = Forbidden("POST /x: no right", status=403, server_message="no right")
    assert error_text(error) == "no right"
    assert error_text(Forbidden("POST /x: no message", status=403)) == "POST /x: no message"
    error.add_note("first")
    error.add_note("second")
    assert error_text(error) == "first: second: no right"


@pytest.mark.parametrize(
    "why",
    [
        SchedulerError("unknown size \ud800"),
        Status(Code.UNSCHEDULABLE, ("unknown size \ud800",)),
    ],
)
def test_a_text_that_cannot_be_encoded_is_escaped(why: Any) -> None:
    office = Office()
    office.reporting.failed(info(), why, None)
    assert office.event().note == office.word().message == "unknown size \\ud800"
