"""One run: a cluster is filled with the pods of a list, in random order, until 130 % are requested.

Each pod is decided once: a pod that fits nowhere is left out. After each pod the used GPUs and the
fragmentation are noted, and averaged by the share of the cluster that was requested so far.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from mooring.clock import SystemClock, seeded_random
from mooring.config import KubeSchedulerConfiguration, loads
from mooring.objects import Node
from mooring.simulation.driver import Driver
from mooring.traces.openb import POD_LISTS, read_nodes
from studies.fgd.devices import Devices, GpuDevices
from studies.fgd.fragmentation import Fragmentation
from studies.fgd.pods import Shape, make_pod, read_shapes, typical_of
from studies.fgd.policies import (
    FGD,
    POLICIES,
    BestFit,
    Clustering,
    DotProd,
    Packing,
    Policy,
    Random,
)

LISTS: Final = POD_LISTS
SEEDS: Final = range(42, 52)
#: Pods are drawn until so much of all GPUs is requested.
TUNE_RATIO: Final = 1.3
#: The last bucket: requested GPUs in per cent of all.
LAST: Final = 130

#: Filters by resources only, and one score plugin, whose name is put in.
CONFIG: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}
    preFilter: {enabled: [{name: NodeResourcesFit}, {name: GpuDevices}]}
    filter: {enabled: [{name: NodeResourcesFit}, {name: GpuDevices}]}
    score: {enabled: [{name: POLICY, weight: 1000}]}
    reserve: {enabled: [{name: GpuDevices}]}
"""


class Result(msgspec.Struct, frozen=True):
    """The curves of one run, by requested GPUs in per cent: 0, 1 ... 130.

    Attributes:
        pods: The name of the list.
        policy: The policy.
        seed: The seed.
        allocated: Used GPUs in per cent of all.
        fragmented: The fragmentation in per cent of all GPUs.
        rate: The fragmentation in per cent of the idle GPUs.
        n_pods: Pods that came.
        n_failed: Pods that did not fit.
    """

    pods: str
    policy: str
    seed: int
    allocated: list[float]
    fragmented: list[float]
    rate: list[float]
    n_pods: int = 0
    n_failed: int = 0


def config_of(policy: str) -> KubeSchedulerConfiguration:
    """Returns the configuration of a policy."""
    return loads(CONFIG.replace("POLICY", policy))


def run(pods: str, policy: str, seed: int) -> Result:
    """Runs one experiment.

    Args:
        pods: One of ``LISTS``.
        policy: One of ``POLICIES``.
        seed: Of the order of pods and nodes, and of the policy.
    """
    rng = random.Random(f"{pods} {seed}")
    shapes = read_shapes(pods)
    typical = typical_of(shapes)
    nodes = shuffled_nodes(rng)
    devices = Devices(nodes)
    fragmentation = Fragmentation(typical, devices.models)
    own = make_policy(policy, devices, fragmentation, seed)
    driver = Driver(
        nodes,
        config=config_of(policy),
        plugins=[own, GpuDevices(devices, own)],
        rng=seeded_random(seed),
        clock=SystemClock(),
    )
    for framework in driver.frameworks.values():
        framework.tie_break = first_name
    curves = Curves(devices, fragmentation, nodes)
    n_failed = 0
    arrivals = inflated(shapes, int(devices.counts.sum()) * 1000, rng)
    for number, shape in enumerate(arrivals):
        outcome = driver.attempt(make_pod(number, shape))
        if outcome.node is None:
            n_failed += 1
            curves.add(shape)
            continue
        driver.apply(outcome)
        curves.add(shape, driver.cache.nodes.row(outcome.node))
    return curves.result(pods, policy, seed, len(arrivals), n_failed)


def first_name(names: Sequence[str]) -> str:
    """Returns the first of the nodes with equal scores: their order is fixed for a run."""
    return names[0]


def shuffled_nodes(rng: random.Random) -> list[Node]:
    """Returns the nodes of the trace, with a random order in their names."""
    nodes = read_nodes("gpu")
    rng.shuffle(nodes)
    return [_numbered(node, number) for number, node in enumerate(nodes)]


def _numbered(node: Node, number: int) -> Node:
    name = f"{number:04}-{node.metadata.name}"
    return replace(node, metadata=replace(node.metadata, name=name))


def inflated(shapes: Sequence[Shape], capacity: int, rng: random.Random) -> list[Shape]:
    """Returns the pods in random order, with as many more or fewer as request 130 % of all GPUs."""
    pods = list(shapes)
    rng.shuffle(pods)
    target = TUNE_RATIO * capacity
    requested = sum(shape.request for shape in pods)
    while requested < target:
        shape = rng.choice(shapes)
        if requested + shape.gpu_milli > target:
            break
        pods.append(shape)
        requested += shape.request
    while requested > target:
        requested -= pods.pop(rng.randrange(len(pods))).request
    return pods


def make_policy(name: str, devices: Devices, fragmentation: Fragmentation, seed: int) -> Policy:
    """Returns a policy by its name."""
    if name == "FGD":
        return FGD(devices, fragmentation)
    if name == "Random":
        return Random(devices, seeded_random(seed))
    plain = {kind.name: kind for kind in (DotProd, Clustering, Packing, BestFit)}
    return plain[name](devices)


class _Point(NamedTuple):
    allocated: float
    fragmented: float
    rate: float


class Curves:
    """Notes the state after each pod, and averages it by requested GPUs.

    Args:
        devices: Of the cluster.
        fragmentation: Of the typical pods.
        nodes: In the order of their rows.
    """

    def __init__(
        self, devices: Devices, fragmentation: Fragmentation, nodes: Sequence[Node]
    ) -> None:
        self._devices = devices
        self._fragmentation = fragmentation
        self._capacity = int(devices.counts.sum()) * 1000
        self._cpu_free = np.array([_milli(node) for node in nodes], dtype=np.int64)
        rows = np.arange(len(nodes))
        self._of_node = fragmentation.of(devices.idle[rows], self._cpu_free, devices.model[rows])
        self._total = float(self._of_node.sum())
        self._arrived = self._used = 0
        self._points: list[list[_Point]] = [[] for _ in range(LAST + 1)]

    def add(self, shape: Shape, row: int | None = None) -> None:
        """Notes a pod, and its row; None = it did not fit."""
        self._arrived += shape.request
        if row is not None:
            self._used += shape.request
            self._cpu_free[row] -= shape.cpu
            devices = self._devices
            lost = float(
                self._fragmentation.of(
                    devices.idle[[row]], self._cpu_free[[row]], devices.model[[row]]
                )[0]
            )
            self._total += lost - float(self._of_node[row])
            self._of_node[row] = lost
        idle = self._capacity - self._used
        bucket = min(LAST, round(100 * self._arrived / self._capacity))
        point = _Point(
            round(100 * self._used / self._capacity, 2),
            100 * self._total / self._capacity,
            100 * self._total / idle if idle else 0.0,
        )
        self._points[bucket].append(point)

    def result(self, pods: str, policy: str, seed: int, n_pods: int, n_failed: int) -> Result:
        """Returns the curves."""
        allocated, fragmented, rate = (
            [self._mean(bucket, which) for bucket in range(LAST + 1)] for which in range(3)
        )
        return Result(pods, policy, seed, allocated, fragmented, rate, n_pods, n_failed)

    def _mean(self, bucket: int, which: int) -> float:
        """Returns the mean of a bucket; an empty one takes its neighbours' points."""
        points = self._points[bucket] or [
            point
            for near in (bucket - 1, bucket + 1)
            if 0 <= near <= LAST
            for point in self._points[near]
        ]
        values: npt.NDArray[np.float64] = np.array([point[which] for point in points])
        return round(float(values.mean()), 4) if len(values) else float("nan")


def _milli(node: Node) -> int:
    return int(str(node.status.allocatable["cpu"]).removesuffix("m"))


def all_runs(
    lists: Sequence[str] = LISTS,
    policies: Sequence[str] = POLICIES,
    seeds: Sequence[int] = SEEDS,
) -> list[tuple[str, str, int]]:
    """Returns all runs: list, policy and seed, by seed."""
    return [(pods, policy, seed) for seed in seeds for pods in lists for policy in policies]
