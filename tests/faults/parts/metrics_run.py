"""The metrics that are read from queue, cache, frameworks, bindings and audits at each scrape.

All of these are numbers that a seed draws; totals grow, and now and then the metrics are reset.
What is exposed are those numbers: totals since the last reset, present numbers as they are. Which
plugins a profile records, containers with a limit and their lengths are compared, too.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from types import SimpleNamespace
from typing import Any, Final

from mooring.clock import Rng, VirtualClock, seeded_random
from mooring.metrics.registry import Metrics
from mooring.queue import QueueName
from mooring.scheduler.debugger.buffers import record_buffers
from mooring.scheduler.metrics import SchedulerMetrics, record_audit
from tests.faults.parts.virtual_runs import check_run

SCRAPES: Final = 25
PLUGINS: Final = ("NodeResourcesFit", "TaintToleration", "Other", "Third")
POINTS: Final = {
    "PreFilter": "pre_filter",
    "Filter": "filter",
    "PreScore": "pre_score",
    "Score": "score",
}
#: Of other parts of the process, or constant.
OTHERS: Final = ("go_", "process_", "python_", "kubernetes_", "version_", "rest_client_")
TASKS: Final = "go_goroutines"
LABELS: Final = {QueueName.ACTIVE: "active", QueueName.BACKOFF: "backoff"}
PENDING: Final = {
    QueueName.ACTIVE: "active",
    QueueName.BACKOFF: "backoff",
    QueueName.UNSCHEDULABLE: "unschedulable",
    QueueName.GATED: "gated",
}
#: Name, and labels in order.
Series = tuple[str, tuple[tuple[str, str], ...]]


class Shelf:
    """A container of containers; its module says that it is one of mooring's."""

    __module__ = "mooring.scheduler.debugger.buffers"

    def __init__(self, rng: Rng) -> None:
        self.bounded: deque[int] = deque(maxlen=rng.randrange(5, 9))
        self.unbounded: deque[int] = deque()
        self.listed = list(range(rng.randrange(5)))
        self.nested: dict[str, Shelf] = {}


class InFlight:
    """Has the name and the attribute of a container with a limit in a table."""

    __module__ = "mooring.scheduler.debugger.buffers"

    def __init__(self) -> None:
        self._events: list[int] = []
        self._max_events: int | None = 7


class MetricsRun:
    """One run.

    Attributes:
        problems: Differences.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = rng = seeded_random(seed)
        self._metrics = Metrics(clock=VirtualClock())
        #: Totals by series, and what they were at the last reset.
        self._totals: Counter[Series] = Counter()
        self._base: Counter[Series] = Counter()
        self._seen: set[Series] = set()
        self._profiles: dict[str, Any] = {
            name: self._framework() for name in ("default-scheduler", "second")
        }
        self._queue: Any = SimpleNamespace()
        self._cache: Any = SimpleNamespace(nodes=[], pods=[])
        self._bindings: list[int] = []
        self._audit: Any = SimpleNamespace(passes=0, statistics=dict)
        self._shelf = Shelf(rng)
        self._shelves: list[Shelf] = [self._shelf]
        self._in_flight, self._other = InFlight(), InFlight()
        self._more, self._flight_limit = seeded_random(seed + 5), 0
        #: Events that were in flight at any time.
        self._events: set[str] = set()
        self._buffers: set[str] = set()
        self._draw()
        self._connect()

    def _framework(self) -> Any:
        rng = self._rng
        points = {
            method: [SimpleNamespace(name=name) for name in PLUGINS if rng.random() < 0.6]
            for method in POINTS.values()
        }
        return SimpleNamespace(
            errors=SimpleNamespace(statistics=dict),
            cache_statistics=dict,
            timings=SimpleNamespace(statistics=dict, recorder=None),
            plugins=lambda method: points[method],
            scorers=points["score"],
            has_batching_gate=rng.random() < 0.5,
            batch=rng.choice((None, "batch")),
            recorder=None,
        )

    def _connect(self) -> None:
        """Connects all, and compares which plugins are recorded."""
        real = self._metrics.profile
        made: dict[str, Any] = {}

        def profile(name: str, plugins: Any) -> Any:
            recorder = real(name, plugins)
            made[name] = dict(plugins), recorder
            return recorder

        self._metrics.profile = profile  # type: ignore[method-assign]
        parts = SchedulerMetrics(self._queue, self._cache, self._profiles, self._bindings)  # type: ignore[arg-type]
        parts.connect(self._metrics)
        record_audit(self._metrics, self._audit)
        flights = {"flight": self._in_flight, "other": self._other}
        record_buffers(self._metrics, SimpleNamespace(shelf=self._shelf, **flights))
        for name, framework in self._profiles.items():
            expected = {
                point: [plugin.name for plugin in framework.plugins(method)]
                for point, method in POINTS.items()
            }
            scorers = expected["Score"]
            expected["PreScore"] = expected["PreScore"] + [
                name for name in ("NodeResourcesFit", "TaintToleration") if name in scorers
            ]
            plugins, recorder = made[name]
            is_unbatchable = framework.has_batching_gate and framework.batch is None
            if plugins != expected or recorder.is_unbatchable != is_unbatchable:
                self.problems.append(f"records {plugins}, not {expected}")
            if framework.recorder is not recorder or framework.timings.recorder is not recorder:
                self.problems.append("a framework does not record")

    # -- numbers ----------------------------------------------------------------------------------

    def _draw(self) -> None:
        """Draws the present numbers, and adds to totals."""
        rng, queue = self._rng, self._queue
        counts = {name: rng.randrange(9) for name in QueueName}
        queue.counts = lambda: counts
        incoming = self._grown("incoming", list(QueueName), ("PodAdd", "NodeAdd"))
        rejected = {
            (plugin, profile): rng.randrange(4) for plugin in PLUGINS for profile in self._profiles
        }
        in_flight = {event: rng.randrange(1, 5) for event in ("A", "B", "C") if rng.random() < 0.5}
        statistics = SimpleNamespace(incoming=incoming, rejected=rejected, in_flight=in_flight)
        queue.statistics = lambda: statistics
        queue.quarantined_count = rng.randrange(5)
        quarantined = self._grown("quarantined", PLUGINS, ("",))
        queue.quarantine = SimpleNamespace(
            counts={plugin: count for (plugin, _), count in quarantined.items()}
        )
        self._cache.nodes[:] = range(rng.randrange(7))
        self._cache.pods[:] = range(rng.randrange(7))
        assumed = rng.randrange(7)
        self._cache.assumed_count = lambda: assumed
        self._bindings[:] = range(rng.randrange(7))
        for name, framework in self._profiles.items():
            errors = self._grown(f"errors {name}", PLUGINS, ("Filter", "Score"))
            framework.errors.statistics = lambda errors=errors: errors
            lookups = self._grown(f"lookups {name}", ("hit", "miss"), ("",))
            framework.cache_statistics = lambda lookups=lookups: {
                result: count for (result, _), count in lookups.items()
            }
            seconds = self._grown(f"seconds {name}", PLUGINS, ("Filter", "Score"))
            framework.timings.statistics = lambda seconds=seconds: {
                pair: SimpleNamespace(seconds=count / 4) for pair, count in seconds.items()
            }
        self._audit.passes += rng.randrange(3)
        differences = self._grown("differences", ("node", "pod"), ("",))
        self._audit.statistics = lambda: {kind: n for (kind, _), n in differences.items()}
        self._draw_buffers()

    def _draw_buffers(self) -> None:
        rng = self._rng
        for shelf in self._shelves:
            shelf.bounded.extend(range(rng.randrange(3)))
            shelf.unbounded.extend(range(rng.randrange(3)))
        self._in_flight._events[:] = range(rng.randrange(8))
        self._in_flight._max_events = rng.choice((7, None))
        self._other._events[:] = range(self._more.randrange(8))
        self._other._max_events = self._more.choice((7, 9, None))
        self._shelf.nested.clear()
        for number in range(rng.choice((0, 2, 40, 41))):
            self._shelf.nested[str(number)] = Shelf(rng)
            self._shelf.nested[str(number)].bounded.append(number)

    def _grown(self, name: str, first: Any, second: Any) -> dict[tuple[Any, Any], int]:
        """Returns totals of pairs, some of which have grown."""
        totals = self.__dict__.setdefault(f"_drawn {name}", {})
        for pair in ((name, label) for name in first for label in second):
            if self._rng.random() < 0.3:
                totals[pair] = totals.get(pair, 0) + self._rng.randrange(5)
        return dict(totals)

    # -- scrapes ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Scrapes again and again, resets now and then, and compares."""
        for number in range(SCRAPES):
            if number:
                self._draw()
            if self._rng.random() < 0.2:
                self._reset()
            real = self._scraped()
            expected = self._expected()
            wrong = {
                series: (real.get(series, 0.0), expected.get(series, 0.0))
                for series in real.keys() | expected.keys()
                if real.get(series, 0.0) != expected.get(series, 0.0)
            }
            if wrong:
                self.problems.append(f"a scrape differs: {wrong}")
                return

    def _reset(self) -> None:
        self._metrics.reset()
        self._follow_totals()
        self._base = Counter(self._totals)
        self._buffers.clear()

    def _scraped(self) -> dict[Series, float]:
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in self._metrics.registry.collect()
            for sample in family.samples
            if family.name == TASKS or not family.name.startswith(OTHERS)
            if not sample.name.endswith("_created")
            if sample.name not in ("disabled_metrics_total", "registered_metrics_total")
        }

    def _follow_totals(self) -> None:
        totals: Counter[Series] = Counter()
        statistics = self._queue.statistics()
        for (name, event), count in statistics.incoming.items():
            label = LABELS.get(name, "unschedulable")
            if name in PENDING:
                totals[_series("scheduler_queue_incoming_pods", queue=label, event=event)] += count
        for plugin, count in self._queue.quarantine.counts.items():
            totals[_series("mooring_pod_quarantines", plugin=plugin)] += count
        for profile, framework in self._profiles.items():
            for result, count in framework.cache_statistics().items():
                totals[_series("mooring_result_cache_lookups", profile=profile, result=result)] += (
                    count
                )
            for (plugin, point), timing in framework.timings.statistics().items():
                labels = {"profile": profile, "plugin": plugin, "extension_point": point}
                totals[_series("mooring_plugin_sampled_seconds", **labels)] += timing.seconds
        totals[_series("mooring_cache_audits")] += self._audit.passes
        for kind, count in self._audit.statistics().items():
            totals[_series("mooring_cache_differences", difference=kind)] += count
        self._totals = totals

    def _expected(self) -> dict[Series, float]:
        self._follow_totals()
        expected: dict[Series, float] = {
            series: total - self._base[series] for series, total in self._totals.items()
        }
        queue, statistics = self._queue, self._queue.statistics()
        counts = queue.counts()
        for name, label in PENDING.items():
            expected[_plain("scheduler_pending_pods", queue=label)] = counts[name]
        for (plugin, profile), count in statistics.rejected.items():
            at = _plain("scheduler_unschedulable_pods", plugin=plugin, profile=profile)
            expected[at] = count
        for event, count in statistics.in_flight.items():
            expected[_plain("scheduler_inflight_events", event=event)] = count
        expected[_plain("mooring_quarantined_pods")] = queue.quarantined_count
        sizes = {
            "nodes": len(self._cache.nodes),
            "pods": len(self._cache.pods),
            "assumed_pods": self._cache.assumed_count(),
        }
        for kind, count in sizes.items():
            expected[_plain("scheduler_cache_size", type=kind)] = count
        expected[_plain("scheduler_goroutines", operation="binding")] = len(self._bindings)
        expected[_plain(TASKS)] = len(asyncio.all_tasks())
        for framework in self._profiles.values():
            for (plugin, point), count in framework.errors.statistics().items():
                at = _series("scheduler_plugin_errors", plugin=plugin, extension_point=point)
                expected[at] = expected.get(at, 0.0) + count
        return expected | self._expected_buffers()

    def _expected_buffers(self) -> dict[Series, float]:
        # Of a mapping with more than forty values the parts are not visited.
        nested = list(self._shelf.nested.values()) if len(self._shelf.nested) <= 40 else []
        shelves = [self._shelf, *nested]
        lengths = {
            "Shelf.bounded": sum(len(shelf.bounded) for shelf in shelves),
            "InFlight.events": len(self._in_flight._events) + len(self._other._events),
        }
        limits: dict[str, float] = {
            "Shelf.bounded": sum(shelf.bounded.maxlen or 0 for shelf in shelves)
        }
        first, second = self._in_flight._max_events, self._other._max_events
        if first is not None and second is not None:
            self._flight_limit = limits["InFlight.events"] = first + second
            self._buffers.add("InFlight.events")
        elif "InFlight.events" in self._buffers:
            limits["InFlight.events"] = self._flight_limit  # the last limit stays
        result: dict[Series, float] = {}
        for name, length in lengths.items():
            result[_plain("mooring_buffer_entries", buffer=name)] = length
        for name, limit in limits.items():
            result[_plain("mooring_buffer_limit_entries", buffer=name)] = limit
        return result


def _plain(name: str, **labels: str) -> Series:
    return name, tuple(sorted(labels.items()))


def _series(name: str, **labels: str) -> Series:
    return _plain(f"{name}_total", **labels)


def run_metrics(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a scrape does not show the numbers.
    """
    check_run(MetricsRun, seed)
