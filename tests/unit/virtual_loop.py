"""An event loop whose time is virtual: waiting takes none, deadlines are exact."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class _Selector(selectors.SelectSelector):
    """Never waits: the time that it should have waited has gone by at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise AssertionError("everything waits for something that never comes")
        self.now_s += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Starts at 0 seconds."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Virtual seconds; moved on a little, so that what is due is surely due."""
        return self._virtual.now_s + 1e-9


def run_virtually(work: Coroutine[Any, Any, _Result]) -> _Result:
    """The result of a coroutine, on virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
