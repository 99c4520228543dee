"""The size check itself: what it counts, and that it bites."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.check_sizes import (
    CLASS_LINES_MAX,
    FILE_LINES_MAX,
    FILE_LINES_RULE,
    FOLDER_FILES_MAX,
    FUNCTION_LINES_MAX,
    complaints,
    folder_complaints,
    long_file_complaints,
    main,
)

PATH = Path("src/a.py")


def found(source: str) -> list[str]:
    return list(complaints(PATH, source))


def function(lines: int, docstring: int = 0) -> str:
    body = [f"    x{i} = {i}" for i in range(lines - 1)]
    doc = (
        ['    """Say.', *["    more" for _ in range(docstring - 2)], '    """'] if docstring else []
    )
    return "\n".join(["def f() -> None:", *doc, *body]) + "\n"


def test_a_function_may_be_as_long_as_the_limit() -> None:
    assert found(function(FUNCTION_LINES_MAX)) == []
    (complaint,) = found(function(FUNCTION_LINES_MAX + 1))
    assert complaint == f"src/a.py:1: f: 61 lines, the limit is {FUNCTION_LINES_MAX}"


def test_docstrings_are_free() -> None:
    assert found(function(FUNCTION_LINES_MAX, docstring=40)) == []


def test_a_class_has_its_own_limit() -> None:
    body = "\n".join(f"    x{i} = {i}" for i in range(CLASS_LINES_MAX))
    (complaint,) = found(f"class C:\n{body}\n")
    assert "C: 251 lines" in complaint


def test_a_file_has_a_limit_that_counts_every_line() -> None:
    assert found("# line\n" * FILE_LINES_MAX) == []
    assert found("# line\n" * FILE_LINES_MAX + "x = 1") == ["src/a.py: 601 lines, the limit is 600"]


NESTED = """\
def f(xs):
    for x in xs:
        if x:
            with x:
                {inside}
"""


@pytest.mark.parametrize(
    ("inside", "is_fine"),
    [
        ("pass", True),
        ("g = lambda: [y for y in x if y]", True),
        ("while x: pass", False),
        ("def g():\n                    if x: return 1", True),
    ],
)
def test_blocks_nest_three_deep(inside: str, *, is_fine: bool) -> None:
    assert (found(NESTED.format(inside=inside)) == []) == is_fine


def test_a_chain_of_elifs_is_one_level() -> None:
    chain = "def f(x):\n    if x == 0:\n        return 0\n" + "".join(
        f"    elif x == {i}:\n        return {i}\n" for i in range(1, 9)
    )
    assert found(chain) == []


def test_every_folder_is_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("src", "tests", "tools", "bench", "studies"):
        (tmp_path / folder / "deep").mkdir(parents=True)
        (tmp_path / folder / "deep" / "a.py").write_text(function(FUNCTION_LINES_MAX + 1))
    assert main(tmp_path) == 1
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_a_clean_tree_passes(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text(function(3))
    assert main(tmp_path) == 0


def test_one_file_in_ten_may_be_longer_than_the_rule() -> None:
    assert list(long_file_complaints([FILE_LINES_RULE] * 9 + [FILE_LINES_MAX])) == []
    (complaint,) = long_file_complaints([FILE_LINES_RULE] * 8 + [FILE_LINES_RULE + 1] * 2)
    assert complaint == f"2 of 10 files have more than {FILE_LINES_RULE} lines"


def test_a_folder_has_a_limit_of_modules_and_no_three_with_one_prefix(tmp_path: Path) -> None:
    for name in ("bind_a", "bind_b", "one", "two"):
        (tmp_path / f"{name}.py").write_text("")
    assert list(folder_complaints(tmp_path, tmp_path)) == []
    (tmp_path / "bind_c.py").write_text("")
    (complaint,) = folder_complaints(tmp_path, tmp_path)
    assert complaint == ".: 3 modules begin with bind_, the limit is 2: a package?"
    for number in range(FOLDER_FILES_MAX):
        (tmp_path / f"m{number}.py").write_text("")
    assert f".: {FOLDER_FILES_MAX + 5} modules, the limit is {FOLDER_FILES_MAX}" in list(
        folder_complaints(tmp_path, tmp_path)
    )
