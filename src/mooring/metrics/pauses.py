"""Delays beside the work of the scheduler: the lag of the event loop, garbage collections."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from mooring.garbage import measured_collections
from mooring.metrics.series import Registered

#: How often the lag is measured.
LAG_INTERVAL_S: Final = 0.5


async def measure_loop_lag(
    metrics: Registered,
    now: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
) -> None:
    """Measures how late timers are, until cancelled.

    Args:
        metrics: Has ``mooring_event_loop_lag_seconds``.
        now: Returns monotonic seconds.
        sleep: Waits: ``asyncio.sleep``.
    """
    lags = metrics.distributions("mooring_event_loop_lag_seconds")
    while True:
        started_s = now()
        await sleep(LAG_INTERVAL_S)
        lags.labels().observe(max(0.0, now() - started_s - LAG_INTERVAL_S))


@contextmanager
def measured_gc(metrics: Registered, now: Callable[[], float]) -> Iterator[None]:
    """Records the duration of every garbage collection inside the block.

    Args:
        metrics: Has ``mooring_gc_pause_seconds``.
        now: Returns monotonic seconds.
    """
    pauses = metrics.distributions("mooring_gc_pause_seconds")

    def ended(generation: int, duration_s: float) -> None:
        pauses.labels(str(generation)).observe(duration_s)

    with measured_collections(now, ended):
        yield
