"""What plugins get of the world when there is no API server."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from mooring.clock import Rng, VirtualClock
from mooring.errors import PluginError
from mooring.state import Cache, PodInfo, Snapshot


class OfflineHandle:
    """What plugins get of the world when there is none.

    Binding always works; waiting never ends before its deadline.
    """

    def __init__(self, cache: Cache, clock: VirtualClock, rng: Rng) -> None:
        self._cache = cache
        self._clock = clock
        self._rng = rng

    @property
    def snapshot(self) -> Snapshot:
        """The present state."""
        return self._cache.snapshot()

    def monotonic_s(self) -> float:
        """Virtual seconds."""
        return self._clock.monotonic_s()

    def random(self) -> float:
        """From the run's seeded generator."""
        return self._rng.random()

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """There is nobody to tell."""

    async def until(
        self, kind: str, key: str, predicate: Callable[[Any], bool], deadline_s: float
    ) -> Any:
        """Nothing changes by itself here: the deadline passes on the virtual clock."""
        del predicate
        self._clock.advance(deadline_s)
        raise PluginError("", "wait", f"timed out after {deadline_s:g} s waiting for {kind} {key}")


def run_to_end(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never really waits.

    Raises:
        PluginError: if it does wait: offline there is nothing to wait for.
    """
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    coroutine.close()
    raise PluginError(
        "", "wait", "waited for something other than handle.until; nothing comes here"
    )
