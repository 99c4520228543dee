"""The commands simulate, replay and explain, from the command line to the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from mooring.recordings.format import read_recording, write_recording
from tests.helpers.command_line import node_yaml, pod_yaml, run_command, write_workload
from tests.helpers.paths import PARITY_DATA

DATA = PARITY_DATA

CLUSTER = [node_yaml("n1", "2"), node_yaml("n2", "4"), pod_yaml("there", "3", node="n2")]
PODS = [pod_yaml("fits", "1500m"), pod_yaml("late", "1200m")]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    return write_workload(tmp_path, CLUSTER, PODS)


# ---- simulate ----


def test_simulate_decides_files_and_prints_json(
    capsys: pytest.CaptureFixture[str], files: list[str]
) -> None:
    code, out, err = run_command(capsys, "simulate", *files, "-o", "json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert {name: found[name] for name in ("nodes", "pods", "bound", "unschedulable")} == {
        "nodes": 2,
        "pods": 2,
        "bound": 1,
        "unschedulable": {"Insufficient cpu": 1},
    }
    assert found["seconds"] > 0
    assert found["pods_per_s"] > 0
    assert found["peak_rss_bytes"] > 1 << 20


def test_files_are_validated_unless_that_is_skipped(
    capsys: pytest.CaptureFixture[str], files: list[str], tmp_path: Path
) -> None:
    pods = tmp_path / "pods.yaml"
    pods.write_text("---".join(PODS).replace("spec: {cont", "spec: {restartPolicy: Maybe, cont", 1))
    code, out, err = run_command(capsys, "simulate", *files, "-o", "json")
    assert (code, out) == (2, "")
    assert err.startswith(f"mooring simulate: {pods}: document 1: line 5: spec.restartPolicy: ")

    code, out, err = run_command(capsys, "simulate", *files, "--skip-validation", "-o", "json")
    assert (code, err) == (0, "")
    assert json.loads(out)["pods"] == 2


def test_simulate_prints_plain_lines_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], files: list[str]
) -> None:
    code, out, _ = run_command(capsys, "simulate", *files)
    assert code == 0
    assert out.startswith("scheduling 2 pods on 2 nodes\n")
    assert "1 of 2 pods placed on 2 nodes, 1 refused" in out
    assert "Utilization by group of nodes" in out
    assert "\x1b" not in out


@pytest.mark.slow
def test_simulate_decides_the_trace_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run_command(capsys, "simulate", "-o", "json")
    found = json.loads(out)
    assert (code, found["nodes"], found["pods"]) == (0, 1213, 8152)
    # 98 % of the GPUs are asked for, so nearly all pods fit, and not all.
    assert 7900 < found["bound"] < 8152
    gpu = found["resources"]["alibabacloud.com/gpu-milli"]
    assert 0.9 < gpu["requested"] / gpu["allocatable"] < 1


def test_simulate_saves_what_replay_finds_the_same(
    capsys: pytest.CaptureFixture[str], files: list[str], tmp_path: Path
) -> None:
    saved = str(tmp_path / "run.json.gz")
    assert run_command(capsys, "simulate", *files, "--save", saved)[0] == 0
    code, out, _ = run_command(capsys, "replay", saved)
    assert code == 0
    assert "2 steps, no difference" in out
    assert [step.pod_key for step in read_recording(saved).steps] == [
        "default/fits",
        "default/late",
    ]


def test_replay_finds_no_difference_in_a_saved_error_of_a_plugin(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A selector that is not validated raises in a plugin; the place in its code may differ."""
    term = {"key": "app", "operator": "in", "values": ["web"]}
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchExpressions": [term]},
    }
    spec = {"containers": [{"name": "c"}], "topologySpreadConstraints": [constraint]}
    web = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    files = write_workload(tmp_path, [node_yaml("n1", "2")], [json.dumps(web)])
    saved = str(tmp_path / "run.json.gz")
    words = ("simulate", *files, "--skip-validation", "--save", saved)

    assert run_command(capsys, *words)[0] == 0
    code, out, _ = run_command(capsys, "replay", saved)

    assert "3 steps, no difference" in out
    assert code == 0
    assert read_recording(saved).steps[0].decision.result == "error"


def test_simulate_takes_a_plugin_of_the_current_folder(
    capsys: pytest.CaptureFixture[str],
    files: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "contrary_for_test.py").write_text(
        "from mooring.framework import Reject, per_node\n\n\n"
        "class Contrary:\n    name = 'Contrary'\n\n    @per_node\n"
        "    def filter(self, pod, node):\n        return Reject('contrary')\n"
    )
    plugin = "contrary_for_test:Contrary"
    code, out, err = run_command(capsys, "simulate", *files, "--plugin", plugin, "-o", "json")
    assert (code, err) == (0, "")
    assert json.loads(out)["bound"] == 0


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--cluster", "no-such-file.yaml"], "no-such-file.yaml"),
        (["--pods", "openb:none"], "unknown pod list"),
        (["--plugin", "no_such_module:X"], "no_such_module"),
        (["--config", "no-such-config.yaml"], "no-such-config.yaml"),
    ],
)
def test_simulate_refuses_bad_input_in_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    code, out, err = run_command(capsys, "simulate", *words)
    assert (code, out) == (2, "")
    assert problem in err
    assert len(err.splitlines()) == 1


# ---- replay ----


def changed(tmp_path: Path) -> str:
    """Returns a recording in which one pod went to another of the tied nodes."""
    recording = read_recording(DATA / "resources-1.json.gz")
    steps = list(recording.steps)
    index = next(i for i, step in enumerate(steps) if len(step.decision.tied) > 1)
    decision = steps[index].decision
    other = next(node for node in decision.tied if node != decision.node)
    decision = msgspec.structs.replace(decision, node=other)
    steps[index] = msgspec.structs.replace(steps[index], decision=decision)
    path = tmp_path / "changed.json"
    write_recording(path, msgspec.structs.replace(recording, steps=tuple(steps[: index + 1])))
    return str(path)


def test_replay_finds_no_difference_in_a_recording_of_kube_scheduler(
    capsys: pytest.CaptureFixture[str],
) -> None:
    paths = [str(DATA / f"{name}-1.json.gz") for name in ("resources", "taints")]
    code, out, _ = run_command(capsys, "replay", *paths, "--only-plugins", "own")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "resources-1: 20 steps, no difference"
    assert lines[-1].startswith("2 recordings, ")
    assert lines[-1].endswith(" steps, no difference")


def test_replay_tells_a_difference_and_exits_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, _ = run_command(capsys, "replay", changed(tmp_path), "--only-plugins", "own")
    assert code == 1
    first, second = out.splitlines()
    assert first.endswith(" 1 difference")
    assert ": node: recorded 'node-" in second


def test_replay_prints_differences_as_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, _ = run_command(
        capsys, "replay", changed(tmp_path), "--only-plugins", "own", "-o", "json"
    )
    assert code == 1
    found = json.loads(out)
    assert found["difference_count"] == 1
    (report,) = found["recordings"]
    (difference,) = report["differences"]
    assert difference["field"] == "node"
    assert set(difference) == {"step", "pod", "field", "plugin", "node", "recorded", "decided"}
    assert "NodeResourcesFit" in report["compared"]


def test_replay_compares_only_the_plugins_that_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = str(DATA / "resources-1.json.gz")
    # DynamicResources is not built yet: with it among the names, its scores are missing.
    code, out, _ = run_command(
        capsys, "replay", path, "--only-plugins", "NodeResourcesFit,NodeName"
    )
    assert code == 0
    assert "no difference" in out


def test_replay_with_another_configuration_shows_what_would_change(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles:\n- schedulerName: default-scheduler\n  pluginConfig:\n"
        "  - name: NodeResourcesFit\n    args:\n      scoringStrategy:\n"
        "        type: MostAllocated\n"
    )
    path = str(DATA / "resources-1.json.gz")
    words = ["replay", path, "--only-plugins", "NodeResourcesFit", "--config", str(config)]
    code, out, _ = run_command(capsys, *words)
    assert code == 1
    assert "scores of NodeResourcesFit on node" in out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["no-such.json"], "no-such.json: cannot be read: No such file"),
        ([str(DATA / "resources-1.json.gz"), "--only-plugins", "NodeResourceFit"], "did you mean"),
        ([str(DATA / "resources-1.json.gz"), "--only-plugins", ","], "no plugin is named"),
        ([__file__], "test_simulate.py: "),
    ],
)
def test_replay_refuses_bad_input_with_exit_2(
    capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    code, out, err = run_command(capsys, "replay", *words)
    assert (code, out) == (2, "")
    assert problem in err


# ---- explain ----


def test_explain_tells_why_a_pod_finds_no_place(
    capsys: pytest.CaptureFixture[str], files: list[str]
) -> None:
    code, out, _ = run_command(capsys, "explain", "late", *files)
    assert code == 0
    assert out.startswith("Pod default/late is unschedulable: 0/2 nodes are feasible.\n")
    assert "cpu short by 0.2 at best (n2 has 1 free of 4)" in out
    assert "cpu short by 0.7 at best (n1 has 0.5 free of 2)" in out


def test_explain_tells_why_a_pod_is_where_it_is(
    capsys: pytest.CaptureFixture[str], files: list[str]
) -> None:
    code, out, _ = run_command(capsys, "explain", "default/fits", *files)
    assert code == 0
    assert out.startswith("Pod default/fits goes to n1 (2 cpu, 4Gi memory).\n")
    assert "It is the only feasible node, so nothing was scored." in out


def test_explain_knows_pods_that_were_there_before(
    capsys: pytest.CaptureFixture[str], files: list[str]
) -> None:
    lines = run_command(capsys, "explain", "there", *files)[1].splitlines()
    assert lines[:3] == [
        "Pod default/there is on n2. It was decided again without itself, on the rest of the"
        " cluster as it is now:",
        "",
        "Pod default/there goes to n2 (4 cpu, 4Gi memory).",
    ]


def test_explain_reads_recordings(capsys: pytest.CaptureFixture[str]) -> None:
    path = DATA / "taints-1.json.gz"
    step = next(step for step in read_recording(path).steps if step.decision.total)
    code, out, _ = run_command(capsys, "explain", step.pod_key, "--recording", str(path))
    assert code == 0
    assert f"goes to {step.decision.node} " in out
    assert "TaintToleration x 3" in out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["openb-pod-99999"], "no pod 'openb-pod-99999' in the input"),
        (["pod/openb-pod-99999"], "no pod 'openb-pod-99999' in the input"),
        (["deploy/web"], "'deploy/web' is not a pod; it has no pods in the input"),
        (["x", "--recording", str(DATA / "taints-1.json.gz")], "no step for pod 'x'"),
        (["x", "--recording", "a", "--cluster", "b"], "--recording can only be combined with"),
        (["x", "--attempt", "2"], "--attempt requires --recording"),
        ([], "Missing argument"),
    ],
)
def test_explain_refuses_bad_input_with_exit_2(
    capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    code, out, err = run_command(capsys, "explain", *words)
    assert (code, out) == (2, "")
    assert problem in err


WORKLOADS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web, resources: {requests: {cpu: 1500m}}}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store}
spec:
  serviceName: store
  selector: {matchLabels: {app: store}}
  template:
    metadata: {labels: {app: store}}
    spec: {containers: [{name: store, image: store}]}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec:
        accessModes: [ReadWriteOnce]
        storageClassName: fast
        resources: {requests: {storage: 1Gi}}
"""


@pytest.fixture
def workloads(tmp_path: Path) -> list[str]:
    file = tmp_path / "workloads.yaml"
    file.write_text("\n---\n".join([*CLUSTER, WORKLOADS]))
    return ["--cluster", str(file), "--seed", "3"]


def test_explain_knows_the_pods_that_controllers_create_in_a_simulation(
    capsys: pytest.CaptureFixture[str], workloads: list[str]
) -> None:
    simulated = json.loads(run_command(capsys, "simulate", *workloads, "-o", "json")[1])
    results = [*simulated["placements"], *simulated["refused"]]
    nodes = {own["pod"]: own["node"] for own in results if own["pod"].startswith("default/web-")}
    assert sorted(nodes.values()) == ["", "", "n1"]

    for name, node in nodes.items():
        code, out, _ = run_command(capsys, "explain", name, *workloads, "-o", "json")
        explained = json.loads(out)
        assert (code, explained["pod"], explained["decision"]["node"] or "") == (0, name, node)


def test_explain_names_what_the_claim_of_a_stateful_set_waits_for(
    capsys: pytest.CaptureFixture[str], workloads: list[str]
) -> None:
    out = run_command(capsys, "explain", "store-0", *workloads)[1]
    assert "claim default/data-store-0 waits for class fast, which does not exist" in out


def test_explain_names_the_pods_of_a_workload(
    capsys: pytest.CaptureFixture[str], workloads: list[str]
) -> None:
    code, _, err = run_command(capsys, "explain", "sts/store", *workloads)
    assert code == 2
    assert "'sts/store' is not a pod; its pods are explained by their names: default/store-0" in err
    assert run_command(capsys, "explain", "pod/store-0", *workloads)[0] == 0


def test_explain_suggests_the_name_of_a_pod_that_a_controller_creates(
    capsys: pytest.CaptureFixture[str], workloads: list[str]
) -> None:
    code, _, err = run_command(capsys, "explain", "store-1", *workloads)
    assert (code, err) == (
        2,
        "mooring explain: no pod 'store-1' in the input (did you mean 'store-0'?)\n",
    )
