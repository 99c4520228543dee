"""Converted legacy Policies, loaded by the real kube-scheduler."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.config import loads, upstream_yaml
from mooring.config.legacy_policy import convert_policy
from mooring.config.legacy_policy.names import PREDICATES, PRIORITIES
from mooring.objects.files.yaml_text import yaml_text
from mooring.testing.controlplane.programs import run_program
from tests.helpers.policies import policy, predicates, priorities

#: Never asked: kube-scheduler only wants to know one before it writes its configuration.
MASTER = "http://127.0.0.1:1"

SHAPE = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]

POLICIES = {
    "nothing": policy(),
    "no predicate and no priority": policy(predicates=[], priorities=[]),
    "some of both": policy(
        predicates=predicates("GeneralPredicates", "NoVolumeZoneConflict"),
        priorities=priorities(MostRequestedPriority=3, EvenPodsSpreadPriority=2),
    ),
    "all of both": policy(
        predicates=predicates(*PREDICATES),
        priorities=priorities(**dict.fromkeys(PRIORITIES, 2)),
        hardPodAffinitySymmetricWeight=10,
    ),
    "arguments": policy(
        predicates=[{"name": "a", "argument": {"labelsPresence": {"labels": ["x", "y"]}}}],
        priorities=[
            {
                "name": "b",
                "weight": 4,
                "argument": {"requestedToCapacityRatioArguments": {"shape": SHAPE}},
            }
        ],
    ),
    "an extender": policy(
        extenders=[
            {
                "urlPrefix": "https://127.0.0.1:2/scheduler",
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "weight": 5,
                "BindVerb": "bind",
                "enableHttps": True,
                "httpTimeout": 1_500_000_000,
                "nodeCacheCapable": True,
                "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}],
                "ignorable": True,
            }
        ]
    ),
}


@pytest.mark.parametrize("text", POLICIES.values(), ids=POLICIES)
def test_kube_scheduler_reads_it_and_fills_in_the_same(
    text: str, programs: Path, tmp_path: Path
) -> None:
    result = yaml_text(convert_policy(text).document)
    given, complete = tmp_path / "given.yaml", tmp_path / "complete.yaml"
    given.write_text(result)
    command: list[str | Path] = [programs / "kube-scheduler", "--config", given]
    ended = run_program([*command, "--master", MASTER, "--write-config-to", complete], limit_s=60)
    assert complete.exists(), ended.stderr
    assert upstream_yaml(loads(result)) == complete.read_text()
