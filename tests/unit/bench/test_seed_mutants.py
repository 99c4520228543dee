"""Mutants that ``bench/seed_mutants.py`` plants, and the runs that it tries."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from bench.mutations import Mutant, mutants_of
from bench.seed_mutants import Options, Traced, fate, plant, unexecuted

SOURCE = """
class Counter:
    def __init__(self):
        self.count = 0

    @property
    def is_new(self):
        return self.count == 0

    def add(self, more):
        def total():
            return self.count + more

        if more > 1:
            self.count = total()
        return self.count
"""


def load(folder: Path) -> tuple[Path, Any]:
    """Returns a module with ``SOURCE``, and its file."""
    path = folder / "counter.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("counter", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return path, module


def mutant(path: Path, line: int, text: str) -> Mutant:
    """Returns the mutant of a line that has this text."""
    all_of = mutants_of(path.read_bytes())
    (drawn,) = [it for it in all_of if it.line == line and it.text.strip() == text]
    return drawn


def test_a_planted_mutant_changes_objects_that_exist(tmp_path: Path) -> None:
    path, module = load(tmp_path)
    counter = module.Counter()

    plant(path, SOURCE.encode(), mutant(path, 14, ">="))

    assert counter.add(1) == 1


def test_a_mutant_in_a_property_or_an_inner_function_is_planted(tmp_path: Path) -> None:
    path, module = load(tmp_path)

    plant(path, SOURCE.encode(), mutant(path, 8, "!="))
    plant(path, SOURCE.encode(), mutant(path, 12, "-"))

    assert not module.Counter().is_new
    assert module.Counter().add(2) == -2


def test_a_function_that_is_not_loaded_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "counter.py"
    path.write_text(SOURCE)

    with pytest.raises(ValueError, match="no function at line 10 is loaded"):
        plant(path, SOURCE.encode(), mutant(path, 14, ">="))


def test_a_mutant_in_a_line_that_no_run_executes_is_not_tried(tmp_path: Path) -> None:
    path, _ = load(tmp_path)
    options = Options(seed=0, mutant_count=1, seeds=1, time_s=1.0, again=None, kinds=())

    assert (
        fate(path, SOURCE.encode(), mutant(path, 14, ">="), Traced(), options).word
        == "NOT EXECUTED"
    )


def test_a_line_that_no_traced_seed_executes_is_tried_by_the_runs_of_its_module(
    tmp_path: Path,
) -> None:
    path, _ = load(tmp_path)
    options = Options(seed=0, mutant_count=1, seeds=1, time_s=1.0, again=None, kinds=())
    traced = Traced({f"{path}:4": {"budgets"}}, {"budgets": 0.1})

    result = fate(path, SOURCE.encode(), mutant(path, 14, ">="), traced, options)

    assert result == ("NOT EXECUTED", "budgets 1")


def test_a_run_that_is_as_recorded_is_no_detection(tmp_path: Path) -> None:
    path, _ = load(tmp_path)
    options = Options(
        seed=0, mutant_count=1, seeds=1, time_s=1.0, again=None, kinds=(), compares_records=True
    )
    kinds = {"budgets", "recorder"}

    result = fate(
        path,
        SOURCE.encode(),
        mutant(path, 14, ">="),
        Traced({f"{path}:14": kinds}, dict.fromkeys(kinds, 0.1)),
        options,
    )

    assert result == ("SURVIVED", "budgets 1, recorder 1")


def test_functions_without_an_executed_line_are_listed(tmp_path: Path) -> None:
    path, _ = load(tmp_path)

    assert list(unexecuted(path, {f"{path}:4": {"queue"}, f"{path}:14": {"queue"}})) == [
        "is_new",
        "total",
    ]


def test_the_cheapest_runs_come_first(tmp_path: Path) -> None:
    path = tmp_path / "counter.py"
    traced = Traced({f"{path}:3": {"swarm", "queue"}}, {"swarm": 1.0, "queue": 0.1})

    assert traced.kinds_of(path, range(2, 4)) == ["queue", "swarm"]
    assert traced.kinds_of(path, range(4, 5)) == []
    assert traced.kinds_of_module(path) == ["queue", "swarm"]
