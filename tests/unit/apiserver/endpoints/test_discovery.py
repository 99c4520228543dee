"""Discovery: what kube-apiserver v1.36.3 says of the same resources, in both forms.

The expected rows are copied from api/discovery/*.json of the module k8s.io/kubernetes v1.36.3.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.apiserver.endpoints import discovery, health
from mooring.apiserver.errors import ApiStatusError
from mooring.apiserver.resources import RESOURCES

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
KUBECTL = f"{AGGREGATED},{AGGREGATED.replace('v=v2', 'v=v2beta1')},application/json"


def document(path: str, accept: str = "") -> Any:
    answer = discovery.respond(path, {"accept": accept})
    assert answer is not None
    assert answer.status == 200
    return json.loads(answer.body)


def row(path: str, name: str) -> Any:
    return next(one for one in document(path)["resources"] if one["name"] == name)


def test_the_discovery_entry_of_pods_is_upstreams() -> None:
    verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]

    assert row("/api/v1", "pods") == {
        "categories": ["all"],
        "kind": "Pod",
        "name": "pods",
        "namespaced": True,
        "shortNames": ["po"],
        "singularName": "pod",
        "storageVersionHash": "xPOwRZ+Yhw8=",
        "verbs": verbs,
    }
    assert row("/api/v1", "pods/eviction") == {
        "group": "policy",
        "kind": "Eviction",
        "name": "pods/eviction",
        "namespaced": True,
        "singularName": "",
        "verbs": ["create"],
        "version": "v1",
    }
    assert row("/api/v1", "pods/binding")["verbs"] == ["create"]


@pytest.mark.parametrize(
    ("path", "name", "tag"),
    [
        ("/api/v1", "events", "r2yiGXH7wu8="),
        # The same objects as the core events, hence the same form.
        ("/apis/events.k8s.io/v1", "events", "r2yiGXH7wu8="),
        ("/apis/apps/v1", "deployments", "8aSe+NMegvE="),
        ("/api/v1", "nodes", "XwShjMxG9Fs="),
    ],
)
def test_the_stored_form_has_upstreams_hash(path: str, name: str, tag: str) -> None:
    assert row(path, name)["storageVersionHash"] == tag


def test_core_says_its_version_without_a_slash() -> None:
    result = document("/api/v1")

    assert (result["groupVersion"], result["kind"]) == ("v1", "APIResourceList")
    assert "apiVersion" not in result
    assert document("/apis/apps/v1")["apiVersion"] == "v1"


def test_groups_come_in_upstreams_order() -> None:
    groups = [group["name"] for group in document("/apis")["groups"]]

    assert groups == [
        "apps",
        "events.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "networking.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "storage.k8s.io",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "scheduling.k8s.io",
        "coordination.k8s.io",
        "node.k8s.io",
        "discovery.k8s.io",
        "resource.k8s.io",
    ]
    assert document("/apis/batch")["preferredVersion"] == {
        "groupVersion": "batch/v1",
        "version": "v1",
    }


def test_kubectl_learns_everything_from_two_documents() -> None:
    obj: dict[tuple[str, str], Any] = {}
    for path in ("/api", "/apis"):
        whole = document(path, KUBECTL)
        assert (whole["kind"], whole["apiVersion"]) == (
            "APIGroupDiscoveryList",
            "apidiscovery.k8s.io/v2",
        )
        for group in whole["items"]:
            name = group["metadata"].get("name", "")
            rows = group["versions"][0]["resources"]
            obj.update({(name, one["resource"]): one for one in rows})

    assert set(obj) == {(one.group, one.name) for one in RESOURCES}
    # From aggregated_v2.json.
    assert obj["apps", "replicasets"] == {
        "categories": ["all"],
        "resource": "replicasets",
        "responseKind": {"group": "", "kind": "ReplicaSet", "version": ""},
        "scope": "Namespaced",
        "shortNames": ["rs"],
        "singularResource": "replicaset",
        "subresources": [
            {
                "responseKind": {"group": "autoscaling", "kind": "Scale", "version": "v1"},
                "subresource": "scale",
                "verbs": ["get", "patch", "update"],
            },
            {
                "responseKind": {"group": "", "kind": "ReplicaSet", "version": ""},
                "subresource": "status",
                "verbs": ["get", "patch", "update"],
            },
        ],
        "verbs": [
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ],
    }


def test_who_has_the_aggregated_document_is_not_sent_it_again() -> None:
    first = discovery.respond("/apis", {"accept": KUBECTL})
    assert first is not None
    again = discovery.respond("/apis", {"accept": KUBECTL, "if-none-match": first.headers["etag"]})
    other = discovery.respond("/apis", {"accept": KUBECTL, "if-none-match": '"other"'})

    assert first.headers["content-type"] == AGGREGATED
    assert first.headers["vary"] == "Accept"
    assert again is not None
    assert (again.status, again.body) == (304, b"")
    assert other is not None
    assert other.status == 200


def test_the_old_aggregated_version_is_answered_in_its_own_words() -> None:
    result = document("/api", AGGREGATED.replace("v=v2", "v=v2beta1"))

    assert result["apiVersion"] == "apidiscovery.k8s.io/v2beta1"


def test_protobuf_only_is_not_acceptable() -> None:
    with pytest.raises(ApiStatusError) as error:
        discovery.respond("/apis/apps/v1", {"accept": "application/vnd.kubernetes.protobuf"})

    assert (error.value.code, error.value.reason) == (406, "NotAcceptable")


def test_the_version_is_the_one_whose_behaviour_is_promised() -> None:
    result = document("/version")

    assert (result["major"], result["minor"], result["gitVersion"]) == ("1", "36", "v1.36.3")


def test_the_index_lists_every_document() -> None:
    paths = document("/")["paths"]

    assert paths == sorted(paths)
    assert {"/api/v1", "/apis/apps", "/apis/apps/v1", "/version", "/healthz/etcd"} <= set(paths)
    for path in paths:
        is_elsewhere = path.startswith("/openapi") or health.health_of(path, []) is not None
        assert is_elsewhere or discovery.respond(path, {}) is not None


@pytest.mark.parametrize("path", ["/api/v1/pods", "/apis/none", "/api/v2", "/metrics", "/apisx"])
def test_other_paths_have_no_response(path: str) -> None:
    assert discovery.respond(path, {}) is None
