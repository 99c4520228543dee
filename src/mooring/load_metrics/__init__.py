"""Scores from measurements: where numbers come from, and the plugin that goes by them.

``MeasuredLoad`` is installed under its name, so a configuration enables it and says in its args
where the numbers come from; ``docs/guides/measured-scores.md`` shows it.
"""

from __future__ import annotations

from mooring.load_metrics.arguments import measured_load
from mooring.load_metrics.metric_cache import MetricCache, Source
from mooring.load_metrics.metrics import MeasurementMetrics, metric_caches
from mooring.load_metrics.sources import MetricFile, MetricsApi, Prometheus
from mooring.plugins.contrib.node_ready import NodeReady

__all__ = [
    "MeasurementMetrics",
    "MetricCache",
    "MetricFile",
    "MetricsApi",
    "NodeReady",
    "Prometheus",
    "Source",
    "measured_load",
    "metric_caches",
]
