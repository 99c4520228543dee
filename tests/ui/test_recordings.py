"""Journeys through ``mooring ui --recording``, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.ui.conftest import Open, Started, serving

RECORDING = Path(__file__).parents[1] / "parity" / "data" / "preemption-4.json.gz"
AXE = Path(__file__).parent / "data" / "axe.min.js"


@pytest.fixture
def mooring(tmp_path: Path) -> Iterator[Started]:
    """The page over a recording of 50 steps."""
    with serving(tmp_path, "ui", f"--recording={RECORDING}") as running:
        yield running


def at(page: Page, step: int) -> None:
    expect(page.locator(".player output")).to_contain_text(f"step {step} of 50")


def test_a_recording_is_stepped_scrubbed_and_played(open_page: Open) -> None:
    page = open_page()
    at(page, 0)
    expect(page.get_by_text("0 decisions/s")).to_be_visible()
    navigation = page.get_by_role("navigation")
    expect(navigation.get_by_role("link")).to_have_text(["Cluster", "Pods", "Queue", "Decisions"])

    page.get_by_role("button", name="Curves as a table").click()
    seen = page.get_by_role("table", name="Over the steps").get_by_role("row")
    page.get_by_role("button", name="Step forward").click()
    at(page, 1)
    page.get_by_role("slider", name="Position: step").fill("40")
    at(page, 40)
    expect(seen.nth(1)).to_contain_text("step 40")  # the cluster of this step has arrived, too
    page.get_by_role("button", name="Previous marker").click()
    expect(page.locator(".player output")).to_contain_text("default/")
    page.get_by_role("slider", name="Position: step").fill("10")
    at(page, 10)
    navigation.get_by_role("link", name="Decisions").click()
    expect(page.get_by_role("table", name="The latest decisions").get_by_role("row")).to_have_count(
        11
    )

    navigation.get_by_role("link", name="Cluster").click()
    page.get_by_role("button", name="Curves as a table").click()
    expect(seen.nth(1)).to_contain_text("step 40")
    expect(seen.last).to_contain_text("step 0")

    page.get_by_role("combobox", name="Speed").select_option("100")
    page.get_by_role("button", name="Play").click()
    at(page, 50)
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    expect(page.get_by_role("button", name="Step forward")).to_be_disabled()


def test_a_step_shows_its_verdicts_and_why(open_page: Open) -> None:
    page = open_page()
    page.get_by_role("button", name="Next marker").click()
    output = page.locator(".player output")
    expect(output).to_contain_text("default/")
    page.get_by_role("navigation").get_by_role("link", name="Decisions").click()
    first = page.get_by_role("table", name="The latest decisions").get_by_role("row").nth(1)
    first.get_by_role("link", name="the verdict on each node").click()
    expect(page.get_by_role("table", name="the weighted score")).to_contain_text("Insufficient")

    verdicts = page.get_by_role("table", name="the weighted score")
    verdicts.get_by_role("row").filter(has_text="Insufficient").first.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Node ")
    rejected = page.get_by_role("table", name="by reason")
    expect(rejected).to_contain_text("Insufficient")
    expect(rejected.get_by_role("link", name="step ").first).to_be_visible()
    page.go_back()
    page.get_by_role("link", name="default/").first.click()
    expect(page.get_by_text("This is the decision of step")).to_be_visible()
    expect(page.locator(".summary")).to_contain_text("nodes")
    expect(page.get_by_role("button", name="Delete")).to_have_count(0)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_player_has_no_barrier(open_page: Open, theme: str) -> None:
    page = open_page()
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type] # a literal of its own
    page.get_by_role("slider", name="Position: step").fill("40")
    at(page, 40)
    page.evaluate(AXE.read_text())
    result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert [item["id"] for item in result["violations"]] == []
    page.set_viewport_size({"width": 360, "height": 740})
    page.get_by_role("navigation").get_by_role("link", name="Decisions").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Decisions")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
