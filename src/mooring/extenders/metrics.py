"""How calls of extenders fare: how long they take, and which of them fail.

The registry holds nothing else, so that whoever serves metrics can add it to another one:
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

        scheduler_extender_call_duration_seconds{extender, verb}   every call, failed or not
        scheduler_extender_call_errors_total{extender, verb}       no answer, or none that is good

    An answer that can be read but says what it must not (a node that was not sent, a score out of
    range) is found by whoever decides, and is not counted here.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ["extender", "verb"]
        self._seconds = Histogram(
            "scheduler_extender_call_duration_seconds",
            "Calls of extenders, from the question to the answer that was read.",
            labels,
            registry=self.registry,
            buckets=_BUCKETS_S,
        )
        self._errors = Counter(
            "scheduler_extender_call_errors_total",
            "Calls of extenders that failed: no answer, an error, or none that can be read.",
            labels,
            registry=self.registry,
        )

    def watch(self, extender: str, verb: str) -> None:
        """Shows this extender's verb from the start, with no calls."""
        self._seconds.labels(extender, verb)
        self._errors.labels(extender, verb)

    @contextmanager
    def call(self, extender: str, verb: str, clock: Clock) -> Iterator[None]:
        """Times what the block does, and counts it if it raises an ExtenderError."""
        started_s = clock.monotonic_s()
        try:
            yield
        except ExtenderError:
            self._errors.labels(extender, verb).inc()
            raise
        finally:
            self._seconds.labels(extender, verb).observe(clock.monotonic_s() - started_s)
