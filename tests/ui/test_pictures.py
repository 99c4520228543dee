"""The pictures of the guide: made by the page itself, and always of its present state."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from mooring.scenario.results import write_results
from tests.helpers.page import node, pod
from tests.helpers.scenario_files import Spec, nodes, run
from tests.helpers.scenario_files import pod as scenario_pod
from tests.ui.conftest import serving, started

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

RECORDING = Path(__file__).parents[1] / "parity" / "data" / "mixed-4.json.gz"
SCENARIO: Spec = {
    "end": {"at": "1h"},
    "cluster": {"nodes": [nodes(90, "large-", cpu="16"), nodes(160, "small-")]},
    "workload": [
        {
            "name": "web",
            "arrive": {"interval": {"every": "2s", "count": 1_500}},
            "object": scenario_pod("2"),
            "duration": "25m",
        },
        {"name": "training", "at": "5m", "create": scenario_pod(nodeSelector={"disk": "ssd"})},
        {"name": "crash", "at": "20m", "fail": {"node": "large-0", "duration": "1h"}},
    ],
}


@pytest.mark.parametrize(
    ("name", "address", "text"),
    [
        ("page-cluster", "#/cluster", "262 nodes"),
        ("page-configuration", "#/configuration", "What if"),
        ("page-decisions", "#/decisions", "default/"),
        ("page-node", "#/nodes/large-0", "1 pending pod, by reason"),
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
    keep(name, picture)


def keep(name: str, picture: bytes) -> None:
    """Checks a picture, and writes it if that is asked for."""
    # How large it is depends on how far the page has come; those of the guide are limited.
    assert len(picture) > 20_000
    if os.environ.get(_WRITES):
        (FOLDER / f"{name}.png").write_bytes(picture)
    assert (FOLDER / f"{name}.png").stat().st_size <= SIZE_BYTES_MAX


def test_the_guide_shows_the_player_of_a_recording(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path, "ui", f"--recording={RECORDING}") as mooring:
        page = browser.new_page(viewport={"width": 1100, "height": 920})
        page.goto(mooring.address)
        steps = (*range(3, 34, 3), 34)
        show_all(page, "Position: step", {step: f"step {step}" for step in steps})
        expect(page.locator(".player output")).to_contain_text("step 34 of 41; default/")
        keep("page-recording", page.screenshot())
        page.close()


def test_the_guide_shows_the_player_of_a_result(browser: Browser, tmp_path: Path) -> None:
    write_results(run(tmp_path, SCENARIO), str(tmp_path / "out"))
    with serving(tmp_path, "ui", f"--result={tmp_path / 'out'}") as mooring:
        page = browser.new_page(viewport={"width": 1100, "height": 920})
        page.goto(mooring.address)
        minutes = range(2, 51, 3)
        show_all(page, "Position: time", {at * 60_000_000: f"time {at} min" for at in minutes})
        expect(page.locator(".player output")).to_contain_text("time 50 min of 1 h")
        keep("page-result", page.screenshot())
        page.close()


def show_all(page: Page, slider: str, positions: Mapping[int, str]) -> None:
    """Goes to positions one by one; each becomes a point of the curves, a row of their table."""
    page.get_by_role("button", name="Curves as a table").click()
    times = page.get_by_role("table", name="Over the").get_by_role("row")
    for position, text in positions.items():
        page.get_by_role("slider", name=slider).fill(str(position))
        expect(times.nth(1)).to_contain_text(text)
    page.get_by_role("button", name="Curves as a table").click()
