"""Clocks and random generators; the only module that reads the operating system's time.

Everything else is given a ``Clock``. Tests and simulations pass one that
advances only when they say so (``VirtualClock``), so no test sleeps and every run can be repeated.
"""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime
from functools import lru_cache
from math import modf
from random import Random as Rng
from typing import Protocol

__all__ = [
    "Clock",
    "Rng",
    "SystemClock",
    "VirtualClock",
    "rfc3339",
    "rfc3339_micro",
    "seeded_random",
]

#: 9999-12-31T23:59:59Z, the last moment that the API can write.
LATEST_S = 253_402_300_799.0


class Clock(Protocol):
    """A monotonic and a wall clock, both in seconds."""

    def monotonic_s(self) -> float:
        """Seconds since some fixed moment; never goes back. For durations and deadlines."""
        ...

    def wall_s(self) -> float:
        """Seconds since 1970-01-01 UTC; may jump. For timestamps that people or the API read."""
        ...


class SystemClock:
    """The operating system's clock."""

    #: Seconds since boot or so: fine enough to time one plugin. Not a method of ours: the call
    #: would cost more than the reading, some twenty times for each pod.
    monotonic_s = staticmethod(time.perf_counter)

    def wall_s(self) -> float:
        """Seconds since 1970-01-01 UTC."""
        return time.time()

    def cpu_s(self) -> float:
        """Returns the CPU seconds (user and system) of this process; for benchmarks."""
        return time.process_time()


def seeded_random(seed: int) -> Rng:
    """Returns the generator that a run passes around; equal seeds give equal runs."""
    return random.Random(seed)  # noqa: S311 - chance for simulations and tie-breaks, not for secrets


def random_uuid(rng: Rng) -> str:
    """Returns a UUID of version 4 from ``rng``."""
    text = f"{rng.getrandbits(128):032x}"
    variant = "89ab"[int(text[16], 16) % 4]
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"


def rfc3339(wall_s: float) -> str:
    """Returns a moment (seconds since 1970-01-01 UTC) as the API writes it, in whole seconds.

    Example:
        >>> rfc3339(1_767_225_600.9)
        '2026-01-01T00:00:00Z'
    """
    return f"{_second(int(min(wall_s, LATEST_S) // 1))}Z"


def rfc3339_micro(wall_s: float) -> str:
    """Returns a moment as the API writes it, in microseconds.

    Example:
        >>> rfc3339_micro(1_767_225_600.9)
        '2026-01-01T00:00:00.900000Z'
    """
    fraction, second = modf(wall_s)
    carry, micros = divmod(round(fraction * 1e6), 1_000_000)
    return f"{_second(int(second) + carry)}.{micros:06d}Z"


@lru_cache(maxsize=1024)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


class VirtualClock:
    """A clock that advances only on request, for tests and simulations.

    Example:
        >>> clock = VirtualClock()
        >>> clock.advance(1.5)
        >>> clock.monotonic_s()
        1.5
    """

    def __init__(self, *, monotonic_s: float = 0.0, wall_s: float = 1_767_225_600.0) -> None:
        """Starts at 0, by default on 2026-01-01T00:00:00Z."""
        self._monotonic_s = monotonic_s
        self._wall_s = wall_s

    def monotonic_s(self) -> float:
        """Seconds since the clock was made."""
        return self._monotonic_s

    def wall_s(self) -> float:
        """Seconds since 1970-01-01 UTC."""
        return self._wall_s

    def advance(self, seconds: float) -> None:
        """Advances both readings by ``seconds``.

        Raises:
            ValueError: if that were back in time.
        """
        if seconds < 0:
            raise ValueError(f"time goes forward only, not by {seconds} s")
        self._monotonic_s += seconds
        self._wall_s += seconds

    def step_wall(self, seconds: float) -> None:
        """Adjusts only the wall clock, as an operator or NTP does."""
        self._wall_s += seconds
