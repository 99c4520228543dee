"""Refuse files, classes and functions that are too long to be read, and code that nests too deep.

Limits of the style guide: a file has at most 400 lines, a class 250, a function 60, and blocks nest
at most three deep. Docstrings count for files, not for functions and classes: explaining is free.
Files of data are not code: tests may keep tables in ``tests/**/data``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_LINES_MAX = 400
CLASS_LINES_MAX = 250
FUNCTION_LINES_MAX = 60
NESTING_MAX = 3

FOLDERS = ("src", "tests", "tools", "bench")

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
BLOCKS = (
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.If,
    ast.With,
    ast.AsyncWith,
    ast.Try,
    ast.TryStar,
    ast.Match,
)


def complaints(path: Path, source: str) -> Iterator[str]:
    """Yield one line of text per limit that a file breaks."""
    lines = source.count("\n") + (not source.endswith("\n"))
    if lines > FILE_LINES_MAX:
        yield f"{path}: {lines} lines, the limit is {FILE_LINES_MAX}"
    for node in ast.walk(ast.parse(source, filename=str(path))):
        if not isinstance(node, Definition):
            continue
        is_class = isinstance(node, ast.ClassDef)
        limit = CLASS_LINES_MAX if is_class else FUNCTION_LINES_MAX
        where = f"{path}:{node.lineno}: {node.name}"
        length = _length(node)
        if length > limit:
            yield f"{where}: {length} lines, the limit is {limit}"
        depth = 0 if is_class else _depth(node)
        if depth > NESTING_MAX:
            yield f"{where}: nests {depth} deep, the limit is {NESTING_MAX}"


def _length(node: Definition) -> int:
    """Lines of a definition, its signature included, its docstring left out."""
    assert node.end_lineno is not None
    length = node.end_lineno - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node, clean=False) is not None:
        assert first.end_lineno is not None
        length -= first.end_lineno - first.lineno + 1
    return length


def _depth(node: ast.AST) -> int:
    """How deep blocks nest below a node; ``elif`` is not deeper, an inner function starts anew."""
    deepest = 0
    for field, value in ast.iter_fields(node):
        children = value if isinstance(value, list) else [value]
        is_elif = field == "orelse" and isinstance(node, ast.If) and len(children) == 1
        for child in children:
            if not isinstance(child, ast.AST) or isinstance(child, Definition | ast.Lambda):
                continue
            own = isinstance(child, BLOCKS) and not (is_elif and isinstance(child, ast.If))
            deepest = max(deepest, own + _depth(child))
    return deepest


def main(root: Path) -> int:
    """Check every Python file below ``root``; 1 if some limit is broken."""
    found = [
        complaint
        for folder in FOLDERS
        for path in sorted((root / folder).rglob("*.py"))
        for complaint in complaints(path.relative_to(root), path.read_text(encoding="utf-8"))
    ]
    for complaint in found:
        print(complaint)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent))
