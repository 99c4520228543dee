"""kubectl's commands about permissions, and the project's own manifests, on the embedded server."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.embedded import Kubectl

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_the_random_schedulers_manifests_apply(kubectl: Kubectl) -> None:
    for _ in range(2):
        kubectl("apply", "-f", str(DEPLOY / "random-scheduler"))

    account = "--as=system:serviceaccount:kube-system:random-scheduler"
    assert kubectl("auth", "can-i", "create", "pods", "--subresource=binding", account) == "yes\n"
    assert kubectl.run("auth", "can-i", "delete", "nodes", account).stdout == "no\n"


def test_the_manifests_of_two_replicas_apply(kubectl: Kubectl) -> None:
    overlay = str(DEPLOY / "kustomize" / "overlays" / "second-scheduler")
    first = kubectl("apply", "-k", overlay)
    assert "networkpolicy.networking.k8s.io/mooring created" in first
    again = kubectl("apply", "-k", overlay).splitlines()
    # As kube-apiserver: kubectl sends the budget again.
    changed = [line for line in again if not line.endswith(" unchanged")]
    assert changed == ["poddisruptionbudget.policy/mooring configured"]

    account = "--as=system:serviceaccount:kube-system:mooring"
    assert kubectl("auth", "can-i", "update", "pods", "--subresource=status", account) == "yes\n"
    # The identity of the server itself keeps its permissions.
    assert kubectl("auth", "can-i", "update", "pods", "--subresource=status", "--as=mooring")


def test_auth_reconcile_adds_what_is_missing(kubectl: Kubectl) -> None:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "reconciled"},
        "rules": [rule],
    }
    kubectl("auth", "reconcile", "-f", "-", stdin=role)
    role["rules"] = [{**rule, "verbs": ["list"]}]
    kubectl("auth", "reconcile", "-f", "-", stdin=role)

    verbs = kubectl("get", "clusterrole", "reconciled", "-o", "jsonpath={.rules[*].verbs}")
    assert verbs == '["get"] ["list"]'


def test_create_and_describe_show_the_rules(kubectl: Kubectl) -> None:
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods")
    kubectl("create", "rolebinding", "readers", "--role=reader", "--user=ann")

    assert kubectl("auth", "can-i", "list", "pods", "--as=ann") == "yes\n"
    listed = kubectl("auth", "can-i", "--list", "--as=ann")
    assert "pods " in listed
    described = kubectl("describe", "rolebinding", "readers")
    assert "ann" in described
    wide = kubectl("get", "rolebinding", "readers", "-o", "wide")
    assert "Role/reader" in wide


def test_a_created_token_authenticates(kubectl: Kubectl) -> None:
    kubectl("create", "serviceaccount", "robot")
    token = kubectl("create", "token", "robot", "--duration=20m").strip()

    said = kubectl("auth", "whoami", f"--token={token}", "-o", "jsonpath={.status.userInfo}")
    user = json.loads(said)
    assert user["username"] == "system:serviceaccount:default:robot"
    refused = kubectl.run("get", "pods", f"--token={token}")
    assert 'cannot list resource "pods"' in refused.stderr
    kubectl(
        "create", "rolebinding", "robots", "--clusterrole=view", "--serviceaccount=default:robot"
    )
    assert kubectl.run("get", "pods", f"--token={token}").returncode == 0
