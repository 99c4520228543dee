"""The file of bugs that ``python -m bench mutants --list`` reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.listed_bugs import read_bugs

SOURCE = """def f(a, b):
    x = a | b
    y = "\\n"
    return x, y
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "queue").mkdir()
    (tmp_path / "queue" / "m.py").write_text(SOURCE)
    return tmp_path


def _read(package: Path, text: str) -> list[tuple[int, str]]:
    file = package / "list.txt"
    file.write_text(text)
    return [
        (mutant.line, mutant.apply(path.read_bytes()).decode())
        for path, mutant in read_bugs(file, package)
    ]


def test_a_line_is_a_change_of_a_module(package: Path) -> None:
    bug = r"queue/m.py|    x = a \| b\n    y = |    x = a & b\n    y = "
    assert _read(package, f"# a comment\n\n{bug}\n") == [(2, SOURCE.replace("a | b", "a & b"))]


def test_its_line_is_that_of_the_first_difference(package: Path) -> None:
    bug = r"queue/m.py|a \| b\n    y = |a \| b\n    z = "
    assert [line for line, _ in _read(package, bug)] == [3]


def test_a_backslash_is_written_twice(package: Path) -> None:
    changed = SOURCE.replace('"\\n"', '"\\t"')
    assert _read(package, r'queue/m.py|"\\n"|"\\t"') == [(3, changed)]


def test_a_statement_may_be_left_out(package: Path) -> None:
    bug = r'queue/m.py|    y = "\\n"\n|'
    assert _read(package, bug) == [(3, SOURCE.replace('    y = "\\n"\n', ""))]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("queue/m.py|a", "list.txt:2: must be MODULE|OLD|NEW, got 2 parts"),
        ("queue/m.py|a|b|c", "list.txt:2: must be MODULE|OLD|NEW, got 4 parts"),
        ("queue/n.py|a|b", "list.txt:2: there is no queue/n.py below src/mooring"),
        ("queue/m.py|return y|", "list.txt:2: 0 places in queue/m.py have the text 'return y'"),
        ("queue/m.py|    |", "list.txt:2: 3 places in queue/m.py have the text '    '"),
    ],
)
def test_a_line_that_cannot_be_used_is_an_error(package: Path, line: str, error: str) -> None:
    with pytest.raises(SystemExit) as raised:
        _read(package, f"\n{line}\n")
    assert str(raised.value).endswith(error)
