"""What the scheduling queue costs: events that find 10 000 or 100 000 parked pods, and a pod's way.

Run it with ``python -m bench queue``. The pods are of 100 signatures, refused by the real
NodeResourcesFit; only this process's CPU time counts, with the garbage collector off. It prints the
machine, the median of three runs, and their least and most.

- elsewhere: 1 000 events that NodeResourcesFit did not register for.
- no help, pure hint: 1 000 new nodes that are too small; the hint is asked once a signature.
- no help, impure hint: 10 such nodes, with the same hint asked for every pod.
- helps all: one node on which each of them fits; they all go to the active queue.
- in flight: 1 000 events while the pods are tried, each parked after all of them.
- way of a pod: add, pop, park, woken by an event, pop; without what plugins take.
"""

from __future__ import annotations

import argparse
import gc
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from msgspec.structs import replace as changed

from bench.machine import machine
from mooring.clock import SystemClock, VirtualClock
from mooring.cluster_event import ActionType, ClusterEvent, ClusterEventWithHint, EventResource
from mooring.framework import Framework, Profile
from mooring.plugins.node_resources.fit import NodeResourcesFit
from mooring.plugins.priority_sort import PrioritySort
from mooring.queue import QueueName, SchedulingQueue
from mooring.state import PodInfo
from mooring.testing import make_node, make_pod

RUNS = 3
PODS = (10_000, 100_000)
SIGNATURES = 100
EVENTS = 1_000
IMPURE_EVENTS = 10

#: The bars of the design: an event that wakes 100 000 pods, and a pod's way beside its plugins.
BAR_HELPS_ALL_S = 1.0
BAR_WAY_US = 40.0

NODE_ADD = ClusterEvent(EventResource.NODE, ActionType.ADD)
PV_ADD = ClusterEvent(EventResource.PERSISTENT_VOLUME, ActionType.ADD)
SMALL = make_node("small", allocatable={"cpu": "10m", "memory": "1Mi"})
LARGE = make_node("large", allocatable={"cpu": "64", "memory": "512Gi"})
REFUSED_BY = (NodeResourcesFit.name,)

_clock = SystemClock()


class Impure(NodeResourcesFit):
    """The same plugin, which does not say that its hints depend on its signature alone."""

    def events(self) -> list[ClusterEventWithHint]:
        """As the real one, for every pod by itself."""
        return [replace(wanted, pure=False) for wanted in super().events()]


class World(NamedTuple):
    """A queue, and the clock that it reads."""

    queue: SchedulingQueue
    clock: VirtualClock


def make_infos(count: int, framework: Framework) -> list[PodInfo]:
    """Pods of ``SIGNATURES`` sizes; signed, as they are when they are parked."""
    sizes = [
        make_pod(requests={"cpu": f"{100 + kind}m", "memory": "1Gi"}) for kind in range(SIGNATURES)
    ]
    infos = []
    for number in range(count):
        like = sizes[number % SIGNATURES]
        metadata = changed(like.metadata, name=f"pod-{number}", uid=f"uid-{number}")
        infos.append(PodInfo(changed(like, metadata=metadata)))
        framework.fragment(NodeResourcesFit.name, infos[-1])
    return infos


def make_framework(plugin: NodeResourcesFit) -> Framework:
    """One profile with that plugin."""
    points: dict[str, list[Any]] = {
        "less": [PrioritySort()],
        "pre_filter": [plugin],
        "filter": [plugin],
    }
    return Framework(Profile("default-scheduler", points, {}), clock=VirtualClock())


def empty(framework: Framework) -> World:
    """A queue without pods."""
    clock = VirtualClock()
    return World(SchedulingQueue({"default-scheduler": framework}, clock=clock), clock)


def parked(framework: Framework, infos: Sequence[PodInfo]) -> World:
    """A queue in which all pods are parked, their backoff over."""
    world = empty(framework)
    for info in infos:
        world.queue.add(info)
    park_all(world.queue)
    world.clock.advance(60)
    return world


def park_all(queue: SchedulingQueue) -> None:
    """Try every pod once; none fits."""
    while (entry := queue.pop()) is not None:
        with queue.in_flight(entry):
            queue.add_unschedulable(entry, entry.pod, refused_by=REFUSED_BY)


def cpu_us(work: Callable[[], None]) -> float:
    """CPU microseconds that it took."""
    gc.collect()
    gc.disable()
    started_s = _clock.cpu_s()
    work()
    taken_s = _clock.cpu_s() - started_s
    gc.enable()
    return taken_s * 1e6


def happen(queue: SchedulingQueue, event: ClusterEvent, count: int) -> Callable[[], None]:
    """So many small nodes, or other things that help nobody."""

    def work() -> None:
        for _ in range(count):
            queue.move(event, None, SMALL)

    return work


def measure(count: int) -> dict[str, tuple[float, int]]:
    """CPU microseconds of each scenario, and the number of events or pods that they are for."""
    framework, impure = make_framework(NodeResourcesFit()), make_framework(Impure())
    infos = make_infos(count, framework)
    world = parked(framework, infos)
    queue, found = world.queue, {}
    found["elsewhere"] = cpu_us(happen(queue, PV_ADD, EVENTS)), EVENTS
    found["no help, pure hint"] = cpu_us(happen(queue, NODE_ADD, EVENTS)), EVENTS
    assert queue.counts()[QueueName.UNSCHEDULABLE] == count
    found["helps all"] = cpu_us(lambda: queue.move(NODE_ADD, None, LARGE)), 1
    assert queue.counts()[QueueName.ACTIVE] == count
    found["in flight"] = cpu_us(lambda: try_during_events(queue)), EVENTS
    asked = parked(impure, infos).queue
    found["no help, impure hint"] = cpu_us(happen(asked, NODE_ADD, IMPURE_EVENTS)), IMPURE_EVENTS
    assert asked.counts()[QueueName.UNSCHEDULABLE] == count
    found["way of a pod"] = cpu_us(lambda: way(framework, infos)), count
    return found


def try_during_events(queue: SchedulingQueue) -> None:
    """256 pods are in flight while nodes come that help nobody."""
    entries = [entry for _ in range(256) if (entry := queue.pop()) is not None]
    happen(queue, NODE_ADD, EVENTS)()
    for entry in entries:
        with queue.in_flight(entry):
            queue.add_unschedulable(entry, entry.pod, refused_by=REFUSED_BY)
    assert queue.in_flight_events == 0


def way(framework: Framework, infos: Sequence[PodInfo]) -> None:
    """All pods come, are tried, parked, woken, and tried again."""
    queue, clock = empty(framework)
    for info in infos:
        queue.add(info)
    park_all(queue)
    clock.advance(60)
    queue.move(NODE_ADD, None, LARGE)
    while (entry := queue.pop()) is not None:
        queue.done(entry.uid)


def main(arguments: list[str]) -> int:
    """Measure, print, and say whether the bars are met."""
    parser = argparse.ArgumentParser(prog="python -m bench queue", description=__doc__)
    parser.add_argument("--pods", type=int, nargs="+", default=PODS, help="how many are parked")
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args(arguments)
    print(f"{machine()}, {options.runs} runs, {SIGNATURES} signatures")
    head = f"{'CPU us, median (least, most)':30}{'an event or pod':>38}{'and parked pod':>16}"
    print(head)
    is_met = True
    for count in options.pods:
        runs = [measure(count) for _ in range(options.runs)]
        for name, (_, units) in runs[0].items():
            each = sorted(run[name][0] / units for run in runs)
            print(line(name, count, each))
            is_met = is_met and is_within(name, statistics.median(each))
    bars = f"{BAR_HELPS_ALL_S:g} s for helps all, {BAR_WAY_US:g} us for the way of a pod"
    print(f"bars, medians: {bars}: {'met' if is_met else 'MISSED'}")
    return 0 if is_met else 1


def line(name: str, count: int, each: Sequence[float]) -> str:
    """One scenario; what a parked pod adds to an event only where an event is measured."""
    median = statistics.median(each)
    spread = f"{median:,.1f} ({each[0]:,.1f}, {each[-1]:,.1f})"
    is_of_pods = name == "way of a pod"
    per_pod = "" if is_of_pods else f"{median / count:.4f}"
    return f"{name:22}{count:8,}{spread:>38}{per_pod:>16}"


def is_within(name: str, median_us: float) -> bool:
    """Whether a scenario keeps its bar, if it has one."""
    bars = {"helps all": BAR_HELPS_ALL_S * 1e6, "way of a pod": BAR_WAY_US}
    return median_us <= bars.get(name, median_us)
