"""A plugin that checks that every Reserve has exactly one end, and that injects failures.

The pod's label ``ledger`` selects a script:

=================  ================================================
allow              Permit waits, and allows the pod after a few seconds
expire             Permit waits until its timeout
reject             Permit rejects
reject_in_reserve  Reserve rejects
prepare            PreBind takes a few seconds
fail               PreBind takes a few seconds, and raises
=================  ================================================

With ``is_calm`` it rejects no pod, except that each pod may expire once.
"""

from __future__ import annotations

import asyncio
from typing import Final

from mooring.clock import Rng
from mooring.cluster_event import ClusterEventWithHint
from mooring.framework import Cycle
from mooring.framework.interface import Handle
from mooring.framework.status import Reject, Status, Wait
from tests.faults.harness.checkers import SCHEDULER, Findings, StoreChecker
from tests.faults.harness.faults import now_s

LABEL: Final = "ledger"
SCRIPTS: Final = ("allow", "expire", "reject", "reject_in_reserve", "prepare", "fail")

#: Timeout of Permit, and delay until a rejected pod is requeued.
WAIT_S: Final = 8.0
RETRY_S: Final = 4.0


class Ledger:
    """S8: each Reserve ends in exactly one of PostBind and Unreserve.

    Attributes:
        handle: The scheduler's; set once it is made.
        is_calm: Refuse nothing; see above.
        open: UID -> the node that was reserved for the pod.
    """

    name = "Ledger"

    def __init__(self, findings: Findings, store: StoreChecker, rng: Rng) -> None:
        self.handle: Handle | None = None
        self.is_calm = False
        self.open: dict[str, str] = {}
        self._has_expired: set[str] = set()
        self._findings = findings
        self._store = store
        self._rng = rng

    def events(self) -> list[ClusterEventWithHint]:
        """Registers no events: the plugin requeues rejected pods itself."""
        return []

    def reserve(self, cycle: Cycle, node_name: str) -> Status | None:
        """Note it; ``reject_in_reserve`` rejects."""
        pod = cycle.pod
        self._note("reserve", cycle, node_name)
        if pod.uid in self.open:
            self._findings.broken("S8", f"{pod.key} is reserved twice")
        self.open[pod.uid] = node_name
        return self._reject(cycle) if self._script(cycle) == "reject_in_reserve" else None

    def unreserve(self, cycle: Cycle, node_name: str) -> None:
        """Record the end of a reservation; the pod must not be bound."""
        self._end("unreserve", cycle, node_name)
        uid, key = cycle.pod.uid, cycle.pod.key
        pod = self._store.pods.get(uid)
        is_bound_by_us = self._store.bound_by.get(uid) == SCHEDULER
        if pod is not None and is_bound_by_us and pod.metadata.deletion_timestamp is None:
            self._findings.broken("S8", f"{key} is given up, and is on {pod.spec.node_name}")

    def post_bind(self, cycle: Cycle, node_name: str) -> None:
        """Record the end of a reservation; the pod must be bound."""
        self._end("post_bind", cycle, node_name)
        bound_by = self._store.bound_by.get(cycle.pod.uid)
        if bound_by is None:
            self._findings.broken("S8", f"{cycle.pod.key} counts as bound, and nobody bound it")

    def permit(self, cycle: Cycle, node_name: str) -> Status | Wait | None:
        """``allow`` and ``expire`` wait, ``reject`` refuses."""
        self._note("permit", cycle, node_name)
        way = self._script(cycle)
        if way == "reject":
            return self._reject(cycle)
        if way == "expire":
            self._has_expired.add(cycle.pod.uid)
            # While it still waits: what happens in the middle of an attempt must not be forgotten.
            self._requeue_later(cycle.pod.uid, self._rng.random() * WAIT_S * 0.9)
            return Wait(WAIT_S)
        if way != "allow":
            return None
        assert self.handle is not None
        uid = cycle.pod.uid
        self.handle.call_later(self._rng.random() * WAIT_S * 0.9, lambda: self._allow(uid))
        return Wait(WAIT_S)

    async def pre_bind(self, cycle: Cycle, node_name: str) -> None:
        """``prepare`` and ``fail`` take their time.

        Raises:
            RuntimeError: for a pod that is to fail.
        """
        self._note("pre_bind", cycle, node_name)
        way = self._script(cycle)
        if way in ("prepare", "fail"):
            await asyncio.sleep(self._rng.random() * WAIT_S)
        if way == "fail":
            raise RuntimeError("it was told to fail")

    def _script(self, cycle: Cycle) -> str:
        """Returns the script for this attempt; in about half of the attempts none."""
        way = cycle.pod.metadata.labels.get(LABEL, "")
        if way in ("allow", "prepare"):
            return way
        if way == "expire" and cycle.pod.uid not in self._has_expired:
            return way
        return "" if self.is_calm or self._rng.random() < 0.5 else way

    def _reject(self, cycle: Cycle) -> Status:
        self._requeue_later(cycle.pod.uid, RETRY_S)
        return Reject("the ledger says no")

    def _requeue_later(self, uid: str, delay_s: float) -> None:
        """Requeue a rejected pod after a delay, since no cluster event would."""
        handle = self.handle
        assert handle is not None
        handle.call_later(delay_s, lambda: handle.activate(uid))

    def _allow(self, uid: str) -> None:
        assert self.handle is not None
        waiting = self.handle.waiting_pod(uid)
        if waiting is not None:
            waiting.allow(self.name)

    def _end(self, what: str, cycle: Cycle, node_name: str) -> None:
        self._note(what, cycle, node_name)
        if self.open.pop(cycle.pod.uid, None) != node_name:
            self._findings.broken("S8", f"{what} of {cycle.pod.key} without a Reserve")

    def _note(self, what: str, cycle: Cycle, node_name: str) -> None:
        told = f"{what} {cycle.pod.key} {cycle.pod.uid} {node_name}"
        self._findings.trace.add(now_s(), told)
