"""Bindings: what they change in the pod, and when they are refused. As in kube-apiserver.

Source: pkg/registry/core/pod/storage/storage.go (v1.36.3).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.api import PODS, Api, Object, pod

NODES = "/api/v1/nodes"
NODE: Object = {"kind": "Node", "name": "n1"}


def answer_of(
    api: Api, name: str, target: Object = NODE, query: str = "", **meta: Any
) -> tuple[int, str]:
    """Sends a binding; returns the status and the message of the response."""
    body = {"metadata": {"name": name, **meta}, "target": target}
    status, answer = api.ask("POST", f"{PODS}/{name}/binding{query}", body)
    return status, answer.get("message", "")


def bind(api: Api, name: str, target: Object = NODE, query: str = "", **meta: Any) -> int:
    return answer_of(api, name, target, query, **meta)[0]


def node_of(api: Api, name: str) -> str:
    return str(api.get(f"{PODS}/{name}")["spec"].get("nodeName", ""))


def test_a_binding_sets_the_node_and_the_condition_and_ends_the_nomination() -> None:
    api = Api()
    api.post(PODS, pod("a"))
    api.patch(f"{PODS}/a/status", {"status": {"nominatedNodeName": "n2"}})

    assert bind(api, "a") == 201

    stored = api.get(f"{PODS}/a")
    assert stored["spec"]["nodeName"] == "n1"
    assert "nominatedNodeName" not in stored["status"]
    [scheduled] = [
        each for each in stored["status"]["conditions"] if each["type"] == "PodScheduled"
    ]
    assert scheduled["status"] == "True"


def test_labels_and_annotations_of_a_binding_are_added_to_those_of_the_pod() -> None:
    api = Api()
    document = pod("a", labels={"app": "web"})
    document["metadata"]["annotations"] = {"old": "1"}
    api.post(PODS, document)

    bind(api, "a", annotations={"new": "2"}, labels={"x": "y"})

    metadata = api.get(f"{PODS}/a")["metadata"]
    assert metadata["annotations"] == {"old": "1", "new": "2"}
    assert metadata["labels"]["app"] == "web"
    assert metadata["labels"]["x"] == "y"


def test_a_pod_gets_the_zone_and_the_region_of_its_node() -> None:
    api = Api()
    labels = {
        "topology.kubernetes.io/zone": "z1",
        "topology.kubernetes.io/region": "r1",
        "example.com/other": "o",
    }
    api.post(NODES, {"metadata": {"name": "n1", "labels": labels}})
    api.post(PODS, pod("a"))
    api.post(PODS, pod("b"))

    bind(api, "a")
    bind(api, "b", {"name": "n1"})

    expected = {key: labels[key] for key in list(labels)[:2]}
    assert api.get(f"{PODS}/a")["metadata"]["labels"] == expected
    # Only a target whose kind is named is known to be a node.
    assert "labels" not in api.get(f"{PODS}/b")["metadata"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"schedulingGates": [{"name": "example.com/gate"}]},
            "pod a has non-empty .spec.schedulingGates",
        ),
        ({"nodeName": "n9"}, 'pod a is already assigned to node "n9"'),
    ],
)
def test_a_pod_that_is_gated_or_bound_is_refused(spec: Object, message: str) -> None:
    api = Api()
    api.post(PODS, pod("a", **spec))

    status, refusal = answer_of(api, "a")

    assert status == 409
    assert message in refusal
    assert node_of(api, "a") == spec.get("nodeName", "")


def test_a_pod_that_is_being_deleted_is_refused() -> None:
    api = Api()
    document = pod("a")
    document["metadata"]["finalizers"] = ["example.com/wait"]
    api.post(PODS, document)
    api.delete(f"{PODS}/a")

    status, refusal = answer_of(api, "a")

    assert status == 409
    assert "is being deleted" in refusal
    assert node_of(api, "a") == ""


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
def test_a_binding_for_another_version_of_the_pod_is_refused(field: str) -> None:
    api = Api()
    created = api.post(PODS, pod("a"))

    other: dict[str, Any] = {field: "777"}
    assert bind(api, "a", **other) == 409
    assert node_of(api, "a") == ""
    assert bind(api, "a", **{field: created["metadata"][field]}) == 201
    assert node_of(api, "a") == "n1"


@pytest.mark.parametrize(
    ("target", "status"),
    [({"kind": "Node"}, 500), ({"kind": "Node", "name": ""}, 500), ({"kind": "Pod"}, 500)],
)
def test_a_target_that_is_no_node_is_refused(target: Object, status: int) -> None:
    api = Api()
    api.post(PODS, pod("a"))

    assert bind(api, "a", target) == status
    assert node_of(api, "a") == ""


def test_name_and_namespace_of_the_body_are_those_of_the_path() -> None:
    api = Api()
    api.post(PODS, pod("a"))
    api.post(PODS, pod("b"))

    status, answer = api.ask(
        "POST", f"{PODS}/a/binding", {"metadata": {"name": "b"}, "target": NODE}
    )
    assert (status, answer["message"]) == (400, "name in URL does not match name in Binding object")
    assert bind(api, "a", namespace="other") == 400
    assert [node_of(api, name) for name in "ab"] == ["", ""]


def test_a_dry_run_binds_nothing() -> None:
    api = Api()
    api.post(PODS, pod("a"))

    assert bind(api, "a", query="?dryRun=All") == 201
    assert node_of(api, "a") == ""
