"""Why a pod is not scheduled, written to its status, behind the decisions and never in their way.

What a pod was refused for stands in its PodScheduled condition, and where room was made for it in
``nominatedNodeName``. Only the newest word about a pod is written; what cannot be written now is
tried again, unless the pod has been tried again meanwhile.

Source: pkg/scheduler/schedule_one.go (updatePod), pkg/api/v1/pod/util.go (UpdatePodCondition).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from mooring.client import Client
from mooring.clock import Clock
from mooring.errors import ApiError, OutcomeUnknown, ServerError, TooManyRequests, Unreachable
from mooring.objects.pod import Pod

#: Pods whose status waits to be written; beyond that the oldest word is dropped.
QUEUE_MAX: Final = 10_000
WRITERS: Final = 4
TRIES_MAX: Final = 6
RETRY_S: Final = 1.0

_log = logging.getLogger(__name__)


class StatusUpdate(NamedTuple):
    """What is to stand in a pod's status.

    Attributes:
        pod: The version that was decided about.
        reason: "Unschedulable" or "SchedulerError".
        message: Why.
        nominated: The node that the pod is nominated to, "" for none any more, None = as it is.
        announced: The node that ``nominate`` wrote, if ``pod`` may be from before that.
    """

    pod: Pod
    reason: str
    message: str
    nominated: str | None
    announced: str | None = None


@dataclass
class WriterStatistics:
    """What became of the words; numbers only grow."""

    written: int = 0
    unchanged: int = 0
    dropped: int = 0
    failed: int = 0


class StatusWriter:
    """Writes conditions and nominations.

    Args:
        client: Writes pass its fence.
        clock: For the time of a transition.
        sleep: Waits between tries.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.statistics = WriterStatistics()
        self._client = client
        self._clock = clock
        self._sleep = sleep
        self._waiting: dict[str, StatusUpdate] = {}
        self._busy: set[str] = set()
        #: Of those that are busy: what is being written must not be tried again.
        self._cancelled: set[str] = set()
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        """How many words wait, or are being written."""
        return len(self._waiting) + len(self._busy)

    def enqueue(self, update: StatusUpdate) -> None:
        """Has it written; never waits. An older word about the pod that still waits is dropped."""
        uid = update.pod.metadata.uid
        self._waiting.pop(uid, None)
        if patch_of(update, "") is None:
            self.statistics.unchanged += 1
            return
        if len(self._waiting) >= QUEUE_MAX:
            self._waiting.pop(next(iter(self._waiting)))
            self.statistics.dropped += 1
        self._waiting[uid] = update
        self._wake.set()

    def cancel_update(self, uid: str) -> None:
        """Tries to write nothing any more of what was said: the pod is on its way to a node.

        Else it would say on its node that it has none. What is sent already cannot be called back.
        """
        self._waiting.pop(uid, None)
        if uid in self._busy:
            self._cancelled.add(uid)

    async def nominate(self, pod: Pod, node_name: str) -> bool:
        """Writes at once, and once, where a pod goes; whether that may stand there now.

        Raises:
            LeaseLost: nothing may be written any more.
        """
        if pod.status.nominated_node_name == node_name:
            return True
        try:
            status = {"nominatedNodeName": node_name}
            await self._client.patch_pod_status(pod, status, tries=1)
            return True
        except (Unreachable, OutcomeUnknown, ApiError) as error:
            _log.info("a nomination was not written", extra={"error": str(error)})
            return isinstance(error, OutcomeUnknown)

    async def run(self) -> None:
        """Writes until cancelled; what waits then is lost."""
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
            self._busy.add(uid)
            try:
                await self._write(update)
            finally:
                self._busy.discard(uid)
                self._cancelled.discard(uid)
                self._wake.set()

    def _next(self) -> StatusUpdate | None:
        """Returns the oldest word about a pod that nobody writes about now."""
        for uid in self._waiting:
            if uid not in self._busy:
                return self._waiting.pop(uid)
        return None

    async def _write(self, update: StatusUpdate) -> None:
        """Writes it, again and again if that may help and there is no newer word."""
        uid = update.pod.metadata.uid
        status = patch_of(update, _now(self._clock))
        assert status is not None
        for tries_left in reversed(range(TRIES_MAX)):
            try:
                await self._client.patch_pod_status(update.pod, status, tries=1)
                self.statistics.written += 1
                return
            except (Unreachable, OutcomeUnknown, ServerError, TooManyRequests) as error:
                _log.info("a pod's status is not written yet", extra={"error": str(error)})
                wait_s = max(RETRY_S, _asked_s(error))
            except ApiError as error:
                # Most often the pod is gone, or was made anew: nobody reads this any more.
                _log.info("a pod's status was refused", extra={"error": str(error)})
                break
            if not tries_left or self._is_outdated(uid):
                break
            # The wait is ours and not the client's: the word may be out of date after it.
            await self._sleep(wait_s)
            if self._is_outdated(uid):
                break
        self.statistics.failed += 1

    def _is_outdated(self, uid: str) -> bool:
        """Returns whether there is a newer word about the pod, or none is wanted any more."""
        return uid in self._waiting or uid in self._cancelled


def patch_of(update: StatusUpdate, now: str) -> dict[str, Any] | None:
    """The part of the status that is to change, as the API writes it; None if nothing is."""
    pod = update.pod
    status: dict[str, Any] = {}
    before = next((found for found in pod.status.conditions if found.type == "PodScheduled"), None)
    is_same = before is not None and (before.status, before.reason, before.message) == (
        "False",
        update.reason,
        update.message,
    )
    if not is_same:
        condition: dict[str, Any] = {
            "type": "PodScheduled",
            "status": "False",
            "reason": update.reason,
            "message": update.message,
            "observedGeneration": pod.metadata.generation,
            "lastProbeTime": None,
        }
        if before is None or before.status != "False":
            condition["lastTransitionTime"] = now
        status["conditions"] = [condition]
    before_name = pod.status.nominated_node_name or update.announced or ""
    if update.nominated is not None and update.nominated != before_name:
        # An empty name is written as none at all.
        status["nominatedNodeName"] = update.nominated or None
    return status or None


def _asked_s(error: Exception) -> float:
    """How long the server wants us to wait; seconds."""
    drive_extender_calls = error.__cause__ if isinstance(error, OutcomeUnknown) else error
    return (
        isinstance(drive_extender_calls, ApiError) and drive_extender_calls.retry_after_s
    ) or 0.0


def _now(clock: Clock) -> str:
    return datetime.fromtimestamp(clock.wall_s(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
