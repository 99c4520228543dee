"""What is not looked at yet is said, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.cli import main
from mooring.config import from_document
from mooring.objects import Pod
from mooring.sim.not_built import notes
from mooring.testing import make_pod

SPREAD = {
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    ]
}


def profile(**more: object) -> dict[str, object]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", **more}],
    }


def told(*pods: Pod, **more: object) -> list[str]:
    return notes(from_document(profile(**more)), pods)


def test_nothing_is_said_of_pods_that_ask_for_nothing_more() -> None:
    plain = [make_pod("a", priority=1), make_pod("b", priority=1)]

    assert notes(None, plain) == []
    assert told(*plain) == []


@pytest.mark.parametrize(
    ("spec", "plugin"),
    [
        ({"affinity": {"podAntiAffinity": {}}}, "InterPodAffinity"),
        (
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
            "VolumeBinding",
        ),
        ({"resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}]}, "DynamicResources"),
    ],
)
def test_what_a_pod_asks_of_a_missing_plugin_is_counted(
    spec: dict[str, object], plugin: str
) -> None:
    assert notes(None, [make_pod("a"), make_pod("b", spec=spec)]) == [
        f"{plugin} is not built yet: what 1 pods ask of it is not looked at"
    ]


@pytest.mark.parametrize(
    "spec", [{"volumes": [{"name": "v", "configMap": {"name": "c"}}]}, {"affinity": {}}]
)
def test_volumes_and_affinity_that_no_missing_plugin_reads_are_not_counted(
    spec: dict[str, object],
) -> None:
    assert notes(None, [make_pod("a", spec=spec)]) == []


def test_pods_of_several_priorities_would_preempt() -> None:
    pods = [make_pod("a"), make_pod("b", priority=5)]

    assert notes(None, pods) == [
        "DefaultPreemption is not built yet: no pod makes room for another"
    ]


def test_a_configuration_that_names_a_missing_plugin_is_told_of() -> None:
    why = "is not built yet: what is said of it has no effect"

    args = {"hardPodAffinityWeight": 7}
    assert told(pluginConfig=[{"name": "InterPodAffinity", "args": args}]) == [
        f"profile default-scheduler: InterPodAffinity {why}"
    ]
    weight = {"multiPoint": {"enabled": [{"name": "InterPodAffinity", "weight": 9}]}}
    assert told(plugins=weight) == [f"profile default-scheduler: InterPodAffinity {why}"]


def test_a_missing_plugin_that_is_disabled_is_no_loss() -> None:
    assert told(plugins={"multiPoint": {"disabled": [{"name": "InterPodAffinity"}]}}) == []


def test_kinds_that_no_scheduler_reads_are_counted() -> None:
    assert notes(None, [], {"ConfigMap": 2, "Deployment": 1}) == [
        "no scheduler reads objects of these kinds, they are passed over: 2 ConfigMap, 1 Deployment"
    ]


def test_extenders_are_not_asked_offline() -> None:
    document = {**profile(), "extenders": [{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "f"}]}

    assert notes(from_document(document), []) == [
        "extenders are not asked: mooring simulate and mooring explain work offline"
    ]


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

    assert capsys.readouterr().err == (
        f"mooring {command[0]}: note: DynamicResources is not built yet:"
        " what 1 pods ask of it is not looked at\n"
    )
