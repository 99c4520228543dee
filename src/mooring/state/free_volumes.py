"""The volumes of one class that nobody has: which is the smallest that will do, for every node.

They are in a fixed order, the smallest first and then by name, so "the smallest" is the first one
that is left. A volume that is taken keeps its place and is only marked, since it may come back when
a binding fails; places are cleared up once half of them are dead.

::

    put, remove ──> flags, and a few insertions ──> choose: one lookup per row, in an answer that
                    (many at once: built anew)      follows the flags
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.objects.selectors import Selector
from mooring.objects.storage import PersistentVolume
from mooring.state.free_volume_groups import Answer, Entry, Group, Kind, Places
from mooring.state.labels import MISSING
from mooring.state.nodes import NodeTable
from mooring.state.reach import EVERYWHERE, Reach, Reaches

Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]

#: No volume.
NONE: Final = -1

#: Up to so many new volumes are put in one by one; more cost as much as building all anew.
INSERTIONS_MAX: Final = 32

#: Answers kept at most, of two bytes a volume and eight a value of a label.
_ANSWERS_MAX: Final = 32

#: Up to so many changes are followed one by one; more cost as much as starting over.
_CHANGES_MAX: Final = 64


class Wanted(NamedTuple):
    """What a claim asks of a volume.

    Attributes:
        nanos: Its size in billionths of a byte, as ``Quantity`` counts.
        volume_mode: "Filesystem" or "Block".
        attributes_class: Its VolumeAttributesClass; "" = none.
        access_modes: All of them must be there.
        selector: What its labels must match; None = any.
    """

    nanos: int
    volume_mode: str
    attributes_class: str
    access_modes: tuple[str, ...]
    selector: Selector | None


class FreeVolumes:
    """The free volumes of a class. The one owner is Storage.

    Complexity: ``choose`` costs O(rows) in columns for wishes that another claim had lately, and
    O(volumes) more for new ones; O(rows) more for each different reach that is more than some
    values of one label.
    """

    def __init__(self, nodes: NodeTable, reaches: Reaches) -> None:
        self._nodes = nodes
        self._reaches = reaches
        self._volumes: dict[str, Entry] = {}
        #: The volumes that have a place, free or not, as they were when they got it.
        self._placed: dict[str, Entry] = {}
        self._waiting: dict[str, None] = {}
        self._is_stale = False
        self._begin()

    def _begin(self) -> None:
        #: (Size in billionths of a byte, name) by place.
        self._order: list[tuple[int, str]] = []
        self._is_free: Bools = np.zeros(0, dtype=np.bool_)
        self._kinds: dict[Kind, int] = {}
        self._kind_of: npt.NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._groups: dict[str | Reach, Group] = {}
        self._answers: dict[Wanted, Answer] = {}
        #: Places that became free or were taken, in order.
        self._changes: list[int] = []

    def __len__(self) -> int:
        """How many volumes are free."""
        return len(self._volumes)

    def volumes(self) -> list[PersistentVolume]:
        """The free ones."""
        return [entry.volume for entry in self._volumes.values()]

    # -- volumes come and go ----------------------------------------------------------------------

    def put(self, volume: PersistentVolume) -> None:
        """A volume is free, in this version."""
        name = volume.metadata.name
        entry = self._volumes[name] = Entry.of(volume)
        placed = self._placed.get(name)
        if placed is None:
            self._waiting[name] = None
        elif placed.is_like(entry):
            self._set_free(placed, is_free=True)
        else:
            self._is_stale = True

    def remove(self, name: str) -> None:
        """A volume is not free any more. Unknown ones are fine."""
        if self._volumes.pop(name, None) is None:
            return
        self._waiting.pop(name, None)
        placed = self._placed.get(name)
        if placed is not None:
            self._set_free(placed, is_free=False)

    # -- choosing ---------------------------------------------------------------------------------

    def choose(
        self,
        wanted: Wanted,
        rows: Rows,
        *,
        after: Places | None = None,
        taken: Sequence[Places] = (),
    ) -> Places:
        """The smallest volume that will do for each of ``rows``, as places; NONE = there is none.

        Places are good until a volume comes or goes.

        Args:
            wanted: What the claim asks for.
            rows: Where.
            after: Only volumes at later places, on each of ``rows``; None = any.
            taken: Places that are given away already there, each as long as ``rows``.
        """
        self._settle()
        best = self._first(wanted, rows) if after is None else self._next(wanted, rows, after)
        open_rows = np.arange(len(rows)) if taken else np.zeros(0, dtype=np.intp)
        while len(open_rows):
            here = best[open_rows]
            is_taken = np.zeros(len(open_rows), dtype=np.bool_)
            for places in taken:
                is_taken |= (places[open_rows] == here) & (here != NONE)
            open_rows, here = open_rows[is_taken], here[is_taken]
            best[open_rows] = self._next(wanted, rows[open_rows], here)
        return best

    def ways(self, rows: Rows) -> list[npt.NDArray[np.integer[Any] | np.bool_]]:
        """By each way of reaching volumes what tells rows apart: rows that are alike get alike."""
        self._settle()
        label, mask = self._nodes.label, self._reaches.mask
        return [
            label(key).codes[rows] if isinstance(key, str) else mask(key)[rows]
            for key in self._groups
        ]

    def at(self, place: int) -> PersistentVolume:
        """The volume at a place that ``choose`` gave."""
        return self._volumes[self._order[place][1]].volume

    def _first(self, wanted: Wanted, rows: Rows) -> Places:
        answer, none, best = self._answer(wanted), len(self._order), None
        for key, group in self._groups.items():
            if isinstance(key, str):
                found = self._firsts(key, group, answer)[self._nodes.label(key).codes[rows]]
            else:
                places = group.places[answer.will_do[group.places]]
                place = places[0] if len(places) else none
                found = self._where_reached(key, rows, np.full(len(rows), place, dtype=np.intp))
            best = found if best is None else np.minimum(best, found)
        if best is None:
            return np.full(len(rows), NONE, dtype=np.intp)
        best[best == none] = NONE
        return best

    def _firsts(self, key: str, group: Group, answer: Answer) -> Places:
        """The first volume that will do, by the code of the label ``key``."""
        column, none = self._nodes.label(key), len(self._order)
        by_code = group.by_code(column)
        known = answer.firsts.get(key)
        if known is not None and known[0] is by_code:
            return known[1]
        first = np.full(len(column.values) + 1, none, dtype=np.intp)  # the last: no label
        if len(by_code.codes):
            left = np.where(answer.will_do[by_code.places], by_code.places, none)
            first[by_code.codes] = np.minimum.reduceat(left, by_code.starts)
        answer.firsts[key] = by_code, first
        return first

    def _next(self, wanted: Wanted, rows: Rows, after: Places) -> Places:
        """The first volume after a place, which differs by row."""
        answer, none = self._answer(wanted), len(self._order)
        best = np.full(len(rows), none, dtype=np.intp)
        for key, group in self._groups.items():
            if isinstance(key, str):
                column = self._nodes.label(key)
                by_code = group.by_code(column)
                found = by_code.next(column.codes[rows], after, answer.will_do, none)
            else:
                places = np.append(group.places[answer.will_do[group.places]], none)
                at = np.searchsorted(places[:-1], after, side="right")
                found = self._where_reached(key, rows, places[at])
            np.minimum(best, found, out=best)
        best[best == none] = NONE
        return best

    def _where_reached(self, reach: Reach, rows: Rows, found: Places) -> Places:
        if reach == EVERYWHERE:
            return found
        return np.where(self._reaches.mask(reach)[rows], found, len(self._order))

    # -- which volumes will do --------------------------------------------------------------------

    def _answer(self, wanted: Wanted) -> Answer:
        """What is kept of the answer to these wishes, as the volumes are now."""
        answer, now = self._answers.get(wanted), len(self._changes)
        if answer is None:
            if len(self._answers) >= _ANSWERS_MAX:
                self._answers.clear()
            answer = self._answers[wanted] = Answer(self._meets(wanted), self._is_free, now)
        elif now - answer.seen > _CHANGES_MAX:
            answer.start_over(self._is_free, now)
        elif answer.seen < now:
            self._catch_up(answer)
        return answer

    def _catch_up(self, answer: Answer) -> None:
        for key, (by_code, _) in list(answer.firsts.items()):
            if self._groups[key].by_code(self._nodes.label(key)) is not by_code:
                del answer.firsts[key]
        for place in self._changes[answer.seen :]:
            answer.will_do[place] = answer.meets[place] and self._is_free[place]
            self._correct(answer, self._placed[self._order[place][1]])
        answer.seen = len(self._changes)

    def _correct(self, answer: Answer, changed: Entry) -> None:
        """Find the first volumes anew for the values by which this one is reached."""
        if not isinstance(changed.key, str) or changed.key not in answer.firsts:
            return
        by_code, first = answer.firsts[changed.key]
        find = self._nodes.label(changed.key).values.find
        for code in map(find, changed.values):
            if code != MISSING:
                first[code] = by_code.first(code, answer.will_do, len(self._order))

    def _meets(self, wanted: Wanted) -> Bools:
        """Which volumes meet a claim's wishes, free or not, wherever they are."""
        meets: Bools = _suit(self._kinds, wanted)[self._kind_of]
        meets[: bisect_left(self._order, (wanted.nanos, ""))] = False
        if wanted.selector is not None:
            matches = wanted.selector.matches
            labels = (self._placed[name].volume.metadata.labels for _, name in self._order)
            meets &= np.array([matches(each) for each in labels], dtype=np.bool_)
        return meets

    # -- places -----------------------------------------------------------------------------------

    def _place(self, entry: Entry) -> int:
        return bisect_left(self._order, entry.rank)

    def _set_free(self, placed: Entry, *, is_free: bool) -> None:
        place = self._place(placed)
        self._is_free[place] = is_free
        self._changes.append(place)
        if len(self._changes) > 16 * _CHANGES_MAX:
            self._changes.clear()
            self._answers.clear()

    def _settle(self) -> None:
        """Give a place to every volume that waits for one."""
        dead = len(self._order) + len(self._waiting) - len(self._volumes)
        is_crowded = dead > max(2 * INSERTIONS_MAX, len(self._volumes))
        if self._is_stale or is_crowded or len(self._waiting) > INSERTIONS_MAX:
            self._build()
            return
        for name in self._waiting:
            self._insert(self._volumes[name])
        self._waiting.clear()

    def _insert(self, entry: Entry) -> None:
        place = self._place(entry)
        self._order.insert(place, entry.rank)
        self._placed[entry.rank[1]] = entry
        self._is_free = np.insert(self._is_free, place, True)
        self._kind_of = np.insert(self._kind_of, place, self._kind(entry))
        self._changes.clear()
        self._answers.clear()
        for group in self._groups.values():
            group.shift(place)
        self._groups.setdefault(entry.key, Group()).insert(place, entry.values)

    def _build(self) -> None:
        """All places anew, for free volumes alone. Complexity: O(volumes), in plain Python."""
        self._begin()
        self._waiting.clear()
        self._is_stale = False
        self._placed = dict(self._volumes)
        entries = sorted(self._volumes.values(), key=_rank)
        self._order = [entry.rank for entry in entries]
        self._is_free = np.ones(len(entries), dtype=np.bool_)
        self._kind_of = np.array([self._kind(entry) for entry in entries], dtype=np.int32)
        places: dict[str | Reach, list[int]] = {}
        for place, entry in enumerate(entries):
            self._groups.setdefault(entry.key, Group()).values += entry.values
            places.setdefault(entry.key, []).extend([place] * max(1, len(entry.values)))
        for key, group in self._groups.items():
            group.places = np.array(places[key], dtype=np.intp)

    def _kind(self, entry: Entry) -> int:
        return self._kinds.setdefault(entry.kind, len(self._kinds))


def _suit(kinds: Iterable[Kind], wanted: Wanted) -> Bools:
    """Which kinds of volumes are what a claim wishes, but for their size and labels."""
    modes = set(wanted.access_modes)
    judged = [
        kind.volume_mode == wanted.volume_mode
        and kind.attributes_class == wanted.attributes_class
        and modes <= set(kind.access_modes)
        for kind in kinds
    ]
    return np.array(judged, dtype=np.bool_)


def _rank(entry: Entry) -> tuple[int, str]:
    return entry.rank
