"""The harness finds each planted bug within a few seeds.

To print the seeds and violations: ``python -m tests.faults.planted.whole_runs``.
"""

from __future__ import annotations

import pytest

from tests.faults.planted.whole_runs import MUTATIONS, SWARM_MUTATIONS, Patch, hunt

#: The search ends at the first seed that finds the bug, mostly one of the first ten.
SEEDS = 120
BY_NAME = {mutation.__name__: mutation for mutation in (*MUTATIONS, *SWARM_MUTATIONS)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(BY_NAME))
def test_a_planted_bug_is_found(name: str) -> None:
    assert hunt(BY_NAME[name], range(SEEDS)) is not None


def test_without_a_planted_bug_the_same_seeds_find_nothing() -> None:
    def plant_nothing(patch: Patch) -> None:
        """Changes nothing."""

    assert hunt(plant_nothing, range(3)) is None
