"""A report in a browser: drawn without a network, in both themes and on paper."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from mooring.report import (
    Plot,
    Section,
    bars_with_intervals,
    cdf_by_group,
    heat_map,
    html_report,
    stacked_areas,
    step_curves,
)
from tests.ui.test_accessibility import AXE

#: A pod's name, if a tool without validation wrote it.
EVIL = "</script><script>window.evil = 1</script><img src=x onerror='window.evil = 2'>"
#: Waits for the charts to follow the window, at most 200 frames.
RESIZED = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  const width = () => document.querySelector("#chart-1 svg").clientWidth;
  for (let count = 0; count < 200 && width() > 360; count++) await frame();
}"""
TIMES = [600 * step for step in range(145)]


def curves() -> Plot:
    table: dict[str, Any] = {
        "time_s": TIMES,
        "cpu": [0.5 + 0.4 * math.sin(time_s / 9000) for time_s in TIMES],
        EVIL: [0.4 for _ in TIMES],
    }
    return step_curves(
        "Allocated", table, curves=["cpu", EVIL], y_title="allocated", is_share=True, summary=EVIL
    )


def plots() -> list[Plot]:
    reasons = {f"reason {number}.[{number}]": [number] * len(TIMES) for number in range(25)}
    waits: dict[str, Any] = {
        "wait_s": [number * number % 97 for number in range(500)],
        "g": [0, 1, 2, EVIL] * 125,
    }
    bars: dict[str, Any] = {
        "name": [EVIL, "pack"],
        "mean": [10.0, 8.0],
        "low": [9.0, -math.inf],
        "high": [11.0, math.inf],
    }
    fill: dict[str, Any] = {
        "begin_s": [0, 3600, 0, 3600],
        "end_s": [3600, 7200, 3600, 7200],
        "group": ["a", "a", EVIL, EVIL],
        "fill": [0.0, 1.0, 0.5, math.nan],
    }
    empty: dict[str, Any] = {"time_s": [], "cpu": []}
    return [
        curves(),
        stacked_areas("Pending", {"time_s": TIMES} | reasons, areas=[*reasons], y_title="pods"),
        cdf_by_group("Waits", waits, value="wait_s", group="g", x_title="wait (s)", is_log=True),
        bars_with_intervals(
            "Cost", bars, name="name", mean="mean", low="low", high="high", x_title="USD"
        ),
        heat_map("Fill", fill, group="group", share="fill", legend="allocated"),
        step_curves("Nothing", empty, curves=["cpu"], y_title="share"),
    ]


def report() -> str:
    sections = [
        Section("Verdict", text=["pack is better.", EVIL]),
        Section("Measures", tables={"All": {"measure": ["wait.p99", EVIL], "value": [1.5, 2]}}),
        Section("Over time", plots=plots()),
    ]
    return html_report(f"Friday {EVIL}", sections, inputs={"scenario": "kind: Scenario\n" * 9})


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    """Opens the report from disk; fails if it had an error or asked for anything."""
    path = tmp_path / "report.html"
    path.write_text(report(), encoding="utf-8")
    context: BrowserContext = browser.new_context(viewport={"width": 1000, "height": 800})
    context.set_default_timeout(15_000)
    problems: list[str] = []
    page = context.new_page()
    page.on("console", lambda message: problems.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: problems.append(f"request: {request.url}"))
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-charts=done]")
    assert problems.pop(0) == f"request: {path.as_uri()}"
    yield page
    context.close()
    assert problems == []


def test_every_chart_is_drawn(page: Page) -> None:
    assert page.locator("figure").count() == 6
    assert page.locator(".chart svg").count() == 5
    assert page.get_by_text("No data.").count() == 1
    assert page.get_by_text("cannot be drawn").count() == 0
    for chart, text in (("chart-1", "time (h)"), ("chart-3", "wait (s)"), ("chart-4", "USD")):
        assert text in page.locator(f"#{chart} svg").text_content()  # type: ignore[operator]
    # Two curves with more than one point: what is drawn has a height.
    for index in range(2):
        box = page.locator("#chart-1 .mark-line path").nth(index).bounding_box()
        assert box is not None
        assert box["width"] > 500


def test_names_stay_text(page: Page) -> None:
    assert page.evaluate("window.evil") is None
    assert page.locator("img").count() == 0
    assert page.title() == f"Friday {EVIL}"
    assert page.locator("h1").text_content() == f"Friday {EVIL}"
    assert "window.evil" in (page.locator("#chart-1 svg").text_content() or "")


def test_the_tooltip_of_a_chart_is_text(page: Page) -> None:
    page.locator("#chart-4 .mark-rect path").first.hover()

    assert page.evaluate("window.evil") is None


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_barriers(page: Page, theme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    for summary in page.locator("summary").all():
        summary.click()
    # The policy of the page allows no other script: axe is evaluated by the debugger.
    page.evaluate(AXE.read_text())
    result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")

    found = [f"{item['id']}: {item['nodes'][0]['html'][:120]}" for item in result["violations"]]
    assert found == []


def test_charts_have_the_colours_of_the_theme(page: Page) -> None:
    label = page.locator("#chart-1 .role-axis-label text").first
    colour = "element => getComputedStyle(element).fill"

    page.emulate_media(color_scheme="light")
    light = label.evaluate(colour)
    page.emulate_media(color_scheme="dark")
    dark = label.evaluate(colour)
    page.emulate_media(color_scheme="dark", media="print")
    paper = label.evaluate(colour)

    assert (light, dark, paper) == ("rgb(27, 31, 36)", "rgb(232, 234, 237)", "rgb(0, 0, 0)")


def test_short_tables_are_printed(page: Page) -> None:
    opened = "document.querySelectorAll('details[open]').length"

    assert page.evaluate(f"dispatchEvent(new Event('beforeprint')), {opened}") == 4
    assert page.evaluate(f"dispatchEvent(new Event('afterprint')), {opened}") == 0
    assert re.match(rb"%PDF-", page.pdf())


def test_the_report_fits_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.evaluate(RESIZED)

    assert page.evaluate("document.documentElement.scrollWidth") <= 360
