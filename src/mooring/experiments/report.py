"""Reports of runs and comparisons, as one HTML file."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from mooring import __version__
from mooring.experiments.compare import Comparison
from mooring.experiments.text import FirstDecision, signed
from mooring.report import (
    Plot,
    Section,
    Table,
    bars_with_intervals,
    cdf_by_group,
    html_report,
    step_curves,
    wide_series,
)
from mooring.scenario.results import Result
from mooring.scenario.text import unit_of, value_text
from mooring.statistics.paired import NO_DIFFERENCE

#: Pods in the table of the longest waits.
_SLOWEST: Final = 20
_PENDING_MAX: Final = 200


def result_report(result: Result) -> str:
    """Returns the report of a run.

    Raises:
        ConfigError: the data of its charts is too large for one file.
    """
    inputs = {
        "scenario": msgspec.json.format(msgspec.json.encode(result.source), indent=2).decode(),
        "seed": str(result.seed),
        "digest of the results": result.digest,
        "mooring": __version__,
    }
    return html_report(result.name, result_sections(result), inputs=inputs)


def result_sections(result: Result) -> list[Section]:
    """Returns the sections of the report of a run."""
    return [
        Section("Verdict", verdict(result)),
        _measures(result),
        _over_time(result),
        _waits(result),
        _waiting(result),
        Section("Groups", tables={"Pods by item of the workload": result.tables["groups"]}),
    ]


def verdict(result: Result) -> list[str]:
    """Returns three sentences: what became of the pods, how long they waited, how full it was."""
    summary = result.summary
    created, succeeded = summary["pods.created"], summary["pods.succeeded"]
    others = [
        f"{summary[f'pods.{state}']:.0f} {words}"
        for state, words in (
            ("running", "were running"),
            ("pending", "had no node"),
            ("failed", "failed"),
            ("evicted", "were evicted"),
            ("preempted", "were preempted"),
            ("deleted", "were deleted"),
        )
        if summary[f"pods.{state}"]
    ]
    length = value_text("length", summary["length"])
    rest = f"; {', '.join(others)}" if others else ""
    lines = [f"{created:.0f} pods came within {length}, and {succeeded:.0f} succeeded{rest}."]
    if "wait.p50" in summary:
        lines.append(
            f"Half of them waited at most {_wait(summary, 'p50')} for a node, nine of ten at most"
            f" {_wait(summary, 'p90')}, and the longest {_wait(summary, 'max')}."
        )
    shares = [
        f"{name} {summary[f'allocated.{name}']:.0%}"
        for name in result.resources.values()
        if summary[f"allocated.{name}"]
    ]
    stranded = max(
        result.resources.values(), key=lambda name: summary[f"stranded.{name}"], default=""
    )
    text = f"Allocated on average: {', '.join(shares) or 'nothing'}."
    if stranded and summary[f"stranded.{stranded}"] >= 0.005:
        text += (
            f" {summary[f'stranded.{stranded}']:.0%} of {stranded} was free where none of the"
            " waiting pods would have fit."
        )
    return [*lines, text]


def _wait(summary: Mapping[str, float], which: str) -> str:
    return value_text(f"wait.{which}", summary[f"wait.{which}"])


def _measures(result: Result) -> Section:
    names = list(result.summary)
    table: Table = {
        "measure": names,
        "value": [value_text(name, result.summary[name]) for name in names],
        "unit": [unit_of(name) for name in names],
    }
    tables = {"Measures": table}
    if result.checks:
        tables["Expectations"] = {
            "line": [item.text for item, _ in result.checks],
            "value": [
                "-" if value is None else value_text(item.measure, value)
                for item, value in result.checks
            ],
            "holds": ["yes" if item.holds(value) else "NO" for item, value in result.checks],
        }
    return Section("Measures", tables=tables)


# -- over time ----------------------------------------------------------------------------------


def _over_time(result: Result) -> Section:
    plots: list[Plot] = []
    for name in result.resources.values():
        kinds = ("allocated", "demanded", "stranded", "fragmentation")
        names = [f"{kind}.{name}" for kind in ("allocatable", *kinds)]
        wide = wide_series(result.tables["series"], names)
        whole = wide.pop(f"allocatable.{name}")
        table: dict[str, Any] = {"time_s": wide.pop("time_s")}
        for kind in kinds:
            values = wide[f"{kind}.{name}"]
            # Demand has no upper end, a share on the axis has.
            table[kind] = [
                min(1.0, v / w) if w else 0.0 for v, w in zip(values, whole, strict=True)
            ]
        summary = (
            f"{name}: allocated {result.summary[f'allocated.{name}']:.0%}, demanded"
            f" {result.summary[f'demanded.{name}']:.0%}, stranded"
            f" {result.summary[f'stranded.{name}']:.0%}, fragmented"
            f" {result.summary[f'fragmentation.{name}']:.0%} on average."
        )
        title = f"{name} over time"
        plots.append(
            step_curves(title, table, curves=kinds, y_title="share", is_share=True, summary=summary)
        )
    counts = wide_series(result.tables["series"], ["pending", "running", "nodes"])
    for curves, title in ((("pending", "running"), "Pods over time"), (("nodes",), "Nodes")):
        plots.append(step_curves(title, counts, curves=curves, y_title="number"))
    text = ["Demand beyond the whole cluster is drawn at 100 %."]
    return Section("Over time", text, plots=plots)


# -- pods ---------------------------------------------------------------------------------------


def _waits(result: Result) -> Section:
    pods = result.tables["pods"]
    plots = [
        cdf_by_group(
            title, pods, value=value, group="group", x_title=x_title, is_log=True, summary=summary
        )
        for title, value, x_title, summary in (
            (
                "Waits",
                "waiting_time_s",
                "wait (s)",
                "The share of bound pods that waited at most so long.",
            ),
            (
                "Slowdown",
                "stretch",
                "slowdown",
                "The share of ended pods whose wait and run took at most so many run times.",
            ),
        )
        if any(number is not None for number in pods[value])
    ]
    waits = pods["waiting_time_s"]
    rows = [row for row, wait in enumerate(waits) if wait]
    rows = sorted(rows, key=lambda row: -waits[row])[:_SLOWEST]
    columns = ("pod", "group", "submission_time_s", "waiting_time_s", "attempts", "node")
    tables = {}
    if rows:
        tables["The longest waits"] = {name: [pods[name][row] for row in rows] for name in columns}
    return Section("Waits", tables=tables, plots=plots)


def _waiting(result: Result) -> Section:
    refused = {
        name.removeprefix("refused."): value
        for name, value in result.summary.items()
        if name.startswith("refused.")
    }
    tables: dict[str, Table] = {}
    if refused:
        ordered = sorted(refused, key=lambda name: -refused[name])
        tables["Failed attempts by plugin"] = {
            "plugin": ordered,
            "attempts": [int(refused[name]) for name in ordered],
        }
    text = [*result.notes]
    if result.pending:
        reasons = Counter(result.pending.values()).most_common(_PENDING_MAX)
        first = {why: pod for pod, why in reversed([*result.pending.items()])}
        tables["Refused, and still waiting at the end"] = {
            "pods": [count for _, count in reasons],
            "first": [first[why] for why, _ in reasons],
            "reason": [why for why, _ in reasons],
        }
    elif not refused:
        text.append("The scheduler refused no pod.")
    return Section("What was refused, and why", text, tables)


# -- comparisons --------------------------------------------------------------------------------


def comparison_report(
    comparisons: Sequence[Comparison], decisions: Sequence[FirstDecision | None]
) -> str:
    """Returns the report of comparisons with one baseline.

    Args:
        comparisons: The comparisons.
        decisions: The first decision that differs, of each; None = none does.

    Raises:
        ConfigError: the data of its charts is too large for one file.
    """
    sections = []
    for comparison, decision in zip(comparisons, decisions, strict=True):
        name = f"{comparison.candidate} beside {comparison.baseline}"
        rows = comparison.rows
        table: Table = {
            "measure": [row.measure for row in rows],
            comparison.baseline: [value_text(r.measure, r.difference.baseline_mean) for r in rows],
            comparison.candidate: [
                value_text(r.measure, r.difference.candidate_mean) for r in rows
            ],
            "difference": [signed(r.measure, r.difference.interval.mean) for r in rows],
            "verdict": [row.difference.verdict for row in rows],
            "better in": [f"{r.difference.n_better} of {r.difference.n}" for r in rows],
        }
        text = [comparison_verdict(comparison)]
        sections.append(Section(name, text, {"Measures": table}, _difference_plots(comparison)))
        if decision is not None:
            sections.append(_decision_section(decision))
    inputs = {
        "seeds": ", ".join(map(str, comparisons[0].seeds)),
        "variants": ", ".join([comparisons[0].baseline, *(c.candidate for c in comparisons)]),
        "mooring": __version__,
    }
    return html_report("Comparison", sections, inputs=inputs)


def _decision_section(decision: FirstDecision) -> Section:
    tables: dict[str, Table] = {}
    for name, (head, *rows) in decision.tables().items():
        columns = {"plugin": [row[0] for row in rows]}
        for at, node in enumerate(head[1:], start=1):
            columns[node] = [row[at] for row in rows]
        tables[f"Scores by {name}"] = columns
    return Section("The first decision that differs", decision.sentences(), tables)


def comparison_verdict(comparison: Comparison) -> str:
    """Returns which measures are better and worse, and which show no difference."""
    by_verdict: dict[str, list[str]] = {}
    for row in comparison.rows:
        by_verdict.setdefault(row.difference.verdict, []).append(row.measure)
    parts = [
        f"{title}: {', '.join(by_verdict[verdict_])}"
        for verdict_, title in (
            ("better", "Better"),
            ("worse", "Worse"),
            (NO_DIFFERENCE, "No difference shown"),
        )
        if verdict_ in by_verdict
    ]
    moves = comparison.moves
    n_others = len(moves.moved) + len(moves.newly_bound) + len(moves.newly_unbound)
    parts.append(f"With seed {moves.seed}, {n_others} of {moves.n_pods} pods have another node")
    return ". ".join(parts) + "."


def _difference_plots(comparison: Comparison) -> list[Plot]:
    """Returns the relative differences with their intervals, if there are several seeds."""
    if len(comparison.seeds) < 2:
        return []
    rows = [
        (row.measure, row.difference)
        for row in comparison.rows
        if row.difference.baseline_mean and row.difference.n_equal < row.difference.n
    ]
    if not rows:
        return []
    table: dict[str, list[Any]] = {"measure": [], "mean": [], "low": [], "high": []}
    for measure, own in rows:
        base = abs(own.baseline_mean)
        table["measure"].append(measure)
        for name in ("mean", "low", "high"):
            value = 100 * getattr(own.interval, name) / base
            table[name].append(value if math.isfinite(value) else None)
    return [
        bars_with_intervals(
            "Differences, as a share of the baseline",
            table,
            name="measure",
            mean="mean",
            low="low",
            high="high",
            x_title="difference (%)",
            summary="Bars whose interval holds 0 may be chance.",
        )
    ]
