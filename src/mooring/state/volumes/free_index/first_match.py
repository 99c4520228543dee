"""Which free volume is the first that will do, for every node: answers that follow the changes.

The next claim of a template asks what the one before it asked, and one volume has been taken since.
So what was found is kept per wish, and corrected where a volume on the shelf came or went.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.objects.selectors import Selector
from mooring.state.columns.labels import MISSING
from mooring.state.tables.nodes import NodeTable
from mooring.state.volumes.free_index.groups import (
    Answer,
    Bools,
    Entry,
    Group,
    Kind,
    Positions,
    Remaining,
)
from mooring.state.volumes.free_index.sorted_list import FreeVolumeList
from mooring.state.volumes.topology import ALL_NODES, NodeTopology, TopologyMasks

Rows = npt.NDArray[np.intp]

#: No volume.
NONE: Final = -1

#: Answers kept at most, of two bytes a volume, eight a value of a label and eight a row.
_ANSWERS_MAX: Final = 32

#: For so few rows, a list of places each is quicker than columns.
_FEW_ROWS: Final = 16

#: After more than so many, the first volume of every row is found anew.
_ROW_CHANGES_MAX: Final = 4

#: Smaller than any volume.
_ANY_SIZE: Final = -(2**200)

#: Up to so many changes are followed one by one; more cost as much as starting over.
_CHANGES_MAX: Final = 64


class VolumeRequest(NamedTuple):
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


class FirstMatchIndex:
    """The first volumes on a shelf that meet a claim's wishes, as places.

    Complexity: O(rows) in columns for wishes that another claim had lately, O(volumes) more for new
    ones.
    """

    def __init__(self, nodes: NodeTable, reaches: TopologyMasks, shelf: FreeVolumeList) -> None:
        self._nodes = nodes
        self._reaches = reaches
        self._shelf = shelf
        self._version = shelf.version
        self._answers: dict[VolumeRequest, Answer] = {}

    def first(self, wanted: VolumeRequest, rows: Rows) -> Positions:
        """The first volume of all: kept for every row, since the next claim asks the same."""
        answer = self._answer(wanted)
        if answer.best is None:
            answer.best = self._first_on(answer, np.arange(self._nodes.capacity, dtype=np.intp))
        return answer.best.take(rows)

    def _first_on(self, answer: Answer, rows: Rows) -> Positions:
        none, best = len(self._shelf.order), None
        for key, group in self._shelf.groups.items():
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

    def _firsts(self, key: str, group: Group, answer: Answer) -> Positions:
        """Returns the first volume that will do, by the code of the label ``key``."""
        column, none = self._nodes.label(key), len(self._shelf.order)
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

    def next(self, wanted: VolumeRequest, rows: Rows, after: Positions) -> Positions:
        """Returns the first volume after a place, which differs by row.

        Volumes are in order of size. So "large enough" is "from this place on", and claims that
        differ by nothing but their size share one answer.
        """
        answer, none = self._answer(wanted._replace(nanos=_ANY_SIZE)), len(self._shelf.order)
        after = np.maximum(after, self._shelf.first_place(wanted.nanos) - 1)
        if len(rows) <= _FEW_ROWS:
            pairs = zip(rows.tolist(), after.tolist(), strict=True)
            return np.array([self._next_on(answer, *pair) for pair in pairs], dtype=np.intp)
        best = np.full(len(rows), none, dtype=np.intp)
        for key, group in self._shelf.groups.items():
            left = self._left(key, group, answer)
            if isinstance(key, str):
                found = left.next_of(self._nodes.label(key).codes[rows], after)
            else:
                found = self._where_reached(key, rows, left.next(after))
            np.minimum(best, found, out=best)
        best[best == none] = NONE
        return best

    def _next_on(self, answer: Answer, row: int, after: int) -> int:
        """As ``next``, of one row: its volumes as a plain list, for claims by the thousand."""
        places = answer.of_row.get(row)
        if places is None:
            places = answer.of_row[row] = []
            for key, group in self._shelf.groups.items():
                left = self._left(key, group, answer)
                if isinstance(key, str):
                    places += left.of_code(int(self._nodes.label(key).codes[row]))
                elif key == ALL_NODES or self._reaches.mask(key)[row]:
                    places += left.places[:-1].tolist()
            places.sort()
        at = bisect_right(places, after)
        return places[at] if at < len(places) else NONE

    def _left(self, key: str | NodeTopology, group: Group, answer: Answer) -> Remaining:
        """Returns the volumes of a group that will do."""
        by_code = group.by_code(self._nodes.label(key)) if isinstance(key, str) else None
        known = answer.left.get(key)
        if known is not None and known[0] is by_code:
            return known[1]
        none = len(self._shelf.order)
        if by_code is not None:
            left = by_code.left(answer.will_do, none)
        else:
            left = Remaining(np.append(group.places[answer.will_do[group.places]], none))
        answer.left[key] = by_code, left
        return left

    def _where_reached(self, reach: NodeTopology, rows: Rows, found: Positions) -> Positions:
        if reach == ALL_NODES:
            return found
        return np.where(self._reaches.mask(reach)[rows], found, len(self._shelf.order))

    # -- which volumes will do --------------------------------------------------------------------

    def _answer(self, wanted: VolumeRequest) -> Answer:
        """What is kept of the answer to these wishes, as the volumes are now."""
        if self._version != self._shelf.version:
            self._answers.clear()
            self._version = self._shelf.version
        answer, now = self._answers.get(wanted), len(self._shelf.changes)
        if answer is None:
            if len(self._answers) >= _ANSWERS_MAX:
                self._answers.clear()
            answer = self._answers[wanted] = Answer(self._meets(wanted), self._shelf.is_free, now)
        answer.keep_to(self._reaches.version)
        if now - answer.seen > _CHANGES_MAX:
            answer.start_over(self._shelf.is_free, now)
        elif answer.seen < now:
            self._invalidate_if_stale(answer)
        return answer

    def _invalidate_if_stale(self, answer: Answer) -> None:
        answer.forget_left()
        if len(self._shelf.changes) - answer.seen > _ROW_CHANGES_MAX:
            answer.best = None
        for key, (by_code, _) in list(answer.firsts.items()):
            if self._shelf.groups[key].by_code(self._nodes.label(key)) is not by_code:
                del answer.firsts[key]
        for place in self._shelf.changes[answer.seen :]:
            answer.will_do[place] = answer.meets[place] and self._shelf.is_free[place]
            self._correct(answer, self._shelf.at(place))
        answer.seen = len(self._shelf.changes)

    def _correct(self, answer: Answer, changed: Entry) -> None:
        """Finds the first volumes anew where this one is reached."""
        if not isinstance(changed.key, str) or changed.key not in answer.firsts:
            answer.best = None
            return
        by_code, first = answer.firsts[changed.key]
        column = self._nodes.label(changed.key)
        for code in map(column.values.find, changed.values):
            if code == MISSING:
                continue
            first[code] = place = by_code.first(code, answer.will_do, len(self._shelf.order))
            if answer.best is not None:
                rows = (column.codes == code).nonzero()[0]
                if len(self._shelf.groups) > 1:
                    answer.best[rows] = self._first_on(answer, rows)
                else:
                    answer.best[rows] = place if place < len(self._shelf.order) else NONE

    def _meets(self, wanted: VolumeRequest) -> Bools:
        """Which volumes meet a claim's wishes, free or not, wherever they are."""
        meets: Bools = _suit(self._shelf.kinds, wanted)[self._shelf.kind_of]
        meets[: self._shelf.first_place(wanted.nanos)] = False
        if wanted.selector is not None:
            matches = wanted.selector.matches
            labels = (
                self._shelf.placed[name].volume.metadata.labels for _, name in self._shelf.order
            )
            meets &= np.array([matches(each) for each in labels], dtype=np.bool_)
        return meets


def _suit(kinds: Iterable[Kind], wanted: VolumeRequest) -> Bools:
    """Which kinds of volumes are what a claim wishes, but for their size and labels."""
    modes = set(wanted.access_modes)
    judged = [
        kind.volume_mode == wanted.volume_mode
        and kind.attributes_class == wanted.attributes_class
        and modes <= set(kind.access_modes)
        for kind in kinds
    ]
    return np.array(judged, dtype=np.bool_)
