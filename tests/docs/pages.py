"""Reads a page of the documentation and runs what stands in it.

The info string of a fenced block says what it is:

- ``console``: ``$ command`` lines and what each prints. Run; the output must match (``matches``).
- ``python``: run in a namespace of the page. Functions called ``test_...`` are called as well. If
  the first line is a file name (``# rack.py``), the block is written there instead, and imported
  when a block imports it; a file ``test_...py`` at once.
- ``yaml``: written to the file that its first line names.
- ``text``, ``toml``, ``console no-run``: for people only.

Commands run in a folder of the page's own. Paths that begin with ``tests/`` mean the repository.
"""

from __future__ import annotations

import glob
import importlib
import io
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from mooring.cli import main

ROOT = Path(__file__).resolve().parents[2]

RUN = frozenset({"console", "python", "yaml"})
NOT_RUN = frozenset({"text", "toml", "console no-run"})

#: What differs from run to run, and what stands for it: speed, time and memory.
VOLATILE = (
    (r"[\d,]+ pods/s", "N pods/s"),
    (r"\bin [\d.]+ s\b", "in N s"),
    (r"\d+ MiB at most", "N MiB at most"),
    (r'"(seconds|pods_per_s|peak_rss_bytes)": [\d.]+', r'"\1": N'),
)

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w-]+\.(?:py|yaml))\n")


class Block(NamedTuple):
    """One fenced block: its info string, its text, and the line of the page it begins on."""

    info: str
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """The file that the first line names."""
        named = _FILE.match(self.text)
        return named.group(1) if named else None


def all_pages() -> list[Path]:
    """Returns every page, the README first."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(page: Path) -> list[Block]:
    """Returns the fenced blocks of a page, in order."""
    text = page.read_text()
    return [
        Block(found.group(1), found.group(2), text.count("\n", 0, found.start()) + 1)
        for found in _FENCE.finditer(text)
    ]


def matches(shown: str, printed: str) -> bool:
    """Returns whether a command printed what the page shows.

    A line ``...`` stands for any number of lines, ``...`` inside a line for the rest of a word or
    line; what differs from run to run counts as equal (``VOLATILE``). Spaces at line ends don't
    count.
    """
    pattern = ""
    for line in normal(shown).splitlines():
        if line == "...":
            pattern += r"(?:[^\n]*\n)*"
        else:
            pattern += r"[^\n]*".join(map(re.escape, line.split("..."))) + r"\n"
    return re.fullmatch(pattern, normal(printed)) is not None


def normal(text: str) -> str:
    """Returns ``text`` without the parts that differ between runs; each line ends in a newline."""
    for pattern, replacement in VOLATILE:
        text = re.sub(pattern, replacement, text)
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    return "".join(f"{line}\n" for line in lines)


def commands_of(block: Block) -> Iterator[tuple[str, str]]:
    """Yields each command of a console block with the output shown for it.

    Raises:
        AssertionError: the block does not begin with a command.
    """
    first, *parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not first.strip(), f"line {block.line}: a console block begins with `$ command`"
    for part in parts:
        command, _, shown = part.partition("\n")
        while command.endswith("\\"):
            more, _, shown = shown.partition("\n")
            command = command.removesuffix("\\") + more.strip()
        yield command, shown


class Session:
    """The state of a page: its folder, its Python names, the last exit code."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "page"}
        self.code = 0

    def run(self, block: Block) -> None:
        """Runs one block.

        Raises:
            AssertionError: something is not as the page says; the message holds what was printed.
        """
        if block.info in NOT_RUN:
            return
        if block.file is not None:
            (self.folder / block.file).write_text(block.text)
            if block.file.startswith("test_"):
                importlib.invalidate_caches()
                call_tests(vars(importlib.import_module(block.file.removesuffix(".py"))))
        elif block.info == "python":
            with chdir(self.folder):
                exec(compile(block.text, f"line {block.line}", "exec"), self.names)
            call_tests(self.names)
        else:
            assert block.info == "console", f"line {block.line}: a yaml block names its file"
            for command, shown in commands_of(block):
                self._check(command, shown, block.line)

    def _check(self, command: str, shown: str, line: int) -> None:
        if command == "echo $?":
            assert shown.strip() == str(self.code), f"line {line}: exit code {self.code}"
            self.code = 0
            return
        assert self.code == 0, f"line {line}: exit code {self.code} is not shown before {command}"
        self.code, printed = self._call(command)
        where = f"line {line}: $ {command}"
        assert matches(shown, printed), f"{where} printed\n{printed}\nnot\n{shown}"

    def _call(self, command: str) -> tuple[int, str]:
        words = shlex.split(command)
        if words[:2] == ["make", "start"]:
            words = ["mooring", "start", *shlex.split(" ".join(words[2:]).removeprefix("ARGS="))]
        if words[0] == "python":
            return self._run_script(words[1])
        assert words[0] == "mooring", f"{command}: only mooring is run; mark others as no-run"
        arguments = tuple(word for text in words[1:] for word in expanded(text))
        if arguments == ("simulate",):
            return default_simulation()
        importlib.invalidate_caches()
        with chdir(self.folder):
            return call(*arguments)

    def _run_script(self, name: str) -> tuple[int, str]:
        """Runs a script of the page in this process, in its folder."""
        with chdir(self.folder):
            return 0, _printed_by(self.folder / name)


def _printed_by(script: Path) -> str:
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        runpy.run_path(str(script), run_name="__main__")
    return printed.getvalue()


def expanded(word: str) -> list[str]:
    """Returns a word of a command line as the shell expands it, with absolute paths of files."""
    if not word.startswith("tests/"):
        return [word]
    return sorted(glob.glob(str(ROOT / word))) or [word]


def call(*arguments: str) -> tuple[int, str]:
    """Returns the exit code of ``mooring ARGUMENTS``, and what it printed to both streams."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        code = main(arguments)
    return code, printed.getvalue()


@cache
def default_simulation() -> tuple[int, str]:
    """Runs ``mooring simulate`` once: several pages show it, and it takes seconds."""
    return call("simulate")


def call_tests(names: dict[str, Any]) -> None:
    """Calls what pytest would, and forget it, so that the next block does not run it again."""
    for name in [name for name in names if name.startswith("test_")]:
        names.pop(name)()


def forget_modules(folder: Path) -> None:
    """Drops modules that were imported from ``folder``: two pages may use one file name."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and Path(file).is_relative_to(folder):
            del sys.modules[name]
