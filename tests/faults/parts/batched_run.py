"""Pods with equal signatures, scheduled by a framework that batches them.

The batching is that of ``batch_run``, but within attempts: nodes fill up, come, go and change,
PreFilter leaves some of them, pods are nominated, fit no node or fail after they were placed,
numbers of cycles have gaps, and visits begin at any node. Pods with one signature may be of kinds
whose results are cached apart. In some runs a plugin cannot sign pods, so that nothing is batched.
Each placement, how it was chosen, how many nodes fit, each reason of a pod that fits no node, and
the counts of batching are those of plain loops and of the model in ``batch_run``.

Source: pkg/scheduler/framework/runtime/batch.go; schedule_one.go (schedulePod,
findNodesThatFitPod, evaluateNominatedNode).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from mooring.clock import VirtualClock, seeded_random
from mooring.framework import Attempt, Cycle, Diagnosis, Framework, NodeView, Placement, Profile
from mooring.framework.runtime.scheduling_algorithm import schedule_pod
from mooring.framework.status import SKIP, PreFilterResult
from mooring.metrics.recorders import FrameworkRecorder
from mooring.plugins.node_resources.fit import NodeResourcesFit
from mooring.scheduler.profiles import _batch_pods
from mooring.state import Change, PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_node, make_pod
from tests.faults.parts.batch_run import BatchModel, GoHeap

STEPS: Final = 60
NODES_MAX: Final = 9
#: In such seeds, modulo eight, a plugin cannot sign pods.
UNSIGNED: Final = 7
RANKS: Final = ("0", "1", "2")
NO_CPU, NO_SLOT = "Insufficient cpu", "Too many pods"


class Kind(NamedTuple):
    """A kind of pods.

    Attributes:
        group: Of its signature for batching; "" = it cannot be signed.
        tier: Which scores it has.
        cpu: What it requests.
        left: The nodes that PreFilter leaves; () = all.
    """

    group: str
    tier: str
    cpu: int
    left: tuple[str, ...]


@dataclass
class Machine:
    """A node: its cpu and slots for pods, the rank that scores read, and the pods on it."""

    cpu: int
    slots: int
    rank: str
    pods: dict[str, int] = field(default_factory=dict)

    def reasons(self, cpu: int, more: int = 0) -> tuple[str, ...]:
        """Returns why a pod does not fit beside the placed pods and some nominated ones."""
        slots_used = len(self.pods) + more
        used = sum(self.pods.values()) + more
        lacks = ((NO_SLOT, slots_used + 1 > self.slots), (NO_CPU, used + cpu > self.cpu))
        return tuple(reason for reason, is_lacking in lacks if is_lacking)


class Rank:
    """A plugin whose scores depend on the rank of a node and the tier of a pod."""

    name = "Rank"
    reads = Change.LABELS

    def __init__(self, scores: dict[tuple[str, str], int]) -> None:
        self._scores = scores

    def sign(self, pod: PodInfo) -> str:
        """Returns what the scores read."""
        return pod.metadata.labels["tier"]

    def batch_signature(self, pod: PodInfo) -> str | None:
        """Returns the group of the pod, if it has one."""
        return pod.metadata.labels["group"] or None

    def score(self, cycle: Cycle, nodes: NodeView) -> Any:
        """Returns the score of each node."""
        tier = cycle.pod.metadata.labels["tier"]
        scores = [self._scores[node.labels["rank"], tier] for node in nodes]
        return np.array(scores, dtype=np.int64)


class Narrow:
    """A plugin that leaves some nodes, for some pods."""

    name = "Narrow"
    reads = Change.LABELS

    def pre_filter(self, cycle: Cycle) -> Any:
        """Leaves the nodes that the pod names."""
        names = cycle.pod.metadata.labels["left"]
        return PreFilterResult(frozenset(names.split("_"))) if names else SKIP

    def sign(self, pod: PodInfo) -> str:
        """Returns what PreFilter reads."""
        return pod.metadata.labels["left"]

    def batch_signature(self, pod: PodInfo) -> str:
        """Returns the same for all pods: the nodes that are left are not a part of it."""
        del pod
        return ""


class Unsigned:
    """A plugin that cannot sign pods."""

    name = "Unsigned"

    def pre_filter(self, cycle: Cycle) -> Any:
        """Has nothing to do."""
        del cycle
        return SKIP


class Counting(FrameworkRecorder):
    """Counts what batching reports."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def batch_attempted(self, result: str) -> None:
        """Counts a pod."""
        self.counts[f"attempted {result}"] += 1

    def batch_flushed(self, reason: str) -> None:
        """Counts nodes that are not used, or not stored."""
        self.counts[f"flushed {reason}"] += 1


class BatchedRun:
    """One run.

    Attributes:
        problems: Differences to the model.
        paths: What happened, and how often.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self.paths: Counter[str] = Counter()
        self._rng = rng = seeded_random(seed)
        self._clock, self._cache, self._recorder = VirtualClock(), Cache(), Counting()
        self._scores = {(rank, tier): rng.choice((0, 50, 100)) for rank in RANKS for tier in "ab"}
        fit, rank, narrow = NodeResourcesFit(), Rank(self._scores), Narrow()
        pre_filters: list[Any] = [fit, narrow]
        self._batches = seed % 8 != UNSIGNED
        if not self._batches:
            pre_filters.insert(rng.randrange(3), Unsigned())
        points = {"pre_filter": pre_filters, "filter": [fit], "score": [rank]}
        self._framework = Framework(Profile("batched", points, {}), clock=self._clock)
        _batch_pods(self._framework, self._clock)
        drawing = Framework(self._framework.profile, clock=self._clock, tie_break=min)
        _batch_pods(drawing, self._clock)
        if drawing.batch is not None:  # the next pod would not draw among its nodes
            self.problems.append("pods are batched, though the profile selects among ties itself")
        self._framework.recorder = self._recorder
        self._model, self._nodes = BatchModel(), dict[str, Machine]()
        #: Node -> the priorities of the pods that are nominated to it; each requests one cpu.
        self._nominated: dict[str, dict[str, int]] = {}
        for number in range(rng.choice((2, 4, NODES_MAX))):
            self._put(f"n{number}")
        names = [f"n{number}" for number in range(NODES_MAX)]
        narrow_rate = rng.choice((0.0, 0.4))
        self._kinds = [
            Kind(
                rng.choice(("web", "web", "db", "")) if number else "web",
                rng.choice("ab"),
                rng.choice((1, 1, 2)),
                tuple(rng.sample(names, 4)) if rng.random() < narrow_rate else (),
            )
            for number in range(rng.choice((1, 2, 4)))
        ]
        self._changes = rng.choice((0.1, 0.3))

    def run(self) -> None:
        """Makes all attempts, until one differs."""
        number, kind = 0, self._kinds[0]
        for _ in range(STEPS):
            number += self._rng.choice((1,) * 9 + (2,))
            if self._rng.random() < 0.3:
                kind = self._rng.choice(self._kinds)
            if self._rng.random() < 0.2:
                self._clock.advance(self._rng.choice((0.01, 0.1, 0.5, 0.6)))
            while self._rng.random() < self._changes:
                self._change()
            if self._nodes:
                self._attempt(number, kind)
            if self._recorder.counts != self._model.counts:
                self.problems.append(f"{self._recorder.counts}, not {self._model.counts}")
            if self.problems:
                return

    # -- the cluster ------------------------------------------------------------------------------

    def _put(self, name: str) -> None:
        rng = self._rng
        old = self._nodes.get(name)
        node = Machine(rng.choice((1, 1, 2, 4)), rng.choice((1, 2, 9)), rng.choice(RANKS))
        node.pods = {} if old is None else old.pods
        self._nodes[name] = node
        amounts = {"cpu": str(node.cpu), "pods": str(node.slots)}
        self._cache.put_node(make_node(name, allocatable=amounts, labels={"rank": node.rank}))

    def _change(self) -> None:
        rng, name = self._rng, f"n{self._rng.randrange(NODES_MAX)}"
        node, draw = self._nodes.get(name), rng.random()
        if node is None or draw < 0.2:
            self._put(name)
        elif draw < 0.6 and node.pods:
            uid = rng.choice(list(node.pods))
            del node.pods[uid]
            self._cache.remove_pod(uid)
        elif draw < 0.8:
            self._nominate(name)
        elif draw < 0.9:
            for uid in node.pods:
                self._cache.remove_pod(uid)
            self._cache.remove_node(name)
            del self._nodes[name]

    def _release(self) -> None:
        """Lets most pods end."""
        for node in self._nodes.values():
            for uid in [uid for uid in node.pods if self._rng.random() < 0.8]:
                del node.pods[uid]
                self._cache.remove_pod(uid)

    def _nominate(self, name: str) -> None:
        """Nominates a pod to a node, or ends the nominations to it."""
        pods = self._nominated.setdefault(name, {})
        if pods:
            for uid in pods:
                self._cache.nominator.remove(uid)
            pods.clear()
            return
        uid = f"nominated-{self._rng.random()}"
        pods[uid] = priority = self._rng.choice((0, 10))
        pod = make_pod(uid, uid=uid, requests={"cpu": "1"}, priority=priority)
        self._cache.nominator.nominate(PodInfo(pod), name)

    # -- an attempt -------------------------------------------------------------------------------

    def _attempt(self, number: int, kind: Kind) -> None:
        rng = self._rng
        snapshot = self._cache.snapshot()
        listed = [snapshot.nodes.names[row] for row in snapshot.nodes.order.rows()]
        start = rng.choice((0, rng.randrange(len(listed))))
        priority = rng.choice((0, 0, 5, 20))
        nominated = rng.choice(listed) if rng.random() < 0.05 else ""
        labels = {"group": kind.group, "tier": kind.tier, "left": "_".join(kind.left)}
        pod = PodInfo(
            make_pod(
                f"pod-{number}",
                uid=f"pod-{number}",
                labels=labels,
                priority=priority,
                requests={"cpu": str(kind.cpu)},
                status={"nominatedNodeName": nominated} if nominated else None,
            )
        )
        attempt = Attempt(snapshot, start)
        cycle = self._framework.new_cycle(pod, snapshot, number=number)
        result = schedule_pod(self._framework, cycle, attempt)
        included = [name for name in listed if not kind.left or name in kind.left]
        at = start % len(included) if included else 0
        self._check(
            number, kind, priority, nominated, [*included[at:], *included[:at]], (attempt, result)
        )
        if isinstance(result, Diagnosis):
            self._release()
        elif rng.random() < 0.9:
            self._nodes[result.node_name].pods[pod.uid] = kind.cpu
            self._cache.put_pod(pod.on_node(result.node_name).pod)

    def _reasons(self, name: str, kind: Kind, priority: int) -> tuple[str, ...]:
        """Returns why a node does not fit, with its nominated pods and without them."""
        more = sum(other >= priority for other in self._nominated.get(name, {}).values())
        return self._nodes[name].reasons(kind.cpu, more) or self._nodes[name].reasons(kind.cpu)

    def _check(
        self,
        number: int,
        kind: Kind,
        priority: int,
        nominated: str,
        visited: list[str],
        real: tuple[Attempt, Placement | Diagnosis],
    ) -> None:
        """Compares an attempt with the model, whose state goes on."""
        attempt, result = real
        now_s, signature, hint = self._clock.monotonic_s(), self._signature(kind), ""
        if self._batches:
            feasible = {name: not it.reasons(kind.cpu) for name, it in self._nodes.items()}
            hint = self._model.hint(number, signature, now_s, feasible)
        first = nominated or hint
        tried = [first] if first in self._nodes else []
        if tried and not self._reasons(first, kind, priority):
            fitting, n_evaluated = tried, 1
            choice = "nominated" if nominated else "batched"
            if attempt.choice != (choice if len(visited) > 1 else None):
                self.problems.append(f"cycle {number} is chosen by {attempt.choice}, not {choice}")
            self.paths[choice] += 1
        else:
            fitting = [name for name in visited if not self._reasons(name, kind, priority)]
            n_evaluated = len(visited)
        if not fitting:
            self.paths["no node"] += 1
            names = dict.fromkeys([*visited, *tried])
            reasons = Counter(it for name in names for it in self._reasons(name, kind, priority))
            if not isinstance(result, Diagnosis) or result.reasons != reasons:
                self.problems.append(f"cycle {number} has {result}, not {reasons}")
            return
        ranked = [(name, self._scores[self._nodes[name].rank, kind.tier]) for name in fitting]
        others = GoHeap(ranked)
        node = others.pop()
        expected = node, len(fitting), n_evaluated
        if not isinstance(result, Placement) or expected != (
            result.node_name,
            result.feasible_count,
            result.evaluated_count,
        ):
            self.problems.append(f"cycle {number} has {result}, not {expected}")
        if self._batches:
            self._model.store(number, signature, now_s, hint, others, node)
        elif len(fitting) == 1:
            self._model.counts["flushed empty_list"] += 1

    @staticmethod
    def _signature(kind: Kind) -> str | None:
        return f"{kind.group} {kind.cpu}" if kind.group else None


def run_batched(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: an attempt differs from the model.
    """
    run = BatchedRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
