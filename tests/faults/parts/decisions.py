"""Compares the Decision of an attempt, as it is recorded, with the model of ``points_run``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mooring.decision import Decision
from mooring.framework import Attempt, Diagnosis
from mooring.framework.runtime.attempt_copy import AttemptCopy
from tests.faults.parts.points_model import Outcome, Rejection

COPIED: Final = (
    *("result", "node", "tied", "rejected", "choice", "prefilter", "scores", "raw", "total"),
)
#: The copies of so many earlier attempts are compared again.
EARLIER: Final = 4
#: Plugin -> its score of each node.
ScoresOfPlugins = Mapping[str, Mapping[str, int]]


class Copies:
    """Copies of the last attempts, as the page has them: later attempts do not change them."""

    def __init__(self) -> None:
        #: With the number of the attempt, and what was known at its end.
        self._copies: deque[tuple[int, AttemptCopy, dict[str, Any]]] = deque(maxlen=EARLIER)
        self._count = 0

    def add(self, attempt: Attempt, node: str) -> Decision:
        """Returns the decision of an attempt as its copy has it."""
        copy = AttemptCopy(attempt, node, list(attempt.snapshot.nodes.names), {})
        decision = copy.decision()
        self._count += 1
        self._copies.append((self._count, copy, _facts(decision)))
        return decision

    def problems(self) -> Iterator[str]:
        """Yields which copies have changed."""
        for number, copy, facts in self._copies:
            if (real := _facts(copy.decision())) != facts:
                yield f"the copy of attempt {number} of {self._count} is {real}, not {facts}"


def _facts(decision: Decision) -> dict[str, Any]:
    return {name: getattr(decision, name) for name in COPIED}


def placed(
    copies: Copies,
    attempt: Attempt,
    node: str,
    rejected: Mapping[str, Rejection],
    totals: Mapping[str, int] | None,
    scores: tuple[ScoresOfPlugins, ScoresOfPlugins],
) -> Iterator[str]:
    """Yields how the decision of a placed pod differs.

    Args:
        copies: Of the attempts before; this one is added.
        attempt: The attempt.
        node: The node that was selected.
        rejected: Node -> how it was rejected.
        totals: The total of each node; None = nothing was scored.
        scores: The scores of each plugin as it returns them, and normalized.
    """
    decision = attempt.decision("scheduled", node=node, diagnosis=None)
    yield from _rejections(decision, rejected)
    yield from _next_best(attempt, node, totals or {})
    tied = [node]
    if totals is not None:
        tied = sorted(name for name, total in totals.items() if total == max(totals.values()))
    raw, normalized = scores if totals is not None else (None, None)
    yield from _differences(
        {
            "node": (decision.node, node),
            "ties": (list(decision.tied), tied),
            "totals": (decision.total, totals),
            "raw scores": (decision.raw, raw),
            "scores": (decision.scores, normalized),
            "plugins": (decision.unschedulable_plugins + decision.pending_plugins, ()),
            **_copied(copies, attempt, node, decision),
        }
    )


def refused(
    copies: Copies,
    attempt: Attempt,
    diagnosis: Diagnosis,
    rejected: Mapping[str, Rejection],
    expected: Outcome,
) -> Iterator[str]:
    """Yields how the decision of a pod without a node differs.

    Args:
        copies: Of the attempts before; this one is added.
        attempt: The attempt.
        diagnosis: Its result.
        rejected: Node -> how it was rejected.
        expected: What the model says.
    """
    decision = attempt.decision("unschedulable", node=None, diagnosis=diagnosis)
    rejection = decision.prefilter
    pre_filter = rejection and Rejection(rejection.code, rejection.reasons, rejection.plugin)
    yield from _rejections(decision, {} if expected.pre_filter is not None else rejected)
    yield from _differences(
        {
            "node": ((decision.node, decision.tied), (None, ())),
            "scores": ((decision.total, decision.raw, decision.scores), (None, None, None)),
            "plugins": (decision.unschedulable_plugins, tuple(sorted(expected.plugins))),
            "pending plugins": (decision.pending_plugins, tuple(sorted(expected.pending))),
            "PreFilter": (pre_filter, expected.pre_filter),
            **_copied(copies, attempt, "", decision),
        }
    )


def _next_best(attempt: Attempt, node: str, totals: Mapping[str, int]) -> Iterator[str]:
    """Compares the score of the selected node, and that of the best one of the others."""
    best = attempt.best_two(attempt.snapshot.nodes.row(node))
    others = {name: total for name, total in totals.items() if name != node}
    if best is None or not others:
        if best is not None or others:
            yield f"the best two are {best}, of {dict(totals)}"
        return
    score, name, next_score = best
    if (score, next_score) != (totals[node], max(others.values())) or next_score != others[name]:
        yield f"the best two are {best}, not those of {node} in {dict(totals)}"


def _copied(
    copies: Copies, attempt: Attempt, node: str, decision: Decision
) -> dict[str, tuple[Any, Any]]:
    """Returns what the copy has that the page uses for an attempt, beside the decision."""
    earlier: dict[str, tuple[Any, Any]] = {"earlier copies": (list(copies.problems()), [])}
    copied, facts = _facts(copies.add(attempt, node)), _facts(decision)
    return earlier | {f"copied {name}": (copied[name], facts[name]) for name in COPIED}


def _rejections(decision: Decision, expected: Mapping[str, Rejection]) -> Iterator[str]:
    """Compares the nodes that a plugin rejected; those that PreFilter leaves out have a text."""
    actual = {
        name: Rejection(it.code, it.reasons, it.plugin)
        for name, it in decision.rejected.items()
        if name in expected or not _is_left_out(it.reasons)
    }
    if actual != expected:
        yield f"the decision rejects {actual}, not {dict(expected)}"


def _is_left_out(reasons: Sequence[str]) -> bool:
    return any("didn't satisfy plugin" in reason for reason in reasons)


def _differences(pairs: Mapping[str, tuple[Any, Any]]) -> Iterator[str]:
    for what, (actual, expected) in pairs.items():
        if actual != expected:
            yield f"the decision has the {what} {actual}, not {expected}"
