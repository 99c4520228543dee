"""Output that several commands share: JSON text, a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec


def json_text(document: Any) -> str:
    """Returns JSON text of several lines; msgspec indents many times faster than ``json``."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


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
