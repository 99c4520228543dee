"""What is known of each free volume, and the volumes that are reached alike.

Most volumes are reached by one value of one label, the zone or the host: they form a group per
label, sorted by value, so that the first of each value is one look at columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.objects.storage import PersistentVolume
from mooring.objects.volume_claims import amount
from mooring.state.columns.labels import MISSING, LabelColumn
from mooring.state.volumes.topology import NodeTopology, one_label, topology_of_affinity

Bools = npt.NDArray[np.bool_]
#: Codes of a label's values, int.
Codes = npt.NDArray[np.signedinteger[Any]]
#: Places in the order of volumes, intp.
Positions = npt.NDArray[np.intp]


class Kind(NamedTuple):
    """What is the same for most volumes of a class."""

    volume_mode: str
    attributes_class: str
    access_modes: tuple[str, ...]


class Entry(NamedTuple):
    """A volume, and all that its place rests on: read once, when the volume comes.

    ``key`` and ``values`` say where it can be reached: by values of the label ``key``, or by a
    ``NodeTopology`` that is more than that.
    """

    volume: PersistentVolume
    rank: tuple[int, str]
    kind: Kind
    key: str | NodeTopology
    values: tuple[str, ...]

    @classmethod
    def of(cls, volume: PersistentVolume) -> Entry:
        """Reads a volume."""
        spec = volume.spec
        kind = Kind(
            spec.volume_mode if spec.volume_mode is not None else "Filesystem",
            spec.volume_attributes_class_name or "",
            spec.access_modes,
        )
        affinity = spec.node_affinity
        reach = topology_of_affinity(affinity.required if affinity is not None else None)
        key, values = one_label(reach) or (reach, ())
        rank = amount(spec.capacity).nanos, volume.metadata.name
        return cls(volume, rank, kind, key, values)

    def is_like(self, other: Entry) -> bool:
        """Returns whether it can have the same place as another version of the volume."""
        labels = self.volume.metadata.labels
        return self[1:] == other[1:] and labels == other.volume.metadata.labels


class ByCode(NamedTuple):
    """The volumes of a group, sorted by the code of their label value, then by place.

    Those of ``codes[i]`` are ``places[starts[i]:starts[i] + counts[i]]``.
    """

    codes: npt.NDArray[np.intp]
    places: Positions
    starts: npt.NDArray[np.intp]
    counts: npt.NDArray[np.intp]

    def first(self, code: int, will_do: Bools, none: int) -> int:
        """Returns the first of one code's places that will do; ``none`` if there is none."""
        at = int(self.codes.searchsorted(code))
        if at == len(self.codes) or self.codes[at] != code:
            return none
        places = self.places[self.starts[at] : self.starts[at] + self.counts[at]]
        good = will_do[places]
        first = good.argmax()
        return int(places[first]) if good[first] else none

    def left(self, will_do: Bools, none: int) -> Remaining:
        """Returns those that will do; ``none`` stands for no place, and comes after all."""
        good = will_do[self.places]
        places = np.append(self.places[good], none)
        codes = np.append(np.repeat(self.codes, self.counts)[good], MISSING)
        return Remaining(places, codes, codes[:-1] * (none + 1) + places[:-1])


class Remaining(NamedTuple):
    """The places of a group that will do, and one that stands for none at the end.

    Attributes:
        places: Sorted; by the code of the label first, if that is how they are reached.
        codes: The code of each; None = they are reached in another way.
        numbers: Rises as the places do: the code, then the place; None likewise.
    """

    places: Positions
    codes: npt.NDArray[np.intp] | None = None
    numbers: npt.NDArray[np.intp] | None = None

    def next(self, after: Positions) -> Positions:
        """The first place after each of these, however it is reached."""
        return self.places[self.places[:-1].searchsorted(after, side="right")]

    def of_code(self, code: int) -> list[int]:
        """Returns the places that are reached by a code; none by MISSING."""
        if code == MISSING or self.codes is None:
            return []
        found: list[int] = self.places[self.codes == code].tolist()
        return found

    def next_of(self, codes: Codes, after: Positions) -> Positions:
        """Returns the first place after each of these that is reached by the code beside it."""
        assert self.codes is not None
        assert self.numbers is not None
        none = self.places[-1]
        wanted = codes.astype(np.int64) * (none + 1) + after
        at = self.numbers.searchsorted(wanted, side="right")
        is_there = (self.codes[at] == codes) & (codes != MISSING)
        found: Positions = np.where(is_there, self.places[at], none)
        return found


class Group:
    """Volumes that are reached by values of one label, or by one reach that is more than that.

    ``places`` are sorted; by a label, a volume is there once for each of its ``values``.
    """

    __slots__ = ("_by_code", "_column", "_version", "places", "values")

    def __init__(self) -> None:
        self.places: Positions = np.zeros(0, dtype=np.intp)
        self.values: list[str] = []
        self._column: LabelColumn | None = None
        self._version = -1
        self._by_code: ByCode | None = None

    def by_code(self, column: LabelColumn) -> ByCode:
        """The volumes by the codes of ``column``; without those whose values no node has."""
        found = self._by_code
        if found is None or self._column is not column or self._version != column.values.version:
            found = self._by_code = self._sorted(column)
            self._column, self._version = column, column.values.version
        return found

    def _sorted(self, column: LabelColumn) -> ByCode:
        codes = np.array([column.values.find(value) for value in self.values], dtype=np.intp)
        order = np.argsort(codes, kind="stable")
        order = order[codes[order] != MISSING]
        present, starts, counts = np.unique(codes[order], return_index=True, return_counts=True)
        return ByCode(present, self.places[order], starts, counts)

    def insert(self, place: int, values: Sequence[str]) -> None:
        """A volume at ``place``, which no other one has."""
        at = int(self.places.searchsorted(place))
        self.places = np.insert(self.places, at, [place] * max(1, len(values)))
        self.values[at:at] = values
        self._by_code = None

    def shift(self, place: int) -> None:
        """Places from ``place`` on move up by one: it becomes free for another volume."""
        self.places[self.places >= place] += 1
        self._by_code = None


class Answer:
    """What is kept of the answer to one claim's wishes, for the next claim that has the same.

    Attributes:
        meets: Which places meet the wishes, free or not.
        will_do: Those of them that are free.
        firsts: Label -> the places by code, and the first of each code that will do; one more at
            the end, for nodes without the label.
        left: By label or reach, the places of its group that will do; beside it those by code,
            if it is a label.
        of_row: Row -> the places there that will do, for rows that were looked at alone.
        best: The first place by row, shape (capacity,); None = not known.
        layout: The version of ``TopologyMasks`` for which what is said of rows is right.
        seen: How many changes of free places are in it.
    """

    __slots__ = ("best", "firsts", "layout", "left", "meets", "of_row", "seen", "will_do")

    def __init__(self, meets: Bools, is_free: Bools, seen: int) -> None:
        self.meets = meets
        self.firsts: dict[str, tuple[ByCode, Positions]] = {}
        self.left: dict[str | NodeTopology, tuple[ByCode | None, Remaining]] = {}
        self.of_row: dict[int, list[int]] = {}
        self.best: Positions | None = None
        self.layout = -1
        self.start_over(is_free, seen)

    def keep_to(self, layout: int) -> None:
        """Forgets what follows from labels of nodes if these are others now."""
        if layout != self.layout:
            self.best, self.layout = None, layout
            self.of_row.clear()

    def start_over(self, is_free: Bools, seen: int) -> None:
        """Forgets what follows from which places are free."""
        self.will_do = self.meets & is_free
        self.firsts.clear()
        self.forget_left()
        self.best = None
        self.seen = seen

    def forget_left(self) -> None:
        """A place is free now, or is not."""
        self.left.clear()
        self.of_row.clear()
