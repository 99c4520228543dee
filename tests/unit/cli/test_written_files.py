"""Files that commands and the Python API write: on a full disk the old file stays whole."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mooring.cli import main
from mooring.clock import VirtualClock
from mooring.errors import ConfigError
from mooring.scenario.read import read_scenario
from mooring.scenario.results import write_results
from mooring.scenario.run import ScenarioRun
from mooring.serving.certificates import KeyPairFiles, made_pair
from mooring.study.table import Table
from tests.helpers.command_line import restored_logging
from tests.helpers.full_disk import full_disk
from tests.helpers.scenario_files import write
from tests.unit.experiments.test_compare import SPEC

OLD = b"the file of the run before\n"


@pytest.fixture(autouse=True)
def _root() -> Iterator[None]:
    with restored_logging():
        yield


def simulate_words(folder: Path, file: Path) -> list[str]:
    return ["simulate", str(write(folder, SPEC)), "--report", str(file)]


def report_words(folder: Path, file: Path) -> list[str]:
    results = ScenarioRun(read_scenario(str(write(folder, SPEC)))).run()
    write_results(results, str(folder / "run"))
    return ["report", str(folder / "run"), "--out", str(file)]


def run_words(folder: Path, file: Path) -> list[str]:
    del folder
    return ["run", "--master=http://127.0.0.1:1", "--secure-port=0", f"--write-config-to={file}"]


@pytest.mark.parametrize("words_of", [simulate_words, report_words, run_words])
def test_a_file_of_a_command_stays_whole_on_a_full_disk(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words_of: Callable[[Path, Path], list[str]],
) -> None:
    (tmp_path / "out").mkdir()
    file = tmp_path / "out" / "file"
    file.write_bytes(OLD)
    words = words_of(tmp_path, file)
    with full_disk(after_bytes=100):
        code = main(words)
    assert code != 0
    assert "file too large" in capsys.readouterr().err
    assert file.read_bytes() == OLD
    assert list(file.parent.iterdir()) == [file]


def test_the_tables_of_a_scenario_stay_whole_on_a_full_disk(tmp_path: Path) -> None:
    results = ScenarioRun(read_scenario(str(write(tmp_path, SPEC)))).run()
    folder = tmp_path / "out"
    names = write_results(results, str(folder))
    before = {name: (folder / name).read_bytes() for name in names}
    for after_bytes in (0, 100, 1000):
        with full_disk(after_bytes=after_bytes), pytest.raises(ConfigError, match="file too large"):
            write_results(results, str(folder))
        assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert json.loads(before["run.json"])
    assert all(gzip.decompress(before[name]) for name in names if name.endswith(".gz"))


def test_a_table_stays_whole_on_a_full_disk(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(OLD)
    with full_disk(after_bytes=100), pytest.raises(OSError, match="File too large"):
        Table({"number": list(range(1000))}).to_csv(file)
    assert file.read_bytes() == OLD


def test_half_a_certificate_is_not_left_behind(tmp_path: Path) -> None:
    """The next start would not be able to read it."""
    with full_disk(after_bytes=100), pytest.raises(ConfigError, match="file too large"):
        made_pair("127.0.0.1", str(tmp_path), VirtualClock())
    assert list(tmp_path.iterdir()) == []
    assert isinstance(made_pair("127.0.0.1", str(tmp_path), VirtualClock()), KeyPairFiles)
