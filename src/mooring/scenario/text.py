"""The results of a run as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from mooring.config.durations import duration_text
from mooring.scenario.expectations import Expectation
from mooring.scenario.measures import MEASURES
from mooring.scenario.results import Result
from mooring.simulation.report import aligned

#: Pods that still wait and are named.
_NAMED: Final = 5
#: Measures that are shares of a whole.
_SHARES: Final = ("allocated", "demanded", "stranded", "fragmentation")
_WHICH: Final = ("mean", "p50", "p90", "p99", "max")


def result_text(result: Result) -> str:
    """Returns the summary of a run in lines of at most about 80 columns."""
    summary = result.summary
    end = _time(summary["length"])
    lines = [f"{result.name}: seed {result.seed}, {end} of virtual time", ""]
    lines += _pods(summary)
    lines += _times(summary)
    lines += _shares(result)
    lines += _nodes(summary)
    lines += _pending(result.pending)
    lines += [""] if result.notes and not result.pending else []
    lines += [f"  {note}" for note in result.notes]
    lines += _groups(result)
    if result.checks:
        lines += ["", "expected"]
        lines += [f"  {check_text(expectation, value)}" for expectation, value in result.checks]
    lines += ["", f"digest {result.digest[:16]}"]
    return "\n".join(lines)


def check_text(expectation: Expectation, value: float | None) -> str:
    """Returns an expectation with its value, and whether it holds."""
    word = "ok    " if expectation.holds(value) else "FAILED"
    own = "there is no such value" if value is None else value_text(expectation.measure, value)
    return f"{word} {expectation.text}: {own}"


def value_text(measure: str, value: float) -> str:
    """Returns a value with its unit, as the measure has it.

    Example:
        >>> value_text("wait.p99", 90.0), value_text("allocated.cpu", 0.5), value_text("cost", 2.5)
        ('1m30s', '50.0 %', '2.5')
    """
    unit = unit_of(measure)
    if unit == "s":
        return _time(value)
    if unit == "1" and measure.startswith(_SHARES):
        return f"{value:.1%}".replace("%", " %")
    return f"{value:.4g}" if value % 1 else f"{value:.0f}"


def unit_of(measure: str) -> str:
    """Returns the unit of a measure; "" if it is unknown."""
    for item in MEASURES:
        head, star, tail = item.name.replace("PLUGIN", "RESOURCE").partition("RESOURCE")
        if item.name == measure or (
            star and measure.startswith(head) and measure.endswith(tail) and measure != head
        ):
            return item.unit
    return ""


def _pods(summary: Mapping[str, float]) -> list[str]:
    states = ("succeeded", "failed", "deleted", "evicted", "preempted", "running", "pending")
    counts = [f"{summary[f'pods.{s}']:.0f} {s}" for s in states if summary[f"pods.{s}"]]
    lines = [f"pods      {summary['pods.created']:.0f} created: {', '.join(counts) or 'none'}"]
    if summary["jobs.created"]:
        complete, failed = summary["jobs.complete"], summary["jobs.failed"]
        created = summary["jobs.created"]
        lines.append(
            f"jobs      {created:.0f} created, {complete:.0f} complete, {failed:.0f} failed"
        )
    if summary.get("throughput"):
        lines.append(
            f"          {summary['throughput']:.4g} pods succeeded a second, over"
            f" {_time(summary['makespan'])}"
        )
    if summary["evictions"] or summary["preemptions"]:
        lines.append(
            f"evicted   {summary['evictions']:.0f}, preempted {summary['preemptions']:.0f}; lost:"
            f" {_time(summary['lost.pods'])} of pods, {summary['lost.cpu']:.4g} core hours"
        )
    return lines


def _times(summary: Mapping[str, float]) -> list[str]:
    rows: list[tuple[str, ...]] = [("", *_WHICH)]
    for name in ("wait", "turnaround", "slowdown"):
        if f"{name}.mean" in summary:
            values = [value_text(f"{name}.{w}", summary[f"{name}.{w}"]) for w in _WHICH]
            rows.append((name, *values))
    return ["", *aligned(rows, indent="", text_columns=1)] if len(rows) > 1 else []


def _shares(result: Result) -> list[str]:
    summary = result.summary
    head = ("", "allocated", "largest", "demanded", "stranded", "fragmented")
    rows: list[tuple[str, ...]] = [head]
    for name in result.resources.values():
        kinds = [f"allocated.{name}", f"allocated.{name}.max", f"demanded.{name}"]
        kinds += [f"stranded.{name}", f"fragmentation.{name}"]
        values = [value_text(kind, summary[kind]) for kind in kinds]
        rows.append((name, *values))
    return ["", *aligned(rows, indent="", text_columns=1)]


def _nodes(summary: Mapping[str, float]) -> list[str]:
    parts = [f"{summary['nodes.mean']:.4g} on average, at most {summary['nodes.max']:.0f}"]
    if summary["nodes.added"] or summary["nodes.removed"]:
        parts.append(f"{summary['nodes.added']:.0f} added, {summary['nodes.removed']:.0f} removed")
    if summary["cost"]:
        parts.append(f"{summary['nodes.hours']:.4g} node hours, cost {summary['cost']:.4g}")
    waiting = f"{summary['pending.mean']:.4g} on average, at most {summary['pending.max']:.0f}"
    return ["", f"nodes     {'; '.join(parts)}", f"waiting   {waiting}"]


def _pending(pending: Mapping[str, str]) -> list[str]:
    if not pending:
        return []
    reasons: Counter[str] = Counter(pending.values())
    who = "1 pod was" if len(pending) == 1 else f"{len(pending)} pods were"
    lines = ["", f"{who} refused, and still waiting at the end"]
    for reason, count in reasons.most_common(_NAMED):
        names = [name for name, own in pending.items() if own == reason][:_NAMED]
        more = f" and {count - len(names)} more" if count > len(names) else ""
        lines.append(f"  {', '.join(names)}{more}: {reason}")
    return lines


def _groups(result: Result) -> list[str]:
    groups = result.tables["groups"]
    if len(groups["group"]) < 2:
        return []
    rows: list[tuple[str, ...]] = [
        ("group", "pods", "succeeded", "pending", "wait p50", "wait p99")
    ]
    for row, name in enumerate(groups["group"]):
        waits = [groups[f"wait_{which}_s"][row] for which in ("p50", "p99")]
        counts = [str(groups[column][row]) for column in ("pods", "succeeded", "pending")]
        rows.append((name, *counts, *("-" if w is None else _time(w) for w in waits)))
    return ["", *aligned(rows, indent="", text_columns=1)]


def _time(seconds: float) -> str:
    """Returns a duration with at most three parts of a second."""
    if seconds >= 60:
        return duration_text(float(round(seconds)))
    return duration_text(round(seconds, 3))
