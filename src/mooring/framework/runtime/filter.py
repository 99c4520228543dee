"""The Filter stage: finds the nodes that are feasible for the pod.

Source: pkg/scheduler/schedule_one.go (findNodesThatFitPod, findNodesThatPassFilters) and
framework/runtime/framework.go (RunPreFilterPlugins, RunFilterPluginsWithNominatedPods).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mooring.errors import PluginError
from mooring.framework.cycle_state import Cycle
from mooring.framework.diagnosis import Diagnosis
from mooring.framework.node_info import NodeInfo
from mooring.framework.node_view import NodeView
from mooring.framework.runtime.attempt import Attempt, PreFilterOutcome, no_node_left
from mooring.framework.runtime.filter_results import NOT_VISITED, FilterResults
from mooring.framework.runtime.framework import Framework
from mooring.framework.runtime.host_selection import feasible_nodes_to_find, visiting_order
from mooring.framework.runtime.nominated import (
    NominatedPods,
    filter_hypothetical,
    filter_one,
    nominated_pods_by_row,
)
from mooring.framework.runtime.result_cache import (
    CachedResults,
    Restored,
    restored_results,
)
from mooring.framework.runtime.timings import ERROR, SUCCESS
from mooring.framework.status import Code, FilterStatuses, PreFilterResult, Skip, Status
from mooring.state.tables.pods import PodInfo
from mooring.state.types import Rows


@dataclass(slots=True)
class Feasible:
    """The feasible nodes: ``mask`` bool shape (capacity,) over rows, ``count`` of them.

    ``order`` are the rows that were visited, in visiting order; None = all nodes, in table order.
    ``rows`` returns the feasible rows, ascending.
    """

    mask: npt.NDArray[np.bool_]
    count: int
    order: Rows | None
    evaluated_count: int
    rows: Callable[[], Rows]


def find_nodes_that_fit(
    framework: Framework, cycle: Cycle, attempt: Attempt
) -> Feasible | Diagnosis:
    """Returns the feasible nodes, or a Diagnosis if there are none."""
    attempt.pre_filtered = pre_filter(framework, cycle)
    if attempt.pre_filtered.status is not None:
        attempt.choice = None if framework.needs_scoring else "first"
        return attempt.diagnosis()
    if framework.batch is not None and cycle.number is not None:
        is_feasible = partial(_is_feasible, framework, cycle)
        cycle.node_hint = framework.batch.hint(cycle, is_feasible, framework.recorder)
    nominated = try_nominated(framework, cycle, attempt)
    if nominated is not None:
        is_nominated = bool(cycle.pod.status.nominated_node_name)
        choice = "nominated" if is_nominated else "batched"
        attempt.choice = choice if len(attempt.included_rows()) > 1 else None
        return nominated
    feasible = filter_nodes(framework, cycle, attempt, attempt.included_rows())
    return feasible if feasible.count else attempt.diagnosis()


def filter_nodes(framework: Framework, cycle: Cycle, attempt: Attempt, order: Rows) -> Feasible:
    """Filters the rows in ``order``, those that PreFilter included; perhaps none is feasible."""
    is_narrowed = attempt.pre_filtered.node_names is not None
    if is_narrowed and len(order) > 1:
        attempt.choice = "unordered"  # upstream visits the nodes of PreFilter in random order
    recorder = framework.recorder
    started_s = recorder.now()
    try:
        attempt.results = run_filters(framework, cycle, order if is_narrowed else None)
        feasible = _select_feasible(framework, attempt, attempt.results, order)
    except BaseException as error:
        recorder.point("Filter", ERROR, started_s)
        if isinstance(error, PluginError):
            _count_until_error(framework, cycle, attempt, order, error)
        raise
    recorder.succeeded["Filter"](recorder.now() - started_s)
    is_refused = feasible.count < feasible.evaluated_count
    recorder.filtered(
        cycle.skipped,
        feasible.evaluated_count,
        attempt.results.refused_counts if is_refused else None,
    )
    return feasible


def _count_until_error(
    framework: Framework, cycle: Cycle, attempt: Attempt, order: Rows, error: PluginError
) -> None:
    """Counts the nodes that were filtered before the first at which a filter failed, and that.

    *Differs:* upstream filters nodes in parallel, and counts those that it began before it ended.
    """
    recorder, results, node_count = framework.recorder, attempt.results, 0
    if results is not None:
        node_count = int(np.count_nonzero(results.refused_by[order] != NOT_VISITED))
    refused_counts = results.refused_counts if results is not None and node_count else None
    recorder.filtered(cycle.skipped, node_count, refused_counts)
    recorder.failed("Filter", error.plugin, cycle.skipped)


def pre_filter(framework: Framework, cycle: Cycle) -> PreFilterOutcome:
    """Runs the PreFilter plugins, or restores their cached results and states."""
    cached, cached_plugins = framework.cached_results(cycle)
    recorder = framework.recorder
    started_s = recorder.now()
    try:
        outcome = _run_pre_filter(framework, cycle, cached, cached_plugins)
    except BaseException as error:
        recorder.point("PreFilter", ERROR, started_s)
        if isinstance(error, PluginError):
            recorder.failed("PreFilter", error.plugin, cycle.skipped)
        raise
    if outcome.status is None:
        recorder.succeeded["PreFilter"](recorder.now() - started_s)
    else:
        recorder.point("PreFilter", outcome.status.code.value, started_s)
    return outcome


def _run_pre_filter(
    framework: Framework,
    cycle: Cycle,
    cached: CachedResults | None,
    cached_plugins: frozenset[str],
) -> PreFilterOutcome:
    cache = cached.pre_filtered if cached is not None else {}
    is_repeated = bool(cache)
    plugins = framework.selection.to_call("pre_filter", cycle)
    restored = None if cached is None else cached.restored_pre_filter
    if restored is not None:
        plugins = restored.to_call(plugins, cycle)
        cycle.restore_all(restored.states)
        cycle.skipped = restored.skipped
    else:
        cycle.skipped = cycle.idle_plugins
    names: frozenset[str] | None = None
    narrowed_by: list[str] = []
    rejection: Status | None = None
    for plugin in plugins:
        if plugin.name in cache:
            result, state = cache[plugin.name]
            cycle.restore(plugin.name, state)
        else:
            cycle.writer = plugin.name
            result = framework.call(plugin, "PreFilter", plugin.pre_filter, cycle)
            cycle.writer = None
            if plugin.name in cached_plugins:
                cache[plugin.name] = (result, cycle.state_of(plugin.name))
        if result is None:
            continue
        if result is Skip.SKIP:
            cycle.skipped |= {plugin.name}
        elif isinstance(result, PreFilterResult):
            narrowed_by.append(plugin.name)
            names_of = result.names_of(plugin.name)
            names = names_of if names is None else names & names_of
            if not names:
                _stop_pre_filter(framework, cycle, restored, plugin)
                return PreFilterOutcome(names, no_node_left(narrowed_by), tuple(narrowed_by))
        else:
            rejection = framework.status_of(plugin, "PreFilter", result)
            if rejection.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                _stop_pre_filter(framework, cycle, restored, plugin)
                return PreFilterOutcome(None, rejection)
    if rejection is not None:
        last = framework.plugins("pre_filter")[-1].name
        framework.recorder.pre_filter_stopped(last, cycle.skipped)
    elif cached is not None and restored is None and is_repeated:
        applicable = framework.selection.applicable("pre_filter", cycle)
        cached.restored_pre_filter = restored_results(applicable, cache, cycle.idle_plugins)
    return PreFilterOutcome(names, rejection, tuple(narrowed_by))


def _stop_pre_filter(
    framework: Framework, cycle: Cycle, restored: Restored | None, last: Any
) -> None:
    """Drops what is known of the plugins after ``last``, which do not run for this pod."""
    if restored is not None or cycle.idle_plugins:
        plugins = framework.plugins("pre_filter")
        for plugin in plugins[plugins.index(last) + 1 :]:
            cycle.drop_state(plugin.name)
    framework.recorder.pre_filter_stopped(last.name, cycle.skipped)


def try_nominated(framework: Framework, cycle: Cycle, attempt: Attempt) -> Feasible | None:
    """Filters the nominated node; returns None if it is not feasible, to filter all nodes.

    Without a nomination the node that opportunistic batching suggests is filtered. An error of a
    filter is logged and counted, and all nodes are filtered next.
    """
    name = cycle.pod.status.nominated_node_name or cycle.node_hint
    row = cycle.snapshot.nodes.live_row(name) if name else -1
    if row < 0:
        return None
    rows = np.array([row], dtype=np.intp)
    started_s, code = framework.recorder.now(), ERROR
    try:
        results = run_filters(framework, cycle, rows)
        status = results.status(row)
        if status is not None and status.code is Code.ERROR:
            raise PluginError(status.plugin, "Filter", status.message)
        code = SUCCESS
    except PluginError as error:
        framework.errors.log(error, pod=cycle.pod.key, node=name)
        framework.recorder.failed("Filter", error.plugin, cycle.skipped)
        return None
    finally:
        framework.recorder.point("Filter", code, started_s)
    is_feasible = int(status is None)
    feasible = Feasible(results.feasible, is_feasible, rows, 1, results.feasible_rows)
    if status is not None:
        attempt.extra[row] = status
        framework.recorder.filtered_again(cycle.skipped, 1, results.refused_counts)
        return None
    framework.recorder.filtered(cycle.skipped, 1, None)
    return feasible


def _is_feasible(framework: Framework, cycle: Cycle, node_name: str) -> bool | None:
    """Filters one node without its nominated pods; returns None if it is gone.

    A node whose filter fails counts as feasible, as upstream.
    """
    row = cycle.snapshot.nodes.live_row(node_name)
    if row < 0:
        return None
    view = NodeView(cycle.snapshot, np.array([row], dtype=np.intp))
    for _, statuses in filter_hypothetical(framework, cycle, view):
        if statuses.codes[0]:
            return statuses.table[statuses.codes.item(0) - 1].code is Code.ERROR
    return True


def run_filters(framework: Framework, cycle: Cycle, rows: Rows | None) -> FilterResults:
    """Runs the filters on ``rows`` (None = all nodes). The result may be cached: read-only."""
    results, uncached = _cached_filter_results(framework, cycle, rows)
    if len(uncached) == 1 and rows is None:
        combined = _combined_results(framework, cycle, results, uncached[0])
        if combined is not None:
            results, uncached = combined, []
    nominated = _nominated_rows(cycle, rows)
    if not uncached and not nominated and rows is None:
        return results
    if framework.recorder.counts_refused:
        results.refused_counts()  # the copy keeps them up to date, which is cheaper than to count
    results = results.copy()
    if rows is not None:
        is_excluded = np.ones(len(results.refused_by), dtype=np.bool_)
        is_excluded[rows] = False
        results.set_many(np.flatnonzero(is_excluded), NOT_VISITED)
    for number in uncached:
        _run_uncached(framework, cycle, results, number)
    if nominated:
        _with_nominated(framework, cycle, results, nominated)
    return results


def _cached_filter_results(
    framework: Framework, cycle: Cycle, rows: Rows | None
) -> tuple[FilterResults, list[int]]:
    """Returns the result table of the cacheable filters, and the numbers of the other filters."""
    cached, cached_plugins = framework.cached_results(cycle)
    snapshot = cycle.snapshot
    plan = framework.filter_plans.of(cached_plugins, cycle.skipped)
    if cached is None or not plan.cached:
        names = tuple(plugin.name for plugin in framework.filters)
        results = FilterResults(names, snapshot.nodes.capacity)
        results.set_many(snapshot.nodes.order.array() if rows is None else rows, 0)
        return results, plan.uncached
    caller = FilterCallerImpl(framework, cycle)
    cached.refresh_filters(snapshot, plan.cached, caller, is_timed=cycle.is_timed)
    return cached.results, plan.uncached


def _combined_results(
    framework: Framework, cycle: Cycle, results: FilterResults, number: int
) -> FilterResults | None:
    """Returns the cached results with those of the only uncached filter, if it keeps a column."""
    cached, _ = framework.cached_results(cycle)
    plugin = framework.filters[number]
    if cached is None or results is not cached.results or not hasattr(plugin, "filter_column"):
        return None
    column = framework.call(plugin, "Filter", plugin.filter_column, cycle)
    return None if column is None else cached.combined.of(results, number, column)


@dataclass(slots=True)
class FilterCallerImpl:
    """Calls the filters of a framework to refresh cached results."""

    framework: Framework
    cycle: Cycle

    def call_view(self, number: int, view: NodeView) -> FilterStatuses:
        """Returns the statuses of the nodes of a view."""
        plugin = self.framework.filters[number]
        return filter_one(self.framework, self.cycle, plugin, view)

    def call_nodes(self, number: int, nodes: list[NodeInfo]) -> list[Status | None]:
        """Returns the status of each node."""
        framework, plugin = self.framework, self.framework.filters[number]
        statuses = framework.call_each(plugin, "Filter", plugin.filter_node, self.cycle, nodes)
        for status in statuses:
            if status is not None and not isinstance(status, Status):
                raise PluginError(plugin.name, "Filter", f"filter_node returned {status!r}")
        return statuses


def _run_uncached(framework: Framework, cycle: Cycle, results: FilterResults, number: int) -> None:
    """Runs one uncached filter on the rows that no earlier filter rejected."""
    nodes = cycle.snapshot.nodes
    if results.count == nodes.size:  # all rows are feasible: whole columns, without indexing
        view = NodeView(cycle.snapshot)
    else:
        first = results.refused_by
        rows = ((first == 0) | ((first > number + 1) & (first != NOT_VISITED))).nonzero()[0]
        view = NodeView(cycle.snapshot, rows)
    if not len(view):
        return
    statuses = filter_one(framework, cycle, framework.filters[number], view)
    if not statuses.table:
        return  # all are feasible, and the results have no codes of this plugin yet
    positions = (statuses.codes != 0).nonzero()[0]  # much faster than of the codes themselves
    if not len(positions):
        return
    refused = positions if len(view) == nodes.size else view.rows[positions]
    results.set_codes(number, refused, FilterStatuses(statuses.codes[positions], statuses.table))
    results.set_many(refused, number + 1)


def _nominated_rows(cycle: Cycle, rows: Rows | None) -> dict[int, tuple[PodInfo, ...]]:
    """Returns the nominated pods of ``rows`` that count as placed, by row."""
    nominated = nominated_pods_by_row(cycle)
    if rows is None or not nominated:
        return nominated
    selected = set(rows.tolist())
    return {row: pods for row, pods in nominated.items() if row in selected}


def _with_nominated(
    framework: Framework, cycle: Cycle, results: FilterResults, nominated_pods: NominatedPods
) -> None:
    """Filters the rows with nominated pods again, with those pods added.

    A rejection with them replaces the node's status; otherwise the status without them, which is
    in the table already, remains.
    """
    rows = np.array(list(nominated_pods), dtype=np.intp)
    view = NodeView(cycle.snapshot, rows).plus([nominated_pods[row] for row in rows.tolist()])
    for number, statuses in filter_hypothetical(framework, cycle, view):
        refused = statuses.codes != 0
        results.set_codes(
            number, rows[refused], FilterStatuses(statuses.codes[refused], statuses.table)
        )
        results.set_many(rows[refused], number + 1)
        rows = rows[~refused]
    # The nodes that are feasible with their nominated pods are filtered without them as well.
    framework.recorder.filtered_again(cycle.skipped, len(rows), None)


def _select_feasible(
    framework: Framework, attempt: Attempt, results: FilterResults, order: Rows
) -> Feasible:
    """Applies sampling (numFeasibleNodesToFind) and errors in upstream's visiting order."""
    percentage = framework.profile.percentage_of_nodes_to_score
    enough = feasible_nodes_to_find(percentage, len(order))
    if not framework.needs_scoring:  # nothing to compare: take the first feasible node
        enough = 1
        attempt.choice = attempt.choice or "first"
    has_errors = results.has_errors()
    if results.count <= enough and not has_errors:
        attempt.visited_all = len(order) == len(attempt.snapshot.nodes)
        is_listed = attempt.visited_all and not attempt.start_index
        return _feasible_of(results, None if is_listed else order, len(order))
    visited = visiting_order(order, attempt.start_index)
    passed = results.feasible[visited]
    stop = _stop_index(passed, enough)
    if has_errors:
        _raise_first_error(attempt, results, visited, stop)
    results = results.copy()
    results.set_many(visited[stop:], NOT_VISITED)
    attempt.results = results
    attempt.sampled = stop if stop < len(visited) else None
    return _feasible_of(results, order, stop)


def _feasible_of(results: FilterResults, order: Rows | None, evaluated_count: int) -> Feasible:
    mask, count = results.feasible, results.count
    return Feasible(mask, count, order, evaluated_count, results.feasible_rows)


def _stop_index(passed: npt.NDArray[np.bool_], enough: int) -> int:
    """Returns the number of visited nodes: until one more than ``enough`` of them is feasible."""
    count = np.cumsum(passed)
    positions = np.flatnonzero(count > enough)
    return int(positions[0]) if len(positions) else len(passed)


def _raise_first_error(attempt: Attempt, results: FilterResults, visited: Rows, stop: int) -> None:
    """Raises the error of the first of the ``stop`` visited nodes whose filter failed.

    The nodes after it, and those from ``stop`` on, become not visited.
    """
    for position, row in enumerate(visited[:stop].tolist()):
        status = results.status(row)
        if status is None or status.code is not Code.ERROR:
            continue
        results = results.copy()
        results.set_many(visited[position:], NOT_VISITED)
        attempt.results = results
        raise PluginError(status.plugin, "Filter", status.message)
