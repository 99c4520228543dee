"""The pictures of the guide: made by the page itself, and always of its present state."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.helpers.page import node, pod
from tests.ui.conftest import started

FOLDER = Path(__file__).parents[2] / "docs" / "guides" / "images"
#: Set it to write the pictures of the guide anew.
_WRITES = "MOORING_WRITE_PICTURES"
#: The README shows one of them.
SIZE_BYTES_MAX = 180_000
OBJECTS = [
    *(
        node(f"{kind}-{number}", cpu, **{"node.kubernetes.io/instance-type": kind})
        for kind, cpu, count in (("large", "16", 90), ("small", "4", 160), ("huge", "64", 12))
        for number in range(count)
    ),
    *(pod(f"web-{number:03}", f"{1 + number % 4}") for number in range(420)),
    *(pod(f"batch-{number}", "30") for number in range(9)),
    pod("training", "60"),
]


@pytest.mark.parametrize(
    ("name", "address", "text"),
    [
        ("page-cluster", "#/cluster", "262 nodes"),
        ("page-configuration", "#/configuration", "What if"),
        ("page-decisions", "#/decisions", "default/training"),
        ("page-node", "#/nodes/huge-0", "on this node"),
        ("page-objects", "#/objects", "Export all objects"),
        ("page-pod", "#/pods/default/training", "It would fit with"),
        ("page-queue", "#/queue", "Unschedulable"),
    ],
)
def test_the_guide_shows_the_page(
    browser: Browser, tmp_path: Path, name: str, address: str, text: str
) -> None:
    with started(tmp_path, OBJECTS) as mooring:
        page = browser.new_page(viewport={"width": 1100, "height": 760})
        page.goto(mooring.address)
        expect(
            page.get_by_text("430 bound", exact=False).or_(page.get_by_text("429 bound"))
        ).to_be_visible(timeout=30_000)
        page.evaluate("address => { location.hash = address }", address)
        expect(page.get_by_text(text).first).to_be_visible(timeout=30_000)
        picture = page.screenshot()
        page.close()
    assert 20_000 < len(picture) <= SIZE_BYTES_MAX
    if os.environ.get(_WRITES):
        (FOLDER / f"{name}.png").write_bytes(picture)
    assert (FOLDER / f"{name}.png").stat().st_size <= SIZE_BYTES_MAX
