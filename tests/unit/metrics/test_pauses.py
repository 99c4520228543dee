"""The event loop's lag and the garbage collector's pauses."""

from __future__ import annotations

import gc

import pytest

from mooring.clock import VirtualClock
from mooring.metrics.pauses import LAG_INTERVAL_S, measure_loop_lag, measured_gc
from mooring.metrics.registry import Metrics
from mooring.virtual_loop import run_virtually
from tests.helpers.exposition import value


class Enough(Exception):
    """Ends the measurement."""


def test_the_lag_is_what_a_timer_takes_longer() -> None:
    clock, late_s = VirtualClock(), [0.0, 0.3, 0.0]
    metrics = Metrics(clock=clock)

    async def sleep(seconds: float) -> None:
        if not late_s:
            raise Enough
        assert seconds == LAG_INTERVAL_S
        clock.advance(seconds + late_s.pop(0))

    async def main() -> None:
        with pytest.raises(Enough):
            await measure_loop_lag(metrics, clock.monotonic_s, sleep)

    run_virtually(main())
    body, _ = metrics.expose()
    assert value(body, "mooring_event_loop_lag_seconds_count") == 3
    assert value(body, "mooring_event_loop_lag_seconds_bucket", le="0.25") == 2
    assert value(body, "mooring_event_loop_lag_seconds_sum") == pytest.approx(0.3)


def test_collections_are_recorded_by_generation_inside_the_block() -> None:
    clock = VirtualClock()
    metrics = Metrics(clock=clock)
    before = len(gc.callbacks)
    gc.disable()  # a collection that begins by itself counts, too
    try:
        with measured_gc(metrics, clock.monotonic_s):
            gc.collect(2)
            gc.collect(0)
        gc.collect(2)
    finally:
        gc.enable()
    assert len(gc.callbacks) == before
    pauses = metrics.distributions("mooring_gc_pause_seconds")
    assert pauses.labels("2").count == 1
    assert pauses.labels("0").count >= 1
