"""The page "Where is what" names only files, functions and classes that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "concepts" / "where-is-what.md"
#: A link to a module, and the names in backticks that follow it.
_LINK = re.compile(r"\]\(\.\./\.\./(src/[\w/]+\.py)\)((?:,? `[\w.]+`)*)")


def links() -> list[tuple[str, str]]:
    """Returns each module of the page with each of its names; "" where a module has none."""
    pairs = []
    for path, names in _LINK.findall(PAGE.read_text(encoding="utf-8")):
        pairs += [(path, name) for name in re.findall(r"[\w.]+", names) or [""]]
    return pairs


def defined(body: list[ast.stmt]) -> Iterator[str]:
    """Yields the names that statements define; members of classes as ``Class.member``."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        if isinstance(node, ast.ClassDef):
            yield from (f"{node.name}.{name}" for name in defined(node.body))


def test_the_page_has_many_answers() -> None:
    assert len(links()) > 60


@pytest.mark.parametrize(("path", "name"), links())
def test_each_name_is_defined_in_its_module(path: str, name: str) -> None:
    module = ast.parse(Path(ROOT / path).read_text(encoding="utf-8"))
    assert not name or name in set(defined(module.body))
