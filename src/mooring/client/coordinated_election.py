"""Leader election in which kube-apiserver chooses the leader: this candidate waits to be named.

A controller of kube-apiserver reads the LeaseCandidates (``lease_candidate``), chooses one, and
writes it into the Lease as its holder. This candidate never takes a Lease: it only renews one that
names it. When a better candidate appears, the controller writes it as ``preferredHolder``, and the
term of the holder is over::

    waiting ── the lease names us ──> leading ── preferredHolder is set ──> term over: release
                                        │ ▲
                                        └─┘ read and renewed every 2 s

Source: client-go's tools/leaderelection/leaderelection.go (tryCoordinatedRenew).
*Differs:* a term ends at once, and not when the renew deadline has passed.
"""

from __future__ import annotations

import logging

from mooring.client.leader_election import Elector
from mooring.errors import NotFound

_log = logging.getLogger(__name__)


class CoordinatedElector(Elector):
    """One candidate for a lease whose holder is chosen by kube-apiserver; used once.

    Its arguments are those of ``Elector``; ``identity`` is the name of its LeaseCandidate.
    """

    async def _try_once(self, started_at_s: float) -> bool:
        """Renews the lease if it names us, has not expired, and prefers no other candidate."""
        if self.is_leading:
            self._on_slow_path()
        try:
            lease = await self._requests.read()
        except NotFound:
            # The controller creates it.
            return False
        self._observe(lease)
        expires_s = self._observed_at_s + (lease.spec.lease_duration_seconds or 0)
        if self.leader != self.identity or expires_s < started_at_s:
            return False
        if preferred := lease.spec.preferred_holder:
            fields = {"lease": self._path, "preferred": preferred}
            _log.info("lease is marked as 'end of term'", extra=fields)
            self.is_term_over = self.is_leading
            return False
        self._observe(await self._requests.replace(self._held_lease(lease)))
        return True
