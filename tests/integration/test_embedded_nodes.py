"""The real kubectl on the embedded API server: nodes, deleting, waiting, draining, saving."""

from __future__ import annotations

import itertools
import json
import signal
import stat
from pathlib import Path

import pytest

from tests.integration.embedded import Kubectl, make_list, make_node, make_pod, running

NUMBERS = itertools.count(1)


@pytest.fixture
def node(kubectl: Kubectl) -> str:
    """A node for one test."""
    name = f"node-{next(NUMBERS)}"
    kubectl("create", "-f", "-", stdin=make_node(name))
    return name


def status(kubectl: Kubectl, node: str) -> str:
    return kubectl("get", "node", node, "--no-headers").split()[1]


def test_cordon_and_uncordon_show_in_the_status(kubectl: Kubectl, node: str) -> None:
    assert kubectl("cordon", node) == f"node/{node} cordoned\n"
    assert status(kubectl, node) == "Ready,SchedulingDisabled"
    assert kubectl("cordon", node) == f"node/{node} already cordoned\n"
    assert kubectl("uncordon", node) == f"node/{node} uncordoned\n"
    assert status(kubectl, node) == "Ready"


def test_taints_are_added_changed_and_taken_away(kubectl: Kubectl, node: str) -> None:
    def taints() -> list[tuple[str, str, str]]:
        obj = kubectl.json("get", "node", node)["spec"].get("taints", [])
        return [(one["key"], one.get("value", ""), one["effect"]) for one in obj]

    kubectl("taint", "node", node, "team=a:NoSchedule")
    assert taints() == [("team", "a", "NoSchedule")]
    kubectl("taint", "node", node, "team=b:NoSchedule", "--overwrite")
    assert taints() == [("team", "b", "NoSchedule")]
    kubectl("taint", "node", node, "team-")
    assert taints() == []


def owned_pod(name: str, node: str) -> dict[str, object]:
    pod = make_pod(name, node=node)
    # Of a kind that is not served: the pod would be deleted with an owner that is absent.
    owner = {"apiVersion": "example.com/v1", "kind": "Robot", "name": "r", "uid": "u-1"}
    pod["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return pod


def test_drain_evicts_what_is_managed(kubectl: Kubectl, node: str) -> None:
    kubectl(
        "create", "-f", "-", stdin=make_list(owned_pod(f"a-{node}", node), make_pod(f"b-{node}"))
    )

    text = kubectl("drain", node, "--force", "--timeout=20s")

    assert f"pod/a-{node} evicted" in text
    assert f"node/{node} drained" in text
    left = kubectl("get", "pods", "-o", "name").split()
    assert f"pod/a-{node}" not in left
    assert f"pod/b-{node}" in left


@pytest.mark.slow
def test_drain_obeys_a_disruption_budget(kubectl: Kubectl, node: str) -> None:
    pod = owned_pod(f"guarded-{node}", node)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"guard-{node}"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": f"guarded-{node}"}}},
    }
    kubectl("create", "-f", "-", stdin=make_list(pod, budget))
    kubectl(
        "patch",
        "pod",
        f"guarded-{node}",
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps(
            {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        ),
    )

    def write_status(allowed: int) -> None:
        """Sets the status that the disruption controller would set."""
        counts = {"desiredHealthy": 1, "currentHealthy": 1 + allowed, "expectedPods": 1 + allowed}
        status = {"observedGeneration": 1, "disruptionsAllowed": allowed, **counts}
        words = ("patch", "pdb", f"guard-{node}", "--subresource=status", "--type=merge", "-p")
        kubectl(*words, json.dumps({"status": status}))

    write_status(0)
    done = kubectl.run("drain", node, "--force", "--timeout=1s")

    assert done.returncode == 1
    assert "Cannot evict pod as it would violate the pod's disruption budget." in done.stderr
    assert f"pod/guarded-{node}" in kubectl("get", "pods", "-o", "name")
    write_status(1)
    assert f"pod/guarded-{node} evicted" in kubectl("drain", node, "--force", "--timeout=20s")


def test_delete_waits_until_the_object_is_gone(kubectl: Kubectl, node: str) -> None:
    name = f"web-{node}"
    kubectl("create", "-f", "-", stdin=make_pod(name, node=node))

    assert kubectl("delete", "pod", name) == f'pod "{name}" deleted from default namespace\n'
    assert kubectl.run("get", "pod", name).returncode == 1
    assert kubectl("delete", "node", node) == f'node "{node}" deleted\n'


def test_a_finalizer_holds_what_is_deleted(kubectl: Kubectl, node: str) -> None:
    pod = make_pod(f"held-{node}")
    pod["metadata"]["finalizers"] = ["example.com/hold"]
    kubectl("create", "-f", "-", stdin=pod)
    kubectl("delete", "pod", f"held-{node}", "--wait=false")

    assert "Terminating" in kubectl("get", "pod", f"held-{node}")
    kubectl(
        "patch",
        "pod",
        f"held-{node}",
        "--type=json",
        "-p",
        '[{"op":"remove","path":"/metadata/finalizers"}]',
    )
    assert kubectl.run("get", "pod", f"held-{node}").returncode == 1


def test_wait_returns_when_the_condition_holds(kubectl: Kubectl, node: str) -> None:
    name = f"web-{node}"
    kubectl("create", "-f", "-", stdin=make_pod(name))
    late = kubectl.run("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=0s")
    assert late.returncode == 1

    patch = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    with kubectl.watching("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=20s") as lines:
        kubectl(
            "patch", "pod", name, "--subresource=status", "--type=merge", "-p", json.dumps(patch)
        )
        assert next(lines) == f"pod/{name} condition met\n"
    kubectl("delete", "pod", name, "--wait=false")
    kubectl("wait", f"pod/{name}", "--for=delete", "--timeout=20s")


def test_a_namespace_takes_its_objects_with_it(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "doomed")
    kubectl("create", "-n", "doomed", "-f", "-", stdin=make_pod("web"))

    assert kubectl("delete", "namespace", "doomed", "--timeout=20s")
    assert "web" not in kubectl("get", "pods", "-A", "-o", "name").split("/")
    refused = kubectl.run("create", "-n", "doomed", "-f", "-", stdin=make_pod("web"))
    assert 'namespaces "doomed" not found' in refused.stderr


@pytest.mark.slow
def test_without_the_option_a_bound_pod_goes_after_its_grace_period(
    programs: Path, tmp_path: Path
) -> None:
    with running(tmp_path) as server:
        kubectl = Kubectl(programs / "kubectl", server, tmp_path)
        kubectl(
            "create", "-f", "-", stdin=make_pod("web", node="n", terminationGracePeriodSeconds=3)
        )
        kubectl("delete", "pod", "web", "--wait=false")
        assert "Terminating" in kubectl("get", "pod", "web")
        kubectl("wait", "pod/web", "--for=delete", "--timeout=20s")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_data_file_outlives_the_server(
    programs: Path, tmp_path: Path, number: signal.Signals
) -> None:
    data = tmp_path / "data.json"
    with running(tmp_path, f"--data={data}") as server:
        kubectl = Kubectl(programs / "kubectl", server, tmp_path)
        kubectl("create", "-f", "-", stdin=make_pod("web"))
        before = kubectl.json("get", "pod", "web")
        assert stat.S_IMODE(server.kubeconfig.stat().st_mode) == 0o600
        assert server.stop(number) == 0
    with running(tmp_path, f"--data={data}") as server:
        kubectl = Kubectl(programs / "kubectl", server, tmp_path)
        assert kubectl.json("get", "pod", "web") == before
        kubectl("label", "pod", "web", "a=b")
        after = kubectl.json("get", "pod", "web")["metadata"]
        assert int(after["resourceVersion"]) > int(before["metadata"]["resourceVersion"])
    assert stat.S_IMODE(data.stat().st_mode) == 0o600


@pytest.mark.slow
def test_a_kill_before_the_first_periodic_save_gives_no_version_twice(
    programs: Path, tmp_path: Path
) -> None:
    def version_of_new(name: str) -> int:
        kubectl("create", "configmap", name)
        return int(kubectl.json("get", "configmap", name)["metadata"]["resourceVersion"])

    data = tmp_path / "data.json"
    with running(tmp_path, f"--data={data}") as server:
        kubectl = Kubectl(programs / "kubectl", server, tmp_path)
        lost = version_of_new("a")
        server.stop(signal.SIGKILL)
    with running(tmp_path, f"--data={data}") as server:
        kubectl = Kubectl(programs / "kubectl", server, tmp_path)
        assert version_of_new("b") > lost
