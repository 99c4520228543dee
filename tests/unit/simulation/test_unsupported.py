"""Unsupported fields are reported, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.cli import main
from mooring.config import DEFAULT_PLUGINS, from_document
from mooring.plugins import IN_TREE
from mooring.simulation.unsupported import notes, without_extenders
from mooring.testing import make_pod

CLAIM = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}]}
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "default-scheduler"}],
}


def test_every_default_plugin_is_built() -> None:
    assert set(DEFAULT_PLUGINS) <= set(IN_TREE)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"affinity": {"podAntiAffinity": {}}},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
    ],
)
def test_nothing_is_said_of_pods_that_ask_for_what_there_is(spec: dict[str, object]) -> None:
    pods = [make_pod("a", priority=1), make_pod("b", priority=5, spec=spec)]

    assert notes(None, pods) == []
    assert notes(from_document(CONFIG), pods) == []


def test_pods_with_resource_claims_are_counted() -> None:
    pods = [make_pod("a"), make_pod("b", spec=CLAIM), make_pod("c", spec=CLAIM, node="n")]

    assert notes(None, pods) == [
        "DynamicResources allocates no devices yet; pods with resource claims: 2,"
        " of which the pending ones are unschedulable"
    ]


def test_kinds_that_no_scheduler_reads_are_counted() -> None:
    assert notes(None, [], {"ConfigMap": 2, "Deployment": 1}) == [
        "ignored, since no scheduler reads these kinds: 2 ConfigMaps, 1 Deployment"
    ]


def test_extenders_are_not_asked_offline() -> None:
    document = {**CONFIG, "extenders": [{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "f"}]}

    config = from_document(document)
    assert notes(config, []) == ["extenders are not called offline"]
    assert notes(config, [], is_offline=False) == []


def test_what_extenders_manage_stays_ignored_without_them() -> None:
    managed = [{"name": "example.com/chip", "ignoredByScheduler": True}]
    extender = {"urlPrefix": "http://127.0.0.1:1", "managedResources": managed}
    config = without_extenders(from_document({**CONFIG, "extenders": [extender]}))
    assert config.extenders == ()
    args = config.profiles[0].args("NodeResourcesFit")
    assert args is not None
    assert args.ignored_resources == ("example.com/chip",)


@pytest.mark.parametrize("command", [["simulate"], ["explain", "p"]])
def test_commands_say_it_beside_their_output(
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
    assert captured.err == (
        f"mooring {command[0]}: note: DynamicResources allocates no devices yet;"
        " pods with resource claims: 1, of which the pending ones are unschedulable\n"
    )
    assert "DynamicResources cannot allocate devices yet" in captured.out
