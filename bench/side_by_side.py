"""mooring beside kube-scheduler: the same pods, the same real kube-apiserver, in turn.

``python -m bench side_by_side``: backlog (all pods exist before the scheduler starts; pods/s from
the first binding to the last) and stream (pods are created while it runs; pods/s from the first
create to the last binding, and how long a pod waits from create to bound), 500 and 5 000 nodes.
``--python`` gives the interpreter that runs mooring: builds of Python differ in speed. Pods that
are spread or have affinity (names of the workloads of the ladder) have 5 000 nodes and come as a
backlog.

``null`` binds in turn and decides nothing; ``null-events`` writes an event for each pod as well.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from bench.machine import machine
from bench.side_run import SCHEDULERS, Case, Result, run

BASIC: Final = "basic"
#: What is compared: the ladder's workloads by name.
MODES: Final = ("backlog", "stream")
WORKLOADS: Final = (BASIC, "spread hard", "anti-affinity", "preferred affinity")

#: mooring must bind so many times as many pods a second as kube-scheduler ...
FASTER: Final = 1.1
#: ... if the pods are not basic, and deciding is what takes long, so many ...
MUCH_FASTER: Final = 2.0
#: ... with at most this share of its CPU.
CPU_SHARE: Final = 0.5


def main(arguments: list[str]) -> int:
    """Run every case, print the table; 1 if a bar is missed."""
    words = _parser().parse_args(arguments)
    print(machine())
    if words.python != sys.executable:
        print(f"mooring runs on {_version(words.python)}")
    missed = 0
    for workload in words.workloads:
        is_basic = workload == BASIC
        for mode in words.modes if is_basic else ("backlog",):
            for nodes in words.nodes if is_basic else (max(words.nodes),):
                missed += _compare(workload, mode, nodes, words)
    return int(missed > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[500, 5000])
    parser.add_argument("--pods", type=int, default=3000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--schedulers", nargs="+", choices=SCHEDULERS, default=list(SCHEDULERS))
    parser.add_argument(
        "--python",
        default=sys.executable,
        help="runs mooring; builds of Python differ in speed",
    )
    parser.add_argument("--rate", type=float, default=0.0, help="pods a second in stream; 0 = all")
    return parser


def _version(python: str) -> str:
    """Returns which Python an interpreter is, and how it was built."""
    program = "import sys; print(sys.version.replace(chr(10), ' '))"
    asked = subprocess.run([python, "-c", program], check=True, capture_output=True, text=True)
    return f"Python {asked.stdout.strip()}"


def _compare(workload: str, mode: str, nodes: int, words: argparse.Namespace) -> int:
    """One block of the table; how many bars are missed."""
    results: dict[str, list[Result]] = {name: [] for name in words.schedulers}
    for _ in range(words.runs):
        # In turn, so that what else the machine does befalls all of them.
        for name, found in results.items():
            case = Case(name, mode, nodes, words.pods, words.rate, workload, python=words.python)
            found.append(run(case))
    rate = f" at {words.rate:g} pods/s" if words.rate and mode == "stream" else ""
    print(
        f"\n{workload}, {mode}{rate}, {nodes} nodes, {words.pods} pods, {words.runs} runs: ", end=""
    )
    print("median (all)")
    for name, found in results.items():
        print(f"  {name:<15}" + "  ".join(_columns(found, mode)), flush=True)
    if "mooring" not in results or "kube-scheduler" not in results:
        return 0
    bar = FASTER if workload == BASIC else MUCH_FASTER
    if words.rate:
        bar = 0.0
    return _judge(results["mooring"], results["kube-scheduler"], mode, bar)


def _columns(found: Sequence[Result], mode: str) -> Iterator[str]:
    speed = [each.pods_per_s for each in found]
    every = ", ".join(f"{value:.0f}" for value in sorted(speed))
    yield f"{statistics.median(speed):6.0f} pods/s ({every})"
    yield f"{_median(found, 'scheduler_us'):6.0f} us/pod"
    yield f"server {_median(found, 'server_us'):6.0f} us/pod"
    yield f"{_median(found, 'rss_bytes') / (1 << 20):5.0f} MiB"
    if mode == "stream":
        yield f"p50 {1e3 * _median(found, 'p50_s'):7.1f} ms"
        yield f"p99 {1e3 * _median(found, 'p99_s'):7.1f} ms"


def _median(found: Sequence[Result], what: str) -> float:
    return float(statistics.median(getattr(each, what) for each in found))


def _judge(ours: Sequence[Result], theirs: Sequence[Result], mode: str, bar: float) -> int:
    """Print the ratios; how many bars are missed."""
    faster = _median(ours, "pods_per_s") / _median(theirs, "pods_per_s")
    share = _median(ours, "scheduler_us") / _median(theirs, "scheduler_us")
    missed = int(share > CPU_SHARE) + int(faster < bar)
    text = f"  mooring / kube-scheduler: pods/s {faster:.2f} (bar {bar}), CPU {share:.2f} "
    text += f"(bar {CPU_SHARE})"
    if mode == "stream":
        p50 = _median(ours, "p50_s") / _median(theirs, "p50_s")
        p99 = _median(ours, "p99_s") / _median(theirs, "p99_s")
        missed += int(p50 > 1) + int(p99 > 1)
        text += f", p50 {p50:.2f}, p99 {p99:.2f} (bar 1)"
    print(text + (": missed" if missed else ""), flush=True)
    return missed
