"""Caches the newest values of a source, and drops them when they are stale.

::

    source ── fetch, every 15 s ──> MetricCache ── fresh_values(now) ──> plugin, in Score
               failure: logged once, retried; after 60 s without success: no values
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
    """A source of metrics, one number per node."""

    @property
    def name(self) -> str:
        """Its address, for logs."""
        ...

    async def fetch(self) -> Mapping[str, float]:
        """Returns node -> number, as of now.

        Raises:
            SchedulerError: the source cannot be read.
        """
        ...

    async def close(self) -> None:
        """Closes connections."""
        ...


class MetricCache:
    """The newest values of one source. Only ``follow`` waits; ``fresh_values`` never does.

    Args:
        source: Fetched periodically.
        refresh_s: Interval between two fetches.
        stale_s: Older values are not used.
        timeout_s: Of one fetch.
        sleep: Waits; tests pass their own.
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
        #: Successful and failed fetches.
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
        """The source's address without a password."""
        return self._source.name

    def age_s(self, now_s: float) -> float:
        """Returns the seconds since the last successful fetch; infinity before the first."""
        return now_s - self._taken_s

    def fresh_values(self, now_s: float) -> Mapping[str, float]:
        """Returns node -> value; empty if the values are older than ``stale_s``."""
        return self._numbers if self.age_s(now_s) <= self._stale_s else {}

    async def follow(self, handle: Handle) -> None:
        """Fetches periodically until cancelled; failures are logged and retried."""
        try:
            while True:
                await self.refresh(handle.monotonic_s)
                await self._sleep(self._refresh_s)
        finally:
            await self._source.close()

    async def refresh(self, now_s: Callable[[], float]) -> None:
        """Fetches once; after a failure the last values are used until they are stale."""
        try:
            async with asyncio.timeout(self._timeout_s):
                fetched = await self._source.fetch()
        except TimeoutError:
            self._note_failure(f"no answer in {self._timeout_s:g} s")
            return
        except SchedulerError as error:
            self._note_failure(str(error))
            return
        self._numbers = {name: value for name, value in fetched.items() if math.isfinite(value)}
        self._taken_s = now_s()
        self.version += 1
        self.fetched += 1
        if self._is_failing:
            _log.info("metric source recovered", extra={"source": self._source.name})
        self._is_failing = False

    def _note_failure(self, why: str) -> None:
        self.failed += 1
        if not self._is_failing:
            _log.warning(
                "metric source unavailable, scoring without it",
                extra={"source": self._source.name, "error": why},
            )
        self._is_failing = True
