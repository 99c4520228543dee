"""Preemption executor: evicts the victims chosen by PostFilter and requeues the preemptor.

::

    PostFilter chose victims ──> start ──> done: the deletions requeue the preemptor
                                   │
         clear nominations of lower priority ──> evict all victims but one, in parallel
                                   │                                │
                                   │ an eviction failed             v
                                   └────────────<──────── evict the last one
                                   v
                   retry the preemptor, after its backoff

Meanwhile DefaultPreemption's PreEnqueue gates the preemptor (``is_running``): it could not be bound
yet, and would choose other victims. The last victim is evicted alone, so that its deletion,
observed before the request is answered, lets the preemptor through.

Source: pkg/scheduler/framework/preemption/executor.go. *Differs:* a preemptor that was gated while
victims were deleted is activated at the end, where upstream waits for another deletion. After a
failed eviction upstream activates the preemptor at once, which would send the same requests again
without a pause: here it waits for its backoff.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from mooring.errors import InvariantViolation, LeaseLost, PluginError, SchedulerError
from mooring.framework.status import PostFilterResult
from mooring.metrics.recorders import NO_SCHEDULER_METRICS, SchedulerRecorder
from mooring.objects.pod import Pod
from mooring.queue import QueueName, SchedulingQueue, profile_of
from mooring.scheduler.evictor import Evictor
from mooring.scheduler.plugin_handle import PluginHandle
from mooring.scheduler.reporting import Reporting
from mooring.state import Nominator, PodInfo

#: How long a gated preemptor waits until the watch has reported the deletion of its victims.
DELETE_OBSERVED_TIMEOUT_S: Final = 5.0

_log = logging.getLogger(__name__)


class PreemptionExecutor:
    """Evicts victims in the background.

    Args:
        queue: Holds the preemptors.
        nominator: The nominated pods of each node.
        handle: Has the pods that wait in Permit, or are in PreBind.
        pods: "namespace/name" -> the newest version of each pod.
        evictor: Sends the requests.
        reporting: Reports each victim.
        recorder: Records preemptions as metrics.
    """

    def __init__(
        self,
        queue: SchedulingQueue,
        nominator: Nominator,
        handle: PluginHandle,
        pods: Mapping[str, Pod],
        evictor: Evictor,
        reporting: Reporting,
        recorder: SchedulerRecorder = NO_SCHEDULER_METRICS,
    ) -> None:
        self._recorder = recorder
        self._queue = queue
        self._nominator = nominator
        self._handle = handle
        self._pods = pods
        self._evictor = evictor
        self._reporting = reporting
        #: UID of the preemptor -> its preemption.
        self._running: dict[str, _Run] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._open: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Returns the number of running preemptions."""
        return len(self._open)

    def open(self, tasks: asyncio.TaskGroup) -> None:
        """Starts preemptions as tasks of this group from now on."""
        self._tasks = tasks

    def cancel(self) -> None:
        """Cancels all: the scheduler ends."""
        for task in list(self._open):
            task.cancel()

    async def wait(self) -> None:
        """Waits until all preemptions have ended."""
        if self._open:
            await asyncio.wait(list(self._open))

    def is_running(self, uid: str) -> bool:
        """Returns whether victims of this pod are being evicted, according to the cache."""
        run = self._running.get(uid)
        if run is None:
            return False
        last = run.last
        return last is None or not _is_terminating(self._pods.get(last.key), last.uid)

    def victims_of(self, uid: str) -> list[str]:
        """Returns the "namespace/name" of the pods that are being evicted for a pod."""
        run = self._running.get(uid)
        return [] if run is None else [pod.key for pod in run.post_filter_result.victims]

    def start(self, preemptor: PodInfo, post_filter_result: PostFilterResult) -> None:
        """Evicts the victims of a pod, but for those that are terminating already."""
        victims = [
            pod for pod in post_filter_result.victims if pod.metadata.deletion_timestamp is None
        ]
        if not victims:
            return
        assert self._tasks is not None, "open() comes first"
        self._recorder.preemption_started(len(post_filter_result.victims))
        run = self._running[preemptor.uid] = _Run(preemptor, post_filter_result)
        task = self._tasks.create_task(self._supervise(run, victims))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _supervise(self, run: _Run, victims: Sequence[PodInfo]) -> None:
        uid = run.preemptor.uid
        started_s, is_evicted = self._recorder.now(), False
        try:
            is_evicted = await self._evict_victims(run, victims)
        except (InvariantViolation, LeaseLost):
            raise
        except Exception:  # noqa: BLE001 - a failure of one preemption must not end the others
            _log.exception("unexpected error in preemption")
        finally:
            self._recorder.preemption_ended(started_s, succeeded=is_evicted)
            if self._running.get(uid) is run:
                del self._running[uid]
        if not is_evicted:
            self._queue.retry_after_backoff(uid)
        elif self._is_gated(uid):
            # Victims were deleted while it was gated: no other event may requeue it.
            await self._wait_until_deleted(victims)
            if self._is_gated(uid):
                self._queue.activate([uid])

    async def _evict_victims(self, run: _Run, victims: Sequence[PodInfo]) -> bool:
        """Returns whether all victims were evicted."""
        is_evicted = await self._clear_lower_priority_nominations(
            run.preemptor, run.post_filter_result.node_name or ""
        )
        *first, last = victims
        results: list[bool] = []
        ends: list[SchedulerError] = []

        async def evict(victim: PodInfo) -> None:
            try:
                results.append(await self._evict(run, victim))
            except (InvariantViolation, LeaseLost) as error:
                ends.append(error)  # a task group would wrap it

        async with asyncio.TaskGroup() as tasks:
            for victim in first:
                tasks.create_task(evict(victim))
        if ends:
            raise ends[0]
        if not all(results):
            return False
        run.last = last
        return await self._evict(run, last) and is_evicted

    async def _clear_lower_priority_nominations(self, preemptor: PodInfo, node_name: str) -> bool:
        """Clears nominations of lower-priority pods to this node. Returns False if one failed."""
        is_evicted = True
        for pod in self._nominator.pods_on(node_name):
            live = self._pods.get(pod.key)
            if pod.priority >= preemptor.priority or live is None:
                continue
            if live.metadata.uid != pod.uid:
                continue
            if self._reporting.withdraw_nomination(live):
                self._nominator.remove(pod.uid)
            elif self._reporting.is_nominated(live):
                try:
                    await self._evictor.clear_nomination(live)
                except LeaseLost:
                    raise
                except SchedulerError as error:
                    is_evicted = False
                    _log.warning(
                        "clearing nominatedNodeName failed",
                        extra={"pod": pod.key, "error": str(error)},
                    )
        return is_evicted

    async def _evict(self, run: _Run, victim: PodInfo) -> bool:
        """Evicts one victim. Returns False if that failed."""
        preemptor, post_filter_result = run.preemptor, run.post_filter_result
        note = f"Preempted by pod {preemptor.uid} on node {post_filter_result.node_name}"
        if self._cancel_waiting_victim(victim.uid, post_filter_result.plugin):
            note += " (in kube-scheduler memory)."
        else:
            name = profile_of(preemptor)
            message = f"{name}: preempting to accommodate a higher priority pod"
            try:
                if not await self._evictor.evict(victim.pod, message):
                    return True
            except LeaseLost:
                raise
            except SchedulerError as error:
                fields = {"pod": victim.key, "preemptor": preemptor.key, "error": str(error)}
                _log.warning("victim could not be evicted", extra=fields)
                self._reporting.eviction_failed(victim, preemptor, error)
                return False
        if _log.isEnabledFor(logging.DEBUG):
            fields = {"preemptor": preemptor.key, "victim": victim.key}
            fields["node"] = post_filter_result.node_name or ""
            _log.debug("Preemptor Pod preempted victim Pod", extra=fields | {"v": 2})
        self._reporting.preempted(victim, preemptor, note)
        return True

    def _cancel_waiting_victim(self, uid: str, plugin: str) -> bool:
        """Cancels the binding of a victim that is not bound yet; it is requeued."""
        waiting = self._handle.waiting.get(uid)
        if waiting is not None:
            return waiting.preempt(plugin, "preempted")
        return self._handle.pods_in_prebind.cancel(uid, f"preempted by {plugin}")

    def _is_gated(self, uid: str) -> bool:
        entry = self._queue.get(uid)
        return entry is not None and entry.queue_name is QueueName.GATED

    async def _wait_until_deleted(self, victims: Sequence[PodInfo]) -> None:
        """Waits until the watch has reported all deletions, up to a timeout."""
        try:
            async with asyncio.timeout(DELETE_OBSERVED_TIMEOUT_S):
                for victim in victims:
                    is_seen = partial(_is_settled, victim.uid)
                    await self._handle.until("Pod", victim.key, is_seen, DELETE_OBSERVED_TIMEOUT_S)
        except (TimeoutError, PluginError):
            _log.info(
                "deletion of victims not observed yet", extra={"pods": [pod.key for pod in victims]}
            )


class _Run:
    """One preemption; ``last`` is the last victim, once it is being evicted."""

    __slots__ = ("last", "post_filter_result", "preemptor")

    def __init__(self, preemptor: PodInfo, post_filter_result: PostFilterResult) -> None:
        self.preemptor = preemptor
        self.post_filter_result = post_filter_result
        self.last: PodInfo | None = None


def _is_terminating(live: Pod | None, uid: str) -> bool:
    """Returns whether a victim is deleted or terminating, according to the cache."""
    if live is None or live.metadata.uid != uid:
        return True
    return live.metadata.deletion_timestamp is not None


def _is_settled(uid: str, live: Pod | None) -> bool:
    """Returns whether a victim is terminating, or its binding was cancelled."""
    return _is_terminating(live, uid) or (live is not None and not live.spec.node_name)
