"""DeviceTaintRules of files count with their feature gate, and are named without it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring import Cluster
from mooring.cli import main
from mooring.errors import ConfigError

GATE = "DRADeviceTaintRules=true"
NOTE = "ignored, since the feature gate DRADeviceTaintRules is off: 1 DeviceTaintRule"
RULE = """
apiVersion: resource.k8s.io/v1beta2
kind: DeviceTaintRule
metadata: {name: maintenance}
spec:
  deviceSelector: {driver: gpu.test, pool: a}
  taint: {key: broken, value: fan, effect: NoSchedule}
"""
CLUSTER = (
    """
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: gpu.test
  nodeName: a
  pool: {name: a, generation: 1, resourceSliceCount: 1}
  devices:
  - name: d0
    taints: [{key: own, effect: NoSchedule}]
  - {name: d1}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: one}
spec: {devices: {requests: [{name: g, exactly: {deviceClassName: gpu}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  resourceClaims: [{name: g, resourceClaimName: one}]
  containers: [{name: c, image: i, resources: {claims: [{name: g}]}}]
---
"""
    + RULE
)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER)
    return str(path)


def node_of(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    captured = capsys.readouterr()
    placed = json.loads(captured.out)["placements"]
    return "".join(pod["node"] for pod in placed), captured.err


def test_simulate_applies_rules_with_the_gate(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--cluster", file, "-o", "json"]) == 0
    assert node_of(capsys) == ("a", f"mooring simulate: note: {NOTE}\n")

    assert main(["simulate", "--cluster", file, "-o", "json", "--feature-gates", GATE]) == 0
    assert node_of(capsys) == ("", "")


def test_explain_names_the_rule_of_a_taint(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "web", "--cluster", file, "--feature-gates", GATE]) == 0

    text = capsys.readouterr().out
    assert "taint own:NoSchedule is on 1 device: gpu.test/a/d0" in text
    rule = "taint broken=fan:NoSchedule of DeviceTaintRule maintenance is on 1 device"
    assert f"{rule}: gpu.test/a/d1" in text


def test_a_recording_is_replayed_with_the_gate(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = str(tmp_path / "saved.json")
    assert main(["simulate", "--cluster", file, "--save", saved, "--feature-gates", GATE]) == 0
    capsys.readouterr()

    assert main(["replay", saved, "--feature-gates", GATE]) == 0
    assert capsys.readouterr().err == ""

    assert main(["replay", saved]) == 1
    captured = capsys.readouterr()
    assert captured.err == f"mooring replay: note: {saved}: {NOTE}\n"

    assert main(["explain", "web", "--recording", saved, "--feature-gates", GATE]) == 0
    assert "of DeviceTaintRule maintenance" in capsys.readouterr().out


def test_python_takes_gates_by_name_and_as_text(file: str) -> None:
    cluster = Cluster.read(file)
    with pytest.warns(UserWarning, match=NOTE):
        assert cluster.simulate()["web"].node == "a"
    assert cluster.simulate(feature_gates=GATE)["web"].node == ""
    assert cluster.simulate(feature_gates={"DRADeviceTaintRules": True})["web"].node == ""
    explanation = str(cluster.simulate(feature_gates=GATE)["web"].explain())
    assert "of DeviceTaintRule maintenance" in explanation


@pytest.mark.parametrize(
    ("gates", "text"),
    [
        ("NoSuchGate=true", "unrecognized feature gate: NoSuchGate"),
        ("DRADeviceTaintRules", "missing bool value for DRADeviceTaintRules"),
        ("GenericWorkload=true", "scheduling of pod groups is not implemented"),
        ("DRADeviceTaintRules=true,DRADeviceTaints=false", "depends on features that are disabled"),
    ],
)
def test_gates_are_refused_as_by_kube_scheduler(
    gates: str, text: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--cluster", file, "--feature-gates", gates]) == 2
    assert text in capsys.readouterr().err
    with pytest.raises(ConfigError, match=text):
        Cluster.read(file).simulate(feature_gates=gates)


def test_other_gates_of_devices_can_be_switched_off(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    gates = f"{GATE},DRADeviceTaintRules=false,DRADeviceTaints=false"
    assert main(["simulate", "--cluster", file, "-o", "json", "--feature-gates", gates]) == 0
    assert node_of(capsys)[0] == "a"


def test_a_rule_of_another_version_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "old.yaml"
    path.write_text(CLUSTER.replace("v1beta2", "v1alpha3"))

    assert main(["simulate", "--cluster", str(path), "--feature-gates", GATE]) == 2
    error = capsys.readouterr().err
    assert "DeviceTaintRule maintenance" in error
    assert "is read only as resource.k8s.io/v1beta2" in error


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("effect: NoSchedule}\n", "}\n", "spec.taint.effect: Required value"),
        (
            "fan, effect: NoSchedule",
            "fan, effect: Never",
            'spec.taint.effect: Unsupported value: "Never": '
            'supported values: "NoExecute", "NoSchedule", "None"',
        ),
        ("key: broken, ", "", 'spec.taint.key: Invalid value: "": name part must be non-empty'),
        ("value: fan", "value: fan!", 'spec.taint.value: Invalid value: "fan!"'),
        ("driver: gpu.test, ", 'driver: "", ', "spec.deviceSelector.driver: Required value"),
        ("pool: a}\n  taint", "pool: a//b}\n  taint", "spec.deviceSelector.pool: Invalid value"),
        (
            "pool: a}\n  taint",
            "device: D}\n  taint",
            'spec.deviceSelector.device: Invalid value: "D"',
        ),
        ("pool: a}\n  taint", "node: a}\n  taint", "spec.deviceSelector.node: unknown field"),
        ("value: fan", "timeAdded: today", "spec.taint.timeAdded: "),
        ("name: maintenance", "name: Main_tenance", 'metadata.name: Invalid value: "Main_tenance"'),
    ],
)
def test_an_invalid_rule_is_refused_as_by_the_api_server(
    before: str, after: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert before in RULE
    path = tmp_path / "invalid.yaml"
    path.write_text(CLUSTER.replace(RULE, RULE.replace(before, after)))

    for command in (["simulate"], ["explain", "web"]):
        assert main([*command, "--cluster", str(path), "--feature-gates", GATE]) == 2
        assert text in capsys.readouterr().err


def test_start_serves_rules_with_the_gate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER)
    arguments = ["start", "--virtual", "--cluster", str(path), "-o", "json"]

    assert main([*arguments, "--feature-gates", GATE]) == 0
    with_gate = capsys.readouterr()
    assert main(arguments) == 0
    without = capsys.readouterr()

    assert (json.loads(with_gate.out)["bound"], json.loads(without.out)["bound"]) == (0, 1)
    assert "DeviceTaintRule" not in with_gate.err
