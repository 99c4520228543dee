"""Events that are missed and columns that are wrong: each is reported by the dump, and repaired.

Users change nodes and pods, and a part of the events gets lost. Some of them arrive while the audit
waits to confirm what it suspects. The model compares the names in cache and queue with those of the
informers: so many differences are counted, and none is left. Sums that are wrong are summed up
again; what cannot be repaired is counted in each pass.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from mooring.clock import seeded_random
from mooring.objects import Node, Pod
from mooring.objects.meta import key
from mooring.objects.pod import FINISHED_PHASES
from mooring.queue import QueueName
from mooring.scheduler.debugger import CacheAudit, dump
from mooring.scheduler.debugger.audit import CONFIRM_S
from mooring.state.audit import audit
from mooring.testing import make_node, make_pod
from tests.helpers.event_fixture import EventFixture

ROUNDS: Final = 6
CHANGES: Final = 12
NODES: Final = ("a", "b", "c", "d")
NAMES: Final = 10
MISMATCH: Final = "Cache mismatch"


class AuditRun:
    """One run.

    Attributes:
        problems: Differences to the model.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = rng = seeded_random(seed)
        self._bench = EventFixture()
        self._objects: dict[str, dict[str, Any]] = {"Node": {}, "Pod": {}}
        #: What the scheduler knows of them.
        self._reported: dict[str, dict[str, Any]] = {"Node": {}, "Pod": {}}
        self._missed_share = rng.choice((0.0, 0.2, 0.5))
        self._count = 0
        self._expected: Counter[str] = Counter()
        self._passes = self._replaced = 0
        self._audit = CacheAudit(
            self._bench.cache,
            self._bench.queue,
            self._bench.handlers,
            self._objects.__getitem__,
            self._bench.profiles,
            clock=self._bench.clock,
            sleep=self._sleep,
        )

    def run(self) -> None:
        """Changes objects, and audits, again and again."""
        for name in NODES:
            self._put(make_node(name), is_missed=False)
        for _ in range(ROUNDS):
            for _ in range(CHANGES):
                action: Callable[[], None] = self._rng.choice(
                    (self._change_pod, self._change_pod, self._change_node, self._attempt)
                )
                action()
            self._check_dump()
            broken = self._break_columns()
            self._round(broken)
            if self.problems:
                return

    def _round(self, broken: dict[str, bool]) -> None:
        """Runs a pass; compares what it counts, and what is left."""
        self._late = self._drawn_late()
        asyncio.run(self._audit.run_once())
        self._passes += 1
        if self._late is not None:
            # Nothing was suspected: the events arrive now.
            self._deliver_late()
        for is_repairable in broken.values():
            self._expected["usage" if is_repairable else "other"] += 1
        counts = {what: count for what, count in self._audit.statistics().items() if count}
        if 0 < self._expected["pod"] - counts.get("pod", 0) <= self._replaced:
            # The event of a new pod removes the one that had its name.
            self._expected["pod"] = counts.get("pod", 0)
        self._replaced = 0
        expected = {what: count for what, count in self._expected.items() if count}
        if counts != expected or self._audit.passes != self._passes:
            self.problems.append(f"{counts} are counted, not {expected}")
        self._repair_columns(broken)
        self.problems += audit(self._bench.cache)
        missing, surplus = self._differences()
        if missing or surplus:
            self.problems.append(f"{missing} are missing after the audit, {surplus} too many")
        self._reported = {kind: dict(objects) for kind, objects in self._objects.items()}

    # -- users ------------------------------------------------------------------------------------

    def _put(self, obj: Node | Pod, *, is_missed: bool) -> None:
        kind = type(obj).__name__
        self._objects[kind][key(obj)] = obj
        if not is_missed:
            self._report(kind, key(obj))

    def _report(self, kind: str, name: str) -> None:
        """Reports the newest version of an object, as the informer does after a list."""
        old, new = self._reported[kind].get(name), self._objects[kind].get(name)
        deliver: Callable[..., None] = self._bench.pod if kind == "Pod" else self._bench.node
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            deliver(old, None)
            old = None
        if old is new:
            return
        deliver(old, new)
        if new is None:
            del self._reported[kind][name]
        else:
            self._reported[kind][name] = new

    def _is_missed(self) -> bool:
        return self._rng.random() < self._missed_share

    def _change_node(self) -> None:
        name = self._rng.choice(NODES)
        if name in self._objects["Node"]:
            del self._objects["Node"][name]
        else:
            self._objects["Node"][name] = make_node(name)
        if not self._is_missed():
            self._report("Node", name)

    def _change_pod(self) -> None:
        """Creates, replaces or deletes a pod; it has a node, has none, or has finished."""
        rng = self._rng
        name = f"pod{rng.randrange(NAMES)}"
        is_in_flight = self._reported["Pod"].get(f"default/{name}") in self._busy()
        if is_in_flight:
            return
        if f"default/{name}" in self._objects["Pod"] and rng.random() < 0.6:
            del self._objects["Pod"][f"default/{name}"]
        else:
            self._count += 1
            node = rng.choice(("", *NODES))
            pod = make_pod(
                name,
                uid=f"{name}-{self._count}",
                node=node,
                requests={"cpu": "1"},
                scheduler_name=rng.choice(("default-scheduler",) * 4 + ("other",)),
            )
            if node and rng.random() < 0.2:
                pod = replace(pod, status=replace(pod.status, phase="Succeeded"))
            self._objects["Pod"][f"default/{name}"] = pod
        if not self._is_missed():
            self._report("Pod", f"default/{name}")

    def _busy(self) -> list[Pod]:
        """Returns the pods that are assumed: their end is not the subject of this run."""
        cache = self._bench.cache
        return [pod.info.pod for pod in cache.pods if cache.is_assumed(pod.info.uid)]

    def _attempt(self) -> None:
        """Tries a pod, which no node fits."""
        queue = self._bench.queue
        if (entry := queue.pop()) is not None:
            with queue.in_flight(entry):
                queue.add_unschedulable(entry, entry.pod, refused_by=["Plugin"])

    # -- columns ----------------------------------------------------------------------------------

    def _break_columns(self) -> dict[str, bool]:
        """Makes columns of some nodes wrong; returns node -> whether that can be repaired."""
        nodes, rng = self._bench.cache.nodes, self._rng
        broken: dict[str, bool] = {}
        for name in sorted(self._objects["Node"]):
            if self._reported["Node"].get(name) is None or rng.random() < 0.7:
                continue
            row = nodes.live_row(name)
            broken[name] = rng.random() < 0.7
            if not broken[name]:
                nodes._unschedulable[row] ^= True
                continue
            nodes._requested[rng.randrange(2), row] += rng.choice((-1, 7))
            if rng.random() < 0.5:
                nodes._pod_count[row] += 1
            if rng.random() < 0.3:
                nodes._nonzero[0, row] += 3
        return broken

    def _repair_columns(self, broken: dict[str, bool]) -> None:
        nodes = self._bench.cache.nodes
        for name, is_repairable in broken.items():
            if not is_repairable:
                nodes._unschedulable[nodes.live_row(name)] ^= True

    # -- the model --------------------------------------------------------------------------------

    def _differences(self) -> tuple[set[str], set[str]]:
        """Returns the names that cache and queue lack, and those that they have in excess."""
        bench = self._bench
        nodes = bench.cache.nodes
        here = {f"node {node.metadata.name}" for node in nodes.objects if node is not None}
        here |= {f"pod {pod.info.uid}" for pod in bench.cache.pods}
        here |= {f"pod {entry.uid}" for entry in bench.queue.pods()}
        there = {f"node {name}" for name in self._objects["Node"]}
        there |= {f"pod {pod.metadata.uid}" for pod in self._objects["Pod"].values() if _ours(pod)}
        return there - here, here - there

    def _drawn_late(self) -> list[tuple[str, str]] | None:
        """Returns the missed events that arrive while the audit waits."""
        late = [
            (kind, name)
            for kind, objects in self._objects.items()
            for name in sorted({*objects, *self._reported[kind]})
            if objects.get(name) is not self._reported[kind].get(name)
        ]
        return [change for change in late if self._rng.random() < 0.3]

    def _deliver_late(self) -> None:
        for kind, name in self._late or ():
            self._report(kind, name)
        self._late = None

    async def _sleep(self, seconds: float) -> None:
        """Lets late events arrive; what differs after that has to be repaired."""
        if seconds != CONFIRM_S:
            return
        self._deliver_late()
        missing, surplus = self._differences()
        for name in (*missing, *surplus):
            self._expected[name.split(" ")[0]] += 1
        names = [name.rpartition("-")[0] for name in missing if name.startswith("pod")]
        self._replaced = sum(name.rpartition("-")[0] in names for name in surplus)

    def _check_dump(self) -> None:
        """Compares the entries of the debugger: what differs, and the pods by their queue."""
        bench = self._bench
        cache, queue = bench.cache, bench.queue
        entries = dump.debug_entries(
            cache, queue, self._objects["Node"].values(), self._objects["Pod"].values()
        )
        expected: list[Any] = []
        rows = {name for name in cache.nodes.names if name}
        for what, actual, cached in (
            ("Nodes", set(self._objects["Node"]), rows),
            (
                "Pods",
                {
                    pod.metadata.uid
                    for pod in self._objects["Pod"].values()
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


def _ours(pod: Pod) -> bool:
    """Returns whether a pod must be in cache or queue."""
    if pod.spec.node_name:
        return pod.status.phase not in FINISHED_PHASES
    return pod.spec.scheduler_name == "default-scheduler"


def run_audit(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a difference is not repaired, or not counted.
    """
    run = AuditRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
