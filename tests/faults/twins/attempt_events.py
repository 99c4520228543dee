"""Checks that each outcome of an attempt has its event: FailedScheduling, or Scheduled.

Within one step a pod that is requeued after its attempt has one FailedScheduling, and a pod whose
binding is done one Scheduled. A pod that is gone or on a node when its attempt fails has a
FailedScheduling, too. Without a failure there is such an event only for a pod that is gone, on a
node, or being deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from mooring.scheduler.service import Service
from tests.faults.twins.attached_queue import AttachedQueue

FAILED, SCHEDULED = "FailedScheduling", "Scheduled"


class AttemptEvents:
    """Counts outcomes and events of one step.

    Args:
        service: Has not begun yet.
        queue: Reports the calls of its queue.
        report: Called with each problem.
    """

    def __init__(
        self, service: Service, queue: AttachedQueue, report: Callable[[str], None]
    ) -> None:
        self._service, self._report = service, report
        #: Reason and UID -> outcomes, and events, of this step.
        self._outcomes: Counter[tuple[str, str]] = Counter()
        self._events: Counter[tuple[str, str]] = Counter()
        queue.listen(self._on_queue_call)
        for recorder in service.recorders.values():
            self._attach(recorder)
        scheduler: Any = service.scheduler
        cycle: Any = scheduler._binding_cycle
        self._fail = scheduler._handle_scheduling_failure
        scheduler._handle_scheduling_failure = cycle._handle_failure = self._on_failure
        self._track = cycle._on_bound
        cycle._on_bound = self._on_track

    def _attach(self, recorder: Any) -> None:
        real = recorder.record

        def record(regarding: Any, **named: Any) -> None:
            if named["reason"] in (FAILED, SCHEDULED):
                self._events[named["reason"], regarding.metadata.uid] += 1
            real(regarding, **named)

        recorder.record = record

    def _on_queue_call(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        del named
        if name == "add_unschedulable":
            self._outcomes[FAILED, args[0].uid] += 1

    def _on_failure(self, entry: Any, reason: Any, **named: Any) -> None:
        """Counts a failed attempt at a pod that is not requeued: it is gone, or on a node."""
        live = self._service.scheduler._pods.get(entry.pod.key)
        if live is None or (live.metadata.uid == entry.uid and live.spec.node_name):
            self._outcomes[FAILED, entry.uid] += 1
        self._fail(entry, reason, **named)

    def _on_track(self, pod: Any, node_name: str) -> None:
        self._outcomes[SCHEDULED, pod.uid] += 1
        self._track(pod, node_name)

    def on_step(self) -> None:
        """Compares at the end of a step."""
        if not self._events and not self._outcomes:
            return
        for reason, uid in dict.fromkeys([*self._outcomes, *self._events]):
            outcomes, events = self._outcomes[reason, uid], self._events[reason, uid]
            if events < outcomes or (events > outcomes and not self._may_be_more(reason, uid)):
                self._report(f"{uid} has {events} events {reason} for {outcomes} attempts")
        self._outcomes.clear()
        self._events.clear()

    def _may_be_more(self, reason: str, uid: str) -> bool:
        """Returns whether a failed attempt at this pod is not followed by another one."""
        pods = self._service.informers["Pod"].objects.values()
        live = next((pod for pod in pods if pod.metadata.uid == uid), None)
        if live is None or reason == SCHEDULED:
            return reason == FAILED
        return bool(live.spec.node_name) or live.metadata.deletion_timestamp is not None
