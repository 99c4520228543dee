"""The cost of metrics: microseconds a decision with and without them, in turns in one process.

Both kinds of run decide the same pods on a fresh cluster. Their order changes from turn to turn, so
that a slow moment of the machine meets both. The figure is the ratio of the lower quartiles; the
bar is 5 % for each workload.
"""

from __future__ import annotations

import argparse
import statistics
import sys

import numpy as np

from bench.ladder import WORKLOADS, measure
from bench.machine import machine

#: Limit of the share of a decision that metrics may take, percent.
BAR_PERCENT = 5.0

NAMES = ("basic", "taints and affinity", "spread by default", "preemption")


def main(arguments: list[str]) -> int:
    """Print a line for each workload; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=2_000)
    parser.add_argument("--pods", type=int, default=2_500)
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--workload", choices=list(WORKLOADS), nargs="*", default=list(NAMES))
    options = parser.parse_args(arguments)
    print(f"{machine()}, numpy {np.__version__}")
    print(
        f"{options.pods} pods on {options.nodes} nodes, {options.turns} turns, CPU time; us a"
        " decision: lower quartile (best, worst)"
    )
    met = True
    for name in options.workload:
        figures: dict[bool, list[float]] = {False: [], True: []}
        for turn in range(options.turns):
            for with_metrics in (turn % 2 == 0, turn % 2 == 1):
                run = measure(
                    WORKLOADS[name], options.nodes, options.pods, with_metrics=with_metrics
                )
                figures[with_metrics].append(run.us_per_pod)
        met = _report(name, figures[False], figures[True]) and met
    return 0 if met else 1


def _report(name: str, without: list[float], recorded: list[float]) -> bool:
    quarters = [
        statistics.quantiles(figures, n=4, method="inclusive")[0] for figures in (without, recorded)
    ]
    percent = 100 * (quarters[1] / quarters[0] - 1)
    texts = [
        f"{quarter:.1f} ({min(figures):.1f}, {max(figures):.1f})"
        for quarter, figures in zip(quarters, (without, recorded), strict=True)
    ]
    print(f"{name:25} without {texts[0]}, with {texts[1]} us: {percent:+.1f} %", flush=True)
    if percent > BAR_PERCENT:
        print(f"  MISSED: the bar is {BAR_PERCENT:.0f} %")
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
