"""Planted bugs: all fit the code, and the recorded seed of each detects it.

``MOORING_SEEDS=1000`` tries all; by default one of three is tried, since each takes a run.
"""

from __future__ import annotations

import os

import pytest

from tests.faults.hunts import detected_by
from tests.faults.planted import ALL_BUGS
from tests.helpers.paths import ROOT

BY_NAME = {bug.name: bug for bug in ALL_BUGS}
STEP = 1 if int(os.environ.get("MOORING_SEEDS", "200")) >= 1000 else 3


def test_each_bug_has_a_name_of_its_own() -> None:
    assert len(BY_NAME) == len(ALL_BUGS)


def test_no_two_bugs_are_equal() -> None:
    names: dict[str, list[str]] = {}
    for bug in ALL_BUGS:
        names.setdefault(bug.planted_source(), []).append(bug.name)
    assert [equal for equal in names.values() if len(equal) > 1] == []


def test_the_page_has_the_numbers_of_bugs_and_of_recorded_seeds() -> None:
    page = (ROOT / "docs/concepts/planted-bugs.md").read_text(encoding="utf-8")
    n_recorded = sum(bug.seed is not None for bug in ALL_BUGS)
    assert f"| {len(ALL_BUGS)} bugs by the change of one line" in page
    assert f"For {n_recorded} of them a run and its seed are recorded" in page


@pytest.mark.parametrize("name", BY_NAME)
def test_a_bug_can_be_planted(name: str) -> None:
    bug = BY_NAME[name]
    before = getattr(bug.owner, bug.function)
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        assert getattr(bug.owner, bug.function) is not before


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [bug.name for bug in ALL_BUGS if bug.seed is not None][::STEP])
def test_a_bug_is_detected_by_its_seed(name: str) -> None:
    bug = BY_NAME[name]
    assert bug.seed is not None
    assert detected_by(bug, bug.seed)


# A run that a planted bug has ended leaves coroutines, which may be collected here.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_without_a_bug_a_seed_of_each_kind_of_runs_detects_nothing() -> None:
    nothing = BY_NAME["second_rejector"]._replace(before="sorted(", after="sorted(")
    for runs in ("swarm", "volume", "lease"):
        assert detected_by(nothing._replace(runs=runs), 0) == ""
