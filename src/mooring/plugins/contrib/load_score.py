"""MeasuredLoad: scores nodes by measured load, not by the requests of their pods.

The metrics come from ``mooring.load_metrics``, which fetches them in the background, never during
a scheduling cycle; this plugin reads one number per node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from mooring.framework import SKIP, Cycle, NodeView
from mooring.framework.interface import MAX_SCORE, Handle, Scores
from mooring.framework.status import Skip

#: The score of a node without a measurement.
NEUTRAL: Final = MAX_SCORE // 2

Floats = npt.NDArray[np.float64]


class Measurements(Protocol):
    """The newest measurement of each node."""

    @property
    def version(self) -> int:
        """A number that increases whenever the measurements change."""
        ...

    def fresh_values(self, now_s: float) -> Mapping[str, float]:
        """Returns node -> number; empty if there is none, or all are older than the limit."""
        ...

    async def follow(self, handle: Handle) -> None:
        """Fetches measurements until it is cancelled."""
        ...


class MeasuredLoad:
    """Prefers nodes with a low (or a high) measured value.

    The best node gets 100, the worst 0, scores between are linear; with ``bounds`` the scale is
    fixed. A node without a measurement gets 50. Without any measurement, or if all are too old, the
    plugin skips, so an outage of the metrics does not affect scheduling.

    Args:
        measurements: The source of the measurements.
        handle: The plugin's handle, for the clock.
        prefers_most: True if a high value is good.
        bounds: The lowest and highest value of the scale; None = those of the feasible nodes.

    Complexity: O(nodes) in Python whenever the measurements or the nodes change, O(nodes) in
    columns for each pod.
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
        #: The inputs of the cached column: version of the measurements, nodes in visit order.
        self._version = -1
        self._order: npt.NDArray[np.intp] | None = None
        self._column: Floats = np.zeros(0)

    @property
    def measurements(self) -> Measurements:
        """The source of the measurements."""
        return self._measurements

    async def background(self) -> None:
        """Fetches the measurements."""
        await self._measurements.follow(self._handle)

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> Skip | None:
        """Skips if there is no measurement of these nodes."""
        numbers = self._measurements.fresh_values(self._handle.monotonic_s())
        if not numbers:
            return SKIP
        column = nodes.take(self._by_row(cycle, numbers))
        if np.isnan(column).all():
            return SKIP
        cycle[self] = column
        return None

    def score(self, cycle: Cycle, nodes: NodeView) -> Scores:
        """Returns 0 to 100 by the measurement; 50 where there is none."""
        column: Floats = cycle[self]
        low, high = self._bounds or (float(np.nanmin(column)), float(np.nanmax(column)))
        if high <= low:
            return np.full(len(nodes), NEUTRAL, dtype=np.int64)
        share = np.clip((column - low) / (high - low), 0.0, 1.0)
        preference = share if self._prefers_most else 1.0 - share
        scores = np.rint(preference * MAX_SCORE)
        return np.where(np.isnan(scores), NEUTRAL, scores).astype(np.int64)

    def _by_row(self, cycle: Cycle, numbers: Mapping[str, float]) -> Floats:
        """Returns the measurements by row, float64 shape (capacity,), NaN where there is none."""
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
