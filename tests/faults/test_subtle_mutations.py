"""Subtle bugs: all fit the code, and the recorded seed of each detects it.

``MOORING_SEEDS=1000`` tries all; by default one of three is tried, since each takes a run.
"""

from __future__ import annotations

import os

import pytest

from tests.faults.hunts import ALL_BUGS, JOINT_SEED_OF, PART_SEED_OF, SEED_OF, detected_by

BY_NAME = {bug.name: bug for bug in ALL_BUGS}
STEP = 1 if int(os.environ.get("MOORING_SEEDS", "200")) >= 1000 else 3


@pytest.mark.parametrize("name", BY_NAME)
def test_a_subtle_bug_can_be_planted(name: str) -> None:
    bug = BY_NAME[name]
    before = getattr(bug.owner, bug.function)
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        assert getattr(bug.owner, bug.function) is not before


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(SEED_OF)[::STEP])
def test_a_subtle_bug_is_detected_by_its_seed(name: str) -> None:
    assert detected_by(BY_NAME[name], SEED_OF[name])


@pytest.mark.parametrize("name", list(PART_SEED_OF)[::STEP])
def test_a_subtle_bug_is_detected_by_a_seed_of_a_part(name: str) -> None:
    kind, seed = PART_SEED_OF[name]

    assert detected_by(BY_NAME[name], seed, kind)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(JOINT_SEED_OF)[::STEP])
def test_a_bug_of_two_parts_is_detected_by_its_seed(name: str) -> None:
    kind, seed = JOINT_SEED_OF[name]

    assert detected_by(BY_NAME[name], seed, kind)


# A run that a planted bug has ended leaves coroutines, which may be collected here.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_without_a_bug_a_seed_of_each_kind_of_runs_detects_nothing() -> None:
    nothing = BY_NAME["second_rejector"]._replace(before="sorted(", after="sorted(")
    for runs in ("swarm", "volume", "lease"):
        assert detected_by(nothing._replace(runs=runs), 0) == ""
