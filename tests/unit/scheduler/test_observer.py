"""The default observer: every method does nothing."""

from __future__ import annotations

import inspect

from mooring.errors import SchedulerError
from mooring.framework import Attempt, Diagnosis
from mooring.framework.status import PostFilterResult
from mooring.framework.waiting_pods import WaitingPod
from mooring.queue import QueuedPod, QueueName
from mooring.scheduler.observer import Observer
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_pod
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
