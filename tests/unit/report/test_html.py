"""The HTML file of a report."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from mooring.errors import ConfigError
from mooring.report import Plot, Section, html_report, step_curves
from mooring.report.sections import ROWS_SHOWN_MAX

EVIL = "</script><script>alert(1)</script><!--<img src=x onerror=alert(1)>&amp;\u2028'\""


class Parsed(HTMLParser):
    """The elements of a page: their tags, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.specs: list[str] = []
        self._current: dict[str, str | None] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self._current = dict(attrs) | {"tag": tag}

    def handle_data(self, data: str) -> None:
        if self._current.get("type") == "application/json":
            self.specs.append(data)
            self._current = {}
        elif self._current.get("tag") not in ("script", "style"):
            self.text += data


def body_of(sections: list[Section]) -> str:
    """Returns the sections of a page, without the scripts after them."""
    text = html_report("t", sections)
    return text[text.index("<main>") : text.index("</main>")]


def evil_report() -> str:
    table = {"time_s": [0, 1], EVIL: [1, 2]}
    plot = step_curves(EVIL, table, curves=[EVIL], y_title=EVIL, summary=EVIL)
    section = Section(EVIL, text=[EVIL], tables={EVIL: {EVIL: [EVIL]}}, plots=[plot])
    return html_report(EVIL, [section], inputs={EVIL: EVIL})


def test_names_are_text_wherever_they_stand() -> None:
    plain = html_report("t", [Section("s", plots=[Plot("p", {}, {"a": [1]})])])
    parsed = Parsed(evil_report())

    # Our four scripts and the data of the chart; nothing of the name is an element.
    assert parsed.tags.count("script") == Parsed(plain).tags.count("script") == 5
    assert "img" not in parsed.tags
    assert not [name for name, _ in parsed.attributes if name.startswith("on")]
    assert parsed.text.count("<img src=x onerror=alert(1)>") == 13
    (spec,) = parsed.specs
    assert not set("<>&\u2028") & set(spec)
    assert json.loads(spec)["data"]["values"][0]["series"] == EVIL


def test_the_policy_allows_no_request_and_no_other_script() -> None:
    text = html_report("t", [])

    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in policy[1].replace("&#x27;", "'").split("; "))
    assert rules["default-src"] == "'none'"
    assert re.fullmatch(r"('sha256-[A-Za-z0-9+/]{43}=' ?){4}", rules["script-src"])
    assert "connect-src" not in rules


def test_a_report_without_data_weighs_at_most_1_2_mb() -> None:
    assert len(html_report("t", []).encode()) <= 1_200_000


def test_equal_input_gives_equal_text() -> None:
    assert evil_report() == evil_report()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "inf"),
        (True, "yes"),
        (3, "3"),
        (0.1 + 0.2, "0.3"),
        (1234567.8, "1.23457e+06"),
        (1073741824.0, "1073741824"),
        (1e300, "1e+300"),
        ("a < b", "a &lt; b"),
        ({"k": "<"}, "{&quot;k&quot;: &quot;&lt;&quot;}"),
    ],
)
def test_cells(value: Any, shown: str) -> None:
    body = body_of([Section("s", tables={"c": {"a": [value]}})])

    assert re.findall(r"<td[^>]*>(.*?)</td>", body) == [shown]


def test_numbers_are_aligned_and_headings_are_marked() -> None:
    text = html_report("t", [Section("s", tables={"c": {"pod": ["a"], "wait": [2]}})])

    assert '<th scope="col">pod</th><th scope="col" class="number">wait</th>' in text
    assert '<td>a</td><td class="number">2</td>' in text


def test_long_tables_are_cut_and_say_so() -> None:
    n = ROWS_SHOWN_MAX + 1
    text = body_of([Section("s", tables={"All pods": {"a": list(range(n))}})])

    assert text.count("<td") == ROWS_SHOWN_MAX
    assert f"All pods (the first {ROWS_SHOWN_MAX} of {n} rows)" in text


def test_every_chart_has_its_table() -> None:
    plots = [
        step_curves(title, {"time_s": [0], "a": [1]}, curves=["a"], y_title="y")
        for title in ("One", "Two")
    ]

    text = html_report("t", [Section("s", plots=plots)])

    for number, title in ((1, "One"), (2, "Two")):
        assert f'<div class="chart" id="chart-{number}" role="img"' in text
        assert f"<table><caption>{title}</caption>" in text
    assert text.count("<summary>Values (1 rows)</summary>") == 2


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (Section("Waits", tables={"all": {}}), "Waits.all: must have a column"),
        (Section("S", plots=[Plot("P", {"a": object()}, {"a": [1]})]), "P: is not JSON"),
    ],
)
def test_malformed_parts_are_refused(section: Section, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        html_report("t", [section])

    assert message in str(caught.value)


def test_a_chart_without_values_says_so() -> None:
    plot = step_curves("Fill", {"time_s": [0], "a": [None]}, curves=["a"], y_title="y")

    body = body_of([Section("s", plots=[plot])])

    assert plot.spec["data"] == {"values": []}
    assert "<p>No data.</p>" in body
    assert 'class="chart"' not in body
