"""Events: series, their ends, and what happens when they cannot be written."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from mooring.client.event_recorder import FINISH_S, QUEUE_MAX, REFRESH_S, Recorder
from mooring.client.rest.client import Client
from mooring.clock import VirtualClock, seeded_random
from mooring.errors import LeaseLost, OutcomeUnknown, Unreachable
from mooring.objects import Node, ObjectMeta, Pod
from tests.helpers.client_servers import Script, Sleeper, answer, refusal

WEB = Pod(metadata=ObjectMeta(name="web", namespace="shop", uid="u1", resource_version="5"))
STORED = answer(201, {"metadata": {"name": "stored"}})


class Case:
    """A recorder whose writes follow a script."""

    def __init__(self, *answers: Any) -> None:
        self.script = Script(*answers)
        self.clock = VirtualClock()
        self.sleeper = Sleeper(self.clock)
        self.recorder = Recorder(
            Client(self.script, rng=seeded_random(1), sleep=self.sleeper),
            controller="default-scheduler",
            instance="default-scheduler-host",
            clock=self.clock,
            rng=seeded_random(1),
            sleep=self.sleeper,
        )

    def record(self, note: str = "why", **fields: Any) -> None:
        given: dict[str, Any] = {
            "type": "Warning",
            "reason": "FailedScheduling",
            "action": "Scheduling",
            "note": note,
        }
        self.recorder.record(fields.pop("regarding", WEB), **{**given, **fields})

    def write(self) -> None:
        asyncio.run(self.recorder.write_waiting())

    @property
    def sent(self) -> list[tuple[str, Any]]:
        return [(request.method, request.body) for request in self.script.requests]

    @property
    def counts(self) -> tuple[int, int, int, int]:
        found = self.recorder.statistics()
        return found.recorded, found.written, found.dropped, found.failed


def test_the_first_event_is_an_object() -> None:
    case = Case(STORED)
    case.record("0/3 nodes are available")
    case.write()
    [(method, body)] = case.sent
    name = body["metadata"].pop("name")
    assert method == "POST"
    assert name.startswith("web.")
    assert len(name) == len("web.") + 16
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "shop"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-host",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "regarding": {
            "kind": "Pod",
            "namespace": "shop",
            "name": "web",
            "uid": "u1",
            "apiVersion": "v1",
            "resourceVersion": "5",
        },
        "note": "0/3 nodes are available",
        "type": "Warning",
    }
    assert case.script.requests[0].path == "/apis/events.k8s.io/v1/namespaces/shop/events"


def test_the_second_one_makes_a_series_and_the_third_is_only_counted() -> None:
    case = Case(STORED, STORED)
    for note in ("first", "second", "third"):
        case.record(note)
        case.write()
        case.clock.advance(1)
    (_, created), (method, patched) = case.sent
    assert method == "PATCH"
    assert case.script.requests[1].path.endswith(created["metadata"]["name"])
    assert patched == {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}}
    assert case.script.requests[1].headers["content-type"] == (
        "application/strategic-merge-patch+json"
    )
    assert case.counts == (3, 2, 0, 0)


@pytest.mark.parametrize(
    "other",
    [
        {"type": "Normal"},
        {"reason": "Preempted"},
        {"action": "Preempting"},
        {"regarding": Pod(metadata=ObjectMeta(name="web", namespace="shop", uid="u2"))},
        {"related": Node(metadata=ObjectMeta(name="n1"))},
    ],
)
def test_what_differs_is_another_series(other: dict[str, Any]) -> None:
    case = Case(STORED, STORED)
    case.record()
    case.record(**other)
    case.write()
    assert [method for method, _ in case.sent] == ["POST", "POST"]


def test_the_end_of_a_series_is_written_with_its_count() -> None:
    case = Case(STORED, STORED, STORED, STORED)
    for _ in range(5):
        case.record()
    case.write()
    case.clock.advance(FINISH_S)
    case.write()
    assert len(case.sent) == 2, "six minutes are not over yet"
    case.clock.advance(FINISH_S)
    case.write()
    assert case.sent[2][1]["series"]["count"] == 5
    case.record()
    case.write()
    assert case.sent[3][0] == "POST", "a new series"


def test_a_single_event_is_forgotten_after_six_minutes() -> None:
    case = Case(STORED, STORED)
    case.record()
    case.write()
    case.clock.advance(FINISH_S + 1)
    case.write()
    case.record()
    case.write()
    assert [method for method, _ in case.sent] == ["POST", "POST"]


def test_a_queued_event_is_written_before_its_series_ends() -> None:
    case = Case(STORED, STORED)
    case.record()
    case.clock.advance(FINISH_S + 1)
    case.write()
    case.record()
    case.write()
    assert [method for method, _ in case.sent] == ["POST", "POST"]


def test_a_series_that_goes_on_is_written_every_half_hour() -> None:
    case = Case(STORED, STORED, STORED)
    for _ in range(3):
        case.record()
        case.write()
    for _ in range(int(REFRESH_S / 300)):
        case.clock.advance(300)
        case.record()
        case.write()
    assert [body["series"]["count"] for _, body in case.sent[1:]] == [2, 9]


def test_repetitions_before_the_first_write_are_one_event_and_its_count() -> None:
    case = Case(STORED, STORED)
    for _ in range(3):
        case.record()
    case.write()
    (_, created), (method, patched) = case.sent
    assert "series" not in created
    assert (method, patched["series"]["count"]) == ("PATCH", 3)


def test_a_series_whose_event_is_gone_is_created_anew() -> None:
    case = Case(STORED, refusal(404, "NotFound"), STORED)
    case.record()
    case.record()
    case.write()
    assert [method for method, _ in case.sent] == ["POST", "PATCH", "POST"]
    assert case.sent[2][1]["series"]["count"] == 2


def test_a_series_that_another_try_created_is_patched_again() -> None:
    case = Case(STORED, refusal(404, "NotFound"), refusal(409, "AlreadyExists"), STORED)
    case.record()
    case.record()
    case.write()
    assert [method for method, _ in case.sent] == ["POST", "PATCH", "POST", "PATCH"]


@pytest.mark.parametrize(
    "trouble",
    [Unreachable("refused"), OutcomeUnknown("no answer"), answer(500, b"ill"), refusal(429, "")],
)
def test_an_event_is_tried_again_after_ten_seconds(trouble: Any) -> None:
    case = Case(trouble, STORED)
    case.record()
    case.write()
    assert [method for method, _ in case.sent] == ["POST", "POST"]
    assert case.sent[0] == case.sent[1], "the same event, by the same name"
    [wait_s] = case.sleeper.waits_s
    assert 10.0 <= wait_s < 12.5


def test_an_event_that_an_earlier_try_created_is_written() -> None:
    case = Case(OutcomeUnknown("no answer"), refusal(409, "AlreadyExists"))
    case.record()
    case.write()
    assert case.counts == (1, 1, 0, 0)


def test_an_event_is_given_up_after_twelve_tries() -> None:
    case = Case(*[Unreachable("refused")] * 12)
    case.record()
    case.write()
    assert case.counts == (1, 0, 0, 1)
    assert len(case.sleeper.waits_s) == 11


def test_a_series_has_tries_of_its_own() -> None:
    # As kube-scheduler's recorder, which sends the first event and the series apart.
    refused = Unreachable("refused")
    case = Case(*[refused] * 8, STORED, *[refused] * 8, STORED)
    case.record()
    case.record()
    case.write()
    assert [method for method, _ in case.sent] == ["POST"] * 9 + ["PATCH"] * 9
    assert case.counts == (2, 2, 0, 0)


def test_an_event_in_a_deleted_namespace_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    case = Case(refusal(404, "NotFound"))
    case.record()
    case.write()
    assert case.counts == (1, 0, 0, 1)
    (record,) = caplog.records
    assert (record.levelname, record.message) == (
        "INFO",
        "event not written: namespace deleted",
    )


@pytest.mark.parametrize("refused", [refusal(403, "Forbidden"), refusal(422, "Invalid")])
def test_an_event_that_is_refused_is_not_tried_again(refused: Any) -> None:
    case = Case(refused, refused)
    case.record()
    case.write()
    assert case.counts == (1, 0, 0, 1)
    case.record()
    case.write()
    assert case.counts == (2, 0, 0, 2)


def test_without_the_lease_nothing_is_written() -> None:
    def fence() -> float:
        raise LeaseLost("gone")

    case = Case()
    case.recorder = Recorder(
        Client(case.script, rng=seeded_random(1), fence=fence),
        controller="c",
        instance="i",
        clock=case.clock,
        rng=seeded_random(1),
    )
    case.record()
    case.record(reason="Other")
    case.write()
    assert case.sent == []
    assert case.counts == (2, 0, 0, 2)
    assert case.sleeper.waits_s == []


def test_a_full_queue_drops_what_is_old() -> None:
    case = Case(*[STORED] * QUEUE_MAX)
    for number in range(QUEUE_MAX + 7):
        case.record(reason=f"R{number}")
    assert case.counts == (QUEUE_MAX + 7, 0, 7, 0)
    assert len(case.recorder) == QUEUE_MAX
    case.write()
    assert case.sent[0][1]["reason"] == "R7"
    assert case.sent[-1][1]["reason"] == f"R{QUEUE_MAX + 6}"
    assert len(case.recorder) == 0


def test_the_oldest_series_makes_room_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.client.event_recorder.SERIES_MAX", 2)
    case = Case(*[STORED] * 4)
    for reason in ("A", "B", "C", "A"):
        case.record(reason=reason)
    case.write()
    assert [method for method, _ in case.sent] == ["POST"] * 4, "A began anew"


@pytest.mark.parametrize("note", ["x" * 2000, "ä" * 1000, "a" + "€" * 999])
def test_a_long_note_is_cut_between_characters(note: str) -> None:
    case = Case(STORED)
    case.record(note)
    case.write()
    sent = case.sent[0][1]["note"]
    assert 1020 < len(sent.encode()) <= 1024
    assert note.startswith(sent)


def test_an_event_about_a_node_is_in_the_default_namespace() -> None:
    case = Case(STORED)
    case.record(regarding=Node(metadata=ObjectMeta(name="n1", uid="u")))
    case.write()
    assert case.sent[0][1]["metadata"]["namespace"] == "default"


def test_a_name_that_would_be_refused_is_replaced() -> None:
    case = Case(STORED, STORED)
    case.record(regarding=Pod(metadata=ObjectMeta(name="x" * 250, namespace="shop")))
    case.record(regarding=Pod(metadata=ObjectMeta(name="Web_1", namespace="shop")))
    case.write()
    for _, body in case.sent:
        assert body["metadata"]["name"].startswith("event.")


@pytest.mark.parametrize(
    "wall_s", [0.0, 1.9999994, 1.9999996, 1.7e9 + 0.000001, 1767225599.9999997]
)
def test_times_have_microseconds(wall_s: float) -> None:
    case = Case(STORED)
    case.clock.wall_s = lambda: wall_s  # type: ignore[method-assign]
    case.record()
    case.write()
    [(_, body)] = case.sent
    moment = datetime.fromtimestamp(wall_s, UTC)
    assert body["eventTime"] == moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def test_an_answer_is_not_looked_at() -> None:
    case = Case(answer(201, {"metadata": 7}))
    case.record()
    case.write()
    assert case.counts == (1, 1, 0, 0)
    assert len(case.sent) == 1


def test_names_come_from_the_generator() -> None:
    names = []
    for _ in range(2):
        case = Case(STORED, STORED)
        case.record()
        case.record(reason="Other")
        case.write()
        names.append([body["metadata"]["name"] for _, body in case.sent])
    assert names[0] == names[1]
    assert len(set(names[0])) == 2


def test_a_running_recorder_writes_what_comes() -> None:
    async def main() -> None:
        case = Case(STORED, STORED)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(case.recorder.run())
            await asyncio.sleep(0)
            case.record()
            while not case.script.requests:  # noqa: ASYNC110 - it has no event to wait for
                await asyncio.sleep(0)
            running.cancel()
        assert json.dumps(case.sent).count("FailedScheduling") == 1

    asyncio.run(main())


def test_a_single_event_is_not_written_again_every_half_hour() -> None:
    case = Case(STORED)
    case.record()
    case.clock.advance(REFRESH_S)
    case.write()
    assert len(case.sent) == 1


def test_a_series_that_is_refused_is_not_tried_again() -> None:
    case = Case(STORED, refusal(403, "Forbidden"))
    case.record()
    case.record()
    case.write()
    assert case.counts == (2, 1, 0, 1)
