"""Keeps the newest numbers of a source, and knows when they are too old.

::

    source ── fetch, every 15 s ──> Keeper ── current(now) ──> plugin, inside a decision
                 fails: said once, tried again; after 60 s without success: no numbers
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from mooring.errors import SchedulerError
from mooring.framework.interface import Handle

REFRESH_S: Final = 15.0
STALE_S: Final = 60.0
TIMEOUT_S: Final = 5.0

_log = logging.getLogger(__name__)


class Source(Protocol):
    """Where numbers come from."""

    @property
    def name(self) -> str:
        """For logs: where it is."""
        ...

    async def fetch(self) -> Mapping[str, float]:
        """Node -> number, as it is now.

        Raises:
            SchedulerError: they cannot be had.
        """
        ...

    async def close(self) -> None:
        """Gives connections back."""
        ...


class Keeper:
    """The numbers of one source. Only ``follow`` waits; ``current`` never does.

    Args:
        source: Where they come from.
        refresh_s: From one fetch to the next.
        stale_s: Numbers that are older are not believed.
        timeout_s: A fetch may take so long.
        sleep: Waits; tests give one of their own.
    """

    def __init__(
        self,
        source: Source,
        *,
        refresh_s: float = REFRESH_S,
        stale_s: float = STALE_S,
        timeout_s: float = TIMEOUT_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.version = 0
        #: Fetches that worked, and that did not.
        self.fetched = 0
        self.failed = 0
        self._source = source
        self._refresh_s = refresh_s
        self._stale_s = stale_s
        self._timeout_s = timeout_s
        self._sleep = sleep
        self._numbers: Mapping[str, float] = {}
        self._taken_s = -math.inf
        self._is_failing = False

    @property
    def source_name(self) -> str:
        """Where the numbers come from, as it may be shown to anybody."""
        return self._source.name

    def age_s(self, now_s: float) -> float:
        """How long ago they were fetched; infinite before the first time."""
        return now_s - self._taken_s

    def current(self, now_s: float) -> Mapping[str, float]:
        """Node -> number; empty if there are none that can be believed."""
        return self._numbers if self.age_s(now_s) <= self._stale_s else {}

    async def follow(self, handle: Handle) -> None:
        """Fetch, wait, and again, until cancelled. What fails is logged, and tried again."""
        try:
            while True:
                await self.refresh(handle.monotonic_s)
                await self._sleep(self._refresh_s)
        finally:
            await self._source.close()

    async def refresh(self, now_s: Callable[[], float]) -> None:
        """Fetches once; if that fails the last numbers stay until they are too old."""
        try:
            async with asyncio.timeout(self._timeout_s):
                found = await self._source.fetch()
        except TimeoutError:
            self._note_failure(f"no answer in {self._timeout_s:g} s")
            return
        except SchedulerError as error:
            self._note_failure(str(error))
            return
        self._numbers = {name: value for name, value in found.items() if math.isfinite(value)}
        self._taken_s = now_s()
        self.version += 1
        self.fetched += 1
        if self._is_failing:
            _log.info("measurements are back", extra={"source": self._source.name})
        self._is_failing = False

    def _note_failure(self, why: str) -> None:
        self.failed += 1
        if not self._is_failing:
            _log.warning(
                "measurements cannot be had; decisions go on without them",
                extra={"source": self._source.name, "error": why},
            )
        self._is_failing = True
