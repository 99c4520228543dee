"""The Filter and Score stages for given nodes, outside of a scheduling attempt.

For the extender server: another scheduler sends node names and gets the feasible ones, or scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mooring.errors import PluginError
from mooring.framework.cycle_state import Cycle
from mooring.framework.node_view import NodeView
from mooring.framework.runtime.attempt import Attempt, excluded_by_pre_filter
from mooring.framework.runtime.filter import pre_filter, run_filters
from mooring.framework.runtime.framework import Framework
from mooring.framework.runtime.nominated import filter_hypothetical
from mooring.framework.runtime.score import total_scores
from mooring.framework.status import Code, Status
from mooring.state.tables.pods import PodInfo
from mooring.state.types import Rows


def filter_nodes(
    framework: Framework, cycle: Cycle, names: Sequence[str]
) -> dict[str, Status | None]:
    """Returns the status of each node for the cycle's pod; None = feasible. All nodes must exist.

    Raises:
        PluginError: if a plugin failed.
    """
    pre_filtered = pre_filter(framework, cycle)
    if pre_filtered.status is not None:
        return dict.fromkeys(names, pre_filtered.status)
    rows = _rows(cycle, names)
    results = run_filters(framework, cycle, rows)
    statuses = {name: results.status(row) for name, row in zip(names, rows.tolist(), strict=True)}
    if pre_filtered.node_names is not None:
        excluded = excluded_by_pre_filter(pre_filtered.narrowed_by)
        statuses.update((name, excluded) for name in names if name not in pre_filtered.node_names)
    for status in statuses.values():
        if status is not None and status.code is Code.ERROR:
            raise PluginError(status.plugin, "Filter", status.message)
    return statuses


def filter_nodes_without_victims(
    framework: Framework, cycle: Cycle, victims: Mapping[str, Sequence[PodInfo]]
) -> set[str]:
    """Returns the nodes that are feasible for the pod after their ``victims`` are removed.

    Raises:
        PluginError: if a plugin failed.
    """
    pre_filtered = pre_filter(framework, cycle)
    if pre_filtered.status is not None:
        return set()
    names = [
        name
        for name in victims
        if pre_filtered.node_names is None or name in pre_filtered.node_names
    ]
    rows = _rows(cycle, names)
    view = NodeView(cycle.snapshot, rows).without([tuple(victims[name]) for name in names])
    feasible = np.arange(len(names))
    for _, statuses in filter_hypothetical(framework, cycle, view):
        feasible = feasible[statuses.codes == 0]
    return {names[position] for position in feasible.tolist()}


def score_nodes(framework: Framework, cycle: Cycle, names: Sequence[str]) -> dict[str, float]:
    """Returns the score of each node, 0 to 100: the weighted mean over the Score plugins.

    Raises:
        PluginError: if a plugin failed.
    """
    if not names or not framework.scorers:
        return dict.fromkeys(names, 0.0)
    rows = _rows(cycle, names)
    attempt = Attempt(cycle.snapshot)
    total = total_scores(framework, cycle, attempt, NodeView(cycle.snapshot, rows), rows)
    scorers = [*attempt.scores, *attempt.final, *attempt.zero]
    weights = sum(framework.weight(plugin) for plugin in scorers)
    mean = total / weights if weights else total
    return dict(zip(names, mean.tolist(), strict=True))


def _rows(cycle: Cycle, names: Sequence[str]) -> Rows:
    nodes = cycle.snapshot.nodes
    return np.array([nodes.live_row(name) for name in names], dtype=np.intp)
