"""The event loops on which the servers under test run: uvloop, as the commands, and asyncio's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

from mooring.event_loop import loop_factory

LoopFactory = Callable[[], asyncio.AbstractEventLoop] | None

LOOPS: Final[dict[str, LoopFactory]] = {"uvloop": loop_factory(), "asyncio": None}

_chosen: list[LoopFactory] = []


@contextmanager
def on_loop(name: str) -> Iterator[None]:
    """Lets ``run_on_loop`` use this loop during the block."""
    _chosen.append(LOOPS[name])
    try:
        yield
    finally:
        _chosen.pop()


def run_on_loop(main: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine on the loop of ``on_loop``; on asyncio's outside of such a block."""
    with asyncio.Runner(loop_factory=_chosen[-1] if _chosen else None) as runner:
        runner.run(main)
