"""Durations of plugins, by extension point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mooring.clock import Clock


@dataclass(slots=True)
class Timing:
    """The calls of one plugin at one extension point, and their total seconds."""

    calls: int = 0
    seconds: float = 0.0


class Timings:
    """(plugin name, extension point) -> Timing; grows with the plugins, not with the pods."""

    __slots__ = ("_table",)

    def __init__(self) -> None:
        self._table: dict[tuple[str, str], Timing] = {}

    def add(self, plugin: str, point: str, seconds: float) -> None:
        """Adds one call."""
        timing = self._table.get((plugin, point))
        if timing is None:
            timing = self._table[plugin, point] = Timing()
        timing.calls += 1
        timing.seconds += seconds

    def timed(
        self,
        clock: Clock,
        plugin: str,
        point: str,
        method: Callable[..., Any],
        *arguments: Any,
    ) -> Any:
        """Calls ``method`` and returns its result; adds its duration, also if it raises."""
        started_s = clock.monotonic_s()
        try:
            return method(*arguments)
        finally:
            self.add(plugin, point, clock.monotonic_s() - started_s)

    def statistics(self) -> dict[tuple[str, str], Timing]:
        """Returns a copy of the table, in order of first call."""
        return {key: Timing(timing.calls, timing.seconds) for key, timing in self._table.items()}
