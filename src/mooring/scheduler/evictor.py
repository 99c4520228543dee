"""Having a pod leave its node: it is told why in its status, and then deleted.

Both writes may be sent again after a failure: the condition is the same, and a deletion names the
pod's UID, so that no other pod of this name is ever hit.

Source: pkg/scheduler/framework/preemption/executor.go (PreemptPod), pkg/scheduler/util/utils.go
(PatchPodStatus).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

from mooring.client import Client
from mooring.clock import Clock, Rng
from mooring.errors import (
    Conflict,
    Invalid,
    NotFound,
    OutcomeUnknown,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from mooring.objects.pod import Pod

#: client-go's default backoff: so many tries, the first wait, and how waits grow.
TRIES_MAX: Final = 4
RETRY_S: Final = 0.01
RETRY_FACTOR: Final = 5.0
RETRY_JITTER: Final = 0.1

#: The condition of a pod that is made to leave.
DISRUPTION_TARGET: Final = "DisruptionTarget"
REASON_PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"

_log = logging.getLogger(__name__)


class Evictor:
    """Evicts pods; says why.

    Args:
        client: Writes pass its fence.
        clock: For the time of a condition.
        rng: For jitter.
        sleep: Waits between tries.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: Rng,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._sleep = sleep

    async def evict(self, pod: Pod, message: str) -> bool:
        """Has it leave; False if it was gone already.

        Raises:
            ApiError: it is refused, or fails again and again.
            OutcomeUnknown, Unreachable: nobody answers.
            LeaseLost: nothing may be written any more.
        """
        metadata = pod.metadata
        try:
            conditions = self._conditions(pod, message)
            if conditions:
                await self._write_with_retry(
                    lambda: self._client.patch_pod_status(pod, {"conditions": conditions})
                )
            await self._write_with_retry(
                lambda: self._client.delete(
                    "Pod", metadata.name, metadata.namespace, uid=metadata.uid
                )
            )
        except (NotFound, Invalid, Conflict) as error:
            # It is gone, or there is another pod of this name by now.
            _log.info("a victim is gone already", extra={"pod": metadata.name, "error": str(error)})
            return False
        return True

    async def clear_nomination(self, pod: Pod) -> None:
        """The pod is to come to no node in particular any more; gone is fine, too.

        Raises:
            ApiError, OutcomeUnknown, Unreachable, LeaseLost: as ``evict``.
        """
        status = {"nominatedNodeName": None}
        try:
            await self._write_with_retry(lambda: self._client.patch_pod_status(pod, status))
        except (NotFound, Invalid) as error:
            told = {"pod": pod.metadata.name, "error": str(error)}
            _log.info("a nominated pod is gone already", extra=told)

    async def _write_with_retry(self, write: Callable[[], Awaitable[Any]]) -> None:
        """Sends a write, and again if it fails for reasons that may pass."""
        wait_s = RETRY_S
        for _ in range(TRIES_MAX - 1):
            try:
                await write()
                return
            except (Unreachable, OutcomeUnknown, ServerError, TooManyRequests) as error:
                _log.info("an eviction is tried again", extra={"error": str(error)})
            await self._sleep(wait_s * (1 + RETRY_JITTER * self._rng.random()))
            wait_s *= RETRY_FACTOR
        await write()

    def _conditions(self, pod: Pod, message: str) -> list[dict[str, Any]]:
        """Returns the condition that says why; none if it stands there already."""
        found = pod.status.conditions
        before = next((each for each in found if each.type == DISRUPTION_TARGET), None)
        told = ("True", REASON_PREEMPTION_BY_SCHEDULER, message)
        if before is not None and (before.status, before.reason, before.message) == told:
            return []
        condition: dict[str, Any] = {
            "type": DISRUPTION_TARGET,
            "status": "True",
            "reason": REASON_PREEMPTION_BY_SCHEDULER,
            "message": message,
            "observedGeneration": pod.metadata.generation,
            "lastProbeTime": None,
        }
        if before is None or before.status != "True":
            now = datetime.fromtimestamp(self._clock.wall_s(), UTC)
            condition["lastTransitionTime"] = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        return [condition]
