"""The scheduler: a pod comes from the queue and gets a node. Start reading here.

::

    queue.pop ──> schedule_one ──> Placement ──> assume, Reserve, Permit ──> bind (a task) ──> bound
                        │                               │                      │
                        └── no node: park <─────────────┴──────────────────────┘ given back

``schedule_one`` never waits: between the snapshot and ``assume`` nothing else runs, so there is no
lock and no race (only ``live.asking`` waits, where extenders have a say). What talks to the API
server runs beside it, in tasks. What must happen exactly once (an attempt's end, giving back what
is held) is the end of a ``with`` block.

Source: pkg/scheduler/schedule_one.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mooring.clock import Clock
from mooring.errors import InvariantViolation, LeaseLost, PluginError, SchedulerError, Unreachable
from mooring.framework import Attempt, Cycle, Diagnosis, Framework, Placement, schedule_pod
from mooring.framework.runtime import bind as binding
from mooring.framework.runtime.post_filter import post_filter
from mooring.framework.status import PostFilterResult, Status
from mooring.framework.waiting_pods import WaitingPod
from mooring.objects.pod import Pod
from mooring.queue import InFlightAttempt, QueuedPod, SchedulingQueue, profile_of
from mooring.scheduler.binding_cycle import BindingContext, wait_on_permit
from mooring.scheduler.binding_tasks import BindingTasks
from mooring.scheduler.event_handlers import POD_GONE
from mooring.scheduler.observer import Observer
from mooring.scheduler.pods_in_prebind import PodsInPreBind
from mooring.scheduler.preemption import PreemptionExecutor
from mooring.scheduler.reporting import Reporting, error_text
from mooring.state import Cache, PodInfo

_log = logging.getLogger(__name__)

#: Why a pod did not get its node: nobody can take it, a plugin turned it back, or something broke.
FailureReason = Diagnosis | Status | SchedulerError


class Scheduler:
    """Places the pods of the queue, one after another.

    ``mooring.scheduler.service`` puts one together and drives it.

    Args:
        cache: The cluster as it is known.
        queue: The pods that wait.
        profiles: SchedulerName -> Framework.
        pods: "namespace/name" -> the newest version of each pod.
        bindings: Runs bindings beside the decisions.
        reporting: Tells the API server what became of a pod.
        clock: Monotonic seconds.
        observer: Told of everything that happens.
        preemptions: Evicts victims beside the decisions; None = nobody does.
        pre_bindings: Knows the pods in PreBind.
        expect: Told of every pod that was bound, and of its node: a watch is to confirm it.
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
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._profiles = profiles
        self._pods = pods
        self._bindings = bindings
        self._preemptions = preemptions
        self._pre_bindings = PodsInPreBind() if pods_in_prebind is None else pods_in_prebind
        self._reporting = reporting
        self._clock = clock
        self._observer = observer
        self._on_bound = on_bound
        self._next_start_index = 0

    def schedule_one(self, entry: QueuedPod) -> None:
        """Places one pod, or notes why it cannot be placed."""
        with self._queue.in_flight(entry) as in_flight:
            pod = entry.pod
            framework = self._profiles[profile_of(pod)]
            if self._should_skip(pod):
                return
            snapshot = self._cache.snapshot()
            cycle = framework.new_cycle(pod, snapshot)
            attempt = Attempt(snapshot, self._next_start_index)
            try:
                found = schedule_pod(framework, cycle, attempt)
            except InvariantViolation:
                raise
            except SchedulerError as error:
                self._handle_scheduling_failure(entry, error)
                return
            finally:
                self._next_start_index = attempt.next_start_index(self._next_start_index)
            if isinstance(found, Placement):
                self._observer.attempted(entry, attempt, found)
                self._prepare_binding_cycle(framework, cycle, found, in_flight)
                return
            post_filter_result = post_filter(framework, cycle, found)
            attempt.preemption = post_filter_result.record
            self._observer.attempted(entry, attempt, found)
            self._handle_no_fit(entry, found, post_filter_result)

    def _should_skip(self, pod: PodInfo) -> bool:
        """Returns whether there is nothing to decide: the pod is being deleted, or has its node."""
        if pod.metadata.deletion_timestamp is not None:
            self._reporting.skipped(pod)
            return True
        return self._cache.pods.get(pod.uid) is not None

    # -- a node was found -------------------------------------------------------------------------

    def _prepare_binding_cycle(
        self, framework: Framework, cycle: Cycle, place: Placement, in_flight: InFlightAttempt
    ) -> None:
        """Holds the node, ask Reserve and Permit, and starts the binding."""
        pod, node_name = cycle.pod, place.node_name
        self._cache.nominator.remove(pod.uid)
        with self._cache.assume(pod.on_node(node_name), node_name) as reservation:
            binding_ctx = BindingContext(in_flight, framework, cycle, node_name)
            refusal = self._reserve_and_permit(binding_ctx)
            if refusal is None:
                reservation.keep()
        if refusal is not None:
            binding.unreserve(framework, cycle, node_name)
            self._handle_scheduling_failure(in_flight.entry, refusal)
            return
        self._reporting.placed(pod)
        self._activate(cycle)
        in_flight.detach()
        self._bindings.start(partial(self.bind, binding_ctx))

    def _reserve_and_permit(self, binding_ctx: BindingContext) -> FailureReason | None:
        """None = the binding may go on; a refusal by Reserve or Permit is one about one node."""
        try:
            answer = binding.reserve(
                binding_ctx.framework, binding_ctx.cycle, binding_ctx.node_name
            )
            if answer is None:
                now_s = self._clock.monotonic_s()
                permit = binding.permit(
                    binding_ctx.framework, binding_ctx.cycle, binding_ctx.node_name, now_s=now_s
                )
                if isinstance(permit, WaitingPod):
                    binding_ctx.waiting = permit
                    self._observer.waits(binding_ctx.entry, binding_ctx.node_name, permit)
                    return None
                answer = permit
        except InvariantViolation:
            raise
        except SchedulerError as error:
            return error
        return (
            None if answer is None else binding.rejection_diagnosis(binding_ctx.node_name, answer)
        )

    async def bind(self, binding_ctx: BindingContext) -> None:
        """Makes the API server agree with an assumption, or gives everything back.

        Raises:
            LeaseLost: nothing may be written any more; the scheduler ends.
        """
        try:
            refusal = await self._bind(binding_ctx)
        except (InvariantViolation, LeaseLost):
            raise
        except SchedulerError as error:
            refusal = error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # We were not cancelled: a plugin let something of its own, that was, come through.
            refusal = SchedulerError("a plugin's own work was cancelled")
        if isinstance(refusal, Unreachable):
            self._bindings.record_unreachable()
        else:
            self._bindings.record_success()
        try:
            if refusal is None:
                self._finish_binding(binding_ctx)
            else:
                self._handle_binding_failure(binding_ctx, refusal)
        finally:
            binding_ctx.in_flight.done()

    async def _bind(self, binding_ctx: BindingContext) -> FailureReason | None:
        """Waits in Permit, then PreBind and Bind; None = the pod is bound."""
        framework, cycle, node_name = (
            binding_ctx.framework,
            binding_ctx.cycle,
            binding_ctx.node_name,
        )
        try:
            binders = binding.pre_binders(framework, cycle, node_name)
            if binders or binding_ctx.waiting is not None:
                # It takes a while: whoever adds and removes nodes may want to know meanwhile.
                binding_ctx.is_announced = await self._reporting.expected(cycle.pod, node_name)
            if binding_ctx.waiting is not None:
                with self._bindings.waiting_in_permit():
                    verdict = await wait_on_permit(binding_ctx.waiting, self._clock)
                if verdict is not None:
                    return binding.rejection_diagnosis(node_name, verdict)
                self._observer.allowed(binding_ctx.entry, node_name)
        finally:
            framework.waiting.remove(cycle.pod.uid)
        # From here on the pod fails, if it fails, by an error: events would not help it.
        binding_ctx.in_flight.done()
        if binders:
            with self._bindings.outside_request():
                work = binding.pre_bind(framework, cycle, node_name, binders)
                refusal = await self._pre_bindings.run(cycle.pod.uid, work)
            if refusal is not None:
                return refusal
        return await binding.bind(framework, cycle, node_name)

    def _finish_binding(self, binding_ctx: BindingContext) -> None:
        """The pod is bound."""
        self._on_bound(binding_ctx.cycle.pod, binding_ctx.node_name)
        self._reporting.bound(binding_ctx.cycle.pod, binding_ctx.node_name)
        self._observer.bound(binding_ctx.entry, binding_ctx.node_name)
        binding.post_bind(binding_ctx.framework, binding_ctx.cycle, binding_ctx.node_name)
        self._activate(binding_ctx.cycle)

    def _handle_binding_failure(self, binding_ctx: BindingContext, refusal: FailureReason) -> None:
        """The pod does not get its node after all."""
        pod, uid = binding_ctx.cycle.pod, binding_ctx.cycle.pod.uid
        binding.unreserve(binding_ctx.framework, binding_ctx.cycle, binding_ctx.node_name)
        placed = self._cache.pods.get(uid)
        if self._cache.is_assumed(uid):
            self._cache.forget(uid)
        # It would wake itself by its own leaving, so it is parked before others are told.
        announced = binding_ctx.node_name if binding_ctx.is_announced else None
        self._handle_scheduling_failure(binding_ctx.entry, refusal, announced=announced)
        gone = placed.info.pod if placed is not None else pod.on_node(binding_ctx.node_name).pod
        self._queue.move(POD_GONE, gone, None, only=lambda other: other.uid != uid)

    def _activate(self, cycle: Cycle) -> None:
        if cycle.pods_to_activate:
            self._queue.activate(list(cycle.pods_to_activate))
            cycle.pods_to_activate.clear()

    # -- no node was found ------------------------------------------------------------------------

    def _handle_no_fit(
        self, entry: QueuedPod, why: Diagnosis, post_filter_result: PostFilterResult
    ) -> None:
        """No node takes the pod; perhaps others make room for it."""
        if post_filter_result.victims and self._preemptions is not None:
            self._observer.preempts(entry, post_filter_result)
            # Before it is parked: from now on it is held back until they were told.
            self._preemptions.start(entry.pod, post_filter_result)
        self._handle_scheduling_failure(entry, why, nominated=post_filter_result.node_name)

    def _handle_scheduling_failure(
        self,
        entry: QueuedPod,
        why: FailureReason,
        *,
        nominated: str | None = "",
        announced: str | None = None,
    ) -> None:
        """Puts a pod back into the queue, in its newest version, and tells why.

        One that is gone, bound by others, or made anew under its name is not put back.

        Args:
            entry: As it was popped.
            why: It has no node.
            nominated: What its nomination becomes, "" = none, None = stays as it is.
            announced: The nomination that was written just now; None if none was.
        """
        if isinstance(why, PluginError):
            self._profiles[profile_of(entry.pod)].errors.count(why)
        live = self._pods.get(entry.pod.key)
        if live is None or live.spec.node_name or live.metadata.uid != entry.uid:
            self._cache.nominator.remove(entry.uid)
            return
        pod = entry.pod if live is entry.pod.pod else PodInfo(live)
        refused_by: Any = why.unschedulable_plugins if isinstance(why, Diagnosis) else ()
        pending_on: Any = why.pending_plugins if isinstance(why, Diagnosis) else ()
        self._queue.add_unschedulable(entry, pod, refused_by=refused_by, pending_on=pending_on)
        node_name = pod.status.nominated_node_name if nominated is None else nominated
        if node_name:
            self._cache.nominator.nominate(pod, node_name)
        else:
            self._cache.nominator.remove(pod.uid)
        if isinstance(why, SchedulerError):
            _log.warning("an attempt failed", extra={"pod": pod.key, "error": error_text(why)})
        self._reporting.failed(pod, why, nominated, announced)
        self._observer.failed(entry, why)
