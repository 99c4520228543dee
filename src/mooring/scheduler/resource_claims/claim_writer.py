"""Writes resource claims: in PreBind, and the way back in Unreserve and PostFilter.

The writes that allocate a claim and reserve it for a pod are in ``reservation``.

Source: pkg/scheduler/framework/plugins/dynamicresources/{dynamicresources,
extendeddynamicresources}.go (bindClaim, Unreserve, deleteClaim).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from msgspec import to_builtins
from msgspec.structs import replace

from mooring.client import Client
from mooring.client.retry import TRANSIENT, RetryPolicy, Sleep, retry
from mooring.clock import Clock, Rng
from mooring.errors import (
    Conflict,
    LeaseLost,
    SchedulerError,
)
from mooring.framework.status import ClaimChange
from mooring.metrics.recorders import NO_SCHEDULER_METRICS, SchedulerRecorder
from mooring.objects.meta import key
from mooring.objects.pod import ContainerExtendedResourceRequest
from mooring.objects.resource import (
    FINALIZER,
    AllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
    devices_in,
)
from mooring.scheduler.resource_claims.removal import Removal
from mooring.scheduler.resource_claims.reservation import (
    CONFLICT_POLICY,
    KIND,
    ClaimWriteFailed,
    Reservation,
    text_of,
)
from mooring.scheduler.resource_claims.turns import Turns
from mooring.state import PodInfo
from mooring.state.devices.claims import ClaimNotFound
from mooring.state.devices.devices import Devices

#: The retries of a patch of a pod's status (PatchPodStatus).
STATUS_POLICY: Final = RetryPolicy(tries_max=4, initial_s=0.01, factor=5.0, jitter=0.1)
#: A claim that was created is in the watch cache after so long at the latest.
OBSERVED_WITHIN_S: Final = 120
OBSERVED_POLL_S: Final = 1.0

_log = logging.getLogger(__name__)


class ClaimWriter:
    """The claim writer of a running scheduler.

    Args:
        client: Its fence guards every write.
        devices: The scheduler's claims, for those that PreBind creates, and its feature gates.
        clock: For the time of an allocation.
        rng: For jitter.
        sleep: Waits between two tries.
        recorder: Counts the claims that are created.
    """

    def __init__(
        self,
        client: Client,
        devices: Devices,
        *,
        clock: Clock,
        rng: Rng,
        sleep: Sleep,
        recorder: SchedulerRecorder = NO_SCHEDULER_METRICS,
    ) -> None:
        self._client = client
        self._claims = devices.claims
        self._has_time = devices.features.has_binding_conditions
        self._clock = clock
        self._rng = rng
        self._sleep = sleep
        self._recorder = recorder
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = Turns()
        #: UIDs of claim and pod -> the task that removes the pod from the claim's users.
        self._removals: dict[tuple[str, str], asyncio.Task[None]] = {}

    def __len__(self) -> int:
        """Returns the number of writes in the background."""
        return len(self._tasks)

    # -- PreBind ----------------------------------------------------------------------------------

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Creates the claim for the extended resources of a pod; returns it as stored.

        Raises:
            ClaimWriteFailed: with kube-scheduler's text.
            LeaseLost: the lease does not allow writes any more.
        """
        metadata = replace(claim.metadata, name="", uid="", finalizers=())
        new = replace(claim, metadata=metadata, status=ResourceClaimStatus())
        try:
            created: ResourceClaim = await self._client.create(new)
        except LeaseLost:
            raise
        except SchedulerError as error:
            self._recorder.claim_created(succeeded=False)
            what = f"create claim for extended resources {claim.metadata.namespace}/"
            raise ClaimWriteFailed(f"{what}: {text_of(error)}") from error
        self._recorder.claim_created(succeeded=True)
        return created

    async def reserve(
        self, claim: ResourceClaim, pod: PodInfo, allocation: AllocationResult | None
    ) -> ResourceClaim:
        """Reserves a claim for the pod, and writes its allocation if it is new.

        Pods that share a claim are added one after the other, each to the version that the one
        before has stored. At the same time, each but one would conflict, and most of them fail
        after a few tries. *Differs:* kube-scheduler's binding cycles conflict with each other.

        Args:
            claim: The version for which the node was selected.
            pod: The pod.
            allocation: The devices of this attempt; None = those that the claim has.

        Raises:
            ClaimWriteFailed: with kube-scheduler's text.
            LeaseLost: the lease does not allow writes any more.
        """
        async with self._turns.of(claim.metadata.uid):
            # No other task runs between the end of a turn and the caller's update of the cache.
            newest = self._newest(claim)
            reservation = Reservation(
                self._client,
                newest,
                allocation,
                pod,
                self._clock,
                devices=devices_in(allocation or claim.status.allocation),
                has_time=self._has_time,
            )
            return await reservation.write_until_known(self._rng, self._sleep)

    def _newest(self, claim: ResourceClaim) -> ResourceClaim:
        """Returns the version in the cache, unless it is another claim of the same name."""
        newest = self._claims.get(key(claim))
        is_same = newest is not None and newest.metadata.uid == claim.metadata.uid
        return newest if newest is not None and is_same else claim

    async def observe(self, claim: ResourceClaim) -> None:
        """Stores a created claim in the cache as soon as the watch has reported it."""
        for _ in range(OBSERVED_WITHIN_S):
            try:
                self._claims.assume(claim)
                return
            except ClaimNotFound:
                await self._sleep(OBSERVED_POLL_S)
            except SchedulerError as error:
                _log.debug("claim not stored in cache", extra={"error": str(error)})
                return
        _log.info("created claim not observed yet", extra={"claim": key(claim)})

    async def record(
        self,
        pod: PodInfo,
        claim: ResourceClaim,
        mappings: tuple[ContainerExtendedResourceRequest, ...],
    ) -> None:
        """Writes the claim for extended resources and its mappings into the status of the pod.

        Raises:
            ClaimWriteFailed: there are no mappings, or the patch failed.
            LeaseLost: the lease does not allow writes any more.
        """
        if not mappings:
            text = "nil or empty request mappings, no update of pod"
            raise ClaimWriteFailed(f"{text} {pod.key} ExtendedResourceClaimStatus")
        status = {
            "extendedResourceClaimStatus": {
                "requestMappings": to_builtins(mappings),
                "resourceClaimName": claim.metadata.name,
            }
        }
        try:
            await retry(
                lambda: self._client.patch_pod_status(pod.pod, status),
                STATUS_POLICY,
                sleep=self._sleep,
                rng=self._rng,
                should_retry=lambda error: isinstance(error, (*TRANSIENT, Conflict)),
            )
        except LeaseLost:
            raise
        except SchedulerError as error:
            text = f"update pod {pod.key} ExtendedResourceClaimStatus: {text_of(error)}"
            raise ClaimWriteFailed(text) from error

    # -- Unreserve and PostFilter -----------------------------------------------------------------

    def unreserve(self, claim: ResourceClaim, pod: PodInfo) -> None:
        """Starts to remove the pod from the users of a claim; failures are only logged."""
        ids = claim.metadata.uid, pod.uid
        before = self._removals.get(ids)
        if before is not None and not before.done():
            return  # the pod has no new reservation: PreBind waits for the removal
        task = self._removals[ids] = self._start(self._remove_user(claim, pod), "unreserve", claim)

        def forget(_: asyncio.Task[None]) -> None:
            if self._removals.get(ids) is task:
                del self._removals[ids]

        task.add_done_callback(forget)

    async def wait_removed(self, claim: ResourceClaim, pod: PodInfo) -> None:
        """Waits until the removal of the pod from the users of a claim has ended, if one runs."""
        removal = self._removals.get((claim.metadata.uid, pod.uid))
        if removal is not None:
            await asyncio.wait([removal])

    async def _remove_user(self, claim: ResourceClaim, pod: PodInfo) -> None:
        async with self._turns.of(claim.metadata.uid):
            removal = Removal(self._client, self._newest(claim), pod.uid, self._clock)
            stored = await removal.write_until_known(self._rng, self._sleep)
            if stored is not None:
                with suppress(SchedulerError):  # it was deleted or changed meanwhile
                    self._claims.assume(stored)

    def delete(self, claim: ResourceClaim) -> None:
        """Starts to delete a claim that PreBind created; failures are only logged."""
        self._start(self._delete(claim), "delete", claim)

    async def apply(self, change: ClaimChange) -> None:
        """Deallocates or deletes a claim, as PostFilter asked.

        Raises:
            ApiError, OutcomeUnknown, Unreachable: the write failed.
            LeaseLost: the lease does not allow writes any more.
        """
        if change.is_deletion:
            await self._delete(change.claim)
        else:
            deallocated = replace(change.claim, status=ResourceClaimStatus())
            await self._client.replace(deallocated, subresource="status")

    def start(self, change: ClaimChange, on_failure: Callable[[], None]) -> None:
        """Starts ``apply``; a failure is logged, and ``on_failure`` is called."""
        self._start(self.apply(change), "post-filter", change.claim, on_failure)

    def cancel(self) -> None:
        """Cancels the writes in the background: the scheduler ends."""
        for task in list(self._tasks):
            task.cancel()

    def _start(
        self,
        work: Coroutine[Any, Any, Any],
        step: str,
        claim: ResourceClaim,
        on_failure: Callable[[], None] = lambda: None,
    ) -> asyncio.Task[None]:
        async def run() -> None:
            try:
                await work
            except SchedulerError as error:
                fields = {"step": step, "claim": key(claim), "error": str(error)}
                _log.error("claim could not be written", extra=fields)
                on_failure()

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _delete(self, claim: ResourceClaim) -> None:
        """Removes the finalizer, which would hold it, and deletes the claim."""
        await self._remove_finalizer(claim)
        metadata = claim.metadata
        await self._client.delete(KIND, metadata.name, metadata.namespace)

    async def _remove_finalizer(self, claim: ResourceClaim) -> None:
        """Writes the claim without its finalizer; after a conflict, its newest version."""
        newest: ResourceClaim | None = claim

        async def attempt() -> None:
            nonlocal newest
            current = newest
            if current is None:
                metadata = claim.metadata
                current = await self._client.get(KIND, metadata.name, metadata.namespace)
            newest = None
            others = tuple(name for name in current.metadata.finalizers if name != FINALIZER)
            await self._client.replace(
                replace(current, metadata=replace(current.metadata, finalizers=others))
            )

        await retry(
            attempt,
            CONFLICT_POLICY,
            sleep=self._sleep,
            rng=self._rng,
            should_retry=lambda error: isinstance(error, Conflict),
        )
