"""The Score stage: scores the feasible nodes and selects one.

Source: pkg/scheduler/schedule_one.go (prioritizeNodes) and framework/runtime/framework.go
(RunPreScorePlugins, RunScorePlugins).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np

from mooring.errors import PluginError
from mooring.framework.cycle_state import Cycle
from mooring.framework.interface import MAX_SCORE, MIN_SCORE
from mooring.framework.node_info import NodeInfo
from mooring.framework.node_view import NodeView
from mooring.framework.runtime.attempt import Attempt, Placement
from mooring.framework.runtime.filter import Feasible
from mooring.framework.runtime.framework import Framework
from mooring.framework.runtime.host_selection import (
    first_in_heap,
    first_in_order,
    first_of,
    ranks_of,
    visiting_order,
)
from mooring.framework.runtime.opportunistic_batch import EMPTY_LIST, SortedNodes
from mooring.framework.runtime.result_cache import CachedResults, are_scores, restored_results
from mooring.framework.runtime.timings import ERROR
from mooring.framework.status import Skip
from mooring.state.tables.nodes import read_only
from mooring.state.types import Ints, Rows

#: Lengths of ``zero_scores`` that are kept: the numbers of feasible nodes of late.
LENGTHS_MAX: Final = 16


def select_host(
    framework: Framework, cycle: Cycle, attempt: Attempt, feasible: Feasible
) -> Placement:
    """Scores the feasible nodes (at least one) and selects the best one."""
    if feasible.count == 1:
        placement = _placement(cycle, feasible, int(np.argmax(feasible.mask)))
        if framework.batch is not None and cycle.number is not None:
            framework.batch.store(cycle, placement.node_name, None, framework.recorder)
        elif framework.has_batching_gate:
            recorder = framework.recorder
            recorder.batch_flushed(EMPTY_LIST)
            recorder.results_stored(recorder.now())
        return placement
    is_all = feasible.count == cycle.snapshot.nodes.size
    rows = None if is_all else feasible.rows()
    view = NodeView(cycle.snapshot, rows)
    total = total_scores(framework, cycle, attempt, view, rows)
    best = (total == total.item(total.argmax())).nonzero()[0]
    tied = best if rows is None else rows.take(best)
    attempt.rows, attempt.total, attempt.tied_rows = view.rows, total, tied
    if framework.tie_break is not None and len(tied) > 1:
        names = cycle.snapshot.nodes.names
        name = framework.tie_break(sorted(names[row] for row in tied.tolist()))
        return _placement(cycle, feasible, cycle.snapshot.nodes.row(name))
    placement = _placement(cycle, feasible, _break_tie(cycle, attempt, feasible, tied, best))
    if framework.batch is not None and cycle.number is not None:
        sorted_nodes = partial(_sorted_nodes, cycle, attempt, feasible)
        framework.batch.store(cycle, placement.node_name, sorted_nodes, framework.recorder)
    return placement


def _sorted_nodes(cycle: Cycle, attempt: Attempt, feasible: Feasible) -> SortedNodes:
    """Returns the feasible nodes in visiting order with their totals, for the next pod."""
    assert attempt.total is not None
    nodes = cycle.snapshot.nodes
    listed = nodes.order.array() if feasible.order is None else feasible.order
    visited = visiting_order(listed, attempt.start_index)
    visited = visited[feasible.mask[visited]]
    totals = np.zeros(nodes.capacity, dtype=np.int64)
    totals[slice(len(attempt.total)) if attempt.rows is None else attempt.rows] = attempt.total
    names = nodes.names
    return SortedNodes([names[row] for row in visited.tolist()], totals[visited].tolist())


def _placement(cycle: Cycle, feasible: Feasible, row: int) -> Placement:
    name = cycle.snapshot.nodes.names[row]
    return Placement(name, row, feasible.count, feasible.evaluated_count)


def _break_tie(
    cycle: Cycle, attempt: Attempt, feasible: Feasible, tied: Rows, positions: Rows
) -> int:
    """Returns the row of the selected node among those with equal totals, as upstream's heap.

    ``positions`` are those of the ``tied`` rows among the feasible ones, in ascending order.
    """
    if len(tied) == 1:
        return int(tied[0])
    nodes = cycle.snapshot.nodes
    is_all = feasible.order is None and feasible.count == len(nodes)
    if is_all or (feasible.order is None and not attempt.start_index):
        if nodes.order.is_by_row:
            return tied.item(first_of(positions, len(nodes)))
        passed = None if is_all else feasible.mask
        return first_in_order(nodes.order.array(), nodes.order.positions(), tied, passed)
    listed = nodes.order.array() if feasible.order is None else feasible.order
    ranks = ranks_of(tied, feasible.mask, visiting_order(listed, attempt.start_index))
    return int(tied[int((ranks == first_in_heap(ranks)).argmax())])


def total_scores(
    framework: Framework, cycle: Cycle, attempt: Attempt, view: NodeView, rows: Rows | None
) -> Ints:
    """Returns the sums of normalized score x weight, int64 shape (f,), of the nodes in ``view``.

    Without score plugins every node has 1, as upstream. The result may be a view of cached sums:
    it is read-only, and holds until the cluster changes.
    """
    if not framework.scorers:
        return np.ones(len(view), dtype=np.int64)
    cached, cached_plugins = framework.cached_results(cycle)
    recorder = framework.recorder
    started_s, point = recorder.now(), "PreScore"
    try:
        skipped = pre_score(framework, cycle, view, cached, cached_plugins)
        ended_s = recorder.now()
        recorder.succeeded["PreScore"](ended_s - started_s)
        started_s, point = ended_s, "Score"
        total = _run_scorers(framework, cycle, attempt, view, rows, skipped)
    except BaseException as error:
        recorder.point(point, ERROR, started_s)
        if point == "Score" and isinstance(error, PluginError):
            _count_until_error(framework, attempt, skipped, len(view), error)
        raise
    recorder.succeeded["Score"](recorder.now() - started_s)
    recorder.scored(skipped, len(view))
    return total


def _count_until_error(
    framework: Framework,
    attempt: Attempt,
    skipped: frozenset[str],
    node_count: int,
    error: PluginError,
) -> None:
    """Counts PreScore, and Score of the first node up to the plugin that failed there.

    If the scores cannot be normalized, all plugins have scored all nodes, as upstream. *Differs:*
    upstream scores nodes in parallel, and counts those that it began before the error.
    """
    recorder = framework.recorder
    recorder.failed("PreScore", "", skipped)
    if error.plugin in attempt.raw:
        recorder.failed("Score", "", skipped, node_count)
    else:
        recorder.failed("Score", error.plugin, skipped)


def _run_scorers(
    framework: Framework,
    cycle: Cycle,
    attempt: Attempt,
    view: NodeView,
    rows: Rows | None,
    skipped: frozenset[str],
) -> Ints:
    cached: CachedResults | None
    cached, cached_plugins = cycle.cached_results or (None, frozenset())
    if cached is not None:
        plugins = framework.cacheable_scorers(cached_plugins - skipped)
        caller = ScoreCallerImpl(framework, cycle)
        cached.refresh_scores(cycle.snapshot, plugins, caller, is_timed=cycle.is_timed)
    finals: tuple[int, ...] = ()
    total: Ints
    if cached is not None and cached.finals:
        # Most scores are cached and final: their sum is cached as well.
        finals, column = cached.finals, cached.final_total
        total = column[: len(view)] if rows is None else column.take(rows)
        is_shared = rows is None
    else:
        total, is_shared = np.zeros(len(view), dtype=np.int64), False
    for number, plugin in enumerate(framework.scorers):
        if plugin.name in skipped:
            continue
        if cached is not None and number in finals:
            attempt.final[plugin.name] = cached.raw[number]
            if number in cached.constants:
                attempt.constant[plugin.name] = cached.constants[number]
            continue
        if cached is not None and plugin.name in cached_plugins:
            column = cached.raw[number]
            raw = column[: len(view)] if rows is None else column.take(rows)
        else:
            raw = score_one(framework, cycle, plugin, view)
        attempt.raw[plugin.name] = raw
        if getattr(plugin, "normalized_zero", None) == 0 and is_zero(raw):
            attempt.scores[plugin.name] = raw
            continue  # they add nothing
        scores = normalize_one(framework, cycle, plugin, raw, view)
        attempt.scores[plugin.name] = scores
        weight = framework.weight(plugin.name)
        if is_shared:
            total, is_shared = total.copy(), False
        total += scores if weight == 1 else scores * weight
    attempt.zero = cycle.idle_plugins & framework.selection.without_pre_score & skipped
    return total


def pre_score(
    framework: Framework,
    cycle: Cycle,
    view: NodeView,
    cached: CachedResults | None,
    cached_plugins: frozenset[str],
) -> frozenset[str]:
    """Runs the PreScore plugins; returns the names of those that skip this pod."""
    cache = cached.pre_scored if cached is not None else {}
    is_repeated = bool(cache)
    plugins = framework.selection.to_call("pre_score", cycle)
    restored = None if cached is None else cached.restored_pre_score
    if restored is None:
        skipped = cycle.idle_plugins
    else:
        skipped = restored.skipped
        plugins = restored.to_call(plugins, cycle)
        cycle.restore_all(restored.states)
    also_skipped: list[str] = []
    for plugin in plugins:
        if plugin.name in cache:
            result, state = cache[plugin.name]
            cycle.restore(plugin.name, state)
        else:
            try:
                result = _call_pre_score(framework, cycle, plugin, view)
            except PluginError:
                skipped = skipped.union(also_skipped)
                framework.recorder.failed("PreScore", plugin.name, skipped)
                raise
            if plugin.name in cached_plugins:
                cache[plugin.name] = (result, cycle.state_of(plugin.name))
        if result is Skip.SKIP:
            also_skipped.append(plugin.name)
    if cached is not None and restored is None and is_repeated:
        applicable = framework.selection.applicable("pre_score", cycle)
        cached.restored_pre_score = restored_results(applicable, cache, skipped)
    return skipped.union(also_skipped) if also_skipped else skipped


def _call_pre_score(framework: Framework, cycle: Cycle, plugin: Any, view: NodeView) -> Skip | None:
    cycle.writer = plugin.name
    result = framework.call(plugin, "PreScore", plugin.pre_score, cycle, view)
    cycle.writer = None
    if result is not None and result is not Skip.SKIP:
        raise PluginError(plugin.name, "PreScore", f"returned {result!r}, not None or SKIP")
    return result


@dataclass(slots=True)
class ScoreCallerImpl:
    """Calls the score plugins of a framework to refresh cached results."""

    framework: Framework
    cycle: Cycle

    def call_view(self, number: int, view: NodeView) -> Ints:
        """Returns the raw scores of the nodes of a view."""
        plugin = self.framework.scorers[number]
        return score_one(self.framework, self.cycle, plugin, view)

    def call_nodes(self, number: int, nodes: list[NodeInfo]) -> list[int]:
        """Returns the raw score of each node."""
        plugin = self.framework.scorers[number]
        scores = self.framework.call_each(plugin, "Score", plugin.score_node, self.cycle, nodes)
        for score in scores:
            if not isinstance(score, int):
                problem = f"score_node returned {score!r}, not an int"
                raise PluginError(plugin.name, "Score", problem)
        return scores


def score_one(framework: Framework, cycle: Cycle, plugin: Any, view: NodeView) -> Ints:
    """Returns the raw scores of one plugin.

    Raises:
        PluginError: if it raises, or the result is not int64 of shape (m,).
    """
    raw = framework.call(plugin, "Score", plugin.score, cycle, view)
    _check_shape(plugin, "Score", raw, len(view))
    return raw  # type: ignore[no-any-return]  # checked just above


def normalize_one(
    framework: Framework, cycle: Cycle, plugin: Any, raw: Ints, view: NodeView
) -> Ints:
    """Returns the scores of one plugin, 0..100.

    Raises:
        PluginError: if it raises, or a score is out of range.
    """
    scores = raw
    if hasattr(plugin, "normalize"):
        zero: int | None = getattr(plugin, "normalized_zero", None)
        if zero is not None and not np.count_nonzero(raw):
            return np.full_like(raw, zero) if zero else raw
        scores = framework.call(
            plugin, "NormalizeScore", plugin.normalize, cycle, read_only(raw), view
        )
        _check_shape(plugin, "NormalizeScore", scores, len(view))
    if not are_scores(scores):
        lowest, highest = int(scores.min()), int(scores.max())
        wrong = lowest if lowest < MIN_SCORE else highest
        raise PluginError(
            plugin.name,
            "Score",
            f"returns an invalid score {wrong}, it should be in the range of "
            f"[{MIN_SCORE}, {MAX_SCORE}] after normalizing",
        )
    return scores


def _check_shape(plugin: Any, point: str, scores: Any, length: int) -> None:
    if not isinstance(scores, np.ndarray) or scores.dtype != np.int64 or scores.shape != (length,):
        shape = getattr(scores, "shape", None)
        kind = getattr(scores, "dtype", type(scores).__name__)
        raise PluginError(
            plugin.name, point, f"scores are {kind} of shape {shape}, not int64 of ({length},)"
        )


@lru_cache(maxsize=LENGTHS_MAX)
def zero_scores(length: int) -> Ints:
    """Returns zeros, int64 shape (length,), read-only: the same array for equal lengths."""
    zeros = np.zeros(length, dtype=np.int64)
    zeros.flags.writeable = False
    return zeros


def is_zero(scores: Ints) -> bool:
    """Returns whether all scores are 0; those of ``zero_scores`` are not looked at."""
    return scores is zero_scores(len(scores)) or not np.count_nonzero(scores)


def default_normalize(scores: Ints, *, reverse: bool = False) -> Ints:
    """Scales raw scores so that the highest becomes 100; with ``reverse`` it becomes 0.

    If all are zero, the scores are all 0, or all 100 with ``reverse``. Raw scores must not be
    negative.

    Source: plugins/helper/normalize_score.go (DefaultNormalizeScore).
    """
    highest = int(scores.max()) if len(scores) else 0
    if highest == 0:
        return np.full(len(scores), MAX_SCORE, dtype=np.int64) if reverse else scores
    scaled = scores * MAX_SCORE // highest
    return MAX_SCORE - scaled if reverse else scaled
