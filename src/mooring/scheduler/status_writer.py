"""Writes to the status of pending pods why they are not scheduled, in the background.

The PodScheduled condition says why a pod is pending, ``nominatedNodeName`` to which node it is
nominated. Of several updates of one pod only the newest is written. A write that fails is retried,
unless there is a newer update or the pod is being bound meanwhile.

Source: pkg/scheduler/schedule_one.go (updatePod), pkg/api/v1/pod/util.go (UpdatePodCondition).
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mooring.client import Client
from mooring.client.retry import TRANSIENT, RetryPolicy, Sleep, retry
from mooring.clock import Clock, Rng
from mooring.errors import ApiError, OutcomeUnknown, SchedulerError, Unreachable
from mooring.objects.pod import Pod
from mooring.scheduler.pod_condition import condition_patch

#: Pods with an update in the queue; beyond that the oldest update is dropped.
QUEUE_MAX: Final = 10_000
WRITERS: Final = 4
RETRY_POLICY: Final = RetryPolicy(tries_max=6, initial_s=1.0, factor=1.0, jitter=0.0)

_log = logging.getLogger(__name__)


class StatusUpdate(NamedTuple):
    """The status that a pod shall have.

    Attributes:
        pod: The version that was scheduled.
        reason: "Unschedulable" or "SchedulerError".
        message: Why the pod is pending.
        nominated: The nominated node; "" = clear it, None = leave it unchanged.
        announced: The node that ``nominate`` wrote, if ``pod`` may be older than that write.
    """

    pod: Pod
    reason: str
    message: str
    nominated: str | None
    announced: str | None = None


@dataclass
class WriterStatistics:
    """Counts of updates by outcome; they only grow."""

    written: int = 0
    unchanged: int = 0
    dropped: int = 0
    failed: int = 0


class StatusWriter:
    """Writes conditions and nominations.

    Args:
        client: Its fence guards every write.
        clock: For the transition time of a condition.
        rng: For jitter.
        sleep: Waits between two tries.
    """

    def __init__(
        self, client: Client, *, clock: Clock, rng: Rng, sleep: Sleep = asyncio.sleep
    ) -> None:
        self.statistics = WriterStatistics()
        self._client = client
        self._clock = clock
        self._rng = rng
        self._sleep = sleep
        self._queued: dict[str, StatusUpdate] = {}
        #: UIDs of the pods with a write in progress.
        self._in_progress: set[str] = set()
        #: Of those: a failed write must not be retried.
        self._cancelled: set[str] = set()
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        """Returns the number of updates that are queued or being written."""
        return len(self._queued) + len(self._in_progress)

    def enqueue(self, update: StatusUpdate) -> None:
        """Queues an update; never waits. It replaces a queued update of the same pod."""
        uid = update.pod.metadata.uid
        self._queued.pop(uid, None)
        if status_patch(update, now_s=0.0) is None:
            self.statistics.unchanged += 1
            return
        if len(self._queued) >= QUEUE_MAX:
            self._queued.pop(next(iter(self._queued)))
            self.statistics.dropped += 1
        self._queued[uid] = update
        self._wake.set()

    def cancel_update(self, uid: str) -> None:
        """Cancels the pending update of a pod that is being bound.

        Otherwise its status would say that it is unschedulable when it has a node. A request that
        was sent already is not taken back.
        """
        self._queued.pop(uid, None)
        if uid in self._in_progress:
            self._cancelled.add(uid)

    async def nominate(self, pod: Pod, node_name: str) -> bool:
        """Sets status.nominatedNodeName with one request. Returns True if it may have been stored.

        Raises:
            LeaseLost: the lease does not allow writes any more.
        """
        if pod.status.nominated_node_name == node_name:
            return True
        try:
            status = {"nominatedNodeName": node_name}
            await self._client.patch_pod_status(pod, status, tries=1)
            return True
        except (Unreachable, OutcomeUnknown, ApiError) as error:
            _log.info("nomination not written", extra={"error": str(error)})
            return isinstance(error, OutcomeUnknown)

    async def run(self) -> None:
        """Writes until cancelled; updates that are queued then are lost."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WRITERS):
                tasks.create_task(self._write_all())

    async def _write_all(self) -> None:
        while True:
            update = self._next()
            if update is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            uid = update.pod.metadata.uid
            self._in_progress.add(uid)
            try:
                await self._write(update)
            finally:
                self._in_progress.discard(uid)
                self._cancelled.discard(uid)
                self._wake.set()

    def _next(self) -> StatusUpdate | None:
        """Returns the oldest queued update of a pod with no write in progress."""
        for uid in self._queued:
            if uid not in self._in_progress:
                return self._queued.pop(uid)
        return None

    async def _write(self, update: StatusUpdate) -> None:
        """Writes an update, with retries until there is a newer one."""
        uid = update.pod.metadata.uid
        status = status_patch(update, now_s=self._clock.wall_s())
        assert status is not None

        async def write() -> None:
            if self._is_outdated(uid):
                raise _Outdated("there is a newer update, or the pod is being bound")
            # One try: the wait between two tries is ours, since the update may become outdated.
            await self._client.patch_pod_status(update.pod, status, tries=1)

        def should_retry(error: SchedulerError) -> bool:
            _log.info("status of a pod not written", extra={"error": str(error)})
            return isinstance(error, TRANSIENT) and not self._is_outdated(uid)

        try:
            await retry(
                write, RETRY_POLICY, sleep=self._sleep, rng=self._rng, should_retry=should_retry
            )
            self.statistics.written += 1
        except (*TRANSIENT, ApiError, _Outdated):
            # An ApiError mostly means that the pod was deleted.
            self.statistics.failed += 1

    def _is_outdated(self, uid: str) -> bool:
        """Returns whether the update has been replaced or cancelled."""
        return uid in self._queued or uid in self._cancelled


class _Outdated(SchedulerError):
    """The update must not be written any more."""


def status_patch(update: StatusUpdate, *, now_s: float) -> dict[str, Any] | None:
    """Returns the changed part of the status as the API writes it; None if nothing changes."""
    pod = update.pod
    status: dict[str, Any] = {}
    condition = condition_patch(
        pod,
        kind="PodScheduled",
        status="False",
        reason=update.reason,
        message=update.message,
        now_s=now_s,
    )
    if condition is not None:
        status["conditions"] = [condition]
    nominated_before = pod.status.nominated_node_name or update.announced or ""
    if update.nominated is not None and update.nominated != nominated_before:
        # An empty name is written as null.
        status["nominatedNodeName"] = update.nominated or None
    return status or None
