"""The order in which nodes are visited: round robin over the zones, as upstream's node tree.

It decides ties, and with ``percentageOfNodesToScore`` which nodes are looked at at all.
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
    """Region and zone of a node as one string, "" if it has neither; the beta labels win.

    Source: k8s.io/component-helpers node/topology (GetZoneKey).
    """
    zone = labels.get(BETA_ZONE, labels.get(ZONE, ""))
    region = labels.get(BETA_REGION, labels.get(REGION, ""))
    return f"{region}:\0:{zone}" if region or zone else ""


class VisitOrder:
    """Zones in order of their first node; nodes in a zone in order of arrival.

    The list takes the first node of every zone, then the second of every zone, and so on. A node
    that changes its zone arrives anew in the other one; a zone without nodes loses its place.

    Source: pkg/scheduler/backend/cache/node_tree.go.
    """

    __slots__ = ("_array", "_places", "_rows", "_zone_of", "_zones")

    def __init__(self) -> None:
        self._zones: dict[str, dict[int, None]] = {}
        self._zone_of: dict[int, str] = {}
        self._rows: list[int] | None = None
        self._array: npt.NDArray[np.intp] | None = None
        self._places: npt.NDArray[np.int64] | None = None

    def put(self, row: int, zone: str) -> None:
        """The node of ``row`` is in ``zone`` (arriving there, unless it was already)."""
        if self._zone_of.get(row) == zone:
            return
        if row in self._zone_of:
            self.remove(row)
        self._zones.setdefault(zone, {})[row] = None
        self._zone_of[row] = zone
        self._forget()

    def remove(self, row: int) -> None:
        """The node of ``row`` is gone."""
        zone = self._zone_of.pop(row)
        del self._zones[zone][row]
        if not self._zones[zone]:
            del self._zones[zone]
        self._forget()

    def rows(self) -> list[int]:
        """Returns the rows in visit order. Shared: read, do not change.

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

    def places(self) -> npt.NDArray[np.int64]:
        """Row -> its place in the visit order, int64; -1 where there is no node. Read-only."""
        if self._places is None:
            rows = self.array()
            self._places = np.full(int(rows.max()) + 1 if len(rows) else 0, -1, dtype=np.int64)
            self._places[rows] = np.arange(len(rows))
            self._places.flags.writeable = False
        return self._places

    def _forget(self) -> None:
        self._rows = self._array = self._places = None
