"""KWOK's stages: hand-computed time lines, and what is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import ConfigError
from mooring.scenario.read import read_scenario
from mooring.scenario.run import ScenarioRun
from mooring.scenario.stages.reading import read_stages
from tests.helpers.command_line import run_command
from tests.helpers.scenario_files import Spec, by_pod, job, nodes, pod, read, rows, run, write
from tests.helpers.stage_files import (
    POD_COMPLETE,
    POD_DELETE,
    POD_READY,
    Json,
    in_phase,
    stage,
    when,
    write_stages,
)

ONE_CPU = {"nodes": [nodes(1, cpu="1")]}


def arrivals(obj: Json, *times: str) -> Json:
    return {"name": "a", "arrive": {"at": [*times]}, "object": obj}


def staged(folder: Path, *stages: Json, **spec: Any) -> Spec:
    """Returns a scenario with stages: one node with one cpu."""
    defaults: Spec = {"cluster": ONE_CPU, "stages": [write_stages(folder, *stages)]}
    return {**defaults, **spec}


def test_pods_start_and_end_by_their_stages(tmp_path: Path) -> None:
    # Each pod starts after 2 s and runs for 60 s: the node is free at 62 s, 124 s and 186 s.
    spec = staged(tmp_path, POD_READY, POD_COMPLETE, workload=[arrivals(pod(), "0s", "10s", "20s")])
    result = run(tmp_path, spec)
    assert [
        (row["starting_time_s"], row["finish_time_s"], row["final_state"])
        for row in rows(result, "pods")
    ] == [(0, 62, "Succeeded"), (62, 124, "Succeeded"), (124, 186, "Succeeded")]


def test_an_annotation_gives_the_delay(tmp_path: Path) -> None:
    annotated = {**pod(), "metadata": {"annotations": {"example.com/runs": "1h30m"}}}
    spec = staged(tmp_path, POD_READY, POD_COMPLETE, workload=[arrivals(annotated, "0s")])
    [row] = rows(run(tmp_path, spec), "pods")
    assert row["finish_time_s"] == 2 + 5400


def test_pods_of_jobs_end_and_their_job_is_complete(tmp_path: Path) -> None:
    only_jobs = stage(
        "complete",
        selector=when(
            (".status.phase", "In", ["Running"]),
            (".metadata.ownerReferences.[].kind", "In", ["Job"]),
        ),
        delay={"durationMilliseconds": 8000},
        next={"statusTemplate": "phase: Succeeded"},
    )
    spec = staged(
        tmp_path,
        POD_READY,
        only_jobs,
        workload=[arrivals(job("j", completions=2, parallelism=1), "0s")],
        end={"at": "1m"},
    )
    result = run(tmp_path, spec)
    assert [row["finish_time_s"] for row in rows(result, "pods")] == [10, 20]
    assert [(row["final_state"], row["finish_time_s"]) for row in rows(result, "jobs")] == [
        ("Succeeded", 20)
    ]


def test_a_stage_with_a_jitter_draws_between_both_and_equally_with_every_configuration(
    tmp_path: Path,
) -> None:
    jitter = stage(
        "ready",
        selector=when((".status.phase", "NotIn", ["Running"])),
        delay={"durationMilliseconds": 1000, "jitterDurationMilliseconds": 5000},
        next={"statusTemplate": "phase: Running"},
    )
    complete = stage(
        "complete", selector=in_phase("Running"), next={"statusTemplate": "phase: Succeeded"}
    )
    spec = staged(tmp_path, jitter, complete, workload=[arrivals(pod("10m"), *["0s"] * 50)])
    times = [row["finish_time_s"] for row in rows(run(tmp_path, spec), "pods")]
    assert all(1 <= time <= 5 for time in times)
    assert len(set(times)) > 40
    slow = {**spec, "scheduler": {"attemptTime": "1s"}}
    later = [row["execution_time_s"] for row in rows(run(tmp_path, slow), "pods")]
    assert later == pytest.approx(times, abs=1e-5)


def test_a_jitter_below_the_delay_is_the_delay(tmp_path: Path) -> None:
    ready = stage(
        "ready",
        selector=when((".status.phase", "NotIn", ["Running"])),
        delay={"durationMilliseconds": 9000, "jitterDurationMilliseconds": 3000},
        next={"statusTemplate": "phase: Succeeded"},
    )
    spec = staged(tmp_path, ready, workload=[arrivals(pod(), "0s")])
    [row] = rows(run(tmp_path, spec), "pods")
    assert row["finish_time_s"] == 3


def test_weights_say_which_of_several_stages_comes(tmp_path: Path) -> None:
    def ending(name: str, phase: str, weight: int) -> Json:
        return stage(
            name,
            selector=in_phase("Running"),
            weight=weight,
            weightFrom={"expressionFrom": '.metadata.annotations["w"]'},
            next={"statusTemplate": f"phase: {phase}"},
        )

    ends = [ending("good", "Succeeded", 3), ending("bad", "Failed", 1)]
    spec = staged(
        tmp_path, POD_READY, *ends, workload=[arrivals(pod("1m", priority=0), *["0s"] * 100)]
    )
    spec["cluster"] = {"nodes": [nodes(4)]}
    summary = run(tmp_path, spec).summary
    assert summary["pods.succeeded"] + summary["pods.failed"] == 100
    assert 60 <= summary["pods.succeeded"] <= 90


def test_a_stage_of_weight_zero_never_comes_beside_another(tmp_path: Path) -> None:
    never = stage("never", selector=in_phase("Running"), next={"statusTemplate": "phase: Failed"})
    spec = staged(
        tmp_path, POD_READY, never, POD_COMPLETE, workload=[arrivals(pod("10m"), *["0s"] * 20)]
    )
    assert run(tmp_path, spec).summary["pods.succeeded"] == 20


def test_a_deleted_pod_stays_until_its_stage_removes_it(tmp_path: Path) -> None:
    spec = staged(
        tmp_path,
        POD_READY,
        POD_DELETE,
        workload=[
            {"at": "0s", "create": {**pod(), "metadata": {"name": "first"}}},
            {"at": "10s", "delete": {"name": "first"}},
            {"at": "11s", "create": {**pod(), "metadata": {"name": "second"}}},
        ],
    )
    pods = by_pod(run(tmp_path, spec))
    assert (pods["first"]["final_state"], pods["first"]["finish_time_s"]) == ("Deleted", 15)
    assert pods["second"]["starting_time_s"] == 15


def test_finalizers_hold_a_pod_until_a_stage_takes_them_away(tmp_path: Path) -> None:
    add = stage(
        "add",
        selector=when(
            (".metadata.finalizers", "DoesNotExist", []), (".status.phase", "NotIn", ["Running"])
        ),
        next={
            "finalizers": {"add": [{"value": "example.com/hold"}]},
            "statusTemplate": "phase: Running",
        },
    )
    deleted: tuple[str, str, list[str]] = (".metadata.deletionTimestamp", "Exists", [])
    remove = stage(
        "remove",
        selector=when(deleted, (".metadata.finalizers.[]", "In", ["example.com/hold"])),
        delay={"durationMilliseconds": 7000},
        next={"finalizers": {"remove": [{"value": "example.com/hold"}]}},
    )
    leave = stage(
        "leave",
        selector=when(deleted, (".metadata.finalizers", "DoesNotExist", [])),
        next={"delete": True},
    )
    spec = staged(
        tmp_path,
        add,
        remove,
        leave,
        workload=[
            {"at": "0s", "create": {**pod(), "metadata": {"name": "p"}}},
            {"at": "3s", "delete": {"name": "p"}},
        ],
    )
    assert by_pod(run(tmp_path, spec))["p"]["finish_time_s"] == 10


def node_stage(name: str, ready: str, **spec: Any) -> Json:
    status = f'conditions: [{{type: Ready, status: "{ready}"}}]'
    return stage(name, "Node", next={"statusTemplate": status}, **spec)


READY = '.status.conditions.[] | select( .type == "Ready" ) | .status'


def test_a_node_takes_pods_when_its_stage_has_made_it_ready(tmp_path: Path) -> None:
    initialize = node_stage(
        "node-initialize",
        "True",
        selector=when((READY, "NotIn", ["True"])),
        delay={"durationMilliseconds": 30_000},
    )
    spec = staged(tmp_path, initialize, workload=[{**arrivals(pod(), "0s"), "duration": "10s"}])
    [row] = rows(run(tmp_path, spec), "pods")
    assert (row["starting_time_s"], row["finish_time_s"]) == (30, 40)


def test_pods_of_a_node_that_is_not_ready_are_evicted_when_their_tolerations_run_out(
    tmp_path: Path,
) -> None:
    initialize = node_stage("ready", "True", selector=when((READY, "DoesNotExist", [])))
    fail = node_stage(
        "fail",
        "False",
        selector={"matchLabels": {"chaos": "true"}, **when((READY, "In", ["True"]))},
        delay={"durationMilliseconds": 100_000},
    )
    labelled = nodes(1, cpu="1")
    labelled["template"]["metadata"] = {"labels": {"chaos": "true"}}
    spec = staged(
        tmp_path,
        initialize,
        fail,
        cluster={"nodes": [labelled]},
        workload=[arrivals(pod(terminationGracePeriodSeconds=0), "0s", "200s")],
        end={"at": "1h"},
    )
    result = run(tmp_path, spec)
    pods = by_pod(result)
    # Admission gives pods 300 s of toleration; the second pod finds no node.
    assert (pods["a-0"]["final_state"], pods["a-0"]["finish_time_s"]) == ("Evicted", 400)
    assert pods["a-1"]["final_state"] == "Pending"
    assert result.events is not None
    events = zip(*(result.events[name] for name in ("time_s", "event", "object")), strict=True)
    assert [row for row in events if row[1] == "node-failed"] == [(100, "node-failed", "node-0")]


def test_a_node_that_is_not_ready_and_then_silent_evicts_at_the_time_of_the_first(
    tmp_path: Path,
) -> None:
    """Source: pkg/controller/tainteviction: a taint in place of another moves no eviction."""
    initialize = node_stage("ready", "True", selector=when((READY, "DoesNotExist", [])))
    later = {"durationMilliseconds": 100_000}
    fail = node_stage("fail", "False", selector=when((READY, "In", ["True"])), delay=later)
    lose = node_stage("lose", "Unknown", selector=when((READY, "In", ["False"])), delay=later)
    spec = staged(
        tmp_path,
        initialize,
        fail,
        lose,
        cluster={"nodes": [nodes(1, cpu="1")]},
        workload=[arrivals(pod(terminationGracePeriodSeconds=0), "0s")],
        end={"at": "1h"},
    )
    [row] = rows(run(tmp_path, spec), "pods")
    assert (row["final_state"], row["finish_time_s"]) == ("Evicted", 400)


def test_heartbeats_do_not_keep_a_run_going(tmp_path: Path) -> None:
    heartbeat = stage(
        "node-heartbeat",
        "Node",
        selector=when((READY, "NotIn", ["False"])),
        delay={"durationMilliseconds": 20_000, "jitterDurationMilliseconds": 25_000},
        next={
            "statusTemplate": """
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  lastHeartbeatTime: {{ Now | Quote }}
{{ end }}
"""
        },
    )
    spec = staged(tmp_path, heartbeat, workload=[{**arrivals(pod(), "40s"), "duration": "10s"}])
    result = run(tmp_path, spec)
    assert result.summary["length"] < 90
    assert result.summary["pods.succeeded"] == 1


def test_a_node_gets_the_amounts_of_its_status(tmp_path: Path) -> None:
    grow = stage(
        "grow",
        "Node",
        selector=when((".status.allocatable.cpu", "In", ["1"])),
        delay={"durationMilliseconds": 60_000},
        next={
            "statusTemplate": """
conditions: [{type: Ready, status: "True"}]
allocatable: {cpu: "3"}
"""
        },
    )
    spec = staged(tmp_path, grow, workload=[{**arrivals(pod("2"), "0s"), "duration": "5s"}])
    [row] = rows(run(tmp_path, spec), "pods")
    assert row["starting_time_s"] == 60


def test_stages_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, staged(tmp_path, POD_READY, POD_DELETE))
    code, out, _ = run_command(capsys, "scenario", "show", str(path))
    assert code == 0
    assert "stage pod-ready: Pod, after 2s: sets the status" in out
    assert "stage pod-delete: Pod, after 5s: deletes" in out


def test_files_of_stages_can_be_given_beside_a_scenario(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, {"cluster": ONE_CPU, "workload": [arrivals(pod(), "0s")]})
    stages = str(tmp_path / write_stages(tmp_path, POD_READY, POD_COMPLETE))
    assert run_command(capsys, "scenario", "check", stages)[1] == f"{stages}: ok\n"
    words = ("simulate", str(path), "--stages", stages, "-o", "json")
    code, out, _ = run_command(capsys, *words)
    assert (code, json.loads(out)["summary"]["makespan"]) == (0, 62)
    assert run_command(capsys, "simulate", "--stages", stages)[0] == 2


def test_an_event_is_noted(tmp_path: Path) -> None:
    event = stage("e", next={"event": {"reason": "Created"}, "statusTemplate": "phase: Running"})
    scenario = read(tmp_path, staged(tmp_path, event))
    assert scenario.notes == ["events have no effect, and are not recorded: those of stage e"]


def test_a_stage_that_deletes_its_object_notes_what_it_does_not_patch(tmp_path: Path) -> None:
    leave = stage("leave", next={"delete": True, "statusTemplate": "phase: Failed"})
    scenario = read(tmp_path, staged(tmp_path, POD_DELETE, leave))
    [note] = scenario.notes
    assert note.endswith(": stage leave deletes its object: next.statusTemplate has no effect")


#: Changes of a stage -> path and beginning of the error.
WRONG: list[tuple[Json, str, str]] = [
    ({"resourceRef": {"kind": "Deployment"}}, "spec.resourceRef.kind", "must be Pod or Node"),
    (
        {"resourceRef": {"kind": "Pod", "apiGroup": "apps"}},
        "spec.resourceRef.apiGroup",
        'must be "v1"',
    ),
    ({"resourceRef": None}, "spec.resourceRef", "is required"),
    ({"wait": 3}, "spec.wait", "unknown field"),
    ({"weight": -1}, "spec.weight", "must be an integer from"),
    ({"weight": "1"}, "spec.weight", "must be an integer"),
    ({"weight": 10**30}, "spec.weight", "must be an integer"),
    (
        {"delay": {"durationMilliseconds": -5}},
        "spec.delay.durationMilliseconds",
        "must be an integer",
    ),
    ({"delay": {"durationMilliseconds": 10**25}}, "spec.delay.durationMilliseconds", "must be an"),
    (
        {"delay": {"durationMilliseconds": 1.5}},
        "spec.delay.durationMilliseconds",
        "must be an integer",
    ),
    ({"delay": []}, "spec.delay", "must be a mapping"),
    (
        {"delay": {"durationFrom": {"expressionFrom": ".a | length"}}},
        "spec.delay.durationFrom.expressionFrom",
        "has a part that is not supported: length",
    ),
    (
        {"delay": {"durationFrom": {"cel": {"expression": "1"}}}},
        "spec.delay.durationFrom.cel",
        "expressions in CEL",
    ),
    (
        {"selector": when((".status.phase", "In", []))},
        "spec.selector.matchExpressions[0].values",
        "must have an item with In",
    ),
    (
        {"selector": when((".status.phase", "Exists", ["x"]))},
        "spec.selector.matchExpressions[0].values",
        "must be empty with Exists",
    ),
    (
        {"selector": when((".status.phase", "Is", ["x"]))},
        "spec.selector.matchExpressions[0].operator",
        "must be one of In",
    ),
    (
        {"selector": when(("(" * 100, "Exists", []))},
        "spec.selector.matchExpressions[0].key",
        "has a part that is not supported",
    ),
    (
        {"selector": when(("select(" + "(" * 2000, "Exists", []))},
        "spec.selector.matchExpressions[0].key",
        "nests deeper than 32",
    ),
    (
        {"next": {"statusTemplate": "{{ env }}"}},
        "spec.next.statusTemplate",
        "uses a function that is not",
    ),
    (
        {"next": {"statusTemplate": "{{ if .a }}"}},
        "spec.next.statusTemplate",
        "line 1: if has no end",
    ),
    ({"next": {"statusTemplate": "{{ end }}"}}, "spec.next.statusTemplate", "line 1: end has no"),
    (
        {"next": {"statusTemplate": f"a: {{{{ {'9' * 5_000} }}}}"}},
        "spec.next.statusTemplate",
        f"line 1: has a number that is too large: {'9' * 32}",
    ),
    ({"next": {"statusTemplate": "{{ .a"}}, "spec.next.statusTemplate", "line 1: {{ has no }}"),
    ({"next": {"statusTemplate": "{{" * 9000}}, "spec.next.statusTemplate", "line 1: {{ has no }}"),
    (
        {"next": {"statusTemplate": "{{ " + "(" * 9000 + " }}"}},
        "spec.next.statusTemplate",
        "line 1: nests",
    ),
    (
        {"next": {"statusTemplate": "{{if 1}}" * 500}},
        "spec.next.statusTemplate",
        "line 1: nests deeper",
    ),
    (
        {"next": {"statusTemplate": "{{ if 1 }}" + "{{ else if 1 }}" * 500 + "{{ end }}"}},
        "spec.next.statusTemplate",
        "line 1: nests",
    ),
    ({"next": {"statusPatchAs": {"username": "x"}}}, "spec.next.statusPatchAs", "is not supported"),
    (
        {"next": {"patches": [{"root": "spec", "template": "x: y"}]}},
        "spec.next.patches[0].root",
        'must be "status"',
    ),
    ({"next": None}, "spec", "must have one of next and steps"),
    ({"next": None, "steps": [{}]}, "spec.steps[0]", "must have one of event"),
]


@pytest.mark.parametrize(("spec", "path", "problem"), WRONG)
def test_what_cannot_be_simulated_is_refused_by_name(
    tmp_path: Path, spec: Json, path: str, problem: str
) -> None:
    whole = stage("wrong", **{"next": {"delete": True}, **spec})
    file = write_stages(tmp_path, POD_READY, whole)
    with pytest.raises(ConfigError) as caught:
        read_stages([tmp_path / file])
    error = caught.value
    assert (error.path, error.problem[: len(problem)]) == (path, problem)
    assert str(error.file).endswith(file)
    assert error.document == 2
    assert error.line is not None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "contains no objects"),
        ("3", "must be a Kubernetes object"),
        ("kind: Stage", "must name the API version"),
        ("kind: Pod\napiVersion: v1", 'must be "kwok.x-k8s.io/v1alpha1"'),
        (
            "kind: Stage\napiVersion: kwok.x-k8s.io/v1alpha1\nmetadata: 3\nspec: {}",
            "must be a mapping",
        ),
        ("kind: Stage\napiVersion: kwok.x-k8s.io/v1alpha1\nmetadata: {}\nspec:", "is required"),
        ("a: &x [1]\nb: *z", "no such anchor"),
        ("[" * 5000, "nests deeper"),
    ],
)
def test_odd_files_are_errors(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_stages([file])
    assert problem in str(caught.value)


def test_two_stages_with_one_name_are_an_error(tmp_path: Path) -> None:
    file = write_stages(tmp_path, POD_READY, POD_READY)
    with pytest.raises(ConfigError, match="is the name of the stage at"):
        read_stages([tmp_path / file])


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"pods": {"duration": "1m"}}, "spec.pods.duration"),
        ({"workload": [{**arrivals(pod(), "0s"), "failure": 0.5}]}, "spec.workload[0].failure"),
    ],
)
def test_a_run_time_contradicts_stages_of_pods(tmp_path: Path, spec: Spec, path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, staged(tmp_path, POD_READY, **spec))
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("following", "problem"),
    [
        ({"statusTemplate": "phase: Runing"}, "there is no phase 'Runing'"),
        ({"statusTemplate": "- a"}, "does not give a mapping"),
        ({"statusTemplate": "a: {{ index .spec.containers 5 }}"}, "there is no item 5"),
        ({"statusTemplate": "a: b: c"}, "does not give YAML"),
        ({"statusTemplate": "conditions: 3"}, "stage x of Pod default/a-0"),
        ({"statusTemplate": "conditions: [{type: 3, status: {}}]"}, "stage x of Pod default/a-0"),
        ({"statusTemplate": "{{ range .spec }}{{ .x.y }}{{ end }}"}, "has no field"),
    ],
)
def test_a_template_that_does_not_fit_an_object_is_an_error(
    tmp_path: Path, following: Json, problem: str
) -> None:
    spec = staged(tmp_path, stage("x", next=following), workload=[arrivals(pod(), "0s")])
    with pytest.raises(ConfigError) as caught:
        run(tmp_path, spec)
    assert problem in str(caught.value)
    assert "stages.yaml" in str(caught.value)


def test_stages_in_a_circle_are_an_error(tmp_path: Path) -> None:
    def turn(name: str, before: str, after: str, **spec: Any) -> Json:
        template = {"statusTemplate": f"reason: {after}"}
        return stage(name, selector=when((".status.reason", "In", [before])), next=template, **spec)

    first = stage(
        "first",
        selector=when((".status.reason", "DoesNotExist", [])),
        next={"statusTemplate": "reason: a"},
    )
    spec = staged(
        tmp_path,
        first,
        turn("there", "a", "b"),
        turn("back", "b", "a"),
        workload=[arrivals(pod(), "0s")],
    )
    with pytest.raises(ConfigError, match="enters 100 stages at one instant"):
        run(tmp_path, spec)
    slow = {"delay": {"durationMilliseconds": 1000}}
    (tmp_path / "stages.yaml").unlink()
    spec = staged(
        tmp_path,
        first,
        turn("there", "a", "b", **slow),
        turn("back", "b", "a", **slow),
        workload=[arrivals(pod(), "0s")],
    )
    with pytest.raises(ConfigError, match=r"give the scenario an end\.at"):
        run(tmp_path, spec)
    assert run(tmp_path, {**spec, "end": {"at": "10m"}}).summary["pods.running"] == 1


def test_pressure_on_a_node_is_refused(tmp_path: Path) -> None:
    pressure = stage(
        "full",
        "Node",
        next={"statusTemplate": 'conditions: [{type: DiskPressure, status: "True"}]'},
    )
    with pytest.raises(ConfigError, match="nodes have no DiskPressure here"):
        run(tmp_path, staged(tmp_path, pressure, workload=[arrivals(pod(), "0s")]))


def test_equal_runs_with_stages_have_equal_digests(tmp_path: Path) -> None:
    jitter = stage(
        "complete",
        selector=in_phase("Running"),
        delay={"durationMilliseconds": 1, "jitterDurationMilliseconds": 90_000},
        next={"statusTemplate": "phase: Succeeded"},
    )
    spec = staged(
        tmp_path,
        POD_READY,
        jitter,
        workload=[{"arrive": {"poisson": {"rate": "1/min", "until": "1h"}}, "object": pod()}],
    )
    path = write(tmp_path, spec)
    digests = {ScenarioRun(read_scenario(path, seed=seed)).run().digest for seed in (1, 1, 2)}
    assert len(digests) == 2
