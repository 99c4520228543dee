"""SchedulingGates: a pod waits outside the queue until its last gate is gone."""

from __future__ import annotations

import pytest

from mooring.cluster_event import ActionType, QueueingHint
from mooring.framework import Code
from mooring.plugins import SchedulingGates
from mooring.state import PodInfo
from mooring.testing import check_conformance, make_pod
from tests.plugins.reference_plugins import hints

GATES_GONE = ("Pod", ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)


def test_a_pod_without_gates_enters_the_queue() -> None:
    assert SchedulingGates().pre_enqueue(PodInfo(make_pod())) is None


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        (["a.io/one"], "waiting for scheduling gates: [a.io/one]"),
        (["b", "a", "c"], "waiting for scheduling gates: [b a c]"),
    ],
)
def test_gates_are_named_in_the_order_of_the_spec(gates: list[str], message: str) -> None:
    status = SchedulingGates().pre_enqueue(PodInfo(make_pod(gates=gates)))
    assert status is not None
    assert status.message == message
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_only_the_end_of_gates_can_help() -> None:
    assert list(hints(SchedulingGates())) == [GATES_GONE]


def test_the_end_of_its_own_gates_wakes_a_pod() -> None:
    hint = hints(SchedulingGates())[GATES_GONE]
    held = make_pod("web", gates=["a"])
    assert hint(PodInfo(held), held, make_pod("web")) is QueueingHint.QUEUE


def test_the_end_of_the_gates_of_another_pod_does_not() -> None:
    hint = hints(SchedulingGates())[GATES_GONE]
    other = make_pod("web", uid="another-life")
    assert hint(PodInfo(make_pod("web", gates=["a"])), other, other) is QueueingHint.SKIP


def test_it_keeps_the_contract() -> None:
    check_conformance(SchedulingGates(), seeds=range(5))
