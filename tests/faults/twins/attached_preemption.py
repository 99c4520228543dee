"""Follows each preemption: which victims are evicted, in which order, and what comes after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from mooring.errors import SchedulerError
from mooring.framework.status import PostFilterResult
from mooring.objects.pod import Pod
from mooring.queue import QueueName
from mooring.scheduler.service import Service
from mooring.state import PodInfo
from tests.faults.twins.attached_queue import AttachedQueue

#: A gated preemptor is activated at the latest so many seconds after its victims are evicted.
GATED_MAX: Final = 7


#: The preemption whose task clears nominations.
_CLEARING: ContextVar[Run | None] = ContextVar("clearing", default=None)


@dataclass
class Run:
    """One preemption.

    Attributes:
        victims: UIDs, in order; the last one is evicted alone.
        results: UID -> whether the eviction succeeded; None while it runs.
        is_retried: Whether the preemptor was requeued after its backoff.
        has_failed: Whether a nomination could not be cleared.
        replaces: Whether it began while an earlier one of the same pod waited for an answer: that
            one may requeue the pod, too.
    """

    real: Any
    victims: list[str]
    results: dict[str, bool | None] = field(default_factory=dict)
    is_retried: bool = False
    has_failed: bool = False
    replaces: bool = False


class AttachedPreemption:
    """Compares the evictions of a service with the rules of upstream's executor.

    Attributes:
        stored: UID -> the pods of the API server, if they are known.

    Args:
        service: The scheduler.
        queue: Reports the calls of its queue.
        report: Called with each problem.
    """

    def __init__(
        self, service: Service, queue: AttachedQueue, report: Callable[[str], None]
    ) -> None:
        self._service = service
        self._report = report
        self.stored: Mapping[str, Pod] = {}
        #: UID of the preemptor -> its run.
        self._runs: dict[str, Run] = {}
        self._gated: dict[str, int] = {}
        #: UIDs of the victims whose attempt was cancelled, in Permit or PreBind, and goes on.
        self._cancelled: set[str] = set()
        #: Task -> the error of the eviction that it has requested last.
        self._failed: dict[asyncio.Task[Any] | None, SchedulerError] = {}
        queue.listen(self._on_queue_call)
        executor: Any = service.preemption_executor
        self._executor = executor
        self._start, self._cancel = executor.start, executor._cancel_waiting_victim
        self._evict, self._is_running = executor._evict, executor.is_running
        self._clear_all = executor._clear_lower_priority_nominations
        executor._clear_lower_priority_nominations = self._on_clear_all
        self._clear, self._send = executor._evictor.clear_nomination, executor._evictor.evict
        executor.start, executor._evict = self.start, self._on_evict
        executor.is_running = self.is_running
        executor._cancel_waiting_victim = self._on_cancel
        executor._evictor.evict = self._on_request
        executor._evictor.clear_nomination = self._on_clear

    def _on_queue_call(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        del named
        if name == "retry_after_backoff" and args[0] in self._runs:
            self._runs[args[0]].is_retried = True
        elif name == "add_unschedulable":
            self._cancelled.discard(args[0].uid)

    def _on_cancel(self, uid: str, plugin: str) -> bool:
        """Follows a victim that is not bound yet: its attempt has to fail now."""
        is_cancelled: bool = self._cancel(uid, plugin)
        if is_cancelled:
            self._cancelled.add(uid)
        return is_cancelled

    def check_binding(self, pod: Pod) -> None:
        """Checks, before a request to bind a pod, that the attempt was not cancelled."""
        if pod.metadata.uid in self._cancelled:
            self._report(f"{pod.metadata.name} was preempted before its binding, but is bound")

    def start(self, preemptor: PodInfo, result: PostFilterResult) -> None:
        """Follows the start of a preemption."""
        self._start(preemptor, result)
        victims = [
            victim.uid for victim in result.victims if victim.metadata.deletion_timestamp is None
        ]
        if victims:
            real, replaces = self._executor._running.get(preemptor.uid), preemptor.uid in self._runs
            self._runs[preemptor.uid] = Run(real, victims, replaces=replaces)

    def is_running(self, uid: str) -> bool:
        """Compares whether the preemptor has to wait for its victims."""
        real: bool = self._is_running(uid)
        run = self._runs.get(uid)
        expected = False
        if run is not None and self._executor._running.get(uid) is run.real:
            last = run.victims[-1]
            pods = self._service.informers["Pod"].objects.values()
            lives = any(
                pod.metadata.uid == last and pod.metadata.deletion_timestamp is None for pod in pods
            )
            expected = lives or last not in run.results
        if real != expected:
            self._report(f"is_running({uid}) is {real}, not {expected}")
        return real

    async def _on_evict(self, real: Any, victim: PodInfo) -> bool:
        """Follows the eviction of a victim, be it a request or a rejection in Permit."""
        run = self._runs.get(real.preemptor.uid)
        if run is None or run.real is not real:
            return await self._evict(real, victim)  # type: ignore[no-any-return]
        others = [run.results.get(uid) for uid in run.victims[:-1]]
        if victim.uid in run.results:
            self._report(f"{victim.key} is evicted twice for {real.preemptor.key}")
        if victim.uid == run.victims[-1] and not all(others):
            self._report(f"{victim.key}, the last victim, is evicted, but others were not")
        run.results[victim.uid] = None
        task = asyncio.current_task()
        self._failed.pop(task, None)
        result = await self._evict(real, victim)
        if (error := self._failed.pop(task, None)) is not None and result:
            self._report(f"{victim.key} counts as evicted, but its eviction failed: {error}")
        run.results[victim.uid] = result
        return bool(result)

    async def _on_request(self, pod: Any, message: str) -> bool:
        """Checks that no victim is deleted that waits in Permit: it is rejected there."""
        waiting = self._service.handle.waiting.get(pod.metadata.uid)
        if waiting is not None and waiting.status is None:
            self._report(f"{pod.metadata.name} waits in Permit, but is deleted")
        if pod.metadata.uid in self._service.handle.pods_in_prebind._pods:
            self._report(f"{pod.metadata.name} is in PreBind, but is deleted")
        try:
            result: bool = await self._send(pod, message)
        except SchedulerError as error:
            self._failed[asyncio.current_task()] = error
            raise
        stored = self.stored.get(pod.metadata.uid)
        if stored is not None and stored.metadata.deletion_timestamp is None:
            self._report(f"{pod.metadata.name} counts as evicted, but is not being deleted")
        return result

    async def _on_clear_all(self, preemptor: PodInfo, node_name: str) -> bool:
        token = _CLEARING.set(self._runs.get(preemptor.uid))
        try:
            return bool(await self._clear_all(preemptor, node_name))
        finally:
            _CLEARING.reset(token)

    async def _on_clear(self, pod: Any) -> None:
        try:
            await self._clear(pod)
        except BaseException:
            if (run := _CLEARING.get()) is not None:
                run.has_failed = True
            raise

    def _is_current(self, uid: str, run: Run) -> bool:
        return self._executor._running.get(uid) is run.real

    def on_step(self) -> None:
        """Checks the preemptions that have ended in this step."""
        for uid, run in list(self._runs.items()):
            if self._is_current(uid, run):
                continue
            del self._runs[uid]
            has_failed = False in run.results.values() or None in run.results.values()
            missing = [victim for victim in run.victims if victim not in run.results]
            if missing and not has_failed and not run.is_retried:
                self._report(f"victims {missing} of {uid} were not evicted")
            is_expected = has_failed or run.has_failed or (run.replaces and run.is_retried)
            if run.is_retried != is_expected:
                self._report(f"{uid} is retried: {run.is_retried}, after {run.results}")

    def on_tick(self) -> None:
        """Checks once per second that no preemptor stays gated after its preemption."""
        gated: dict[str, int] = {}
        for entry in self._service.queue.pods():
            is_gated = entry.queue_name is QueueName.GATED
            if is_gated and entry.gating_plugin == "DefaultPreemption":
                is_over = entry.uid not in self._runs
                gated[entry.uid] = self._gated.get(entry.uid, 0) + 1 if is_over else 0
                if gated[entry.uid] > GATED_MAX:
                    self._report(f"{entry.pod.key} is gated, but its victims are evicted")
        self._gated = gated
