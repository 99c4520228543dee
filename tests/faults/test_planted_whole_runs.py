"""The harness finds each planted bug within a few seeds.

To print the seeds and violations: ``python -m tests.faults.planted.whole_runs``.
"""

from __future__ import annotations

import pytest

from tests.faults.planted.whole_runs import MUTATIONS, SWARM_MUTATIONS, Patch, hunt

#: The search ends at the first seed that finds the bug.
SEEDS = 120
#: Where it begins: what ``python -m tests.faults.planted.whole_runs`` prints, 0 by default.
FIRST_SEEDS = {
    "count_one_less": 1,
    "apply_old_events": 1,
    "hold_the_deleted": 3,
    "ignore_retry_after": 1,
    "stop_at_a_break": 3,
    "never_stop_pausing": 4,
    "evict_again": 2,
    "retry_broken_bindings": 12,
    "forbid_the_first": 4,
    "lose_columns_that_grow": 9,
    "forget_second_term": 9,
    "trust_conflicts": 1,
    "retry_without_backoff": 5,
    "allow_with_one_plugin": 1,
}
BY_NAME = {mutation.__name__: mutation for mutation in (*MUTATIONS, *SWARM_MUTATIONS)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(BY_NAME))
def test_a_planted_bug_is_found(name: str) -> None:
    assert hunt(BY_NAME[name], range(FIRST_SEEDS.get(name, 0), SEEDS)) is not None


def test_the_first_seeds_are_those_of_planted_bugs() -> None:
    assert set(FIRST_SEEDS) <= set(BY_NAME)


def test_without_a_planted_bug_the_same_seeds_find_nothing() -> None:
    def plant_nothing(patch: Patch) -> None:
        """Changes nothing."""

    assert hunt(plant_nothing, range(3)) is None
