"""The metrics of the scheduler's state: read at each scrape, so they cost a decision nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from mooring.framework import Framework
from mooring.metrics.profile_recorder import EVALUATED
from mooring.metrics.registry import Metrics as MetricsRegistry
from mooring.metrics.series import Numbers
from mooring.queue import QueueName, SchedulingQueue
from mooring.scheduler.binding_tasks import BindingTasks
from mooring.scheduler.debugger import CacheAudit
from mooring.state.cache import Cache

#: Queue -> its label. Gated pods have come into the queue of unschedulable ones, as upstream.
_INCOMING: Final = {
    QueueName.ACTIVE: "active",
    QueueName.BACKOFF: "backoff",
    QueueName.UNSCHEDULABLE: "unschedulable",
    QueueName.GATED: "unschedulable",
}
#: Plugins with PreScore in kube-scheduler, which here do that work in ``score``. Neither skips a
#: pod, so both are evaluated whenever nodes are scored.
_PRE_SCORED_WITH_SCORE: Final = ("NodeResourcesFit", "TaintToleration")

_PENDING: Final = (
    QueueName.ACTIVE,
    QueueName.BACKOFF,
    QueueName.UNSCHEDULABLE,
    QueueName.GATED,
)

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


class Totals:
    """A counter whose total belongs to another object, and only grows.

    A reset of the metrics cannot set that total to zero, so the counter shows what has come since.
    """

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._last: dict[tuple[str, ...], float] = {}
        self._base: dict[tuple[str, ...], float] = {}

    def set(self, total: float, *labels: str) -> None:
        """Sets the total of these label values."""
        self._last[labels] = total
        since_reset = total - self._base.get(labels, 0)
        if since_reset or labels not in self._base:
            self._numbers.labels(*labels).value = since_reset

    def reset(self) -> None:
        """Counts from the last totals on."""
        self._base = dict(self._last)


def record_frameworks(metrics: MetricsRegistry, profiles: Mapping[str, Framework]) -> None:
    """Records the extension points and plugins of the profiles from now on."""
    for name, framework in profiles.items():
        plugins = {
            point: [plugin.name for plugin in framework.plugins(method)]
            for point, method in EVALUATED.items()
        }
        scorers = [plugin.name for plugin in framework.scorers]
        plugins["PreScore"] += [name for name in _PRE_SCORED_WITH_SCORE if name in scorers]
        recorder = metrics.profile(name, plugins)
        recorder.is_unbatchable = framework.has_batching_gate and framework.batch is None
        framework.recorder = framework.timings.recorder = recorder


def record_audit(metrics: MetricsRegistry, audit: CacheAudit) -> None:
    """Exposes how often the cache was audited, and the differences found."""
    passes = Totals(metrics.numbers("mooring_cache_audits_total"))
    differences = Totals(metrics.numbers("mooring_cache_differences_total"))

    def refresh() -> None:
        passes.set(audit.passes)
        for difference, count in audit.statistics().items():
            differences.set(count, difference)

    metrics.on_scrape(refresh)
    for totals in (passes, differences):
        metrics.on_reset(totals.reset)


class SchedulerMetrics:
    """The metrics that are read from queue, cache, frameworks and bindings.

    ::

        scheduler_pending_pods{queue}                     scheduler_cache_size{type}
        scheduler_queue_incoming_pods_total{queue, event} scheduler_goroutines{operation="binding"}
        scheduler_unschedulable_pods{plugin, profile}     go_goroutines
        scheduler_inflight_events{event}                  mooring_result_cache_lookups_total
        scheduler_plugin_errors_total                     mooring_plugin_sampled_seconds_total

    Args:
        queue: The pending pods.
        cache: Nodes and pods.
        profiles: SchedulerName -> Framework.
        bindings: The running binding cycles.
    """

    def __init__(
        self,
        queue: SchedulingQueue,
        cache: Cache,
        profiles: Mapping[str, Framework],
        bindings: BindingTasks,
    ) -> None:
        self._queue = queue
        self._cache = cache
        self._profiles = profiles
        self._bindings = bindings

    def connect(self, metrics: MetricsRegistry) -> None:
        """Records what the frameworks do, and refreshes the metrics before each scrape."""
        record_frameworks(metrics, self._profiles)
        metrics.register(PluginErrorMetrics(self._profiles.values()))
        incoming = Totals(metrics.numbers("scheduler_queue_incoming_pods_total"))
        lookups = Totals(metrics.numbers("mooring_result_cache_lookups_total"))
        seconds = Totals(metrics.numbers("mooring_plugin_sampled_seconds_total"))
        quarantines = Totals(metrics.numbers("mooring_pod_quarantines_total"))

        def refresh() -> None:
            self._refresh_queue(metrics, incoming)
            metrics.numbers(
                "mooring_quarantined_pods"
            ).labels().value = self._queue.quarantined_count
            for plugin, count in self._queue.quarantine.counts.items():
                quarantines.set(count, plugin)
            self._refresh_state(metrics)
            self._refresh_frameworks(lookups, seconds)

        metrics.on_scrape(refresh)
        for totals in (incoming, lookups, seconds, quarantines):
            metrics.on_reset(totals.reset)

    def _refresh_queue(self, metrics: MetricsRegistry, incoming: Totals) -> None:
        counts, statistics = self._queue.counts(), self._queue.statistics()
        pending = metrics.numbers("scheduler_pending_pods")
        for queue_name in _PENDING:
            pending.labels(queue_name.value).value = counts[queue_name]
        statistics = self._queue.statistics()
        moved: dict[tuple[str, str], int] = {}
        for (queue_name, event), count in statistics.incoming.items():
            if queue_name in _INCOMING:
                at = _INCOMING[queue_name], event
                moved[at] = moved.get(at, 0) + count
        for at, count in moved.items():
            incoming.set(count, *at)
        rejected = metrics.numbers("scheduler_unschedulable_pods")
        for (plugin, profile), count in statistics.rejected.items():
            rejected.labels(plugin, profile).value = count
        events = metrics.numbers("scheduler_inflight_events")
        in_flight = dict(statistics.in_flight)
        for (event,), number in events.children.items():
            number.value = in_flight.pop(event, 0)
        for event, count in in_flight.items():
            events.labels(event).value = count

    def _refresh_state(self, metrics: MetricsRegistry) -> None:
        size = metrics.numbers("scheduler_cache_size")
        size.labels("nodes").value = len(self._cache.nodes)
        size.labels("pods").value = len(self._cache.pods)
        size.labels("assumed_pods").value = self._cache.assumed_count()
        metrics.numbers("scheduler_goroutines").labels("binding").value = len(self._bindings)
        try:
            tasks = len(asyncio.all_tasks())
        except RuntimeError:
            return  # a test reads metrics outside of the loop
        metrics.numbers("go_goroutines").labels().value = tasks

    def _refresh_frameworks(self, lookups: Totals, seconds: Totals) -> None:
        for profile, framework in self._profiles.items():
            for result, count in framework.cache_statistics().items():
                lookups.set(count, profile, result)
            for (plugin, point), timing in framework.timings.statistics().items():
                seconds.set(timing.seconds, profile, plugin, point)
