"""Metrics: all metrics of one scheduler, in one registry of prometheus_client.

::

    queue, framework, scheduler, client ── recorders ──> series
                                                            │ collect, at a scrape
    cache, queue (read at a scrape) ── refresh ─────────────┤
    other collectors (process, Python, extenders) ──────────┴──> text
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from mooring.clock import Clock
from mooring.metrics.catalog import FAMILIES
from mooring.metrics.client_recorder import ClientRecorder
from mooring.metrics.exposition import TEXT, Exposition
from mooring.metrics.family import HISTOGRAM, METRICS, RESOURCES, SLIS, Family
from mooring.metrics.options import KUBERNETES_VERSION, MetricsOptions
from mooring.metrics.pod_resources import pod_resources
from mooring.metrics.profile_recorder import ProfileRecorder
from mooring.metrics.recorders import SchedulerRecorder
from mooring.metrics.scheduler_recorder import RecordingScheduler
from mooring.metrics.series import Distribution, Distributions, Number, Numbers, Vector
from mooring.metrics.text import number_text
from mooring.objects.pod import Pod

_UNEXPECTED: Final = "cardinality_enforcement_unexpected_categorizations_total"


class Metrics(Collector):
    """The metrics of one process, or of one scheduler in a test.

    Example::

        metrics = Metrics(clock=SystemClock())
        service = Service(client, options=ServiceOptions(metrics=metrics), ...)
        body, content_type = metrics.expose()

    Attributes:
        registry: Also holds the collectors of the process, and those added by ``register``.
        scheduler: Records attempts, events, hints and preemptions.
        client: Records requests to the API server, and the lease.

    Args:
        options: Disabled families, allowed labels, feature gates, version.
        clock: Of the scheduler: durations are measured with it.
    """

    def __init__(self, options: MetricsOptions | None = None, *, clock: Clock) -> None:
        self._options = options or MetricsOptions()
        self._clock = clock
        self._gates = {feature.name: feature.is_enabled for feature in self._options.features}
        self._families = {
            family.name: family for family in FAMILIES if family.endpoint != RESOURCES
        }
        self._numbers: dict[str, Numbers] = {}
        self._distributions: dict[str, Distributions] = {}
        for family in self._families.values():
            self._make(family)
        self._on_scrape: list[Callable[[], None]] = []
        self._on_reset: list[Callable[[], None]] = []
        self._pods: Callable[[], Iterable[Pod]] | None = None
        self.scheduler: SchedulerRecorder = RecordingScheduler(self, clock.monotonic_s)
        self.client = ClientRecorder(self, clock.monotonic_s)
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._process_started_s = (
            self.registry.get_sample_value("process_start_time_seconds") or clock.wall_s()
        )
        self._set_constants()

    # -- recording --------------------------------------------------------------------------------

    def numbers(self, name: str) -> Numbers:
        """Returns the series of a counter or gauge."""
        return self._numbers[name]

    def distributions(self, name: str) -> Distributions:
        """Returns the series of a histogram."""
        return self._distributions[name]

    def profile(self, name: str, plugins: Mapping[str, Sequence[str]]) -> ProfileRecorder:
        """Returns the recorder of a profile.

        Args:
            name: Its schedulerName.
            plugins: Extension point -> names of its plugins: see ``ProfileRecorder``.
        """
        recorder = ProfileRecorder(name, plugins, self._clock.monotonic_s, self)
        self._on_scrape.append(recorder.fold)
        return recorder

    def record_healthcheck(self, name: str, endpoint: str, *, passed: bool) -> None:
        """Records the result of a health check; ``endpoint`` is healthz, livez or readyz."""
        self._numbers["kubernetes_healthcheck"].labels(name, endpoint).value = float(passed)
        status = "success" if passed else "error"
        self._numbers["kubernetes_healthchecks_total"].labels(name, endpoint, status).add()

    def watch_lease(self, is_leading: Callable[[], bool]) -> None:
        """Exposes whether this process holds the lease, from the creation of the elector on."""
        self.on_scrape(lambda: self.client.set_leading(is_leading=is_leading()))

    # -- sources ----------------------------------------------------------------------------------

    def register(self, collector: Collector) -> None:
        """Adds a collector of prometheus_client."""
        self.registry.register(collector)

    def on_scrape(self, refresh: Callable[[], None]) -> None:
        """Calls ``refresh`` before each scrape, to set what is read from elsewhere."""
        self._on_scrape.append(refresh)

    def on_reset(self, forget: Callable[[], None]) -> None:
        """Calls ``forget`` at each reset; it does not remove series."""
        self._on_reset.append(forget)

    def set_pods(self, pods: Callable[[], Iterable[Pod]]) -> None:
        """Sets the source of /metrics/resources: all pods."""
        self._pods = pods

    # -- endpoints --------------------------------------------------------------------------------

    def expose(self, exposition: Exposition = TEXT) -> tuple[bytes, str]:
        """Returns the body and the content type of /metrics."""
        disabled = self._options.disabled
        enabled = (metric for metric in self.registry.collect() if metric.name not in disabled)
        return exposition.render(enabled), exposition.content_type

    def expose_slis(self, exposition: Exposition = TEXT) -> tuple[bytes, str]:
        """Returns the body and the content type of /metrics/slis."""
        started = self._numbers["process_start_time_seconds"].labels()
        started.value = self._process_started_s
        return exposition.render(self._collect(SLIS)), exposition.content_type

    def expose_resources(self, exposition: Exposition = TEXT) -> tuple[bytes, str]:
        """Returns the body and the content type of /metrics/resources; "" without pods."""
        if self._pods is None:
            return b"", ""
        enabled = [
            metric
            for metric in pod_resources(self._pods())
            if metric.name not in self._options.disabled
        ]
        return exposition.render(enabled), exposition.content_type

    def collect(self) -> Iterator[Metric]:
        """Yields the families of /metrics as they are now."""
        for refresh in self._on_scrape:
            refresh()
        yield from self._collect(METRICS)

    def reset(self) -> None:
        """Removes all series of /metrics, as DELETE /metrics does; constants are set again.

        Gauges of the present state, such as ``scheduler_pending_pods``, are back at the next
        scrape.
        """
        for refresh in self._on_scrape:
            refresh()
        self._clear(METRICS)
        for forget in self._on_reset:
            forget()
        self._set_constants()

    def reset_slis(self) -> None:
        """Removes all series of /metrics/slis."""
        self._clear(SLIS)

    # -- series -----------------------------------------------------------------------------------

    def _make(self, family: Family) -> None:
        allowed, count = self._options.allowed_values(family.name), self._count_unexpected
        if family.kind == HISTOGRAM:
            self._distributions[family.name] = Vector(
                family, Distribution, allowed=allowed, on_unexpected=count
            )
        else:
            self._numbers[family.name] = Vector(
                family, Number, allowed=allowed, on_unexpected=count
            )

    def _count_unexpected(self) -> None:
        self._numbers[_UNEXPECTED].labels().add()

    def is_registered(self, family: Family) -> bool:
        """Returns whether the gate of a family is on, and the family is not disabled."""
        if family.name in self._options.disabled:
            return False
        return not family.gate or self._gates.get(family.gate, family.is_gate_on)

    def _clear(self, endpoint: str) -> None:
        for name, family in self._families.items():
            if family.endpoint == endpoint:
                vector = self._numbers.get(name) or self._distributions[name]
                vector.clear()

    def _set_constants(self) -> None:
        """Sets what does not change while the process runs."""
        options, numbers = self._options, self._numbers
        for feature in options.features:
            enabled = numbers["kubernetes_feature_enabled"].labels(feature.name, feature.stage)
            enabled.value = float(feature.is_enabled)
        numbers["kubernetes_build_info"].labels(*options.build.labels).value = 1
        versions = options.emulation_version, options.min_compatibility_version
        numbers["version_info"].labels("kube", KUBERNETES_VERSION, *versions).value = 1
        numbers["disabled_metrics_total"].labels().value = len(set(filter(None, options.disabled)))
        registered = numbers["registered_metrics_total"]
        for family in FAMILIES:
            if family.stability and self.is_registered(family):
                registered.labels(family.stability, "").value += 1
        numbers["rest_client_exec_plugin_ttl_seconds"].labels().value = float("inf")

    def _collect(self, endpoint: str) -> Iterator[Metric]:
        for family in self._families.values():
            if family.endpoint == endpoint and self.is_registered(family):
                metric = Metric(family.name, family.help_text, family.kind)
                if family.kind == HISTOGRAM:
                    metric.samples = list(_buckets(self._distributions[family.name]))
                else:
                    metric.samples = list(_values(self._numbers[family.name]))
                yield metric


def _values(numbers: Numbers) -> Iterator[Sample]:
    names = numbers.family.labels
    for values, child in sorted(numbers.children.items()):
        yield Sample(numbers.family.name, dict(zip(names, values, strict=True)), child.value)


def _buckets(distributions: Distributions) -> Iterator[Sample]:
    family = distributions.family
    bounds = [*map(number_text, family.buckets), "+Inf"]
    bucket_name = f"{family.name}_bucket"
    for values, child in sorted(distributions.children.items(), key=lambda pair: pair[0]):
        labels = dict(zip(family.labels, values, strict=True))
        total = 0
        for bound, count in zip(bounds, child.counts, strict=True):
            total += count
            yield Sample(bucket_name, {**labels, "le": bound}, total)
        yield Sample(f"{family.name}_sum", labels, child.sum)
        yield Sample(f"{family.name}_count", labels, total)
