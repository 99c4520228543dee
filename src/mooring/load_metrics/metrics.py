"""How the measuring itself fares, for whoever serves metrics.

Counts live with each ``Keeper``; they are put together when somebody looks. So this is a collector
that any registry takes: ``registry.register(MeasurementMetrics(keepers, clock))``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mooring.clock import Clock
from mooring.framework import Framework
from mooring.load_metrics.metric_cache import Keeper

FETCHES: Final = "scheduler_measurement_fetches"
AGE: Final = "scheduler_measurement_age_seconds"
NODES: Final = "scheduler_measurement_nodes"


def keepers_of(frameworks: Iterable[Framework]) -> list[Keeper]:
    """Returns the keepers whose numbers the score plugins of these profiles go by, each once."""
    found = [
        getattr(plugin, "measurements", None)
        for framework in frameworks
        for plugin in framework.plugins("score")
    ]
    return list({id(each): each for each in found if isinstance(each, Keeper)}.values())


class MeasurementMetrics(Collector):
    """What keepers did, by source; those of several profiles that share a source are one.

    ::

        scheduler_measurement_fetches_total{source, result="success"|"error"}
        scheduler_measurement_age_seconds{source}   since the last success; absent before the first
        scheduler_measurement_nodes{source}         with a number that is believed now

    Args:
        keepers: Whose.
        clock: The one that the keepers go by.
    """

    def __init__(self, keepers: Iterable[Keeper], clock: Clock) -> None:
        self._keepers = list(keepers)
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """Returns the numbers as they are now."""
        now_s = self._clock.monotonic_s()
        fetches = CounterMetricFamily(
            FETCHES, "Attempts to fetch measurements of nodes.", labels=["source", "result"]
        )
        age = GaugeMetricFamily(
            AGE, "Seconds since measurements were fetched for the last time.", labels=["source"]
        )
        nodes = GaugeMetricFamily(
            NODES, "Nodes with a measurement that is not too old.", labels=["source"]
        )
        by_source: dict[str, list[Keeper]] = {}
        for keeper in self._keepers:
            by_source.setdefault(keeper.source_name, []).append(keeper)
        for source, keepers in by_source.items():
            fetches.add_metric([source, "success"], sum(each.fetched for each in keepers))
            fetches.add_metric([source, "error"], sum(each.failed for each in keepers))
            ages = [keeper.age_s(now_s) for keeper in keepers if keeper.fetched]
            if ages:
                age.add_metric([source], max(ages))
            nodes.add_metric([source], min(len(each.current(now_s)) for each in keepers))
        yield from (fetches, age, nodes)
