"""The layout of an explanation on a terminal: lines that fit its width, and colours."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Final

import click

#: The narrowest width that lines are wrapped at.
WIDTH_MIN: Final = 20


def wrapped(lines: Iterable[str], width: int) -> Iterator[str]:
    """Yields lines of at most this width; words longer than that are not broken.

    The rest of a line is indented by two more columns than its beginning.

    Example:
        >>> list(wrapped(["  one two three four five"], 20))
        ['  one two three four', '    five']
    """
    width = max(width, WIDTH_MIN)
    for line in lines:
        if len(line) <= width:
            yield line
            continue
        indent = line[: len(line) - len(line.lstrip())]
        yield from textwrap.wrap(
            line.strip(),
            width,
            initial_indent=indent,
            subsequent_indent=f"{indent}  ",
            break_long_words=False,
            break_on_hyphens=False,
        )


def coloured(lines: Iterable[str]) -> Iterator[str]:
    """Yields lines with the first one and the headings in colours."""
    for number, line in enumerate(lines):
        if number == 0:
            yield click.style(line, fg="green" if " goes to " in line else "yellow", bold=True)
        elif line.endswith(":") and not line.startswith(" "):
            yield click.style(line, bold=True)
        else:
            yield line
