"""metrics.k8s.io: the requests of running pods, as kubectl top and autoscalers read usage."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mooring.apiserver.server import ApiServer
from mooring.clock import VirtualClock, seeded_random

ROOT = "/apis/metrics.k8s.io/v1beta1"
SIDECAR = {
    "name": "proxy",
    "image": "i",
    "restartPolicy": "Always",
    "resources": {"requests": {"cpu": "50m"}},
}
FIRST = {"name": "migrate", "image": "i", "resources": {"requests": {"cpu": "3"}}}


class Api:
    """An API server with two nodes and some pods."""

    def __init__(self, *, with_kubelets: bool = True) -> None:
        self.server = ApiServer(VirtualClock(), seeded_random(0), with_kubelets=with_kubelets)
        for name in ("a", "b"):
            metadata = {"name": name, "labels": {"zone": name}}
            self.ask("POST", "/api/v1/nodes", {"metadata": metadata})

    def ask(self, method: str, path: str, body: Any = None, **query: str) -> tuple[int, Any]:
        content = b"" if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        if method == "PATCH":
            headers = {"content-type": "application/merge-patch+json"}
        pairs = list(query.items())
        code, _, answer = asyncio.run(self.server.handle(method, path, pairs, headers, content))
        assert isinstance(answer, bytes)
        return code, json.loads(answer)

    def pod(
        self, name: str, node: str, phase: str = "Running", *, spec: Any = None, **requests: str
    ) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": requests}}
        pods = "/api/v1/namespaces/default/pods"
        labels = {"app": name}
        pod = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"nodeName": node, "containers": [container], **(spec or {})},
        }
        assert self.ask("POST", pods, pod)[0] == 201
        code, _ = self.ask("PATCH", f"{pods}/{name}/status", {"status": {"phase": phase}})
        assert code == 200


def test_a_node_uses_what_its_running_pods_request() -> None:
    api = Api()
    api.pod("web", "a", cpu="250m", memory="64Mi")
    api.pod("db", "a", cpu="1", memory="1Gi", spec={"initContainers": [FIRST, SIDECAR]})
    api.pod("done", "a", "Succeeded", cpu="2")
    api.pod("starting", "b", "Pending", cpu="2")

    code, nodes = api.ask("GET", f"{ROOT}/nodes")

    assert code == 200
    assert (nodes["kind"], nodes["apiVersion"]) == ("NodeMetricsList", "metrics.k8s.io/v1beta1")
    assert {item["metadata"]["name"]: item["usage"] for item in nodes["items"]} == {
        "a": {"cpu": "1300m", "memory": "1088Mi"},
        "b": {"cpu": "0", "memory": "0"},
    }


def test_the_usage_of_a_pod_is_that_of_its_containers() -> None:
    api = Api()
    api.pod("db", "a", cpu="1", spec={"initContainers": [FIRST, SIDECAR]})

    _, pod = api.ask("GET", f"{ROOT}/namespaces/default/pods/db")

    assert pod["kind"] == "PodMetrics"
    assert pod["containers"] == [
        {"name": "proxy", "usage": {"cpu": "50m", "memory": "0"}},
        {"name": "c", "usage": {"cpu": "1", "memory": "0"}},
    ]
    assert pod["timestamp"] == "2026-01-01T00:00:00Z"


def test_lists_have_selectors_and_namespaces() -> None:
    api = Api()
    api.pod("web", "a", cpu="1")
    api.pod("db", "b", cpu="1")

    def names(path: str, **query: str) -> list[str]:
        return [item["metadata"]["name"] for item in api.ask("GET", path, **query)[1]["items"]]

    assert names(f"{ROOT}/pods") == ["db", "web"]
    assert names(f"{ROOT}/pods", labelSelector="app=web") == ["web"]
    assert names(f"{ROOT}/pods", fieldSelector="spec.nodeName=b") == ["db"]
    assert names(f"{ROOT}/namespaces/kube-system/pods") == []
    assert names(f"{ROOT}/nodes", labelSelector="zone!=a") == ["b"]


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/namespaces/default/pods/none", 404),
        ("GET", "/nodes/none", 404),
        ("GET", "/deployments", 404),
        ("DELETE", "/nodes/a", 405),
        ("POST", "/nodes", 405),
        ("GET", "/nodes?watch=true", 405),
        ("GET", "/nodes?labelSelector=a==b==c", 400),
    ],
)
def test_what_is_not_served_is_an_error(method: str, path: str, code: int) -> None:
    path, _, query = path.partition("?")
    pairs = dict([query.split("=", 1)]) if query else {}
    assert Api().ask(method, ROOT + path, {} if method == "POST" else None, **pairs)[0] == code


def test_a_pod_that_does_not_run_has_no_usage() -> None:
    api = Api()
    api.pod("starting", "a", "Pending", cpu="1")

    code, status = api.ask("GET", f"{ROOT}/namespaces/default/pods/starting")

    assert code == 404
    assert status["message"] == 'pods.metrics.k8s.io "starting" not found'


def test_discovery_names_the_group_where_it_is_served() -> None:
    def groups(api: Api) -> list[str]:
        return [group["name"] for group in api.ask("GET", "/apis")[1]["groups"]]

    assert "metrics.k8s.io" in groups(Api())
    without = Api(with_kubelets=False)
    assert "metrics.k8s.io" not in groups(without)
    assert asyncio.run(without.server.handle("GET", ROOT, [], {}, b""))[0] == 404
    rows = Api().ask("GET", ROOT)[1]["resources"]
    assert [(row["name"], row["kind"], row["verbs"]) for row in rows] == [
        ("nodes", "NodeMetrics", ["get", "list"]),
        ("pods", "PodMetrics", ["get", "list"]),
    ]
