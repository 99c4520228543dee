"""The harness still finds bugs: each one that is planted, within a few seeds.

Which seed finds which, and how: ``python -m tests.faults.mutations``.
"""

from __future__ import annotations

import pytest

from tests.faults.mutations import MUTATIONS, Patch, hunt

#: The first that finds it ends the hunt; most are found by one of the first ten.
SEEDS = 120
BY_NAME = {mutation.__name__: mutation for mutation in MUTATIONS}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(BY_NAME))
def test_a_planted_bug_is_found(name: str) -> None:
    assert hunt(BY_NAME[name], range(SEEDS)) is not None


def test_without_a_planted_bug_the_same_seeds_find_nothing() -> None:
    def plant_nothing(patch: Patch) -> None:
        """As it is."""

    assert hunt(plant_nothing, range(3)) is None
