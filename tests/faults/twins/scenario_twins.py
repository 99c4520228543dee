"""The models of a scheduler in a scenario, whose stored objects and decisions they can read."""

from __future__ import annotations

from functools import partial

from mooring.clock import Clock
from mooring.metrics.registry import Metrics
from mooring.queue import QueueOptions
from mooring.scheduler.service import Service
from tests.faults.harness.checkers import Findings, StoreChecker
from tests.faults.harness.final_checker import FinalChecker
from tests.faults.harness.scheduler_checker import SchedulerChecker
from tests.faults.twins.action_log import ActionLog
from tests.faults.twins.at_rest import AtRest
from tests.faults.twins.attach import Twins
from tests.faults.twins.attached_bindings import AttachedBindings
from tests.faults.twins.attached_choice import AttachedChoice
from tests.faults.twins.cache_writes import CacheWrites
from tests.faults.twins.failing_pods import FailingPods
from tests.faults.twins.forgotten import Forgotten
from tests.faults.twins.must_queue import MustQueue


class ScenarioTwins(Twins):
    """All models, and the checks that need the stored objects.

    Args:
        service: Has not begun yet.
        clock: The scheduler's.
        options: Of its queue.
        findings: Records each difference, as rule T1, S9 or L7.
        store: The stored objects.
        checker: Observes the scheduler.
        final: Knows which requests are delayed.
        checks_changes: Compare the unschedulable pods before and after each change, and the cache
            between its changes; the former costs a fifth of a crowded run.
        metrics: Those of the scheduler, which are compared with what it does; None = none.
    """

    def __init__(
        self,
        service: Service,
        clock: Clock,
        options: QueueOptions,
        findings: Findings,
        store: StoreChecker,
        checker: SchedulerChecker,
        final: FinalChecker,
        *,
        checks_changes: bool,
        metrics: Metrics | None = None,
    ) -> None:
        report = partial(findings.report, "T1")
        super().__init__(service, clock, options, report)
        self.preemption.stored = store.pods
        self.choice = AttachedChoice(service, report)
        if checks_changes:
            self.must_queue = MustQueue(service, checker.wakeups, report)
        if metrics is not None:
            self.checks.append(ActionLog(service, metrics, self.queue, report).on_tick)
        self.bindings = AttachedBindings(service, store, self.preemption.check_binding, report)
        self.forgotten = Forgotten(service, store, checker, final, report)
        self.checks.append(self.forgotten.on_tick)
        at_rest = AtRest(service, store, checker, final, report)
        self.failing = FailingPods(service, at_rest, partial(findings.report, "L7"))
        self.checks += [at_rest.on_tick, self.failing.on_tick]
        if checks_changes:
            # Last: it compares around the calls that the others follow.
            self.cache_writes = CacheWrites(service, partial(findings.report, "S9"))
            self.checks.append(self.cache_writes.on_tick)
