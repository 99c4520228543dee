"""Comparisons as text, and as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mooring.config.durations import duration_text
from mooring.decision import Decision
from mooring.experiments.compare import Comparison, Moves, Row
from mooring.scenario.text import unit_of, value_text
from mooring.simulation.report import aligned
from mooring.statistics.paired import NO_DIFFERENCE

#: Pods that are named.
_NAMED: Final = 3


def comparison_text(comparison: Comparison) -> str:
    """Returns a comparison as a table, with what moved below."""
    n_seeds = len(comparison.seeds)
    seeds = f"{n_seeds} seeds, {comparison.seeds[0]} to {comparison.seeds[-1]}"
    if n_seeds == 1:
        seeds = f"seed {comparison.seeds[0]}"
    different = [row for row in comparison.rows if row.difference.n_equal < row.difference.n]
    equal = [row.measure for row in comparison.rows if row not in different]
    head = ("measure", comparison.baseline, comparison.candidate, "difference")
    rows: list[tuple[str, ...]] = [head if n_seeds == 1 else (*head, "95 % interval", "better in")]
    rows += [_row(row) for row in different]
    lines = [f"{comparison.candidate} beside {comparison.baseline}: {seeds}"]
    if different:
        lines += ["", *aligned(rows, indent="", text_columns=1)]
    if equal:
        lines += ["", f"equal with every seed: {', '.join(equal)}"]
    lines += ["", *_moves(comparison.moves)]
    if n_seeds == 1:
        lines.append("One seed is one draw: --seeds 20 tells differences from chance.")
    return "\n".join(lines)


def _row(row: Row) -> tuple[str, ...]:
    own, name = row.difference, row.measure
    means = (value_text(name, own.baseline_mean), value_text(name, own.candidate_mean))
    difference = signed(name, own.interval.mean)
    if own.n == 1:
        return (name, *means, difference)
    low, high = signed(name, own.interval.low), signed(name, own.interval.high)
    interval = f"{low} to {high}" if own.is_shown else NO_DIFFERENCE
    return (name, *means, difference, interval, f"{own.n_better} of {own.n}")


def signed(measure: str, value: float) -> str:
    """Returns a difference with its sign; shares in percent of the whole.

    Example:
        >>> signed("wait.p99", -90.0), signed("allocated.cpu", 0.015), signed("cost", 0.0)
        ('-1m30s', '+1.5 %', '0')
    """
    if not value or (unit_of(measure) == "1" and abs(value) < 5e-4):
        return "0"
    sign = "-" if value < 0 else "+"
    if unit_of(measure) == "1" and value_text(measure, value).endswith("%"):
        return f"{sign}{abs(value) * 100:.1f} %"
    return sign + value_text(measure, abs(value))


def _moves(moves: Moves) -> list[str]:
    parts = [
        f"{len(pods)} {what}"
        for pods, what in (
            (moves.moved, "on another node"),
            (moves.retimed, "on the same node at another time"),
            (moves.newly_bound, "newly bound"),
            (moves.newly_unbound, "no longer bound"),
        )
        if pods
    ]
    if not parts:
        return [f"seed {moves.seed}: every pod is bound to the same node at the same time"]
    lines = [f"seed {moves.seed}: of {moves.n_pods} pods, {', '.join(parts)}"]
    for what, pods in (("newly bound", moves.newly_bound), ("not bound", moves.newly_unbound)):
        if pods:
            more = f" and {len(pods) - _NAMED} more" if len(pods) > _NAMED else ""
            lines.append(f"  {what}: {', '.join(pods[:_NAMED])}{more}")
    return lines


def first_decision_text(
    moves: Moves, names: tuple[str, str], decisions: tuple[Decision | None, Decision | None]
) -> str:
    """Returns the first decision that differs, with the scores of both nodes.

    Args:
        moves: Names the pod.
        names: Of baseline and candidate.
        decisions: Of baseline and candidate.
    """
    at = duration_text(round(moves.at_s, 3))
    lines = [f"first difference: {moves.first}, at {at}"]
    nodes = [None if decision is None else decision.node for decision in decisions]
    for name, decision, node in zip(names, decisions, nodes, strict=True):
        if decision is None:
            lines.append(f"  {name}: it was never tried")
        elif node is None:
            lines.append(f"  {name}: refused: {decision.message}")
        else:
            lines.append(f"  {name}: {node}")
    both = [node for node in dict.fromkeys(nodes) if node is not None]
    for name, decision in zip(names, decisions, strict=True):
        if decision is not None and decision.total and len(both) == 2:
            lines += ["", *_scores(name, decision, both)]
    return "\n".join(lines)


def _scores(name: str, decision: Decision, nodes: Sequence[str]) -> list[str]:
    """Returns the scores of two nodes: those of plugins from 0 to 100, and the weighted sum."""
    rows: list[tuple[str, ...]] = [(f"scores by {name}", *nodes)]
    for plugin, scores in sorted((decision.scores or {}).items()):
        values = [scores.get(node) for node in nodes]
        if values[0] != values[1]:
            rows.append((plugin, *("-" if value is None else str(value) for value in values)))
    total = decision.total or {}
    for node in nodes:
        if node in decision.rejected:
            reasons = ", ".join(decision.rejected[node].reasons)
            rows.append((f"{node} was rejected: {reasons}", *("" for _ in nodes)))
    sums = [str(total[node]) if node in total else "-" for node in nodes]
    rows.append(("weighted sum", *sums))
    return aligned(rows, indent="  ", text_columns=1)


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """Returns a comparison as plain values."""
    moves = comparison.moves
    return {
        "baseline": comparison.baseline,
        "candidate": comparison.candidate,
        "seeds": list(comparison.seeds),
        "measures": {
            row.measure: {
                "baseline": row.difference.baseline_mean,
                "candidate": row.difference.candidate_mean,
                "difference": row.difference.interval.mean,
                "low": row.difference.interval.low if row.difference.n > 1 else None,
                "high": row.difference.interval.high if row.difference.n > 1 else None,
                "better": row.difference.n_better,
                "equal": row.difference.n_equal,
                "runs": row.difference.n,
                "verdict": row.difference.verdict,
            }
            for row in comparison.rows
        },
        "moved": list(moves.moved),
        "retimed": list(moves.retimed),
        "newly_bound": list(moves.newly_bound),
        "newly_unbound": list(moves.newly_unbound),
        "first_difference": moves.first or None,
    }
