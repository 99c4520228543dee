"""The page of flags is the one that the tables in the source give."""

from __future__ import annotations

from tools.flags_page import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "run: python tools/flags_page.py"
