"""Scenarios: a queue whose waits are known from theory, and how long a million pods take.

One server that serves pods one after another, with random arrivals and run times (M/M/1), has a
mean wait of load / (1 - load) run times. The second part runs pods that come, run and leave on
many nodes, and prints time and memory.
"""

from __future__ import annotations

import argparse
import math
import resource
import sys
import tempfile
import time
from pathlib import Path

from bench.machine import machine
from mooring.scenario.measures import MEASURES
from mooring.study.scenario import Scenario, ScenarioResult

#: Largest accepted difference of the mean wait from theory, as a share.
BAR_THEORY = 0.02
BAR_S = 300.0
BAR_MIB = 1024.0


def pod(cpu: str) -> dict[str, object]:
    """Return a pod."""
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}


def nodes(count: int, cpu: str) -> dict[str, object]:
    """Return nodes."""
    amounts = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    return {"count": count, "name": "n-", "template": {"status": {"allocatable": amounts}}}


def run(scenario: Scenario, what: str) -> tuple[ScenarioResult, float]:
    """Run a scenario, and print its time."""
    started_s = time.perf_counter()
    result = scenario.run()
    seconds = time.perf_counter() - started_s
    n_pods = len(result.pods)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{what}: {n_pods} pods, {result.summary['attempts.mean']:.2f} attempts each, in"
        f" {seconds:.1f} s ({1e6 * seconds / n_pods:.0f} us a pod), at most {peak_mib:.0f} MiB",
        flush=True,
    )
    return result, seconds


def queue(n_pods: int, load: float) -> float:
    """Run one server; return how far its mean wait is from theory, in standard errors' sense."""
    service_s = 600.0
    scenario = Scenario(
        seed=1,
        cluster={"nodes": [nodes(1, "1")]},
        pods={"duration": {"exponential": {"mean": service_s}}},
        workload=[
            {
                "name": "q",
                "arrive": {"poisson": {"rate": f"{load * 6:g}/h", "count": n_pods}},
                "object": pod("1"),
            }
        ],
    )
    result, _ = run(scenario, f"one server, load {load}")
    expected_s = load / (1 - load) * service_s
    mean_s = result.summary["wait.mean"]
    # Standard error of the mean wait of an M/M/1 queue over n arrivals (Whitt 1989), relative.
    error = math.sqrt(2 * (1 + load) / (n_pods * (1 - load) ** 2)) / load**0.5
    print(
        f"  mean wait {mean_s:.1f} s, by theory {expected_s:.1f} s: {mean_s / expected_s - 1:+.2%}"
        f" (chance alone: about {error:.2%})"
    )
    return abs(mean_s / expected_s - 1)


def main(arguments: list[str]) -> int:
    """Print both parts; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pods", type=int, default=1_000_000)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--queue-pods", type=int, default=1_000_000)
    parser.add_argument("--load", type=float, default=0.8)
    options = parser.parse_args(arguments)
    print(machine())
    rate = f"{options.nodes / 100:g}/s"
    scenario = Scenario(
        seed=1,
        cluster={"nodes": [nodes(options.nodes, "16")]},
        pods={"duration": {"exponential": {"mean": "10m"}}},
        workload=[
            {
                "name": "p",
                "arrive": {"poisson": {"rate": rate, "count": options.pods}},
                "object": pod("1"),
            }
        ],
    )
    result, seconds = run(scenario, f"{options.nodes} nodes")
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    missed = []
    if options.pods >= 1_000_000 and seconds > BAR_S:
        missed.append(f"{seconds:.0f} s, the bar is {BAR_S:.0f} s")
    if peak_mib > BAR_MIB:
        missed.append(f"{peak_mib:.0f} MiB, the bar is {BAR_MIB:.0f} MiB")
    with tempfile.TemporaryDirectory() as folder:
        result.write(folder)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        print(f"  {len(MEASURES)} kinds of measures, tables of {size / 1e6:.1f} MB")
    del result
    difference = queue(options.queue_pods, options.load)
    if difference > BAR_THEORY:
        missed.append(f"mean wait {difference:.2%} from theory, the bar is {BAR_THEORY:.0%}")
    for text in missed:
        print(f"MISSED: {text}")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
