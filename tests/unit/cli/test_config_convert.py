"""``mooring config convert``: what it prints, and that a scheduler runs with it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mooring import cli
from mooring.config.legacy_policy import convert_policy
from mooring.config.legacy_policy.names import (
    GONE_PREDICATES,
    GONE_PRIORITIES,
    PREDICATES,
    PRIORITIES,
)
from mooring.simulation.build import make_driver
from mooring.testing import make_node, make_pod
from tests.helpers.policies import converted, policy, predicates, priorities

POLICY = """apiVersion: v1
kind: Policy
predicates:
- name: GeneralPredicates
- name: PodFitsPorts
priorities:
- {name: MostRequestedPriority, weight: 3}
- {name: EqualPriority, weight: 1}
extenders:
- urlPrefix: http://127.0.0.1:8888/scheduler
  filterVerb: filter
  httpTimeout: 2000000000
"""

CONVERTED = """apiVersion: kubescheduler.config.k8s.io/v1
extenders:
- filterVerb: filter
  httpTimeout: 2s
  urlPrefix: http://127.0.0.1:8888/scheduler
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - args:
      scoringStrategy:
        type: MostAllocated
    name: NodeResourcesFit
  plugins:
    filter:
      disabled:
      - name: VolumeRestrictions
      - name: NodeVolumeLimits
      - name: VolumeBinding
      - name: VolumeZone
      - name: PodTopologySpread
      - name: InterPodAffinity
    preBind:
      disabled:
      - name: VolumeBinding
    preFilter:
      disabled:
      - name: VolumeRestrictions
      - name: NodeVolumeLimits
      - name: VolumeBinding
      - name: VolumeZone
      - name: PodTopologySpread
      - name: InterPodAffinity
    preScore:
      disabled:
      - name: '*'
      enabled:
      - name: NodeResourcesFit
    reserve:
      disabled:
      - name: VolumeBinding
    score:
      disabled:
      - name: '*'
      enabled:
      - name: NodeResourcesFit
        weight: 3
  schedulerName: default-scheduler
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return path


def test_the_result_is_on_standard_output_and_the_notes_on_standard_error(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["config", "convert", str(file)]) == 0
    printed = capsys.readouterr()
    assert printed.out == CONVERTED
    assert printed.err.splitlines() == [
        f"mooring config: note: {file}: line 3: predicates: as before, nothing is filtered by what "
        "is not listed: VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone, "
        "PodTopologySpread, InterPodAffinity",
        f"mooring config: note: {file}: line 8: priorities[1]: EqualPriority is gone: it gave "
        "every node the same score, which decides nothing",
    ]


def test_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config", "convert", str(file), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == convert_policy(POLICY).document


def test_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(POLICY.encode())))
    assert cli.main(["config", "convert", "-"]) == 0
    printed = capsys.readouterr()
    assert printed.out == CONVERTED
    assert "note: <standard input>: line 3: " in printed.err


def test_every_fault_has_its_line_and_nothing_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "policy.json"
    path.write_text('{"apiVersion": "v1", "kind": "Policy",\n "predicates": [{"name": "Host"}]}')
    assert cli.main(["config", "convert", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        f"mooring config: {path}: line 2: predicates[0].name: unknown predicate, "
        "got 'Host' (did you mean 'HostName'?)\n"
    )


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config", "convert", "/nowhere/policy.yaml"]) == 2
    assert "/nowhere/policy.yaml: cannot be read: no such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        POLICY,
        policy(),
        policy(predicates=[], priorities=[]),
        policy(predicates=predicates(*PREDICATES, *GONE_PREDICATES)),
        policy(priorities=priorities(**dict.fromkeys((*PRIORITIES, *GONE_PRIORITIES), 2))),
        policy(
            predicates=[{"name": "a", "argument": {"labelsPresence": {"labels": ["x"]}}}],
            extenders=[{"urlPrefix": "https://a", "enableHttps": True}],
            hardPodAffinitySymmetricWeight=100,
        ),
    ],
)
def test_a_scheduler_can_run_with_the_result(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, result = tmp_path / "policy", tmp_path / "result.yaml"
    path.write_text(text)
    assert cli.main(["config", "convert", str(path)]) == 0
    result.write_text(capsys.readouterr().out)
    assert cli.main(["config", "check", str(result)]) == 0
    assert capsys.readouterr().out == f"{result}: valid: 1 profile, default-scheduler\n"


# ---------------------------------------------------------------- what it decides


#: Every node gets the same; without any score the first node that fits would do.
INDIFFERENT = priorities(ImageLocalityPriority=1)

SMALL = {"cpu": "500m", "memory": "1Gi"}


def decided(text: str, pod: Any) -> Any:
    """Returns the decision on a pod in a cluster of a full, an empty and a labelled node."""
    nodes = [
        make_node("full"),
        make_node("empty"),
        make_node("labelled", labels={"disk": "ssd"}),
    ]
    running = make_pod("running", requests={"cpu": "3", "memory": "1Gi"}, node="full")
    driver = make_driver([*nodes, running], config=converted(text))
    return driver.attempt(pod, explain=True).decision()


def test_without_a_predicate_on_resources_a_pod_fits_anywhere() -> None:
    text = policy(predicates=predicates("HostName"), priorities=INDIFFERENT)
    decision = decided(text, make_pod("big", requests={"cpu": "64"}))
    assert decision.result == "scheduled"
    assert set(decision.tied) == {"full", "empty", "labelled"}


def test_the_priority_for_full_nodes_prefers_them() -> None:
    pod = make_pod("small", requests=SMALL)
    most = policy(priorities=priorities(MostRequestedPriority=1))
    least = policy(priorities=priorities(LeastRequestedPriority=1))
    assert decided(most, pod).node == "full"
    assert decided(least, pod).node != "full"


def test_only_nodes_with_the_label_fit() -> None:
    def fitting(*, presence: bool) -> set[str]:
        argument = {"labelsPresence": {"labels": ["disk"], "presence": presence}}
        named = [{"name": "Disk", "argument": argument}]
        text = policy(predicates=named, priorities=INDIFFERENT)
        return set(decided(text, make_pod("pod")).tied)

    assert fitting(presence=True) == {"labelled"}
    assert fitting(presence=False) == {"full", "empty"}


def test_scores_without_their_filters_still_score() -> None:
    weights = dict.fromkeys(PRIORITIES, 2) | {"MostRequestedPriority": 5}
    text = policy(predicates=[], priorities=priorities(**weights))
    decision = decided(text, make_pod("pod", requests=SMALL))
    assert decision.result == "scheduled"
    assert decision.scores is not None
    assert "NodeResourcesFit" in decision.scores
