"""Objects that are stored and have no effect: the server says so."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mooring.apiserver.server import ApiServer
from mooring.clock import VirtualClock, seeded_random

GROUP = "/apis/admissionregistration.k8s.io/v1"
RULES = [
    {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
]
MERGE = "application/merge-patch+json"


def warning_of(
    server: ApiServer, method: str, path: str, body: Any, content_type: str = "application/json"
) -> str:
    headers = {"content-type": content_type}
    data = json.dumps(body).encode()
    code, answered, content = asyncio.run(server.handle(method, path, [], headers, data))
    assert code in (200, 201), content
    return answered.get("warning", "")


@pytest.fixture
def server() -> ApiServer:
    return ApiServer(VirtualClock(), seeded_random(0))


@pytest.mark.parametrize("kind", ["validating", "mutating"])
def test_webhooks_and_policies_are_not_called(server: ApiServer, kind: str) -> None:
    hook = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://example.com/a"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": RULES,
    }
    configuration = {"metadata": {"name": "a"}, "webhooks": [hook]}
    path = f"{GROUP}/{kind}webhookconfigurations"
    assert "not called" in warning_of(server, "POST", path, configuration)

    spec: dict[str, Any] = {"matchConstraints": {"resourceRules": RULES}}
    if kind == "validating":
        spec["validations"] = [{"expression": "true"}]
    else:
        expression = {"expression": "Object{}"}
        mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": expression}
        spec |= {"reinvocationPolicy": "Never", "mutations": [mutation]}
    path = f"{GROUP}/{kind}admissionpolicies"
    policy = {"metadata": {"name": "a"}, "spec": spec}
    assert "not called" in warning_of(server, "POST", path, policy)

    bound: dict[str, Any] = {"policyName": "a"}
    if kind == "validating":
        bound["validationActions"] = ["Deny"]
    path = f"{GROUP}/{kind}admissionpolicybindings"
    binding = {"metadata": {"name": "a"}, "spec": bound}
    assert "has no effect" in warning_of(server, "POST", path, binding)
    change = {"metadata": {"labels": {"a": "b"}}}
    assert "has no effect" in warning_of(server, "PATCH", f"{path}/a", change, MERGE)


def test_pod_security_standards_are_not_enforced(server: ApiServer) -> None:
    label = "pod-security.kubernetes.io/enforce"

    def warning(labels: dict[str, str | None]) -> str:
        change = {"metadata": {"labels": labels}}
        return warning_of(server, "PATCH", "/api/v1/namespaces/default", change, MERGE)

    assert f"{label}]: has no effect" in warning({label: "restricted"})
    assert warning({"other": "label"}) == "", "it was said before"
    assert warning({label: "privileged"}) == ""
    space = {"metadata": {"name": "a", "labels": {label: "baseline"}}}
    assert label in warning_of(server, "POST", "/api/v1/namespaces", space)
