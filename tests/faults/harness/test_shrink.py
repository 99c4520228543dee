"""A failing scenario becomes as small as it can, and still fails."""

from __future__ import annotations

import pytest

from tests.faults.harness.faults import Faults
from tests.faults.harness.scenario import Scenario, drawn_faults
from tests.faults.harness.shrink import shrink, violation_of
from tests.faults.harness.swarm import CYCLE, scenario_of
from tests.faults.harness.trace import Trace, Violation
from tests.faults.planted.whole_runs import Patch, count_one_less


def breaks_if(condition: str) -> Violation:
    return Violation(1.0, "L2", condition)


def test_what_the_violation_does_not_need_is_removed() -> None:
    def run(scenario: Scenario) -> Violation | None:
        faults = scenario.faults or Faults(lost=0.1, slow=0.2, cut=0.3)
        is_broken = faults.lost > 0 and scenario.pods >= 5 and scenario.user_actions >= 7
        return breaks_if("too many") if is_broken else None

    scenario = Scenario(1, faults=Faults(lost=0.1, slow=0.2, cut=0.3))

    smallest = shrink(scenario, run).scenario

    assert smallest.faults == Faults(lost=0.1)
    assert (smallest.pods, smallest.user_actions) == (5, 7)
    assert smallest.nodes == smallest.n_safe + 1


def test_another_rule_is_another_failure() -> None:
    def run(scenario: Scenario) -> Violation | None:
        return Violation(1.0, "L2" if scenario.pods >= 12 else "S1", "")

    assert shrink(Scenario(1, faults=Faults()), run).scenario.pods == 12


def test_a_run_that_holds_cannot_be_shrunk() -> None:
    with pytest.raises(ValueError, match="seed 1 breaks no rule"):
        shrink(Scenario(1), lambda _: None)


@pytest.mark.filterwarnings("ignore")
def test_a_planted_bug_is_shown_by_a_smaller_scenario() -> None:
    with Patch.context() as patch:
        count_one_less(patch)
        scenario = next(s for s in map(scenario_of, range(9)) if violation_of(s) is not None)
        smallest = shrink(scenario)
        size = smallest.scenario.pods + smallest.scenario.user_actions

        assert violation_of(smallest.scenario) == smallest.violation
        assert size < scenario.pods + scenario.user_actions


def test_the_faults_of_a_scenario_are_known_without_a_run() -> None:
    assert drawn_faults(Scenario(7)) == drawn_faults(Scenario(7))
    assert drawn_faults(Scenario(7)) != drawn_faults(Scenario(8))
    assert drawn_faults(Scenario(7, faults=Faults(cut=0.5))) == Faults(cut=0.5)
    hot = drawn_faults(Scenario(7, rate_factor=2.0))
    assert hot.cut == min(0.9, 2.0 * drawn_faults(Scenario(7)).cut)


def test_half_of_the_seeds_have_plain_rates_and_some_of_them_odd_options() -> None:
    scenarios = [scenario_of(seed) for seed in range(10 * CYCLE)]
    plain = [
        scenario
        for scenario in scenarios
        if scenario == Scenario(scenario.seed, is_odd=scenario.is_odd)
    ]

    assert len(plain) >= 50
    assert 10 <= sum(scenario.is_odd for scenario in plain) <= len(plain) / 2
    assert any(scenario.nodes > 60 for scenario in scenarios)
    assert any(scenario.rate_factor > 1 for scenario in scenarios)
    assert any(scenario.busy_s > 200 for scenario in scenarios)
    assert any(scenario.page_size for scenario in scenarios)


def test_a_story_has_the_lines_of_one_pod_and_the_faults() -> None:
    trace = Trace()
    trace.add(1.0, "moved default/pod-1 uid active created")
    trace.add(2.0, "moved default/pod-11 uid active created")
    trace.add(3.0, "fault cut /api/v1/pods")

    assert trace.story("pod-1") == [trace.lines[0], trace.lines[2]]
    assert trace.story() == trace.lines
