"""Events that are missed and columns that are wrong: each is reported by the dump, and repaired.

The cluster is that of ``audit_cluster``. Users go on, and late events arrive, while the audit waits
to confirm what it suspects; at times an attempt begins to wait for an extender then. The model
compares the names in cache and queue with those of the informers: what differs before the wait and
after it is counted and repaired, and nothing else. Sums that are wrong are summed up again, and
what cannot be repaired is counted in each pass that audits its node.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import ExitStack
from typing import Any, Final

import pytest

from mooring.clock import seeded_random
from mooring.objects.meta import key
from mooring.objects.pod import FINISHED_PHASES
from mooring.queue import QueueName
from mooring.scheduler.debugger import CacheAudit, dump
from mooring.scheduler.debugger import audit as cache_audit
from mooring.scheduler.debugger.audit import CONFIRM_S
from mooring.state.audit import audit
from tests.faults.parts.audit_cluster import AuditCluster
from tests.faults.parts.limits import set_limit

ROUNDS: Final = 6
CHANGES: Final = 20
CHANGES_MEANWHILE: Final = 6
MISMATCH: Final = "Cache mismatch"
#: Nodes that a pass audits; 1000 = all.
NODES_PER_PASS: Final = (1000, 1000, 1, 3)


class AuditRun(AuditCluster):
    """One run."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._nodes_per_pass = seeded_random(seed + 1).choice(NODES_PER_PASS)
        self._expected: Counter[str] = Counter()
        self._passes = self._next_row = 0
        self._before: set[tuple[str, str, bool]] = set()
        self._left: set[tuple[str, str, bool]] = set()
        self._buffering = ExitStack()
        self._audit = CacheAudit(
            self._bench.cache,
            self._bench.queue,
            self._bench.handlers,
            self.objects.__getitem__,
            self._bench.profiles,
            clock=self._bench.clock,
            sleep=self._sleep,
        )

    def run(self) -> None:
        """Changes objects, and audits, again and again."""
        with pytest.MonkeyPatch.context() as patch:
            set_limit(patch, cache_audit, "NODES_PER_PASS", self._nodes_per_pass)
            for _ in range(ROUNDS):
                for _ in range(CHANGES):
                    self.act()
                self._check_dump()
                self._break_columns()
                self._round()
                if self.problems:
                    return

    def _round(self) -> None:
        """Runs a pass; compares what it counts, and what is left."""
        self._before = self._left = self.differences()
        asyncio.run(self._audit.run_once())
        self._passes += 1
        left = self.differences()
        if left != self._left:
            self.problems.append(f"after the audit {left} differ, not {self._left}")
        self._buffering.close()
        self._count_rows()
        counts = {what: count for what, count in self._audit.statistics().items() if count}
        expected = {what: count for what, count in self._expected.items() if count}
        if counts != expected or self._audit.passes != self._passes:
            self.problems.append(f"{counts} are counted, not {expected}")
        self._audit_columns()

    async def _sleep(self, seconds: float) -> None:
        """Lets users act and late events arrive; what differs still has to be repaired."""
        if seconds != CONFIRM_S:
            return
        if self._rng.random() < 0.15:
            self._buffering.enter_context(self._bench.handlers.buffer_events())
        self.deliver_late()
        for _ in range(self._rng.choice((0, 0, 1, CHANGES_MEANWHILE))):
            self.act()
        is_late = bool(self._bench.handlers.buffered)
        if not is_late:
            self._buffering.close()
        after = self.differences()
        repaired = set() if is_late else self._before & after
        repaired -= self._replaced(repaired)
        self._expected.update(kind.lower() for kind, _, _ in repaired)
        self._left = after if is_late else after - self._before

    def _replaced(self, repaired: set[tuple[str, str, bool]]) -> set[tuple[str, str, bool]]:
        """Returns pods that must not be there, and that the addition of a namesake removes."""
        uids = {uid for kind, uid, is_missing in repaired if kind == "Pod" and is_missing}
        names = {
            key(pod)
            for pod in self.objects["Pod"].values()
            if pod.metadata.uid in uids and pod.spec.node_name
        }
        queued = {entry.uid for entry in self._bench.queue.pods()}
        return {
            ("Pod", placed.info.uid, False)
            for placed in self._bench.cache.pods
            if placed.info.key in names and placed.info.uid not in queued
        }

    # -- columns ----------------------------------------------------------------------------------

    def _break_columns(self) -> None:
        """Makes columns of some nodes wrong, which can be repaired, or not."""
        nodes, rng = self._bench.cache.nodes, self._rng
        for name in sorted(self.objects["Node"]):
            row = nodes.live_row(name)
            if row < 0 or name in self.broken or rng.random() < 0.7:
                continue
            self.broken[name] = rng.random() < 0.7
            if not self.broken[name]:
                nodes._unschedulable[row] ^= True
                continue
            nodes._requested[rng.randrange(2), row] += rng.choice((-1, 7))
            if rng.random() < 0.5:
                nodes._pod_count[row] += 1
            if rng.random() < 0.3:
                nodes._nonzero[0, row] += 3

    def _count_rows(self) -> None:
        """Counts the nodes that the last pass has audited, and whose columns were wrong."""
        nodes = self._bench.cache.nodes
        for _ in range(min(self._nodes_per_pass, nodes.size)):
            row = self._next_row if self._next_row < nodes.size else 0
            self._next_row = row + 1
            is_repairable = self.broken.get(nodes.names[row])
            if is_repairable is not None:
                self._expected["usage" if is_repairable else "other"] += 1
            if is_repairable:
                del self.broken[nodes.names[row]]

    def _audit_columns(self) -> None:
        """Repairs what the audit cannot repair at times; then no other column is wrong."""
        nodes = self._bench.cache.nodes
        for name in [name for name, is_repairable in self.broken.items() if not is_repairable]:
            if self._rng.random() < 0.5:
                nodes._unschedulable[nodes.live_row(name)] ^= True
                del self.broken[name]
        wrong = {f"node {name} (row {nodes.live_row(name)})" for name in self.broken}
        self.problems += [
            problem
            for problem in audit(self._bench.cache)
            if problem.partition(":")[0] not in wrong
        ]

    # -- the dump ---------------------------------------------------------------------------------

    def _check_dump(self) -> None:
        """Compares the entries of the debugger: what differs, and the pods by their queue."""
        bench = self._bench
        cache, queue = bench.cache, bench.queue
        entries = dump.debug_entries(
            cache, queue, self.objects["Node"].values(), self.objects["Pod"].values()
        )
        expected: list[Any] = []
        rows = {name for name in cache.nodes.names if name}
        for what, actual, cached in (
            ("Nodes", set(self.objects["Node"]), rows),
            (
                "Pods",
                {
                    pod.metadata.uid
                    for pod in self.objects["Pod"].values()
                    if pod.status.phase not in FINISHED_PHASES
                },
                {pod.info.uid for pod in cache.pods} | {entry.uid for entry in queue.pods()},
            ),
        ):
            if actual != cached:
                expected.append(
                    {
                        f"missed{what}": sorted(actual - cached),
                        f"redundant{what}": sorted(cached - actual),
                    }
                )
        dumped = [dict(entry.fields) for entry in entries if entry.message == MISMATCH]
        if dumped != expected:
            self.problems.append(f"the dump shows {dumped}, not {expected}")
        messages = [entry.message for entry in entries if entry.message != MISMATCH]
        if messages != ["Dump of cached NodeInfo", "Dump of scheduling queue"]:
            self.problems.append(f"the dump has {messages}")
            return
        counts = Counter(entry.queue_name for entry in queue.pods())
        n_unschedulable = counts[QueueName.UNSCHEDULABLE] + counts[QueueName.GATED]
        summary = (
            f"activeQ:{counts[QueueName.ACTIVE]}; backoffQ:{counts[QueueName.BACKOFF]}; "
            f"unschedulablePods:{n_unschedulable}"
        )
        if entries[-1].fields["summary"] != summary:
            self.problems.append(f"{entries[-1].fields['summary']}, not {summary}")
        text = entries[-2].fields["nodes"]
        for pod in cache.pods:
            if text.count(f"uid: {pod.info.uid},") != 1:
                self.problems.append(f"the dump does not show {pod.info.uid} once")


def run_audit(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a difference is not repaired, or not counted.
    """
    run = AuditRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
