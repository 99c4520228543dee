r"""Bugs that a file lists, for ``python -m bench mutants --by seeds --list FILE``.

A line is ``MODULE|OLD|NEW``: below ``src/mooring``, OLD occurs once in the module, inside of a
function, and becomes NEW. ``\n`` is a new line, ``\|`` a bar and ``\\`` a backslash. Empty
lines and lines that begin with ``#`` are left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from bench.mutations import Mutant

_BAR: Final = re.compile(r"(?<!\\)((?:\\\\)*)\|")
_ESCAPE: Final = re.compile(r"\\(.)")


def read_bugs(file: Path, package: Path) -> list[tuple[Path, Mutant]]:
    """Returns the module and the change of each bug.

    Args:
        file: The list.
        package: The folder ``src/mooring``.

    Raises:
        SystemExit: a line has another form, or its text is not in the module, or more than once.
    """
    bugs = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            try:
                bugs.append(_bug(line, package))
            except ValueError as error:
                raise SystemExit(f"{file}:{number}: {error}") from None
    return bugs


def _bug(line: str, package: Path) -> tuple[Path, Mutant]:
    parts = [_unescaped(part) for part in _BAR.sub(r"\1\0", line).split("\0")]
    if len(parts) != 3:
        raise ValueError(f"must be MODULE|OLD|NEW, got {len(parts)} parts")
    name, old, new = parts
    path = package / name
    if not path.is_file():
        raise ValueError(f"there is no {name} below src/mooring")
    source = path.read_bytes()
    if source.count(old.encode()) != 1:
        raise ValueError(f"{source.count(old.encode())} places in {name} have the text {old!r}")
    start = source.index(old.encode())
    # The line is that of the first difference: it is the one that runs have to execute.
    same = _length_of_same(old, new)
    first = source.count(b"\n", 0, start) + old.count("\n", 0, same) + 1
    return path, Mutant(first, start, start + len(old.encode()), new)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], text)


def _length_of_same(old: str, new: str) -> int:
    """Returns the number of characters at the begin that both have."""
    pairs = zip(old, new, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))
