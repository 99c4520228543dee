"""The properties of free volumes, and groups of volumes with the same kind of topology.

Most volumes require one value of one label, the zone or the host name: they form a group per label,
sorted by value, so that the first volume of each value is found with one column operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.objects.storage import PersistentVolume
from mooring.objects.volume_claims import amount
from mooring.state.columns.labels import MISSING, LabelColumn
from mooring.state.types import Bools
from mooring.state.volumes.topology import NodeTopology, one_label, topology_of_affinity

#: Codes of a label's values, int.
Codes = npt.NDArray[np.signedinteger[Any]]
#: Positions in the sorted list of volumes, intp.
Positions = npt.NDArray[np.intp]


class VolumeTraits(NamedTuple):
    """Properties that are equal for most volumes of a class."""

    volume_mode: str
    attributes_class: str
    access_modes: tuple[str, ...]


class Entry(NamedTuple):
    """A volume with the properties that determine its position and group.

    ``key`` and ``values`` are its topology: values of the label ``key``, or a ``NodeTopology``
    that is more than that.
    """

    volume: PersistentVolume
    rank: tuple[int, str]
    traits: VolumeTraits
    key: str | NodeTopology
    values: tuple[str, ...]

    @classmethod
    def of(cls, volume: PersistentVolume) -> Entry:
        """Returns the entry of a volume."""
        spec = volume.spec
        traits = VolumeTraits(
            spec.volume_mode if spec.volume_mode is not None else "Filesystem",
            spec.volume_attributes_class_name or "",
            spec.access_modes,
        )
        affinity = spec.node_affinity
        topology = topology_of_affinity(affinity.required if affinity is not None else None)
        key, values = one_label(topology) or (topology, ())
        rank = amount(spec.capacity).nanos, volume.metadata.name
        return cls(volume, rank, traits, key, values)

    def is_like(self, other: Entry) -> bool:
        """Returns whether another version of the volume can keep the same position."""
        labels = self.volume.metadata.labels
        return self[1:] == other[1:] and labels == other.volume.metadata.labels


class ByCode(NamedTuple):
    """The volumes of a group, sorted by the code of their label value, then by position.

    The volumes of ``codes[i]`` are ``positions[starts[i]:starts[i] + counts[i]]``.
    """

    codes: npt.NDArray[np.intp]
    positions: Positions
    starts: npt.NDArray[np.intp]
    counts: npt.NDArray[np.intp]

    def first(self, code: int, is_available: Bools, none: int) -> int:
        """Returns the first available position of one code; ``none`` if there is none."""
        index = int(self.codes.searchsorted(code))
        if index == len(self.codes) or self.codes[index] != code:
            return none
        positions = self.positions[self.starts[index] : self.starts[index] + self.counts[index]]
        available = is_available[positions]
        first = available.argmax()
        return int(positions[first]) if available[first] else none

    def remaining(self, is_available: Bools, none: int) -> Remaining:
        """Returns the available positions, followed by ``none``, which stands for no position."""
        available = is_available[self.positions]
        positions = np.append(self.positions[available], none)
        codes = np.append(np.repeat(self.codes, self.counts)[available], MISSING)
        return Remaining(positions, codes, codes[:-1] * (none + 1) + positions[:-1])


class Remaining(NamedTuple):
    """The available positions of a group, with a last one that stands for none.

    Attributes:
        positions: Sorted; by label code first, if the group has a label.
        codes: The label code of each position; None = the group has no label.
        numbers: Sort keys made of code and position, ascending; None as ``codes``.
    """

    positions: Positions
    codes: npt.NDArray[np.intp] | None = None
    numbers: npt.NDArray[np.intp] | None = None

    def next(self, after: Positions) -> Positions:
        """Returns the first position after each of these, ignoring codes."""
        return self.positions[self.positions[:-1].searchsorted(after, side="right")]

    def with_code(self, code: int) -> list[int]:
        """Returns the positions with this code; none for MISSING."""
        if code == MISSING or self.codes is None:
            return []
        positions_of_code: list[int] = self.positions[self.codes == code].tolist()
        return positions_of_code

    def next_of(self, codes: Codes, after: Positions) -> Positions:
        """Returns the first position after each of these that has the corresponding code."""
        assert self.codes is not None
        assert self.numbers is not None
        none = self.positions[-1]
        numbers = codes.astype(np.int64) * (none + 1) + after
        index = self.numbers.searchsorted(numbers, side="right")
        has_code = (self.codes[index] == codes) & (codes != MISSING)
        following: Positions = np.where(has_code, self.positions[index], none)
        return following


class Group:
    """Volumes whose topology is given by one label, or by one other ``NodeTopology``.

    ``positions`` are sorted; with a label, a volume occurs once for each of its ``values``.
    """

    __slots__ = ("_by_code", "_column", "_version", "positions", "values")

    def __init__(self) -> None:
        self.positions: Positions = np.zeros(0, dtype=np.intp)
        self.values: list[str] = []
        self._column: LabelColumn | None = None
        self._version = -1
        self._by_code: ByCode | None = None

    def by_code(self, column: LabelColumn) -> ByCode:
        """Returns the volumes by the codes of ``column``, without values that no node has."""
        cached = self._by_code
        if cached is None or self._column is not column or self._version != column.values.version:
            cached = self._by_code = self._sorted(column)
            self._column, self._version = column, column.values.version
        return cached

    def _sorted(self, column: LabelColumn) -> ByCode:
        codes = np.array([column.values.find(value) for value in self.values], dtype=np.intp)
        order = np.argsort(codes, kind="stable")
        order = order[codes[order] != MISSING]
        present, starts, counts = np.unique(codes[order], return_index=True, return_counts=True)
        return ByCode(present, self.positions[order], starts, counts)

    def insert(self, position: int, values: Sequence[str]) -> None:
        """Inserts a volume at ``position``, which must be unused."""
        index = int(self.positions.searchsorted(position))
        self.positions = np.insert(self.positions, index, [position] * max(1, len(values)))
        self.values[index:index] = values
        self._by_code = None

    def insert_gap(self, position: int) -> None:
        """Moves the positions from ``position`` on up by one, to make room for a volume."""
        self.positions[self.positions >= position] += 1
        self._by_code = None


class CachedResult:
    """The cached result of one request, for the next claim with the same request.

    Attributes:
        meets: Mask of the positions that match the request, free or not.
        will_do: Mask of those that are also free.
        firsts: Label -> the positions by code, and the first available one of each code, with a
        last entry for nodes without the label.
        left: Label or topology -> the available positions of its group, with the positions by
        code from which they were computed, if it is a label.
        of_row: Row -> its available positions, for rows that were requested alone.
        best: The first position by row, shape (capacity,); None = not computed.
        layout: The version of ``TopologyMasks`` for which data by row is valid.
        seen: The number of applied changes of free positions.
    """

    __slots__ = (
        "applied_changes",
        "best",
        "by_row",
        "first_by_code",
        "is_available",
        "is_match",
        "remaining_by_group",
        "topology_version",
    )

    def __init__(self, is_match: Bools, is_free: Bools, applied_changes: int) -> None:
        self.is_match = is_match
        self.first_by_code: dict[str, tuple[ByCode, Positions]] = {}
        self.remaining_by_group: dict[str | NodeTopology, tuple[ByCode | None, Remaining]] = {}
        self.by_row: dict[int, list[int]] = {}
        self.best: Positions | None = None
        self.topology_version = -1
        self.reset(is_free, applied_changes)

    def invalidate_if_stale(self, topology_version: int) -> None:
        """Clears data by row if node labels have changed."""
        if topology_version != self.topology_version:
            self.best, self.topology_version = None, topology_version
            self.by_row.clear()

    def reset(self, is_free: Bools, applied_changes: int) -> None:
        """Clears everything that depends on which positions are free."""
        self.is_available = self.is_match & is_free
        self.first_by_code.clear()
        self.clear_remaining()
        self.best = None
        self.applied_changes = applied_changes

    def clear_remaining(self) -> None:
        """Clears the lists of available positions after a change of one position."""
        self.remaining_by_group.clear()
        self.by_row.clear()
