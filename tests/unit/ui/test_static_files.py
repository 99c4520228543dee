"""The files of the page: their weight, their origin, and what they may not contain."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import mooring.ui

STATIC = Path(mooring.ui.__file__).parent / "static"
VENDOR = STATIC / "vendor"
OWN = sorted(path for path in STATIC.iterdir() if path.is_file())


def test_all_files_together_weigh_at_most_200_kb() -> None:
    sizes = [path.stat().st_size for path in STATIC.rglob("*") if path.is_file()]

    assert sum(sizes) <= 200_000


def test_vendored_files_are_those_that_are_listed() -> None:
    listed = json.loads((VENDOR / "vendor.json").read_text())
    served = {path.name for path in VENDOR.iterdir() if path.suffix in (".js", ".css")}

    assert served == set(listed)
    for name, entry in listed.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == entry["sha256"]
        licences = re.findall(r"LICENSE-\w+\.txt", " ".join(entry["contains"]))
        assert licences
        assert all((VENDOR / licence).is_file() for licence in licences)


def test_names_reach_the_page_as_text_only() -> None:
    for path in OWN:
        text = path.read_text()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)
        assert "dangerouslySetInnerHTML" not in text


def test_nothing_is_loaded_from_elsewhere() -> None:
    for path in OWN:
        addresses = re.findall(r"https?://[^\"'\s<]+", path.read_text())
        assert set(addresses) <= {"http://www.w3.org/2000/svg"}, path.name


def test_the_page_loads_files_that_exist() -> None:
    addresses = re.findall(r'(?:href|src)="/static/([^"]+)"', (STATIC / "index.html").read_text())

    assert len(addresses) >= 5
    assert all((STATIC / address).is_file() for address in addresses)


def test_modules_import_files_that_exist() -> None:
    for path in STATIC.glob("*.js"):
        for name in re.findall(r'from "(\./[^"]+)"', path.read_text()):
            assert (STATIC / name).is_file(), f"{path.name} imports {name}"


def test_markup_has_no_inline_code_or_styles() -> None:
    text = (STATIC / "index.html").read_text()

    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*src=)", text)
