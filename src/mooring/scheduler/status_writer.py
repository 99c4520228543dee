"""Writes to the status of pending pods why they are not scheduled, in the background.

The PodScheduled condition says why a pod is pending, ``nominatedNodeName`` to which node it is
nominated. Of several updates of one pod only the newest is written. Nominations are written before
all others, since other clients do not know of them until then. A write that fails is retried until
there is a newer update, or the pod is being bound or deleted. Only changes are written, unless a
write is in progress or was not answered: what is stored is not known then.

Source: pkg/scheduler/schedule_one.go (updatePod), pkg/api/v1/pod/util.go (UpdatePodCondition).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mooring.client import Client
from mooring.client.bound_node import is_other_uid, read_bound_node
from mooring.client.informer.replica import number_of
from mooring.client.retry import TRANSIENT, RetryPolicy, Sleep, requested_wait_s
from mooring.client.write_queue import Retry, WriteQueue
from mooring.clock import Clock, Rng
from mooring.errors import (
    ApiError,
    Conflict,
    Invalid,
    LeaseLost,
    NotFound,
    OutcomeUnknown,
    SchedulerError,
    Unreachable,
)
from mooring.objects.meta import ObjectMeta, key
from mooring.objects.pod import Pod
from mooring.scheduler.pod_condition import condition_patch

#: Without an end: what is not written is not seen by people, nor by a cluster autoscaler.
#: After an outage a condition is stale for the longest wait, at most. kube-scheduler does not
#: retry: it writes one with the next attempt, after a backoff of at most 10 s.
RETRY_POLICY: Final = RetryPolicy(tries_max=math.inf, initial_s=0.2, max_s=15.0, jitter=0.1)

#: Stored pods that are remembered; the informer has most of them within a second.
STORED_MAX: Final = 1_000

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
        self._writes: WriteQueue[StatusUpdate] = WriteQueue(self._write, sleep=sleep)
        #: UID -> status and version as the API server stored them; until the informer has this
        #: version. The rest of a pod may have megabytes.
        self._stored: dict[str, Pod] = {}
        self._requests = _Requests()

    def __len__(self) -> int:
        """Returns the number of updates that are queued, being written or waiting for a retry."""
        return len(self._writes)

    def enqueue(self, update: StatusUpdate) -> None:
        """Queues an update; never waits. It replaces the update of the same pod.

        A nomination that is not written yet is kept, unless the update has another one.
        """
        uid = update.pod.metadata.uid
        update = update._replace(pod=self._newest(update.pod))
        before = self._writes.get(uid)
        if before is not None:
            nominated = before.nominated if update.nominated is None else update.nominated
            announced = update.announced or before.announced
            update = update._replace(nominated=nominated, announced=announced)
        if self._patch(update, now_s=0.0) is None:
            self.statistics.unchanged += 1
            self._writes.remove(uid)
            return
        self._writes.put(uid, update.pod.metadata.namespace, update, urgent=bool(update.nominated))

    def withdraw_nomination(self, pod: Pod) -> bool:
        """Withdraws a nomination that is not written yet, or being written.

        Returns False if there is none. If it has been sent, it is cleared as soon as that write
        has ended.
        """
        uid = pod.metadata.uid
        update = self._writes.get(uid)
        if update is None or not update.nominated:
            return False
        self._writes.put(uid, pod.metadata.namespace, update._replace(nominated=""), urgent=True)
        return True

    def is_nominated(self, pod: Pod) -> bool:
        """Returns whether the pod, or a newer version that was stored, is nominated."""
        return bool(self._newer(pod).status.nominated_node_name)

    def cancel_update(self, uid: str) -> None:
        """Cancels the pending update of a pod that is being bound.

        Otherwise its status would say that it is unschedulable when it has a node. A request that
        was sent already is not taken back.
        """
        self._writes.remove(uid)

    def forget(self, uid: str) -> None:
        """Forgets what was stored for a pod that is bound, or was deleted.

        Not before: a binding may fail, and its condition has to be compared with the stored one
        while the informer has an older version.
        """
        self._stored.pop(uid, None)
        self._requests.forget(uid)

    async def nominate(self, pod: Pod, node_name: str) -> bool:
        """Sets status.nominatedNodeName with one request. Returns True if it may have been stored.

        Sends nothing while the API server asks to wait with the status of this pod.

        Raises:
            LeaseLost: the lease does not allow writes any more.
        """
        if pod.status.nominated_node_name == node_name:
            return True
        if self._client.status_wait_s(pod):
            return False
        try:
            status = {"nominatedNodeName": node_name}
            with self._requests.sending(pod.metadata.uid):
                self._remember(await self._client.patch_pod_status(pod, status, tries=1))
            return True
        except (Unreachable, OutcomeUnknown, ApiError) as error:
            _log.info("nomination not written", extra={"error": str(error)})
            return isinstance(error, OutcomeUnknown)

    async def run(self) -> None:
        """Writes until cancelled; updates that are queued then are lost."""
        await self._writes.run()

    async def _write(self, update: StatusUpdate, tries: int) -> Retry | None:
        """Writes an update once. Only the deletion or binding of the pod ends the retries."""
        # What was stored since it was queued counts.
        update = update._replace(pod=self._newer(update.pod))
        status = self._patch(update, now_s=self._clock.wall_s())
        if status is None:
            return None
        # Not in the client: the update can be replaced and removed here.
        if wait_s := self._client.status_wait_s(update.pod):
            return Retry(wait_s, is_requested=True)
        try:
            # One try: the wait between two tries is ours, since the update may become outdated.
            with self._requests.sending(update.pod.metadata.uid):
                stored = await self._client.patch_pod_status(update.pod, status, tries=1)
        except (*TRANSIENT, ApiError) as error:
            _log.info(
                "status of a pod not written",
                extra={"pod": key(update.pod), "tries": tries, "error": str(error)},
            )
            if await self._is_pointless(update.pod, error):
                self.statistics.failed += 1
                return None
            wait_s = RETRY_POLICY.wait_s(tries, error, self._rng)
            return Retry(wait_s, is_requested=requested_wait_s(error) > 0)
        self.statistics.written += 1
        self._remember(stored)
        return None

    def _patch(self, update: StatusUpdate, *, now_s: float) -> dict[str, Any] | None:
        """Returns what to write: the changes, or all if it is not known what is stored."""
        is_known = self._requests.are_known(update.pod.metadata.uid)
        return status_patch(update, now_s=now_s, is_known=is_known)

    def _remember(self, stored: Pod) -> None:
        """Remembers a stored pod: an attempt may be based on an older version of it."""
        self._stored[stored.metadata.uid] = self._newer(_without_spec(stored))
        if len(self._stored) > STORED_MAX:
            del self._stored[next(iter(self._stored))]

    def _newest(self, pod: Pod) -> Pod:
        """Returns the stored version of a pod, if it is newer than the informer's ``pod``."""
        newer = self._newer(pod)
        if newer is pod:
            self._stored.pop(pod.metadata.uid, None)
        return newer

    def _newer(self, pod: Pod) -> Pod:
        """Returns the stored version of a pod, if it is newer than ``pod``."""
        stored = self._stored.get(pod.metadata.uid)
        return stored if stored is not None and _number(stored) > _number(pod) else pod

    async def _is_pointless(self, pod: Pod, error: SchedulerError) -> bool:
        """Returns whether a write failed because the pod was deleted, or bound meanwhile."""
        if isinstance(error, NotFound) or is_other_uid(error):
            return True
        if not isinstance(error, Conflict | Invalid):
            return False
        try:
            return bool(await read_bound_node(self._client, pod))
        except NotFound:
            return True
        except (*TRANSIENT, ApiError):
            return False


def _without_spec(pod: Pod) -> Pod:
    """Returns what a later write needs of a stored pod."""
    metadata = pod.metadata
    return Pod(
        metadata=ObjectMeta(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            generation=metadata.generation,
        ),
        status=pod.status,
    )


class _Requests:
    """The requests for statuses whose effect is not known: in progress, or without an answer."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()
        #: UID -> the last request without an answer.
        self._unknown: dict[str, object] = {}

    def are_known(self, uid: str) -> bool:
        """Returns whether it is known what all requests for a pod have stored."""
        return uid not in self._open and uid not in self._unknown

    def forget(self, uid: str) -> None:
        """Forgets the answered and unanswered requests for a pod."""
        self._unknown.pop(uid, None)

    @contextmanager
    def sending(self, uid: str) -> Iterator[None]:
        """Follows one request: the block sends it."""
        self._open[uid] += 1
        unknown = self._unknown.get(uid)
        try:
            yield
        except (Unreachable, ApiError, LeaseLost):
            raise  # nothing was stored
        except BaseException:
            self._unknown[uid] = object()
            raise
        else:
            # The answer says what those before have stored, and nothing of one at the same time.
            if self._unknown.get(uid) is unknown:
                self._unknown.pop(uid, None)
        finally:
            self._open[uid] -= 1
            if not self._open[uid]:
                del self._open[uid]
            if len(self._unknown) > STORED_MAX:
                del self._unknown[next(iter(self._unknown))]


def _number(pod: Pod) -> int:
    """Returns the resourceVersion of a pod as a number; 0 if it is none."""
    return number_of(pod.metadata.resource_version) or 0


def status_patch(
    update: StatusUpdate, *, now_s: float, is_known: bool = True
) -> dict[str, Any] | None:
    """Returns the changed part of the status as the API writes it; None if nothing changes.

    Args:
        update: The status that the pod shall have.
        now_s: The time of a transition.
        is_known: Whether the stored status is that of ``update.pod``; else all is written.
    """
    pod = update.pod
    status: dict[str, Any] = {}
    condition = condition_patch(
        pod,
        kind="PodScheduled",
        status="False",
        reason=update.reason,
        message=update.message,
        now_s=now_s,
        only_changed=is_known,
    )
    if condition is not None:
        status["conditions"] = [condition]
    nominated, announced = update.nominated, update.announced
    is_stored = nominated == pod.status.nominated_node_name and announced in (None, nominated)
    if nominated is not None and not (is_stored and is_known):
        # An empty name is written as null.
        status["nominatedNodeName"] = nominated or None
    return status or None
