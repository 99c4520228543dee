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

With ``is_passive`` it rejects no pod, except that each pod may expire once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from mooring.clock import Rng
from mooring.cluster_event import ClusterEventWithHint
from mooring.framework import Cycle
from mooring.framework.interface import Handle
from mooring.framework.status import Reject, Status, Wait
from tests.faults.harness.checkers import SCHEDULER, Findings, StoreChecker
from tests.faults.harness.faults import now_s
from tests.faults.harness.request_checker import RequestChecker

LABEL: Final = "ledger"
SCRIPTS: Final = ("allow", "expire", "reject", "reject_in_reserve", "prepare", "fail")

#: Timeout of Permit, and delay until a rejected pod is requeued.
WAIT_S: Final = 8.0
RETRY_S: Final = 4.0

#: A third exception in a row would quarantine the pod, for longer than a run takes.
FAILURES_MAX: Final = 2


class Ledger:
    """S8: each Reserve ends in exactly one of PostBind and Unreserve.

    Attributes:
        handle: The scheduler's; set after it is created.
        is_passive: Reject no pod; see above.
        open: UID -> the node that was reserved for the pod.
    """

    name = "Ledger"

    def __init__(
        self, findings: Findings, store: StoreChecker, requests: RequestChecker, rng: Rng
    ) -> None:
        self.handle: Handle | None = None
        self.is_passive = False
        self.open: dict[str, str] = {}
        self._has_expired: set[str] = set()
        self._failures: Counter[str] = Counter()
        self._findings = findings
        self._store = store
        self._requests = requests
        self._rng = rng

    def events(self) -> list[ClusterEventWithHint]:
        """Registers no events: the plugin requeues rejected pods itself."""
        return []

    def reserve(self, cycle: Cycle, node_name: str) -> Status | None:
        """Records the reservation; ``reject_in_reserve`` rejects."""
        pod = cycle.pod
        self._note("reserve", cycle, node_name)
        if pod.uid in self.open:
            self._findings.report("S8", f"{pod.key} is reserved twice")
        self.open[pod.uid] = node_name
        return self._reject(cycle) if self._script(cycle) == "reject_in_reserve" else None

    def unreserve(self, cycle: Cycle, node_name: str) -> None:
        """Records the end of a reservation; the pod must not be bound."""
        self._end("unreserve", cycle, node_name)
        uid, key = cycle.pod.uid, cycle.pod.key
        pod = self._store.pods.get(uid)
        bound = self._store.bindings.get(uid)
        is_bound_by_us = bound is not None and bound.actor == SCHEDULER
        if pod is not None and is_bound_by_us and pod.metadata.deletion_timestamp is None:
            self._findings.report("S8", f"{key} is unreserved, but bound to {pod.spec.node_name}")

    def post_bind(self, cycle: Cycle, node_name: str) -> None:
        """Records the end of a reservation; the pod must be bound, by this scheduler, there.

        Another scheduler may have chosen the same node first: no request tells who was first. Then
        this one must have sent a binding to that node at least.
        """
        self._end("post_bind", cycle, node_name)
        uid, key = cycle.pod.uid, cycle.pod.key
        bound = self._store.bindings.get(uid)
        if bound is None:
            self._findings.report("S8", f"{key} is reported as bound, but is not")
        elif bound.node_name != node_name:
            message = f"{key} is reported as bound to {node_name}, but is on {bound.node_name}"
            self._findings.report("S8", message)
        elif not self._requests.has_asked_to_bind(uid, node_name):
            message = f"{key} is reported as bound, but {bound.actor} bound it, not the scheduler"
            self._findings.report("S8", message)

    def permit(self, cycle: Cycle, node_name: str) -> Status | Wait | None:
        """Runs the script: ``allow`` and ``expire`` wait, ``reject`` rejects."""
        self._note("permit", cycle, node_name)
        script = self._script(cycle)
        if script == "reject":
            return self._reject(cycle)
        if script == "expire":
            self._has_expired.add(cycle.pod.uid)
            # While it waits: events during an attempt must not be lost.
            self._requeue_later(cycle.pod.uid, self._rng.random() * WAIT_S * 0.9)
            return Wait(WAIT_S)
        if script != "allow":
            return None
        assert self.handle is not None
        uid = cycle.pod.uid
        self.handle.call_later(self._rng.random() * WAIT_S * 0.9, lambda: self._allow(uid))
        return Wait(WAIT_S)

    async def pre_bind(self, cycle: Cycle, node_name: str) -> None:
        """Runs the script: ``prepare`` and ``fail`` take a few seconds.

        Raises:
            RuntimeError: for ``fail``.
        """
        self._note("pre_bind", cycle, node_name)
        script = self._script(cycle)
        if script in ("prepare", "fail"):
            await asyncio.sleep(self._rng.random() * WAIT_S)
        if script == "fail" and self._failures[cycle.pod.uid] < FAILURES_MAX:
            self._failures[cycle.pod.uid] += 1
            raise RuntimeError("injected failure")

    def _script(self, cycle: Cycle) -> str:
        """Returns the script for this attempt, and counts it."""
        script = self._drawn_script(cycle)
        if script:
            self._findings.count(f"Ledger {script}")
        return script

    def _drawn_script(self, cycle: Cycle) -> str:
        """Returns the script; in about half of the attempts none."""
        script = cycle.pod.metadata.labels.get(LABEL, "")
        if script in ("allow", "prepare"):
            return script
        if script == "expire" and cycle.pod.uid not in self._has_expired:
            return script
        return "" if self.is_passive or self._rng.random() < 0.5 else script

    def _reject(self, cycle: Cycle) -> Status:
        self._requeue_later(cycle.pod.uid, RETRY_S)
        return Reject("rejected by the ledger")

    def _requeue_later(self, uid: str, delay_s: float) -> None:
        """Requeues a rejected pod after a delay, since no cluster event would."""
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
            self._findings.report("S8", f"{what} of {cycle.pod.key} without a Reserve")

    def _note(self, what: str, cycle: Cycle, node_name: str) -> None:
        message = f"{what} {cycle.pod.key} {cycle.pod.uid} {node_name}"
        self._findings.trace.add(now_s(), message)
