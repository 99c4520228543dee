"""A journey through ``mooring ui --result``, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from mooring.scenario.results import write_results
from tests.helpers.scenario_files import Spec, nodes, pod, run
from tests.ui.conftest import Open, Started, serving

AXE = Path(__file__).parent / "data" / "axe.min.js"
SPEC: Spec = {
    "end": {"at": "1h"},
    "cluster": {"nodes": [nodes(2)]},
    "workload": [
        {
            "name": "web",
            "arrive": {"interval": {"every": "1m", "count": 4}},
            "object": pod("2"),
            "duration": "30m",
        },
        {"name": "late", "at": "5m", "create": pod("3")},
        {"name": "crash", "at": "10m", "fail": {"node": "node-0", "duration": "20m"}},
    ],
}


@pytest.fixture
def mooring(tmp_path: Path) -> Iterator[Started]:
    """The page over a run of an hour: a pod is refused, a node crashes."""
    write_results(run(tmp_path, SPEC), str(tmp_path / "out"))
    with serving(tmp_path, "ui", f"--result={tmp_path / 'out'}") as running:
        yield running


def at(page: Page, text: str) -> None:
    expect(page.locator(".player output")).to_have_text(re.compile(f"^time {text} of 1 h(;|$)"))


def test_results_are_stepped_scrubbed_and_played(open_page: Open) -> None:
    page = open_page()
    at(page, "0 s")
    navigation = page.get_by_role("navigation")
    expect(navigation.get_by_role("link")).to_have_text(["Cluster", "Pods", "Queue", "Decisions"])
    slider = page.get_by_role("slider", name="Position: time")

    slider.focus()
    page.keyboard.press("ArrowRight")
    at(page, "1 min")
    page.keyboard.press("ArrowRight")
    at(page, "2 min")
    page.keyboard.press("ArrowLeft")
    at(page, "1 min")
    expect(slider).to_have_attribute("aria-valuetext", "time 1 min")
    expect(page.get_by_text("2 bound")).to_be_visible()
    page.get_by_role("button", name="Next marker").click()
    expect(page.locator(".player output")).to_contain_text("attempt refused: default/late")
    expect(page.get_by_text("1 unschedulable")).to_be_visible()

    navigation.get_by_role("link", name="Queue").click()
    expect(page.get_by_role("table", name="Unschedulable")).to_contain_text("Insufficient cpu")
    page.get_by_role("link", name="default/late").click()
    expect(page.get_by_text("a decision cannot be explained")).to_be_visible()
    expect(page.get_by_text("No small change would help")).to_have_count(0)
    attempts = page.get_by_role("table", name="Attempts")
    expect(attempts).to_contain_text("5 min")
    expect(attempts).to_contain_text("Insufficient cpu")

    page.get_by_role("button", name="Next marker").click()
    expect(page.locator(".player output")).to_contain_text("node failed: node-0")
    slider.fill(str(11 * 60 * 1_000_000))
    at(page, "11 min")
    navigation.get_by_role("link", name="Cluster").click()
    page.get_by_role("button", name="Table", exact=True).click()
    row = page.get_by_role("row", name="node-0")
    expect(row).to_contain_text("not ready")
    row.get_by_role("link", name="node-0").click()
    expect(page.get_by_text("Results have no verdicts on nodes.")).to_be_visible()
    navigation.get_by_role("link", name="Cluster").click()
    page.get_by_role("button", name="Table", exact=True).click()
    expect(row).to_contain_text("not ready")
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.evaluate(AXE.read_text())
        result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        assert [item["id"] for item in result["violations"]] == []

    page.get_by_role("combobox", name="Speed").select_option("6 h a second")
    page.get_by_role("button", name="Play").click()
    at(page, "1 h")
    expect(page.get_by_role("button", name="Step forward")).to_be_disabled()
    expect(row).to_contain_text("ready")
    page.set_viewport_size({"width": 360, "height": 740})
    navigation.get_by_role("link", name="Decisions").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Decisions")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
