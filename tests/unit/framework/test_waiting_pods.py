"""Pods that Permit holds back: allowed by all, refused by one, or out of time."""

from __future__ import annotations

import pytest

from mooring.framework import Reject
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
