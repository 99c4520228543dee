"""``mooring start`` without a network: what it takes, what it tells, what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command_line import (
    node_yaml,
    pod_yaml,
    restored_logging,
    run_command,
    write_workload,
)

CLUSTER = [node_yaml("n1", "2"), pod_yaml("there", "1", node="n1", namespace="team")]
PODS = [pod_yaml("fits", "800m"), pod_yaml("late", "500m")]

POISON = """
from mooring.errors import InvariantViolation


class Poison:
    name = "Poison"

    def pre_filter(self, cycle):
        raise ERROR("no")
"""


@pytest.fixture(autouse=True)
def _root() -> Iterator[None]:
    with restored_logging():
        yield


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    return write_workload(tmp_path, CLUSTER, PODS)


def start(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    return run_command(capsys, "start", *words)


def poison(folder: Path, name: str, error: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Returns a plugin in a module of its own, that raises."""
    (folder / f"{name}.py").write_text(POISON.replace("ERROR", error))
    monkeypatch.syspath_prepend(str(folder))
    return f"--plugin={name}:Poison"


def test_virtual_time_settles_every_pod_and_tells_as_simulate_does(
    capsys: pytest.CaptureFixture[str], files: list[str]
) -> None:
    code, out, err = start(capsys, *files, "--virtual", "-o", "json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    assert {name: found[name] for name in ("nodes", "pods", "bound", "unschedulable")} == {
        "nodes": 1,
        "pods": 2,
        "bound": 1,
        "unschedulable": {"Insufficient cpu": 1},
    }
    assert found["resources"]["cpu"] == {"allocatable": 2000, "requested": 1800}
    assert found["seconds"] > 0


def test_lines_tell_what_happens_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], files: list[str]
) -> None:
    code, out, err = start(capsys, *files, "--virtual")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "mooring start: virtual time, no network"
    assert "pods: 2 bound, 0 pending, 1 refused" in out
    assert "1 of 2 pods placed on 1 node, 1 refused" in out


def test_nothing_to_place_takes_no_time(
    capsys: pytest.CaptureFixture[str], files: list[str]
) -> None:
    code, out, _ = start(capsys, files[0], "--virtual", "-o", "json")
    found = json.loads(out)
    assert (code, found["pods"], found["bound"]) == (0, 0, 0)
    assert found["seconds"] >= 0


def test_kubelets_may_run_too(capsys: pytest.CaptureFixture[str], files: list[str]) -> None:
    code, out, _ = start(capsys, *files, "--virtual", "--kubelets", "-o", "json")
    assert (code, json.loads(out)["bound"]) == (0, 1)


def test_a_configuration_is_heeded(
    capsys: pytest.CaptureFixture[str], files: list[str], tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: another}]\n"
    )
    code, out, _ = start(capsys, *files, "--virtual", f"--config={config}", "-o", "json")
    assert (code, json.loads(out)["bound"]) == (0, 0)


def test_a_plugin_that_fails_at_every_pod_is_reported_and_it_ends(
    capsys: pytest.CaptureFixture[str],
    files: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plugin = poison(tmp_path, "poison_for_start", "ValueError", monkeypatch)
    code, out, err = start(capsys, *files, "--virtual", plugin, "-o", "json")
    assert code == 0
    told = 'error: running PreFilter plugin "Poison": ValueError: no'
    assert json.loads(out)["unschedulable"] == {told: 2}
    assert 'scheduling attempt failed pod=default/fits error="running PreFilter' in err


def test_a_bug_of_ours_has_its_own_exit_code(
    capsys: pytest.CaptureFixture[str],
    files: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plugin = poison(tmp_path, "bug_for_start", "InvariantViolation", monkeypatch)
    code, _, err = start(capsys, *files, "--virtual", plugin)
    assert code == 70
    assert err == "mooring start: a bug in mooring: no\n"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], 'metadata.name: Invalid value: "bad name"'),
        (["--skip-validation"], "metadata.name: the API server rejects this Pod"),
    ],
)
def test_what_the_server_refuses_is_said_with_its_place(
    capsys: pytest.CaptureFixture[str],
    files: list[str],
    tmp_path: Path,
    options: list[str],
    problem: str,
) -> None:
    (tmp_path / "pods.yaml").write_text("---".join(PODS).replace("name: late", 'name: "bad name"'))
    code, _, err = start(capsys, *files, *options, "--virtual")
    assert code == 2
    place = f"mooring start: {tmp_path / 'pods.yaml'}: document 2: line 9: "
    assert err.startswith(place + problem)
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["-o", "json"], "-o json requires --once"),
        (["--port=70000"], "70000"),
        (["--pods=-"], "standard input (-) is not supported"),
        (["--cluster=no-such-file.yaml"], "no-such-file.yaml"),
        (["--config=no-such-config.yaml"], "no-such-config.yaml"),
    ],
)
def test_bad_usage_and_bad_input_end_it_at_once(
    capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    code, out, err = start(capsys, *words)
    assert (code, out) == (2, "")
    assert problem in err


def test_a_plugin_that_is_not_there_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], files: list[str]
) -> None:
    code, _, err = start(capsys, *files, "--virtual", "--plugin=no_such_module:X")
    assert code == 2
    assert "no_such_module" in err
    assert err.count("\n") == 1


def test_what_has_only_a_generated_name_is_created_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = "---".join([*CLUSTER, *PODS]).replace("name: late", "generateName: late-")
    (tmp_path / "all.yaml").write_text(documents)
    file = str(tmp_path / "all.yaml")
    code, out, _ = start(capsys, "--cluster", file, "--virtual", "-o", "json")
    assert code == 0
    assert json.loads(out)["pods"] == 2


GANG = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: groups.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Group, plural: groups}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
GROUP = "\n---\napiVersion: example.com/v1\nkind: Group\nmetadata: {name: fits}\n"
NEEDS_GROUP = """
from mooring import Reject


class NeedsGroup:
    name = "NeedsGroup"

    def __init__(self, handle):
        self.groups = handle.lister("groups.v1.example.com")

    def pre_enqueue(self, pod):
        group = self.groups.get(pod.metadata.name, pod.metadata.namespace)
        return None if group is not None else Reject("no group of its name")
"""


def test_a_plugin_lists_the_custom_resources_of_the_files(
    capsys: pytest.CaptureFixture[str],
    files: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "needs_group.py").write_text(NEEDS_GROUP)
    monkeypatch.syspath_prepend(str(tmp_path))
    plugin = "--plugin=needs_group:NeedsGroup"
    groups = tmp_path / "groups.yaml"

    groups.write_text(GROUP + "---\n" + GANG)  # in any order
    words = ("--virtual", f"--cluster={groups}", "-o", "json")
    code, out, err = start(capsys, *words, plugin, *files)
    summary = json.loads(out)
    assert (code, err) == (0, "")
    assert summary["bound"] == 1
    assert summary["unschedulable"] == {"gated by NeedsGroup": 1}

    groups.write_text(GROUP)
    code, _, err = start(capsys, *words, plugin, *files)
    assert code == 2
    assert "'groups.v1.example.com'" in err
    assert "add its CustomResourceDefinition" in err

    code, _, err = start(capsys, *words, *files)
    assert code == 0
    assert "does not serve these kinds: 1 Group\n" in err
