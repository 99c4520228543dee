"""A copy of an attempt's arrays that outlives the cluster's state; a ``Decision`` on demand.

The arrays are as narrow as their values, and columns that are the same on every node are numbers:
about 45 kB for 5 000 nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.decision import SCHEDULED, UNSCHEDULABLE, Decision, Rejection
from mooring.framework.runtime.attempt import Attempt, excluded_by_pre_filter, rejection
from mooring.framework.runtime.filter_results import NOT_VISITED
from mooring.framework.status import Status

_Array = npt.NDArray[Any]
#: The values of one plugin: an array, or the same value on every node.
_Column = _Array | int
_WIDTHS: Final = (np.int8, np.int16, np.int32)


class _Filtered(NamedTuple):
    """The rejections by Filter plugins: see ``FilterResults``."""

    refused_by: _Array
    codes: dict[int, _Array]
    tables: list[list[Status]]


class AttemptCopy:
    """The arrays of one attempt, independent of the cluster's state.

    Args:
        attempt: The attempt; its snapshot must be current.
        node: The selected node; "" = none.
        names: The names of the nodes by row; must not change later.
        weights: Plugin -> the weight of its scores.
    """

    def __init__(
        self, attempt: Attempt, node: str, names: list[str], weights: Mapping[str, int]
    ) -> None:
        self.weights = weights
        self._node = node
        self._names = names
        self._choice = attempt.choice
        self._before = attempt.pre_filtered.status
        self._statuses = attempt.extra | attempt.by_extenders
        self._excluded: frozenset[str] = frozenset()
        self._excluding = _excluding(attempt)
        if attempt.pre_filtered.node_names is not None:
            live = {names[row] for row in attempt.snapshot.nodes.order.rows()}
            self._excluded = frozenset(live - attempt.pre_filtered.node_names)
        self._filtered = None if attempt.results is None else _filtered(attempt)
        self._total = None if attempt.total is None else _narrow(attempt.total)
        rows = attempt.rows
        is_first = rows is None or not len(rows) or rows[-1] == len(rows) - 1
        self._rows = None if rows is None or is_first else _narrow(rows)  # None = the first rows
        tied = attempt.tied_rows
        self._tied = [] if tied is None else tied.tolist()
        self._raw, self._scores = ({}, {}) if attempt.total is None else _score_columns(attempt)

    @property
    def size_bytes(self) -> int:
        """The size of the arrays."""
        arrays = [self._total, self._rows, *self._raw.values(), *self._scores.values()]
        if self._filtered is not None:
            arrays += [self._filtered.refused_by, *self._filtered.codes.values()]
        sizes = {id(item): item.nbytes for item in arrays if isinstance(item, np.ndarray)}
        return sum(sizes.values())

    def decision(self) -> Decision:
        """Returns the attempt as a ``Decision``; takes milliseconds at thousands of nodes."""
        names, is_scored = self._names, self._total is not None
        tied = tuple(sorted(names[row] for row in self._tied))
        return Decision(
            result=SCHEDULED if self._node else UNSCHEDULABLE,
            node=self._node or None,
            tied=tied or ((self._node,) if self._node else ()),
            rejected={} if self._before is not None else self._rejected(),
            unschedulable_plugins=(),
            pending_plugins=(),
            choice=self._choice,
            prefilter=None if self._before is None else rejection(self._before),
            scores=self._by_node(self._scores) if is_scored else None,
            raw=self._by_node(self._raw) if is_scored else None,
            total=self._values(self._total) if self._total is not None else None,
        )

    def _rejected(self) -> dict[str, Rejection]:
        """Returns the rejection of every rejected node, by node name."""
        excluding = ",".join(self._excluding)
        excluded = rejection(excluded_by_pre_filter(self._excluding).named(excluding))
        rejected = dict.fromkeys(self._excluded, excluded)
        for row, status in self._statuses.items():
            rejected[self._names[row]] = rejection(status)
        if self._filtered is not None:
            made: dict[tuple[int, int], Rejection] = {}
            refused_by, tables = self._filtered.refused_by, self._filtered.tables
            rows = np.flatnonzero((refused_by != 0) & (refused_by != NOT_VISITED))
            for row in rows.tolist():
                plugin = int(refused_by[row]) - 1
                code = int(self._filtered.codes[plugin][row])
                if (plugin, code) not in made:
                    made[plugin, code] = rejection(tables[plugin][code - 1])
                rejected[self._names[row]] = made[plugin, code]
        return dict(sorted(rejected.items()))

    def _by_node(self, columns: dict[str, _Column]) -> dict[str, dict[str, int]]:
        return {plugin: self._values(column) for plugin, column in sorted(columns.items())}

    def _values(self, column: _Column) -> dict[str, int]:
        assert self._total is not None
        rows = range(len(self._total)) if self._rows is None else self._rows.tolist()
        values = [column] * len(self._total) if isinstance(column, int) else column.tolist()
        return dict(zip([self._names[row] for row in rows], values, strict=True))


def _excluding(attempt: Attempt) -> list[str]:
    """Returns the plugins that excluded nodes in PreFilter, sorted."""
    rejected_by = {status.plugin for status in attempt.extra.values() if status.is_rejection}
    return sorted(rejected_by.union(attempt.pre_filtered.narrowed_by) - {""})


def _filtered(attempt: Attempt) -> _Filtered:
    results = attempt.results
    assert results is not None
    codes = {
        plugin: results.codes[plugin].copy() for plugin, table in enumerate(results.tables) if table
    }
    # The tables only grow, and are replaced when the results are cleared.
    return _Filtered(results.refused_by.copy(), codes, list(results.tables))


def _score_columns(attempt: Attempt) -> tuple[dict[str, _Column], dict[str, _Column]]:
    """Returns the raw and the normalized scores of each plugin."""
    raw: dict[str, _Column] = dict.fromkeys(attempt.zero, 0)
    scores: dict[str, _Column] = dict.fromkeys(attempt.zero, 0)
    for plugin, column in attempt.final.items():
        assert attempt.rows is not None
        raw[plugin] = _narrow(column[attempt.rows])
        scores[plugin] = attempt.constant.get(plugin, raw[plugin])
    for plugin, column in attempt.raw.items():
        raw[plugin] = _narrow(column)
        is_same = attempt.scores[plugin] is column
        scores[plugin] = raw[plugin] if is_same else _narrow(attempt.scores[plugin])
    return raw, scores


def _narrow(column: _Array) -> _Array:
    """Returns a copy of the narrowest type that holds the values."""
    if not len(column):
        return column.copy()
    lowest, highest = int(column.min()), int(column.max())
    for width in _WIDTHS:
        limits = np.iinfo(width)
        if limits.min <= lowest and highest <= limits.max:
            return column.astype(width)
    return column.copy()
