"""The comparison of runs with their records: what it reports, and what it does not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.client.rest.client import Client
from mooring.errors import ConfigError
from tests.faults.harness.recording import Entry, recording
from tests.faults.harness.records import (
    COMPARED_IN,
    FOLDER,
    RESULTS_IN,
    RunDiffers,
    compared,
    difference_to,
    entries_between,
    read_records,
    record_of,
    write_records,
)
from tests.faults.harness.scenario import Report, Scenario, run_scenario
from tests.faults.harness.texts import text_of
from tests.faults.kinds import KINDS
from tests.faults.planted import PlantedBug

ROOT = Path(__file__).resolve().parents[3]

#: All records, in bytes.
SIZE_MAX = 300_000
#: A short whole run.
SHORT = Scenario(1, busy_s=20.0, user_actions=8, pods=8)

#: A request of the run has another query; no oracle reads that.
OTHER_QUERY = PlantedBug(
    "other_query",
    "The binding of one pod has a query that the others do not have",
    Client,
    "write",
    "query=query,",
    'query=[*query, ("pretty", "true")] if path.endswith("/pod-7/binding") else query,',
)


def run_short(seed: int) -> Report:
    assert seed == SHORT.seed
    return run_scenario(SHORT)


def recorded(folder: Path) -> list[Entry]:
    """Records the short run; returns its entries."""
    with recording("swarm", SHORT.seed) as run:
        run_scenario(SHORT)
    write_records("swarm", [record_of("swarm", SHORT.seed, run.entries)], folder)
    return run.entries


def test_a_run_without_a_change_is_not_reported(tmp_path: Path) -> None:
    recorded(tmp_path)

    assert compared("swarm", SHORT.seed, run_short, tmp_path).binds


def test_a_bug_that_changes_one_request_is_reported_with_its_window(tmp_path: Path) -> None:
    before = recorded(tmp_path)
    at_s = next(it.at_s for it in before if "pod-7/binding" in it.text)

    with pytest.MonkeyPatch.context() as patch:
        OTHER_QUERY.plant(patch)
        with pytest.raises(RunDiffers) as caught:
            compared("swarm", SHORT.seed, run_short, tmp_path)

    message = str(caught.value)
    bounds = re.search(r"between (\d+) and (\d+) s", message)
    assert bounds is not None
    assert int(bounds[1]) <= at_s < int(bounds[2])
    assert "swarm seed 1:" in message
    assert f"replay 1 --kind swarm --entries {bounds[1]}-{bounds[2]}" in message
    assert "python -m tests.faults.record swarm" in message


def test_a_warning_and_a_counter_are_part_of_a_run(tmp_path: Path) -> None:
    texts = [entry.text for entry in recorded(tmp_path)]

    assert any(text.startswith("log WARNING mooring.") for text in texts)
    assert any("scheduler_schedule_attempts_total [scheduled, " in text for text in texts)
    assert any(text.startswith("server PATCH ") for text in texts)
    assert any(text.startswith("trace chose ") for text in texts)


def entries(*texts: str, every_s: float = 1.0) -> list[Entry]:
    """Returns entries at regular times."""
    return [Entry(number * every_s, text) for number, text in enumerate(texts)]


def test_the_window_is_that_of_the_first_difference_in_a_long_run() -> None:
    texts = [f"step {number}" for number in range(1000)]
    record = record_of("swarm", 0, entries(*texts))
    texts[517] = "something else"

    difference = difference_to(record, "swarm", entries(*texts))

    assert record.width == 32
    assert "between 512 and 544 s" in difference
    assert difference_to(record, "swarm", entries(*texts[:517])).count("between 512 and 544 s")


def test_a_missing_or_additional_last_entry_is_a_difference() -> None:
    record = record_of("queue", 0, entries("a", "b", "c"))

    assert difference_to(record, "queue", entries("a", "b", "c")) == ""
    assert "between 2 and 3 entries" in difference_to(record, "queue", entries("a", "b"))
    more = difference_to(record, "queue", entries("a", "b", "c", "d"))
    assert "between 3 and 4 entries" in more


def test_entries_of_a_second_loop_count_after_those_of_the_first() -> None:
    two = [*entries("a", "b", "c"), Entry(0.0, "d")]

    assert [entry.text for entry in entries_between("swarm", two, 2, 3)] == ["c", "d"]


def test_a_line_that_is_no_record_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "swarm.txt").write_text("# python\n0 1 seven abc abcd\n")

    with pytest.raises(ConfigError, match=r"swarm\.txt: line 2.*seven"):
        read_records("swarm", tmp_path)


def test_texts_have_no_address_and_no_order_of_a_set() -> None:
    assert text_of({"b", "a"}) == "{a, b}"
    assert text_of(object()) == "object"
    assert "0x " in text_of(ValueError(f"{object()!r} is wrong".replace(">", " >")))


@pytest.mark.parametrize("folder", ["/work/a", "/tmp/b c/d", "relative"])
def test_texts_have_no_folder_and_no_line_of_a_place(folder: str) -> None:
    error = ValueError(f"a plugin failed (at: {folder}/plugins.py:184)")
    assert text_of(error).endswith("plugins.py)")
    assert "184" not in text_of(error)
    assert text_of({"path": "/api/v1/pods"}) == "{path: /api/v1/pods}"


def test_every_seed_of_every_kind_is_recorded_in_small_files() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(KINDS)
    assert {kind: list(read_records(kind)) for kind in KINDS} == {
        kind: list(range(it.n_seeds)) for kind, it in KINDS.items()
    }
    assert sum(path.stat().st_size for path in FOLDER.glob("*.txt")) < SIZE_MAX


def test_runs_are_compared_in_the_versions_of_python_that_ci_has() -> None:
    """In 3.14 they are not: whether they are the same there has not been tried."""
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    versions = re.search(r"python-version: \[(.*)\]", workflow)
    assert versions is not None
    in_ci = {tuple(map(int, text.strip(' "').split("."))) for text in versions[1].split(",")}

    assert set(COMPARED_IN) == in_ci - {(3, 14)}


def test_a_record_is_the_same_in_every_process_and_order_of_kinds(tmp_path: Path) -> None:
    kinds = ["choice", "handlers"]
    for number, order in enumerate((kinds, kinds[::-1])):
        subprocess.run(
            [sys.executable, "-m", "tests.faults.record", "--folder", str(tmp_path / f"{number}")]
            + ["--reverse"] * number
            + order,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": f"{number + 1}"},
            check=True,
            capture_output=True,
        )

    for kind in kinds:
        files = [(tmp_path / f"{number}/{kind}.txt").read_text() for number in range(2)]
        assert files[0] == files[1]
        if sys.version_info[:2] == RESULTS_IN:
            assert files[0] == (FOLDER / f"{kind}.txt").read_text()
