"""MeasuredLoad: how good a node is by what is measured on it, not by what pods ask for.

The metrics come from ``mooring.load_metrics``, which fetches them in the background and never
during a decision; this plugin reads one number per node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from mooring.framework import SKIP, Cycle, NodeView
from mooring.framework.interface import MAX_SCORE, Handle, Scores
from mooring.framework.status import Skip

#: What a node gets of which nothing is known: neither better nor worse.
NEUTRAL: Final = MAX_SCORE // 2

Floats = npt.NDArray[np.float64]


class Measurements(Protocol):
    """The newest number of each node, kept up to date by somebody."""

    @property
    def version(self) -> int:
        """Rises whenever the numbers change."""
        ...

    def fresh_values(self, now_s: float) -> Mapping[str, float]:
        """Node -> its number; empty if there are none, or they are too old to be believed."""
        ...

    async def follow(self, handle: Handle) -> None:
        """Keeps them up to date, for ever."""
        ...


class MeasuredLoad:
    """Prefers nodes with little load (or with much of something), as it is measured.

    The best node gets 100, the worst 0, the others what lies between; with ``bounds`` the scale is
    fixed. A node without a number gets 50. Without any number, or with numbers that are too old,
    the plugin takes no part in the score, so an outage of the metrics harms no decision.

    Args:
        measurements: The numbers.
        handle: For the clock.
        prefers_most: Whether much is good.
        bounds: The numbers that mean 0 and 100 of load; None = the lowest and highest of the nodes
            that can take the pod.

    Complexity: O(nodes) in Python whenever the numbers or the nodes change, O(nodes) in columns for
    each pod.
    """

    name = "MeasuredLoad"

    def __init__(
        self,
        measurements: Measurements,
        handle: Handle,
        *,
        prefers_most: bool = False,
        bounds: tuple[float, float] | None = None,
    ) -> None:
        self._measurements = measurements
        self._handle = handle
        self._prefers_most = prefers_most
        self._bounds = bounds
        #: What the column was made from: the numbers' version, and the nodes in visit order.
        self._version = -1
        self._order: npt.NDArray[np.intp] | None = None
        self._column: Floats = np.zeros(0)

    @property
    def measurements(self) -> Measurements:
        """The numbers that it goes by."""
        return self._measurements

    async def background(self) -> None:
        """Fetches the numbers, beside the decisions."""
        await self._measurements.follow(self._handle)

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> Skip | None:
        """Takes no part if nothing is known."""
        numbers = self._measurements.fresh_values(self._handle.monotonic_s())
        if not numbers:
            return SKIP
        column = nodes.take(self._by_row(cycle, numbers))
        if np.isnan(column).all():
            return SKIP
        cycle[self] = column
        return None

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """0 to 100 by the measured number; 50 where there is none."""
        column: Floats = cycle[self]
        low, high = self._bounds or (float(np.nanmin(column)), float(np.nanmax(column)))
        if high <= low:
            return np.full(len(nodes), NEUTRAL, dtype=np.int64)
        share = np.clip((column - low) / (high - low), 0.0, 1.0)
        good = share if self._prefers_most else 1.0 - share
        points = np.rint(good * MAX_SCORE)
        return np.where(np.isnan(points), NEUTRAL, points).astype(np.int64)

    def _by_row(self, cycle: Cycle, numbers: Mapping[str, float]) -> Floats:
        """Returns the numbers by row, float64 shape (capacity,), NaN where there is none."""
        nodes = cycle.snapshot.nodes
        order, version = nodes.order.array(), self._measurements.version
        if version != self._version or order is not self._order:
            column = np.full(nodes.capacity, np.nan)
            for name, number in numbers.items():
                row = nodes.live_row(name)
                if row >= 0:
                    column[row] = number
            self._version, self._order, self._column = version, order, column
        return self._column
