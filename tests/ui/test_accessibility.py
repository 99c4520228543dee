"""Every view in both themes, checked with axe."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import expect

from tests.ui.conftest import Open

AXE = Path(__file__).parent / "data" / "axe.min.js"
VIEWS = {
    "#/cluster": "Cluster",
    "#/nodes/node-c": "Node node-c",
    "#/pods": "Pods",
    "#/pods/default/late": "Pod default/late",
    "#/pods/default/web-1": "Pod default/web-1",
    "#/queue": "Queue",
    "#/decisions": "Decisions",
    "#/objects": "Objects",
    "#/configuration": "Configuration",
}

#: Waits until the page is no wider than the window; the policy of the page allows no
#: ``wait_for_function``.
FITS = """async width => {
    for (const end = Date.now() + 10000; Date.now() < end; ) {
        await new Promise(requestAnimationFrame);
        if (document.documentElement.scrollWidth <= width) return true;
    }
    return false;
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_view_has_a_barrier(open_page: Open, theme: Literal["light", "dark"]) -> None:
    page = open_page()
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    problems: dict[str, list[str]] = {}
    for address, title in VIEWS.items():
        page.evaluate("address => { location.hash = address }", address)
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
        page.wait_for_load_state("networkidle" if address == "#/pods/default/late" else "load")
        # The policy of the page allows no inline script: axe is evaluated by the debugger.
        page.evaluate(AXE.read_text())
        result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        found = [f"{item['id']}: {item['nodes'][0]['html'][:120]}" for item in result["violations"]]
        if found:
            problems[address] = found
    assert problems == {}


def test_the_page_fits_a_phone(open_page: Open) -> None:
    page = open_page()
    page.set_viewport_size({"width": 360, "height": 740})
    for address, title in VIEWS.items():
        page.evaluate("address => { location.hash = address }", address)
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
        # The map is drawn anew after the window has changed.
        assert page.evaluate(FITS, 360), address
