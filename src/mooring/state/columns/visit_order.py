"""The visit order of the nodes: round robin over the zones, as upstream's node tree.

It decides ties and, with ``percentageOfNodesToScore``, which nodes are filtered at all.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"


def zone_key(labels: Mapping[str, str]) -> str:
    """Returns region and zone of a node as one string; beta labels take precedence, "" = none.

    Source: k8s.io/component-helpers node/topology (GetZoneKey).
    """
    zone = labels.get(BETA_ZONE, labels.get(ZONE, ""))
    region = labels.get(BETA_REGION, labels.get(REGION, ""))
    return f"{region}:\0:{zone}" if region or zone else ""


class VisitOrder:
    """Zones in order of their first node; nodes in a zone in order of arrival.

    The list takes the first node of every zone, then the second of every zone, and so on. A node
    that changes its zone is appended to the new one; a zone without nodes loses its position. As
    upstream the list is made again when a node comes or goes, not when one changes its zone.

    Source: pkg/scheduler/backend/cache/node_tree.go.
    """

    __slots__ = ("_array", "_is_by_row", "_positions", "_rows", "_zone_of", "_zones", "has_moved")

    def __init__(self) -> None:
        self._zones: dict[str, dict[int, None]] = {}
        self._zone_of: dict[int, str] = {}
        #: Whether a node has changed its zone since the list was made.
        self.has_moved = False
        self._rows: list[int] | None = None
        self._array: npt.NDArray[np.intp] | None = None
        self._positions: npt.NDArray[np.int64] | None = None
        self._is_by_row: bool | None = None

    def put(self, row: int, zone: str) -> None:
        """Sets the zone of the node of ``row``; appends the node if it was not in that zone."""
        before = self._zone_of.get(row)
        if before == zone:
            return
        if before is not None:
            self._leave_zone(row)
        self._zones.setdefault(zone, {})[row] = None
        self._zone_of[row] = zone
        if before is None:
            self._invalidate()
        else:
            self.has_moved = self._rows is not None

    def remove(self, row: int) -> None:
        """Removes the node of ``row``."""
        self._leave_zone(row)
        self._invalidate()

    def _leave_zone(self, row: int) -> None:
        zone = self._zone_of.pop(row)
        del self._zones[zone][row]
        if not self._zones[zone]:
            del self._zones[zone]

    def rows(self) -> list[int]:
        """Returns the rows in visit order. Shared: read-only.

        Complexity: O(rows) after a change, O(1) otherwise.
        """
        if self._rows is None:
            zones = [list(zone) for zone in self._zones.values()]
            longest = max((len(zone) for zone in zones), default=0)
            self._rows = [
                zone[turn] for turn in range(longest) for zone in zones if turn < len(zone)
            ]
        return self._rows

    def array(self) -> npt.NDArray[np.intp]:
        """Returns the rows in visit order, intp shape (n_nodes,), read-only."""
        if self._array is None:
            self._array = np.array(self.rows(), dtype=np.intp)
            self._array.flags.writeable = False
        return self._array

    def positions(self) -> npt.NDArray[np.int64]:
        """Returns row -> position in the visit order, int64; -1 without a node. Read-only."""
        if self._positions is None:
            rows = self.array()
            self._positions = np.full(int(rows.max()) + 1 if len(rows) else 0, -1, dtype=np.int64)
            self._positions[rows] = np.arange(len(rows))
            self._positions.flags.writeable = False
        return self._positions

    @property
    def is_by_row(self) -> bool:
        """True if the rows are visited in ascending order, as without zones and deleted nodes."""
        if self._is_by_row is None:
            array = self.array()
            self._is_by_row = bool((array[1:] > array[:-1]).all())
        return self._is_by_row

    def _invalidate(self) -> None:
        self.has_moved = False
        self._rows = self._array = self._positions = self._is_by_row = None
