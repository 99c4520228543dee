"""Exports the errors of plugins as a metric.

The counts belong to the frameworks and are added up at each scrape, so any registry takes this
collector: ``registry.register(PluginErrorMetrics(frameworks))``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from mooring.framework import Framework

PLUGIN_ERRORS: Final = "scheduler_plugin_errors"


class PluginErrorMetrics(Collector):
    """Errors of plugins by plugin and extension point, of all profiles together.

    ::

        scheduler_plugin_errors_total{plugin, extension_point}

    kube-scheduler has no such metric: its errors of plugins are only in its log.
    """

    def __init__(self, frameworks: Iterable[Framework]) -> None:
        self._frameworks = list(frameworks)

    def collect(self) -> Iterator[Metric]:
        """Yields the counts as they are now."""
        errors = CounterMetricFamily(
            PLUGIN_ERRORS,
            "Plugins that raised an exception or broke their contract.",
            labels=["plugin", "extension_point"],
        )
        totals: dict[tuple[str, str], int] = {}
        for framework in self._frameworks:
            for pair, count in framework.errors.statistics().items():
                totals[pair] = totals.get(pair, 0) + count
        for pair, count in totals.items():
            errors.add_metric(list(pair), count)
        yield errors
