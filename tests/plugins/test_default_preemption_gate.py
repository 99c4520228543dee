"""DefaultPreemption: the gate while victims are evicted, its events, and the gate's feature."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from mooring.framework import Code
from mooring.plugins.default_preemption.plugin import WAITING, DefaultPreemption
from mooring.state import PodInfo
from mooring.testing import make_pod

ASYNC = "SchedulerAsyncPreemption"


class Executor:
    """A handle that knows for which pods victims are evicted."""

    def __init__(self, *preempting: str) -> None:
        self.preempting = preempting

    def is_preempting(self, uid: str) -> bool:
        """Returns whether victims of the pod are being evicted."""
        return uid in self.preempting


def plugin(handle: Any, **gates: bool) -> DefaultPreemption:
    return DefaultPreemption(None, handle, gates)


@pytest.mark.parametrize("gates", [{}, {ASYNC: True}])
def test_a_pod_is_gated_while_its_own_victims_are_evicted(gates: dict[str, bool]) -> None:
    waiting, other = PodInfo(make_pod("a", uid="1")), PodInfo(make_pod("b", uid="2"))
    preemption = plugin(Executor("1"), **gates)

    status = preemption.pre_enqueue(waiting)

    assert status is not None
    assert (status.code, status.message) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, WAITING)
    assert preemption.pre_enqueue(other) is None
    assert plugin(Executor(), **gates).pre_enqueue(waiting) is None


def test_without_the_feature_no_pod_is_gated_and_nothing_is_registered() -> None:
    preemption = plugin(Executor("1"), **{ASYNC: False})

    assert preemption.pre_enqueue(PodInfo(make_pod("a", uid="1"))) is None
    assert preemption.events() == []


def test_deleted_pods_let_the_gate_be_asked_again_and_requeue_nobody_by_themselves() -> None:
    (registration,) = plugin(Executor()).events()

    assert registration.event == ClusterEvent(EventResource.POD, ActionType.DELETE)
    assert registration.pure
    assert registration.hint is not None
    pod = PodInfo(make_pod("a"))
    assert registration.hint(pod, make_pod("victim"), None) is QueueingHint.SKIP
