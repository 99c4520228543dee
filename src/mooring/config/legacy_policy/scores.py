"""What the priorities of a Policy come to: which plugins score, with what weight, and how.

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
    """What the priorities say.

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
    """What a list of priorities comes to; what has no successor is noted."""
    if priorities is None:
        text = "priorities are left out, so the default scores count, with today's weights"
        notes.append(Note((), text))
        return Scores()
    said: dict[str, int] = {}
    curve: _Curve | None = None
    for i, priority in enumerate(priorities):
        path = ("priorities", i)
        if priority.name in GONE_PRIORITIES:
            text = f"{priority.name} is gone: {GONE_PRIORITIES[priority.name]}"
            notes.append(Note(path, text))
        elif priority.name in PRIORITIES:
            _take(priority, said, path, notes)
        else:
            curve = _by_argument(priority, path, notes) or curve
    weights = {
        PRIORITIES[name]: weight
        for name, weight in said.items()
        if name not in (LEAST_REQUESTED, MOST_REQUESTED, *_SPREAD)
    }
    if any(name in said for name in _SPREAD):
        weights["PodTopologySpread"] = _spread_weight(said, notes)
    fit = _fit(said, curve, notes)
    if fit:
        weights["NodeResourcesFit"] = fit[0]
    has_default_spread = EVEN_PODS_SPREAD not in said or SELECTOR_SPREAD in said
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


def _take(priority: Priority, said: dict[str, int], path: Path, notes: list[Note]) -> None:
    """Notes the weight of a priority with a name of kube-scheduler's own: the last one counts."""
    name = SELECTOR_SPREAD if priority.name == SERVICE_SPREADING else priority.name
    if said.get(name, priority.weight) != priority.weight:
        text = f"{priority.name} for the second time: the last weight, {priority.weight}, counts"
        notes.append(Note(path, text))
    if priority.argument is not None:
        notes.append(
            Note(path, f"{priority.name} takes no argument: left out, as kube-scheduler did")
        )
    said[name] = priority.weight


def _by_argument(priority: Priority, path: Path, notes: list[Note]) -> _Curve | None:
    """What a priority with a name of one's own does: only a curve has a successor."""
    assert priority.argument is not None
    ratio = priority.argument.requested_to_capacity_ratio_arguments
    if ratio is not None:
        name = priority.name or "requestedToCapacityRatioArguments"
        return _Curve(name, priority.weight, _strategy(ratio))
    (kind,) = kinds(priority.argument)
    notes.append(Note(path, f"{kind} is gone: {GONE_ARGUMENTS[kind]}"))
    return None


def _strategy(ratio: RatioArguments) -> dict[str, Any]:
    shape = [{"utilization": each.utilization, "score": each.score} for each in ratio.shape]
    strategy: dict[str, Any] = {"type": "RequestedToCapacityRatio"}
    if ratio.resources:
        strategy["resources"] = [
            {"name": each.name, "weight": each.weight or 1} for each in ratio.resources
        ]
    strategy["requestedToCapacityRatio"] = {"shape": shape}
    return strategy


def _spread_weight(said: dict[str, int], notes: list[Note]) -> int:
    """Returns the weight of PodTopologySpread, which stands for several priorities.

    Upstream meant to take the largest, but changed a copy: what came first by name stayed.
    """
    found = [name for name in _SPREAD if name in said]
    if len({said[name] for name in found}) > 1:
        text = f"{' and '.join(found)} are one plugin now; the weight of {found[0]} counts"
        notes.append(Note(("priorities",), text))
    return said[found[0]]


def _fit(
    said: dict[str, int], curve: _Curve | None, notes: list[Note]
) -> tuple[int, dict[str, Any] | None] | None:
    """Returns the weight of NodeResourcesFit and its strategy; None if it does not score."""
    least, most = said.get(LEAST_REQUESTED, 0), said.get(MOST_REQUESTED, 0)
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
