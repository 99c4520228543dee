"""A lease: of all that run, one leads, and it stops in time when it cannot say so any more.

::

    waiting ── the lease is free, or has not changed for its duration ──> leading
       ▲                                                                     │ renewed every 2 s
       └── (a new Elector) ◄── lost: not renewed for 10 s ◄──────────────────┤
                               released: asked to stop ◄─────────────────────┘

What others wrote is never compared with a clock here: a lease counts as abandoned when *we* have
seen no change of it for its duration (15 s), on our monotonic clock. The same clock says how long
we lead: 10 s, counted from the moment before the last successful renewal was sent. ``fence`` is
that promise: nothing is written later, whatever has stopped the renewals, be it the network or this
process itself. So two never write at once, as long as no clock runs 1.5 times as fast as another.

Source: client-go's tools/leaderelection (leaderelection.go, resourcelock/leaselock.go).
*Differs:* one request never takes longer than the renewal may; a lease is read anew after any
failed write; losing the lease raises.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from mooring.client.rest.paths import path_of
from mooring.client.rest.responses import check
from mooring.client.transport.transport import JSON, Pool, Request, Transport
from mooring.clock import Clock, Rng, rfc3339_micro
from mooring.errors import (
    ApiError,
    ConfigError,
    LeaseLost,
    NotFound,
    OutcomeUnknown,
    Unreachable,
)
from mooring.objects.codec.decode import decode, encode
from mooring.objects.kinds import kind_named
from mooring.objects.meta import Lease, LeaseSpec, ObjectMeta

#: How much longer than the retry period a wait for the lease may be.
JITTER: Final = 1.2

WAIT_S_MIN: Final = 0.01

_KIND: Final = kind_named("Lease")
_FAILURES: Final = (ApiError, ConfigError, OutcomeUnknown, Unreachable)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LeaseTimes:
    """How long things may take, in seconds; as ``leaderElection`` of the configuration says.

    Attributes:
        duration_s: Others wait so long without news before they take over.
        renew_s: We stop leading, and writing, after so long without a renewal.
        retry_s: Between tries.
    """

    duration_s: float = 15.0
    renew_s: float = 10.0
    retry_s: float = 2.0

    def __post_init__(self) -> None:
        """Checks what makes the promise hold.

        Raises:
            ConfigError: the three do not fit together.
        """
        if self.duration_s <= self.renew_s:
            problem = "must be greater than renewDeadline"
            raise ConfigError(problem, path="leaderElection.leaseDuration", value=self.duration_s)
        if self.renew_s <= self.retry_s * JITTER:
            problem = f"must be greater than {JITTER} x retryPeriod"
            raise ConfigError(problem, path="leaderElection.renewDeadline", value=self.renew_s)
        if self.retry_s <= 0:
            problem = "must be greater than zero"
            raise ConfigError(problem, path="leaderElection.retryPeriod", value=self.retry_s)


class Elector:
    """One candidate for one lease; used once.

    Example::

        elector = Elector(transport, "kube-system", "mooring", identity=..., clock=clock, rng=rng)
        await elector.wait_until_leading()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(elector.keep())          # raises LeaseLost
            tasks.create_task(schedule(Client(transport, fence=elector.fence, rng=rng)))

    Args:
        transport: Requests go over its connections for leases.
        namespace: Of the Lease.
        name: Of the Lease.
        identity: Ours; no other candidate may have the same.
        clock: Decides by its monotonic reading; the wall clock is only written down.
        rng: For jitter.
        times: How long things may take.
        on_new_leader: Told the identity of each leader that is seen, ours included.
        sleep: Waits; tests give one that moves their clock.
    """

    def __init__(
        self,
        transport: Transport,
        namespace: str,
        name: str,
        *,
        identity: str,
        clock: Clock,
        rng: Rng,
        times: LeaseTimes | None = None,
        on_new_leader: Callable[[str], None] = lambda _: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if not identity:
            raise ConfigError("must not be empty", path="identity", value=identity)
        self.identity = identity
        self.leader = ""
        self._transport = transport
        self._namespace = namespace
        self._name = name
        self._clock = clock
        self._rng = rng
        self._times = times or LeaseTimes()
        self._on_new_leader = on_new_leader
        self._sleep = sleep
        self._seen: Lease | None = None
        self._seen_at_s = -math.inf
        self._leads_until_s = -math.inf
        self._must_read = True
        #: Lost or given back: what is under way must not make us lead again.
        self._is_over = False

    @property
    def is_leading(self) -> bool:
        """Whether we may still write."""
        return self._left_s() > 0

    def fence(self) -> float:
        """How many seconds from now a write may still take.

        Raises:
            LeaseLost: none may begin any more.
        """
        left_s = self._left_s()
        if left_s <= 0:
            raise LeaseLost(f"{self.identity} does not hold {self._namespace}/{self._name}")
        return left_s

    async def wait_until_leading(self) -> None:
        """Returns when the lease is ours.

        Raises:
            LeaseLost: it was ours before, and is lost or given back.
        """
        if self._is_over:
            raise LeaseLost(f"{self._namespace}/{self._name} was held before: an elector is new")
        while not await self._try(self._times.renew_s):
            await self._sleep(self._times.retry_s * (1 + JITTER * self._rng.random()))
        _log.info("leading", extra={"lease": f"{self._namespace}/{self._name}"})

    async def keep(self) -> None:
        """Renews the lease until cancelled.

        Raises:
            LeaseLost: it could not be renewed in time, or somebody else has it.
        """
        while True:
            # Not beyond the end; and never for so little that no clock would move.
            await self._sleep(min(self._times.retry_s, max(WAIT_S_MIN, self._left_s())))
            left_s = self._left_s()
            if left_s > 0 and await self._try(left_s):
                continue
            left_s = self._left_s()
            if left_s <= 0 or self.leader != self.identity:
                self._leads_until_s = -math.inf
                self._is_over = True
                raise LeaseLost(
                    f"{self._namespace}/{self._name} is lost: not renewed for "
                    f"{self._times.renew_s - left_s:.1f} s, its holder is {self.leader or 'nobody'}"
                )

    async def release(self) -> bool:
        """Gives the lease back, so that others need not wait; whether that was done.

        Everything that writes under it must have ended before.
        """
        if not self.is_leading:
            return False
        self._leads_until_s = -math.inf
        self._is_over = True
        try:
            if self._must_read:
                # The last renewal failed, or its answer was lost.
                self._see(decode(await self._read(), _KIND))
            if self.leader != self.identity:
                return False
            self._see(await self._write("PUT", self._freed()))
        except _FAILURES as error:
            _log.warning("the lease is not given back", extra={"error": str(error)})
            return False
        return True

    def _left_s(self) -> float:
        return self._leads_until_s - self._clock.monotonic_s()

    async def _try(self, deadline_s: float) -> bool:
        """Takes or renews the lease, if that is possible now; whether it is ours."""
        started_at_s = self._clock.monotonic_s()
        try:
            async with asyncio.timeout(deadline_s):
                is_ours = await self._take(started_at_s)
        except (*_FAILURES, TimeoutError) as error:
            # Perhaps it was written, perhaps somebody else did: look before the next write.
            self._must_read = True
            _log.info("the lease cannot be taken or renewed", extra={"error": str(error)})
            return False
        if is_ours and not self._is_over:
            self._leads_until_s = started_at_s + self._times.renew_s
        return is_ours and not self._is_over

    async def _take(self, started_at_s: float) -> bool:
        if self._must_read:
            try:
                self._see(decode(await self._read(), _KIND))
            except NotFound:
                self._see(await self._write("POST", self._wanted(None)))
                return True
            self._must_read = False
        seen = self._seen
        assert seen is not None
        holder = seen.spec.holder_identity or ""
        if holder and holder != self.identity:
            waits_s = seen.spec.lease_duration_seconds or 0
            if started_at_s < self._seen_at_s + waits_s:
                self._must_read = True
                return False
        self._see(await self._write("PUT", self._wanted(seen)))
        return True

    def _wanted(self, seen: Lease | None) -> Lease:
        """Returns the lease, held by us from now on."""
        now = rfc3339_micro(self._clock.wall_s())
        before = seen.spec if seen is not None else LeaseSpec()
        is_ours = before.holder_identity == self.identity
        transitions = before.lease_transitions or 0
        spec = msgspec.structs.replace(
            before,
            holder_identity=self.identity,
            # Never less than what we count on.
            lease_duration_seconds=math.ceil(self._times.duration_s),
            acquire_time=before.acquire_time if is_ours else now,
            renew_time=now,
            lease_transitions=transitions if is_ours or seen is None else transitions + 1,
        )
        metadata = ObjectMeta(name=self._name, namespace=self._namespace)
        return Lease(metadata=metadata if seen is None else seen.metadata, spec=spec)

    def _freed(self) -> Lease:
        """Returns the lease, held by nobody."""
        assert self._seen is not None
        now = rfc3339_micro(self._clock.wall_s())
        spec = LeaseSpec(
            holder_identity="",
            lease_duration_seconds=1,
            acquire_time=now,
            renew_time=now,
            lease_transitions=self._seen.spec.lease_transitions,
        )
        return msgspec.structs.replace(self._seen, spec=spec)

    def _see(self, lease: Lease) -> None:
        if self._seen is None or lease.spec != self._seen.spec:
            self._seen_at_s = self._clock.monotonic_s()
        self._seen = lease
        self._must_read = (lease.spec.holder_identity or "") != self.identity
        leader = lease.spec.holder_identity or ""
        if leader != self.leader:
            self.leader = leader
            if leader:
                self._on_new_leader(leader)

    async def _read(self) -> bytes:
        return await self._ask("GET", path_of(_KIND, self._namespace, self._name), b"")

    async def _write(self, method: str, lease: Lease) -> Any:
        name = self._name if method == "PUT" else ""
        path = path_of(_KIND, self._namespace, name)
        return decode(await self._ask(method, path, encode(lease)), _KIND)

    async def _ask(self, method: str, path: str, body: bytes) -> bytes:
        request = Request(
            method,
            path,
            # Two requests must fit into one try, and a hung one must not use up the renewal.
            deadline_s=self._times.renew_s / 2,
            body=body,
            headers={"content-type": JSON, "accept": JSON},
            pool=Pool.LEASE,
        )
        response = await self._transport.request(request)
        return check(response, f"{method} {path}")
