"""Metrics of the metric sources: fetches, age of the values, nodes with a value.

The counts belong to each ``MetricCache`` and are added up at each scrape, so any registry takes
this collector: ``registry.register(MeasurementMetrics(caches, clock))``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mooring.clock import Clock
from mooring.framework import Framework
from mooring.load_metrics.metric_cache import MetricCache

FETCHES: Final = "scheduler_measurement_fetches"
AGE: Final = "scheduler_measurement_age_seconds"
NODES: Final = "scheduler_measurement_nodes"


def metric_caches(frameworks: Iterable[Framework]) -> list[MetricCache]:
    """Returns the metric caches of the score plugins of these profiles, each once."""
    attributes = [
        getattr(plugin, "measurements", None)
        for framework in frameworks
        for plugin in framework.plugins("score")
    ]
    return list(
        {
            id(attribute): attribute
            for attribute in attributes
            if isinstance(attribute, MetricCache)
        }.values()
    )


class MeasurementMetrics(Collector):
    """Fetches by source; caches of several profiles with one source are added up.

    ::

        scheduler_measurement_fetches_total{source, result="success"|"error"}
        scheduler_measurement_age_seconds{source}   since the last success; absent before the first
        scheduler_measurement_nodes{source}         with a fresh value

    Args:
        caches: The metric caches.
        clock: The clock of the caches.
    """

    def __init__(self, caches: Iterable[MetricCache], clock: Clock) -> None:
        self._caches = list(caches)
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics as of now."""
        now_s = self._clock.monotonic_s()
        fetches = CounterMetricFamily(
            FETCHES, "Fetches of node metrics by result.", labels=["source", "result"]
        )
        age = GaugeMetricFamily(
            AGE, "Seconds since the last successful fetch of node metrics.", labels=["source"]
        )
        nodes = GaugeMetricFamily(NODES, "Nodes with a fresh metric.", labels=["source"])
        by_source: dict[str, list[MetricCache]] = {}
        for cache in self._caches:
            by_source.setdefault(cache.source_name, []).append(cache)
        for source, caches in by_source.items():
            fetches.add_metric([source, "success"], sum(cache.fetched for cache in caches))
            fetches.add_metric([source, "error"], sum(cache.failed for cache in caches))
            ages = [cache.age_s(now_s) for cache in caches if cache.fetched]
            if ages:
                age.add_metric([source], max(ages))
            nodes.add_metric([source], min(len(cache.fresh_values(now_s)) for cache in caches))
        yield from (fetches, age, nodes)
