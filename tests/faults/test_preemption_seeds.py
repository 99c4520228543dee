"""Crowded clusters with everything going wrong: pods make room for others all the time."""

from __future__ import annotations

import os

import pytest

from tests.faults.harness.scenario import Report, Scenario, run_scenario
from tests.faults.harness.trace import InvariantBroken

#: MOORING_SEEDS=1000 runs more of them.
SEEDS = int(os.environ.get("MOORING_SEEDS", "200")) // 4
BLOCK = 10


def crowded(seed: int) -> Report:
    """More pods than the nodes can take; a third of them go first, a third are protected."""
    try:
        return run_scenario(Scenario(seed, nodes=4, n_safe=2, pods=45))
    except InvariantBroken as broken:
        raise AssertionError(f"crowded seed {seed}: {broken}") from broken


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_every_invariant_holds_while_pods_make_room_for_others(first: int) -> None:
    reports = [crowded(seed) for seed in range(first, first + BLOCK)]

    # What did not happen shows nothing.
    assert sum(report.preemptions for report in reports) > 3 * BLOCK


def test_a_crowded_seed_says_the_same_again() -> None:
    assert crowded(3).digest == crowded(3).digest
