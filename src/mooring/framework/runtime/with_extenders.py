"""A decision in which extenders have a say: the stages of ``Framework.decide``, and theirs.

::

    pre_filter -> [nominated node] -> filter -> extenders' filter, one after another
                                                        |
       Placement <- pre_score -> score -> extenders' prioritize, all at once, x weight x 10

Nothing here waits: these are generators, which yield questions and are sent the answers. Between
the two the columns may have changed (pods on their way to nodes come and go), but every node keeps
its row: whoever drives a decision keeps news of nodes back until it is over.

Source: pkg/scheduler/schedule_one.go (findNodesThatPassExtenders, prioritizeNodes),
framework/preemption/preemption.go (callExtenders). *Differs:* a node that was not sent is an error
however it is named, and so are scores that are not within 0 to 10.
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
    SCORE_MAX,
    Extender,
    ExtenderCalls,
    FilterResult,
    PrioritizeResult,
)
from mooring.framework.node_view import NodeView
from mooring.framework.runtime import filter as filtering
from mooring.framework.runtime.attempt import Attempt, Placement
from mooring.framework.runtime.filter import Feasible, Rows
from mooring.framework.runtime.framework import Framework
from mooring.framework.runtime.host_selection import first_in_heap, visiting_order
from mooring.framework.runtime.score import total_scores
from mooring.framework.status import Reject

Ints = npt.NDArray[np.int64]

_log = logging.getLogger(__name__)


def decide(
    framework: Framework, cycle: Cycle, attempt: Attempt
) -> ExtenderCalls[Placement | Diagnosis]:
    """As ``Framework.decide``, with what extenders say.

    Raises:
        ExtenderError: one failed that may not be ignored.
        PluginError: as ``Framework.decide``.
    """
    if len(cycle.snapshot.nodes) == 0:
        return Diagnosis(0)
    found = yield from _filter(framework, cycle, attempt)
    if isinstance(found, Diagnosis):
        return found
    return (yield from _choose(framework, cycle, attempt, found))


# ---------------------------------------------------------------- filter


def _filter(
    framework: Framework, cycle: Cycle, attempt: Attempt
) -> ExtenderCalls[_FeasibleNodes | Diagnosis]:
    before = filtering.pre_filter(framework, cycle)
    diagnosis = filtering.new_diagnosis(cycle, attempt, before)
    if before.status is not None:
        return diagnosis
    nominated = filtering.try_nominated(framework, cycle, attempt, diagnosis)
    is_nominated = nominated is not None and (
        yield from _confirm_nominated(framework, cycle, attempt)
    )
    order = filtering.nodes_after_pre_filter(cycle, attempt, diagnosis, before)
    if is_nominated:
        attempt.choice = "nominated" if len(order) > 1 else None
        name = cycle.pod.status.nominated_node_name
        return _FeasibleNodes([name], np.array([cycle.snapshot.nodes.row(name)]), 1)
    feasible = filtering.filter_nodes(framework, cycle, attempt, before, order)
    rows = _visited(attempt, feasible, order)
    nodes = cycle.snapshot.nodes
    names = list(map(nodes.names.__getitem__, rows.tolist()))
    statuses: dict[str, Reject] = {}
    left = yield from _ask_filters(framework, cycle, attempt, names, statuses)
    if statuses:
        kept = set(left)
        attempt.by_extenders = {
            nodes.row(name): status for name, status in statuses.items() if name not in kept
        }
    if left:
        if left is not names:
            rows = np.array([nodes.row(name) for name in left], dtype=np.intp)
        return _FeasibleNodes(left, rows, feasible.evaluated_count)
    filtering.fill_diagnosis(cycle, attempt, diagnosis)
    for status in statuses.values():
        diagnosis.reasons.update(status.reasons)
    if names:
        diagnosis.unschedulable_plugins.add(EXTENDER)
    return diagnosis


@dataclass(slots=True)
class _FeasibleNodes:
    """Names and rows of the feasible nodes, in order, and how many nodes were looked at."""

    names: list[str]
    rows: Rows
    evaluated_count: int

    def placed(self, place: int) -> Placement:
        """The node at this place was chosen."""
        row = int(self.rows[place])
        return Placement(self.names[place], row, len(self.names), self.evaluated_count)


def _confirm_nominated(framework: Framework, cycle: Cycle, attempt: Attempt) -> ExtenderCalls[bool]:
    """Returns whether extenders let the pod have its nominated node; if not, all are looked at."""
    name = cycle.pod.status.nominated_node_name
    statuses: dict[str, Reject] = {}
    try:
        left = yield from _ask_filters(framework, cycle, attempt, [name], statuses)
    except ExtenderError as error:
        _log.warning("a nominated node was not judged", extra={"node": name, "error": str(error)})
        return False
    if left:
        return True
    for refused, status in statuses.items():
        attempt.extra[cycle.snapshot.nodes.row(refused)] = status
    return False


def _visited(attempt: Attempt, feasible: Feasible, order: Rows) -> Rows:
    """Returns the feasible rows in the order in which they were visited."""
    filter_nodes = visiting_order(order, attempt.start_index)
    return filter_nodes[feasible.mask[filter_nodes]]


def _ask_filters(
    framework: Framework,
    cycle: Cycle,
    attempt: Attempt,
    names: list[str],
    statuses: dict[str, Reject],
) -> ExtenderCalls[list[str]]:
    """Returns the nodes that every extender keeps; ``statuses`` gets what is said of the others."""
    for extender in framework.extenders:
        if not names:
            break
        if not extender.has_filter or not extender.is_interested(cycle.pod):
            continue
        [answer] = yield [partial(extender.filter, cycle.pod, names)]
        try:
            kept = _checked(extender, answer, names)
        except ExtenderError as error:
            _note(attempt, extender, error=str(error))
            if not extender.is_ignorable:
                raise
            _ignored(extender, error)
            continue
        if kept.names == names and not kept.failed and not kept.failed_and_unresolvable:
            _note(attempt, extender)
            continue
        refused = _refusals(kept, names)
        statuses.update(refused)
        left = list(dict.fromkeys(kept.names))
        gone = set(names).difference(left)
        told = {name: refused[name].message if name in refused else "" for name in sorted(gone)}
        _note(attempt, extender, rejected=told)
        names = left
    return names


def _checked(extender: Extender, answer: Any, names: Sequence[str]) -> FilterResult:
    """Returns the answer, if every node in it was sent.

    Raises:
        ExtenderError: one was not, or there is no answer.
    """
    if isinstance(answer, ExtenderError):
        raise answer
    kept: FilterResult = answer
    if kept.names is names or kept.names == names:
        return kept
    sent = set(names)
    for name in kept.names:
        if name not in sent:
            raise ExtenderError(
                f"extender {json.dumps(extender.name)} claims a filtered node {json.dumps(name)}"
                " which is not found in the input node list"
            )
    return kept


def _refusals(kept: FilterResult, names: Sequence[str]) -> dict[str, Reject]:
    """What is said of nodes that were sent; what is said of others counts for nothing."""
    sent = set(names)
    found = {name: Reject(said) for name, said in kept.failed.items() if name in sent}
    for name, said in kept.failed_and_unresolvable.items():
        if name in sent:
            found[name] = Reject(said, resolvable=False)
    return found


# ---------------------------------------------------------------- score


def _choose(
    framework: Framework, cycle: Cycle, attempt: Attempt, left: _FeasibleNodes
) -> ExtenderCalls[Placement]:
    if len(left.names) == 1:
        return left.placed(0)
    order = np.argsort(left.rows)
    rows = left.rows[order]
    total = total_scores(framework, cycle, attempt, NodeView(cycle.snapshot, rows), rows)
    if not framework.scorers:
        total = np.zeros(len(rows), dtype=np.int64)  # upstream's 1 is for a world without extenders
    extra, is_drawn = yield from _ask_scores(framework, cycle, attempt, left.names)
    total = total + extra[order]
    is_best = total == total.max()
    attempt.rows, attempt.total, attempt.tied_rows = rows, total, rows[is_best]
    tied = np.sort(order[is_best])  # places in the list
    by_chance = tied[is_drawn[tied]]
    if len(by_chance):
        return left.placed(int(by_chance[framework.draw(len(by_chance))]))
    return left.placed(first_in_heap(tied))


def _ask_scores(
    framework: Framework, cycle: Cycle, attempt: Attempt, names: list[str]
) -> ExtenderCalls[tuple[Ints, npt.NDArray[np.bool_]]]:
    """What extenders add to each node's total, and the nodes among which ties are drawn.

    Those are the ones that some extender gave a score; one that does not prioritize is taken to
    give 0 to all, as upstream has it. One that fails says nothing. Sums go round as 64 bits do.
    """
    interested = [each for each in framework.extenders if each.is_interested(cycle.pod)]
    asked = [extender for extender in interested if extender.has_prioritize]
    is_drawn = np.full(len(names), len(asked) < len(interested))
    extra = np.zeros(len(names), dtype=np.int64)
    if not asked:
        return extra, is_drawn
    answers = yield [partial(extender.prioritize, cycle.pod, names) for extender in asked]
    for extender, answer in zip(asked, answers, strict=True):
        try:
            said = _validated_scores(extender, answer)
        except ExtenderError as error:
            _note(attempt, extender, error=str(error))
            _ignored(extender, error)
            continue
        values, is_rated = _by_place(said, names)
        is_drawn |= is_rated
        extra += values * np.int64(SCALE) * np.int64(extender.weight)
        _note(attempt, extender, scores=_sums(said))
    return extra, is_drawn


def _validated_scores(extender: Extender, answer: Any) -> PrioritizeResult:
    """Returns the answer, if all its scores are good.

    Raises:
        ExtenderError: there is no answer, or a score is out of range.
    """
    if isinstance(answer, ExtenderError):
        raise answer
    said: PrioritizeResult = answer
    if not said.scores or (min(said.scores) >= 0 and max(said.scores) <= SCORE_MAX):
        return said
    name, score = next(
        (name, score)
        for name, score in zip(said.names, said.scores, strict=True)
        if not 0 <= score <= SCORE_MAX
    )
    raise ExtenderError(
        f"extender {json.dumps(extender.name)} gives node {json.dumps(name)} the score"
        f" {score}, it should be in the range of [0, {SCORE_MAX}]"
    )


def _by_place(said: PrioritizeResult, names: Sequence[str]) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """The scores in the order of ``names``, 0 where there is none, and where there is one."""
    if said.names == names:
        return np.array(said.scores, dtype=np.int64), np.ones(len(names), dtype=np.bool_)
    found = list(map(_sums(said).get, names))
    is_rated = np.array([score is not None for score in found])
    return np.array([score or 0 for score in found], dtype=np.int64), is_rated


def _sums(said: PrioritizeResult) -> dict[str, int]:
    """Node -> score; those of a node that is there several times are added up, as upstream does."""
    sums = dict(zip(said.names, said.scores, strict=True))
    if len(sums) == len(said.names):
        return sums
    sums = dict.fromkeys(sums, 0)
    for name, score in zip(said.names, said.scores, strict=True):
        sums[name] += score
    return sums


# ---------------------------------------------------------------- telling


def _note(attempt: Attempt, extender: Extender, **said: Any) -> None:
    """Puts what an extender said into the record of the attempt."""
    before = attempt.calls.get(extender.name, ExtenderCall(extender.name))
    if "rejected" in said:
        said["rejected"] = before.rejected | said["rejected"]
    attempt.calls[extender.name] = msgspec.structs.replace(before, **said)


def _ignored(extender: Extender, error: ExtenderError) -> None:
    _log.warning("an extender is ignored", extra={"extender": extender.name, "error": str(error)})


# ---------------------------------------------------------------- afterwards


def still_fits(framework: Framework, cycle: Cycle, later: Cycle, node_name: str) -> bool:
    """Whether the filters let ``cycle``'s pod have the node now that the cluster has changed.

    ``later`` is a cycle of the same pod on the cluster as it is now; it gets the notes that were
    made for scoring, so that the attempt can go on with it.

    Raises:
        PluginError: a plugin failed.
    """
    row = later.snapshot.nodes.live_row(node_name)
    if row < 0:
        return False
    before = filtering.pre_filter(framework, later)
    if before.status is not None:
        return False
    if before.node_names is not None and node_name not in before.node_names:
        return False
    results = filtering.run_filters(framework, later, np.array([row], dtype=np.intp))
    if results.status(row) is not None:
        return False
    for plugin in framework.plugins("pre_score"):
        if plugin not in later:
            later.restore(plugin.name, cycle.state_of(plugin.name))
    return True
