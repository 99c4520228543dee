"""Seeds of single parts: thousands of calls each, and no whole system around them.

``MOORING_SEEDS=1000`` runs more of them. A seed is repeated with ``run_queue(17)``, and the like.
"""

from __future__ import annotations

import os

import pytest

from tests.faults.harness.records import compared
from tests.faults.parts.runs import KINDS_OF, PART_RUNS

#: Seeds of each kind: a tenth of those of whole runs, and twice as many of what is cheap.
SEEDS = int(os.environ.get("MOORING_SEEDS", "200")) // 10
CHEAP = 2
SLOW = (
    *("queue", "state", "status", "claims", "cycle", "elector", "slots", "volumes", "hints"),
    *("broken", "wiring", "silent_extender"),
)


@pytest.mark.parametrize("kind", PART_RUNS)
def test_each_part_does_what_its_model_does(kind: str) -> None:
    for seed in range(SEEDS if kind in SLOW else CHEAP * SEEDS):
        try:
            compared(kind, seed, PART_RUNS[kind])
        except AssertionError as error:
            raise AssertionError(f"run_{kind}({seed}): {error}") from error


def test_each_kind_of_runs_is_for_a_package() -> None:
    assert {kind for kinds in KINDS_OF.values() for kind in kinds} == set(PART_RUNS)
