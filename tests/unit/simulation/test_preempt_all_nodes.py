"""Recordings are replayed with a preemption that looks at every node."""

from __future__ import annotations

from mooring.config import default_configuration, loads
from mooring.config.types import DefaultPreemptionArgs
from mooring.simulation.preempt_all_nodes import with_all_candidate_nodes

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: one
  pluginConfig:
  - name: DefaultPreemption
    args: {minCandidateNodesPercentage: 5, minCandidateNodesAbsolute: 7}
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
- schedulerName: two
"""


def test_every_profiles_preemption_has_all_nodes_and_nothing_else_changes() -> None:
    before = loads(CONFIG)
    after = with_all_candidate_nodes(before)

    for profile, old in zip(after.profiles, before.profiles, strict=True):
        args = profile.args("DefaultPreemption")
        assert isinstance(args, DefaultPreemptionArgs)
        assert args.min_candidate_nodes_percentage == 100
        assert profile.args("NodeResourcesFit") == old.args("NodeResourcesFit")
        assert (profile.scheduler_name, profile.plugins) == (old.scheduler_name, old.plugins)
    assert after.profiles[0].args("DefaultPreemption").min_candidate_nodes_absolute == 7
    assert before.profiles[0].args("DefaultPreemption").min_candidate_nodes_percentage == 5


def test_of_a_configuration_without_its_arguments_too() -> None:
    (profile,) = with_all_candidate_nodes(default_configuration()).profiles

    assert profile.args("DefaultPreemption") == DefaultPreemptionArgs(
        min_candidate_nodes_percentage=100
    )
