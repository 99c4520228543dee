"""Compares the stored status of a pod with the scheduler's state, once nothing is to be written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from mooring.objects.pod import Pod
from mooring.queue import QueueName
from mooring.scheduler.service import Service
from tests.faults.harness.checkers import StoreChecker
from tests.faults.harness.final_checker import FinalChecker, condition_of
from tests.faults.harness.scheduler_checker import SchedulerChecker

#: So many seconds in a row a pod may be at rest with another status.
WRONG_MAX: Final = 2

_AT_REST: Final = (QueueName.UNSCHEDULABLE, QueueName.GATED, QueueName.BACKOFF)


class AtRest:
    """Checks pending pods that wait in a queue, and whose status needs no write.

    Args:
        service: The scheduler.
        store: The stored objects.
        checker: Has the message of the last attempt of each pod.
        final: Knows the pods whose status a delayed request may have changed.
        report: Called with each problem.
    """

    def __init__(
        self,
        service: Service,
        store: StoreChecker,
        checker: SchedulerChecker,
        final: FinalChecker,
        report: Callable[[str], None],
    ) -> None:
        self._service = service
        self._store = store
        self._checker = checker
        self._final = final
        self._report = report
        #: UID -> number of checks in a row in which the status was wrong.
        self._wrong: dict[str, int] = {}

    def on_tick(self) -> None:
        """Checks all pods at rest; called once per second."""
        wrong: dict[str, int] = {}
        for pod in self.pods():
            uid = pod.metadata.uid
            for problem in self._problems(pod):
                wrong[uid] = self._wrong.get(uid, 0) + 1
                if wrong[uid] > WRONG_MAX:
                    self._report(f"{pod.metadata.name} {problem}, and nothing is to be written")
        self._wrong = wrong

    def pods(self) -> Iterator[Pod]:
        """Yields the pods that wait in a queue, and whose newest status is the scheduler's."""
        service = self._service
        for pod in service.informers["Pod"].objects.values():
            uid = pod.metadata.uid
            stored = self._store.pods.get(uid)
            if service.queue.queue_of(uid) not in _AT_REST or stored is None:
                continue
            is_newest = stored.metadata.resource_version == pod.metadata.resource_version
            is_written = uid not in service.writer._writes
            if is_newest and is_written and not self._final.is_exempt(pod):
                yield pod

    def _problems(self, pod: Pod) -> Iterator[str]:
        uid = pod.metadata.uid
        nominated = self._service.cache.nominator.node_of(uid)
        named = pod.status.nominated_node_name
        if nominated != named and not len(self._service.preemption_executor):
            yield f"is nominated to {nominated!r}, but its status names {named!r}"
        if uid in self._checker.messages:
            expected, written = self._checker.messages[uid][1], condition_of(pod)
            if expected != written:
                yield f"has the condition {written!r}, expected {expected!r}"
