"""Crowded clusters with all faults: many preemptions."""

from __future__ import annotations

import os

import pytest

from tests.faults.harness.records import compared
from tests.faults.harness.revision import commit
from tests.faults.harness.scenario import Report, run_scenario
from tests.faults.harness.swarm import crowded
from tests.faults.harness.trace import InvariantBroken

#: MOORING_SEEDS=1000 runs more of them.
SEEDS = int(os.environ.get("MOORING_SEEDS", "200")) // 10
BLOCK = 10


def run(seed: int) -> Report:
    """Runs more pods than fit; a third of them have a high priority, a third are protected."""
    try:
        return compared("crowd", seed, lambda _: run_scenario(crowded(seed)))
    except InvariantBroken as broken:
        message = f"crowded seed {seed} at commit {commit()}: {broken}"
        raise AssertionError(message) from broken


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_every_invariant_holds_under_preemption(first: int) -> None:
    reports = [run(seed) for seed in range(first, first + BLOCK)]

    assert sum(report.preemptions for report in reports) > 3 * BLOCK


def test_a_crowded_seed_has_the_same_trace_again() -> None:
    assert run(3).digest == run(3).digest
