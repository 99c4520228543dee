"""The log of attempts, from the scheduler's own calls."""

from __future__ import annotations

from mooring.clock import VirtualClock
from mooring.framework import Attempt, Diagnosis, Placement
from mooring.framework.status import NodeError, PostFilterResult, Reject
from mooring.objects.meta import ObjectMeta
from mooring.objects.pod import Pod
from mooring.queue import QueuedPod
from mooring.state import PodInfo, empty_snapshot
from mooring.ui.attempts import AttemptLog


def queued(name: str) -> QueuedPod:
    pod = Pod(metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-{name}"))
    return QueuedPod(PodInfo(pod), 0.0)


def attempt() -> Attempt:
    return Attempt(empty_snapshot())


def refusal() -> Diagnosis:
    diagnosis = Diagnosis(3, unschedulable_plugins={"B", "A"}, pending_plugins={"C"})
    diagnosis.reasons["too small"] = 3
    return diagnosis


def test_results_are_noted_in_order() -> None:
    log = AttemptLog(VirtualClock())
    log.attempted(queued("a"), attempt(), Placement("n1", 0, 2, 3))
    log.attempted(queued("b"), attempt(), refusal())
    log.failed(queued("b"), refusal())

    first, second = log.since(0, 10)
    assert (first.number, first.pod, first.result, first.node) == (
        1,
        "default/a",
        "scheduled",
        "n1",
    )
    assert (first.feasible, first.evaluated) == (2, 3)
    assert (second.number, second.result, second.plugins) == (2, "unschedulable", ("A", "B", "C"))
    assert second.message == "0/3 nodes are available: 3 too small."
    assert log.since(1, 10) == [second]
    assert log.since(2, 10) == []
    assert log.since(0, 1) == [second]


def test_a_preemption_and_its_victims_belong_to_the_attempt() -> None:
    log = AttemptLog(VirtualClock())
    log.attempted(queued("a"), attempt(), refusal())
    victims = (queued("v1").pod, queued("v2").pod)
    log.preempts(queued("a"), PostFilterResult(None, "n2", victims))

    (record,) = log.since(0, 10)
    assert (record.result, record.node) == ("preempts", "n2")
    assert record.victims == ("default/v1", "default/v2")


def test_a_failure_after_the_node_was_selected_replaces_the_result() -> None:
    log = AttemptLog(VirtualClock())
    for name in ("a", "b"):
        log.attempted(queued(name), attempt(), Placement("n1", 0, 1, 1))
    log.failed(queued("a"), Reject("no quota").named("Quota"))
    log.failed(queued("b"), NodeError("boom").named("Binder"))

    a, b = log.since(0, 10)
    assert (a.result, a.message, a.plugins, a.node) == ("rejected", "no quota", ("Quota",), "n1")
    assert b.message == "boom"


def test_the_oldest_attempts_are_dropped() -> None:
    log = AttemptLog(VirtualClock(), limit=3)
    for number in range(5):
        log.attempted(queued(f"p{number}"), attempt(), Placement("n1", 0, 1, 1))

    assert [record.number for record in log.since(0, 10)] == [3, 4, 5]
    assert log.last_number == 5
    assert log.of_pod("uid-p4") == log.since(4, 10)
    assert log.of_pod("uid-p0") == []


def test_attempts_are_found_by_result_and_name() -> None:
    log = AttemptLog(VirtualClock())
    log.attempted(queued("web-1"), attempt(), Placement("n1", 0, 1, 1))
    log.attempted(queued("web-2"), attempt(), refusal())
    log.attempted(queued("db"), attempt(), refusal())

    def names(**words: str) -> list[str]:
        query = {"result": "", "text": "", **words}
        return [record.pod for record in log.matching(**query, limit=10)]

    assert names() == ["default/db", "default/web-2", "default/web-1"]
    assert names(text="web") == ["default/web-2", "default/web-1"]
    assert names(result="unschedulable", text="web") == ["default/web-2"]
