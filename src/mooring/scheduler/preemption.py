"""Making room: the victims of a pod leave, and the pod waits until they were told.

::

    PostFilter found victims ──> start ──> over: their leaving wakes the pod, as any pod's does
                                   │
         nominations of lesser pods to the node end ──> all victims but one, side by side
                                   │                                │
                                   │ one could not be evicted       v
                                   └────────────<──────────── the last one
                                   v
                    the pod is tried again at once

Meanwhile DefaultPreemption's PreEnqueue holds the pod back (``is_running``): it could not be placed
yet, and would look for other victims. The last victim goes alone, so that its leaving, seen before
the request is answered, lets the pod through.

Source: pkg/scheduler/framework/preemption/executor.go. *Differs:* a pod that was held back while
victims left is tried again at the end, where upstream waits for one more of them to leave.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from mooring.errors import InvariantViolation, LeaseLost, PluginError, SchedulerError
from mooring.framework.status import PostFilterResult
from mooring.objects.pod import Pod
from mooring.queue import QueueName, SchedulingQueue, profile_of
from mooring.scheduler.evictor import Evictor
from mooring.scheduler.plugin_handle import PluginHandle
from mooring.scheduler.reporting import Reporting
from mooring.state import Nominator, PodInfo

#: After its victims were deleted a pod that was held back waits so long for the news of it.
DELETE_OBSERVED_TIMEOUT_S: Final = 5.0

_log = logging.getLogger(__name__)


class PreemptionExecutor:
    """Evicts victims beside the decisions.

    Args:
        queue: Where the preemptors wait.
        nominator: Which pods are to come to which node.
        handle: Knows the pods that wait in Permit, or are in PreBind.
        pods: "namespace/name" -> the newest version of each pod.
        evictor: Writes.
        reporting: Tells of each victim.
    """

    def __init__(
        self,
        queue: SchedulingQueue,
        nominator: Nominator,
        handle: PluginHandle,
        pods: Mapping[str, Pod],
        evictor: Evictor,
        reporting: Reporting,
    ) -> None:
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
        """How many are under way."""
        return len(self._open)

    def open(self, tasks: asyncio.TaskGroup) -> None:
        """Runs as tasks of this group from now on."""
        self._tasks = tasks

    def cancel(self) -> None:
        """Breaks off all: the scheduler ends."""
        for task in list(self._open):
            task.cancel()

    def is_running(self, uid: str) -> bool:
        """Returns whether victims of this pod are being evicted, as far as anybody can see."""
        run = self._running.get(uid)
        if run is None:
            return False
        last = run.last
        return last is None or not _is_terminating(self._pods.get(last.key), last.uid)

    def start(self, preemptor: PodInfo, room: PostFilterResult) -> None:
        """Evicts the victims of a pod; those that are leaving already are left alone."""
        victims = [pod for pod in room.victims if pod.metadata.deletion_timestamp is None]
        if not victims:
            return
        assert self._tasks is not None, "open() comes first"
        run = self._running[preemptor.uid] = _Run(preemptor, room)
        task = self._tasks.create_task(self._supervise(run, victims))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _supervise(self, run: _Run, victims: Sequence[PodInfo]) -> None:
        uid = run.preemptor.uid
        try:
            is_done = await self._evict_victims(run, victims)
        except (InvariantViolation, LeaseLost):
            raise
        except Exception:  # noqa: BLE001 - one pod's trouble must never end the others' bindings
            _log.exception("a preemption failed in a way that nobody foresaw")
            is_done = False
        finally:
            if self._running.get(uid) is run:
                del self._running[uid]
        if not is_done:
            self._queue.activate([uid])
        elif self._is_held_back(uid):
            # Victims have left while it was held back: perhaps nobody else will wake it.
            await self._wait_until_seen(victims)
            if self._is_held_back(uid):
                self._queue.activate([uid])

    async def _evict_victims(self, run: _Run, victims: Sequence[PodInfo]) -> bool:
        """Returns whether everybody was told to leave."""
        is_done = await self._clear_lower_priority_nominations(
            run.preemptor, run.room.node_name or ""
        )
        *first, last = victims
        results: list[bool] = []
        ends: list[SchedulerError] = []

        async def evict(victim: PodInfo) -> None:
            try:
                results.append(await self._evict(run, victim))
            except (InvariantViolation, LeaseLost) as error:
                ends.append(error)  # a group would wrap it, and nobody would know it any more

        async with asyncio.TaskGroup() as tasks:
            for victim in first:
                tasks.create_task(evict(victim))
        if ends:
            raise ends[0]
        if not all(results):
            return False
        run.last = last
        return await self._evict(run, last) and is_done

    async def _clear_lower_priority_nominations(self, preemptor: PodInfo, node_name: str) -> bool:
        """Pods of a lower priority may not fit there any more: they look for another node."""
        is_done = True
        for pod in self._nominator.pods_on(node_name):
            live = self._pods.get(pod.key)
            if pod.priority >= preemptor.priority or live is None:
                continue
            if live.metadata.uid == pod.uid and live.status.nominated_node_name:
                try:
                    await self._evictor.clear_nomination(live)
                except LeaseLost:
                    raise
                except SchedulerError as error:
                    is_done = False
                    _log.warning("a nomination stays", extra={"pod": pod.key, "error": str(error)})
        return is_done

    async def _evict(self, run: _Run, victim: PodInfo) -> bool:
        """Has a victim leave, by the shortest way; whether it does."""
        preemptor, room = run.preemptor, run.room
        note = f"Preempted by pod {preemptor.uid} on node {room.node_name}"
        if self._cancel_waiting_victim(victim.uid, room.plugin):
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
                told = {"pod": victim.key, "preemptor": preemptor.key, "error": str(error)}
                _log.warning("a victim could not be evicted", extra=told)
                return False
        self._reporting.preempted(victim, preemptor, note)
        return True

    def _cancel_waiting_victim(self, uid: str, plugin: str) -> bool:
        """Turns a victim back that is still on its way to the node; it goes back to the queue."""
        waiting = self._handle.waiting.get(uid)
        if waiting is not None:
            return waiting.preempt(plugin, "preempted")
        return self._handle.pods_in_prebind.cancel(uid, f"preempted by {plugin}")

    def _is_held_back(self, uid: str) -> bool:
        entry = self._queue.get(uid)
        return entry is not None and entry.queue_name is QueueName.GATED

    async def _wait_until_seen(self, victims: Sequence[PodInfo]) -> None:
        """Returns when the news of all deletions have come; soon in any case."""
        try:
            async with asyncio.timeout(DELETE_OBSERVED_TIMEOUT_S):
                for victim in victims:
                    is_seen = partial(_is_settled, victim.uid)
                    await self._handle.until("Pod", victim.key, is_seen, DELETE_OBSERVED_TIMEOUT_S)
        except (TimeoutError, PluginError):
            _log.info("a deletion is not seen yet", extra={"pods": [pod.key for pod in victims]})


class _Run:
    """One preemption; ``last`` is the last victim, once it is its turn."""

    __slots__ = ("last", "preemptor", "room")

    def __init__(self, preemptor: PodInfo, room: PostFilterResult) -> None:
        self.preemptor = preemptor
        self.room = room
        self.last: PodInfo | None = None


def _is_terminating(live: Pod | None, uid: str) -> bool:
    """Returns whether a victim is seen to be gone, or on its way."""
    if live is None or live.metadata.uid != uid:
        return True
    return live.metadata.deletion_timestamp is not None


def _is_settled(uid: str, live: Pod | None) -> bool:
    """As ``_is_terminating``; or it was turned back before it was on the node."""
    return _is_terminating(live, uid) or (live is not None and not live.spec.node_name)
