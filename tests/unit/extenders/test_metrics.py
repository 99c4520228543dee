"""Outages are seen in metrics: of extenders, and of what measures nodes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from mooring.clock import VirtualClock
from mooring.errors import ExtenderError, LeaseLost
from mooring.extenders import ExtenderMetrics
from mooring.load_metrics import MeasurementMetrics, MetricCache, metric_caches
from mooring.load_metrics.sources import MeasuringError
from mooring.testing import make_pod
from tests.helpers.extenders import NODES, Play, away, configured, extender
from tests.helpers.running_scheduler import Life, run_scheduler, virtually
from tests.unit.load_metrics.test_load_metrics import Scripted


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    found: float | None = registry.get_sample_value(name, labels)
    return found


def calls(life: Life, name: str, verb: str) -> tuple[float | None, float | None]:
    """Returns how many calls, and how many of them failed."""
    registry = life.service.extenders.metrics.registry
    labels = {"extender": f"http://{name}", "verb": verb}
    return (
        value(registry, "scheduler_extender_call_duration_seconds_count", **labels),
        value(registry, "scheduler_extender_call_errors_total", **labels),
    )


@pytest.mark.parametrize(
    ("error", "failed"), [(None, 0), (ExtenderError("no"), 1), (LeaseLost("no"), 0)]
)
def test_only_an_error_of_the_extender_is_a_failure_of_it(
    error: Exception | None, failed: int
) -> None:
    metrics, clock = ExtenderMetrics(), VirtualClock()
    metrics.watch("http://one", "bind")

    def call() -> None:
        with metrics.call("http://one", "bind", clock):
            clock.advance(7.0)
            if error is not None:
                raise error

    with suppress(ExtenderError, LeaseLost):
        call()
    labels = {"extender": "http://one", "verb": "bind"}
    seconds = "scheduler_extender_call_duration_seconds"
    assert value(metrics.registry, "scheduler_extender_call_errors_total", **labels) == failed
    assert value(metrics.registry, f"{seconds}_sum", **labels) == 7.0
    # Beyond the default timeout of 5 s there is a bucket of its own.
    for limit, count in (("0.001", 0), ("5.0", 0), ("10.0", 1), ("+Inf", 1)):
        assert value(metrics.registry, f"{seconds}_bucket", le=limit, **labels) == count


@virtually
async def test_calls_of_extenders_are_counted_by_verb() -> None:
    config = configured(
        extender("one", "filter", "prioritize"), extender("two", "filter", ignorable=True)
    )
    play = Play(two_filter=away)
    async with run_scheduler(
        *NODES, config=config, transport_factory=play.transport_factory
    ) as life:
        assert calls(life, "one", "filter") == (0, 0)
        assert calls(life, "one", "bind") == (None, None)
        for name in ("web-0", "web-1"):
            await life.create(make_pod(name))
            await life.until_seen("bound", name)
        assert calls(life, "one", "filter") == (2, 0)
        assert calls(life, "one", "prioritize") == (2, 0)
        assert calls(life, "two", "filter") == (2, 2)


@virtually
async def test_answers_that_cannot_be_read_are_errors_and_calls_take_time() -> None:
    config = configured(extender("one", "filter"))
    play = Play(filter=lambda _: b"no JSON")

    async def think(name: str, verb: str) -> None:
        await asyncio.sleep(1.5)

    play.think = think
    async with run_scheduler(
        *NODES, config=config, transport_factory=play.transport_factory
    ) as life:
        await life.create(make_pod("web"))
        await life.until_seen("failed", "web")
        total, failed = calls(life, "one", "filter")
        assert total == failed == 1
        registry = life.service.extenders.metrics.registry
        labels = {"extender": "http://one", "verb": "filter"}
        took_s = value(registry, "scheduler_extender_call_duration_seconds_sum", **labels)
        assert took_s is not None
        assert 1.5 <= took_s < 1.6
        play.answers.clear()
        await life.until_seen("bound", "web")


@virtually
async def test_bindings_by_extenders_are_counted() -> None:
    config = configured(extender("one", "bind", ignorable=True))
    play = Play(bind=lambda _: {"Error": "no"})
    async with run_scheduler(
        *NODES, config=config, transport_factory=play.transport_factory
    ) as life:
        await life.create(make_pod("web"))
        await life.until_seen("bound", "web")
        assert calls(life, "one", "bind") == (1, 1)


def test_fetches_and_the_age_of_measurements_are_shown() -> None:
    clock = VirtualClock()
    cache = MetricCache(Scripted({"a": 1.0, "b": 2.0}, MeasuringError("no")), stale_s=60)
    registry = CollectorRegistry()
    registry.register(MeasurementMetrics([cache], clock))
    source = {"source": "script"}
    assert value(registry, "scheduler_measurement_age_seconds", **source) is None
    assert value(registry, "scheduler_measurement_nodes", **source) == 0
    asyncio.run(cache.refresh(clock.monotonic_s))
    clock.advance(40)
    asyncio.run(cache.refresh(clock.monotonic_s))
    fetches = "scheduler_measurement_fetches_total"
    assert value(registry, fetches, result="success", **source) == 1
    assert value(registry, fetches, result="error", **source) == 1
    assert value(registry, "scheduler_measurement_age_seconds", **source) == 40
    assert value(registry, "scheduler_measurement_nodes", **source) == 2
    clock.advance(40)  # now they are too old
    assert value(registry, "scheduler_measurement_nodes", **source) == 0
    assert value(registry, "scheduler_measurement_age_seconds", **source) == 80


@virtually
async def test_one_registry_can_show_all_that_a_scheduler_has() -> None:
    """Two profiles that go by one source are one line each, as exposition wants it."""
    path = Path(__file__)  # no JSON: an outage
    plugins = {"multiPoint": {"enabled": [{"name": "MeasuredLoad"}]}}
    args = [{"name": "MeasuredLoad", "args": {"file": {"path": str(path)}}}]
    profiles = [
        {"schedulerName": name, "plugins": plugins, "pluginConfig": args} for name in ("x", "y")
    ]
    config = configured(extender("one", "filter"), profiles=profiles)
    async with run_scheduler(
        *NODES, config=config, transport_factory=Play().transport_factory
    ) as life:
        await life.create(make_pod("web", scheduler_name="x"))
        await life.until_seen("bound", "web")
        caches = metric_caches(life.service.profiles.values())
        assert len(caches) == 2
        registry: Any = CollectorRegistry()
        registry.register(life.service.extenders.metrics.registry)
        registry.register(MeasurementMetrics(caches, life.clock))
        text = generate_latest(registry).decode()
    failed = f'scheduler_measurement_fetches_total{{result="error",source="{path}"}} 2.0'
    assert text.count("scheduler_measurement_fetches_total{") == 2
    assert failed in text
    assert 'scheduler_extender_call_errors_total{extender="http://one",verb="filter"} 0.0' in text
