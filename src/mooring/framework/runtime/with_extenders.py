"""The scheduling algorithm with extenders: the stages of ``scheduling_algorithm``, and theirs.

::

    pre_filter -> [nominated node] -> filter -> extenders' filter, one after another
                                                        |
       Placement <- pre_score -> score -> extenders' prioritize, all at once, x weight x 10

Nothing here waits: these are generators, which yield calls of extenders and are sent the results.
Meanwhile columns may change (pods are assumed or forgotten), but every node keeps its row: the
driver buffers node events until the attempt ends.

Source: pkg/scheduler/schedule_one.go (findNodesThatPassExtenders, prioritizeNodes),
framework/preemption/preemption.go (callExtenders). *Differs:* any node in a result that was not
sent is an error.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.decision import ExtenderCall
from mooring.errors import ExtenderError
from mooring.framework.cycle_state import Cycle
from mooring.framework.diagnosis import Diagnosis
from mooring.framework.extender import (
    EXTENDER,
    SCALE,
    Extender,
    ExtenderCalls,
    FilterResult,
    PrioritizeResult,
)
from mooring.framework.node_view import NodeView
from mooring.framework.runtime import filter as filtering
from mooring.framework.runtime.attempt import Attempt, Placement
from mooring.framework.runtime.filter import Feasible
from mooring.framework.runtime.framework import Framework
from mooring.framework.runtime.host_selection import first_in_heap, visiting_order
from mooring.framework.runtime.score import total_scores
from mooring.framework.status import Reject
from mooring.state.types import Ints, Rows

#: 2**63: int64 values are from minus this to this minus one.
_INT64_MIN_ABS = 2**63

_log = logging.getLogger(__name__)


def schedule_pod(
    framework: Framework, cycle: Cycle, attempt: Attempt
) -> ExtenderCalls[Placement | Diagnosis]:
    """Does the same as ``scheduling_algorithm.schedule_pod``, with the extenders.

    Raises:
        ExtenderError: if an extender failed that is not ignorable.
        PluginError: if a plugin failed.
    """
    if len(cycle.snapshot.nodes) == 0:
        return Diagnosis(0)
    feasible = yield from _filter(framework, cycle, attempt)
    if isinstance(feasible, Diagnosis):
        return feasible
    return (yield from _select_host(framework, cycle, attempt, feasible))


# ---------------------------------------------------------------- filter


def _filter(
    framework: Framework, cycle: Cycle, attempt: Attempt
) -> ExtenderCalls[_FeasibleNodes | Diagnosis]:
    attempt.pre_filtered = filtering.pre_filter(framework, cycle)
    if attempt.pre_filtered.status is not None:
        return attempt.diagnosis()
    nominated = filtering.try_nominated(framework, cycle, attempt)
    is_nominated = nominated is not None and (
        yield from _confirm_nominated(framework, cycle, attempt)
    )
    order = attempt.included_rows()
    if is_nominated:
        attempt.choice = "nominated" if len(order) > 1 else None
        name = cycle.pod.status.nominated_node_name
        return _FeasibleNodes([name], np.array([cycle.snapshot.nodes.row(name)]), 1)
    feasible = filtering.filter_nodes(framework, cycle, attempt, order)
    rows = _visited(attempt, feasible, order)
    nodes = cycle.snapshot.nodes
    names = list(map(nodes.names.__getitem__, rows.tolist()))
    statuses: dict[str, Reject] = {}
    remaining = yield from _call_filters(framework, cycle, attempt, names, statuses)
    if statuses:
        remaining_set = set(remaining)
        attempt.by_extenders = {
            nodes.row(name): status
            for name, status in statuses.items()
            if name not in remaining_set
        }
    if remaining:
        if remaining is not names:
            rows = np.array([nodes.row(name) for name in remaining], dtype=np.intp)
        return _FeasibleNodes(remaining, rows, feasible.evaluated_count)
    diagnosis = attempt.diagnosis()
    for status in statuses.values():
        diagnosis.reasons.update(status.reasons)
    if names:
        diagnosis.unschedulable_plugins.add(EXTENDER)
    return diagnosis


@dataclass(slots=True)
class _FeasibleNodes:
    """Names and rows of the feasible nodes, in order, and the number of evaluated nodes."""

    names: list[str]
    rows: Rows
    evaluated_count: int

    def placement(self, position: int) -> Placement:
        """Returns the placement on the node at this position."""
        row = int(self.rows[position])
        return Placement(self.names[position], row, len(self.names), self.evaluated_count)


def _confirm_nominated(framework: Framework, cycle: Cycle, attempt: Attempt) -> ExtenderCalls[bool]:
    """Returns True if the extenders accept the nominated node; if not, all nodes are filtered."""
    name = cycle.pod.status.nominated_node_name
    statuses: dict[str, Reject] = {}
    remaining: list[str] = []
    try:
        remaining = yield from _call_filters(framework, cycle, attempt, [name], statuses)
    except ExtenderError as error:
        log_fields = {"node": name, "error": str(error)}
        _log.warning("extender failed to filter the nominated node", extra=log_fields)
    if remaining:
        return True
    for node_name, status in statuses.items():
        attempt.extra[cycle.snapshot.nodes.row(node_name)] = status
    return False


def _visited(attempt: Attempt, feasible: Feasible, order: Rows) -> Rows:
    """Returns the feasible rows in visiting order."""
    visited = visiting_order(order, attempt.start_index)
    return visited[feasible.mask[visited]]


def _call_filters(
    framework: Framework,
    cycle: Cycle,
    attempt: Attempt,
    names: list[str],
    statuses: dict[str, Reject],
) -> ExtenderCalls[list[str]]:
    """Returns the nodes that every extender accepts; adds the other nodes to ``statuses``."""
    for extender in framework.extenders:
        if not names:
            break
        if not extender.has_filter or not extender.is_interested(cycle.pod):
            continue
        [answer] = yield [partial(extender.filter, cycle.pod, names)]
        try:
            result = _validated_filter_result(extender, answer, names)
        except ExtenderError as error:
            _record(attempt, extender, error=str(error))
            if not extender.is_ignorable:
                raise
            _log_ignored(extender, error)
            continue
        if result.names == names and not result.failed and not result.failed_and_unresolvable:
            _record(attempt, extender)
            continue
        rejections = _rejections(result, names)
        statuses.update(rejections)
        remaining = list(dict.fromkeys(result.names))
        removed = sorted(set(names).difference(remaining))
        messages = {
            name: rejections[name].message if name in rejections else "" for name in removed
        }
        _record(attempt, extender, rejected=messages)
        names = remaining
    return names


def _validated_filter_result(extender: Extender, answer: Any, names: Sequence[str]) -> FilterResult:
    """Validates that every node in the result was sent, and returns the result.

    Raises:
        ExtenderError: if one was not, or the call failed.
    """
    if isinstance(answer, ExtenderError):
        raise answer
    result: FilterResult = answer
    if result.names is names or result.names == names:
        return result
    sent = set(names)
    for name in result.names:
        if name not in sent:
            raise ExtenderError(
                f"extender {json.dumps(extender.name)} claims a filtered node {json.dumps(name)}"
                " which is not found in the input node list"
            )
    return result


def _rejections(result: FilterResult, names: Sequence[str]) -> dict[str, Reject]:
    """Returns the failed nodes of the result, restricted to the nodes sent."""
    sent = set(names)
    statuses = {name: Reject(text) for name, text in result.failed.items() if name in sent}
    for name, text in result.failed_and_unresolvable.items():
        if name in sent:
            statuses[name] = Reject(text, resolvable=False)
    return statuses


# ---------------------------------------------------------------- score


def _select_host(
    framework: Framework, cycle: Cycle, attempt: Attempt, feasible: _FeasibleNodes
) -> ExtenderCalls[Placement]:
    if len(feasible.names) == 1:
        return feasible.placement(0)
    order = np.argsort(feasible.rows)
    rows = feasible.rows[order]
    total = total_scores(framework, cycle, attempt, NodeView(cycle.snapshot, rows), rows)
    if not framework.scorers:
        total = np.zeros(len(rows), dtype=np.int64)  # upstream's score of 1 is without extenders
    extra, is_drawn = yield from _call_prioritize(framework, cycle, attempt, feasible.names)
    total = total + extra[order]
    is_best = total == total.max()
    attempt.rows, attempt.total, attempt.tied_rows = rows, total, rows[is_best]
    tied = np.sort(order[is_best])  # positions in feasible.names
    drawn = tied[is_drawn[tied]]
    if len(drawn):
        return feasible.placement(int(drawn[framework.random_index(len(drawn))]))
    return feasible.placement(first_in_heap(tied))


def _call_prioritize(
    framework: Framework, cycle: Cycle, attempt: Attempt, names: list[str]
) -> ExtenderCalls[tuple[Ints, npt.NDArray[np.bool_]]]:
    """Returns what extenders add to each node's total, and a mask of the nodes drawn in a tie.

    Ties are drawn at random among nodes that some extender scored; one without a prioritize verb
    counts as scoring all nodes 0, as upstream. A failed one adds nothing. Sums wrap like int64.
    """
    interested = [item for item in framework.extenders if item.is_interested(cycle.pod)]
    extenders = [extender for extender in interested if extender.has_prioritize]
    is_drawn = np.full(len(names), len(extenders) < len(interested))
    extra = np.zeros(len(names), dtype=np.int64)
    if not extenders:
        return extra, is_drawn
    answers = yield [partial(extender.prioritize, cycle.pod, names) for extender in extenders]
    for extender, answer in zip(extenders, answers, strict=True):
        if isinstance(answer, ExtenderError):
            _record(attempt, extender, error=str(answer))
            _log_ignored(extender, answer)
            continue
        result: PrioritizeResult = answer
        values, has_score = _scores_of(names, result)
        is_drawn |= has_score
        extra += values * np.int64(SCALE) * np.int64(extender.weight)
        _record(attempt, extender, scores=_sums(result))
    return extra, is_drawn


def _scores_of(
    names: Sequence[str], result: PrioritizeResult
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Returns the scores of ``names``, 0 for missing ones, and a mask of those with a score."""
    if result.names == names:
        return np.array(result.scores, dtype=np.int64), np.ones(len(names), dtype=np.bool_)
    scores = list(map(_sums(result).get, names))
    has_score = np.array([score is not None for score in scores])
    return np.array([score or 0 for score in scores], dtype=np.int64), has_score


def _sums(result: PrioritizeResult) -> dict[str, int]:
    """Returns the score by node; repeated scores of one node are added, and wrap like int64."""
    sums = dict(zip(result.names, result.scores, strict=True))
    if len(sums) == len(result.names):
        return sums
    sums = dict.fromkeys(sums, 0)
    for name, score in zip(result.names, result.scores, strict=True):
        sums[name] = (sums[name] + score + _INT64_MIN_ABS) % (2 * _INT64_MIN_ABS) - _INT64_MIN_ABS
    return sums


# ---------------------------------------------------------------- records and logs


def _record(attempt: Attempt, extender: Extender, **fields: Any) -> None:
    """Adds the result of an extender to the attempt's record of calls."""
    call = attempt.calls.get(extender.name, ExtenderCall(extender.name))
    if "rejected" in fields:
        fields["rejected"] = call.rejected | fields["rejected"]
    attempt.calls[extender.name] = msgspec.structs.replace(call, **fields)


def _log_ignored(extender: Extender, error: ExtenderError) -> None:
    log_fields = {"extender": extender.name, "error": str(error)}
    _log.warning("extender failed, ignoring it", extra=log_fields)


# ---------------------------------------------------------------- after the extender calls


def still_fits(framework: Framework, cycle: Cycle, later: Cycle, node_name: str) -> bool:
    """Returns True if the node is still feasible for ``cycle``'s pod on the current cluster.

    ``later`` is a cycle of the same pod on the current snapshot; it gets the pre_score states of
    ``cycle``, so that the attempt can continue with it.

    Raises:
        PluginError: if a plugin failed.
    """
    row = later.snapshot.nodes.live_row(node_name)
    if row < 0:
        return False
    pre_filtered = filtering.pre_filter(framework, later)
    if pre_filtered.status is not None:
        return False
    if pre_filtered.node_names is not None and node_name not in pre_filtered.node_names:
        return False
    results = filtering.run_filters(framework, later, np.array([row], dtype=np.intp))
    if results.status(row) is not None:
        return False
    for plugin in framework.plugins("pre_score"):
        if plugin not in later:
            later.restore(plugin.name, cycle.state_of(plugin.name))
    return True
