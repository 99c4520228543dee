"""The scheduling cycle of one pod: from the queue to a node. Start reading here.

::

    queue.pop ──> schedule_one ──> Placement ──> assume, Reserve, Permit ──> binding cycle ──> bound
                        │                               │                        │ (a task)
                        └── no node fits ───────────────┴── failure ─────────────┘
                                      handle_scheduling_failure: back to the queue, with the reason

``schedule_one`` never waits: between the snapshot and ``assume`` nothing else runs, so there is no
lock and no race (only ``with_extenders`` waits, for the extenders' answers). Requests to the API
server are sent by tasks in the background. What must happen exactly once (the end of an attempt,
the release of an assumption) is the end of a ``with`` block.

Source: pkg/scheduler/schedule_one.go.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from mooring.client import ObjectChange
from mooring.clock import Clock
from mooring.errors import CycleError, InvariantViolation, PluginError, SchedulerError
from mooring.framework import Attempt, Cycle, Diagnosis, Framework, Placement, schedule_pod
from mooring.framework.runtime import bind as bind_points
from mooring.framework.runtime.post_filter import post_filter
from mooring.framework.status import ClaimChange, PostFilterResult, Status
from mooring.framework.waiting_pods import WaitingPod
from mooring.metrics.recorders import NO_SCHEDULER_METRICS, SchedulerRecorder
from mooring.objects.pod import Pod
from mooring.queue import InFlightAttempt, QueuedPod, SchedulingQueue, profile_of
from mooring.scheduler.binding_cycle import (
    BindingContext,
    BindingCycle,
    FailureReason,
    activate_pods,
)
from mooring.scheduler.binding_tasks import BindingTasks
from mooring.scheduler.observer import Observer
from mooring.scheduler.pods_in_prebind import PodsInPreBind
from mooring.scheduler.preemption import PreemptionExecutor
from mooring.scheduler.reporting import Reporting, error_text
from mooring.state import PodInfo
from mooring.state.cache import Cache

#: Attempts in a row, by number and by time: then events, requests and timers get their turn.
ATTEMPTS_MAX: Final = 32
SLICE_S: Final = 0.002

#: PostFilter did not run.
NO_POST_FILTER: Final = PostFilterResult(None, "")

#: Buffers cluster events while its block runs: (kind, UID) -> change.
BufferEvents = Callable[[], AbstractContextManager[Mapping[tuple[str, str], ObjectChange]]]

_log = logging.getLogger(__name__)


class Scheduler:
    """Schedules the pods of the queue, one after another.

    ``mooring.scheduler.service`` builds one and runs it.

    Args:
        cache: The state of the cluster.
        queue: The pending pods.
        profiles: SchedulerName -> Framework.
        pods: "namespace/name" -> the newest version of each pod.
        bindings: Runs binding cycles in the background.
        reporting: Writes events and conditions.
        clock: Monotonic seconds.
        observer: Called for everything that happens.
        preemptions: Evicts victims in the background; None = no evictions.
        pods_in_prebind: The pods in PreBind.
        on_bound: Called after each successful bind with pod and node name.
        buffer_events: Used by ``ExtenderScheduler`` while it waits for extenders.
        gates: The feature gates whose value is not the default.
        write_claim: Writes the change of a claim that PostFilter asked for, in the background.
        recorder: Records the attempts as metrics.
        start_time: Returns the status.startTime of an assumed pod; None = its kubelet sets it.
    """

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        profiles: Mapping[str, Framework],
        pods: Mapping[str, Pod],
        bindings: BindingTasks,
        reporting: Reporting,
        *,
        clock: Clock,
        observer: Observer,
        preemptions: PreemptionExecutor | None = None,
        pods_in_prebind: PodsInPreBind | None = None,
        on_bound: Callable[[PodInfo, str], None] = lambda *_: None,
        buffer_events: BufferEvents = lambda: nullcontext({}),
        gates: Mapping[str, bool] = MappingProxyType({}),
        write_claim: Callable[[QueuedPod, ClaimChange], None] = lambda *_: None,
        recorder: SchedulerRecorder = NO_SCHEDULER_METRICS,
        start_time: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._profiles = profiles
        self._pods = pods
        self._bindings = bindings
        self._preemptions = preemptions
        self._reporting = reporting
        self._clock = clock
        self._observer = observer
        self._buffer_events = buffer_events
        self._recorder = recorder
        self._waits_for_evictions = not gates.get("SchedulerAsyncPreemption", True)
        self._write_claim = write_claim
        self._start_time = start_time
        self._next_start_index = 0
        self._binding_cycle = BindingCycle(
            cache,
            queue,
            bindings,
            reporting,
            self._handle_scheduling_failure,
            clock=clock,
            observer=observer,
            pods_in_prebind=PodsInPreBind() if pods_in_prebind is None else pods_in_prebind,
            on_bound=on_bound,
            announces=gates.get("NominatedNodeNameForExpectation", True),
            recorder=recorder,
        )

    async def schedule_batch(self) -> bool:
        """Schedules pods for a slice of time. Returns False if the queue had no more."""
        ends_s = self._clock.monotonic_s() + SLICE_S
        for _ in range(ATTEMPTS_MAX):
            entry = self._queue.pop()
            if entry is None:
                return False
            self.schedule_one(entry)
            if self._waits_for_evictions:
                await self._preemptions_end()
            if self._clock.monotonic_s() >= ends_s:
                break
        return True

    async def _preemptions_end(self) -> None:
        """Waits until the victims of the last pod are evicted."""
        if self._preemptions is not None:
            await self._preemptions.wait()

    def schedule_one(self, entry: QueuedPod) -> None:
        """Runs the scheduling cycle of one pod, and starts its binding cycle if a node fits."""
        with self._queue.in_flight(entry) as in_flight:
            pod = entry.pod
            entry.attempt_started_s = started_s = self._recorder.now()
            framework = self._profiles[profile_of(pod)]
            if self._should_skip(pod):
                return
            snapshot = self._cache.snapshot()
            cycle = framework.new_cycle(pod, snapshot, number=entry.attempt_number)
            attempt = Attempt(snapshot, self._next_start_index)
            try:
                result, post_filter_result = _decide(framework, cycle, attempt)
            except InvariantViolation:
                raise
            except SchedulerError as error:
                self._handle_scheduling_failure(entry, error)
                return
            finally:
                self._recorder.algorithm_ended(started_s)
                self._next_start_index = attempt.next_start_index(self._next_start_index)
            self._observer.attempted(entry, attempt, result)
            if isinstance(result, Placement):
                self._prepare_binding_cycle(framework, cycle, result, in_flight)
            else:
                self._handle_no_fit(entry, result, post_filter_result)

    def _should_skip(self, pod: PodInfo) -> bool:
        """Returns whether the pod is being deleted, or is on a node already."""
        if pod.metadata.deletion_timestamp is not None:
            self._reporting.skipped(pod)
            return True
        return self._cache.pods.get(pod.uid) is not None

    # -- a node fits ------------------------------------------------------------------------------

    def _prepare_binding_cycle(
        self, framework: Framework, cycle: Cycle, placement: Placement, in_flight: InFlightAttempt
    ) -> None:
        """Assumes the pod, runs Reserve and Permit, and starts the binding cycle."""
        pod, node_name = cycle.pod, placement.node_name
        self._cache.nominator.remove(pod.uid)
        assumed = pod.on_node(node_name, start_time=self._start_time())
        with self._cache.assume(assumed, node_name) as reservation:
            binding_ctx = BindingContext(in_flight, framework, cycle, node_name)
            reason = self._reserve_and_permit(binding_ctx)
            if reason is None:
                reservation.keep()
        if reason is not None:
            bind_points.unreserve(framework, cycle, node_name)
            self._handle_scheduling_failure(in_flight.entry, reason)
            return
        self._reporting.placed(pod)
        activate_pods(self._queue, cycle)
        in_flight.detach()
        self._bindings.start(partial(self._binding_cycle.run, binding_ctx))

    def _reserve_and_permit(self, binding_ctx: BindingContext) -> FailureReason | None:
        """Runs Reserve and Permit. Returns None if the binding cycle may start."""
        framework, cycle, node_name = (
            binding_ctx.framework,
            binding_ctx.cycle,
            binding_ctx.node_name,
        )
        try:
            status = bind_points.reserve(framework, cycle, node_name)
            if status is None:
                now_s = self._clock.monotonic_s()
                permit = bind_points.permit(framework, cycle, node_name, now_s=now_s)
                if isinstance(permit, WaitingPod):
                    binding_ctx.waiting = permit
                    self._observer.waits(binding_ctx.entry, node_name, permit)
                    return None
                status = permit
            return None if status is None else bind_points.diagnosis_of(node_name, status)
        except InvariantViolation:
            raise
        except SchedulerError as error:
            return error
        except Exception as error:  # noqa: BLE001 - as in ``_decide``
            framework.waiting.remove(cycle.pod.uid)
            return cycle_error(framework, error)

    # -- no node fits, or a failure ---------------------------------------------------------------

    def _handle_no_fit(
        self, entry: QueuedPod, diagnosis: Diagnosis, post_filter_result: PostFilterResult
    ) -> None:
        """Starts the evictions that PostFilter chose, and requeues the pod."""
        if post_filter_result.claim_change is not None:
            self._write_claim(entry, post_filter_result.claim_change)
        if post_filter_result.victims and self._preemptions is not None:
            self._observer.preempts(entry, post_filter_result)
            # Before it is requeued: from now on PreEnqueue holds it back until the evictions end.
            self._preemptions.start(entry.pod, post_filter_result)
        self._handle_scheduling_failure(entry, diagnosis, nominated=post_filter_result.node_name)

    def _handle_scheduling_failure(
        self,
        entry: QueuedPod,
        reason: FailureReason,
        *,
        nominated: str | None = "",
        announced: str | None = None,
        is_binding: bool = False,
    ) -> None:
        """Requeues a pod in its newest version, and writes the reason to event and status.

        A pod that was deleted, or bound by another scheduler, is not requeued, but has its event;
        one that was created again has none.

        Args:
            entry: As it was popped.
            reason: Why it has no node.
            nominated: Its new nomination: "" = none, None = unchanged.
            announced: The nomination that the binding cycle has just written; None = none.
            is_binding: Whether it failed in its binding cycle.
        """
        profile = profile_of(entry.pod)
        self._recorder.attempt_failed(
            profile, entry.attempt_started_s, is_unschedulable=_is_rejection(reason)
        )
        error = reason if isinstance(reason, SchedulerError) else None
        if isinstance(error, PluginError):
            self._profiles[profile].errors.count(error)
        is_quarantined = self._queue.quarantine.failed(entry, error)
        live = self._pods.get(entry.pod.key)
        if live is None or live.spec.node_name or live.metadata.uid != entry.uid:
            self._cache.nominator.remove(entry.uid)
            if live is None or live.metadata.uid == entry.uid:
                self._reporting.failed_for_good(entry.pod, reason)
            return
        pod = entry.pod if live is entry.pod.pod else PodInfo(live)
        refused_by: Any = reason.unschedulable_plugins if isinstance(reason, Diagnosis) else ()
        pending_on: Any = reason.pending_plugins if isinstance(reason, Diagnosis) else ()
        self._queue.add_unschedulable(
            entry, pod, refused_by=refused_by, pending_on=pending_on, is_binding=is_binding
        )
        node_name = pod.status.nominated_node_name if nominated is None else nominated
        if node_name:
            self._cache.nominator.nominate(pod, node_name)
        else:
            self._cache.nominator.remove(pod.uid)
        if isinstance(reason, SchedulerError):
            fields = {"pod": pod.key, "error": error_text(reason)}
            # The traceback of what a plugin raised; other errors have their cause in the message.
            cause = reason if isinstance(reason, PluginError) and reason.location else None
            _log.warning("scheduling attempt failed", extra=fields, exc_info=cause)
        quarantine_s = entry.quarantine_s if is_quarantined else 0.0
        self._reporting.failed(pod, reason, nominated, announced, quarantine_s=quarantine_s)
        self._observer.failed(entry, reason)


def _decide(
    framework: Framework, cycle: Cycle, attempt: Attempt
) -> tuple[Placement | Diagnosis, PostFilterResult]:
    """Runs the scheduling algorithm, and PostFilter if no node fits. Changes no state.

    Raises:
        SchedulerError: a plugin failed, or our own code, which ends the attempt and no more.
    """
    try:
        result = schedule_pod(framework, cycle, attempt)
        if isinstance(result, Placement):
            return result, NO_POST_FILTER
        post_filter_result = post_filter(framework, cycle, result)
    except SchedulerError:
        raise
    except Exception as error:  # one pod that we cannot handle must not stop all others
        raise cycle_error(framework, error) from error
    attempt.preemption = post_filter_result.record
    return result, post_filter_result


def cycle_error(framework: Framework, error: Exception) -> CycleError:
    """Returns the error of an attempt in which our own code raised.

    What was cached of plugins' results in that attempt may be incomplete, so it is dropped.
    """
    framework.clear_cached_results()
    return CycleError(error)


def _is_rejection(reason: FailureReason) -> bool:
    """Returns whether an attempt ended without a node, and not with an error."""
    return isinstance(reason, Diagnosis) or (isinstance(reason, Status) and reason.is_rejection)
