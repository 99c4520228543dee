"""Distributions against theory, and their errors."""

from __future__ import annotations

import gzip
import math
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mooring.chance import Streams, distribution_of
from mooring.chance.distributions import DRAW_MAX, Distribution
from mooring.config.durations import duration_text
from mooring.config.field_errors import FieldError
from mooring.objects.files.documents import path_text

N_DRAWS = 40_000

#: Form -> its mean, its standard deviation, and some quantiles, by the textbook.
THEORY: list[tuple[Any, float, float, dict[float, float]]] = [
    ({"uniform": {"min": "1m", "max": "5m"}}, 180.0, 240 / math.sqrt(12), {0.25: 120.0}),
    ({"uniform": {"max": 10}}, 5.0, 10 / math.sqrt(12), {0.9: 9.0}),
    ({"exponential": {"mean": "10m"}}, 600.0, 600.0, {0.5: 600 * math.log(2)}),
    (
        {"lognormal": {"median": "1m", "sigma": 0.5}},
        60 * math.exp(0.125),
        60 * math.exp(0.125) * math.sqrt(math.exp(0.25) - 1),
        {0.5: 60.0},
    ),
    ({"weibull": {"shape": 2, "scale": 100}}, 100 * math.sqrt(math.pi) / 2, 46.33, {0.5: 83.2555}),
    ({"gamma": {"shape": 4, "mean": "20s"}}, 20.0, 10.0, {0.5: 18.3603}),
    ({"pareto": {"min": 10, "shape": 3}}, 15.0, 8.66, {0.5: 10 * 2 ** (1 / 3)}),
    ({"choice": [{"value": 1, "weight": 3}, {"value": 5}]}, 2.0, 1.7321, {0.7: 1.0, 0.8: 5.0}),
    ({"empirical": {"values": [3, 7, "20s"]}}, 10.0, 7.2572, {0.3: 3.0, 0.5: 7.0}),
]


@pytest.mark.parametrize(
    ("form", "mean", "deviation", "quantiles"), THEORY, ids=[next(iter(t[0])) for t in THEORY]
)
def test_draws_follow_the_distribution(
    form: Any, mean: float, deviation: float, quantiles: dict[float, float]
) -> None:
    distribution = read(form)
    assert distribution.mean() == pytest.approx(mean, rel=1e-3)
    rng = Streams(1).stream("test", next(iter(form)))
    draws = sorted(distribution.draw(rng) for _ in range(N_DRAWS))
    assert abs(math.fsum(draws) / N_DRAWS - mean) < 4 * deviation / math.sqrt(N_DRAWS)
    for share, expected in quantiles.items():
        # The share of draws at or below the textbook's quantile is that share.
        below = sum(draw <= expected * (1 + 1e-9) for draw in draws) / N_DRAWS
        if "choice" in form or "empirical" in form:
            assert below > share
        else:
            assert abs(below - share) < 4 * math.sqrt(share * (1 - share) / N_DRAWS)


def test_a_lognormal_by_its_p99() -> None:
    distribution = read({"lognormal": {"median": "9m", "p99": "26h"}})
    rng = Streams(3).stream("p99")
    draws = [distribution.draw(rng) for _ in range(N_DRAWS)]
    assert abs(sum(draw > 26 * 3600 for draw in draws) / N_DRAWS - 0.01) < 0.002


class _Largest(random.Random):
    """A stream of the largest number below 1."""

    def random(self) -> float:
        return 1 - 2**-53


@pytest.mark.parametrize(
    "form",
    [
        {"lognormal": {"median": "1s", "sigma": 50}},
        {"weibull": {"shape": 0.01, "scale": "1h"}},
        {"pareto": {"min": "1s", "shape": 0.1}},
        {"exponential": {"mean": 9e9}},
    ],
)
def test_the_largest_draws_are_finite(form: Any) -> None:
    distribution = read(form)
    draw = distribution.draw(_Largest())
    assert 1e10 < draw <= DRAW_MAX
    assert duration_text(draw)
    assert distribution.text()
    assert distribution.mean() > 1e9


@pytest.mark.parametrize("value", [90, "90s", "1m30s", 90.0])
def test_a_number_or_a_duration_is_constant(value: Any) -> None:
    distribution = read(value)
    assert distribution.draw(Streams(0).stream("x")) == distribution.mean() == 90.0


def test_a_column_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("name,seconds\na,3\nb,90s\n", encoding="utf-8")
    with gzip.open(tmp_path / "runs.csv.gz", "wt") as file:
        file.write("seconds\n5\n")
    plain = read({"empirical": {"file": "runs.csv", "column": "seconds"}}, folder=tmp_path)
    packed = read({"empirical": {"file": "runs.csv.gz", "column": "seconds"}}, folder=tmp_path)
    assert (plain.mean(), packed.mean()) == (46.5, 5.0)


@pytest.mark.parametrize(
    ("form", "path", "problem"),
    [
        ("soon", "d", 'is not a duration such as "15s" or "1m30s"'),
        (True, "d", 'must be a number or a duration such as "90s"'),
        (-1, "d", "must be at least 0"),
        ({"uniform": {"min": 5, "max": 3}}, "d.uniform.min", "must be at most max (3s)"),
        ({"exponential": {"mean": 0}}, "d.exponential.mean", "must be above 0"),
        ({"exponential": {"mean": 1e300}}, "d.exponential.mean", "must be at most 9.2e+09"),
        (1e19, "d", "must be at most 9.2e+09"),
        ({"exponential": {}}, "d.exponential.mean", "is required"),
        ({"exponential": 3}, "d.exponential", "must be a mapping"),
        ({"lognormal": {"median": 10, "p99": 5}}, "d.lognormal.p99", "must be at least the median"),
        (
            {"lognormal": {"median": 1, "sigma": 100}},
            "d.lognormal.sigma",
            "must be smaller: draws can be above 1e+200",
        ),
        ({"lognormal": {"median": 1, "sigma": 1000}}, "d.lognormal.sigma", "must be smaller"),
        ({"lognormal": {"median": 1e-300, "p99": 1}}, "d.lognormal.p99", "must be smaller"),
        ({"lognormal": {"median": 5e-324, "p99": 1e9}}, "d.lognormal.p99", "must be smaller"),
        ({"weibull": {"shape": 0.003, "scale": 1}}, "d.weibull.shape", "must be larger"),
        ({"weibull": {"shape": 5e-324, "scale": 1}}, "d.weibull.shape", "must be larger"),
        ({"gamma": {"shape": 1e-300, "mean": 1}}, "d.gamma.shape", "must be larger"),
        ({"pareto": {"min": 1, "shape": 0.001}}, "d.pareto.shape", "must be larger"),
        ({"pareto": {"min": 1, "shape": 5e-324}}, "d.pareto.shape", "must be larger"),
        ({"choice": []}, "d.choice", "must be a list of {value, weight}"),
        ({"empirical": {"values": []}}, "d.empirical.values", "must be a list of numbers"),
        ({"empirical": {"file": "no.csv", "column": "x"}}, "d.empirical.file", "cannot be read"),
        ({"uniform": {"max": 1}, "gamma": {}}, "d", "must have one form"),
    ],
)
def test_errors_name_the_place(form: Any, path: str, problem: str, tmp_path: Path) -> None:
    errors: list[FieldError] = []
    distribution_of(form, ("d",), errors, folder=str(tmp_path))
    assert errors
    assert path_text(errors[0].path) == path
    assert errors[0].problem.startswith(problem)


def test_a_misspelled_name_gets_a_suggestion() -> None:
    errors: list[FieldError] = []
    distribution_of({"exponental": {"mean": 1}}, (), errors)
    distribution_of({"gamma": {"shpe": 1, "mean": 2}}, (), errors)
    assert [error.suggestion for error in errors[:2]] == ["exponential", "shape"]


def test_a_column_that_is_not_there_and_rows_that_are_no_numbers(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("seconds\n3\nlong\n", encoding="utf-8")
    errors: list[FieldError] = []
    form = {"empirical": {"file": "runs.csv", "column": "second"}}
    distribution_of(form, (), errors, folder=str(tmp_path))
    form = {"empirical": {"file": "runs.csv", "column": "seconds"}}
    distribution_of(form, (), errors, folder=str(tmp_path))
    assert errors[0].suggestion == "seconds"
    assert path_text(errors[1].path) == "empirical[runs.csv line 3]"
    assert errors[1].value == "long"


def test_streams_are_the_same_in_every_process() -> None:
    code = (
        "from mooring.chance import Streams\n"
        "print([Streams(5).stream('a', 'b').random(), Streams(5).stream('a').getrandbits(64)])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(outputs) == 1


def test_streams_differ_by_seed_and_path() -> None:
    draws = {
        Streams(seed).stream(*path).random()
        for seed in (0, 1)
        for path in (("a",), ("b",), ("a", "b"), ("ab",), ("a", 0))
    }
    assert len(draws) == 10


def read(form: Any, folder: Path | None = None) -> Distribution:
    errors: list[FieldError] = []
    distribution = distribution_of(form, (), errors, folder=str(folder or "."))
    assert errors == []
    return distribution
