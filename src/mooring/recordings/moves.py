"""Summarizes where the pods of a replay go, compared with the recording, and why the first differs.

A step is compared on the recorded state, so a pod that moves does not change the steps after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from mooring.decision import GATED, SCHEDULED, Decision, Rejection
from mooring.objects.counts import counted

#: Pairs of nodes that are shown, and names of pods in a list.
ROUTES_SHOWN: Final = 5
#: The word before a node of the recording.
RECORDED: Final = "recorded"
PODS_SHOWN: Final = 3


class ComparedStep(NamedTuple):
    """A step as recorded and as decided again.

    Attributes:
        number: Its place in the recording, from 0.
        pod: "namespace/name".
        recorded: The decision of the recording.
        decided: The new decision.
        recorded_weights: Plugin -> weight of its score when it was recorded.
        weights: The same for the new decision.
    """

    number: int
    pod: str
    recorded: Decision
    decided: Decision
    recorded_weights: Mapping[str, int]
    weights: Mapping[str, int]

    @property
    def is_other_node(self) -> bool:
        """True if the pod gets another node, a node or none."""
        return self.recorded.node != self.decided.node


class Moves:
    """Collects the steps of a replay; a pod with several steps counts with its last one."""

    def __init__(self, past: str = RECORDED) -> None:
        """Begins without steps; ``past`` is the word before what is not decided now."""
        self._past = past
        self._last: dict[str, ComparedStep] = {}
        self._first: ComparedStep | None = None

    def add(self, step: ComparedStep) -> None:
        """Adds a step."""
        self._last[step.pod] = step
        if self._first is None and step.is_other_node:
            self._first = step

    def lines(self) -> Iterator[str]:
        """Yields the summary as text."""
        moved, placed, refused = self._by_kind()
        total = len(self._last)
        yield (
            f"{len(moved)} of {counted(total, 'pod')} on another node,"
            f" {len(placed)} newly placed, {len(refused)} newly refused"
        )
        routes = _routes(moved)
        for (before, after), count in routes[:ROUTES_SHOWN]:
            yield f"  {before} -> {after}: {counted(count, 'pod')}"
        if len(routes) > ROUTES_SHOWN:
            count = sum(count for _, count in routes[ROUTES_SHOWN:])
            yield f"  ... and {count} more, between {len(routes) - ROUTES_SHOWN} other pairs"
        for title, steps in (("newly placed", placed), ("newly refused", refused)):
            if steps:
                yield f"  {title}: {_names(steps)}"
        if self._first is not None:
            yield f"First: step {self._first.number}, pod {self._first.pod}: {self._why()}"

    def as_dict(self) -> dict[str, Any]:
        """Returns the summary as JSON values."""
        moved, placed, refused = self._by_kind()
        first = self._first
        return {
            "pods": len(self._last),
            "moved": len(moved),
            "routes": [
                {"before": before, "after": after, "pods": count}
                for (before, after), count in _routes(moved)
            ],
            "newly_placed": [step.pod for step in placed],
            "newly_refused": [step.pod for step in refused],
            "first": None
            if first is None
            else {"step": first.number, "pod": first.pod, "why": self._why()},
        }

    def _why(self) -> str:
        assert self._first is not None
        return why(self._first, self._past)

    def _by_kind(self) -> tuple[list[ComparedStep], list[ComparedStep], list[ComparedStep]]:
        changed = [step for step in self._last.values() if step.is_other_node]
        moved = [step for step in changed if step.recorded.node and step.decided.node]
        placed = [step for step in changed if not step.recorded.node]
        refused = [step for step in changed if not step.decided.node]
        return moved, placed, refused


def _routes(moved: list[ComparedStep]) -> list[tuple[tuple[str, str], int]]:
    """Returns (from, to) with the number of pods, the commonest first."""
    counts = Counter((str(step.recorded.node), str(step.decided.node)) for step in moved)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _names(steps: list[ComparedStep]) -> str:
    text = ", ".join(step.pod for step in steps[:PODS_SHOWN])
    rest = len(steps) - PODS_SHOWN
    return f"{text} and {rest} more" if rest > 0 else text


# ---- why ----


def why(step: ComparedStep, past: str = RECORDED) -> str:
    """Returns why a pod gets another node: the rejection or the score that makes the difference.

    ``past`` is the word before the node of ``step.recorded``.
    """
    before, after = step.recorded.node, step.decided.node
    if after is None:
        return f"no node, {past} {before}{_rejected_now(step)}"
    if before is None:
        return f"{after}, {past} no node{_rejected_then(step)}"
    text = f"{after}, {past} {before}"
    cause = _rejected_now(step) or _rejected_then(step) or _score(step, before, after)
    return text + cause


def _rejected_now(step: ComparedStep) -> str:
    """Returns why the recorded node is not possible now; "" = it is."""
    decided, node = step.decided, step.recorded.node
    rejection = decided.rejected.get(node or "") or decided.prefilter
    if rejection is not None:
        return f": {_rejection(rejection)} now rejects {node}"
    if decided.result in (GATED, SCHEDULED):
        plugins = ", ".join(decided.unschedulable_plugins)
        return f": the pod is gated by {plugins}" if decided.result == GATED else ""
    return f": {decided.message}" if decided.message else ""


def _rejected_then(step: ComparedStep) -> str:
    """Returns why the new node was not possible when it was recorded; "" = it was."""
    recorded, node = step.recorded, step.decided.node
    rejection = recorded.rejected.get(node or "") or recorded.prefilter
    return "" if rejection is None else f": {_rejection(rejection)} had rejected {node}"


def _rejection(rejection: Rejection) -> str:
    return f"{rejection.plugin} ({'; '.join(rejection.reasons)})"


def _score(step: ComparedStep, before: str, after: str) -> str:
    """Returns the plugin whose scores changed the order of the two nodes."""
    then, now = step.recorded.total, step.decided.total
    if now is None:
        return ": nodes are not scored now; the first feasible one is taken"
    if then is None and not {before, after} <= now.keys():
        return ": nodes were not scored when it was recorded"
    if then is not None and not {before, after} <= then.keys() & now.keys():
        return ": one of the nodes was not scored in both"
    if now[before] == now[after]:
        return f": both have the total score {now[after]} now; the first one in order is taken"
    gains = {
        plugin: _lead(step.decided, plugin, step.weights, before, after)
        - _lead(step.recorded, plugin, step.recorded_weights, before, after)
        for plugin in {**(step.recorded.scores or {}), **(step.decided.scores or {})}
    }
    plugin = max(gains, key=lambda name: gains[name])
    scores, old = (step.decided.scores or {}).get(plugin), (step.recorded.scores or {}).get(plugin)
    weight, old_weight = step.weights.get(plugin, 1), step.recorded_weights.get(plugin, 1)
    if then is None:
        return (
            f": the total scores are {_pair(now, before, after, 1)}; {plugin} makes most of it:"
            f" {_pair(scores, before, after, weight)}"
        )
    return (
        f": {plugin} scores {_pair(scores, before, after, weight)};"
        f" recorded {_pair(old, before, after, old_weight)}"
    )


def _lead(
    decision: Decision, plugin: str, weights: Mapping[str, int], before: str, after: str
) -> int:
    """Returns by how much a plugin prefers the new node to the recorded one."""
    scores = (decision.scores or {}).get(plugin, {})
    return (scores.get(after, 0) - scores.get(before, 0)) * weights.get(plugin, 1)


def _pair(scores: Mapping[str, int] | None, before: str, after: str, weight: int) -> str:
    if scores is None:
        return "nothing"
    text = f"{after} {scores.get(after, 0)} and {before} {scores.get(before, 0)}"
    return text if weight == 1 else f"{text} (weight {weight})"
