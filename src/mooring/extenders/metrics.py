"""Metrics of extender calls: durations and failures.

The registry holds nothing else, so it can be added to another one:
``registry.register(extenders.metrics.registry)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from mooring.clock import Clock
from mooring.errors import ExtenderError

#: From a quick neighbour to beyond the default timeout of 5 s.
_BUCKETS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ExtenderMetrics:
    """Calls by extender (its URL prefix, without a password) and verb (filter, bind ...).

    ::

        scheduler_extender_call_duration_seconds{extender, verb}   all calls
        scheduler_extender_call_errors_total{extender, verb}       no usable response

    A response that can be read but breaks the contract (a node that was not sent) is rejected by
    the scheduling algorithm, and is not counted here.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ["extender", "verb"]
        self._seconds = Histogram(
            "scheduler_extender_call_duration_seconds",
            "Duration of extender calls in seconds.",
            labels,
            registry=self.registry,
            buckets=_BUCKETS_S,
        )
        self._errors = Counter(
            "scheduler_extender_call_errors_total",
            "Extender calls that failed: no response, an error, or a malformed response.",
            labels,
            registry=self.registry,
        )

    def watch(self, extender: str, verb: str) -> None:
        """Exports the series of an extender's verb before its first call."""
        self._seconds.labels(extender, verb)
        self._errors.labels(extender, verb)

    @contextmanager
    def call(self, extender: str, verb: str, clock: Clock) -> Iterator[None]:
        """Measures the block, and counts it as failed if it raises an ExtenderError."""
        started_s = clock.monotonic_s()
        try:
            yield
        except ExtenderError:
            self._errors.labels(extender, verb).inc()
            raise
        finally:
            self._seconds.labels(extender, verb).observe(clock.monotonic_s() - started_s)
