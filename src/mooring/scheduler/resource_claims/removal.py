"""Removes a pod that was not bound from the users of a claim.

The next attempt at the pod waits for the answer. Otherwise it would find the claim reserved, bind
the pod, and lose the reservation afterwards. A request that arrives after its sender timed out
would do the same, so each patch names a version: once a later write is stored, the patch is a
conflict, wherever it is.

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go (Unreserve).
*Differs:* upstream's patch has no resourceVersion, and is sent once; a failure is only logged.
"""

from __future__ import annotations

import math
from typing import Final

from mooring.client import Client
from mooring.client.bound_node import ARRIVES_WITHIN_S
from mooring.client.rest.client import Patch
from mooring.client.retry import TRANSIENT, RetryPolicy, Sleep
from mooring.clock import Clock, Rng
from mooring.errors import (
    ApiError,
    Conflict,
    LeaseLost,
    NotFound,
    OutcomeUnknown,
    SchedulerError,
)
from mooring.objects.resource import ResourceClaim

#: The waits between two tries. A failure that is no refusal is retried three times at least.
REMOVAL_POLICY: Final = RetryPolicy(tries_max=4, initial_s=0.01, factor=5.0, max_s=5.0, jitter=0.1)


class Removal:
    """The removal of one user from one claim; one object for all tries.

    Args:
        client: Sends the writes.
        claim: The claim in the version of the cache.
        pod_uid: The UID of the user.
        clock: Tells until when a request may arrive.
    """

    def __init__(self, client: Client, claim: ResourceClaim, pod_uid: str, clock: Clock) -> None:
        self._client = client
        self._claim = claim
        self._pod_uid = pod_uid
        self._clock = clock
        self._sent_at_s = -math.inf
        self._arrives_until_s = -math.inf
        self._is_certain = True

    async def write_until_known(self, rng: Rng, sleep: Sleep) -> ResourceClaim | None:
        """Returns the claim as stored; None = it does not exist any more.

        Raises:
            SchedulerError: the pod may still be a user; no write that could still arrive is left.
        """
        tries = 0
        newest: ResourceClaim | None = self._claim
        while True:
            try:
                if newest is None:
                    newest = await self._read()
                    self._is_certain = True
                return await self._attempt(newest)
            except NotFound:
                return None
            except LeaseLost:
                raise
            except SchedulerError as error:
                tries += 1
                self._note_failure(error)
                is_retried = isinstance(error, (*TRANSIENT, Conflict))
                is_last = not is_retried or tries >= REMOVAL_POLICY.tries_max
                if is_last and self._is_known:
                    raise
                newest = newest if self._is_certain else None
                wait_s = REMOVAL_POLICY.wait_s(tries, error, rng)
            await sleep(wait_s)

    def _note_failure(self, error: SchedulerError) -> None:
        """Notes what is not known after a failure of a request."""
        if isinstance(error, (OutcomeUnknown, Conflict)):
            # A read shows what is stored, also after a failure of the server.
            self._is_certain = False
        if isinstance(error, OutcomeUnknown) and not isinstance(error.__cause__, ApiError):
            self._arrives_until_s = self._sent_at_s + ARRIVES_WITHIN_S

    @property
    def _is_known(self) -> bool:
        """True if the pod is certainly a user, and stays one."""
        return self._is_certain and self._clock.monotonic_s() >= self._arrives_until_s

    async def _read(self) -> ResourceClaim:
        metadata = self._claim.metadata
        claim: ResourceClaim = await self._client.get(
            "ResourceClaim", metadata.name, metadata.namespace
        )
        return claim

    async def _attempt(self, claim: ResourceClaim) -> ResourceClaim | None:
        """Sends the patch for a version of the claim, if the pod is a user."""
        metadata = self._claim.metadata
        if claim.metadata.uid != metadata.uid:
            return None
        if all(user.uid != self._pod_uid for user in claim.status.reserved_for):
            return claim
        patch = {
            "metadata": {
                "uid": metadata.uid,
                "resourceVersion": claim.metadata.resource_version,
            },
            "status": {"reservedFor": [{"$patch": "delete", "uid": self._pod_uid}]},
        }
        removed: ResourceClaim = await self._client.patch(
            "ResourceClaim",
            metadata.name,
            patch,
            namespace=metadata.namespace,
            how=Patch.STRATEGIC,
            subresource="status",
            on_send=self._note_sent,
        )
        return removed

    def _note_sent(self) -> None:
        self._sent_at_s = self._clock.monotonic_s()
