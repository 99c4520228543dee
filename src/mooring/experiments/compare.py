"""Compares variants: paired differences of measures, moved pods, and the first other decision."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mooring.decision import Decision
from mooring.errors import ConfigError
from mooring.experiments.trials import Trial, Variant
from mooring.framework import Attempt, Diagnosis, Placement
from mooring.queue import QueuedPod
from mooring.scenario.expectations import is_duration, limit_of
from mooring.scenario.hooks import RunHooks
from mooring.scenario.run import ScenarioRun
from mooring.scenario.text import unit_of
from mooring.scheduler.observer import Observer
from mooring.simulation.outcome import decision_of as outcome_decision
from mooring.statistics import Better, PairedDifference, paired_difference

#: Beginnings of the measures of which more is better; of all others, less is.
_HIGHER: Final = (
    "allocated",
    "throughput",
    "pods.succeeded",
    "pods.bound",
    "jobs.complete",
)
#: The measures that are shown, if they are there: those of an event only if it happened.
_SHOWN: Final = (
    *("wait.mean", "wait.p50", "wait.p99", "turnaround.mean", "slowdown.p99"),
    *("jobs.turnaround.mean", "pending.mean", "pods.pending"),
)
_SHOWN_IF_ANY: Final = ("pods.failed", "evictions", "preemptions", "lost.cpu", "nodes.mean", "cost")
_LIMIT: Final = re.compile(r"\s*(\S+)\s+([+-])\s*([^\s+-]\S*)\s*")


@dataclass(frozen=True, slots=True)
class Row:
    """One measure of a candidate beside the baseline."""

    measure: str
    difference: PairedDifference


@dataclass(frozen=True, slots=True)
class Moves:
    """The pods that differ between two runs with one seed.

    Attributes:
        seed: Of both runs.
        n_pods: The pods of the baseline.
        moved: Pods that were bound to another node.
        retimed: Pods that were bound to the same node at another time.
        newly_bound: Pods that only the candidate bound.
        newly_unbound: Pods that only the baseline bound.
        first: The pod whose binding differs first; "" = none does.
        at_s: When it was decided, in the earlier of both runs.
    """

    seed: int
    n_pods: int
    moved: Sequence[str]
    retimed: Sequence[str]
    newly_bound: Sequence[str]
    newly_unbound: Sequence[str]
    first: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A candidate beside the baseline."""

    baseline: str
    candidate: str
    seeds: Sequence[int]
    rows: Sequence[Row]
    moves: Moves


def better_of(measure: str) -> Better:
    """Returns whether lower or higher values of a measure are better."""
    return "higher" if measure.startswith(_HIGHER) else "lower"


def shown_measures(trials: Sequence[Trial]) -> list[str]:
    """Returns the measures that are compared unless others are asked for."""
    there = set.intersection(*(set(trial.summary) for trial in trials))
    names: list[str] = [name for name in _SHOWN if name in there]
    for short in trials[0].resources.values():
        names += [f"allocated.{short}", f"stranded.{short}", f"fragmentation.{short}"]
    for name in _SHOWN_IF_ANY:
        if any(trial.summary.get(name) for trial in trials):
            names.append(name)
    return [name for name in names if name in there]


def compare(
    baseline: Sequence[Trial],
    candidate: Sequence[Trial],
    measures: Sequence[str] = (),
    *,
    limits: Sequence[Limit] = (),
) -> Comparison:
    """Returns the differences between two variants with the same seeds.

    Args:
        baseline: Its trials.
        candidate: Its trials, in the same order of seeds.
        measures: The measures; () = those that are usual.
        limits: Their measures are compared, too, if every run has a value for them.

    Raises:
        ConfigError: a run has no value for a measure.
    """
    trials = [*baseline, *candidate]
    names = [*(measures or shown_measures(trials))]
    limited = dict.fromkeys(limit.measure for limit in limits)
    names += [
        name
        for name in limited
        if name not in names and all(name in trial.summary for trial in trials)
    ]
    rows = []
    for name in names:
        for trial in trials:
            if name not in trial.summary:
                problem = f"{trial.variant} with seed {trial.seed} has no such value"
                raise ConfigError(problem, path="measure", value=name)
        old, new = ([trial.summary[name] for trial in own] for own in (baseline, candidate))
        rows.append(Row(name, paired_difference(old, new, better=better_of(name))))
    return Comparison(
        baseline[0].variant,
        candidate[0].variant,
        [trial.seed for trial in baseline],
        rows,
        moves_of(baseline[0], candidate[0]),
    )


def moves_of(baseline: Trial, candidate: Trial) -> Moves:
    """Returns the pods that differ between two runs."""
    moved: list[str] = []
    retimed: list[str] = []
    newly_bound: list[str] = []
    newly_unbound: list[str] = []
    first, first_s = "", float("inf")
    for pod, (old_s, old_node) in baseline.placements.items():
        new_s, new_node = candidate.placements.get(pod, (None, ""))
        if (old_s, old_node) == (new_s, new_node):
            continue
        if old_node and new_node:
            (moved if old_node != new_node else retimed).append(pod)
        elif new_node:
            newly_bound.append(pod)
        else:
            newly_unbound.append(pod)
        at_s = min(time_s for time_s in (old_s, new_s) if time_s is not None)
        if at_s < first_s:
            first, first_s = pod, at_s
    newly_bound += [
        pod
        for pod, (_, node) in candidate.placements.items()
        if node and pod not in baseline.placements
    ]
    return Moves(
        baseline.seed,
        len(baseline.placements),
        moved,
        retimed,
        newly_bound,
        newly_unbound,
        first,
        first_s,
    )


# -- the first decision -------------------------------------------------------------------------


class _DecisionOf(Observer):
    """Keeps the last decision about one pod up to an instant."""

    def __init__(self, pod: str) -> None:
        self.decision: Decision | None = None
        self._pod = pod

    def attempted(self, entry: QueuedPod, attempt: Attempt, result: Placement | Diagnosis) -> None:
        if entry.pod.key == self._pod and (self.decision is None or self.decision.node is None):
            self.decision = outcome_decision(attempt, result)


def decision_of(variant: Variant, seed: int, pod: str) -> Decision | None:
    """Runs a variant once more, and returns the decision that bound a pod (or its last one)."""
    observer = _DecisionOf(pod)
    ScenarioRun(variant.scenario(seed), RunHooks(observer=observer)).run()
    return observer.decision


# -- limits -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limit:
    """A change of a measure that is not accepted.

    Attributes:
        measure: Its name.
        change: The largest accepted change, with its sign.
        is_relative: Whether it is a share of the baseline.
        text: As it was written.
    """

    measure: str
    change: float
    is_relative: bool
    text: str

    def is_broken(self, difference: PairedDifference) -> bool:
        """Returns whether a difference goes beyond the limit, and is more than chance."""
        if difference.n > 1 and not difference.is_shown:
            return False
        mean = difference.interval.mean
        limit = self.change * abs(difference.baseline_mean) if self.is_relative else self.change
        # The sign of -0 counts, too: nothing may be lost.
        return mean < limit if math.copysign(1.0, self.change) < 0 else mean > limit


def limit_from(text: str) -> Limit:
    """Returns a limit of the form "wait.p99 +5%", "wait.mean +30s" or "allocated.cpu -2%".

    Raises:
        ConfigError: it has another form, or is a duration for a measure that is none.
    """
    match = _LIMIT.fullmatch(text)
    amount = None if match is None else limit_of(match[3])
    if match is None or amount is None:
        problem = 'must be a measure and a change such as "wait.p99 +5%" or "wait.mean +30s"'
        raise ConfigError(problem, path="--fail-if", value=text)
    unit = unit_of(match[1])
    if unit not in ("", "s") and is_duration(match[3]):
        problem = f"must be a number or a share: the unit of {match[1]} is {unit}, not seconds"
        raise ConfigError(problem, path="--fail-if", value=text)
    sign = -1.0 if match[2] == "-" else 1.0
    return Limit(match[1], sign * amount, match[3].endswith("%"), text.strip())


def broken_limits(comparison: Comparison, limits: Sequence[Limit]) -> list[tuple[Limit, Row]]:
    """Returns the limits that a comparison breaks.

    Raises:
        ConfigError: a limit names no measure of the comparison.
    """
    rows: Mapping[str, Row] = {row.measure: row for row in comparison.rows}
    for limit in limits:
        if limit.measure not in rows:
            raise ConfigError("is not compared", path="--fail-if", value=limit.measure)
    return [
        (limit, rows[limit.measure])
        for limit in limits
        if limit.is_broken(rows[limit.measure].difference)
    ]
