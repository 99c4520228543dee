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
from mooring.framework.runtime.filter_results import NOT_VISITED, Refusals
from mooring.framework.runtime.framework import Framework
from mooring.framework.runtime.host_selection import feasible_nodes_to_find, visiting_order
from mooring.framework.runtime.nominated import Rivals, filter_one, filter_worlds, rivals_of
from mooring.framework.status import Code, Narrow, Reject, Skip, Status, Verdicts
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
class PreFiltered:
    """What PreFilter left: node names (None = all), or a refusal; and who narrowed."""

    node_names: frozenset[str] | None
    status: Status | None
    narrowed_by: list[str]

    @property
    def is_open(self) -> bool:
        """Whether every node is still to be looked at."""
        return self.node_names is None and self.status is None


def run(framework: Framework, cycle: Cycle, attempt: Attempt) -> Feasible | Diagnosis:
    """Which nodes can take the pod; a Diagnosis if none can."""
    before = pre_filter(framework, cycle)
    diagnosis: Diagnosis | None = None
    order = cycle.snapshot.nodes.order.array()
    if not before.is_open or cycle.pod.status.nominated_node_name:
        diagnosis = begin(cycle, attempt, before)
        if before.status is not None:
            return diagnosis
        nominated = try_nominated(framework, cycle, attempt, diagnosis)
        order = narrow(cycle, attempt, diagnosis, before)
        if nominated is not None:
            attempt.choice = "nominated" if len(order) > 1 else None
            return nominated
    feasible = walk(framework, cycle, attempt, before, order)
    if feasible.count:
        return feasible
    return explain(cycle, attempt, diagnosis or begin(cycle, attempt, before))


def begin(cycle: Cycle, attempt: Attempt, before: PreFiltered) -> Diagnosis:
    """The diagnosis as PreFilter leaves it: to be filled in, or all if it refused the pod."""
    node_count = len(cycle.snapshot.nodes)
    if before.status is not None:
        attempt.pre_filter = before.status
        return _refused_before(before, node_count)
    return Diagnosis(node_count, unschedulable_plugins=set(before.narrowed_by))


def narrow(cycle: Cycle, attempt: Attempt, diagnosis: Diagnosis, before: PreFiltered) -> Rows:
    """The rows that PreFilter left, in the table's visit order; notes those that it did not."""
    nodes = cycle.snapshot.nodes
    order = nodes.order.array()
    if before.node_names is None:
        return order
    _leave_out(cycle, attempt, diagnosis, before.node_names)
    return np.array([r for r in order if nodes.names[r] in before.node_names], dtype=np.intp)


def walk(
    framework: Framework, cycle: Cycle, attempt: Attempt, before: PreFiltered, order: Rows
) -> Feasible:
    """Filters the rows in ``order``; perhaps none is feasible."""
    if before.node_names is not None and len(order) > 1:
        attempt.choice = "unordered"  # upstream walks what PreFilter left in random order
    refusals = refuse(framework, cycle, order if before.node_names is not None else None)
    attempt.refusals = refusals
    return _visit(framework, attempt, refusals, order)


def explain(cycle: Cycle, attempt: Attempt, diagnosis: Diagnosis) -> Diagnosis:
    """Counts what was said against each node into ``diagnosis``, and returns it."""
    refusals = attempt.refusals
    assert refusals is not None
    refusals.describe(diagnosis)
    for row, status in attempt.extra.items():
        if refusals.refused_by[row] == NOT_VISITED:
            diagnosis.reasons.update(status.reasons)
            diagnosis.absent_count -= 1
    diagnosis.statuses = statuses = _Statuses(cycle, attempt)
    diagnosis.find_rows = statuses.rows_of
    return diagnosis


def pre_filter(framework: Framework, cycle: Cycle) -> PreFiltered:
    """Runs the PreFilter plugins, or puts back what they noted for an equal pod."""
    answers, sharing = framework.answers(cycle)
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
            if plugin.name in sharing:
                known[plugin.name] = (result, cycle.state_of(plugin.name))
        if result is None:
            continue
        if result is Skip.SKIP:
            cycle.skipped.add(plugin.name)
        elif isinstance(result, Narrow):
            narrowed_by.append(plugin.name)
            names = result.node_names if names is None else names & result.node_names
            if not names:
                return PreFiltered(names, _nobody_left(narrowed_by), narrowed_by)
        else:
            refusal = framework.status_of(plugin, "PreFilter", result)
            if refusal.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return PreFiltered(None, refusal, [])
    return PreFiltered(names, refusal, narrowed_by)


def _nobody_left(narrowed_by: list[str]) -> Status:
    """The refusal of a pod for which PreFilter plugins left no node. No plugin's name is on it."""
    names = " ".join(sorted(narrowed_by))
    if len(narrowed_by) == 1:
        return Reject(f"node(s) didn't satisfy plugin {names}", resolvable=False)
    return Reject(f"node(s) didn't satisfy plugin(s) [{names}] simultaneously", resolvable=False)


def _refused_before(before: PreFiltered, node_count: int) -> Diagnosis:
    diagnosis = Diagnosis(node_count, pre_filter=before.status)
    diagnosis.unschedulable_plugins.update(before.narrowed_by)
    assert before.status is not None
    diagnosis.note_plugin(before.status)
    return diagnosis


def _leave_out(
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
        refusals = refuse(framework, cycle, rows)
        status = refusals.status(row)
        if status is not None and status.code is Code.ERROR:
            raise PluginError(status.plugin, "Filter", status.message)
    except PluginError as error:
        framework.errors.log(error, pod=cycle.pod.key, node=name)
        return None
    if status is not None:
        attempt.extra[row] = status
        diagnosis.note_plugin(status)
        return None
    return Feasible(refusals.feasible, 1, rows, 1)


def refuse(framework: Framework, cycle: Cycle, rows: Rows | None) -> Refusals:
    """Runs the filters on ``rows`` (None = every node). The result may be shared: do not write."""
    sheet, live = _shared_refusals(framework, cycle, rows)
    nominated = _nominated_rows(cycle, rows)
    if not live and not nominated and rows is None:
        return sheet
    sheet = sheet.copy()
    if rows is not None:
        outside = np.ones(len(sheet.refused_by), dtype=np.bool_)
        outside[rows] = False
        sheet.set_many(np.flatnonzero(outside), NOT_VISITED)
    for number in live:
        _run_live(framework, cycle, sheet, number)
    if nominated:
        _with_nominated(framework, cycle, sheet, nominated)
    return sheet


def _shared_refusals(
    framework: Framework, cycle: Cycle, rows: Rows | None
) -> tuple[Refusals, list[int]]:
    """The sheet with the shareable filters' answers, and the numbers of the other filters."""
    answers, sharing = framework.answers(cycle)
    snapshot = cycle.snapshot
    plan = framework.filter_plans.of(sharing, frozenset(cycle.skipped))
    if answers is None or not plan.readers:
        names = tuple(plugin.name for plugin in framework.filters)
        sheet = Refusals(names, snapshot.nodes.capacity)
        sheet.set_many(snapshot.nodes.order.array() if rows is None else rows, 0)
        return sheet, plan.live
    answers.refresh_filters(snapshot, plan.readers, _Ask(framework, cycle))
    return answers.refusals, plan.live


class _Ask:
    """Calls the filters on behalf of the shared answers."""

    __slots__ = ("_cycle", "_framework")

    def __init__(self, framework: Framework, cycle: Cycle) -> None:
        self._framework = framework
        self._cycle = cycle

    def many(self, number: int, view: NodeView) -> Verdicts:
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


def _run_live(framework: Framework, cycle: Cycle, sheet: Refusals, number: int) -> None:
    """One filter whose answers are not shared, on the rows that no earlier filter refused."""
    nodes = cycle.snapshot.nodes
    if sheet.count == nodes.size:  # nobody is refused yet, so no column needs to be picked from
        view = NodeView(cycle.snapshot)
    else:
        first = sheet.refused_by
        rows = ((first == 0) | ((first > number + 1) & (first != NOT_VISITED))).nonzero()[0]
        view = NodeView(cycle.snapshot, rows)
    if not len(view):
        return
    verdicts = filter_one(framework, cycle, framework.filters[number], view)
    at = verdicts.codes.nonzero()[0]
    if not len(at):
        return  # nothing of this plugin is on the sheet yet
    refused = at if len(view) == nodes.size else view.rows[at]
    sheet.write(number, refused, Verdicts(verdicts.codes[at], verdicts.table))
    sheet.set_many(refused, number + 1)


def _nominated_rows(cycle: Cycle, rows: Rows | None) -> dict[int, tuple[PodInfo, ...]]:
    """Row -> the pods nominated there that ours must not get in the way of."""
    found = rivals_of(cycle)
    if rows is None or not found:
        return found
    wanted = set(rows.tolist())
    return {row: rivals for row, rivals in found.items() if row in wanted}


def _with_nominated(framework: Framework, cycle: Cycle, sheet: Refusals, rivals: Rivals) -> None:
    """Filters the rows with nominated pods again, as if those pods were there.

    A refusal in that world is the node's verdict; otherwise the one without them, which the sheet
    already has, stands.
    """
    rows = np.array(list(rivals), dtype=np.intp)
    view = NodeView(cycle.snapshot, rows).plus([rivals[row] for row in rows.tolist()])
    for number, verdicts in filter_worlds(framework, cycle, view):
        refused = verdicts.codes != 0
        sheet.write(number, rows[refused], Verdicts(verdicts.codes[refused], verdicts.table))
        sheet.set_many(rows[refused], number + 1)
        rows = rows[~refused]


def _visit(framework: Framework, attempt: Attempt, refusals: Refusals, order: Rows) -> Feasible:
    """Walks the nodes as upstream does, as far as it would: errors and sampling end the walk."""
    percentage = framework.profile.percentage_of_nodes_to_score
    enough = feasible_nodes_to_find(percentage, len(order))
    if not framework.compares:  # nothing to compare: the first node that will do is taken
        enough = 1
        attempt.choice = attempt.choice or "first"
    has_errors = refusals.has_errors()
    if refusals.count <= enough and not has_errors:
        attempt.saw_all = len(order) == len(attempt.snapshot.nodes)
        is_listed = attempt.saw_all and not attempt.start_index
        return Feasible(refusals.feasible, refusals.count, None if is_listed else order, len(order))
    walk = visiting_order(order, attempt.start_index)
    passed = refusals.feasible[walk]
    stop = _stop_index(passed, enough)
    if has_errors:
        _raise_first_error(attempt, refusals, walk, stop)
    sheet = refusals.copy()
    sheet.set_many(walk[stop:], NOT_VISITED)
    attempt.refusals = sheet
    attempt.sampled = stop if stop < len(walk) else None
    return Feasible(sheet.feasible, sheet.count, order, stop)


def _stop_index(passed: npt.NDArray[np.bool_], enough: int) -> int:
    """How many nodes are visited until one more than ``enough`` of them has passed."""
    count = np.cumsum(passed)
    beyond = np.flatnonzero(count > enough)
    return int(beyond[0]) if len(beyond) else len(passed)


def _raise_first_error(attempt: Attempt, refusals: Refusals, walk: Rows, stop: int) -> None:
    """Raises for the first of the ``stop`` nodes in the walk whose filter failed.

    Nodes after it were not seen, and neither were those from ``stop`` on.
    """
    for place, row in enumerate(walk[:stop].tolist()):
        status = refusals.status(row)
        if status is None or status.code is not Code.ERROR:
            continue
        sheet = refusals.copy()
        sheet.set_many(walk[place:], NOT_VISITED)
        attempt.refusals = sheet
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
        refusals, nodes = self._attempt.refusals, self._nodes
        is_wanted = np.zeros(nodes.capacity, dtype=np.bool_)
        for row, status in self._attempt.extra.items():
            is_wanted[row] = status.code is code
        if refusals is not None:
            refusals.mark(code, is_wanted)
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
        found = attempt.refusals.status(row) if attempt.refusals is not None else None
        return found or attempt.by_extenders.get(row) or attempt.extra.get(row) or default
