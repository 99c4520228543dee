"""The shared control plane: its version, who may do what there, and what is secret."""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from mooring.testing.controlplane import (
    IDENTITIES,
    Access,
    ControlPlaneFailed,
    kubernetes_version,
    write_kubeconfig,
)
from mooring.testing.controlplane.binaries import PROGRAMS

Right = tuple[str, str, str]

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "fresh"}}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "main", "image": "registry.example/web"}]},
}


def parsed(text: str) -> Any:
    return json.loads(text)


def test_kubectl_and_the_server_tell_the_version_that_was_asked_for(plane: Access) -> None:
    told = parsed(plane.kubectl("version", "--output=json"))
    assert told["clientVersion"]["gitVersion"] == kubernetes_version()
    assert told["serverVersion"]["gitVersion"] == kubernetes_version()
    assert (told["serverVersion"]["major"], told["serverVersion"]["minor"]) == ("1", "36")


@pytest.mark.parametrize("program", [name for name in PROGRAMS if name.startswith("kube-")])
def test_every_program_of_kubernetes_has_the_version(programs: Path, program: str) -> None:
    said = subprocess.run([programs / program, "--version"], capture_output=True, text=True)
    assert said.stdout == f"Kubernetes {kubernetes_version()}\n"


@pytest.mark.parametrize("identity", IDENTITIES)
def test_the_server_knows_every_identity_by_its_certificate(plane: Access, identity: str) -> None:
    said = parsed(plane.kubectl("auth", "whoami", "--output=json", identity=identity))
    who = said["status"]["userInfo"]
    assert who["username"] == IDENTITIES[identity].user
    assert set(who["groups"]) == {*IDENTITIES[identity].groups, "system:authenticated"}


@pytest.mark.parametrize(
    ("identity", "question", "answer"),
    [
        ("admin", "* *", True),
        ("admin", "create clusterroles", True),
        ("system:kube-scheduler", "create pods --subresource=binding -n default", True),
        ("system:kube-scheduler", "update leases/kube-scheduler -n kube-system", True),
        ("system:kube-scheduler", "get secrets -n default", False),
        ("system:kube-scheduler", "create pods -n default", False),
        ("system:kube-controller-manager", "create serviceaccounts -n default", True),
        ("mooring", "create pods --subresource=binding -n default", True),
        ("mooring", "watch pods --all-namespaces", True),
        ("mooring", "patch pods --subresource=status -n default", True),
        ("mooring", "create events.events.k8s.io -n default", True),
        ("mooring", "update persistentvolumeclaims -n default", True),
        ("mooring", "create leases -n kube-system", True),
        ("mooring", "update leases/mooring -n kube-system", True),
        ("mooring", "update leases/kube-scheduler -n kube-system", True),
        ("mooring", "create leases -n default", False),
        ("mooring", "create pods -n default", False),
        ("mooring", "patch nodes", False),
        ("mooring", "get secrets -n kube-system", False),
        ("nobody", "get pods -n default", False),
        ("nobody", "list nodes", False),
        ("nobody", "create selfsubjectaccessreviews", True),
    ],
)
def test_rights(plane: Access, identity: str, question: str, answer: bool) -> None:
    said = plane.kubectl_result("auth", "can-i", *question.split(), identity=identity)
    assert said.stdout.strip() == ("yes" if answer else "no"), said.stderr


def test_nobody_is_refused_with_the_servers_words(plane: Access) -> None:
    with pytest.raises(ControlPlaneFailed) as raised:
        plane.kubectl("get", "pods", identity="nobody")
    assert 'Forbidden): pods is forbidden: User "nobody" cannot list' in str(raised.value)
    assert str(raised.value).startswith("kubectl get pods: Error from server")


def test_a_token_that_nobody_signed_is_unauthorized(plane: Access, tmp_path: Path) -> None:
    path = tmp_path / "forged.kubeconfig"
    write_kubeconfig(path, url=plane.url, authority=plane.authority, token="forged")
    # The last --kubeconfig counts.
    said = plane.kubectl_result(f"--kubeconfig={path}", "get", "--raw", "/api/v1/nodes")
    assert "Unauthorized" in said.stderr


def test_a_client_of_the_server_is_nobody_to_etcd(plane: Access, programs: Path) -> None:
    admin = plane.certificate("admin")
    etcd_url = next(
        argument.partition("=")[2]
        for argument in apiserver_arguments(plane)
        if argument.startswith("--etcd-servers=")
    )
    flags = [f"--url={etcd_url}", f"--ca={plane.folder / 'pki' / 'etcd-ca.crt'}"]
    flags += [f"--cert={admin.certificate}", f"--key={admin.key}", "--seconds=0"]
    tool = str(programs / "plane-tool")
    said = subprocess.run([tool, "wait", *flags, "/health"], capture_output=True, text=True)
    assert said.returncode == 1
    assert "certificate" in said.stderr


def apiserver_arguments(plane: Access) -> list[str]:
    pid = (plane.folder / "kube-apiserver.pid").read_text()
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def rights(rules: list[Mapping[str, list[str]]]) -> Iterator[Right]:
    """Yields every (group, resource or resource/name, verb) that rules of a role allow."""
    for rule in rules:
        names = rule.get("resourceNames", [""])
        for group, resource, verb, name in product(
            rule.get("apiGroups", []), rule.get("resources", []), rule["verbs"], names
        ):
            yield group, f"{resource} {name}".strip(), verb


def test_mooring_may_what_kube_scheduler_may_and_no_more(plane: Access) -> None:
    roles = {
        role["metadata"]["name"]: set(rights(role["rules"] or []))
        for role in parsed(plane.kubectl("get", "clusterroles", "--output=json"))["items"]
    }
    upstream = roles["system:kube-scheduler"] | roles["system:volume-scheduler"]

    # The gate DRADeviceTaintRules, off by default, adds these to kube-scheduler's role.
    of_taint_rules = {
        ("resource.k8s.io", "devicetaintrules", verb) for verb in ("get", "list", "watch")
    }
    assert roles["mooring"] - upstream == of_taint_rules
    missing = {(group, resource) for group, resource, _ in upstream - roles["mooring"]}
    assert missing == {
        ("", "bindings"),  # the old form of pods/binding
        ("extensions", "replicasets"),  # a group that no server has any more
        ("coordination.k8s.io", "leases"),  # ours are in kube-system, by a Role
        ("coordination.k8s.io", "leases kube-scheduler"),
        ("coordination.k8s.io", "leasecandidates"),  # coordinated leader election
    }


def test_a_service_accounts_token_has_the_same_rights(plane: Access, tmp_path: Path) -> None:
    path = tmp_path / "token.kubeconfig"
    token = plane.service_account_token(duration_s=600)
    write_kubeconfig(path, url=plane.url, authority=plane.authority, token=token)

    def ask(*question: str) -> str:
        return plane.kubectl_result(f"--kubeconfig={path}", "auth", *question).stdout

    who = parsed(ask("whoami", "--output=json"))["status"]["userInfo"]["username"]
    assert who == "system:serviceaccount:kube-system:mooring"
    assert ask("can-i", "create", "pods", "--subresource=binding") == "yes\n"
    assert ask("can-i", "get", "secrets") == "no\n"


def test_keys_and_kubeconfig_files_are_readable_by_their_owner_only(plane: Access) -> None:
    for identity in IDENTITIES:
        assert stat.S_IMODE(plane.kubeconfig(identity).stat().st_mode) == 0o600
    keys = list((plane.folder / "pki").glob("*.key"))
    assert len(keys) == len(IDENTITIES) + 7  # ca, server, etcd-ca, etcd, etcd-client, ...
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}
    assert stat.S_IMODE(plane.folder.stat().st_mode) == 0o700


def test_a_pod_needs_no_controllers_to_be_created(plane: Access, namespace: str) -> None:
    plane.kubectl("create", f"--namespace={namespace}", "--filename=-", stdin=json.dumps(POD))
    pod = parsed(plane.kubectl("get", "pod", "web", f"-n={namespace}", "--output=json"))
    assert pod["status"]["phase"] == "Pending"
    # Admission does run: the default tolerations are its work.
    keys = {toleration["key"] for toleration in pod["spec"]["tolerations"]}
    assert keys == {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}


def test_a_new_node_has_no_taint_that_nobody_would_remove(plane: Access) -> None:
    plane.kubectl("create", "--filename=-", stdin=json.dumps(NODE))
    try:
        node = parsed(plane.kubectl("get", "node", "fresh", "--output=json"))
        assert "taints" not in node["spec"]
    finally:
        plane.kubectl("delete", "node", "fresh")
