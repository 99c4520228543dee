"""Shrinks a failing scenario: fewer kinds of faults, user actions and pods, the same broken rule.

Each step removes something and runs the scenario again; it stays removed if the run still breaks
the same rule. All chance comes from the seed, so each run is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import NamedTuple

from tests.faults.harness.faults import Faults
from tests.faults.harness.scenario import Scenario, drawn_faults, run_scenario
from tests.faults.harness.trace import InvariantBroken, Trace, Violation

Run = Callable[[Scenario], Violation | None]


class Shrunk(NamedTuple):
    """The smallest scenario found that breaks the rule, and how often a scenario was run."""

    scenario: Scenario
    violation: Violation
    n_runs: int


def violation_of(scenario: Scenario, trace: Trace | None = None) -> Violation | None:
    """Runs a scenario; returns the first violation, or None."""
    try:
        run_scenario(scenario, trace)
    except InvariantBroken as broken:
        return broken.violation
    return None


def shrink(scenario: Scenario, run: Run = violation_of) -> Shrunk:
    """Returns a smaller scenario that breaks the same rule.

    Raises:
        ValueError: the scenario breaks no rule.
    """
    violation = run(scenario)
    if violation is None:
        raise ValueError(f"seed {scenario.seed} breaks no rule")
    best = replace(scenario, faults=drawn_faults(scenario), rate_factor=1.0)
    n_runs = 1
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate in _smaller(best):
            n_runs += 1
            other = run(candidate)
            if other is not None and other.rule == violation.rule:
                best, violation, is_smaller = candidate, other, True
                break
    return Shrunk(best, violation, n_runs)


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Yields scenarios with one thing less, the largest cuts first."""
    faults = scenario.faults
    assert faults is not None
    for field in fields(Faults):
        if getattr(faults, field.name):
            yield replace(scenario, faults=replace(faults, **{field.name: 0.0}))
    for name in ("user_actions", "pods"):
        count = getattr(scenario, name)
        for divisor in (2, 4, max(1, count)):
            fewer = count - max(1, count // divisor)
            if 0 <= fewer < count:
                yield replace(scenario, **{name: fewer})
    if scenario.nodes > scenario.n_safe + 1:
        yield replace(scenario, nodes=scenario.nodes - 1)
