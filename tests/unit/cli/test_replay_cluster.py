"""``mooring replay --cluster``: the bound pods of a cluster are decided again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.command_line import node_yaml, pod_yaml, run_command

_PACKED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    pluginConfig:
      - name: NodeResourcesFit
        args: {scoringStrategy: {type: MostAllocated}}
"""


def bound_pod(name: str, node: str, second: int, **extra: str) -> str:
    """Returns a pod that was bound at a second; ``extra`` are its other top-level texts."""
    time = f"2026-01-01T00:00:{second:02}Z"
    condition = f'{{type: PodScheduled, status: "True", lastTransitionTime: "{time}"}}'
    status = f"status: {{phase: {extra.get('phase', 'Running')}, conditions: [{condition}]}}\n"
    text = pod_yaml(name, extra.get("cpu", "1"), node=node) + status
    if annotation := extra.get("annotation"):
        text = text.replace(
            "namespace: default}", f"namespace: default, annotations: {annotation}}}"
        )
    if scheduler := extra.get("scheduler"):
        text = text.replace("spec: {", f"spec: {{schedulerName: {scheduler}, ")
    return text


@pytest.fixture
def packed(tmp_path: Path) -> str:
    file = tmp_path / "packed.yaml"
    file.write_text(_PACKED)
    return str(file)


def written(folder: Path, *documents: str) -> str:
    file = folder / "cluster.yaml"
    file.write_text("---".join(documents))
    return f"--cluster={file}"


def test_pods_are_decided_in_the_order_of_their_binding(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # n2 is the emptier one until big is there; the file has the pods in another order.
    cluster = written(
        tmp_path,
        node_yaml("n1", "4"),
        node_yaml("n2", "8"),
        bound_pod("after", "n1", 2),
        bound_pod("big", "n2", 1, cpu="6"),
    )
    code, out, err = run_command(capsys, "replay", cluster)
    assert (code, err) == (0, "")
    assert out.endswith("cluster.yaml: 2 pods decided again, no difference\n")


def test_another_configuration_says_which_pods_it_would_place_elsewhere(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, packed: str
) -> None:
    cluster = written(
        tmp_path,
        node_yaml("n1", "4"),
        node_yaml("n2", "8"),
        bound_pod("one", "n2", 1),
        bound_pod("two", "n2", 2),
    )
    code, out, _ = run_command(capsys, "replay", cluster, "--config", packed)
    assert code == 1
    lines = out.splitlines()
    assert lines[0].endswith("cluster.yaml: 2 pods decided again, 1 difference")
    assert lines[1] == "1 of 2 pods on another node, 0 newly placed, 0 newly refused"
    assert lines[2] == "  n2 -> n1: 1 pod"
    assert lines[3].startswith("First: step 0, pod default/one: n1, bound to n2: the total scores ")
    assert "NodeResourcesFit makes most of it: n1 " in lines[3]
    assert lines[5].startswith("  pod default/one: n1, bound to n2: ")
    assert len(lines) == 6

    code, out, _ = run_command(capsys, "replay", cluster, "--config", packed, "-o", "json")
    assert code == 1
    found = json.loads(out)
    assert (found["pods"], found["difference_count"], found["not_decided"]) == (2, 1, {})
    assert found["summary"]["routes"] == [{"before": "n2", "after": "n1", "pods": 1}]
    (difference,) = found["differences"]
    assert (difference["pod"], difference["node"]) == ("default/one", "n2")
    assert (difference["decided"], difference["tied"]) == ("n1", ["n1"])


def test_a_node_that_rejects_the_pod_now_is_named_with_the_plugin(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cordoned = node_yaml("n1", "4").replace("status:", "spec: {unschedulable: true}\nstatus:")
    cluster = written(tmp_path, cordoned, node_yaml("n2", "4"), bound_pod("one", "n1", 1))
    code, out, _ = run_command(capsys, "replay", cluster)
    assert code == 1
    assert "pod default/one: n2, bound to n1: NodeUnschedulable (node(s) were unschedulable)" in out

    cluster = written(tmp_path, cordoned, bound_pod("one", "n1", 1))
    code, out, _ = run_command(capsys, "replay", cluster)
    assert code == 1
    assert "0 of 1 pod on another node, 0 newly placed, 1 newly refused" in out
    assert "pod default/one: no node, bound to n1: NodeUnschedulable" in out


def test_a_tie_is_no_difference(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    # Of equal nodes kube-scheduler takes a random one: every seed agrees with every node.
    nodes = [node_yaml(f"n{number}", "4") for number in range(6)]
    cluster = written(tmp_path, *nodes, bound_pod("one", "n4", 1))
    for seed in range(8):
        code, out, _ = run_command(capsys, "replay", cluster, "--seed", str(seed))
        assert code == 0, out


def test_pods_that_cannot_be_decided_are_counted_and_take_their_room(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cluster = written(
        tmp_path,
        node_yaml("n1", "4"),
        node_yaml("n2", "4"),
        bound_pod("static", "n1", 1, cpu="3", annotation="{kubernetes.io/config.mirror: x}"),
        bound_pod("other", "n2", 2, cpu="500m", scheduler="volcano"),
        bound_pod("job", "n1", 3, cpu="4", phase="Succeeded"),
        bound_pod("lost", "n9", 4),
        bound_pod("ours", "n2", 5, cpu="2"),
    )
    code, out, _ = run_command(capsys, "replay", cluster)
    assert code == 0
    assert out.splitlines()[1:] == [
        "  not decided: 1 pod finished",
        "  not decided: 1 pod static",
        "  not decided: 1 pod of other schedulers",
        "  not decided: 1 pod on nodes that do not exist",
    ]
    assert "1 pod decided again, no difference" in out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "a RECORDING, --kubeconfig or --cluster is needed"),
        (["a.json", "--cluster=c.yaml"], "cannot be combined with recordings"),
        (["a.json", "--plugin=a:B"], "--plugin, --context and --skip-validation need"),
        (["a.json", "--context=x"], "--plugin, --context and --skip-validation need"),
        (["--cluster=c.yaml", "--kubeconfig=k"], "--kubeconfig cannot be combined with"),
        (["--cluster=c.yaml", "--only-plugins=own"], "cannot be combined with --only-plugins"),
        (["--cluster=c.yaml", "--context=x"], "--context needs --kubeconfig"),
        (
            ["--kubeconfig=k", "--skip-validation"],
            "cannot be combined with --cluster or --skip-validation",
        ),
        (["--cluster=no-such.yaml"], "no-such.yaml: "),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    code, out, err = run_command(capsys, "replay", *words)
    assert (code, out) == (2, "")
    assert problem in err
