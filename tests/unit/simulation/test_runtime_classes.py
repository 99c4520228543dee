"""Pods of runtime classes in a simulation: overhead, nodes and tolerations of their class."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring.objects.defaulting.runtime_classes import merged_tolerations
from tests.helpers.command_line import run_command

NODES = """
apiVersion: v1
kind: Node
metadata: {name: plain}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: Node
metadata: {name: sandbox, labels: {sandbox: "yes"}}
spec: {taints: [{key: sandbox, effect: NoSchedule}]}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: safe}
handler: runsc
overhead: {podFixed: {cpu: 500m}}
scheduling:
  nodeSelector: {sandbox: "yes"}
  tolerations: [{key: sandbox, operator: Exists}]
---
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  runtimeClassName: safe
  containers: [{name: c, image: x, resources: {requests: {cpu: "1"}}}]
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      runtimeClassName: safe
      containers: [{name: c, image: x, resources: {requests: {cpu: "1"}}}]
"""


@pytest.mark.parametrize(("objects", "count"), [(POD, 1), (DEPLOYMENT, 2)])
def test_overhead_counts_and_the_class_selects_the_nodes(
    objects: str, count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(NODES + objects)
    code, out, _ = run_command(capsys, "simulate", "--cluster", str(file), "-o", "json")
    result = json.loads(out)
    assert code == 0
    assert {placement["node"] for placement in result["placements"]} == {"sandbox"}
    assert result["resources"]["cpu"]["requested"] == 1500 * count


def test_a_pod_that_contradicts_its_class_is_an_error_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(NODES + POD + '  nodeSelector: {sandbox: "no"}\n')
    code, _, err = run_command(capsys, "simulate", "--cluster", str(file))
    assert code == 2
    assert f"{file}: document 4" in err
    assert "conflict: runtimeClass.scheduling.nodeSelector[sandbox] = yes" in err


def test_a_toleration_that_another_one_includes_is_left_out() -> None:
    narrow = {"key": "a", "operator": "Equal", "value": "1", "effect": "NoExecute"}
    short = {**narrow, "tolerationSeconds": 5}
    wide = {"key": "a", "operator": "Exists"}
    all_keys = {"operator": "Exists", "effect": "NoExecute"}
    other = {"key": "b", "operator": "Exists"}
    assert merged_tolerations([narrow, wide]) == [wide]
    assert merged_tolerations([wide, narrow, wide]) == [wide]
    assert merged_tolerations([short, narrow]) == [narrow]
    assert merged_tolerations([narrow, short]) == [narrow]
    assert merged_tolerations([narrow, other]) == [narrow, other]
    assert merged_tolerations([narrow, other, all_keys]) == [other, all_keys]
    # Without an operator a toleration includes only those that say Equal.
    unsaid = {"key": "a", "value": "1", "effect": "NoExecute"}
    assert merged_tolerations([narrow, unsaid]) == [unsaid]
    assert merged_tolerations([unsaid, narrow]) == [unsaid]
