"""The page on paper: tables with their titles, within the width of a sheet, and no controls."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.ui.conftest import Open

#: The width of A4 without margins of 1 cm, at 96 pixels an inch.
WIDTH = 718
VIEWS = {
    "#/cluster": "Nodes",
    "#/nodes/node-a": "on this node",
    "#/pods": "pods",
    "#/pods/default/late": "Each node: the weighted score",
    "#/queue": "Unschedulable",
    "#/decisions": "The latest decisions",
}
#: Texts of what is cut: too wide for its frame, or beyond the edge of the sheet.
CUT = """width => [...document.querySelectorAll('main, .table, pre, table, td, th')]
    .filter(item => item.offsetParent !== null)
    .filter(item => item.getBoundingClientRect().right > width + 1
        || (getComputedStyle(item).overflowX !== 'visible' && item.scrollWidth > item.clientWidth))
    .map(item => `${item.tagName}: ${item.textContent.slice(0, 60)}`)"""


def printed(page: Page, address: str, caption: str) -> None:
    page.evaluate("address => { location.hash = address }", address)
    if address == "#/cluster":
        page.get_by_role("button", name="Table", exact=True).click()
    expect(page.get_by_role("table", name=caption).first).to_be_visible()
    page.emulate_media(media="print")


@pytest.mark.parametrize("theme", ["dark"])
def test_a_printed_page_has_its_tables_and_no_controls(
    open_page: Open, theme: Literal["dark"]
) -> None:
    page = open_page()
    page.set_viewport_size({"width": WIDTH, "height": 1000})
    for address, caption in VIEWS.items():
        page.emulate_media(media="screen", color_scheme=theme)
        printed(page, address, caption)
        table = page.get_by_role("table", name=caption).first
        for title in table.locator("th").all():
            assert title.inner_text().strip(), f"{address}: a column without a title"
        assert page.evaluate(CUT, WIDTH) == [], address
        controls = page.locator("select, input, textarea, nav a, button:not(th button)")
        assert [own.inner_text() for own in controls.all() if own.is_visible()] == [], address
        colour = page.evaluate("getComputedStyle(document.body).color")
        assert colour == "rgb(27, 31, 36)", "dark text, since paper is white"
    assert page.pdf(format="A4").startswith(b"%PDF")
