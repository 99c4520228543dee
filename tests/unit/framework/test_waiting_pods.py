"""Pods that Permit holds back: allowed by all, refused by one, or out of time."""

from __future__ import annotations

import pytest

from mooring.framework import NodeError, Reject
from mooring.framework.waiting_pods import MAX_WAIT_S, WaitingPod, WaitingPods
from mooring.state import PodInfo
from mooring.testing import make_pod


def waiting(**waits: float) -> WaitingPod:
    return WaitingPod(PodInfo(make_pod("p")), "node-1", waits, now_s=100.0)


def test_the_last_plugin_to_allow_lets_the_pod_go() -> None:
    pod = waiting(A=5, B=9)
    told: list[WaitingPod] = []
    pod.on_settled = told.append

    pod.allow("A")
    assert (pod.status, pod.pending_plugins) == (None, ["B"])
    pod.allow("B")

    assert pod.status == ()
    assert told == [pod]
    assert pod.deadline_s == float("inf")


def test_one_refusal_ends_the_wait_and_later_words_change_nothing() -> None:
    pod = waiting(A=5, B=9)

    pod.reject("B", "no")
    pod.allow("A")
    pod.allow("B")

    assert pod.status == Reject("no").named("B")


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (2, "2s"),
        (1.5, "1.5s"),
        (0.25, "250ms"),
        (0, "0s"),
        (120, "2m0s"),
        (3 * MAX_WAIT_S, "15m0s"),
    ],
)
def test_time_runs_out_with_kube_schedulers_words(seconds: float, told: str) -> None:
    pod = waiting(Slow=seconds)
    end_s = 100.0 + min(seconds, MAX_WAIT_S)
    assert pod.deadline_s == end_s

    if seconds:
        pod.expire(end_s - 0.001)
        assert pod.status is None
    pod.expire(end_s)

    message = f"rejected due to timeout after waiting {told} at plugin Slow"
    assert pod.status == Reject(message).named("Slow")


def test_only_pods_that_are_due_expire() -> None:
    table = WaitingPods()
    soon, later = waiting(A=1), WaitingPod(PodInfo(make_pod("q")), "n", {"A": 7}, now_s=100.0)
    table.add(soon)
    table.add(later)

    table.expire(102.0)

    assert soon.status is not None
    assert later.status is None
    table.remove(later.pod.uid)
    assert [each.pod.uid for each in table] == [soon.pod.uid]
    assert table.get("nobody") is None


def test_each_plugin_waits_for_the_rest_of_its_own_time() -> None:
    pod = waiting(A=5, B=9.5, C=2 * MAX_WAIT_S)

    assert pod.remaining_s(100.0) == {"A": 5, "B": 9.5, "C": MAX_WAIT_S}
    assert pod.remaining_s(107.0) == {"A": 0, "B": 2.5, "C": MAX_WAIT_S - 7}
    pod.allow("B")
    assert pod.remaining_s(101.0) == {"A": 4, "C": MAX_WAIT_S - 1}
    assert pod.deadline_s == 105.0


def test_the_earliest_deadline_rejects_the_pod_once() -> None:
    pod = waiting(A=9, B=5)
    settled: list[WaitingPod] = []
    pod.on_settled = settled.append

    pod.expire(1000.0)
    pod.expire(2000.0)

    assert pod.status == Reject("rejected due to timeout after waiting 5s at plugin B").named("B")
    assert settled == [pod]


def test_a_victim_of_preemption_fails_with_an_error_unless_it_was_settled() -> None:
    pod = waiting(A=5)
    assert pod.preempt("DefaultPreemption", "preempted")
    assert pod.status == NodeError("preempted").named("DefaultPreemption")
    assert not pod.preempt("Other", "again")
    assert pod.status == NodeError("preempted").named("DefaultPreemption")

    allowed = waiting(A=5)
    allowed.allow("A")
    assert not allowed.preempt("DefaultPreemption", "preempted")
    assert allowed.status == ()


def test_waiting_pods_are_found_by_uid() -> None:
    table = WaitingPods()
    pod = waiting(A=1)
    table.add(pod)

    assert (len(table), table.get(pod.pod.uid)) == (1, pod)
    table.remove("unknown")
    for each in table:
        table.remove(each.pod.uid)  # the table may change meanwhile
    assert (len(table), list(table)) == (0, [])
