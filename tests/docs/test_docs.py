"""Everything that the documentation shows is run, and every link leads somewhere."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.cli import COMMANDS
from mooring.framework.interface import COMPANIONS, EXTENSION_POINTS
from tests.docs.pages import (
    NOT_RUN,
    ROOT,
    RUN,
    Block,
    Session,
    all_pages,
    blocks_of,
    commands_of,
    forget_modules,
    matches,
)

README_LINES_MAX = 120

PAGES = all_pages()
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"]

_LINK = re.compile(r"\]\(([^)\s]+)\)")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setenv("COLUMNS", "80")
    runtime_folder = tmp_path / "runtime"
    runtime_folder.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime_folder))
    monkeypatch.syspath_prepend(str(tmp_path))
    gc.collect()
    gc.freeze()  # collections look at what the page makes, not at all that pytest holds
    yield Session(tmp_path)
    gc.unfreeze()
    forget_modules(tmp_path)


# ---- the pages ----


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page)], ids=name_of)
def test_what_a_page_shows_is_what_happens(page: Path, session: Session) -> None:
    for block in blocks_of(page):
        session.run(block)

    assert session.code == 0


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_is_run_or_says_that_it_is_not(page: Path) -> None:
    assert {block.info for block in blocks_of(page)} <= RUN | NOT_RUN
    assert page.read_text().count("\n```") == 2 * len(blocks_of(page))
    # An indented block would be shown as code and never be run.
    assert not re.search(r"^ {4,}\$ ", page.read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", LINKED, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text()):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def anchors(page: Path) -> set[str]:
    """Returns the headings of a page as they stand in a link."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached = {ROOT / "README.md"}
    waiting = list(reached)
    while waiting:
        page = waiting.pop()
        targets = [link.partition("#")[0] for link in _LINK.findall(page.read_text())]
        found = {(page.parent / target).resolve() for target in targets if target.endswith(".md")}
        waiting += found - reached
        reached |= found

    assert set(PAGES) <= reached


# ---- what must be on them ----


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES_MAX


def test_the_readmes_plugin_changes_the_placements() -> None:
    """The figures are those of the commands: the test of the page runs them."""
    shown = [
        (command, placed)
        for block in blocks_of(ROOT / "README.md")
        if block.info == "console"
        for command, text in commands_of(block)
        for placed in re.findall(r"^(\d+) of 8152 pods placed", text, re.MULTILINE)
    ]

    without = {placed for command, placed in shown if "--plugin" not in command}
    with_plugin = {placed for command, placed in shown if "--plugin" in command}
    assert len(without) == len(with_plugin) == 1
    assert without != with_plugin


def test_the_reference_names_every_command_and_option() -> None:
    import importlib

    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    for name, entry in COMMANDS.items():
        assert f"## mooring {name}" in page
        for parameter in importlib.import_module(entry.module).command.params:
            for option in parameter.opts:
                assert option.upper() in page if option.isalpha() else f"`{option}" in page


def test_the_contract_names_every_method() -> None:
    page = (ROOT / "docs" / "reference" / "plugin-contract.md").read_text()
    for method, parameters in {**EXTENSION_POINTS, **COMPANIONS}.items():
        assert f"`{method}({', '.join(parameters)})`" in page


# ---- how pages are read ----


@pytest.mark.parametrize(
    ("shown", "printed", "expected"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\nb\n", "a\nc\n", False),
        ("a\n", "a\nb\n", False),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\n", "a\n", True),
        ("a ... d\n", "a b c d\n", True),
        ("a ... d\n", "a b\nc d\n", False),
        ("8 pods in 1.2 s (7 pods/s)\n", "8 pods in 99.75 s (1,234 pods/s)\n", True),
        ("8 pods in 1.2 s\n", "9 pods in 1.2 s\n", False),
        ("", "", True),
        ("", "a\n", False),
        ("a.b\n", "axb\n", False),
    ],
)
def test_output_matches_word_by_word_but_for_what_is_left_out(
    shown: str, printed: str, expected: bool
) -> None:
    assert matches(shown, printed) is expected


def test_an_exit_code_that_is_not_shown_is_a_fault(session: Session) -> None:
    with pytest.raises(AssertionError, match="exit code 2"):
        session.run(Block("console", "$ mooring nothing\n...\n$ echo $?\n0\n", 1))


def test_output_that_is_not_shown_is_a_fault(session: Session) -> None:
    with pytest.raises(AssertionError, match="printed"):
        session.run(Block("console", "$ mooring --version\nmooring 0.0.0\n", 1))


def test_a_long_command_goes_on_after_a_backslash() -> None:
    block = Block("console", "$ mooring \\\n    --version\nmooring 1\n$ mooring\n", 1)

    assert list(commands_of(block)) == [("mooring --version", "mooring 1\n"), ("mooring", "")]


def test_tests_on_a_page_are_called(session: Session) -> None:
    failing = "def test_it():\n    assert 1 == 2\n"
    with pytest.raises(AssertionError):
        session.run(Block("python", failing, 1))
    with pytest.raises(AssertionError):
        session.run(Block("python", f"# test_pages_own.py\n{failing}", 1))
