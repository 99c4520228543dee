"""Users who change the very pods that the scheduler is working on, with all faults."""

from __future__ import annotations

import os
from collections import Counter
from typing import Final

import pytest

from tests.faults.harness.records import compared
from tests.faults.harness.revision import commit
from tests.faults.harness.scenario import Report, run_scenario
from tests.faults.harness.swarm import reactive
from tests.faults.harness.trace import InvariantBroken

#: MOORING_SEEDS=1000 runs more of them.
SEEDS = int(os.environ.get("MOORING_SEEDS", "200")) // 20
BLOCK = 10

#: The least number of each in ten runs: about a third of what was counted.
LEAST: Final = {
    "bound": 5,
    "failed": 8,
    "placed": 15,
    "refused deletion": 2,
    "victim": 1,
    "waits": 6,
}


def run(seed: int) -> Report:
    try:
        return compared("reactive", seed, lambda _: run_scenario(reactive(seed)))
    except InvariantBroken as broken:
        message = f"reactive seed {seed} at commit {commit()}: {broken}"
        raise AssertionError(message) from broken


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_every_invariant_holds_while_users_react(first: int) -> None:
    paths = sum((run(seed).paths for seed in range(first, first + BLOCK)), Counter[str]())

    reactions = Counter[str]()
    for name, count in paths.items():
        if name.startswith("reacts "):
            point = name.removeprefix("reacts ")
            reactions[point if point == "refused deletion" else point.split()[0]] += count
    assert {point: reactions[point] for point in LEAST if reactions[point] < LEAST[point]} == {}
