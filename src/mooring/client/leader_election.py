"""Leader election by a Lease: one candidate leads, and stops in time when it cannot renew it.

::

    waiting ── the lease is free, or has not changed for its duration ──> leading
       ▲                                                                     │ renewed every 2 s
       └── (a new Elector) ◄── lost: not renewed for 10 s ◄──────────────────┤
                               released: on shutdown ◄───────────────────────┘

Timestamps of other candidates are never compared with a local clock: a lease counts as expired when
*we* have observed no change of it for its duration (15 s), on our monotonic clock. The same clock
limits our leadership: 10 s, counted from before the last successful renewal was sent. ``fence``
enforces this: nothing is written later, whatever stopped the renewals, be it the network or this
process itself. So two never write at once, unless a clock runs 1.5 times as fast as another.

Source: client-go's tools/leaderelection (leaderelection.go, resourcelock/leaselock.go).
*Differs:* one request never takes longer than the renewal may; losing the lease raises; a candidate
that has observed another holder creates a lease that was deleted only when the observed one would
have expired: until then the holder, which creates it again too, may still write.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from mooring.client.lease_requests import LeaseRequests
from mooring.client.transport.transport import Transport
from mooring.clock import Clock, Rng, rfc3339_micro
from mooring.errors import (
    ApiError,
    ConfigError,
    Conflict,
    Forbidden,
    LeaseLost,
    NotFound,
    OutcomeUnknown,
    Unauthorized,
    Unreachable,
)
from mooring.objects.meta import Lease, LeaseSpec, ObjectMeta

#: Factor by which a wait for the lease may exceed the retry period.
JITTER: Final = 1.2

WAIT_S_MIN: Final = 0.01

#: A lease is tried for within this time after it has expired.
EXPIRY_JITTER_S: Final = 0.5

#: ``check_health`` fails so long after the lease has expired.
HEALTH_TOLERANCE_S: Final = 20.0

_FAILURES: Final = (ApiError, ConfigError, OutcomeUnknown, Unreachable)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LeaseTimes:
    """The times of leader election in seconds, as ``leaderElection`` of the configuration.

    Attributes:
        duration_s: Other candidates wait this long without a renewal before they take over.
        renew_s: The leader stops leading, and writing, after this time without a renewal.
        retry_s: The wait between tries.
    """

    duration_s: float = 15.0
    renew_s: float = 10.0
    retry_s: float = 2.0

    def __post_init__(self) -> None:
        """Validates the times.

        Raises:
            ConfigError: the times contradict each other.
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
        namespace: The namespace of the Lease.
        name: The name of the Lease.
        identity: Our identity, unique among the candidates.
        clock: Its monotonic time decides; its wall time is only written to the Lease.
        rng: For jitter.
        times: Lease duration, renew deadline and retry period.
        on_new_leader: Called with the identity of each observed leader, also ours.
        on_slow_path: Called when a renewal has to read the lease first.
        sleep: Waits; tests pass one that advances their clock.
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
        on_slow_path: Callable[[], None] = lambda: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if not identity:
            raise ConfigError("must not be empty", path="identity", value=identity)
        self.identity = identity
        self.leader = ""
        #: True if ``keep`` ended because another candidate is to lead.
        self.is_term_over = False
        #: When a try failed last: it had no answer, or was refused; monotonic seconds.
        self.failed_at_s = -math.inf
        self._times = times or LeaseTimes()
        # Two requests must fit into one try, and a hung one must not use up the deadline.
        self._requests = LeaseRequests(
            transport, namespace, name, deadline_s=self._times.renew_s / 2
        )
        self._namespace = namespace
        self._name = name
        self._clock = clock
        self._rng = rng
        self._on_new_leader = on_new_leader
        self._on_slow_path = on_slow_path
        self._sleep = sleep
        #: The Lease as it was last read or written.
        self.lease: Lease | None = None
        self._observed_at_s = -math.inf
        self._leads_until_s = -math.inf
        self._needs_read = True
        #: Lost or released: a request in flight must not make us lead again.
        self._is_over = False
        self._renewed_at_s = -math.inf
        self._has_failed = False

    @property
    def _path(self) -> str:
        return f"{self._namespace}/{self._name}"

    @property
    def is_leading(self) -> bool:
        """True while we may write."""
        return self._remaining_s() > 0

    def check_health(self) -> str | None:
        """Returns what is wrong if we lead, but have not renewed the lease for far too long.

        Differs: upstream's check of this name is not connected to its elector and never fails.
        """
        late_s = self._clock.monotonic_s() - self._renewed_at_s - self._times.duration_s
        if self._is_over or not math.isfinite(late_s) or late_s <= HEALTH_TOLERANCE_S:
            return None
        return f"failed election to renew leadership on lease {self._name}"

    def fence(self) -> float:
        """Returns how many seconds a write may take from now on.

        Raises:
            LeaseLost: no write may start.
        """
        remaining_s = self._remaining_s()
        if remaining_s <= 0:
            raise LeaseLost(f"{self.identity} does not hold {self._path}")
        return remaining_s

    async def wait_until_leading(self) -> None:
        """Waits until we hold the lease.

        Raises:
            LeaseLost: it was lost or released before.
        """
        if self._is_over:
            raise LeaseLost(f"{self._path} was held before: use a new elector")
        facts = {"lease": self._path}
        while not await self._try(self._times.renew_s):
            level = logging.INFO if len(facts) == 1 else logging.DEBUG
            facts["holder"] = self.leader
            _log.log(level, "waiting for the lease", extra=facts)
            await self._sleep(self._wait_s())
        _log.info("lease acquired", extra={"lease": self._path})

    def _wait_s(self) -> float:
        """Returns the wait for the next try: not longer than until the lease expires.

        *Differs:* upstream tries at random after that, so that a takeover takes up to 4.4 s more.
        """
        wait_s = self._times.retry_s * (1 + JITTER * (share := self._rng.random()))
        duration_s = (self.lease.spec.lease_duration_seconds or 0) if self.lease else 0
        left_s = self._observed_at_s + duration_s - self._clock.monotonic_s()
        # Several candidates must not all write at that moment.
        return min(wait_s, left_s + EXPIRY_JITTER_S * share) if left_s > 0 else wait_s

    async def keep(self) -> None:
        """Renews the lease until cancelled, or until our term is over: see ``is_term_over``.

        Raises:
            LeaseLost: it could not be renewed in time, or another candidate holds it.
        """
        while True:
            # Not beyond the deadline; and long enough that the clock advances.
            await self._sleep(min(self._times.retry_s, max(WAIT_S_MIN, self._remaining_s())))
            remaining_s = self._remaining_s()
            if remaining_s > 0 and await self._try(remaining_s):
                continue
            if self.is_term_over:
                return
            remaining_s = self._remaining_s()
            if remaining_s <= 0 or self.leader != self.identity:
                self._leads_until_s = -math.inf
                self._is_over = True
                raise LeaseLost(
                    f"{self._path} is lost: not renewed for "
                    f"{self._times.renew_s - remaining_s:.1f} s, "
                    f"its holder is {self.leader or 'unknown'}"
                )

    async def release(self) -> bool:
        """Releases the lease, so that other candidates need not wait; returns whether it did.

        All writers under the lease must have stopped before.
        """
        if not self.is_leading:
            return False
        self._leads_until_s = -math.inf
        self._is_over = True
        try:
            # The last renewal may have failed, or its response was lost.
            self._observe(await self._requests.read())
            if self.leader != self.identity:
                return False
            lease = _released(self.lease, rfc3339_micro(self._clock.wall_s()))
            self._observe(await self._requests.replace(lease))
        except _FAILURES as error:
            _log.warning("lease not released", extra={"error": str(error)})
            return False
        return True

    def _remaining_s(self) -> float:
        return self._leads_until_s - self._clock.monotonic_s()

    async def _try(self, deadline_s: float) -> bool:
        """Acquires or renews the lease, if possible now; returns whether we hold it."""
        started_at_s = self._clock.monotonic_s()
        try:
            async with asyncio.timeout(deadline_s):
                is_ours = await self._try_once(started_at_s)
        except (*_FAILURES, TimeoutError) as error:
            # The write may have happened, or another candidate's: read before the next write.
            self._needs_read = True
            self.failed_at_s = self._clock.monotonic_s()
            self._log_failure(error)
            return False
        self._has_failed = False
        if is_ours and not self._is_over:
            self._leads_until_s = started_at_s + self._times.renew_s
            self._renewed_at_s = started_at_s
        return is_ours and not self._is_over

    def _log_failure(self, error: BaseException) -> None:
        """Logs a failed try; what repeats itself, and may heal, only once as a warning."""
        level = logging.INFO if self._has_failed else logging.WARNING
        if isinstance(error, Forbidden | Unauthorized):
            level = logging.ERROR
        self._has_failed = True
        fields = {"lease": self._path, "error": str(error) or type(error).__name__}
        _log.log(level, "cannot acquire or renew lease", extra=fields)

    async def _try_once(self, started_at_s: float) -> bool:
        if not self._needs_read and await self._renew_unread():
            return True
        if self.is_leading:
            self._on_slow_path()
        try:
            self._observe(await self._requests.read())
        except NotFound:
            if self._is_held_by_another(started_at_s):
                return False
            self._observe(await self._requests.create(self._new_lease()))
            return True
        if self._is_held_by_another(started_at_s):
            return False
        assert self.lease is not None
        self._observe(await self._requests.replace(self._held_lease(self.lease)))
        return True

    async def _renew_unread(self) -> bool:
        """Renews the lease that we hold; returns False if it has changed since it was observed."""
        assert self.lease is not None
        try:
            self._observe(await self._requests.replace(self._held_lease(self.lease)))
        except (Conflict, NotFound):
            return False
        return True

    def _is_held_by_another(self, now_s: float) -> bool:
        """Returns whether the lease, as last observed, has another holder and has not expired."""
        if self.lease is None or self.leader in ("", self.identity):
            return False
        return now_s < self._observed_at_s + (self.lease.spec.lease_duration_seconds or 0)

    def _new_lease(self) -> Lease:
        """Returns a Lease to be created; if ours was deleted, we have led since the same time."""
        metadata = ObjectMeta(name=self._name, namespace=self._namespace)
        lease = self._held_lease(Lease(metadata=metadata))
        was_ours = self.lease is not None and self.leader == self.identity
        acquired = self.lease.spec.acquire_time if was_ours and self.lease else None
        spec = msgspec.structs.replace(
            lease.spec, acquire_time=acquired or lease.spec.acquire_time, lease_transitions=0
        )
        return Lease(metadata=metadata, spec=spec)

    def _held_lease(self, observed: Lease) -> Lease:
        """Returns the Lease with us as holder."""
        now = rfc3339_micro(self._clock.wall_s())
        before = observed.spec
        is_ours = before.holder_identity == self.identity
        transitions = before.lease_transitions or 0
        spec = msgspec.structs.replace(
            before,
            holder_identity=self.identity,
            # Rounded up, never shorter than configured.
            lease_duration_seconds=math.ceil(self._times.duration_s),
            acquire_time=before.acquire_time if is_ours else now,
            renew_time=now,
            lease_transitions=transitions if is_ours else transitions + 1,
        )
        return Lease(metadata=observed.metadata, spec=spec)

    def _observe(self, lease: Lease) -> None:
        if self.lease is None or lease.spec != self.lease.spec:
            self._observed_at_s = self._clock.monotonic_s()
        self.lease = lease
        self._needs_read = (lease.spec.holder_identity or "") != self.identity
        leader = lease.spec.holder_identity or ""
        if leader != self.leader:
            self.leader = leader
            if leader:
                self._on_new_leader(leader)


def _released(lease: Lease | None, now: str) -> Lease:
    """Returns the Lease without a holder; ``now`` is a time as the API writes it."""
    assert lease is not None
    spec = LeaseSpec(
        holder_identity="",
        lease_duration_seconds=1,
        acquire_time=now,
        renew_time=now,
        lease_transitions=lease.spec.lease_transitions or 0,
    )
    return msgspec.structs.replace(lease, spec=spec)
