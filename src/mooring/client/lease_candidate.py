"""The LeaseCandidate of coordinated leader election: it says that this process could lead.

::

                          created, or renewed                 5 min, or a ping
    not synced ──> due ──────────────────────> up to date ──────────────────────> due
                   ▲ │ failed
                   └─┘ backoff

kube-apiserver pings the candidates before it chooses one of them: it sets ``pingTime``, and expects
``renewTime`` not to be before it within 5 s. ``Candidacy`` decides when the object is written, and
does no I/O; ``Candidate`` watches the object and writes it. It is never deleted: kube-apiserver
removes candidates that have not been renewed for half an hour.

Source: client-go's tools/leaderelection/leasecandidate.go. *Differs:* ``renewTime`` is never before
the ``pingTime`` that it answers, also if our wall clock is late; upstream renews without a pause
then.
"""

from __future__ import annotations

import asyncio
import logging
import math
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from mooring.client.informer.informer import Informer
from mooring.client.informer.replica import ObjectChange
from mooring.client.rest.client import Client
from mooring.client.rest.paths import path_of
from mooring.client.retry import Backoff
from mooring.client.transport.transport import Pool
from mooring.clock import Clock, Rng, rfc3339_micro
from mooring.errors import ApiError, OutcomeUnknown, Unreachable
from mooring.objects.codec.decode import encode
from mooring.objects.kinds import Kind
from mooring.objects.meta import LeaseCandidate, LeaseCandidateSpec, ObjectMeta

#: The candidate is renewed so often without a ping.
RENEW_INTERVAL_S: Final = 300.0

#: The wait after a failed write; a ping has to be answered within 5 s.
RETRY_S: Final = 0.2
RETRY_S_MAX: Final = 30.0

#: Of several candidates the one with the oldest emulated version leads.
OLDEST_EMULATION_VERSION: Final = "OldestEmulationVersion"

KIND: Final = Kind(
    "LeaseCandidate", LeaseCandidate, "coordination.k8s.io", "v1beta1", "leasecandidates", True
)
_FAILURES: Final = (ApiError, OutcomeUnknown, Unreachable)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CandidateIdentity:
    """The content of a LeaseCandidate.

    Attributes:
        namespace: The namespace of the candidate and of the Lease.
        name: The name of the candidate: the identity of the elector.
        lease_name: The name of the Lease.
        binary_version: Such as "1.36.3".
        emulation_version: Such as "1.36.0".
    """

    namespace: str
    name: str
    lease_name: str
    binary_version: str
    emulation_version: str


class Candidacy:
    """Decides when the candidate is written, and what; it does no I/O.

    Args:
        identity: What the candidate says.
        clock: Its monotonic time decides; its wall time is written.
        rng: For the jitter of retries.
    """

    def __init__(self, identity: CandidateIdentity, *, clock: Clock, rng: Rng) -> None:
        self._identity = identity
        self._clock = clock
        self._backoff = Backoff(clock, rng, initial_s=RETRY_S, cap_s=RETRY_S_MAX)
        self._due_at_s = math.inf

    @property
    def wait_s(self) -> float:
        """Seconds until the candidate is to be written; infinite before ``synced``."""
        return max(0.0, self._due_at_s - self._clock.monotonic_s())

    def synced(self) -> None:
        """Makes the first write due: it is known now whether the object exists."""
        self._due_at_s = self._clock.monotonic_s()

    def observed(self, candidate: LeaseCandidate) -> None:
        """Makes a write due if this version of the candidate has an unanswered ping."""
        # Both have the same format and number of digits: their order is that of the texts.
        if (candidate.spec.ping_time or "") > (candidate.spec.renew_time or ""):
            self._due_at_s = self._clock.monotonic_s()

    def next_version(self, current: LeaseCandidate | None) -> LeaseCandidate:
        """Returns the object to be written: a new one, or a renewal of the current one."""
        now = rfc3339_micro(self._clock.wall_s())
        if current is not None:
            renewed = max(now, current.spec.ping_time or "")
            spec = msgspec.structs.replace(current.spec, renew_time=renewed)
            return msgspec.structs.replace(current, spec=spec)
        identity = self._identity
        return LeaseCandidate(
            metadata=ObjectMeta(name=identity.name, namespace=identity.namespace),
            spec=LeaseCandidateSpec(
                lease_name=identity.lease_name,
                renew_time=now,
                binary_version=identity.binary_version,
                emulation_version=identity.emulation_version,
                strategy=OLDEST_EMULATION_VERSION,
            ),
        )

    def written(self) -> None:
        """Records a successful write."""
        self._due_at_s = self._clock.monotonic_s() + RENEW_INTERVAL_S

    def failed(self) -> None:
        """Records a failed write: it is retried after a backoff."""
        self._due_at_s = self._clock.monotonic_s() + self._backoff.next_s()


class Candidate:
    """Keeps the LeaseCandidate of this process while it runs.

    Args:
        client: Without a fence: also a candidate that does not lead writes.
        identity: What the candidate says.
        clock: For everything.
        rng: For jitter.
    """

    def __init__(
        self, client: Client, identity: CandidateIdentity, *, clock: Clock, rng: Rng
    ) -> None:
        self._client = client
        self._identity = identity
        self._candidacy = Candidacy(identity, clock=clock, rng=rng)
        self._changed = asyncio.Event()
        self._informer = Informer(
            client,
            KIND,
            self._on_change,
            clock=clock,
            rng=rng,
            namespace=identity.namespace,
            field_selector=f"metadata.name={identity.name}",
        )

    def check_synced(self) -> str | None:
        """Returns what is wrong until the candidate has been listed."""
        if self._informer.has_synced:
            return None
        return "1 informers not started yet: [*v1beta1.LeaseCandidate]"

    async def run(self) -> None:
        """Creates the candidate, answers pings and renews it until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer.run())
            await self._informer.wait_until_synced()
            self._candidacy.synced()
            while True:
                await self._wait_until_due()
                await self._write()

    def _on_change(self, change: ObjectChange) -> None:
        if change.old is not None and change.new is not None:
            self._candidacy.observed(change.new)
            self._changed.set()

    async def _wait_until_due(self) -> None:
        while wait_s := self._candidacy.wait_s:
            self._changed.clear()
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _write(self) -> None:
        identity = self._identity
        current: Any = self._informer.objects.get(f"{identity.namespace}/{identity.name}")
        body = encode(self._candidacy.next_version(current))
        method, name = ("POST", "") if current is None else ("PUT", identity.name)
        path = path_of(KIND, identity.namespace, name)
        try:
            await self._client.write(method, path, body, pool=Pool.LEASE, tries=1)
        except _FAILURES as error:
            fields = {"candidate": identity.name, "error": str(error)}
            _log.warning("lease candidate not written", extra=fields)
            self._candidacy.failed()
        else:
            self._candidacy.written()
