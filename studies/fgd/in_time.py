"""The same policies in time: pods leave, too. ``python -m studies.fgd.in_time [--loads 0.9 1.0]``.

Pods of a list arrive in random order, one in each unit of time, and stay for an exponential time;
its mean is such that the pods would request a given share of all GPUs if all of them were placed. A
pod that fits nowhere is left out. After a warm-up the lost requests and the used GPUs are measured.
"""

from __future__ import annotations

import argparse
import heapq
import random
import statistics
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from mooring.clock import SystemClock, seeded_random
from mooring.simulation.driver import Driver
from studies.fgd.devices import Devices, GpuDevices
from studies.fgd.experiment import LISTS, SEEDS, config_of, first_name, make_policy, shuffled_nodes
from studies.fgd.fragmentation import Fragmentation
from studies.fgd.pods import Shape, make_pod, read_shapes, typical_of
from studies.fgd.policies import POLICIES

#: Mean lifetimes until the measurement begins, and that it lasts.
WARM_UP: Final = 2.0
MEASURED: Final = 3.0


class Steady(NamedTuple):
    """One run.

    Attributes:
        policy: The policy.
        lost: GPUs of pods that were left out, in per cent of the requested ones.
        allocated: Used GPUs in per cent of all, on average.
    """

    policy: str
    lost: float
    allocated: float


class _Counts:
    """Sums over the arrivals of the measurement."""

    def __init__(self) -> None:
        self.arrivals = self.requested = self.lost = self.used = 0

    def add(self, shape: Shape, used: int, *, is_placed: bool) -> None:
        """Counts an arrival."""
        self.arrivals += 1
        self.requested += shape.request
        self.lost += 0 if is_placed else shape.request
        self.used += used


def run_in_time(pods: str, policy: str, seed: int, load: float) -> Steady:
    """Runs one experiment.

    Args:
        pods: One of ``LISTS``.
        policy: One of ``POLICIES``.
        seed: Of the order of pods and nodes, of the times, and of the policy.
        load: The share of all GPUs that is requested.
    """
    rng = random.Random(f"{pods} {seed} in time")
    shapes = read_shapes(pods)
    nodes = shuffled_nodes(rng)
    devices = Devices(nodes)
    own = make_policy(policy, devices, Fragmentation(typical_of(shapes), devices.models), seed)
    gpus = GpuDevices(devices, own)
    driver = Driver(
        nodes,
        config=config_of(policy),
        plugins=[own, gpus],
        rng=seeded_random(seed),
        clock=SystemClock(),
    )
    for framework in driver.frameworks.values():
        framework.tie_break = first_name
    capacity = int(devices.counts.sum()) * 1000
    mean_life = load * capacity * len(shapes) / sum(shape.request for shape in shapes)
    leaving: list[tuple[float, str, int]] = []
    counts, used = _Counts(), 0
    for number in range(int((WARM_UP + MEASURED) * mean_life)):
        shape, life = rng.choice(shapes), rng.expovariate(1 / mean_life)
        while leaving and leaving[0][0] <= number:
            _, name, request = heapq.heappop(leaving)
            driver.remove("Pod", "default", name)
            gpus.release(name)
            used -= request
        pod = make_pod(number, shape)
        outcome = driver.attempt(pod)
        if outcome.node is not None:
            driver.apply(outcome)
            heapq.heappush(leaving, (number + life, pod.metadata.name, shape.request))
            used += shape.request
        if number >= WARM_UP * mean_life:
            counts.add(shape, used, is_placed=outcome.node is not None)
    return Steady(
        policy,
        100 * counts.lost / counts.requested,
        100 * counts.used / counts.arrivals / capacity,
    )


def main(arguments: Sequence[str]) -> int:
    """Prints a table for each load."""
    parser = argparse.ArgumentParser(prog="python -m studies.fgd.in_time", description=__doc__)
    parser.add_argument("--list", choices=LISTS, default="default", metavar="LIST")
    parser.add_argument("--loads", type=float, nargs="+", default=[0.9, 1.0])
    parser.add_argument("--seeds", type=int, choices=range(1, len(SEEDS) + 1), default=1)
    options = parser.parse_args(arguments)
    for load in options.loads:
        print(f"{options.list}, load {load:.0%}, {options.seeds} seeds\n")
        print("| policy | lost GPUs, % of requested | used GPUs, % of all |\n|---|---|---|")
        for policy in POLICIES:
            runs = [
                run_in_time(options.list, policy, seed, load) for seed in SEEDS[: options.seeds]
            ]
            lost = statistics.fmean(run.lost for run in runs)
            allocated = statistics.fmean(run.allocated for run in runs)
            print(f"| {policy} | {lost:.2f} | {allocated:.2f} |", flush=True)
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
