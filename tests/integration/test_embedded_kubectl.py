"""The real kubectl v1.36.3 does its work on the embedded API server: reading and writing."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from tests.integration.embedded import Kubectl, make_list, make_node, make_pod

NUMBERS = itertools.count(1)


@pytest.fixture
def shop(kubectl: Kubectl) -> str:
    """A namespace for one test."""
    name = f"shop-{next(NUMBERS)}"
    assert kubectl("create", "namespace", name) == f"namespace/{name} created\n"
    return name


def rows(text: str) -> list[list[str]]:
    """Returns a table, its columns apart."""
    return [
        [cell.strip() for cell in line.split("   ") if cell.strip()] for line in text.splitlines()
    ]


# ---------------------------------------------------------------- the server itself


def test_version_matches_without_a_warning(kubectl: Kubectl) -> None:
    done = kubectl.run("version")

    assert "Server Version: v1.36.3\n" in done.stdout
    assert done.stderr == ""


def test_api_resources_are_those_that_are_served(kubectl: Kubectl) -> None:
    names = kubectl("api-resources", "-o", "name").split()

    assert {"pods", "nodes", "deployments.apps", "priorityclasses.scheduling.k8s.io"} <= set(names)
    assert kubectl("api-versions").split()[:4] == [
        "admissionregistration.k8s.io/v1",
        "apiextensions.k8s.io/v1",
        "apps/v1",
        "authentication.k8s.io/v1",
    ]


def test_raw_paths_are_answered(kubectl: Kubectl) -> None:
    assert kubectl("get", "--raw", "/readyz") == "ok"
    assert json.loads(kubectl("get", "--raw", "/api/v1/namespaces/default"))["kind"] == "Namespace"
    refused = kubectl.run("get", "--raw", "/apis/none/v1/things")
    assert refused.returncode == 1
    assert "the server could not find the requested resource" in refused.stderr


def test_the_namespaces_of_a_new_cluster_exist(kubectl: Kubectl) -> None:
    result = kubectl("get", "namespaces", "-o", "name").split()

    assert {"namespace/default", "namespace/kube-system"} <= set(result)


def test_can_i_asks_the_rules(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    denied = kubectl.run("auth", "can-i", "create", "pods", "--as=nobody")
    assert (denied.returncode, denied.stdout) == (1, "no\n")


def test_explain_reads_the_schemas(kubectl: Kubectl) -> None:
    text = kubectl("explain", "pod.spec.topologySpreadConstraints")

    assert "FIELD: topologySpreadConstraints <[]TopologySpreadConstraint>" in text
    assert "  topologyKey	<string> -required-" in text


# ---------------------------------------------------------------- reading


def test_get_shows_upstreams_tables(kubectl: Kubectl, shop: str) -> None:
    node = f"n-{shop}"
    kubectl("create", "-f", "-", stdin=make_node(node))
    objects = make_list(make_pod("placed", node=node), make_pod("waiting"))
    kubectl("create", "-n", shop, "-f", "-", stdin=objects)

    short = rows(kubectl("get", "pods", "-n", shop))
    wide = rows(kubectl("get", "pods", "-n", shop, "-o", "wide"))
    nodes = rows(kubectl("get", "nodes", node))
    everywhere = kubectl("get", "pods", "-A", "--no-headers")

    assert short[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row[:4] for row in short[1:]] == [
        ["placed", "0/1", "Pending", "0"],
        ["waiting", "0/1", "Pending", "0"],
    ]
    assert wide[0][5:] == ["IP", "NODE", "NOMINATED NODE", "READINESS GATES"]
    assert [row[6] for row in wide[1:]] == [node, "<none>"]
    assert nodes[0] == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert nodes[1][:3] == [node, "Ready", "<none>"]
    assert shop in everywhere


def test_get_prints_objects_in_every_form(kubectl: Kubectl, shop: str) -> None:
    kubectl("create", "-n", shop, "-f", "-", stdin=make_pod("web"))

    obj = kubectl.json("get", "pod", "web", "-n", shop)
    assert (obj["kind"], obj["apiVersion"]) == ("Pod", "v1")
    assert obj["metadata"]["uid"]
    assert kubectl("get", "pods", "-n", shop, "-o", "name") == "pod/web\n"
    assert "\n  name: web\n" in kubectl("get", "pod", "web", "-n", shop, "-o", "yaml")
    path = "jsonpath={.items[*].status.phase}"
    assert kubectl("get", "pods", "-n", shop, "-o", path) == "Pending"


def test_get_selects(kubectl: Kubectl, shop: str) -> None:
    objects = make_list(make_pod("a", node="n-x"), make_pod("b"), make_pod("c"))
    kubectl("create", "-n", shop, "-f", "-", stdin=objects)

    def names(*words: str) -> list[str]:
        return kubectl("get", "pods", "-n", shop, "-o", "name", *words).split()

    assert names("-l", "app=a") == ["pod/a"]
    assert names("-l", "app in (a, c),!other") == ["pod/a", "pod/c"]
    assert names("--field-selector", "spec.nodeName=n-x") == ["pod/a"]
    assert names("--field-selector", "metadata.name!=b,status.phase=Pending") == ["pod/a", "pod/c"]
    refused = kubectl.run("get", "pods", "-n", shop, "--field-selector", "spec.image=x")
    assert "field label not supported: spec.image" in refused.stderr


def test_get_pages_through_long_lists(kubectl: Kubectl, shop: str) -> None:
    objects = make_list(*(make_pod(f"p-{number:02}") for number in range(25)))
    kubectl("create", "-n", shop, "-f", "-", stdin=objects)

    assert (
        len(kubectl("get", "pods", "-n", shop, "--chunk-size=10", "--no-headers").splitlines())
        == 25
    )


def test_get_watches(kubectl: Kubectl, shop: str) -> None:
    kubectl("create", "-n", shop, "-f", "-", stdin=make_pod("first"))
    with kubectl.watching("get", "pods", "-n", shop, "-w", "--output-watch-events") as lines:
        assert next(lines).split()[:3] == ["EVENT", "NAME", "READY"]
        assert next(lines).split()[:2] == ["ADDED", "first"]
        kubectl("create", "-n", shop, "-f", "-", stdin=make_pod("second"))
        assert next(lines).split()[:2] == ["ADDED", "second"]
        kubectl("label", "pod", "second", "-n", shop, "tier=web")
        assert next(lines).split()[:2] == ["MODIFIED", "second"]
        kubectl("delete", "pod", "first", "-n", shop)
        # As upstream: first it is marked, then it is gone.
        assert next(lines).split()[:2] == ["MODIFIED", "first"]
        assert next(lines).split()[:2] == ["DELETED", "first"]


def test_what_is_not_there_is_said_as_upstream_says_it(kubectl: Kubectl, shop: str) -> None:
    missing = kubectl.run("get", "pod", "nope", "-n", shop)
    unknown = kubectl.run("get", "flowschemas")

    assert missing.stderr == 'Error from server (NotFound): pods "nope" not found\n'
    assert unknown.stderr == 'error: the server doesn\'t have a resource type "flowschemas"\n'


def test_describe_shows_pod_node_and_events(kubectl: Kubectl, shop: str) -> None:
    node = f"n-{shop}"
    kubectl("create", "-f", "-", stdin=make_node(node))
    kubectl("create", "-n", shop, "-f", "-", stdin=make_pod("web", node=node))
    uid = kubectl.json("get", "pod", "web", "-n", shop)["metadata"]["uid"]
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "web.1"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "test",
        "reportingInstance": "test-1",
        "action": "Testing",
        "reason": "Tested",
        "regarding": {"kind": "Pod", "name": "web", "namespace": shop, "uid": uid},
        "note": "all is well",
        "type": "Normal",
    }
    kubectl("create", "-n", shop, "-f", "-", stdin=event)

    pod = kubectl("describe", "pod", "web", "-n", shop)
    described = kubectl("describe", "node", node)

    assert "Node-Selectors:" in pod
    assert "all is well" in pod
    assert "node.kubernetes.io/not-ready:NoExecute op=Exists for 300s" in pod
    assert "Allocatable:" in described
    assert " web " in described


# ---------------------------------------------------------------- writing


def test_create_makes_the_objects_that_kubectl_sends_as_protobuf(
    kubectl: Kubectl, shop: str
) -> None:
    commands: list[tuple[str, ...]] = [
        ("configmap", "settings", "--from-literal=a=b"),
        ("secret", "generic", "keys", "--from-literal=a=b"),
        ("serviceaccount", "robot"),
        ("deployment", "web", "--image=x", "--replicas=3"),
        ("job", "once", "--image=x"),
        ("service", "clusterip", "front", "--tcp=80:8080"),
        ("poddisruptionbudget", "guard", "--selector=app=web", "--min-available=50%"),
    ]
    for words in commands:
        assert "created" in kubectl("create", *words, "-n", shop)

    assert kubectl.json("get", "configmap", "settings", "-n", shop)["data"] == {"a": "b"}
    assert kubectl.json("get", "deployment", "web", "-n", shop)["spec"]["replicas"] == 3
    assert kubectl.json("get", "pdb", "guard", "-n", shop)["spec"]["minAvailable"] == "50%"


def test_autoscale_creates_an_autoscaler(kubectl: Kubectl, shop: str) -> None:
    kubectl("create", "deployment", "web", "--image=x", "-n", shop)

    created = kubectl("autoscale", "deployment", "web", "--max=5", "--cpu=70%", "-n", shop)
    by_memory = ("--name=more", "--max=3", "--memory=1Gi")
    kubectl("autoscale", "deployment", "web", *by_memory, "-n", shop)

    assert created == "horizontalpodautoscaler.autoscaling/web autoscaled\n"
    spec = kubectl.json("get", "hpa", "web", "-n", shop)["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (1, 5)
    assert spec["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    (metric,) = spec["metrics"]
    assert metric["resource"]["target"] == {"type": "Utilization", "averageUtilization": 70}
    (metric,) = kubectl.json("get", "hpa", "more", "-n", shop)["spec"]["metrics"]
    assert metric["resource"]["name"] == "memory"
    assert metric["resource"]["target"] == {"type": "AverageValue", "averageValue": "1Gi"}


def test_create_priorityclass_is_used_by_pods(kubectl: Kubectl, shop: str) -> None:
    name = f"high-{shop}"
    kubectl("create", "priorityclass", name, "--value=1000")
    kubectl("create", "-n", shop, "-f", "-", stdin=make_pod("web", priorityClassName=name))

    assert kubectl.json("get", "pod", "web", "-n", shop)["spec"]["priority"] == 1000


def test_run_makes_a_pod(kubectl: Kubectl, shop: str) -> None:
    assert kubectl("run", "web", "--image=x", "-n", shop) == "pod/web created\n"
    again = kubectl.run("run", "web", "--image=x", "-n", shop)
    assert again.stderr == 'Error from server (AlreadyExists): pods "web" already exists\n'


def test_a_field_that_does_not_exist_is_refused(kubectl: Kubectl, shop: str) -> None:
    refused = kubectl.run("create", "-n", shop, "-f", "-", stdin=make_pod("web", nodname="x"))

    assert refused.returncode == 1
    assert 'unknown field "spec.nodname"' in refused.stderr


def test_a_pod_that_breaks_a_rule_is_refused_with_its_field(kubectl: Kubectl, shop: str) -> None:
    refused = kubectl.run("create", "-n", shop, "-f", "-", stdin=make_pod("web", containers=[]))

    assert 'The Pod "web" is invalid: spec.containers: Required value' in refused.stderr


def deployment(**spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": make_pod("x")["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec},
    }


def test_apply_creates_changes_and_leaves_alone(kubectl: Kubectl, shop: str) -> None:
    words = ("apply", "-n", shop, "-f", "-")

    assert kubectl(*words, stdin=deployment(replicas=1)) == "deployment.apps/web created\n"
    assert kubectl(*words, stdin=deployment(replicas=2)) == "deployment.apps/web configured\n"
    assert kubectl(*words, stdin=deployment(replicas=2)) == "deployment.apps/web unchanged\n"
    obj = kubectl.json("get", "deployment", "web", "-n", shop)
    assert (obj["spec"]["replicas"], obj["metadata"]["generation"]) == (2, 2)


def test_apply_on_the_server_merges_by_owner(kubectl: Kubectl, shop: str) -> None:
    words = ("apply", "--server-side", "-n", shop, "-f", "-")
    kubectl(*words, stdin=deployment(replicas=1))
    changed = deployment(replicas=2)
    changed["metadata"]["labels"] = {"tier": "front"}

    assert kubectl(*words, stdin=changed) == "deployment.apps/web serverside-applied\n"
    obj = kubectl.json("get", "deployment", "web", "-n", shop, "--show-managed-fields")
    assert obj["spec"]["replicas"] == 2
    assert [entry["manager"] for entry in obj["metadata"]["managedFields"]] == ["kubectl"]
    kubectl(*words, stdin=deployment(replicas=2))
    assert "labels" not in kubectl.json("get", "deployment", "web", "-n", shop)["metadata"]


def test_diff_changes_nothing(kubectl: Kubectl, shop: str) -> None:
    kubectl("apply", "-n", shop, "-f", "-", stdin=deployment(replicas=1))

    done = kubectl.run("diff", "-n", shop, "-f", "-", stdin=deployment(replicas=5))

    assert done.returncode == 1
    assert "+  replicas: 5" in done.stdout
    assert kubectl.json("get", "deployment", "web", "-n", shop)["spec"]["replicas"] == 1


def test_replace_needs_the_version_that_is_there(kubectl: Kubectl, shop: str) -> None:
    kubectl("create", "-n", shop, "-f", "-", stdin=deployment(replicas=1))
    obj = kubectl.json("get", "deployment", "web", "-n", shop)
    obj["spec"]["replicas"] = 4

    assert kubectl("replace", "-f", "-", stdin=obj) == "deployment.apps/web replaced\n"
    refused = kubectl.run("replace", "-f", "-", stdin=obj)
    assert "the object has been modified" in refused.stderr
    assert kubectl.json("get", "deployment", "web", "-n", shop)["spec"]["replicas"] == 4


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        (
            "strategic",
            {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "y"}]}}}},
        ),
        (
            "merge",
            {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "y"}]}}}},
        ),
        (
            "json",
            [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "y"}],
        ),
    ],
)
def test_patch_has_three_languages(kubectl: Kubectl, shop: str, kind: str, patch: Any) -> None:
    kubectl("create", "-n", shop, "-f", "-", stdin=deployment())

    words = ("patch", "deployment", "web", "-n", shop, "--type", kind, "-p", json.dumps(patch))
    assert kubectl(*words) == "deployment.apps/web patched\n"
    (container,) = kubectl.json("get", "deployment", "web", "-n", shop)["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["image"] == "y"


def test_a_patch_of_the_status_touches_nothing_else(kubectl: Kubectl, shop: str) -> None:
    kubectl("create", "-n", shop, "-f", "-", stdin=make_pod("web"))
    patch = {"status": {"phase": "Running"}, "spec": {"nodeName": "n-1"}}

    kubectl(
        "patch",
        "pod",
        "web",
        "-n",
        shop,
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps(patch),
    )

    obj = kubectl.json("get", "pod", "web", "-n", shop)
    assert obj["status"]["phase"] == "Running"
    assert "nodeName" not in obj["spec"]


def test_labels_and_annotations_come_and_go(kubectl: Kubectl, shop: str) -> None:
    kubectl("create", "-n", shop, "-f", "-", stdin=make_pod("web"))

    assert kubectl("label", "pod", "web", "-n", shop, "tier=front") == "pod/web labeled\n"
    assert kubectl("annotate", "pod", "web", "-n", shop, "note=x") == "pod/web annotated\n"
    obj = kubectl.json("get", "pod", "web", "-n", shop)["metadata"]
    assert (obj["labels"]["tier"], obj["annotations"]["note"]) == ("front", "x")
    kubectl("label", "pod", "web", "-n", shop, "tier-")
    assert kubectl.json("get", "pod", "web", "-n", shop)["metadata"]["labels"] == {"app": "web"}


def test_scale_changes_the_replicas(kubectl: Kubectl, shop: str) -> None:
    kubectl("create", "-n", shop, "-f", "-", stdin=deployment(replicas=1))

    assert kubectl("scale", "deployment", "web", "-n", shop, "--replicas=7")
    assert kubectl.json("get", "deployment", "web", "-n", shop)["spec"]["replicas"] == 7
