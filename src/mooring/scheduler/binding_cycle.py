"""The binding cycle of one pod: wait in Permit, PreBind, Bind, PostBind, or roll back.

It runs as a task, after the scheduling cycle has assumed the pod on a node.

Source: pkg/scheduler/schedule_one.go (bindingCycle, handleBindingCycleError).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from mooring.clock import Clock
from mooring.errors import CycleError, InvariantViolation, LeaseLost, SchedulerError, Unreachable
from mooring.framework import Cycle, Diagnosis, Framework
from mooring.framework.runtime import bind as bind_points
from mooring.framework.runtime.timings import ERROR, SUCCESS
from mooring.framework.status import Code, Status
from mooring.framework.waiting_pods import WaitingPod
from mooring.metrics.recorders import NO_SCHEDULER_METRICS, SchedulerRecorder
from mooring.queue import InFlightAttempt, QueuedPod, SchedulingQueue
from mooring.scheduler.binding_tasks import BindingTasks
from mooring.scheduler.event_handlers import POD_GONE
from mooring.scheduler.observer import Observer
from mooring.scheduler.pods_in_prebind import PodsInPreBind
from mooring.scheduler.reporting import Reporting
from mooring.state import PodInfo
from mooring.state.cache import Cache

#: Why a pod was not bound: no node fits, a plugin refused the node, or an error.
FailureReason = Diagnosis | Status | SchedulerError


class HandleFailure(Protocol):
    """Requeues a pod: ``Scheduler._handle_scheduling_failure``."""

    def __call__(
        self,
        entry: QueuedPod,
        reason: FailureReason,
        *,
        announced: str | None = None,
        is_binding: bool = False,
    ) -> None:
        """See ``Scheduler._handle_scheduling_failure``."""
        ...


class BindingContext:
    """The state of one binding cycle.

    Attributes:
        in_flight: The attempt.
        framework: Of the pod's profile.
        cycle: The plugins' state of the attempt.
        node_name: The node that the pod is assumed on.
        waiting: The pod's wait in Permit; None = no plugin delays it.
        is_announced: Whether status.nominatedNodeName was set to the node before the binding.
    """

    __slots__ = ("cycle", "framework", "in_flight", "is_announced", "node_name", "waiting")

    def __init__(
        self, in_flight: InFlightAttempt, framework: Framework, cycle: Cycle, node_name: str
    ) -> None:
        self.in_flight = in_flight
        self.framework = framework
        self.cycle = cycle
        self.node_name = node_name
        self.waiting: WaitingPod | None = None
        self.is_announced = False

    @property
    def entry(self) -> QueuedPod:
        """The pod as the queue has it."""
        return self.in_flight.entry


class BindingCycle:
    """Binds assumed pods, or rolls back what the scheduling cycle did.

    Args:
        cache: Forgets the assumption of a pod that is not bound.
        queue: Requeues pods when resources are released.
        bindings: Counts the requests in progress.
        reporting: Writes events and conditions.
        handle_failure: Requeues a pod that is not bound.
        clock: Monotonic seconds.
        observer: Called for everything that happens.
        pods_in_prebind: The pods in PreBind.
        on_bound: Called after each successful bind with pod and node name.
        announces: Whether nominatedNodeName is set before PreBind and a wait in Permit.
        recorder: Records bound pods and waits in Permit as metrics.
    """

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        bindings: BindingTasks,
        reporting: Reporting,
        handle_failure: HandleFailure,
        *,
        clock: Clock,
        observer: Observer,
        pods_in_prebind: PodsInPreBind,
        on_bound: Callable[[PodInfo, str], None],
        announces: bool = True,
        recorder: SchedulerRecorder = NO_SCHEDULER_METRICS,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._bindings = bindings
        self._reporting = reporting
        self._handle_failure = handle_failure
        self._clock = clock
        self._observer = observer
        self._pods_in_prebind = pods_in_prebind
        self._on_bound = on_bound
        self._announces = announces
        self._recorder = recorder

    async def run(self, binding_ctx: BindingContext) -> None:
        """Binds the pod, or rolls back.

        Raises:
            LeaseLost: the lease does not allow writes any more; the scheduler ends.
        """
        try:
            reason = await self._bind(binding_ctx)
        except (InvariantViolation, LeaseLost):
            raise
        except SchedulerError as error:
            reason = error
        except Exception as error:  # noqa: BLE001 - our own code: its pod alone fails
            reason = CycleError(error, "binding cycle")
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # This task was not cancelled: a plugin leaked the cancellation of a task of its own.
            reason = bind_points.cancelled_work(error)
        if isinstance(reason, Unreachable):
            self._bindings.record_unreachable()
        else:
            self._bindings.record_success()
        try:
            if reason is None:
                self._finish_binding(binding_ctx)
            else:
                self._handle_binding_failure(binding_ctx, reason)
        finally:
            binding_ctx.in_flight.done()

    async def _bind(self, binding_ctx: BindingContext) -> FailureReason | None:
        """Waits in Permit, then runs PreBind and Bind. Returns None if the pod is bound."""
        framework, cycle = binding_ctx.framework, binding_ctx.cycle
        node_name = binding_ctx.node_name
        try:
            pre_binders = bind_points.pre_binders(framework, cycle, node_name)
            if self._announces and (pre_binders or binding_ctx.waiting is not None):
                # It takes a while: a cluster autoscaler may want to know the node meanwhile.
                with expired_in_time(binding_ctx.waiting, self._clock):
                    binding_ctx.is_announced = await self._reporting.expected(cycle.pod, node_name)
            if binding_ctx.waiting is not None:
                with self._bindings.waiting_in_permit():
                    status = await self._wait_on_permit(binding_ctx.waiting)
                if status is not None:
                    return bind_points.diagnosis_of(node_name, status)
                self._observer.allowed(binding_ctx.entry, node_name)
        finally:
            framework.waiting.remove(cycle.pod.uid)
        # No cluster event can help from here on, so event recording for the pod ends.
        binding_ctx.in_flight.done()
        if pre_binders:
            with self._bindings.outside_request():
                work = bind_points.pre_bind(framework, cycle, node_name, pre_binders)
                reason = await self._pods_in_prebind.run(cycle.pod.uid, work)
            if reason is not None:
                return reason
        else:
            framework.recorder.succeeded["PreBind"](0.0)
        request = self._bindings.request(cycle.pod.metadata.namespace)
        if request is None:
            return await bind_points.bind(framework, cycle, node_name)
        async with request:
            return await bind_points.bind(framework, cycle, node_name)

    async def _wait_on_permit(self, waiting: WaitingPod) -> Status | None:
        started_s, code = self._recorder.now(), ERROR
        try:
            status = await wait_on_permit(waiting, self._clock)
            code = SUCCESS if status is None else status.code.value
        finally:
            self._recorder.permit_waited(code, started_s)
        return status

    def _finish_binding(self, binding_ctx: BindingContext) -> None:
        """Reports a bound pod, and runs PostBind."""
        cycle, node_name = binding_ctx.cycle, binding_ctx.node_name
        entry = binding_ctx.entry
        self._recorder.pod_bound(
            cycle.profile,
            entry.attempt_started_s,
            attempts=entry.attempts,
            first_s=entry.initial_attempt_s,
            was_flushed=entry.was_flushed,
        )
        self._on_bound(cycle.pod, node_name)
        self._reporting.bound(cycle.pod, node_name)
        self._observer.bound(entry, node_name)
        bind_points.post_bind(binding_ctx.framework, cycle, node_name)
        activate_pods(self._queue, cycle)

    def _handle_binding_failure(self, binding_ctx: BindingContext, reason: FailureReason) -> None:
        """Rolls back: runs Unreserve, forgets the assumption, and requeues the pod."""
        pod, uid = binding_ctx.cycle.pod, binding_ctx.cycle.pod.uid
        bind_points.unreserve(binding_ctx.framework, binding_ctx.cycle, binding_ctx.node_name)
        placed = self._cache.pods.get(uid)
        if self._cache.is_assumed(uid):
            self._cache.forget(uid)
        # The release of its own resources must not requeue the pod: it is in the queue before.
        announced = binding_ctx.node_name if binding_ctx.is_announced else None
        self._handle_failure(binding_ctx.entry, reason, announced=announced, is_binding=True)
        deleted = placed.info.pod if placed is not None else pod.on_node(binding_ctx.node_name).pod
        self._queue.move(POD_GONE, deleted, None, only=lambda other: other.uid != uid)


async def wait_on_permit(waiting: WaitingPod, clock: Clock) -> Status | None:
    """Waits until every plugin allows the pod (None), or one rejects it.

    Raises:
        SchedulerError: the pod is preempted while it waits.
    """
    settled = asyncio.Event()
    waiting.on_settled = lambda _: settled.set()
    while waiting.status is None:
        try:
            async with asyncio.timeout(max(0.0, waiting.deadline_s - clock.monotonic_s())):
                await settled.wait()
        except TimeoutError:
            waiting.expire(clock.monotonic_s())
    status = waiting.status
    if not isinstance(status, Status):
        return None
    if status.code is Code.ERROR:
        raise SchedulerError(f"waiting on permit for pod: {status.message}")
    return status


@contextmanager
def expired_in_time(waiting: WaitingPod | None, clock: Clock) -> Iterator[None]:
    """Rejects a pod whose wait in Permit ends while the block is running; None = no wait."""
    if waiting is None:
        yield
        return
    timer: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal timer
        waiting.expire(clock.monotonic_s())
        if waiting.status is None:
            wait_s = max(0.0, waiting.deadline_s - clock.monotonic_s())
            timer = asyncio.get_running_loop().call_later(wait_s, look)

    look()
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()


def activate_pods(queue: SchedulingQueue, cycle: Cycle) -> None:
    """Moves the pods that plugins asked to activate during a cycle to the active queue."""
    if cycle.pods_to_activate:
        queue.activate(list(cycle.pods_to_activate))
        cycle.pods_to_activate.clear()
