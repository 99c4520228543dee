"""The text format: what client_golang would write."""

from __future__ import annotations

import math

import pytest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.samples import Sample

from mooring.metrics.text import number_text, render


@pytest.mark.parametrize(
    ("number", "text"),
    [
        # Printed by strconv.FormatFloat(number, 'g', -1, 64) of Go 1.26.
        (0.0, "0"),
        (12.0, "12"),
        (999999.0, "999999"),
        (1000000.0, "1e+06"),
        (1234567.0, "1.234567e+06"),
        (1000000.5, "1.0000005e+06"),
        (67108864.0, "6.7108864e+07"),
        (1732123456.789, "1.732123456789e+09"),
        (1e21, "1e+21"),
        (1.5e300, "1.5e+300"),
        (0.1, "0.1"),
        (0.0001, "0.0001"),
        (0.00049, "0.00049"),
        (1e-05, "1e-05"),
        (5e-324, "5e-324"),
        (-5.0, "-5"),
        (-1e7, "-1e+07"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers_are_written_as_go_writes_them(number: float, text: str) -> None:
    assert number_text(number) == text


def metric(name: str, kind: str, *samples: Sample, help_text: str = "Help.") -> Metric:
    found = Metric(name, help_text, kind)
    found.samples = list(samples)
    return found


def test_families_come_by_name_and_empty_ones_not_at_all() -> None:
    families = [
        metric("b", "gauge", Sample("b", {}, 2)),
        metric("empty", "counter"),
        metric("a", "gauge", Sample("a", {}, 1)),
    ]
    assert render(families).decode() == (
        "# HELP a Help.\n# TYPE a gauge\na 1\n# HELP b Help.\n# TYPE b gauge\nb 2\n"
    )


def test_labels_come_by_name_and_the_bound_last() -> None:
    sample = Sample("h_bucket", {"z": "1", "le": "+Inf", "m": "2"}, 3)
    assert render([metric("h", "histogram", sample)]).decode().splitlines()[-1] == (
        'h_bucket{m="2",z="1",le="+Inf"} 3'
    )


def test_special_characters_are_escaped() -> None:
    sample = Sample("a", {"b": 'quote " backslash \\ end\n'}, 1)
    text = render([metric("a", "gauge", sample, help_text="two\nlines \\")]).decode()
    assert text.splitlines() == [
        "# HELP a two\\nlines \\\\",
        "# TYPE a gauge",
        'a{b="quote \\" backslash \\\\ end\\n"} 1',
    ]


def test_counters_of_prometheus_client_get_their_suffix_and_no_creation_time() -> None:
    counter = CounterMetricFamily("calls", "Calls.", labels=["verb"], created=5.0)
    counter.add_metric(["bind"], 2, created=5.0)
    assert render([counter]).decode() == (
        "# HELP calls_total Calls.\n# TYPE calls_total counter\n" + 'calls_total{verb="bind"} 2\n'
    )


def test_the_first_of_two_families_of_one_name_is_shown() -> None:
    families = [
        metric("a", "gauge", Sample("a", {}, 1)),
        metric("a", "gauge", Sample("a", {}, 2)),
    ]
    assert render(families).decode().count("# TYPE a ") == 1
