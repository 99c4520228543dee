"""Replays one seed: ``python -m tests.faults.replay SEED`` prints its trace and its result.

Options:
    --digest      print the trace's SHA-256 alone
    --pod NAME    print only the lines about a pod, and those about faults
    --shrink      look for the smallest scenario that breaks the same rule first
    --kind KIND   run a seed of another kind, and print all that is recorded of it: one of
                  ``kinds.KINDS``, such as crowd, lease, queue
    --entries FIRST-END   print only a part of that: between two seconds, or of a run of a single
                  part between two numbers of entries
"""

from __future__ import annotations

import argparse
import logging
import sys

from tests.faults.harness.recording import recording
from tests.faults.harness.records import entries_between
from tests.faults.harness.revision import commit
from tests.faults.harness.scenario import Scenario, drawn_faults, run_scenario
from tests.faults.harness.shrink import shrink
from tests.faults.harness.swarm import scenario_of
from tests.faults.harness.trace import InvariantBroken, Trace
from tests.faults.kinds import KINDS


def main(arguments: list[str]) -> int:
    """Returns 0 if every invariant holds."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.replay")
    parser.add_argument("seed", type=int)
    parser.add_argument("--digest", action="store_true")
    parser.add_argument("--pod", default="", metavar="NAME")
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--kind", choices=KINDS, metavar="KIND")
    parser.add_argument("--entries", type=_bounds, metavar="FIRST-END")
    words = parser.parse_args(arguments)
    if words.entries and not words.kind:
        parser.error("--entries needs --kind")
    if words.kind:
        return _print_entries(words.kind, words.seed, words.entries or (0, sys.maxsize))
    scenario = scenario_of(words.seed)
    if words.shrink:
        smallest = shrink(scenario)
        scenario = smallest.scenario
        print(f"after {smallest.n_runs} runs: {scenario}")
    return _replay(scenario, pod=words.pod, digest_only=words.digest)


def _bounds(text: str) -> tuple[int, int]:
    first, _, end = text.partition("-")
    return int(first), int(end)


def _print_entries(kind: str, seed: int, bounds: tuple[int, int]) -> int:
    broken: Exception | None = None
    with recording(kind, seed) as recorded:
        try:
            KINDS[kind].run(seed)
        except (AssertionError, ExceptionGroup) as error:
            broken = error
    for entry in entries_between(kind, recorded.entries, *bounds):
        print(entry)
    if broken is not None:
        print(f"{kind} seed {seed} at commit {commit()}: {broken}")
        return 1
    return 0


def _replay(scenario: Scenario, *, pod: str, digest_only: bool) -> int:
    trace = Trace()
    try:
        report = run_scenario(scenario, trace)
    except InvariantBroken as broken:
        print("\n".join(trace.story(pod)))
        print(f"rates: {drawn_faults(scenario)}")
        print(f"seed {scenario.seed} at commit {commit()}: {broken}")
        return 1
    if digest_only:
        print(report.digest)
        return 0
    print("\n".join(trace.story(pod)))
    fired = ", ".join(f"{name} {count}" for name, count in sorted(report.fired.items()))
    result = f"{report.binds} bound in {report.attempts} attempts; faults: {fired}"
    print(f"seed {scenario.seed}: {result}")
    return 0


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    sys.exit(main(sys.argv[1:]))
