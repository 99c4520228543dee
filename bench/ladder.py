"""The ladder: what one decision costs at 100 to 15 000 nodes, and where the time goes.

Run it with ``make bench``. It prints the machine, every run's figure and their spread. A decision
is ``decide`` + ``assume``: from a pod that nobody has looked at yet to columns that count it.

Workloads (5 000 pods each, the default plugins, default configuration):

- basic: 100m cpu and 500Mi; all pods are alike.
- taints and affinity: tainted nodes, tolerations, a nodeSelector and a preferred term.
- many signatures: 1 000 different requests, interleaved: hardly an answer can be shared.
- spread hard: at most one more in any zone, and on any host, than in the emptiest.
- spread soft: the same as a preference.
- spread by default: pods of a Service that say nothing: kube-scheduler's own defaults.
- anti-affinity: not on a host with another pod like it; by namespace selector: likewise, in all
  namespaces of a unit. Affinity: in the zone of the others. Both also as preferences.
- volumes bound: a claim with a volume in one of ten zones, and nodes with limits of volumes; free:
  a claim that takes one of 10 000 local disks; made: a claim whose volume is made on the way, where
  there is room. Running pods have a bound volume each.
- preemption: every node is full, with 20 running pods of lower priorities, and five of them would
  have to go; with budgets: a third of the running pods are protected by one; with spread: zones
  must stay even besides. Room is found and not made, 200 pods.
- devices: nodes of eight devices, and pods with a claim each, all from one template; new template:
  every claim has another spec. The first pod, which reads all slices, is not counted. The decision
  ends when the devices are reserved; PreBind, which writes the claims, has a figure of its own.
- infeasible: no node has the room; every node is refused, and the message is written.
- scratch: as basic, with the sharing of answers switched off: the full pass for every pod.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from bench import affinity, devices, preemption, volumes
from bench.machine import machine
from bench.objects import running_pod
from mooring.clock import SystemClock, seeded_random
from mooring.config import default_configuration
from mooring.framework.runtime.framework import TIMED_EVERY
from mooring.metrics.registry import Metrics
from mooring.objects.codec.decode import decode
from mooring.objects.meta import ObjectMeta
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.objects.workloads import Service, ServiceSpec
from mooring.scheduler.metrics import record_frameworks
from mooring.simulation.driver import Driver
from mooring.state.cache import Cache
from mooring.testing import make_node, make_pod

LADDER = (100, 1_000, 5_000, 15_000)
PODS = 5_000
RUNS = 3

#: The bar of the design: microseconds a decision at 5 000 nodes, basic pods, numpy alone.
BAR_US = 300.0

#: The bar for pods that are spread, likewise.
SPREAD_BAR_US = 400.0

#: The bar for pods with affinity, likewise, with 100 000 running pods that have it too.
AFFINITY_BAR_US = 400.0

#: The bar for pods with volumes, likewise, with 100 000 running pods that have some, too.
VOLUMES_BAR_US = 400.0

#: The bars for pods that claim devices, likewise, with 8 devices a node.
DEVICES_BAR_US = 150.0
NEW_TEMPLATE_BAR_US = 500.0

#: The bar for pods that have to make room, likewise, with 20 running pods a node.
PREEMPTION_BAR_US = 10_000.0

#: The bar of the design: bytes of a placed pod with its row.
BAR_POD_BYTES = 1_536


class Workload(NamedTuple):
    """Nodes by number, pods by number, whether answers may be shared, and what else there is."""

    node: Callable[[int], Node]
    pod: Callable[[int], Pod]
    cache_results: bool = True
    objects: tuple[Any, ...] = ()
    bar_us: float | None = None
    #: What terms running pods have, if there are running pods.
    running: affinity.Sort = affinity.ANTI_AFFINITY
    #: Whether every node is full from the start, with pods that may have to go.
    is_full: bool = False
    #: Makes pods with volumes: what claims there are, and what running pods have.
    claims: volumes.Sort | None = None
    #: Makes nodes with devices: the specs of the pods' claims.
    devices: devices.Spec | None = None
    pods_max: int = PODS


def plain_node(number: int) -> Node:
    """4 cpu, 32Gi, 110 pods, one of ten zones: the node of kube-scheduler's own benchmarks."""
    return make_node(f"node-{number:05}", zone=f"zone-{number % 10}")


def varied_node(number: int) -> Node:
    """As the plain one; every tenth is tainted, a third has ssd."""
    return make_node(
        f"node-{number:05}",
        zone=f"zone-{number % 10}",
        labels={"disk": ("ssd", "hdd", "nvme")[number % 3]},
        taints=["gpu=yes:NoSchedule"]
        if number % 10 == 0
        else ["old:PreferNoSchedule"] * (number % 7 == 0),
    )


def basic_pod(number: int) -> Pod:
    """100m cpu, 500Mi."""
    return make_pod(f"pod-{number}", requests={"cpu": "100m", "memory": "500Mi"})


def choosy_pod(number: int) -> Pod:
    """Tolerates the taint, insists on two kinds of disk and prefers one."""
    terms = [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}]}]
    preferred = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["nvme"]}]}
    return make_pod(
        f"pod-{number}",
        requests={"cpu": "100m", "memory": "500Mi"},
        tolerations=["gpu=yes:NoSchedule"],
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 10, "preference": preferred}
                ],
            }
        },
    )


def varied_pod(number: int) -> Pod:
    """One of 1 000 different requests."""
    kind = number % 1_000
    return make_pod(
        f"pod-{number}", requests={"cpu": f"{20 + kind % 100}m", "memory": f"{100 + kind}Mi"}
    )


def huge_pod(number: int) -> Pod:
    """More cpu than any node has."""
    return make_pod(f"pod-{number}", requests={"cpu": "64", "memory": "1Gi"})


def web_pod(number: int, *, action: str = "") -> Pod:
    """A pod of the Service below; spread over zones and hosts if there is an ``action``."""
    keys = ("topology.kubernetes.io/zone", "kubernetes.io/hostname") if action else ()
    constraints = [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": action,
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
        for key in keys
    ]
    return make_pod(
        f"pod-{number}",
        requests={"cpu": "100m", "memory": "500Mi"},
        labels={"app": "web"},
        spec={"topologySpreadConstraints": constraints},
    )


WEB = Service(
    metadata=ObjectMeta(name="web", namespace="default"), spec=ServiceSpec(selector={"app": "web"})
)


def _affine(sort: affinity.Sort) -> Workload:
    return Workload(
        plain_node,
        partial(affinity.affine_pod, sort=sort),
        objects=affinity.NAMESPACES,
        bar_us=AFFINITY_BAR_US,
        running=sort,
    )


def _claiming(sort: volumes.Sort) -> Workload:
    return Workload(volumes.node, volumes.pod, bar_us=VOLUMES_BAR_US, claims=sort)


def _full(pod: Callable[[int], Pod], objects: tuple[Any, ...] = (), **more: Any) -> Workload:
    return Workload(preemption.full_node, pod, objects=objects, is_full=True, pods_max=200, **more)


def _with_devices(spec: devices.Spec, bar_us: float) -> Workload:
    return Workload(plain_node, devices.pod, bar_us=bar_us, devices=spec, pods_max=1_000)


WORKLOADS: dict[str, Workload] = {
    "basic": Workload(plain_node, basic_pod, bar_us=BAR_US),
    "taints and affinity": Workload(varied_node, choosy_pod),
    "many signatures": Workload(plain_node, varied_pod),
    "spread hard": Workload(
        plain_node, partial(web_pod, action="DoNotSchedule"), bar_us=SPREAD_BAR_US
    ),
    "spread soft": Workload(
        plain_node, partial(web_pod, action="ScheduleAnyway"), bar_us=SPREAD_BAR_US
    ),
    "spread by default": Workload(plain_node, web_pod, objects=(WEB,), bar_us=SPREAD_BAR_US),
    "anti-affinity": _affine(affinity.ANTI_AFFINITY),
    "anti-affinity by namespace selector": _affine(affinity.NAMESPACE_SELECTOR),
    "affinity": _affine(affinity.AFFINITY),
    "preferred affinity": _affine(affinity.PREFERRED_AFFINITY),
    "preferred anti-affinity": _affine(affinity.PREFERRED_ANTI_AFFINITY),
    "volumes bound": _claiming(volumes.BOUND),
    "volumes free": _claiming(volumes.FREE),
    "volumes made": _claiming(volumes.MADE),
    "devices": _with_devices(devices.known_spec, DEVICES_BAR_US),
    "devices new template": _with_devices(devices.new_spec, NEW_TEMPLATE_BAR_US),
    "preemption": _full(preemption.urgent_pod, bar_us=PREEMPTION_BAR_US),
    "preemption with budgets": _full(
        preemption.urgent_pod, preemption.budgets(), bar_us=PREEMPTION_BAR_US
    ),
    "preemption with spread": _full(preemption.spread_pod, bar_us=PREEMPTION_BAR_US),
    "infeasible": Workload(plain_node, huge_pod),
    "scratch": Workload(plain_node, basic_pod, cache_results=False),
}


class Measured(NamedTuple):
    """One run, in microseconds a pod: the decision, each plugin's share of it, and the writes.

    The writes are those of PreBind, which are not part of the decision.
    """

    us_per_pod: float
    shares: dict[str, float]
    writes_us: float = 0.0


class Scene(NamedTuple):
    """What is there: nodes and other objects, running pods (made as they are asked for), pods."""

    objects: list[Any]
    running: Iterator[Pod]
    pods: list[Pod]


def scene_of(workload: Workload, node_count: int, pod_count: int, running_count: int) -> Scene:
    """A rung as objects, for us and for others."""
    pod_count = min(pod_count, workload.pods_max)
    objects = [*map(workload.node, range(node_count)), *workload.objects]
    running_pod_of = affinity.running_pods(workload.running, node_count)
    if workload.claims is not None:
        objects += volumes.storage(workload.claims, node_count, pod_count, running_count)
        running_pod_of = volumes.running_pods(node_count)
    if workload.devices is not None:
        objects += devices.objects(workload.devices, node_count, pod_count)
    if workload.is_full:
        running_count = preemption.PODS_PER_NODE * node_count
        running_pod_of = partial(preemption.victim, node_count=node_count)
    running = map(running_pod_of, range(running_count))
    return Scene(objects, running, [workload.pod(number) for number in range(pod_count)])


def measure(
    workload: Workload,
    node_count: int,
    pod_count: int,
    *,
    running_count: int = 0,
    with_metrics: bool = False,
    percentage: int | None = None,
) -> Measured:
    """Decide and assume ``pod_count`` pods on a fresh cluster with some running pods.

    ``percentage`` is percentageOfNodesToScore; None = all nodes, 0 = kube-scheduler's number.
    """
    clock = SystemClock()
    scene = scene_of(workload, node_count, pod_count, running_count)
    pods, pod_count = scene.pods, len(scene.pods)
    driver = Driver(
        scene.objects,
        config=replace(default_configuration(), percentage_of_nodes_to_score=percentage),
        rng=seeded_random(0),
        clock=clock,
        cache_results=workload.cache_results,
    )
    if with_metrics:
        record_frameworks(Metrics(clock=clock), driver.frameworks)
    for pod in scene.running:
        driver.cache.put_pod(pod)
    writes_s = volumes.time_writes(driver, clock) if workload.claims is not None else []
    if workload.devices is not None:
        writes_s = devices.time_pre_bind(driver, clock)
        driver.apply(driver.attempt(pods.pop(0)))
        writes_s.clear()
    timed_before_s = _timed_s(driver)
    gc.collect()
    gc.disable()
    started_s = clock.cpu_s()
    for pod in pods:
        outcome = driver.attempt(pod)
        if outcome.node is not None:
            driver.apply(outcome)
        elif workload.is_full:
            assert outcome.victims
        else:
            assert outcome.message
    writes_us = sum(writes_s) * 1e6
    total_us = (clock.cpu_s() - started_s) * 1e6 - writes_us
    gc.enable()
    shares = {  # one attempt in TIMED_EVERY is timed
        plugin: (seconds - timed_before_s.get(plugin, 0.0)) * TIMED_EVERY * 1e6 / pod_count
        for plugin, seconds in _timed_s(driver).items()
    }
    sorted_shares = dict(sorted(shares.items(), key=lambda row: -row[1]))
    return Measured(total_us / pod_count, sorted_shares, writes_us / pod_count)


def _timed_s(driver: Driver) -> dict[str, float]:
    """Returns the seconds that were measured in each plugin."""
    seconds: dict[str, float] = {}
    for framework in driver.frameworks.values():
        for (plugin, _), timing in framework.timings.statistics().items():
            seconds[plugin] = seconds.get(plugin, 0.0) + timing.seconds
    return seconds


def bytes_each() -> tuple[float, float]:
    """Bytes that one node, and one placed pod with its row, take: decoded objects and all."""
    n_nodes, n_pods = 2_000, 20_000
    nodes = [msgspec.json.encode(plain_node(number)) for number in range(n_nodes)]
    pods = [running_pod(number, nodes=n_nodes) for number in range(n_pods)]
    cache = Cache()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for text in nodes:
        cache.put_node(decode(text, "Node"))
    with_nodes, _ = tracemalloc.get_traced_memory()
    for text in pods:
        cache.put_pod(decode(text, "Pod"))
    with_pods, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (with_nodes - before) / n_nodes, (with_pods - with_nodes) / n_pods


def rungs(nodes: list[int], names: list[str]) -> Iterator[tuple[str, int]]:
    """Every workload at every size."""
    for name in names:
        for node_count in nodes:
            yield name, node_count


def main(arguments: list[str]) -> int:
    """Print the ladder; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, nargs="*", default=list(LADDER))
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--running", type=int, default=0, help="running pods, put there before")
    parser.add_argument("--metrics", action="store_true", help="record the metrics of plugins")
    parser.add_argument("--workload", choices=list(WORKLOADS), nargs="*", default=list(WORKLOADS))
    parser.add_argument(
        "--node-sampling", choices=["all", "adaptive"], default="all", help="as for mooring run"
    )
    options = parser.parse_args(arguments)
    percentage = 0 if options.node_sampling == "adaptive" else None
    print(f"{machine()}, numpy {np.__version__}")
    print(
        f"{options.pods} pods beside {options.running} running ones, {options.runs} runs, CPU time;"
        " us a decision: best (median, worst)"
    )
    met = True
    for name, node_count in rungs(options.nodes, options.workload):
        runs = [
            measure(
                WORKLOADS[name],
                node_count,
                options.pods,
                running_count=options.running,
                with_metrics=options.metrics,
                percentage=percentage,
            )
            for _ in range(options.runs)
        ]
        met = _report(name, node_count, runs) and met
    node_bytes, pod_bytes = bytes_each()
    print(f"memory: {node_bytes:.0f} bytes a node, {pod_bytes:.0f} bytes a placed pod")
    if pod_bytes > BAR_POD_BYTES:
        print(f"  MISSED: the bar is {BAR_POD_BYTES} bytes a placed pod")
        met = False
    return 0 if met else 1


def _report(name: str, node_count: int, runs: list[Measured]) -> bool:
    figures: list[float] = sorted(run.us_per_pod for run in runs)
    best, middle, worst = figures[0], statistics.median(figures), figures[-1]
    top: list[Any] = list(runs[0].shares.items())[:4]
    shares = ", ".join(f"{plugin} {us:.0f}" for plugin, us in top)
    writes_us = min(run.writes_us for run in runs)
    writes = f"; writes {writes_us:.0f} us" if writes_us else ""
    print(
        f"{name:35} {node_count:6} nodes: {best:7.1f} ({middle:.1f}, {worst:.1f}) us"
        f" = {1e6 / best:7.0f} pods/s   of which {shares}{writes}"
    )
    bar_us = WORKLOADS[name].bar_us
    if bar_us is not None and node_count == 5_000 and best > bar_us:
        print(f"  MISSED: the bar is {bar_us:.0f} us")
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
