"""Converts the priorities of a Policy to score plugins, weights and arguments.

NodeResourcesFit scores in one way only, where a Policy could name several: ``LeastRequested`` and
``MostRequested`` add up to the same for every node, so one takes from the other; beside a curve the
heavier counts.

Source: AppendPriorityConfigs and ProcessPriorityPolicy in pkg/scheduler/framework/plugins/
legacy_registry.go of Kubernetes v1.22.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mooring.config.legacy_policy.checks import kinds
from mooring.config.legacy_policy.names import (
    EVEN_PODS_SPREAD,
    GONE_ARGUMENTS,
    GONE_PRIORITIES,
    LEAST_REQUESTED,
    MOST_REQUESTED,
    PRIORITIES,
    SELECTOR_SPREAD,
    SERVICE_SPREADING,
)
from mooring.config.legacy_policy.types import Note, Priority, RatioArguments
from mooring.config.plugin_defaults import DEFAULT_PLUGINS, POINTS
from mooring.config.plugin_sets import camel
from mooring.objects.files.documents import Path

_SPREAD = (EVEN_PODS_SPREAD, SELECTOR_SPREAD)


class Scores(NamedTuple):
    """Score plugins of the priorities.

    Attributes:
        weights: Plugin -> weight; None: the list is missing, so the defaults count.
        strategy: ``scoringStrategy`` of NodeResourcesFit; None: the default, LeastAllocated.
        has_default_spread: Whether PodTopologySpread spreads pods that do not ask for it.
    """

    weights: dict[str, int] | None = None
    strategy: dict[str, Any] | None = None
    has_default_spread: bool = True


class _Curve(NamedTuple):
    """A priority that scores by a curve."""

    name: str
    weight: int
    strategy: dict[str, Any]


def scores(priorities: tuple[Priority, ...] | None, notes: list[Note]) -> Scores:
    """Converts a list of priorities; adds a note for each one without a successor."""
    if priorities is None:
        text = "priorities are left out, so the default scores count, with today's weights"
        notes.append(Note((), text))
        return Scores()
    entry: dict[str, int] = {}
    curve: _Curve | None = None
    for i, priority in enumerate(priorities):
        path = ("priorities", i)
        if priority.name in GONE_PRIORITIES:
            text = f"{priority.name} is gone: {GONE_PRIORITIES[priority.name]}"
            notes.append(Note(path, text))
        elif priority.name in PRIORITIES:
            _take(priority, entry, path, notes)
        else:
            curve = _by_argument(priority, path, notes) or curve
    weights = {
        PRIORITIES[name]: weight
        for name, weight in entry.items()
        if name not in (LEAST_REQUESTED, MOST_REQUESTED, *_SPREAD)
    }
    if any(name in entry for name in _SPREAD):
        weights["PodTopologySpread"] = _spread_weight(entry, notes)
    fit = _fit(entry, curve, notes)
    if fit:
        weights["NodeResourcesFit"] = fit[0]
    has_default_spread = EVEN_PODS_SPREAD not in entry or SELECTOR_SPREAD in entry
    return Scores(weights, fit[1] if fit else None, has_default_spread)


def score_points(scores: Scores) -> dict[str, Any]:
    """Switches all scores off, and on again those that are listed."""
    if scores.weights is None:
        return {}
    points: dict[str, Any] = {}
    for point in ("pre_score", "score"):
        enabled: list[dict[str, Any]] = [
            {"name": name} for name in DEFAULT_PLUGINS if name in scores.weights
        ]
        enabled = [entry for entry in enabled if point in POINTS[entry["name"]]]
        if point == "score":
            enabled = [{**entry, "weight": scores.weights[entry["name"]]} for entry in enabled]
        points[camel(point)] = {"disabled": [{"name": "*"}]}
        if enabled:
            points[camel(point)]["enabled"] = enabled
    return points


def _take(priority: Priority, weights: dict[str, int], path: Path, notes: list[Note]) -> None:
    """Notes the weight of a priority with a name of kube-scheduler's own: the last one counts."""
    name = SELECTOR_SPREAD if priority.name == SERVICE_SPREADING else priority.name
    if weights.get(name, priority.weight) != priority.weight:
        text = f"{priority.name} for the second time: the last weight, {priority.weight}, counts"
        notes.append(Note(path, text))
    if priority.argument is not None:
        notes.append(
            Note(path, f"{priority.name} takes no argument: left out, as kube-scheduler did")
        )
    weights[name] = priority.weight


def _by_argument(priority: Priority, path: Path, notes: list[Note]) -> _Curve | None:
    """Converts a custom priority: only a curve has a successor."""
    assert priority.argument is not None
    ratio = priority.argument.requested_to_capacity_ratio_arguments
    if ratio is not None:
        name = priority.name or "requestedToCapacityRatioArguments"
        return _Curve(name, priority.weight, _strategy(ratio))
    (kind,) = kinds(priority.argument)
    notes.append(Note(path, f"{kind} is gone: {GONE_ARGUMENTS[kind]}"))
    return None


def _strategy(ratio: RatioArguments) -> dict[str, Any]:
    shape = [{"utilization": item.utilization, "score": item.score} for item in ratio.shape]
    strategy: dict[str, Any] = {"type": "RequestedToCapacityRatio"}
    if ratio.resources:
        strategy["resources"] = [
            {"name": item.name, "weight": item.weight or 1} for item in ratio.resources
        ]
    strategy["requestedToCapacityRatio"] = {"shape": shape}
    return strategy


def _spread_weight(weights: dict[str, int], notes: list[Note]) -> int:
    """Returns the weight of PodTopologySpread, which stands for several priorities.

    Upstream meant to take the largest, but changed a copy: what came first by name stayed.
    """
    arguments = [name for name in _SPREAD if name in weights]
    if len({weights[name] for name in arguments}) > 1:
        text = f"{' and '.join(arguments)} are one plugin now; the weight of {arguments[0]} counts"
        notes.append(Note(("priorities",), text))
    return weights[arguments[0]]


def _fit(
    weights: dict[str, int], curve: _Curve | None, notes: list[Note]
) -> tuple[int, dict[str, Any] | None] | None:
    """Returns the weight of NodeResourcesFit and its strategy; None if it does not score."""
    least, most = weights.get(LEAST_REQUESTED, 0), weights.get(MOST_REQUESTED, 0)
    if least and most:
        text = (
            f"{LEAST_REQUESTED} and {MOST_REQUESTED} add up to the same for every node: what one "
            f"weighs more counts, {abs(least - most)}"
        )
        notes.append(Note(("priorities",), text))
    weight = abs(least - most)
    name = LEAST_REQUESTED if least > most else MOST_REQUESTED
    if curve is None:
        if not weight:
            return None
        return weight, None if least > most else {"type": "MostAllocated"}
    if weight:
        best, other = (curve.name, name) if curve.weight >= weight else (name, curve.name)
        text = f"NodeResourcesFit scores in one way only: as {best}, not as {other}"
        notes.append(Note(("priorities",), text))
    if curve.weight >= weight:
        return curve.weight, curve.strategy
    return weight, None if least > most else {"type": "MostAllocated"}
