"""Attaches a plain model to each living part of a scheduler, for the length of a run."""

from __future__ import annotations

from functools import partial

from mooring.clock import Clock
from mooring.queue import QueueOptions
from mooring.scheduler.service import Service
from tests.faults.harness.checkers import Findings
from tests.faults.twins.attached_queue import AttachedQueue
from tests.faults.twins.queue_twin import QueueTwin


class Twins:
    """The models of one scheduler.

    Args:
        service: Has not begun yet.
        clock: The scheduler's.
        findings: Records each first difference, rule T1.
    """

    def __init__(self, service: Service, clock: Clock, findings: Findings) -> None:
        report = partial(findings.report, "T1")
        twin = QueueTwin(service.profiles, clock, QueueOptions())
        self.queue = AttachedQueue(service.queue, twin, report)
        self._clock = clock
        self._report = report

    def on_tick(self, now_s: float) -> None:
        """Checks what no call compares; the run calls it once per second."""
        del now_s
        self.queue.compare_metrics()
        if late := self.queue.overdue(self._clock.monotonic_s()):
            self._report(late)
