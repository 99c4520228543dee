"""Attaches a plain model to each living part of a scheduler, for the length of a run."""

from __future__ import annotations

from collections.abc import Callable

from mooring.clock import Clock
from mooring.queue import QueueOptions
from mooring.scheduler.service import Service
from tests.faults.twins.attached_handlers import AttachedHandlers
from tests.faults.twins.attached_informer import AttachedInformers
from tests.faults.twins.attached_preemption import AttachedPreemption
from tests.faults.twins.attached_queue import AttachedQueue
from tests.faults.twins.attached_recorder import AttachedRecorder
from tests.faults.twins.attached_reflector import AttachedReflector
from tests.faults.twins.attached_writes import AttachedWrites
from tests.faults.twins.attempt_events import AttemptEvents
from tests.faults.twins.freed import FreedRoom
from tests.faults.twins.leftovers import CacheLeftovers
from tests.faults.twins.nominations import AttachedNominations
from tests.faults.twins.queue_twin import QueueTwin
from tests.faults.twins.recorded_calls import RecordedCalls
from tests.faults.twins.release_checker import ReleaseChecker
from tests.faults.twins.write_contents import WriteContents


class Twins:
    """The models of one scheduler.

    Args:
        service: Has not begun yet.
        clock: The scheduler's.
        options: Of its queue.
        report: Called with each difference.
    """

    def __init__(
        self,
        service: Service,
        clock: Clock,
        options: QueueOptions,
        report: Callable[[str], None],
    ) -> None:
        self.leftovers = CacheLeftovers(service.cache)
        twin = QueueTwin(service.profiles, clock, options)
        self.queue = AttachedQueue(service.queue, twin, report)
        self.recorded = RecordedCalls(service, self.queue, clock, report)
        self.handlers = AttachedHandlers(service, self.queue, report, self.recorded)
        self.nominations = AttachedNominations(service, report)
        self.nominations.follow_attempts(service.scheduler)
        self.freed = FreedRoom(service, self.queue, report)
        self.informers = AttachedInformers(service, report)
        self.releases = ReleaseChecker(service, self.queue, report)
        self.preemption = AttachedPreemption(service, self.queue, report)
        self.events = AttemptEvents(service, self.queue, report)
        self.contents = WriteContents(service, self.queue, clock, report)
        now_s = clock.monotonic_s
        self.reflectors = [
            AttachedReflector(informer, now_s, report) for informer in service.informers.values()
        ]
        self.writes = [AttachedWrites(service.writer._writes, "status", report, now_s)]
        self.writes += [
            AttachedWrites(recorder._writes, f"events of {name}", report, now_s)
            for name, recorder in service.recorders.items()
        ]
        self.recorders = [
            AttachedRecorder(recorder, now_s, report) for recorder in service.recorders.values()
        ]
        #: Further checks, which are called once per second.
        self.checks: list[Callable[[], None]] = [writes.on_tick for writes in self.writes]
        self._clock = clock
        self._report = report

    def on_step(self) -> None:
        """Checks at the end of a step of the loop."""
        self.releases.on_step()
        self.freed.on_step()
        self.preemption.on_step()
        self.events.on_step()

    def on_tick(self) -> None:
        """Checks what no call compares; the run calls it once per second."""
        self.queue.compare_metrics()
        self.informers.compare()
        self.preemption.on_tick()
        for check in self.checks:
            check()
        if late := self.queue.overdue(self._clock.monotonic_s()):
            self._report(late)
