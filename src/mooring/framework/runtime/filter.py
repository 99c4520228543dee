"""The Filter stage: from all nodes to those that can take the pod.

Source: pkg/scheduler/schedule_one.go (findNodesThatFitPod, findNodesThatPassFilters) and
framework/runtime/framework.go (RunPreFilterPlugins, RunFilterPluginsWithNominatedPods).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mooring.errors import PluginError
from mooring.framework.cycle_state import Cycle
from mooring.framework.diagnosis import Diagnosis
from mooring.framework.node_info import NodeInfo
from mooring.framework.node_view import NodeView
from mooring.framework.runtime.attempt import Attempt
from mooring.framework.runtime.filter_results import NOT_VISITED, FilterResults
from mooring.framework.runtime.framework import Framework
from mooring.framework.runtime.host_selection import feasible_nodes_to_find, visiting_order
from mooring.framework.runtime.nominated import (
    NominatedPods,
    filter_hypothetical,
    filter_one,
    nominated_pods_by_row,
)
from mooring.framework.status import Code, FilterStatuses, PreFilterResult, Reject, Skip, Status
from mooring.state.tables.pods import PodInfo

Rows = npt.NDArray[np.intp]


@dataclass(slots=True)
class Feasible:
    """The outcome of the stage: ``mask`` bool shape (capacity,) over rows, ``count`` of them.

    ``order`` are the rows that were visited, in visiting order; None = all nodes, from the start.
    """

    mask: npt.NDArray[np.bool_]
    count: int
    order: Rows | None
    evaluated_count: int


@dataclass(slots=True)
class PreFilterOutcome:
    """What PreFilter left: node names (None = all), or a refusal; and who narrowed."""

    node_names: frozenset[str] | None
    status: Status | None
    narrowed_by: list[str]

    @property
    def is_unrestricted(self) -> bool:
        """Whether every node is still to be looked at."""
        return self.node_names is None and self.status is None


def run(framework: Framework, cycle: Cycle, attempt: Attempt) -> Feasible | Diagnosis:
    """Which nodes can take the pod; a Diagnosis if none can."""
    before = pre_filter(framework, cycle)
    diagnosis: Diagnosis | None = None
    order = cycle.snapshot.nodes.order.array()
    if not before.is_unrestricted or cycle.pod.status.nominated_node_name:
        diagnosis = new_diagnosis(cycle, attempt, before)
        if before.status is not None:
            return diagnosis
        nominated = try_nominated(framework, cycle, attempt, diagnosis)
        order = nodes_after_pre_filter(cycle, attempt, diagnosis, before)
        if nominated is not None:
            attempt.choice = "nominated" if len(order) > 1 else None
            return nominated
    feasible = filter_nodes(framework, cycle, attempt, before, order)
    if feasible.count:
        return feasible
    return fill_diagnosis(cycle, attempt, diagnosis or new_diagnosis(cycle, attempt, before))


def new_diagnosis(cycle: Cycle, attempt: Attempt, before: PreFilterOutcome) -> Diagnosis:
    """The diagnosis as PreFilter leaves it: to be filled in, or all if it refused the pod."""
    node_count = len(cycle.snapshot.nodes)
    if before.status is not None:
        attempt.pre_filter = before.status
        return _pre_filter_diagnosis(before, node_count)
    return Diagnosis(node_count, unschedulable_plugins=set(before.narrowed_by))


def nodes_after_pre_filter(
    cycle: Cycle, attempt: Attempt, diagnosis: Diagnosis, before: PreFilterOutcome
) -> Rows:
    """The rows that PreFilter left, in the table's visit order; notes those that it did not."""
    nodes = cycle.snapshot.nodes
    order = nodes.order.array()
    if before.node_names is None:
        return order
    _record_pre_filtered(cycle, attempt, diagnosis, before.node_names)
    return np.array([r for r in order if nodes.names[r] in before.node_names], dtype=np.intp)


def filter_nodes(
    framework: Framework, cycle: Cycle, attempt: Attempt, before: PreFilterOutcome, order: Rows
) -> Feasible:
    """Filters the rows in ``order``; perhaps none is feasible."""
    if before.node_names is not None and len(order) > 1:
        attempt.choice = "unordered"  # upstream walks what PreFilter left in random order
    results = run_filters(framework, cycle, order if before.node_names is not None else None)
    attempt.results = results
    return _select_feasible(framework, attempt, results, order)


def fill_diagnosis(cycle: Cycle, attempt: Attempt, diagnosis: Diagnosis) -> Diagnosis:
    """Counts what was said against each node into ``diagnosis``, and returns it."""
    results = attempt.results
    assert results is not None
    results.describe(diagnosis)
    for row, status in attempt.extra.items():
        if results.refused_by[row] == NOT_VISITED:
            diagnosis.reasons.update(status.reasons)
            diagnosis.absent_count -= 1
    diagnosis.statuses = statuses = _Statuses(cycle, attempt)
    diagnosis.find_rows = statuses.rows_of
    return diagnosis


def pre_filter(framework: Framework, cycle: Cycle) -> PreFilterOutcome:
    """Runs the PreFilter plugins, or puts back what they noted for an equal pod."""
    answers, cached_plugins = framework.answers(cycle)
    known = answers.pre_filtered if answers is not None else {}
    names: frozenset[str] | None = None
    narrowed_by: list[str] = []
    refusal: Status | None = None
    for plugin in framework.plugins("pre_filter"):
        if plugin.name in known:
            result, state = known[plugin.name]
            cycle.restore(plugin.name, state)
        else:
            cycle.open_for(plugin.name)
            result = framework.call(plugin, "PreFilter", plugin.pre_filter, cycle)
            cycle.open_for(None)
            if plugin.name in cached_plugins:
                known[plugin.name] = (result, cycle.state_of(plugin.name))
        if result is None:
            continue
        if result is Skip.SKIP:
            cycle.skipped.add(plugin.name)
        elif isinstance(result, PreFilterResult):
            narrowed_by.append(plugin.name)
            names = result.node_names if names is None else names & result.node_names
            if not names:
                return PreFilterOutcome(names, _no_node_left(narrowed_by), narrowed_by)
        else:
            refusal = framework.status_of(plugin, "PreFilter", result)
            if refusal.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return PreFilterOutcome(None, refusal, [])
    return PreFilterOutcome(names, refusal, narrowed_by)


def _no_node_left(narrowed_by: list[str]) -> Status:
    """The refusal of a pod for which PreFilter plugins left no node. No plugin's name is on it."""
    names = " ".join(sorted(narrowed_by))
    if len(narrowed_by) == 1:
        return Reject(f"node(s) didn't satisfy plugin {names}", resolvable=False)
    return Reject(f"node(s) didn't satisfy plugin(s) [{names}] simultaneously", resolvable=False)


def _pre_filter_diagnosis(before: PreFilterOutcome, node_count: int) -> Diagnosis:
    diagnosis = Diagnosis(node_count, pre_filter=before.status)
    diagnosis.unschedulable_plugins.update(before.narrowed_by)
    assert before.status is not None
    diagnosis.note_plugin(before.status)
    return diagnosis


def _record_pre_filtered(
    cycle: Cycle, attempt: Attempt, diagnosis: Diagnosis, node_names: frozenset[str]
) -> None:
    """Notes the nodes that PreFilter left out.

    If the nominated node was tried before and refused, that plugin is on the list too, as upstream
    has it.
    """
    nodes = cycle.snapshot.nodes
    plugins = sorted(diagnosis.unschedulable_plugins)
    diagnosis.absent = Reject(
        f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}]", resolvable=False
    )
    left_out = [row for row in nodes.order.rows() if nodes.names[row] not in node_names]
    diagnosis.absent_count = len(left_out)
    attempt.absent = diagnosis.absent
    attempt.absent_plugins = ",".join(plugins)
    attempt.absent_rows = np.array(left_out, dtype=np.intp)


def try_nominated(
    framework: Framework, cycle: Cycle, attempt: Attempt, diagnosis: Diagnosis
) -> Feasible | None:
    """Filters the node that the pod is nominated to; if it passes, no other node is filtered.

    An error of a filter is logged and counted, and the other nodes are filtered next.
    """
    name = cycle.pod.status.nominated_node_name
    row = cycle.snapshot.nodes.live_row(name) if name else -1
    if row < 0:
        return None
    rows = np.array([row], dtype=np.intp)
    try:
        results = run_filters(framework, cycle, rows)
        status = results.status(row)
        if status is not None and status.code is Code.ERROR:
            raise PluginError(status.plugin, "Filter", status.message)
    except PluginError as error:
        framework.errors.log(error, pod=cycle.pod.key, node=name)
        return None
    if status is not None:
        attempt.extra[row] = status
        diagnosis.note_plugin(status)
        return None
    return Feasible(results.feasible, 1, rows, 1)


def run_filters(framework: Framework, cycle: Cycle, rows: Rows | None) -> FilterResults:
    """Runs the filters on ``rows`` (None = every node). The result may be shared: do not write."""
    results, uncached = _cached_filter_results(framework, cycle, rows)
    nominated = _nominated_rows(cycle, rows)
    if not uncached and not nominated and rows is None:
        return results
    results = results.copy()
    if rows is not None:
        outside = np.ones(len(results.refused_by), dtype=np.bool_)
        outside[rows] = False
        results.set_many(np.flatnonzero(outside), NOT_VISITED)
    for number in uncached:
        _run_uncached(framework, cycle, results, number)
    if nominated:
        _with_nominated(framework, cycle, results, nominated)
    return results


def _cached_filter_results(
    framework: Framework, cycle: Cycle, rows: Rows | None
) -> tuple[FilterResults, list[int]]:
    """The sheet with the shareable filters' answers, and the numbers of the other filters."""
    answers, cached_plugins = framework.answers(cycle)
    snapshot = cycle.snapshot
    plan = framework.filter_plans.of(cached_plugins, frozenset(cycle.skipped))
    if answers is None or not plan.readers:
        names = tuple(plugin.name for plugin in framework.filters)
        results = FilterResults(names, snapshot.nodes.capacity)
        results.set_many(snapshot.nodes.order.array() if rows is None else rows, 0)
        return results, plan.uncached
    answers.refresh_filters(snapshot, plan.readers, _Ask(framework, cycle))
    return answers.results, plan.uncached


class _Ask:
    """Calls the filters on behalf of the shared answers."""

    __slots__ = ("_cycle", "_framework")

    def __init__(self, framework: Framework, cycle: Cycle) -> None:
        self._framework = framework
        self._cycle = cycle

    def many(self, number: int, view: NodeView) -> FilterStatuses:
        """Verdicts for a view."""
        plugin = self._framework.filters[number]
        return filter_one(self._framework, self._cycle, plugin, view)

    def each(self, number: int, nodes: list[NodeInfo]) -> list[Status | None]:
        """Returns the status of each node."""
        framework, plugin = self._framework, self._framework.filters[number]
        statuses = framework.call_each(plugin, "Filter", plugin.filter_node, self._cycle, nodes)
        for status in statuses:
            if status is not None and not isinstance(status, Status):
                raise PluginError(plugin.name, "Filter", f"filter_node returned {status!r}")
        return statuses


def _run_uncached(framework: Framework, cycle: Cycle, results: FilterResults, number: int) -> None:
    """One filter whose answers are not shared, on the rows that no earlier filter refused."""
    nodes = cycle.snapshot.nodes
    if results.count == nodes.size:  # nobody is refused yet, so no column needs to be picked from
        view = NodeView(cycle.snapshot)
    else:
        first = results.refused_by
        rows = ((first == 0) | ((first > number + 1) & (first != NOT_VISITED))).nonzero()[0]
        view = NodeView(cycle.snapshot, rows)
    if not len(view):
        return
    verdicts = filter_one(framework, cycle, framework.filters[number], view)
    at = verdicts.codes.nonzero()[0]
    if not len(at):
        return  # nothing of this plugin is on the sheet yet
    refused = at if len(view) == nodes.size else view.rows[at]
    results.set_codes(number, refused, FilterStatuses(verdicts.codes[at], verdicts.table))
    results.set_many(refused, number + 1)


def _nominated_rows(cycle: Cycle, rows: Rows | None) -> dict[int, tuple[PodInfo, ...]]:
    """Row -> the pods nominated there that ours must not get in the way of."""
    found = nominated_pods_by_row(cycle)
    if rows is None or not found:
        return found
    wanted = set(rows.tolist())
    return {row: nominated_pods for row, nominated_pods in found.items() if row in wanted}


def _with_nominated(
    framework: Framework, cycle: Cycle, results: FilterResults, nominated_pods: NominatedPods
) -> None:
    """Filters the rows with nominated pods again, as if those pods were there.

    A refusal in that world is the node's verdict; otherwise the one without them, which the sheet
    already has, stands.
    """
    rows = np.array(list(nominated_pods), dtype=np.intp)
    view = NodeView(cycle.snapshot, rows).plus([nominated_pods[row] for row in rows.tolist()])
    for number, verdicts in filter_hypothetical(framework, cycle, view):
        refused = verdicts.codes != 0
        results.set_codes(
            number, rows[refused], FilterStatuses(verdicts.codes[refused], verdicts.table)
        )
        results.set_many(rows[refused], number + 1)
        rows = rows[~refused]


def _select_feasible(
    framework: Framework, attempt: Attempt, results: FilterResults, order: Rows
) -> Feasible:
    """Walks the nodes as upstream does, as far as it would: errors and sampling end the walk."""
    percentage = framework.profile.percentage_of_nodes_to_score
    enough = feasible_nodes_to_find(percentage, len(order))
    if not framework.compares:  # nothing to compare: the first node that will do is taken
        enough = 1
        attempt.choice = attempt.choice or "first"
    has_errors = results.has_errors()
    if results.count <= enough and not has_errors:
        attempt.saw_all = len(order) == len(attempt.snapshot.nodes)
        is_listed = attempt.saw_all and not attempt.start_index
        return Feasible(results.feasible, results.count, None if is_listed else order, len(order))
    filter_nodes = visiting_order(order, attempt.start_index)
    passed = results.feasible[filter_nodes]
    stop = _stop_index(passed, enough)
    if has_errors:
        _raise_first_error(attempt, results, filter_nodes, stop)
    results = results.copy()
    results.set_many(filter_nodes[stop:], NOT_VISITED)
    attempt.results = results
    attempt.sampled = stop if stop < len(filter_nodes) else None
    return Feasible(results.feasible, results.count, order, stop)


def _stop_index(passed: npt.NDArray[np.bool_], enough: int) -> int:
    """How many nodes are visited until one more than ``enough`` of them has passed."""
    count = np.cumsum(passed)
    beyond = np.flatnonzero(count > enough)
    return int(beyond[0]) if len(beyond) else len(passed)


def _raise_first_error(
    attempt: Attempt, results: FilterResults, filter_nodes: Rows, stop: int
) -> None:
    """Raises for the first of the ``stop`` nodes in the walk whose filter failed.

    Nodes after it were not seen, and neither were those from ``stop`` on.
    """
    for place, row in enumerate(filter_nodes[:stop].tolist()):
        status = results.status(row)
        if status is None or status.code is not Code.ERROR:
            continue
        results = results.copy()
        results.set_many(filter_nodes[place:], NOT_VISITED)
        attempt.results = results
        raise PluginError(status.plugin, "Filter", status.message)


class _Statuses(dict[str, Status]):
    """Node name -> status, looked up on the refusals sheet when asked for."""

    def __init__(self, cycle: Cycle, attempt: Attempt) -> None:
        super().__init__()
        self._nodes = cycle.snapshot.nodes
        self._attempt = attempt

    def __missing__(self, name: str) -> Status:
        raise KeyError(name)

    def rows_of(self, code: Code) -> Rows:
        """The rows of the nodes that were refused with this code, in visiting order from 0."""
        results, nodes = self._attempt.results, self._nodes
        is_wanted = np.zeros(nodes.capacity, dtype=np.bool_)
        for row, status in self._attempt.extra.items():
            is_wanted[row] = status.code is code
        if results is not None:
            results.mask_of_code(code, is_wanted)
        for row, status in self._attempt.by_extenders.items():
            is_wanted[row] = status.code is code
        order = nodes.order.array()
        return order[is_wanted[order]]

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the status of a node that was refused one by one, ``default`` for any other."""
        row = self._nodes.row(name)
        if row < 0:
            return default
        attempt = self._attempt
        found = attempt.results.status(row) if attempt.results is not None else None
        return found or attempt.by_extenders.get(row) or attempt.extra.get(row) or default
