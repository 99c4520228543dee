"""Replays one seed: ``python -m tests.faults.replay SEED`` prints its trace and its result.

With ``--digest`` it prints the trace's SHA-256 alone.
"""

from __future__ import annotations

import logging
import sys

from tests.faults.harness.scenario import Scenario, run_scenario
from tests.faults.harness.trace import InvariantBroken, Trace


def main(seed: int, *, digest_only: bool) -> int:
    """Returns 0 if every invariant holds."""
    trace = Trace()
    try:
        report = run_scenario(Scenario(seed), trace)
    except InvariantBroken as broken:
        print("\n".join(trace.lines))
        print(f"seed {seed}: {broken}")
        return 1
    if digest_only:
        print(report.digest)
        return 0
    print("\n".join(trace.lines))
    fired = ", ".join(f"{name} {count}" for name, count in sorted(report.fired.items()))
    print(f"seed {seed}: {report.binds} bound in {report.attempts} attempts; faults: {fired}")
    return 0


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    sys.exit(main(int(sys.argv[1]), digest_only="--digest" in sys.argv))
