"""A plugin that follows a custom resource: the gang of the guide, on servers of both kinds."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.testing.controlplane import ControlPlane
from tests.docs.pages import ROOT, blocks_of
from tests.integration.embedded import Embedded, Kubectl, make_list, make_node, make_pod
from tests.integration.processes import Program, mooring, wait_until

pytestmark = pytest.mark.slow

GUIDE = ROOT / "docs" / "guides" / "custom-resources.md"
POD_GROUPS = "podgroups.v1alpha1.scheduling.x-k8s.io"
LABEL = "scheduling.x-k8s.io/pod-group"
CANNOT_LIST = "cannot list a kind, scheduling has not started"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
"""

#: Runs kubectl with words and objects; returns what it prints.
Run = Callable[..., str]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with the files of the guide."""
    for block in blocks_of(GUIDE):
        if block.file is not None:
            (tmp_path / block.file).write_text(block.text)
    (tmp_path / "config.yaml").write_text(CONFIG)
    return tmp_path


def role() -> str:
    """Returns the ClusterRole of the guide."""
    (text,) = [block.text for block in blocks_of(GUIDE) if "kind: ClusterRole" in block.text]
    return text


@contextmanager
def scheduler(files: Path, kubeconfig: Path) -> Iterator[Program]:
    words = ["--config=config.yaml", "--plugin=coscheduling:Coscheduling"]
    with mooring(files, "run", f"--kubeconfig={kubeconfig}", *words) as program:
        yield program
        assert program.end(signal.SIGTERM) == 1
        assert "Traceback" not in program.said()


def member(name: str, group: str) -> dict[str, Any]:
    pod = make_pod(name)
    pod["metadata"]["labels"] = {LABEL: group}
    return pod


def pod_group(name: str, minimum: int) -> dict[str, Any]:
    head = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
    return {**head, "metadata": {"name": name}, "spec": {"minMember": minimum}}


def nodes_of(run: Run, group: str) -> list[str]:
    text = run("get", "pods", "--selector", f"{LABEL}={group}", "-o", "json")
    return [pod["spec"].get("nodeName", "") for pod in json.loads(text)["items"]]


def is_gated(run: Run, name: str) -> bool:
    """Returns whether the scheduler has seen the pod: another one, created later, is placed."""
    run("apply", "-f", "-", stdin=json.dumps(make_pod(f"after-{name}")))
    get = ("get", "pod", f"after-{name}", "-o", "jsonpath={.spec.nodeName}")
    wait_until(lambda: run(*get))
    return not run("get", "pod", name, "-o", "jsonpath={.spec.nodeName}")


def follow_a_gang(run: Run, program: Program) -> None:
    """Creates groups and pods in several orders; the scheduler runs, without the definition."""
    program.wait_for(CANNOT_LIST)
    assert POD_GROUPS in program.said()
    run("apply", "-f", "podgroup-crd.yaml")
    program.wait_for("mooring run: scheduling for")
    run("wait", "--for=condition=Established", "crd/podgroups.scheduling.x-k8s.io")

    # Two of three pods, then the third.
    objects = [pod_group("three", 3), member("t-0", "three"), member("t-1", "three")]
    run("apply", "-f", "-", stdin=json.dumps(make_list(*objects)))
    assert is_gated(run, "t-1")
    run("apply", "-f", "-", stdin=json.dumps(member("t-2", "three")))
    wait_until(lambda: all(nodes_of(run, "three")))

    # The pods come first, then the group: an event of the custom resource.
    objects = [member("l-0", "late"), member("l-1", "late")]
    run("apply", "-f", "-", stdin=json.dumps(make_list(*objects)))
    assert is_gated(run, "l-1")
    run("apply", "-f", "-", stdin=json.dumps(pod_group("late", 3)))
    assert is_gated(run, "l-0")
    patch = json.dumps({"spec": {"minMember": 2}})
    run("patch", "podgroup", "late", "--type=merge", "-p", patch)
    wait_until(lambda: all(nodes_of(run, "late")))


def lose_the_definition(run: Run) -> None:
    """Deletes the definition and creates it again: the scheduler follows the new objects."""
    run("delete", "crd", "podgroups.scheduling.x-k8s.io")
    run("apply", "-f", "-", stdin=json.dumps(member("b-0", "back")))
    assert is_gated(run, "b-0")
    run("apply", "-f", "podgroup-crd.yaml")
    run("wait", "--for=condition=Established", "crd/podgroups.scheduling.x-k8s.io")
    run("apply", "-f", "-", stdin=json.dumps(pod_group("back", 1)))
    wait_until(lambda: all(nodes_of(run, "back")))


def test_a_gang_on_the_embedded_server(server: Embedded, kubectl: Kubectl, files: Path) -> None:
    def run(*words: str, stdin: str | None = None) -> str:
        named = [str(files / word) if word.endswith(".yaml") else word for word in words]
        return kubectl(*named, stdin=stdin)

    run("create", "-f", "-", stdin=json.dumps(make_node("a")))
    with scheduler(files, server.kubeconfig) as program:
        follow_a_gang(run, program)
        lose_the_definition(run)


def test_a_gang_on_a_real_control_plane(programs: Path, files: Path) -> None:
    with ControlPlane() as plane:

        def run(*words: str, stdin: str | None = None) -> str:
            named = [str(files / word) if word.endswith(".yaml") else word for word in words]
            return plane.kubectl(*named, stdin=stdin or "")

        run("create", "-f", "-", stdin=json.dumps(make_node("a")))
        with scheduler(files, plane.kubeconfig("mooring")) as program:
            program.wait_for(CANNOT_LIST)
            assert "forbidden" in program.said().lower()
            run("apply", "-f", "-", stdin=role())
            run(
                "create",
                "clusterrolebinding",
                "mooring-podgroups",
                "--clusterrole=mooring-podgroups",
                "--user=mooring",
            )
            follow_a_gang(run, program)
            lose_the_definition(run)
