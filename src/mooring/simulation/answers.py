"""Answers of a simulation: counts, tables that name pods, JSON and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from mooring.client import ObjectChange
from mooring.decision import ERROR, UNSCHEDULABLE
from mooring.simulation.progress import Silent, View
from mooring.simulation.report import OutcomeCounts, Section, Summary
from mooring.simulation.results import (
    EVICTED,
    FAILED,
    FINISHED,
    GATED,
    NOT_OURS,
    PLACED,
    REFUSED,
    WAITING,
    Eviction,
    PodResult,
)
from mooring.simulation.run import Simulation
from mooring.simulation.utilization import Utilization

#: The reason of a pod that was bound, and then evicted for another one.
PREEMPTED: Final = "preempted by a pod of a higher priority"

#: Pods that the tables of a summary name, of each outcome.
NAMED: Final = 5

#: The columns of the CSV.
COLUMNS: Final = (
    "pod",
    "outcome",
    "node",
    "nominated_node",
    "attempts",
    "time_s",
    "score",
    "runner_up",
    "runner_up_score",
    "plugins",
    "reasons",
    "victims",
    "evicted_by",
)


class Report(msgspec.Struct, frozen=True):
    """The pods of a simulation by outcome, as ``mooring simulate -o json`` prints them.

    Attributes:
        placements: The placed pods.
        refused: The pods that were refused, are gated, or failed with an error.
        waiting_pods: The pods that wait for victims to leave.
        evictions: All evictions, also of pods that were running at the start.
        not_ours_pods: The pods of other schedulers.
    """

    placements: list[PodResult]
    refused: list[PodResult]
    waiting_pods: list[PodResult]
    evictions: list[Eviction]
    not_ours_pods: list[str]


def report_of(simulation: Simulation) -> Report:
    """Returns the pods by outcome."""
    return Report(
        placements=simulation.outcome(PLACED, FINISHED),
        refused=simulation.outcome(REFUSED, GATED, FAILED),
        waiting_pods=simulation.outcome(WAITING),
        evictions=simulation.evictions,
        not_ours_pods=[result.pod for result in simulation.outcome(NOT_OURS)],
    )


def document_of(summary: Summary, simulation: Simulation) -> dict[str, Any]:
    """Returns summary and pods as JSON values."""
    return {**msgspec.to_builtins(summary), **msgspec.to_builtins(report_of(simulation))}


def csv_text(results: Iterable[PodResult]) -> str:
    """Returns a line for each pod, after a line of column names."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for result in results:
        writer.writerow([_cell(getattr(result, column)) for column in COLUMNS])
    return out.getvalue()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, dict):
        return "; ".join(f"{count} {reason}" for reason, count in value.items())
    return " ".join(value) if isinstance(value, list) else value


# -- tables ---------------------------------------------------------------------------------------


def named_pods(simulation: Simulation, *, limit: int | None = NAMED) -> list[Section]:
    """Returns tables of pods by outcome; None = without a limit."""
    report = report_of(simulation)
    placed = [(result.pod, result.node) for result in report.placements]
    refused = [
        (result.pod, ", ".join(result.plugins) or "-", _why(result)) for result in report.refused
    ]
    waiting = [
        (result.pod, result.nominated_node, ", ".join(result.victims) or "-")
        for result in report.waiting_pods
    ]
    evicted = [(result.pod, result.node, result.by) for result in report.evictions]
    live = simulation.pods
    not_ours = [(name, live[name].spec.scheduler_name) for name in report.not_ours_pods]
    return [
        _section("Placed", ("pod", "node"), placed, limit),
        _section("Refused, by name", ("pod", "plugins", "reasons"), refused, limit),
        _section("Waiting for victims to leave", ("pod", "node", "victims"), waiting, limit),
        _section("Evicted", ("pod", "node", "for"), evicted, limit),
        _section("Of other schedulers, not counted", ("pod", "scheduler"), not_ours, limit),
    ]


def _section(
    title: str,
    columns: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    limit: int | None,
) -> Section:
    if limit is None or len(rows) <= limit:
        return Section(title, columns, rows, len(columns))
    more = (f"... and {len(rows) - limit} more", *[""] * (len(columns) - 1))
    return Section(title, columns, [*rows[:limit], more], len(columns))


def _why(result: PodResult) -> str:
    if not result.reasons:
        return result.message
    return ", ".join(_with_count(*item, result.message) for item in result.reasons.items())


def _with_count(reason: str, count: int, message: str) -> str:
    """Returns a reason with its number of nodes, but for one that concerns the pod alone."""
    counted = f"{count} {reason}"
    return counted if counted in message else reason


# -- counts ---------------------------------------------------------------------------------------


class Progress:
    """Counts outcomes and follows utilization while a simulation runs, for a view.

    Args:
        counts: Updated.
        utilization: Updated.

    Attributes:
        view: Called for each pod with its first outcome.
    """

    def __init__(self, counts: OutcomeCounts, utilization: Utilization) -> None:
        self.view: View = Silent()
        self._counts = counts
        self._utilization = utilization
        #: Pod -> how it was counted last; None = it was bound.
        self._before: dict[str, str | None] = {}

    def on_result(self, result: PodResult) -> None:
        """Counts the outcome of an attempt; a pod that made room waits, and is not refused."""
        if result.outcome == REFUSED and result.victims:
            return
        text = None if result.outcome == PLACED else _text(result)
        is_new = result.pod not in self._before
        if not is_new:
            _take_back(self._counts, self._before[result.pod])
        self._before[result.pod] = text
        if text is None:
            self._counts.bound += 1
        else:
            self._counts.refused[text] += 1
        if is_new:
            self.view.step()

    def on_change(self, kind: str, change: ObjectChange) -> None:
        """Adds a pod to its node, or removes it."""
        self._utilization.on_change(kind, change)


def _take_back(counts: OutcomeCounts, text: str | None) -> None:
    if text is None:
        counts.bound -= 1
        return
    counts.refused[text] -= 1
    if not counts.refused[text]:
        del counts.refused[text]


def count(simulation: Simulation, counts: OutcomeCounts) -> None:
    """Sets counts to the end of a simulation."""
    counts.bound = len(simulation.outcome(PLACED, FINISHED))
    counts.waiting = len(simulation.outcome(WAITING))
    counts.not_ours = len(simulation.outcome(NOT_OURS))
    counts.evicted = len(simulation.evictions)
    counts.refused.clear()
    for result in simulation.results:
        if result.outcome in (REFUSED, GATED, FAILED, EVICTED):
            counts.refused[_text(result)] += 1


def _text(result: PodResult) -> str:
    """Returns the reasons of a pod without a node as one text."""
    if result.outcome == EVICTED:
        return PREEMPTED
    counts = OutcomeCounts()
    kind = ERROR if result.outcome == FAILED else UNSCHEDULABLE
    reasons = () if result.outcome == FAILED else tuple(result.reasons)
    counts.add(kind, reasons, result.message)
    return next(iter(counts.refused))
