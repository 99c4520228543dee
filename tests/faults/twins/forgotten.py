"""Decides pending pods again, over the stored objects: one that fits must be tried, or be bound.

It reads the API server's table, and of the scheduler only whether its informers have all of it and
when each pod was attempted: not its cache, nor its queue. A pod that fits a node all the time, for
longer than any backoff, and has no attempt in that time, was forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.scheduler.service import Service
from tests.faults.harness.checkers import StoreChecker
from tests.faults.harness.faults import now_s
from tests.faults.harness.final_checker import FinalChecker
from tests.faults.harness.plugins import raises_for_ever
from tests.faults.harness.scheduler_checker import SchedulerChecker

#: The longest backoff is 10 s; the queue is looked at once per second.
FORGOTTEN_S: Final = 15.0
#: Pods are decided again once in so many seconds.
EVERY_S: Final = 3.0


class Forgotten:
    """Remembers since when each pending pod fits, and was not tried.

    Args:
        service: The scheduler.
        store: The stored objects.
        checker: Knows when each pod was attempted.
        final: Decides by the reference; knows the pods that cannot be bound.
        report: Called with each pod that was forgotten.
    """

    def __init__(
        self,
        service: Service,
        store: StoreChecker,
        checker: SchedulerChecker,
        final: FinalChecker,
        report: Callable[[str], None],
    ) -> None:
        self._service, self._store = service, store
        self._checker, self._final, self._report = checker, final, report
        #: UID -> since when the pod fits without an attempt.
        self._since_s: dict[str, float] = {}
        self._next_s = 0.0

    def on_tick(self) -> None:
        """Decides all pending pods, if the scheduler knows what is stored."""
        if now_s() < self._next_s:
            return
        self._next_s = now_s() + EVERY_S
        pending = [pod for pod in self._store.pending() if not raises_for_ever(pod)]
        if not pending or not self._is_quiet():
            self._since_s.clear()
            return
        since_s: dict[str, float] = {}
        fitting = {pod.metadata.uid: (pod, text) for pod, text in self._fitting()}
        for uid, (pod, text) in fitting.items():
            fits_since_s = self._since_s.get(uid, now_s())
            attempted_at_s = self._checker.attempted_at_s.get(uid, 0.0)
            since_s[uid] = max(fits_since_s, attempted_at_s)
            if now_s() - since_s[uid] > FORGOTTEN_S:
                self._report(f"{key(pod)} is forgotten since {since_s[uid]:.1f} s: {text}")
        self._since_s = since_s

    def _fitting(self) -> Iterator[tuple[Pod, str]]:
        by_key = {key(pod): pod for pod in self._store.pending()}
        for text in self._final.unbound_pods():
            pod = by_key[text.split(" ", 1)[0]]
            yield pod, text

    def _is_quiet(self) -> bool:
        """Returns whether nothing is in progress that a pod may have to wait for."""
        service = self._service
        is_busy = len(service.bindings) or len(service.preemption_executor)
        is_terminating = any(
            pod.metadata.deletion_timestamp is not None for pod in self._store.pods.values()
        )
        is_paused = any(informer.last_error is not None for informer in service.informers.values())
        if is_busy or is_terminating or is_paused:
            return False
        return not any(self._final.informer_lag(service))
