"""Bad input on the command line: one line that names it, exit code 2, nothing on the way out."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.config import default_configuration, from_document
from mooring.recordings.format import read_recording
from tests.helpers.command_line import node_yaml, run_command
from tests.helpers.paths import PARITY_DATA

DATA = PARITY_DATA
RECORDING = str(DATA / "taints-1.json.gz")
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

NODE = node_yaml("n1", "2")
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s}
spec: {containers: [{name: c, image: i}]}
"""


@pytest.fixture
def written(tmp_path: Path) -> dict[str, str]:
    """Names of files: good ones, and some that are wrong in one way each."""
    texts = {
        "node": NODE,
        "twins": "---".join([NODE, POD % ("web", "blue"), POD % ("web", "green")]),
        "pods": POD % ("web", "blue"),
        "not-yaml": "a: [",
        "twice": NODE + "kind: Node\n",
        "bad-quantity": NODE.replace("4Gi", "4 GB"),
        "bad-pod": POD.replace("spec: {", "spec: {priority: high, ") % ("p", "default"),
        "bad-config": HEAD + "parallelism: zero\n",
        "unknown-plugin": HEAD + "profiles:\n- plugins: {score: {enabled: [{name: NodeAffinty}]}}",
        "empty": "",
        "recording": '{"format": 1',
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return {name: str(tmp_path / f"{name}.yaml") for name in texts}


# ---------------------------------------------------------------- simulate


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--cluster", "{not-yaml}"], "not-yaml.yaml"),
        (["--cluster", "{twice}"], "twice.yaml: "),
        (["--cluster", "{bad-quantity}"], "status.allocatable.memory: is not a quantity"),
        (["--cluster", "{node}", "--pods", "{bad-pod}"], "spec.priority: must be "),
        (["--cluster", "openb:nope"], "unknown node list; available: all, gpu, got 'nope'"),
        (["--config", "{bad-config}"], "bad-config.yaml: line 3: parallelism"),
        (["--config", "{unknown-plugin}"], "did you mean 'NodeAffinity'"),
        (["--plugin", "json:nothing"], "--plugin: module json has no such attribute"),
        (["--plugin", "no-colon"], "must be MODULE:ATTRIBUTE, got 'no-colon'"),
        (["--plugin", "json:dump"], "a plugin's constructor may ask for args and handle"),
    ],
)
def test_simulate_says_what_is_wrong_and_where(
    capsys: pytest.CaptureFixture[str], written: dict[str, str], words: list[str], problem: str
) -> None:
    code, out, err = run_command(capsys, "simulate", *(word.format(**written) for word in words))

    assert (code, out) == (2, "")
    assert err.startswith("mooring simulate: ")
    assert problem in err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--seed", "many"], "'many' is not a valid integer"),
        (["-o", "xml"], "'xml' is not one of 'table', 'wide', 'json', 'csv'"),
        (["--sede", "1"], "Did you mean one of: '--save', '--scale', '--seed'?"),
        (["one.yaml", "stray"], "unexpected extra argument"),
    ],
)
def test_wrong_options_show_the_usage(
    capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    code, out, err = run_command(capsys, "simulate", *words)

    assert (code, out) == (2, "")
    assert "Usage: mooring simulate" in err
    assert problem in err


@pytest.mark.parametrize("words", [["explain", "web", "a.yaml"], ["start", "a.yaml"]])
def test_a_file_without_its_option_is_told_how_to_be_given(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    code, out, err = run_command(capsys, *words)

    assert (code, out) == (2, "")
    assert "unexpected extra argument (a.yaml). A file of a cluster's objects is given with" in err


def test_a_recording_that_cannot_be_written_is_no_success(
    capsys: pytest.CaptureFixture[str], written: dict[str, str], tmp_path: Path
) -> None:
    words = ["--cluster", written["node"], "--pods", written["pods"]]

    code, _, err = run_command(
        capsys, "simulate", *words, "--save", str(tmp_path / "no" / "run.json")
    )

    assert code == 2
    assert "no/run.json" in err


def test_a_cluster_without_pods_has_nothing_to_decide(
    capsys: pytest.CaptureFixture[str], written: dict[str, str]
) -> None:
    code, out, _ = run_command(capsys, "simulate", "--cluster", written["node"], "-o", "json")

    assert code == 0
    found = json.loads(out)
    assert (found["nodes"], found["pods"], found["bound"]) == (1, 0, 0)


def test_an_empty_file_is_refused(
    capsys: pytest.CaptureFixture[str], written: dict[str, str]
) -> None:
    words = ["simulate", "--cluster", written["node"], "--pods", written["empty"]]

    code, _, err = run_command(capsys, *words)

    assert (code, err) == (
        2,
        f"mooring simulate: {written['empty']}: contains no objects\n",
    )


# ---------------------------------------------------------------- replay


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["{recording}"], "recording.yaml: "),
        (["{node}"], "node.yaml: "),
        (["{empty}"], "empty.yaml: "),
        ([RECORDING, "--config", "{bad-config}"], "bad-config.yaml: line 3: parallelism"),
        ([RECORDING, "--config", "no-such.yaml"], "no-such.yaml"),
        ([RECORDING, "--only-plugins", "own,TaintToleration"], "unknown plugin 'own'"),
        ([RECORDING, "--only-plugins", ""], "no plugin is named"),
    ],
)
def test_replay_says_what_is_wrong_and_where(
    capsys: pytest.CaptureFixture[str], written: dict[str, str], words: list[str], problem: str
) -> None:
    code, out, err = run_command(capsys, "replay", *(word.format(**written) for word in words))

    assert (code, out) == (2, "")
    assert err.startswith("mooring replay: ")
    assert problem in err


def test_replay_needs_a_recording(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run_command(capsys, "replay")
    assert code == 2
    assert "a RECORDING, --kubeconfig or --cluster is needed" in err


def test_what_was_replayed_before_a_bad_file_is_not_lost(
    capsys: pytest.CaptureFixture[str], written: dict[str, str]
) -> None:
    code, out, err = run_command(
        capsys, "replay", RECORDING, written["recording"], "--only-plugins", "own"
    )

    assert code == 2
    assert out.startswith("taints-1: ")
    assert "recording.yaml" in err


# ---------------------------------------------------------------- explain


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["web", "--cluster", "{twins}"], "several pods are named 'web': blue/web, green/web"),
        (["wep", "--cluster", "{node}", "--pods", "{pods}"], "did you mean 'web'"),
        (["blu/web", "--cluster", "{node}", "--pods", "{pods}"], "did you mean 'blue/web'"),
        (["web", "--cluster", "{bad-quantity}"], "is not a quantity"),
        (["web", "--pods", "{pods}", "--config", "{bad-config}"], "parallelism"),
        (["web", "--pods", "{pods}", "--plugin", "x"], "must be MODULE:ATTRIBUTE"),
        (["web", "--recording", "{recording}"], "recording.yaml: "),
        (["web", "--recording", "no-such.json"], "no-such.json"),
    ],
)
def test_explain_says_what_is_wrong_and_where(
    capsys: pytest.CaptureFixture[str], written: dict[str, str], words: list[str], problem: str
) -> None:
    code, out, err = run_command(capsys, "explain", *(word.format(**written) for word in words))

    assert (code, out) == (2, "")
    assert err.startswith("mooring explain: ")
    assert problem in err


@pytest.mark.parametrize("words", [["replay"], ["explain", "web", "--recording"]])
@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ({"metadata": ["a"]}, "pod.metadata: must be a mapping, got ['a']"),
        (
            {"spec": {"overhead": {"cpu": 2**70}}},
            f"pod.spec.overhead.cpu: must be a string, since the number has more than 64 bits, "
            f"got {2**70}",
        ),
    ],
)
def test_a_damaged_step_is_named_with_its_file(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    words: list[str],
    damage: dict[str, Any],
    problem: str,
) -> None:
    file = tmp_path / "damaged.json"
    recording = msgspec.to_builtins(read_recording(Path(RECORDING)))
    recording["steps"][1]["pod"].update(damage)
    file.write_bytes(msgspec.json.encode(recording))

    code, _, err = run_command(capsys, *words, str(file))

    assert (code, err) == (2, f"mooring {words[0]}: {file}: steps[1].{problem}\n")


@pytest.mark.parametrize("attempt", ["0", "-1", "last"])
def test_attempts_are_counted_from_1(capsys: pytest.CaptureFixture[str], attempt: str) -> None:
    code, _, err = run_command(
        capsys, "explain", "web", "--recording", RECORDING, "--attempt", attempt
    )
    assert code == 2
    assert "--attempt" in err


def test_an_attempt_that_a_recording_does_not_have_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pod_key = read_recording(Path(RECORDING)).steps[0].pod_key

    code, out, err = run_command(
        capsys, "explain", pod_key, "--recording", RECORDING, "--attempt", "99"
    )

    assert (code, out) == (2, "")
    assert "99" in err


def test_one_of_two_pods_with_a_name_is_found_by_its_namespace(
    capsys: pytest.CaptureFixture[str], written: dict[str, str]
) -> None:
    code, out, _ = run_command(capsys, "explain", "green/web", "--cluster", written["twins"])

    assert code == 0
    assert out.startswith("Pod green/web goes to n1 ")


# ---------------------------------------------------------------- config


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["no-such.yaml"], "no-such.yaml"),
        (["{not-yaml}"], "not-yaml.yaml: document 1: line 2: is not YAML"),
        (["{empty}"], "empty.yaml"),
        (["{node}"], "apiVersion"),
        (["{bad-config}"], "bad-config.yaml: line 3: parallelism"),
    ],
)
def test_config_says_what_is_wrong_and_where(
    capsys: pytest.CaptureFixture[str], written: dict[str, str], words: list[str], problem: str
) -> None:
    code, out, err = run_command(
        capsys, "config", "check", *(word.format(**written) for word in words)
    )

    assert (code, out) == (2, "")
    assert err.startswith("mooring config: ")
    assert problem in err


def test_config_reads_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = HEAD + "parallelism: 3\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    code, out, _ = run_command(capsys, "config", "view", "-", "-o", "json")

    assert code == 0
    changes = {"parallelism": 3, "percentage_of_nodes_to_score": 0}
    expected = msgspec.structs.replace(default_configuration(), **changes)
    assert from_document(json.loads(out)) == expected
