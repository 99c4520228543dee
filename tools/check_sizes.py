"""Refuses files, classes and functions that are too long, deep nesting, and crowded folders.

Limits of the style guide:

- A file has at most 400 lines as a rule, 600 for one cohesive unit: at most one file in ten of a
  tree may have more than 400.
- A class has at most 250 lines, a function 60, and blocks nest at most three deep. Docstrings count
  for files, not for functions and classes.
- A folder of the package has at most 25 modules, and no three of them share a prefix
  (``binding_a``, ``binding_b``, ``binding_c``): they are a package. Plugins keep upstream's names.

Files of data are not code: tests may keep tables in ``tests/**/data``.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

FILE_LINES_RULE = 400
FILE_LINES_MAX = 600
#: Share of the files that may be longer than the rule.
LONG_FILES_SHARE = 0.1
FOLDER_FILES_MAX = 25
PREFIX_FILES_MAX = 2
CLASS_LINES_MAX = 250
FUNCTION_LINES_MAX = 60
NESTING_MAX = 3

#: Folders whose modules have the names of upstream's plugins, steps or columns of a lesson.
FIELD_NAMES = frozenset({"plugins", "steps"})

FOLDERS = ("src", "tests", "tools", "bench", "studies")

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
    """Yields one line of text per limit that a file breaks."""
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
    """Returns the lines of a definition with its signature, without its docstring."""
    assert node.end_lineno is not None
    length = node.end_lineno - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node, clean=False) is not None:
        assert first.end_lineno is not None
        length -= first.end_lineno - first.lineno + 1
    return length


def _depth(node: ast.AST) -> int:
    """Returns the nesting depth of blocks below a node; ``elif`` is not deeper."""
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


def folder_complaints(root: Path, source: Path) -> Iterator[str]:
    """Yields one line of text per limit that a folder of the package breaks."""
    for folder in sorted({path.parent for path in source.rglob("*.py")}):
        stems = [path.stem for path in sorted(folder.glob("*.py")) if path.stem != "__init__"]
        where = folder.relative_to(root)
        if len(stems) > FOLDER_FILES_MAX:
            yield f"{where}: {len(stems)} modules, the limit is {FOLDER_FILES_MAX}"
        if folder.name in FIELD_NAMES:
            continue
        prefixes = Counter(stem.split("_")[0] for stem in stems if "_" in stem)
        for prefix, count in sorted(prefixes.items()):
            if count > PREFIX_FILES_MAX:
                yield f"{where}: {count} modules begin with {prefix}_, the limit is 2: a package?"


def long_file_complaints(sizes: Sequence[int]) -> Iterator[str]:
    """Yields a line of text if too many files are longer than the rule."""
    count = sum(size > FILE_LINES_RULE for size in sizes)
    if count > LONG_FILES_SHARE * len(sizes):
        yield f"{count} of {len(sizes)} files have more than {FILE_LINES_RULE} lines"


def main(root: Path) -> int:
    """Checks every Python file below ``root``; returns 1 if a limit is broken."""
    sources = {
        path.relative_to(root): path.read_text(encoding="utf-8")
        for folder in FOLDERS
        for path in sorted((root / folder).rglob("*.py"))
    }
    broken = [
        complaint for path, source in sources.items() for complaint in complaints(path, source)
    ]
    broken += folder_complaints(root, root / "src")
    broken += long_file_complaints([source.count("\n") for source in sources.values()])
    for complaint in broken:
        print(complaint)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent))
