"""Every test that docs/concepts/faults.md names exists, and every fault has a row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/concepts/faults.md").read_text(encoding="utf-8")

ROWS = [
    *(f"F{number}" for number in range(1, 20)),
    *(f"S{number}" for number in range(1, 10)),
    *(f"L{number}" for number in range(1, 8)),
    "M1",
    "M2",
]


def coverage() -> str:
    """Returns the chapter with the tables."""
    return PAGE.partition("\n## Coverage\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("row", ROWS)
def test_every_fault_and_invariant_has_a_row(row: str) -> None:
    assert coverage().count(f"\n| {row} |") == 1


def test_the_tests_of_the_tables_exist() -> None:
    path = ""
    names = re.findall(r"`((?:tests|bench)/[\w/.]+?)(?:::(\w+))?`|`::(\w+)`", coverage())
    for named, first, other in names:
        path = named or path
        assert (ROOT / path).exists(), path
        if test := first or other:
            assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), test
    assert len(names) > 50
