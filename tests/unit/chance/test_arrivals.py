"""Arrival processes against theory, and their errors."""

from __future__ import annotations

import math
from itertools import islice, pairwise
from typing import Any

import pytest

from mooring.chance import Streams, arrivals_of
from mooring.config.field_errors import FieldError
from mooring.objects.files.documents import path_text


def test_poisson_arrivals_come_at_their_rate_and_independently() -> None:
    times = instants({"poisson": {"rate": "12/min", "until": "100h"}})
    expected = 12 * 60 * 100
    assert abs(len(times) - expected) < 4 * math.sqrt(expected)
    gaps = [b - a for a, b in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    assert deviation == pytest.approx(mean, rel=0.02)
    assert sum(gap > mean for gap in gaps) / len(gaps) == pytest.approx(math.exp(-1), abs=0.01)


def test_an_interval() -> None:
    assert instants({"interval": {"every": "30s", "from": "1m", "until": "2m"}}) == [60.0, 90.0]
    assert instants({"interval": {"every": "10m", "count": 3}}) == [0.0, 600.0, 1200.0]


def test_uniform_arrivals_are_sorted_and_within_their_span() -> None:
    times = instants({"uniform": {"count": 5000, "from": "1h", "until": "3h"}})
    assert len(times) == 5000
    assert times == sorted(times)
    assert times[0] >= 3600
    assert times[-1] < 3 * 3600
    assert sum(at_s < 2 * 3600 for at_s in times) == pytest.approx(2500, abs=4 * math.sqrt(1250))


def test_bursts() -> None:
    times = instants({"bursts": {"size": 3, "every": "10m", "until": "15m"}})
    assert times == [0.0, 0.0, 0.0, 600.0, 600.0, 600.0]


def test_rates_by_the_hour() -> None:
    rates = ["0/min"] * 24
    rates[0], rates[5] = "6/min", "60/min"
    times = instants({"hourly": {"rates": rates, "until": "240h"}})
    by_hour = [0] * 24
    for at_s in times:
        by_hour[int(at_s // 3600) % 24] += 1
    assert {hour for hour, count in enumerate(by_hour) if count} == {0, 5}
    assert by_hour[0] == pytest.approx(3600, abs=4 * math.sqrt(3600))
    assert by_hour[5] == pytest.approx(36_000, abs=4 * math.sqrt(36_000))


def test_the_hours_are_those_of_the_run_also_if_the_process_begins_later() -> None:
    rates = ["0/min"] * 24
    rates[5] = "60/min"
    times = instants({"hourly": {"rates": rates, "from": "3h30m", "until": "24h"}})
    assert {int(at_s // 3600) for at_s in times} == {5}


def test_given_instants_are_sorted() -> None:
    assert instants({"at": ["2h", "0s", "10m"]}) == [0.0, 600.0, 7200.0]


@pytest.mark.parametrize(
    ("form", "is_endless"),
    [
        ({"poisson": {"rate": "1/s"}}, True),
        ({"poisson": {"rate": "1/s", "count": 5}}, False),
        ({"interval": {"every": "1s", "until": "1h"}}, False),
        ({"uniform": {"count": 3, "until": "1h"}}, False),
        ({"at": ["1s"]}, False),
    ],
)
def test_a_process_without_an_end_is_known(form: Any, is_endless: bool) -> None:
    assert arrivals_of(form, (), []).is_endless is is_endless


def test_the_rate_has_many_units() -> None:
    counts = {
        rate: len(instants({"poisson": {"rate": rate, "until": "10h"}}))
        for rate in ("1/s", "60/min", "60 / m", "3600/h", "86400/d")
    }
    assert len(set(counts.values())) == 1


@pytest.mark.parametrize(
    ("form", "path", "problem"),
    [
        (3, "a", "must be a mapping with one of poisson"),
        ({"poisson": {"rate": "fast"}}, "a.poisson.rate", 'must be a rate such as "12/min"'),
        ({"poisson": {"rate": "0/s"}}, "a.poisson.rate", "must be above 0"),
        ({"poisson": {"rate": "1/s", "form": "2h"}}, "a.poisson.form", "unknown field"),
        ({"interval": {"every": "0s"}}, "a.interval.every", "must be after 0s"),
        ({"interval": {"every": 3}}, "a.interval.every", "must be a duration"),
        ({"interval": {"every": "1s", "from": "2h", "until": "1h"}}, "a.interval.until", "must be"),
        ({"uniform": {"until": "1h"}}, "a.uniform.count", "is required"),
        ({"uniform": {"count": 3}}, "a.uniform.until", "is required"),
        ({"uniform": {"count": 0, "until": "1h"}}, "a.uniform.count", "must be an integer"),
        ({"hourly": {"rates": ["1/s"]}}, "a.hourly.rates", "must be a list of 24 rates"),
        ({"hourly": {"rates": ["0/s"] * 24}}, "a.hourly.rates", "must not all be 0"),
        ({"at": []}, "a.at", "must be a list of durations"),
        ({"at": ["soon"]}, "a.at[0]", "is not a duration"),
    ],
)
def test_errors_name_the_place(form: Any, path: str, problem: str) -> None:
    errors: list[FieldError] = []
    arrivals_of(form, ("a",), errors)
    assert errors
    assert path_text(errors[0].path) == path
    assert errors[0].problem.startswith(problem)


def instants(form: Any) -> list[float]:
    errors: list[FieldError] = []
    arrivals = arrivals_of(form, (), errors)
    assert errors == []
    return list(islice(arrivals.instants(Streams(4).stream("arrivals")), 1_000_000))
