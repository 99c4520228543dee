"""The page "Metrics" has every family, with its type, stability and labels."""

from __future__ import annotations

import re

from mooring.metrics.catalog import FAMILIES
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "reference" / "metrics.md"
_ROW = re.compile(r"^\| `(\w+)` \| ([\w ]+) \| ([\w, -]+) \| (.+) \|$", re.MULTILINE)


def test_the_page_has_every_family_once() -> None:
    rows = {name: (kind, labels) for name, kind, labels, _ in _ROW.findall(PAGE.read_text())}
    assert len(_ROW.findall(PAGE.read_text())) == len(rows)
    assert rows == {
        family.name: (
            f"{family.kind} {family.stability}".strip(),
            ", ".join(family.labels) or "-",
        )
        for family in FAMILIES
    }


def test_a_gate_is_named_in_its_rows() -> None:
    notes = {name: note for name, _, _, note in _ROW.findall(PAGE.read_text())}
    for family in FAMILIES:
        assert not family.gate or f"gate {family.gate}" in notes[family.name], family.name
