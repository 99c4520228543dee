"""What the shareable plugins answered for pods with one signature, kept up to date by the log.

Scheduling a thousand replicas asks the same question a thousand times, and between two askings one
node has changed. So the answers stay: columns of verdicts and raw scores, and for the next pod of
the signature only the rows in the change log are asked about again. The full pass over all rows is
the same code with all rows, and a test holds the two equal.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from mooring.framework.interface import MAX_SCORE, MIN_SCORE
from mooring.framework.node_info import NodeInfo
from mooring.framework.node_view import NodeView
from mooring.framework.runtime.filter_results import FEW_ROWS, NOT_VISITED, FilterResults
from mooring.framework.status import FilterStatuses, Status
from mooring.state.columns.change_log import Change
from mooring.state.snapshot import Snapshot

#: Memory for all answers together; the least recently used go first.
MEMORY_LIMIT_BYTES = 64 << 20

Rows = npt.NDArray[np.intp]


class CacheablePlugin(NamedTuple):
    """A shareable plugin, and what its answer for a node depends on.

    ``reads`` are columns of that node, ``reads_other_nodes`` of others, both ``Change`` as ints.
    """

    number: int
    reads: int
    reads_other_nodes: int
    has_one_node_form: bool
    #: A score plugin whose raw scores are final: nothing normalizes them.
    is_final: bool = False
    #: What its ``normalize`` makes of nothing but zeros; None = it has to be called.
    normalized_zero: int | None = None
    #: What its scores count in the total.
    weight: int = 1


class FilterCaller(Protocol):
    """Calls filter plugin ``number``: about a view, or about some nodes one by one."""

    def many(self, number: int, view: NodeView) -> FilterStatuses:
        """Verdicts for a view."""
        ...

    def each(self, number: int, nodes: list[NodeInfo]) -> list[Status | None]:
        """Returns the status of each node."""
        ...


class AskScore(Protocol):
    """Calls score plugin ``number``: about a view, or about some nodes one by one."""

    def many(self, number: int, view: NodeView) -> npt.NDArray[np.int64]:
        """Raw scores for a view."""
        ...

    def each(self, number: int, nodes: list[NodeInfo]) -> list[int]:
        """Returns the raw score of each node."""
        ...


_EXISTENCE = int(Change.EXISTENCE)
_ALL = int(Change.ALL)


class CachedResults:
    """The answers to one signature. ``raw[s]`` int64 shape (capacity,): raw scores of plugin s."""

    __slots__ = (
        "_filter_generation",
        "_last_changes",
        "_score_generation",
        "capacity",
        "constants",
        "final_total",
        "finals",
        "in_range",
        "is_zero",
        "pre_filtered",
        "pre_scored",
        "raw",
        "results",
    )

    def __init__(self, filters: tuple[str, ...], n_scores: int, capacity: int) -> None:
        self.capacity = capacity
        self.results = FilterResults(filters, capacity)
        self.raw = [np.zeros(capacity, dtype=np.int64) for _ in range(n_scores)]
        #: Plugin name -> (result of pre_filter or pre_score, the state it stored).
        self.pre_filtered: dict[str, tuple[Any, Any]] = {}
        self.pre_scored: dict[str, tuple[Any, Any]] = {}
        #: By score plugin: whether its scores are final, and surely 0..100 on every row.
        self.in_range = [False] * n_scores
        #: By score plugin: whether its raw scores are 0 on every row.
        self.is_zero = [False] * n_scores
        #: The score plugins that need not be asked: scores final, or the same for any nodes.
        self.finals: tuple[int, ...] = ()
        #: Of the latter, the score.
        self.constants: dict[int, int] = {}
        #: The weighted sum of all these by row.
        self.final_total = np.zeros(capacity, dtype=np.int64)
        self._filter_generation = -1
        self._score_generation = -1
        #: What ``_changed`` said last, for which two generations.
        self._last_changes: tuple[tuple[int, int], tuple[Rows | None, int]] | None = None

    def forget(self) -> None:
        """Becomes the answers to another signature, to which nobody has answered anything yet.

        Raw scores stay as they are: they are written over where there is a node, and mean nothing
        elsewhere.
        """
        self.results.clear()
        self.pre_filtered, self.pre_scored = {}, {}
        self.in_range = [False] * len(self.raw)
        self.is_zero = [False] * len(self.raw)
        self.finals, self.constants = (), {}
        self._filter_generation = self._score_generation = -1
        self._last_changes = None

    def refresh_filters(
        self,
        snapshot: Snapshot,
        readers: list[CacheablePlugin],
        ask: FilterCaller,
    ) -> None:
        """Brings the refusals up to the snapshot."""
        if self._filter_generation == snapshot.generation:
            return
        rows, kinds = self._changed(snapshot, self._filter_generation)
        few = _infos(snapshot, rows)
        combine_all = rows is None
        for reader in readers:
            number = reader.number
            if rows is None or kinds & reader.reads_other_nodes:
                view = NodeView.everything(snapshot)
                self.results.set_codes(number, _place(view, snapshot), ask.many(number, view))
                combine_all = True
            elif not len(rows) or not kinds & (reader.reads | _EXISTENCE):
                continue
            elif reader.has_one_node_form and few is not None:
                for row, status in zip(rows.tolist(), ask.each(number, few), strict=True):
                    self.results.write_one(number, row, status)
            else:
                self.results.set_codes(number, rows, ask.many(number, NodeView(snapshot, rows)))
        self._combine(snapshot, None if combine_all else rows, kinds)
        self._filter_generation = snapshot.generation

    def refresh_scores(
        self,
        snapshot: Snapshot,
        readers: list[CacheablePlugin],
        ask: AskScore,
    ) -> None:
        """Brings the raw scores up to the snapshot."""
        if self._score_generation == snapshot.generation:
            return
        rows, kinds = self._changed(snapshot, self._score_generation)
        few = _infos(snapshot, rows)
        is_everywhere = rows is None
        for reader in readers:
            number, raw = reader.number, self.raw[reader.number]
            if rows is None or kinds & reader.reads_other_nodes:
                view = NodeView.everything(snapshot)
                scores = ask.many(number, view)
                raw[_place(view, snapshot)] = scores
                is_everywhere = True
                self.in_range[number] = reader.is_final and _are_scores(scores)
            elif not len(rows) or not kinds & (reader.reads | _EXISTENCE):
                continue
            elif reader.has_one_node_form and few is not None:
                for row, score in zip(rows.tolist(), ask.each(number, few), strict=True):
                    raw[row] = score
                    self.in_range[number] &= MIN_SCORE <= score <= MAX_SCORE
            else:
                raw[rows] = scores = ask.many(number, NodeView(snapshot, rows))
                self.in_range[number] &= _are_scores(scores)
            if reader.normalized_zero is not None:
                self.is_zero[number] = not np.count_nonzero(raw[: snapshot.nodes.size])
        self._add_up(None if is_everywhere else rows, readers)
        self._score_generation = snapshot.generation

    def _add_up(self, rows: Rows | None, readers: list[CacheablePlugin]) -> None:
        """The sum of the final scores, anew on ``rows``; None = on all of them."""
        finals = [each for each in readers if self.in_range[each.number]]
        constants = {
            each.number: each.normalized_zero
            for each in readers
            if each.normalized_zero is not None and self.is_zero[each.number]
        }
        constant = sum(each.weight * constants.get(each.number, 0) for each in readers)
        numbers = (*[each.number for each in finals], *constants)
        if numbers != self.finals:
            self.finals, self.constants, rows = numbers, constants, None
        if rows is not None and len(rows) <= FEW_ROWS:
            weighted = [(self.raw[each.number], each.weight) for each in finals]
            for row in rows.tolist():
                scores = [raw.item(row) * weight for raw, weight in weighted]
                self.final_total[row] = constant + sum(scores)
            return
        at = slice(None) if rows is None else rows
        total = np.full(self.capacity if rows is None else len(rows), constant, dtype=np.int64)
        for reader in finals:
            total += self.raw[reader.number][at] * reader.weight
        self.final_total[at] = total

    def _combine(self, snapshot: Snapshot, rows: Rows | None, kinds: int) -> None:
        nodes = snapshot.nodes
        self.results.recompute_first(rows, nodes.size)
        if rows is None or kinds & _EXISTENCE:
            dead = np.flatnonzero(~nodes.alive[: nodes.size])
            if len(dead):
                self.results.set_many(dead, NOT_VISITED)

    def _changed(self, snapshot: Snapshot, generation: int) -> tuple[Rows | None, int]:
        """The live rows that changed since ``generation`` (None = ask about all) and the kinds."""
        asked = generation, snapshot.generation
        if self._last_changes is None or self._last_changes[0] != asked:
            self._last_changes = asked, self._changed_rows(snapshot, generation)
        return self._last_changes[1]

    @staticmethod
    def _changed_rows(snapshot: Snapshot, generation: int) -> tuple[Rows | None, int]:
        nodes = snapshot.nodes
        changes = nodes.log.since(generation) if generation >= 0 else None
        if changes is None:
            return None, _ALL
        rows, kinds = changes
        if len(rows) == 1:
            row = int(rows[0])
            uncached = rows.astype(np.intp) if nodes.alive[row] else np.zeros(0, dtype=np.intp)
            return uncached, int(kinds[0])
        if len(rows) > nodes.size // 2:
            return None, _ALL
        return _distinct(rows, nodes.alive), int(np.bitwise_or.reduce(kinds))


def _infos(snapshot: Snapshot, rows: Rows | None) -> list[NodeInfo] | None:
    """Returns the nodes to be asked about one by one; None = too many for that."""
    if rows is None or len(rows) > FEW_ROWS:
        return None
    return [NodeInfo(snapshot, row) for row in rows.tolist()]


def _place(view: NodeView, snapshot: Snapshot) -> slice | Rows:
    """Where the answers about every node of ``view`` are to be written."""
    size = snapshot.nodes.size
    return slice(size) if len(view) == size else view.rows


def _are_scores(scores: npt.NDArray[np.int64]) -> bool:
    # Those below 0 are far above 100 if the sign is taken for a part of the number.
    return not len(scores) or int(np.maximum.reduce(scores.view(np.uint64))) <= MAX_SCORE


def _distinct(rows: npt.NDArray[np.int32], alive: npt.NDArray[np.bool_]) -> Rows:
    """Returns the live ones of ``rows``, each once, in order."""
    if len(rows) > FEW_ROWS:
        found = np.zeros(len(alive), dtype=np.bool_)
        found[rows] = True
        return np.flatnonzero(found & alive)
    uncached = [row for row in sorted(set(rows.tolist())) if alive.item(row)]
    return np.array(uncached, dtype=np.intp)


class ResultCache:
    """Signature -> Answers, bounded by memory, the least recently used dropped first."""

    __slots__ = ("_answers", "_filters", "_n_scores", "hits", "misses", "reuses_buffers")

    def __init__(self, filters: tuple[str, ...], n_scores: int) -> None:
        self._answers: OrderedDict[Hashable, CachedResults] = OrderedDict()
        self._filters = filters
        self._n_scores = n_scores
        #: Whether answers that go lend their memory to new ones: not where an attempt stays open
        #: while others are decided about.
        self.reuses_buffers = True
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._answers)

    def of(self, signature: Hashable, capacity: int) -> CachedResults:
        """Returns the answers for ``signature``; empty ones if there are none yet."""
        answers = self._answers.get(signature)
        if answers is not None and answers.capacity == capacity:
            self._answers.move_to_end(signature)
            self.hits += 1
            return answers
        self.misses += 1
        self._answers.pop(signature, None)
        answers = None
        while len(self._answers) >= self._limit(capacity):
            _, answers = self._answers.popitem(last=False)
        if self.reuses_buffers and answers is not None and answers.capacity == capacity:
            answers.forget()  # memory that is there already is far cheaper than new memory
        else:
            answers = CachedResults(self._filters, self._n_scores, capacity)
        self._answers[signature] = answers
        return answers

    def clear(self) -> None:
        """Forgets everything: what the answers rest on beside pods and nodes has changed."""
        self._answers.clear()

    def _limit(self, capacity: int) -> int:
        bytes_each = capacity * (2 + 2 * len(self._filters) + 8 * self._n_scores) + 4096
        return max(8, MEMORY_LIMIT_BYTES // bytes_each)
