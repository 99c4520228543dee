"""The definition of a metric family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"

ALPHA: Final = "ALPHA"
BETA: Final = "BETA"
STABLE: Final = "STABLE"

#: The endpoint that shows a family.
METRICS: Final = "/metrics"
SLIS: Final = "/metrics/slis"
RESOURCES: Final = "/metrics/resources"


@dataclass(frozen=True, slots=True)
class Family:
    """One family of time series.

    Attributes:
        name: As it is exposed; a counter's name ends with ``_total``.
        kind: ``counter``, ``gauge`` or ``histogram``.
        stability: ``STABLE``, ``BETA``, ``ALPHA``, or "" for families without a stability.
        help: One sentence.
        labels: The names of the labels.
        buckets: The upper bounds of a histogram, without +Inf.
        gate: The feature gate without which it is not registered; "" = none.
        is_gate_on: The default of the gate.
        endpoint: The endpoint that shows it.
    """

    name: str
    kind: str
    stability: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    gate: str = ""
    is_gate_on: bool = True
    endpoint: str = METRICS

    @property
    def help_text(self) -> str:
        """The text of the HELP line: kube-scheduler puts the stability before it."""
        return f"[{self.stability}] {self.help}" if self.stability else self.help


def counter(
    stability: str,
    name: str,
    help_text: str,
    *labels: str,
    gate: str = "",
    is_gate_on: bool = True,
    endpoint: str = METRICS,
) -> Family:
    """Returns the definition of a counter."""
    return Family(name, COUNTER, stability, help_text, labels, (), gate, is_gate_on, endpoint)


def gauge(
    stability: str,
    name: str,
    help_text: str,
    *labels: str,
    gate: str = "",
    is_gate_on: bool = True,
    endpoint: str = METRICS,
) -> Family:
    """Returns the definition of a gauge."""
    return Family(name, GAUGE, stability, help_text, labels, (), gate, is_gate_on, endpoint)


def histogram(
    stability: str,
    name: str,
    buckets: tuple[float, ...],
    help_text: str,
    *labels: str,
    gate: str = "",
    is_gate_on: bool = True,
) -> Family:
    """Returns the definition of a histogram."""
    return Family(name, HISTOGRAM, stability, help_text, labels, buckets, gate, is_gate_on)


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Returns ``count`` bounds, each ``factor`` times the one before.

    They are multiplied one after another: client_golang does so, and rounding makes the same text.

    Example:
        >>> exponential_buckets(0.001, 2, 3)
        (0.001, 0.002, 0.004)
    """
    bounds = []
    for _ in range(count):
        bounds.append(start)
        start *= factor
    return tuple(bounds)
