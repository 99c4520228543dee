"""Output that several commands share: JSON text, files, a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from mooring.errors import ConfigError


def json_text(document: Any) -> str:
    """Returns JSON text of several lines; msgspec indents many times faster than ``json``."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def write_text(path: str, text: str) -> None:
    """Writes a file.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise ConfigError(f"cannot be written: {problem}", file=path) from error


@contextmanager
def progress_bar(*, is_shown: bool, name: str = "runs") -> Iterator[Callable[[int, int], None]]:
    """Gives a function that is called after every run, with the number of runs done and of all.

    ``name`` is what is counted.
    """
    if not is_shown:
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
