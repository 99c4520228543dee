"""The check of words: findings, and sources that pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.check_words import findings, main


def found(source: str, name: str = "src/a.py") -> list[tuple[int, str, str]]:
    return [(item.line, item.rule, item.text) for item in findings(Path(name), source)]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("found = 1", "found"),
        ("for each in (1, 2): ...", "each"),
        ("def f(wanted: int) -> None: ...", "wanted"),
        ("with open('a') as told: ...", "told"),
    ],
)
def test_a_variable_is_named_for_what_it_holds(source: str, name: str) -> None:
    assert found(source) == [(1, "name", name)]


@pytest.mark.parametrize("source", ["pod = 1", "self.found = 1", "x = y.found", "f(found=1)"])
def test_attributes_and_keywords_of_others_pass(source: str) -> None:
    assert found(source) == []


@pytest.mark.parametrize(
    ("source", "phrase"),
    [
        ("# nobody reads it", "nobody"),
        ('raise ValueError("tried again")', "tried again"),
        ('"""Module.\n\nIt is parked.\n"""', "parked"),
        ('x = f"whoever {1} is"', "whoever"),
    ],
)
def test_comments_docstrings_and_messages_use_the_terms_of_the_field(
    source: str, phrase: str
) -> None:
    assert [text for _, rule, text in found(source) if rule == "phrase"] == [phrase]


def test_code_in_a_text_passes() -> None:
    assert found("# the user ``nobody``, and `parked`") == []
    assert found("Run `nobody`.\n\n```text\nparked\n```\n", "docs/a.md") == []
    assert found("It is\nparked.\n", "docs/a.md") == [(2, "phrase", "parked")]


@pytest.mark.parametrize(
    ("docstring", "text"),
    [
        ("What it does.", "begins with What"),
        ("Whether it is so.", "begins with Whether"),
        ("The pod.", "begins with The, not with a verb"),
        ("Return the pod.", "begins with Return, not with a verb"),
        ("Class of a pod.", "begins with Class, not with a verb"),
    ],
)
def test_a_function_says_what_it_does(docstring: str, text: str) -> None:
    assert found(f'def f() -> int:\n    """{docstring}"""') == [(1, "docstring", text)]


@pytest.mark.parametrize(
    "source",
    [
        'def f() -> int:\n    """Returns the pod."""',
        '@property\ndef f(self) -> int:\n    """The pod."""',
        '@click.command()\ndef f() -> int:\n    """Run a scheduler."""',
        'class A:\n    """A pod."""',
        '"""Pods of a node."""',
    ],
)
def test_properties_commands_classes_and_modules_may_begin_with_a_noun(source: str) -> None:
    assert found(source) == []


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("# nobody reads it", ["nobody"]),
        ('"""Texts for somebody."""', ["somebody"]),
        ('name = "nobody"', []),
        ("found = 1", []),
        ('def f() -> int:\n    """The pod."""', ["begins with The, not with a verb"]),
        ('def test_f() -> None:\n    """The pod."""', []),
        ('@pytest.fixture\ndef f() -> int:\n    """The pod."""', []),
    ],
)
def test_strings_names_and_test_docstrings_are_free_in_tests(source: str, texts: list[str]) -> None:
    assert [text for _, _, text in found(source, "tests/unit/test_a.py")] == texts


@pytest.mark.parametrize("folder", ["helpers", "faults/harness"])
def test_names_are_checked_in_the_helpers_of_tests(folder: str) -> None:
    assert found("told = 1", f"tests/{folder}/a.py") == [(1, "name", "told")]


def test_a_finding_fails_the_check_and_names_the_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("pod = 1\n")
    assert main(tmp_path, []) == 0
    (tmp_path / "src" / "a.py").write_text("found = 1\n")
    assert main(tmp_path, []) == 1
    assert main(tmp_path, ["src/b"]) == 0
    assert "src/a.py:1: name: found" in capsys.readouterr().out
    (tmp_path / "src" / "a.py").write_text("# it is tried again\n")
    assert main(tmp_path, []) == 1
    assert "src/a.py:1: phrase: tried again (write: retry, requeue)" in capsys.readouterr().out
