"""The behaviour of upstream's LeaderElector on a lease in memory, for comparison.

Source: client-go tools/leaderelection/leaderelection.go (tryAcquireOrRenew, release).
*Differs:* a candidate that has observed another holder creates a deleted lease only when the
observed one would have expired, as ``mooring.client.leader_election`` says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Record(NamedTuple):
    """The content of the lease; ``renewed_at_s`` is a time of the holder's clock."""

    holder: str
    duration_s: float
    transitions: int
    renewed_at_s: float


@dataclass
class ModelServer:
    """One lease; None = it does not exist."""

    record: Record | None = None


@dataclass
class ModelElector:
    """A candidate: what it has observed of the lease, and when."""

    identity: str
    server: ModelServer
    duration_s: float
    observed: Record = field(default_factory=lambda: Record("", 0.0, 0, 0.0))
    observed_at_s: float = -1e9

    @property
    def leads(self) -> bool:
        """True if the lease, as last observed, is its own."""
        return self.observed.holder == self.identity

    def try_acquire_or_renew(self, now_s: float) -> bool:
        """Acquires or renews the lease if it may; returns whether it holds it."""
        stored = self.server.record
        is_valid = self.observed_at_s + self.observed.duration_s > now_s
        if stored is None:
            if self.observed.holder and not self.leads and is_valid:
                return False
            return self._write(Record(self.identity, self.duration_s, 0, now_s), now_s)
        if stored != self.observed:
            self.observed, self.observed_at_s = stored, now_s
            is_valid = self.observed_at_s + self.observed.duration_s > now_s
        if stored.holder and is_valid and not self.leads:
            return False
        transitions = stored.transitions + (not self.leads)
        return self._write(Record(self.identity, self.duration_s, transitions, now_s), now_s)

    def release(self, now_s: float) -> bool:
        """Gives the lease up; returns whether it was its own."""
        stored = self.server.record
        if stored is None or stored.holder != self.identity:
            return False
        return self._write(Record("", 1.0, stored.transitions, now_s), now_s)

    def _write(self, record: Record, now_s: float) -> bool:
        self.server.record = self.observed = record
        self.observed_at_s = now_s
        return True
