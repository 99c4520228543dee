"""The default observer, whose methods do nothing, and the one that logs."""

from __future__ import annotations

import inspect
import io
from collections.abc import Iterator

import pytest

from mooring.component.flags import parse
from mooring.component.klog import configure
from mooring.errors import SchedulerError
from mooring.framework import Attempt, Diagnosis
from mooring.framework.status import PostFilterResult, Reject
from mooring.framework.waiting_pods import WaitingPod
from mooring.queue import QueuedPod, QueueName
from mooring.scheduler.observer import LoggingObserver, Observer
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_pod
from tests.helpers.command_line import restored_logging
from tests.helpers.running_scheduler import RecordingObserver


def test_it_takes_everything_and_returns_nothing() -> None:
    entry = QueuedPod(PodInfo(make_pod()), 0.0)
    waiting = WaitingPod(entry.pod, "a", {"P": 1.0}, 0.0)
    observer = Observer()
    told = [
        observer.moved(entry, QueueName.ACTIVE, "why"),  # type: ignore[func-returns-value]
        observer.attempted(entry, Attempt(Cache().snapshot()), Diagnosis(0)),  # type: ignore[func-returns-value]
        observer.preempts(entry, PostFilterResult(None, "a")),  # type: ignore[func-returns-value]
        observer.waits(entry, "a", waiting),  # type: ignore[func-returns-value]
        observer.allowed(entry, "a"),  # type: ignore[func-returns-value]
        observer.bound(entry, "a"),  # type: ignore[func-returns-value]
        observer.failed(entry, SchedulerError("no")),  # type: ignore[func-returns-value]
    ]
    assert told == [None] * 7


def test_every_method_can_be_overridden_with_its_own_words() -> None:
    methods = {name for name, _ in inspect.getmembers(Observer, inspect.isfunction)}
    assert methods == {"moved", "attempted", "preempts", "waits", "allowed", "bound", "failed"}
    for name in methods:
        mine = list(inspect.signature(getattr(RecordingObserver, name)).parameters)
        assert mine == list(inspect.signature(getattr(Observer, name)).parameters)


@pytest.fixture
def _root() -> Iterator[None]:
    with restored_logging():
        yield


def logged(*flags: str) -> list[str]:
    """Returns the lines about a pod, after their heads, with these flags."""
    out = io.StringIO()
    configure(parse(flags).logging, out=out)
    entry = QueuedPod(PodInfo(make_pod("web")), 0.0)
    observer = LoggingObserver()
    observer.failed(entry, Diagnosis(0))
    observer.failed(entry, Diagnosis(4, absent=Reject("too small"), absent_count=4))
    observer.failed(entry, SchedulerError("no"))
    observer.preempts(entry, PostFilterResult(None, "a"))
    observer.bound(entry, "a")
    return [line.partition("] ")[2] for line in out.getvalue().splitlines()]


@pytest.mark.usefixtures("_root")
def test_attempts_are_logged_in_the_words_of_kube_scheduler_from_a_verbosity_of_2() -> None:
    # As kube-scheduler v1.36.3 has logged them with -v=2.
    assert logged("-v=2") == [
        '"Unable to schedule pod; no nodes are registered to the cluster; waiting" '
        'pod="default/web"',
        '"Unable to schedule pod; no fit; waiting" pod="default/web" '
        'err="0/4 nodes are available: 4 too small."',
        '"the target node for the preemption is determined" node="a" pod="default/web"',
        '"Successfully bound pod to node" pod="default/web" node="a"',
    ]
    assert logged("-v=1") == []
    assert logged("-v=1", "--vmodule=observer=2") != []
