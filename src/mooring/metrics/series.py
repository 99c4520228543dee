"""The time series of a family: one number or one histogram per combination of label values.

prometheus_client's own metrics take a lock and search their buckets one by one: about 2 µs an
observation, twenty of which would be a third of a decision. Here an observation is an addition or
a bisection; ``mooring.metrics.registry`` turns the numbers into samples at a scrape.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from typing import Final, Generic, Protocol, TypeVar

from mooring.metrics.family import Family

#: The value of a label that the allow-list does not have.
UNEXPECTED: Final = "unexpected"

#: Limit of the series of a family: plugins choose their names, servers their status codes.
SERIES_MAX: Final = 10_000

#: The label values of the series that stands for those beyond ``SERIES_MAX``.
OTHER: Final = "other"


class Number:
    """The value of a counter or gauge."""

    __slots__ = ("value",)

    def __init__(self, _family: Family) -> None:
        self.value = 0.0

    def add(self, amount: float = 1.0) -> None:
        """Adds an amount."""
        self.value += amount


class Distribution:
    """The observations of a histogram: ``counts`` by bucket, the last one above all bounds."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, family: Family) -> None:
        self.bounds = family.buckets
        self.counts = [0] * (len(family.buckets) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Counts one observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def observe_all(self, values: list[float]) -> None:
        """Counts many observations; sorts ``values``. Complexity: O(n log n), all of it in C."""
        values.sort()
        below = 0
        for bucket, bound in enumerate(self.bounds):
            up_to = bisect_right(values, bound)
            self.counts[bucket] += up_to - below
            below = up_to
        self.counts[-1] += len(values) - below
        self.sum += sum(values)

    @property
    def count(self) -> int:
        """Number of observations."""
        return sum(self.counts)


Child = TypeVar("Child", Number, Distribution)


class Vector(Generic[Child]):
    """The series of one family, by label values in the order of ``family.labels``.

    ``children`` may be read directly by a recorder; it is the same dict for ever. A combination of
    label values is missing in it until ``labels`` creates it, and never in it if the allow-list
    changes it, so that every use of such values is counted.

    Args:
        family: The definition.
        make: Creates a series.
        allowed: Label -> its allowed values; a label that is missing has no limit.
        on_unexpected: Called for each value that the allow-list replaces.
    """

    def __init__(
        self,
        family: Family,
        make: Callable[[Family], Child],
        *,
        allowed: Mapping[str, frozenset[str]] | None = None,
        on_unexpected: Callable[[], None] = lambda: None,
    ) -> None:
        self.family = family
        self.children: dict[tuple[str, ...], Child] = {}
        self._make: Callable[[Family], Child] = make
        self._allowed = dict(allowed or {})
        self._on_unexpected = on_unexpected
        self._add_plain()

    def labels(self, *values: str) -> Child:
        """Returns the series of these label values; creates it if there is none."""
        child = self.children.get(values)
        if child is None:
            assert len(values) == len(self.family.labels), self.family.name
            if self._allowed:
                values = self._constrained(values)
            if values not in self.children and len(self.children) >= SERIES_MAX:
                values = (OTHER,) * len(values)
            child = self.children.get(values)
            if child is None:
                child = self.children[values] = self._make(self.family)
        return child

    def clear(self) -> None:
        """Removes all series; one without labels starts again at zero."""
        self.children.clear()
        self._add_plain()

    def _add_plain(self) -> None:
        if not self.family.labels:
            self.children[()] = self._make(self.family)

    def _constrained(self, values: tuple[str, ...]) -> tuple[str, ...]:
        constrained = list(values)
        for index, label in enumerate(self.family.labels):
            allowed = self._allowed.get(label)
            if allowed is not None and values[index] not in allowed:
                constrained[index] = UNEXPECTED
                self._on_unexpected()
        return tuple(constrained)


Numbers = Vector[Number]
Distributions = Vector[Distribution]


class Registered(Protocol):
    """The part of ``Metrics`` that has the series."""

    def numbers(self, name: str) -> Numbers:
        """Returns the series of a counter or gauge."""
        ...

    def distributions(self, name: str) -> Distributions:
        """Returns the series of a histogram."""
        ...
