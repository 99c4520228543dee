"""The real kubectl on the embedded API server: applying, owning fields, and what is not served."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.embedded import Kubectl

NUMBERS = itertools.count(1)


@pytest.fixture
def shop(kubectl: Kubectl) -> str:
    """A namespace for one test."""
    name = f"apply-{next(NUMBERS)}"
    kubectl("create", "namespace", name)
    return name


def config_map(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"set": "one"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def deployment(image: str) -> dict[str, Any]:
    labels = {"app": "web"}
    containers = [{"name": "c", "image": image, "ports": [{"containerPort": 80}]}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": spec,
    }


def managers(kubectl: Kubectl, *what: str) -> set[tuple[str, str]]:
    obj = json.loads(kubectl("get", *what, "-o", "json", "--show-managed-fields"))
    return {(e["manager"], e["operation"]) for e in obj["metadata"]["managedFields"]}


def test_server_side_apply_takes_over_from_the_clients(kubectl: Kubectl, shop: str) -> None:
    here = ("-n", shop)
    kubectl("apply", *here, "-f", "-", stdin=deployment("nginx:1"))
    assert managers(kubectl, *here, "deploy", "web") == {("kubectl-client-side-apply", "Update")}

    taken = kubectl.run("apply", *here, "--server-side", "-f", "-", stdin=deployment("nginx:1"))
    assert (taken.stdout, taken.stderr) == ("deployment.apps/web serverside-applied\n", "")
    kubectl("apply", *here, "--server-side", "-f", "-", stdin=deployment("nginx:2"))

    assert ("kubectl", "Apply") in managers(kubectl, *here, "deploy", "web")
    obj = kubectl.json("get", *here, "deploy", "web")
    assert obj["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:2"
    assert obj["spec"]["template"]["metadata"]["labels"] == {"app": "web"}
    note = obj["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
    assert "nginx:2" in note
    back = kubectl.run("apply", *here, "-f", "-", stdin=deployment("nginx:3"))
    assert (back.stdout, back.stderr) == ("deployment.apps/web configured\n", "")


def test_conflicts_are_reported_and_can_be_forced(kubectl: Kubectl, shop: str) -> None:
    apply = ("apply", "-n", shop, "--server-side", "-f", "-")
    kubectl(*apply, stdin=config_map("conf", a="1"))
    other = ("--field-manager=other",)
    refused = kubectl.run(*apply, *other, stdin=config_map("conf", a="2"))
    assert refused.returncode == 1
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .data.a' in refused.stderr
    kubectl(*apply, *other, "--force-conflicts", stdin=config_map("conf", a="2"))
    assert kubectl.json("get", "-n", shop, "cm", "conf")["data"] == {"a": "2"}


def test_what_is_no_longer_applied_is_pruned(kubectl: Kubectl, shop: str, tmp_path: Path) -> None:
    here = ("-n", shop)
    for name in ("one", "two"):
        kubectl("apply", *here, "-f", "-", stdin=config_map(name, a="1"))
    file = tmp_path / "one.json"
    file.write_text(json.dumps(config_map("one", a="1")))
    allowed = "--prune-allowlist=core/v1/ConfigMap"
    said = kubectl("apply", *here, "-f", str(file), "--prune", "-l", "set=one", allowed)
    assert "configmap/two pruned" in said
    assert kubectl("get", *here, "cm", "-o", "name") == "configmap/one\n"


def test_an_editor_changes_what_is_there(kubectl: Kubectl, shop: str, tmp_path: Path) -> None:
    kubectl("create", "-n", shop, "-f", "-", stdin=config_map("conf", a="1"))
    editor = tmp_path / "editor"
    editor.write_text("""#!/bin/sh\nsed -i 's/a: "1"/a: edited/' "$1"\n""")
    editor.chmod(0o755)
    done = kubectl.run("edit", "-n", shop, "cm", "conf", env={"KUBE_EDITOR": str(editor)})
    assert done.stdout == "configmap/conf edited\n"
    assert kubectl.json("get", "-n", shop, "cm", "conf")["data"] == {"a": "edited"}


def test_a_debugger_is_added_to_a_pod(kubectl: Kubectl, shop: str) -> None:
    kubectl("run", "-n", shop, "web", "--image=x")
    kubectl("debug", "-n", shop, "web", "--image=tools", "-c", "look", "--quiet")
    (result,) = kubectl.json("get", "-n", shop, "pod", "web")["spec"]["ephemeralContainers"]
    assert (result["name"], result["image"]) == ("look", "tools")


def test_who_am_i_and_what_may_i_do(kubectl: Kubectl) -> None:
    said = kubectl("auth", "whoami")
    assert "kubernetes-admin" in said
    assert "system:masters" in said
    rows = [line.split() for line in kubectl("auth", "can-i", "--list").splitlines()]
    assert ["*.*", "[]", "[]", "[*]"] in rows


def test_what_needs_a_kubelet_says_so(kubectl: Kubectl, shop: str) -> None:
    kubectl("run", "-n", shop, "web", "--image=x")
    for command in (("logs", "web"), ("exec", "web", "--", "ls"), ("attach", "web")):
        done = kubectl.run(command[0], "-n", shop, *command[1:])
        assert done.returncode == 1
        assert "is not served: no kubelet runs the pods of this server" in done.stderr


def test_jobs_and_their_pods_have_labels_of_their_own(kubectl: Kubectl, shop: str) -> None:
    kubectl("create", "job", "-n", shop, "once", "--image=x")
    said = kubectl("describe", "job", "-n", shop, "once")
    assert "batch.kubernetes.io/job-name=once" in said
    assert kubectl("delete", "job", "-n", shop, "once").startswith('job.batch "once" deleted')
