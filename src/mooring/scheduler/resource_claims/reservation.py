"""Reserves a resource claim for a pod, and allocates it.

::

    PUT claim + finalizer ──> PUT status: allocation, user ──> the claim as stored
      │ conflict                │ conflict       │ no answer
      └── GET claim <───────────┴────────────────┘ allocated, deallocated, deleted elsewhere: failed

A request without an answer may have allocated devices, now or later. Giving up then could give them
to another pod, too. So the claim is read and written again: a later write makes the first one a
conflict, wherever it is. Neither a refusal of that write nor a failure of the server says anything
about the first one. Only after two minutes without any answer does the attempt fail; until then
the devices stay in use.

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go (bindClaim).
*Differs:* upstream takes every error but a conflict for a failure; a time is added only to an
allocation of this pod's own, since the API server does not accept a change of another one.
"""

from __future__ import annotations

import logging
import math
from typing import Any, Final

from msgspec.structs import replace

from mooring.client import Client
from mooring.client.bound_node import ARRIVES_WITHIN_S
from mooring.client.retry import RetryPolicy, Sleep
from mooring.clock import Clock, Rng, rfc3339
from mooring.errors import (
    ApiError,
    Conflict,
    NotFound,
    OutcomeUnknown,
    SchedulerError,
    Unreachable,
)
from mooring.objects.meta import key
from mooring.objects.resource import (
    FINALIZER,
    AllocationResult,
    ResourceClaim,
    devices_in,
    pod_as_user,
)
from mooring.state import PodInfo

KIND: Final = "ResourceClaim"

#: client-go's DefaultRetry, for conflicts.
CONFLICT_POLICY: Final = RetryPolicy(tries_max=5, initial_s=0.01, factor=1.0, jitter=0.1)
#: The waits after a write without an answer.
UNKNOWN_POLICY: Final = RetryPolicy(tries_max=math.inf, initial_s=0.1, max_s=5.0)

_log = logging.getLogger(__name__)


class ClaimWriteFailed(SchedulerError):
    """A claim could not be written; the message is kube-scheduler's."""


class _Refused(ClaimWriteFailed):
    """The API server refuses a request; an earlier one may still arrive."""


class Reservation:
    """The writes that reserve one claim for one pod; one object for all tries.

    Args:
        client: Sends them.
        claim: The claim in the version of the cache.
        allocation: The allocation to write; None = the claim has one.
        pod: The new user.
        clock: For the time of the allocation.
        devices: Those for which the node was selected: a claim with others is not reserved.
        has_time: Whether allocations have a time, which binding conditions need.
    """

    def __init__(
        self,
        client: Client,
        claim: ResourceClaim,
        allocation: AllocationResult | None,
        pod: PodInfo,
        clock: Clock,
        *,
        devices: frozenset[tuple[str, ...]],
        has_time: bool = True,
    ) -> None:
        self._client = client
        self._claim = claim
        self._allocation = allocation
        self._pod = pod
        self._clock = clock
        self._devices = devices
        self._has_time = has_time
        self._has_tried = False
        self._step = ""
        self._sent_at_s = -math.inf

    async def write_until_known(self, rng: Rng, sleep: Sleep) -> ResourceClaim:
        """Returns the claim as stored; retries after conflicts, and while there is no answer.

        Raises:
            ClaimWriteFailed: it is not reserved for the pod, and no write that could still arrive
                is left.
            LeaseLost: the lease does not allow writes any more.
        """
        conflicts, tries, arrives_until_s = 0, 0, -math.inf
        while True:
            try:
                return await self.attempt()
            except Conflict as conflict:
                conflicts += 1
                error: SchedulerError = conflict
                if conflicts >= CONFLICT_POLICY.tries_max:
                    # No earlier request can arrive any more, but one may have been stored.
                    stored = await self._stored() if arrives_until_s > -math.inf else None
                    return self._require(stored, error)
                wait_s = CONFLICT_POLICY.wait_s(conflicts, error, rng)
            except (_Refused, OutcomeUnknown, Unreachable) as failure:
                error, is_answered, stored = await self._judge(failure)
                if not is_answered:
                    arrives_until_s = self._sent_at_s + ARRIVES_WITHIN_S
                if stored is not None or self._clock.monotonic_s() >= arrives_until_s:
                    return self._require(stored, error)
                tries += 1
                _log.info("reservation of a claim not confirmed", extra={"error": str(error)})
                wait_s = UNKNOWN_POLICY.wait_s(tries, error, rng)
            await sleep(wait_s)

    async def _judge(
        self, failure: SchedulerError
    ) -> tuple[SchedulerError, bool, ResourceClaim | None]:
        """Returns the error, whether the request has ended, and the claim if it is reserved."""
        if not isinstance(failure, OutcomeUnknown):
            return failure, True, None
        if not isinstance(failure.__cause__, ApiError):
            return failure, False, None
        # The server's failure is an answer, if a read shows what it has stored.
        is_answered, stored = await self._seen()
        return failure.__cause__, is_answered, stored

    def _require(self, stored: ResourceClaim | None, error: SchedulerError) -> ResourceClaim:
        """Returns the claim if it is reserved.

        Raises:
            ClaimWriteFailed: it is not.
        """
        if stored is not None:
            return stored
        raise error if isinstance(error, ClaimWriteFailed) else self._failed(error) from error

    async def _seen(self) -> tuple[bool, ResourceClaim | None]:
        """Reads the claim; returns whether there is an answer, and the claim if it is reserved."""
        try:
            claim = await self._read()
        except NotFound:
            return True, None
        except SchedulerError:
            return False, None
        return True, claim if self._is_done(claim) else None

    async def _stored(self) -> ResourceClaim | None:
        """Returns the claim on the API server if it is reserved for the pod, else None."""
        return (await self._seen())[1]

    def _failed(self, error: SchedulerError) -> ClaimWriteFailed:
        """Returns the error of the last write, in kube-scheduler's words."""
        return ClaimWriteFailed(f"{self._step} {self._name}: {text_of(error)}")

    @property
    def _name(self) -> str:
        return key(self._claim)

    async def _read(self) -> ResourceClaim:
        metadata = self._claim.metadata
        claim: ResourceClaim = await self._client.get(KIND, metadata.name, metadata.namespace)
        return claim

    def _is_done(self, claim: ResourceClaim) -> bool:
        is_same = claim.metadata.uid == self._claim.metadata.uid and self._has_devices(claim)
        return is_same and any(user.uid == self._pod.uid for user in claim.status.reserved_for)

    def _has_devices(self, claim: ResourceClaim) -> bool:
        return devices_in(claim.status.allocation) == self._devices

    async def attempt(self) -> ResourceClaim:
        """Writes once; every try but the first begins with a read.

        Raises:
            Conflict: another write came first.
            ClaimWriteFailed: the claim cannot be reserved, or the API server refuses.
            OutcomeUnknown, Unreachable: a write has no answer.
        """
        claim = self._claim
        if self._has_tried:
            claim = await self._newest()
            if self._is_done(claim):
                return claim
            if claim.metadata.uid != self._claim.metadata.uid:
                raise ClaimWriteFailed(f"claim {self._name} got deleted in the meantime")
        self._has_tried = True
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimWriteFailed(f"claim {self._name} got deleted in the meantime")
        status = claim.status
        if self._allocation is not None:
            if status.allocation is not None:
                raise ClaimWriteFailed(
                    f"claim {self._name} got allocated elsewhere in the meantime"
                )
            claim = await self._with_finalizer(claim)
            now = rfc3339(self._clock.wall_s()) if self._has_time else None
            status = replace(
                claim.status, allocation=replace(self._allocation, allocation_timestamp=now)
            )
        elif not self._has_devices(claim):
            # It may have other devices now, which another node has.
            raise ClaimWriteFailed(f"claim {self._name} got deallocated elsewhere in the meantime")
        user = pod_as_user(self._pod.metadata)
        status = replace(status, reserved_for=(*status.reserved_for, user))
        added = "reservation" if self._allocation is None else "allocation and reservation"
        stored: ResourceClaim = await self._write(
            replace(claim, status=status), "status", f"add {added} to claim"
        )
        return stored

    async def _newest(self) -> ResourceClaim:
        self._step = "get updated claim"
        try:
            return await self._read()
        except ApiError as error:
            text = f"get updated claim {self._name} after conflict: {text_of(error)}"
            failed = ClaimWriteFailed if isinstance(error, NotFound) else _Refused
            raise failed(text) from error

    async def _with_finalizer(self, claim: ResourceClaim) -> ResourceClaim:
        """Returns the claim with the finalizer that protects its allocation."""
        finalizers = claim.metadata.finalizers
        if FINALIZER in finalizers:
            return claim
        metadata = replace(claim.metadata, finalizers=(*finalizers, FINALIZER))
        written = replace(claim, metadata=metadata)
        stored: ResourceClaim = await self._write(written, "", "add finalizer to claim")
        return stored

    async def _write(self, claim: ResourceClaim, subresource: str, step: str) -> Any:
        self._step = step
        try:
            return await self._client.replace(
                claim, subresource=subresource, on_send=self._note_sent
            )
        except Conflict:
            raise
        except ApiError as error:
            raise _Refused(str(self._failed(error))) from error

    def _note_sent(self) -> None:
        self._sent_at_s = self._clock.monotonic_s()


def text_of(error: SchedulerError) -> str:
    """Returns the API server's own text."""
    return (isinstance(error, ApiError) and error.server_message) or str(error)
