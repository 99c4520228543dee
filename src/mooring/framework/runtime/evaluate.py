"""What plugins say of some nodes, asked for from outside of a decision.

An extender is asked "which of these nodes can take the pod?" and "how good is each of them?" by a
scheduler that decides by itself. So here are the two stages alone, about nodes by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mooring.errors import PluginError
from mooring.framework.cycle_state import Cycle
from mooring.framework.node_view import NodeView, Rows
from mooring.framework.runtime.attempt import Attempt
from mooring.framework.runtime.filter import pre_filter, run_filters
from mooring.framework.runtime.framework import Framework
from mooring.framework.runtime.nominated import filter_hypothetical
from mooring.framework.runtime.score import total_scores
from mooring.framework.status import Code, Reject, Status
from mooring.state.tables.pods import PodInfo

#: What a node is told that PreFilter plugins left out.
LEFT_OUT = "node(s) didn't satisfy plugin(s) [{}]"


def filter_nodes(
    framework: Framework, cycle: Cycle, names: Sequence[str]
) -> dict[str, Status | None]:
    """Node -> why it cannot take the cycle's pod; None = it can. All names must be known.

    Raises:
        PluginError: a plugin failed.
    """
    before = pre_filter(framework, cycle)
    if before.status is not None:
        return dict.fromkeys(names, before.status)
    rows = _rows(cycle, names)
    results = run_filters(framework, cycle, rows)
    statuses = {name: results.status(row) for name, row in zip(names, rows.tolist(), strict=True)}
    if before.node_names is not None:
        text = LEFT_OUT.format(" ".join(before.narrowed_by))
        left_out = Reject(text, resolvable=False)
        statuses.update((name, left_out) for name in names if name not in before.node_names)
    for status in statuses.values():
        if status is not None and status.code is Code.ERROR:
            raise PluginError(status.plugin, "Filter", status.message)
    return statuses


def filter_nodes_without_victims(
    framework: Framework, cycle: Cycle, victims: Mapping[str, Sequence[PodInfo]]
) -> set[str]:
    """Returns the nodes that can take the pod once their ``victims`` are gone.

    Raises:
        PluginError: a plugin failed.
    """
    before = pre_filter(framework, cycle)
    if before.status is not None:
        return set()
    names = [name for name in victims if before.node_names is None or name in before.node_names]
    rows = _rows(cycle, names)
    view = NodeView(cycle.snapshot, rows).without([tuple(victims[name]) for name in names])
    left = np.arange(len(names))
    for _, verdicts in filter_hypothetical(framework, cycle, view):
        left = left[verdicts.codes == 0]
    return {names[position] for position in left.tolist()}


def score_nodes(framework: Framework, cycle: Cycle, names: Sequence[str]) -> dict[str, float]:
    """Node -> its score, 0 to 100: the mean over the plugins that score, by their weights.

    Raises:
        PluginError: a plugin failed.
    """
    if not names or not framework.scorers:
        return dict.fromkeys(names, 0.0)
    rows = _rows(cycle, names)
    attempt = Attempt(cycle.snapshot)
    total = total_scores(framework, cycle, attempt, NodeView(cycle.snapshot, rows), rows)
    weights = sum(framework.weight(plugin) for plugin in [*attempt.scores, *attempt.final])
    mean = total / weights if weights else total
    return dict(zip(names, mean.tolist(), strict=True))


def _rows(cycle: Cycle, names: Sequence[str]) -> Rows:
    nodes = cycle.snapshot.nodes
    return np.array([nodes.live_row(name) for name in names], dtype=np.intp)
