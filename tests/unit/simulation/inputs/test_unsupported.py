"""Unsupported fields are reported, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.cli import main
from mooring.config import DEFAULT_PLUGINS, from_document
from mooring.plugins import IN_TREE
from mooring.simulation.inputs.unsupported import notes, without_extenders

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "default-scheduler"}],
}


def test_every_default_plugin_is_built() -> None:
    assert set(DEFAULT_PLUGINS) <= set(IN_TREE)


def test_nothing_is_said_of_input_that_is_used() -> None:
    assert notes(None) == []
    assert notes(from_document(CONFIG)) == []


def test_kinds_that_no_scheduler_reads_are_counted() -> None:
    assert notes(None, {"ConfigMap": 2, "Deployment": 1}) == [
        "ignored, since no scheduler reads these kinds: 2 ConfigMaps, 1 Deployment"
    ]


def test_a_misspelt_kind_gets_a_suggestion() -> None:
    assert notes(None, {"Podd": 1, "NodePool": 2, "cronjob": 1, "Job": 1}) == [
        "ignored, since no scheduler reads these kinds: 1 Podd (did you mean Pod?), 2 NodePools,"
        " 1 cronjob (did you mean CronJob?), 1 Job"
    ]


def test_kinds_of_a_feature_gate_are_named_apart() -> None:
    assert notes(None, {"ConfigMap": 1, "DeviceTaintRule": 2}) == [
        "ignored, since the feature gate DRADeviceTaintRules is off: 2 DeviceTaintRules",
        "ignored, since no scheduler reads these kinds: 1 ConfigMap",
    ]


def test_kinds_of_an_api_servers_admission_are_named_apart() -> None:
    assert notes(None, {"ConfigMap": 1, "LimitRange": 1, "ResourceQuota": 2}) == [
        "ignored, since an API server applies them to new pods, as in mooring start: 1 LimitRange,"
        " 2 ResourceQuotas",
        "ignored, since no scheduler reads these kinds: 1 ConfigMap",
    ]


def test_extenders_are_not_asked_offline() -> None:
    document = {**CONFIG, "extenders": [{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "f"}]}

    config = from_document(document)
    assert notes(config) == ["extenders are not called offline"]
    assert notes(config, is_offline=False) == []


def test_what_extenders_manage_stays_ignored_without_them() -> None:
    managed = [{"name": "example.com/chip", "ignoredByScheduler": True}]
    extender = {"urlPrefix": "http://127.0.0.1:1", "managedResources": managed}
    config = without_extenders(from_document({**CONFIG, "extenders": [extender]}))
    assert config.extenders == ()
    args = config.profiles[0].args("NodeResourcesFit")
    assert args is not None
    assert args.ignored_resources == ("example.com/chip",)


@pytest.mark.parametrize("command", [["simulate"], ["explain", "p"]])
def test_commands_report_a_claim_that_does_not_exist(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: a}}\n---\n"
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}],"
        " resourceClaims: [{name: g, resourceClaimName: g}]}}\n"
    )

    assert main([*command, "--cluster", str(file)]) == 0

    captured = capsys.readouterr()
    note = (
        "1 ResourceClaim is not in the input: default/g; write a complete dump with: mooring dump"
    )
    assert captured.err == (f"mooring simulate: note: {note}\n" if command == ["simulate"] else "")
    assert 'could not find ResourceClaim "default/g"' in captured.out
