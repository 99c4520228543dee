"""Evicts a pod: sets the DisruptionTarget condition, then deletes the pod by UID.

Both writes may be retried: the condition stays the same, and the deletion names the UID, so that no
other pod of the same name is deleted.

Source: pkg/scheduler/framework/preemption/executor.go (PreemptPod), pkg/scheduler/util/utils.go
(PatchPodStatus).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from mooring.client import Client
from mooring.client.bound_node import is_other_uid, read_bound_node
from mooring.client.retry import TRANSIENT, RetryPolicy, Sleep, retry
from mooring.clock import Clock, Rng
from mooring.errors import ApiError, Conflict, NotFound, SchedulerError
from mooring.objects.pod import Pod
from mooring.scheduler.pod_condition import condition_patch

#: client-go's default backoff.
RETRY_POLICY: Final = RetryPolicy(tries_max=4, initial_s=0.01, factor=5.0, jitter=0.1)

#: The condition of a pod that is being evicted, and its reason.
DISRUPTION_TARGET: Final = "DisruptionTarget"
REASON_PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"

_log = logging.getLogger(__name__)


class Evictor:
    """Evicts pods and clears nominations, with retries.

    Args:
        client: Its fence guards every write.
        clock: For the time of the condition.
        rng: For jitter.
        sleep: Waits between two tries.
    """

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, sleep: Sleep) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._sleep = sleep

    async def evict(self, pod: Pod, message: str) -> bool:
        """Evicts a pod. Returns False if it was deleted already.

        Args:
            pod: The victim.
            message: Of its DisruptionTarget condition.

        Raises:
            ApiError: a write is refused, or fails at every try.
            OutcomeUnknown, Unreachable: the API server does not answer.
            LeaseLost: the lease does not allow writes any more.
        """
        metadata = pod.metadata
        condition = condition_patch(
            pod,
            kind=DISRUPTION_TARGET,
            status="True",
            reason=REASON_PREEMPTION_BY_SCHEDULER,
            message=message,
            now_s=self._clock.wall_s(),
        )
        if condition is not None and not await self._patch_status(pod, {"conditions": [condition]}):
            return False
        try:
            await self._write_with_retry(
                lambda: self._client.delete(
                    "Pod", metadata.name, metadata.namespace, uid=metadata.uid
                ),
                TRANSIENT,
            )
        except (NotFound, Conflict) as error:
            # The only precondition is the UID; but a webhook may refuse with Conflict, too.
            if isinstance(error, Conflict) and await self._exists(pod):
                raise
            _log.info("victim already deleted", extra={"pod": metadata.name, "error": str(error)})
            return False
        return True

    async def _exists(self, pod: Pod) -> bool:
        """Returns whether this pod exists; False if another one has its name."""
        try:
            await read_bound_node(self._client, pod)
        except NotFound:
            return False
        return True

    async def clear_nomination(self, pod: Pod) -> None:
        """Clears status.nominatedNodeName. A missing pod is not an error.

        Raises:
            ApiError, OutcomeUnknown, Unreachable, LeaseLost: as ``evict``.
        """
        await self._patch_status(pod, {"nominatedNodeName": None})

    async def _patch_status(self, pod: Pod, status: Mapping[str, Any]) -> bool:
        """Patches the status, with retries. Returns False if the pod was deleted already."""
        try:
            await self._write_with_retry(
                lambda: self._client.patch_pod_status(pod, status), (*TRANSIENT, Conflict)
            )
        except ApiError as error:
            if not isinstance(error, NotFound) and not is_other_uid(error):
                raise
            _log.info("pod already deleted", extra={"pod": pod.metadata.name, "error": str(error)})
            return False
        return True

    async def _write_with_retry(
        self, write: Callable[[], Awaitable[Any]], retried: tuple[type[SchedulerError], ...]
    ) -> None:
        def should_retry(error: SchedulerError) -> bool:
            if isinstance(error, retried):
                _log.info("retrying an eviction", extra={"error": str(error)})
                return True
            return False

        await retry(
            write, RETRY_POLICY, sleep=self._sleep, rng=self._rng, should_retry=should_retry
        )
