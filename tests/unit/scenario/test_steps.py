"""Scenarios of kube-scheduler-simulator: hand-computed steps, and what is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import ConfigError
from mooring.scenario.read import read_scenario
from mooring.scenario.results import Result
from mooring.scenario.run import ScenarioRun
from tests.helpers.command_line import run_command
from tests.helpers.scenario_files import by_pod, deployment, node, pod
from tests.helpers.stage_files import (
    POD_COMPLETE,
    POD_READY,
    Json,
    create,
    delete,
    done,
    patch,
    steps,
    write_stages,
    write_steps,
)


def named(obj: Json, name: str) -> Json:
    return {**obj, "metadata": {"name": name}}


def a_node(name: str, cpu: str = "1") -> Json:
    return named({"apiVersion": "v1", "kind": "Node", **node(cpu=cpu)}, name)


def a_pod(name: str, cpu: str = "1", **more: Any) -> Json:
    return named(pod(cpu, terminationGracePeriodSeconds=0, **more), name)


def a_config_map(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def played(folder: Path, *operations: Json, **options: Any) -> Result:
    path = write_steps(folder, steps(*operations))
    return ScenarioRun(read_scenario(path, **options)).run()


def test_operations_of_a_step_come_before_the_scheduler_whatever_their_order_in_the_file(
    tmp_path: Path,
) -> None:
    result = played(
        tmp_path,
        done(2),
        create(1, a_pod("second")),
        create(0, a_pod("first")),
        create(0, a_node("a")),
        create(2, a_node("b")),
    )
    pods = by_pod(result)
    assert (pods["first"]["node"], pods["first"]["attempts"]) == ("a", 1)
    # Refused in step 1; the node of step 2 lets it in.
    assert (pods["second"]["node"], pods["second"]["attempts"]) == ("b", 2)
    assert pods["second"]["group"] == "step-1"
    assert result.summary["nodes.added"] == 2


def test_a_deleted_pod_makes_room(tmp_path: Path) -> None:
    pods = by_pod(
        played(
            tmp_path,
            create(0, a_node("a")),
            create(0, a_pod("first")),
            create(1, a_pod("second")),
            delete(2, "Pod", "first"),
        )
    )
    assert pods["first"]["final_state"] == "Deleted"
    assert (pods["second"]["node"], pods["second"]["final_state"]) == ("a", "Running")


def test_a_deleted_node_takes_its_pods_with_it(tmp_path: Path) -> None:
    result = played(tmp_path, create(0, a_node("a")), create(0, a_pod("p")), delete(1, "Node", "a"))
    assert by_pod(result)["p"]["final_state"] == "Evicted"
    assert result.summary["nodes.removed"] == 1


@pytest.mark.parametrize(
    ("how", "content"),
    [
        ("merge-patch", {"metadata": {"labels": {"disk": "ssd"}}}),
        ("strategic-merge-patch", {"metadata": {"labels": {"disk": "ssd"}}}),
        ("json-patch", [{"op": "add", "path": "/metadata/labels", "value": {"disk": "ssd"}}]),
    ],
)
def test_a_patched_label_lets_a_pod_in(tmp_path: Path, how: str, content: Any) -> None:
    pods = by_pod(
        played(
            tmp_path,
            create(0, a_node("a")),
            create(1, a_pod("p", nodeSelector={"disk": "ssd"})),
            patch(2, "Node", "a", content, how),
        )
    )
    assert (pods["p"]["node"], pods["p"]["attempts"]) == ("a", 2)


def test_a_node_that_is_patched_as_unschedulable_takes_no_pods_until_it_is_patched_back(
    tmp_path: Path,
) -> None:
    pods = by_pod(
        played(
            tmp_path,
            create(0, a_node("a", "2")),
            patch(1, "Node", "a", {"spec": {"unschedulable": True}}),
            create(2, a_pod("p")),
            patch(3, "Node", "a", {"spec": {"unschedulable": None}}),
        )
    )
    assert (pods["p"]["node"], pods["p"]["attempts"]) == ("a", 2)


def test_a_gate_that_is_patched_away_lets_a_pod_in(tmp_path: Path) -> None:
    pods = by_pod(
        played(
            tmp_path,
            create(0, a_node("a")),
            create(0, a_pod("p", schedulingGates=[{"name": "example.com/wait"}])),
            create(1, a_pod("q")),
            delete(2, "Pod", "q"),
            patch(3, "Pod", "p", {"spec": {"schedulingGates": []}}),
        )
    )
    assert (pods["q"]["final_state"], pods["p"]["node"]) == ("Deleted", "a")


def test_a_patched_deployment_has_other_replicas(tmp_path: Path) -> None:
    result = played(
        tmp_path,
        create(0, a_node("a", "8")),
        create(1, deployment("web", 1)),
        patch(2, "Deployment", "web", {"spec": {"replicas": 3}}),
    )
    assert result.summary["pods.running"] == 3


def test_a_step_waits_until_the_pods_of_the_step_before_have_ended(tmp_path: Path) -> None:
    stages = str(tmp_path / write_stages(tmp_path, POD_READY, POD_COMPLETE))
    pods = by_pod(
        played(
            tmp_path,
            create(0, a_node("a")),
            create(1, a_pod("first")),
            create(2, a_pod("second")),
            stages=[stages],
        )
    )
    # Both start after 2 s and run for 60 s.
    assert [pods[name]["finish_time_s"] for name in ("first", "second")] == [62, 124]
    assert pods["second"]["submission_time_s"] == 62


def test_a_name_can_be_used_again(tmp_path: Path) -> None:
    result = played(
        tmp_path,
        create(0, a_node("a")),
        create(0, a_pod("p")),
        delete(1, "Pod", "p"),
        create(2, a_pod("p")),
        delete(3, "Node", "a"),
        create(4, a_node("a")),
        create(5, a_pod("q")),
    )
    assert result.tables["pods"]["final_state"] == ["Deleted", "Evicted", "Running"]


def test_the_commands_take_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_steps(
        tmp_path,
        steps(create(0, a_node("a")), create(1, a_pod("p"), id="p"), done(2)),
    )
    assert run_command(capsys, "scenario", "check", str(path))[:2] == (0, f"{path}: ok\n")
    shown = run_command(capsys, "scenario", "show", str(path))[1]
    assert "0     operations[0]  create Node a\n" in shown
    assert "1     p              create Pod default/p\n" in shown
    assert "2                    the end" in shown
    code, out, _ = run_command(capsys, "simulate", str(path), "-o", "json")
    assert (code, json.loads(out)["summary"]["pods.running"]) == (0, 1)


def test_what_has_no_effect_is_noted(tmp_path: Path) -> None:
    document = {**steps(create(0, a_node("a"))), "status": {"phase": "Succeeded"}}
    scenario = read_scenario(write_steps(tmp_path, document))
    assert scenario.notes == [
        "status: results of another run are left out",
        "there is no doneOperation: the run ends with the last step",
    ]


def test_the_note_of_a_single_operation_is_in_the_singular(tmp_path: Path) -> None:
    operations = [create(0, a_node("n")), create(0, a_config_map("a")), done(2)]
    scenario = read_scenario(write_steps(tmp_path, steps(*operations)))
    assert scenario.notes == [
        "ConfigMap of v1: left out, it has no part in scheduling "
        "(1 operation, the first on default/a)",
    ]


def test_operations_on_objects_without_a_part_in_scheduling_are_left_out(tmp_path: Path) -> None:
    maps = [a_config_map(name) for name in ("a", "b")]
    meta = {"typeMeta": {"apiVersion": "v1", "kind": "ConfigMap"}, "objectMeta": {"name": "a"}}
    patch = {**meta, "patch": '{"data": {}}', "patchType": "application/merge-patch+json"}
    operations = [
        *(create(0, own) for own in (a_node("n"), a_pod("p"), *maps)),
        {"step": 1, "patchOperation": patch},
        {"step": 2, "deleteOperation": meta},
        done(2),
    ]

    scenario = read_scenario(write_steps(tmp_path, steps(*operations)))

    assert scenario.notes == [
        "ConfigMap of v1: left out, it has no part in scheduling "
        "(4 operations, the first on default/a)",
    ]
    assert ScenarioRun(scenario).run().tables["pods"]["final_state"] == ["Running"]


NODE = create(0, a_node("a"))
#: Operations (or a document) -> path and beginning of the error.
WRONG: list[tuple[list[Json] | Json, str, str]] = [
    ([{"step": 1}], "spec.operations[0]", "must have one of createOperation"),
    ([{**NODE, **done(0)}], "spec.operations[0]", "must have one of createOperation"),
    ([{"createOperation": {"object": a_node("a")}}], "spec.operations[0].step", "is required"),
    ([create(-1, a_node("a"))], "spec.operations[0].step", "must be an integer from 0"),
    ([create(2**31, a_node("a"))], "spec.operations[0].step", "must be an integer from 0"),
    ([{**NODE, "step": "1"}], "spec.operations[0].step", "must be an integer"),
    ([{**NODE, "step": {"major": 1}}], "spec.operations[0].step", "must be an integer"),
    ([{**NODE, "after": 1}], "spec.operations[0].after", "unknown field"),
    ([done(1), create(2, a_node("a"))], "spec.operations[1].step", "comes after the end"),
    ([{**NODE, "id": "x"}, {**done(1), "id": "x"}], "spec.operations[1].id", "is the ID of"),
    ([create(0, pod())], "spec.operations[0].createOperation.object.metadata.name", "is required"),
    (
        [{"step": 0, "createOperation": {"object": []}}],
        "spec.operations[0].createOperation.object",
        "must be a mapping",
    ),
    (
        [
            {
                "step": 0,
                "createOperation": {"object": a_node("a"), "createOptions": {"dryRun": ["All"]}},
            }
        ],
        "spec.operations[0].createOperation.createOptions.dryRun",
        "is not simulated",
    ),
    (
        [{"step": 0, "doneOperation": {"when": "now"}}],
        "spec.operations[0].doneOperation.when",
        "unknown field",
    ),
    (
        [NODE, patch(1, "Nod", "a", {})],
        "spec.operations[1].patchOperation.typeMeta.kind",
        "there is no such kind",
    ),
    (
        [NODE, patch(1, "Node", "", {})],
        "spec.operations[1].patchOperation.objectMeta.name",
        "must not be empty",
    ),
    (
        [NODE, patch(1, "Node", "a", {}, "apply-patch")],
        "spec.operations[1].patchOperation.patchType",
        "must be one of",
    ),
    (
        [NODE, patch(1, "Node", "a", [], "merge-patch")],
        "spec.operations[1].patchOperation.patch",
        "must be a mapping",
    ),
    (
        [NODE, patch(1, "Node", "a", {}, "json-patch")],
        "spec.operations[1].patchOperation.patch",
        "must be a list",
    ),
    (
        steps(NODE, controllers={"simulationControllers": {"enabled": [{"name": "autoscaler"}]}}),
        "spec.controllers.simulationControllers.enabled[0].name",
        "only the scheduler is simulated",
    ),
    (
        steps(NODE, controllers={"presimulationControllers": {"disabled": [{"name": "*"}]}}),
        "spec.controllers.presimulationControllers.disabled[0].name",
        "no controller can be switched off",
    ),
    (
        {**steps(NODE), "apiVersion": "simulation.kube-scheduler-simulator.x-k8s.io/v2"},
        "apiVersion",
        "must be",
    ),
    ({**steps(NODE), "kind": "Scenarios"}, "kind", "must be"),
    ({**steps(NODE), "spec": None}, "spec", "is required"),
    ({**steps(NODE), "spec": {"operations": {}}}, "spec.operations", "must be a list"),
    ({**steps(NODE), "metadata": []}, "metadata", "must be a mapping"),
]


@pytest.mark.parametrize(("document", "path", "problem"), WRONG)
def test_what_cannot_be_simulated_is_refused_by_name(
    tmp_path: Path, document: list[Json] | Json, path: str, problem: str
) -> None:
    whole = steps(*document) if isinstance(document, list) else document
    with pytest.raises(ConfigError) as caught:
        read_scenario(write_steps(tmp_path, whole))
    error = caught.value
    assert (error.path, error.problem[: len(problem)]) == (path, problem)
    assert str(error.file).endswith("steps.yaml")
    assert error.line is not None


def test_a_patch_that_is_no_json_is_an_error(tmp_path: Path) -> None:
    wrong = patch(0, "Node", "a", {})
    wrong["patchOperation"]["patch"] = "{"
    with pytest.raises(ConfigError, match="is not JSON"):
        read_scenario(write_steps(tmp_path, steps(wrong)))


#: Operations whose last one cannot be performed -> the problem.
FAILING: list[tuple[list[Json], str]] = [
    ([NODE, NODE], "Node a exists already"),
    ([create(0, a_pod("p")), create(1, a_pod("p"))], "Pod default/p exists already"),
    ([create(0, deployment("w", 1))] * 2, "Deployment default/w exists already"),
    ([delete(0, "Pod", "p")], "there is no Pod default/p"),
    ([patch(0, "Deployment", "web", {"spec": {"replicas": 1}})], "there is no Deployment"),
    ([NODE, patch(0, "Node", "a", {"metadata": {"name": "b"}})], "metadata.name: a patch cannot"),
    ([NODE, patch(0, "Node", "a", {"kind": "Pod"})], "kind: a patch cannot change it"),
    ([NODE, patch(0, "Node", "a", {"metadata": None})], "metadata.name: a patch cannot"),
    ([NODE, patch(0, "Node", "a", {"status": {"allocatable": {"cpu": "9"}}})], "status: a patch"),
    ([NODE, patch(0, "Node", "a", {"spec": {"taints": 3}})], "spec.taints"),
    (
        [
            NODE,
            patch(0, "Node", "a", {"spec": {"taints": [{"key": "a"}]}}, "strategic-merge-patch"),
        ],
        "effect",
    ),
    ([NODE, patch(0, "Node", "a", [{"op": "remove", "path": "/spec/x"}], "json-patch")], "line"),
    (
        [create(0, a_pod("p")), patch(0, "Pod", "p", {"spec": {"priority": 7}})],
        "spec.priority: a pod keeps its spec",
    ),
    (
        [
            create(0, a_pod("p")),
            patch(0, "Pod", "p", {"spec": {"schedulingGates": [{"name": "example.com/x"}]}}),
        ],
        "gates can only be taken away",
    ),
]


@pytest.mark.parametrize(("operations", "problem"), FAILING)
def test_an_operation_that_cannot_be_performed_ends_the_run(
    tmp_path: Path, operations: list[Json], problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        played(tmp_path, *operations)
    text = str(caught.value)
    assert problem in text
    assert "steps.yaml" in text
    assert f"spec.operations[{len(operations) - 1}]" in text


def test_a_taint_that_a_patch_adds_evicts_pods_when_their_tolerations_run_out(
    tmp_path: Path,
) -> None:
    """Source: pkg/controller/tainteviction. A step has no clock: the pods go before the next."""
    tolerations = [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]
    taint = {"spec": {"taints": [{"key": "old", "effect": "NoExecute"}]}}
    result = played(
        tmp_path,
        create(0, a_node("a", cpu="4")),
        create(1, a_pod("none")),
        create(1, a_pod("minute", tolerations=tolerations)),
        create(1, a_pod("ever", tolerations=[{"operator": "Exists"}])),
        patch(2, "Node", "a", taint),
        create(3, a_pod("later", tolerations=tolerations)),
        done(4),
    )
    pods = by_pod(result)
    ends = {name: (row["final_state"], row["finish_time_s"]) for name, row in pods.items()}
    assert ends == {
        "none": ("Evicted", 0),
        "minute": ("Evicted", 60),
        "ever": ("Running", None),
        "later": ("Evicted", 120),
    }
    assert result.summary["evictions"] == 3
