"""Attempts of few kinds of pods while few nodes change: results are cached from one to the next.

Pods of equal requests share what the filters and the scores say of a node until it changes, and
nodes with equal amounts share it as well. Each attempt is compared with rules over plain numbers:
where the pod may go, how many nodes have each reason, which plugins reject, and how the scores of
nodes differ. In a quarter of the runs there are more kinds than cached results. In a quarter
functions that use what is cached raise in some attempts (``own_errors``), which are made again.

Source: pkg/scheduler/framework/plugins/noderesources/fit.go (fitsRequest), least_allocated.go,
resource_allocation.go; nodeunschedulable, tainttoleration; pkg/scheduler/util/pod_resources.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

from mooring.clock import seeded_random
from mooring.errors import CycleError
from mooring.framework import (
    Attempt,
    Cycle,
    Diagnosis,
    FilterStatuses,
    NodeView,
    Placement,
    Reject,
)
from mooring.framework.runtime import result_cache
from mooring.plugins.node_resources.fit import NodeResourcesFit
from mooring.plugins.node_unschedulable import NodeUnschedulable
from mooring.plugins.taint_toleration import TaintToleration
from mooring.scheduler.schedule_one import _decide
from mooring.state import Change, PodInfo
from mooring.state.snapshot import Snapshot
from mooring.testing import Harness, make_node, make_pod
from tests.faults.parts.own_errors import CACHED_FUNCTIONS, SCHEDULING, OwnErrors

STEPS: Final = 60
MI: Final = 1 << 20
#: What a container without a request counts for in scores.
DEFAULT_CPU_MILLI: Final = 100
DEFAULT_MEMORY_MI: Final = 200
TAINT: Final = "away:NoSchedule"
CORDONED: Final = "node(s) were unschedulable"
TAINTED: Final = "node(s) had untolerated taint(s)"


class Kind(NamedTuple):
    """A kind of pods: millicores and MiB, 0 = no request."""

    cpu: int
    memory: int
    tolerates: bool = False

    def scored(self) -> tuple[int, int]:
        """Returns what the pod counts for in scores."""
        return self.cpu or DEFAULT_CPU_MILLI, self.memory or DEFAULT_MEMORY_MI


#: Some sums are equal in all but what pods without a request count for.
KINDS: Final = (
    Kind(500, 512),
    Kind(500, 256),
    Kind(500, 0),
    Kind(0, 512),
    Kind(0, 256),
    Kind(0, 0),
    Kind(1000, 1024, tolerates=True),
)
UNEVEN: Final = "node(s) had more pods than others"
LISTED: Final = "node(s) were listed"
#: In such seeds, modulo three, a plugin reads other nodes, or another object.
WITH_EVEN: Final = 1
WITH_LISTED: Final = 2
#: In such seeds, modulo four, there are more kinds than cached results: the entries are reused.
MANY: Final = 3
MANY_KINDS: Final = (*KINDS, *(Kind(100 * number, 64 * number) for number in range(1, 5)))
#: In such seeds the scheduler's own code raises.
BREAKS_EVERY: Final = 4
#: These functions are called often.
ERROR_RATES: Final = (0.005, 0.02, 0.1)
#: Millicores, MiB, pods.
SIZES: Final = ((2000, 2048, 10), (2000, 2048, 10), (2000, 2048, 3), (4000, 2048, 10))


class Even:
    """Rejects nodes with two pods more than another node: what it says depends on all nodes."""

    name = "Even"
    reads = Change.USAGE
    reads_other_nodes = Change.USAGE | Change.EXISTENCE

    def sign(self, pod: PodInfo) -> Hashable:
        """Treats all pods alike."""
        del pod
        return ()

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Compares the number of pods with the least of all nodes."""
        del cycle
        table = nodes.snapshot.nodes
        least = table.pod_count[table.order.rows()].min()
        is_rejected = table.pod_count[nodes.rows] > least + 1
        return FilterStatuses.reject(is_rejected, Reject(UNEVEN))


class Listed:
    """Rejects the nodes of a list, as of an object that is neither a node nor a pod."""

    name = "Listed"
    reads = Change.EXISTENCE

    def __init__(self) -> None:
        self.names: set[str] = set()

    def sign(self, pod: PodInfo) -> Hashable:
        """Treats all pods alike."""
        del pod
        return ()

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Looks the names up."""
        del cycle
        is_rejected = np.array([name in self.names for name in nodes.names], dtype=np.bool_)
        return FilterStatuses.reject(is_rejected, Reject(LISTED))


@dataclass
class Machine:
    """A node, as the rules see it."""

    size: tuple[int, int, int]
    is_cordoned: bool = False
    is_tainted: bool = False
    #: UID -> the kind of each pod.
    pods: dict[str, Kind] = field(default_factory=dict)

    def rejection(self, kind: Kind) -> tuple[str, tuple[str, ...]]:
        """Returns the first plugin that rejects a pod, and its reasons; "" if none does."""
        if self.is_cordoned:
            return "NodeUnschedulable", (CORDONED,)
        if self.is_tainted and not kind.tolerates:
            return "TaintToleration", (TAINTED,)
        cpu, memory, pods = self.size
        reasons = []
        if len(self.pods) + 1 > pods:
            reasons.append("Too many pods")
        if kind.cpu and kind.cpu + sum(pod.cpu for pod in self.pods.values()) > cpu:
            reasons.append("Insufficient cpu")
        if kind.memory and kind.memory + sum(pod.memory for pod in self.pods.values()) > memory:
            reasons.append("Insufficient memory")
        return ("NodeResourcesFit" if reasons else ""), tuple(reasons)

    def score(self, kind: Kind) -> int:
        """Returns the score of LeastAllocated for a pod."""
        used = [kind.scored(), *(pod.scored() for pod in self.pods.values())]
        amounts = sum(cpu for cpu, _ in used), sum(memory for _, memory in used)
        scores = [
            max(0, size - amount) * 100 // size
            for size, amount in zip(self.size[:2], amounts, strict=True)
        ]
        return sum(scores) // 2


class CachedRun:
    """One run.

    Attributes:
        problems: Differences to the rules.
        paths: What happened, and how often.

    Args:
        seed: Of the run.
        errors: Of the scheduler's own code; None = there are none.
    """

    def __init__(self, seed: int, errors: OwnErrors | None) -> None:
        self.problems: list[str] = []
        self._errors = errors
        self.paths: Counter[str] = Counter()
        self._rng = rng = seeded_random(seed)
        self._machines: dict[str, Machine] = {}
        plugins: list[Any] = [NodeUnschedulable(), TaintToleration(), NodeResourcesFit()]
        self._has_even = seed % 3 == WITH_EVEN
        if self._has_even:
            plugins.append(Even())
        self._listed = Listed()
        if seed % 3 == WITH_LISTED:
            plugins.append(self._listed)
        self._harness = Harness([], plugins)
        self._nodes_max = rng.choice((2, 6, 30))
        #: In some runs most nodes are cordoned or tainted, so that attempts have no node.
        self._closed_share = rng.choice((0.1, 0.5, 0.9))
        self._changes = rng.choice((1, 2, 4, 20))
        self._kinds = MANY_KINDS if seed % 4 == MANY else KINDS
        self._count = 0
        for number in range(self._nodes_max):
            self._put(f"node-{number}", Machine(rng.choice(SIZES)))

    def run(self) -> None:
        """Makes all attempts, until one differs."""
        for _ in range(STEPS):
            for _ in range(self._rng.randint(0, self._changes)):
                self._change()
            self._attempt(self._rng.choice(self._kinds))
            if self.problems:
                return

    # -- the cluster ------------------------------------------------------------------------------

    def _change(self) -> None:
        rng = self._rng
        name = f"node-{rng.randrange(self._nodes_max)}"
        if self._listed in self._harness.plugins and rng.random() < 0.2:
            self._listed.names ^= {name}
            self._harness.framework.clear_cached_results()
            return
        machine = self._machines.get(name)
        if machine is None:
            self._put(name, Machine(rng.choice(SIZES)))
            return
        draw = rng.random()
        if draw < 0.4 and machine.pods:
            uid = rng.choice(list(machine.pods))
            del machine.pods[uid]
            self._harness.cache.remove_pod(uid)
        elif draw < 0.6:
            self._place(name, rng.choice(self._kinds))
        elif draw < 0.7:
            machine.size = rng.choice(SIZES)
            self._put(name, machine)
        elif draw < 0.75:
            for uid in self._machines.pop(name).pods:
                self._harness.cache.remove_pod(uid)
            self._harness.cache.remove_node(name)
        else:
            machine.is_cordoned = rng.random() < self._closed_share / 2
            machine.is_tainted = rng.random() < self._closed_share
            self._put(name, machine)

    def _put(self, name: str, machine: Machine) -> None:
        self._machines[name] = machine
        cpu, memory, pods = machine.size
        allocatable: dict[str, str | int] = {
            "cpu": f"{cpu}m",
            "memory": f"{memory}Mi",
            "pods": pods,
        }
        taints = [TAINT] if machine.is_tainted else []
        self._harness.cache.put_node(
            make_node(
                name, allocatable=allocatable, taints=taints, unschedulable=machine.is_cordoned
            )
        )

    def _place(self, name: str, kind: Kind) -> None:
        pod = self._pod(kind, node=name)
        self._machines[name].pods[pod.uid] = kind
        self._harness.cache.put_pod(pod.pod)

    def _pod(self, kind: Kind, *, node: str = "") -> PodInfo:
        self._count += 1
        requests = {}
        if kind.cpu:
            requests["cpu"] = f"{kind.cpu}m"
        if kind.memory:
            requests["memory"] = f"{kind.memory}Mi"
        tolerations = [{"key": "away", "operator": "Exists"}] if kind.tolerates else []
        spec = {"tolerations": tolerations, **({"nodeName": node} if node else {})}
        name = f"pod-{self._count}"
        return PodInfo(make_pod(name, uid=name, requests=requests, spec=spec))

    # -- attempts ---------------------------------------------------------------------------------

    def _attempt(self, kind: Kind) -> None:
        snapshot = self._harness.cache.snapshot()
        pod = self._pod(kind)
        attempt, result = self._decided(pod, snapshot)
        rejections = self._rejections(kind)
        fitting = [name for name, (plugin, _) in rejections.items() if not plugin]
        if isinstance(result, Diagnosis):
            self.paths["rejected"] += 1
            self._check_diagnosis(pod, result, fitting, rejections)
            return
        self.paths["placed"] += 1
        scores = {name: self._machines[name].score(kind) for name in fitting}
        best = [name for name, score in scores.items() if score == max(scores.values())]
        if result.node_name not in best:
            self.problems.append(f"{pod.key} is placed on {result.node_name}, not of {best}")
            return
        if attempt.rows is not None and attempt.total is not None and len(attempt.total) > 1:
            rows, totals = attempt.rows.tolist(), attempt.total.tolist()
            names = [snapshot.nodes.names[row] for row in rows]
            self._check_scores(pod, dict(zip(names, totals, strict=True)), scores)
        if self._rng.random() < 0.8:
            self._place(result.node_name, kind)

    def _decided(self, pod: PodInfo, snapshot: Snapshot) -> tuple[Attempt, Placement | Diagnosis]:
        """Makes an attempt, and makes it again if the scheduler's own code raises."""
        framework, errors = self._harness.framework, self._errors
        while True:
            attempt, cycle = Attempt(snapshot), framework.new_cycle(pod, snapshot)
            if errors is None:
                return attempt, _decide(framework, cycle, attempt)[0]
            try:
                with errors.attempt(pod.uid, SCHEDULING):
                    return attempt, _decide(framework, cycle, attempt)[0]
            except CycleError as error:
                self.paths["raised"] += 1
                if str(error) != errors.raised.pop(pod.uid).text:
                    self.problems.append(f"{pod.key} has failed since {error}")

    def _rejections(self, kind: Kind) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Returns node -> the plugin that rejects a pod, and its reasons; "" if none does."""
        least = min((len(it.pods) for it in self._machines.values()), default=0)
        rejections = {name: it.rejection(kind) for name, it in self._machines.items()}
        for name, machine in self._machines.items():
            if self._has_even and not rejections[name][0] and len(machine.pods) > least + 1:
                rejections[name] = "Even", (UNEVEN,)
            elif name in self._listed.names and not rejections[name][0]:
                rejections[name] = "Listed", (LISTED,)
        return rejections

    def _check_scores(self, pod: PodInfo, totals: dict[str, int], scores: dict[str, int]) -> None:
        """Compares the differences of the totals: other plugins add as much for all nodes."""
        if set(totals) != set(scores):
            self.problems.append(f"{pod.key} fits {sorted(totals)}, not {sorted(scores)}")
            return
        added = {totals[name] - score for name, score in scores.items()}
        if len(added) > 1:
            self.problems.append(f"{pod.key} has the totals {totals}, for {scores}")

    def _check_diagnosis(
        self,
        pod: PodInfo,
        diagnosis: Diagnosis,
        fitting: list[str],
        rejections: dict[str, tuple[str, tuple[str, ...]]],
    ) -> None:
        if fitting:
            self.problems.append(f"{pod.key} has no node, but fits {fitting}")
            return
        reasons = Counter(reason for _, reasons in rejections.values() for reason in reasons)
        if diagnosis.reasons != reasons:
            self.problems.append(f"{pod.key}: {diagnosis.reasons}, not {reasons}")
        plugins = {plugin for plugin, _ in rejections.values()}
        if set(diagnosis.unschedulable_plugins) != plugins:
            rejecting = sorted(diagnosis.unschedulable_plugins)
            self.problems.append(f"{pod.key} is rejected by {rejecting}, not {sorted(plugins)}")


def run_cached(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: an attempt differs from the rules.
    """
    with pytest.MonkeyPatch.context() as patch:
        if seed % 4 == MANY:
            # The least number of entries that a cache has, however much memory one takes.
            patch.setattr(result_cache, "MEMORY_LIMIT_BYTES", 1)
        errors = None
        if seed % BREAKS_EVERY == 1:
            rng = seeded_random(seed + 7_000_000)
            errors = OwnErrors(rng, patch, CACHED_FUNCTIONS, ERROR_RATES)
        run = CachedRun(seed, errors)
        run.run()
    assert not run.problems, run.problems[0]
