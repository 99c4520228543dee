"""The scripts and styles that a report carries."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import mooring.report
from mooring.report.vendor import VENDORED, scripts, style

FOLDER = Path(mooring.report.__file__).parent
VENDOR = FOLDER / "vendor"


def test_vendored_files_are_those_that_are_listed() -> None:
    listed = json.loads((VENDOR / "vendor.json").read_text())

    assert {path.name for path in VENDOR.glob("*.js")} == set(listed) == set(VENDORED)
    for name, entry in listed.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == entry["sha256"], name
        assert entry["package"] == name.removesuffix(".min.js")
        assert re.fullmatch(r"\d+\.\d+\.\d+", entry["version"])
        assert entry["licences"]


def test_every_licence_is_there_and_listed() -> None:
    listed = json.loads((VENDOR / "vendor.json").read_text())

    names = {name for entry in listed.values() for name in entry["licences"]}

    assert {path.name for path in VENDOR.glob("LICENSE-*.txt")} == names
    assert "d3-array" in (VENDOR / "LICENSE-third-party.txt").read_text()


def test_scripts_can_stand_in_a_page() -> None:
    for text in scripts():
        assert not re.search(r"</script|<script|<!--|sourceMappingURL", text, re.IGNORECASE)
    assert "</style" not in style()


def test_our_script_makes_no_markup_of_text() -> None:
    text = (FOLDER / "static" / "page.js").read_text()

    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)
    assert not re.search(r"https?://|url\(|@import", text + style())
