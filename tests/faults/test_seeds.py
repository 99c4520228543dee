"""Random clusters on virtual time with all faults, each generated from a seed.

A seed that fails is repeated with ``python -m tests.faults.replay SEED``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path

import pytest

from mooring.clock import seeded_random
from tests.faults.harness.faults import Faults, FaultyNetwork
from tests.faults.harness.least_counts import LEAST, too_rare
from tests.faults.harness.records import compared
from tests.faults.harness.revision import commit
from tests.faults.harness.scenario import Report, drawn_faults, run_scenario
from tests.faults.harness.swarm import crowded, scenario_of
from tests.faults.harness.trace import InvariantBroken
from tests.helpers.virtual_loop import run_virtually

ROOT = Path(__file__).resolve().parents[2]

#: MOORING_SEEDS=1000 runs more of them.
SEEDS = int(os.environ.get("MOORING_SEEDS", "200"))
BLOCK = 10

#: Runs in which the paths are counted.
PATH_SEEDS = 36
PATH_SEEDS_CROWDED = 4


def run(seed: int) -> Report:
    scenario = scenario_of(seed)
    try:
        return compared("swarm", seed, lambda _: run_scenario(scenario))
    except InvariantBroken as broken:
        replay = f"replay: python -m tests.faults.replay {seed} [--shrink] [--pod NAME]"
        message = f"{broken}\n{drawn_faults(scenario)}\n{replay}"
        raise AssertionError(f"seed {seed} at commit {commit()}: {message}") from broken


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_every_invariant_holds_under_faults(first: int) -> None:
    reports = [run(seed) for seed in range(first, first + BLOCK)]

    # Few runs may be without enough faults to be meaningful.
    assert sum(report.counts for report in reports) >= BLOCK - 3
    assert all(report.writes > report.binds for report in reports)


def test_the_swarm_takes_every_path_and_leaves_every_fault_out_at_times() -> None:
    reports = [run(seed) for seed in range(1000, 1000 + PATH_SEEDS)]
    reports += [run_scenario(crowded(seed)) for seed in range(1000, 1000 + PATH_SEEDS_CROWDED)]

    paths = sum((report.paths for report in reports), Counter())
    assert too_rare(paths) == {}
    for field in fields(Faults):
        count = sum(field.name in report.fired for report in reports)
        assert 0 < count < len(reports), field.name


def test_the_bindings_of_broken_pods_are_refused_with_each_status() -> None:
    async def codes() -> Counter[int]:
        network = FaultyNetwork(seeded_random(1))
        network.faults = replace(Faults(), broken_pods=0.5)
        counts = Counter(network.broken_code(f"pods/p{number}/binding") for number in range(400))
        assert network.fired["broken_pods"] == 400 - counts[0]
        return counts

    counts = run_virtually(codes())
    assert counts.keys() == {0, 500, 403, 409, 422}
    assert min(counts.values()) >= 20


def test_a_path_that_falls_silent_is_reported() -> None:
    assert too_rare(LEAST) == {}
    assert too_rare({**LEAST, "bound": 0}) == {"bound": (0, LEAST["bound"])}


def test_a_seed_has_the_same_trace_in_every_process() -> None:
    digests = {run(7).digest}
    for hash_seed in ("0", "4711"):
        answer = subprocess.run(
            [sys.executable, "-m", "tests.faults.replay", "7", "--digest"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(answer.stdout.strip())

    assert len(digests) == 1


def test_other_seeds_are_other_runs() -> None:
    assert len({run(seed).digest for seed in range(5)}) == 5
