"""Roles that collect the rules of others, and what a change of a role changes at once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from mooring.apiserver.auth.authentication import UserInfo
from mooring.apiserver.auth.authorization import Attributes
from mooring.apiserver.server import ApiServer
from mooring.clock import VirtualClock, seeded_random

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
ANN = UserInfo("ann")


class Api:
    """An API server in this process."""

    def __init__(self) -> None:
        self.server = ApiServer(VirtualClock(), seeded_random(0))

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"content-type": "application/json"}
        if method == "PATCH":
            headers = {"content-type": "application/merge-patch+json"}
        content = b"" if body is None else json.dumps(body).encode()
        handled = self.server.handle(method, path, [], headers, content)
        code, _, answer = asyncio.run(handled)
        assert code in (200, 201), answer
        assert isinstance(answer, bytes)
        return json.loads(answer)

    def rules(self, name: str) -> Any:
        return self.ask("GET", f"{ROLES}/{name}").get("rules")


def rule(verb: str, resource: str) -> dict[str, Any]:
    return {"verbs": [verb], "apiGroups": [""], "resources": [resource]}


def role(name: str, *rules: dict[str, Any], labels: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "rules": list(rules), **more}


def collecting(label: str) -> dict[str, Any]:
    return {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}


def test_an_aggregated_role_has_the_rules_of_the_roles_that_it_selects() -> None:
    api = Api()
    api.ask("POST", ROLES, role("all", labels={}, aggregationRule=collecting("in-all")))
    assert not api.rules("all")

    api.ask("POST", ROLES, role("b", rule("get", "b"), labels={"in-all": "true"}))
    api.ask("POST", ROLES, role("a", rule("get", "a"), rule("get", "b"), labels={"in-all": "true"}))
    assert api.rules("all") == [rule("get", "a"), rule("get", "b")]

    api.ask("DELETE", f"{ROLES}/a")
    assert api.rules("all") == [rule("get", "b")]


def test_aggregated_roles_collect_one_another() -> None:
    api = Api()
    inner = role("inner", labels={"out": "true"}, aggregationRule=collecting("in"))
    api.ask("POST", ROLES, inner)
    api.ask("POST", ROLES, role("outer", labels={}, aggregationRule=collecting("out")))
    api.ask("POST", ROLES, role("leaf", rule("get", "x"), labels={"in": "true"}))

    assert api.rules("outer") == [rule("get", "x")]


def test_the_default_roles_are_filled_and_take_more() -> None:
    api = Api()
    label = "rbac.authorization.k8s.io/aggregate-to-view"
    own = role("own", rule("get", "mine"), labels={label: "true"})
    api.ask("POST", ROLES, own)

    for name in ("view", "edit", "admin"):
        assert rule("get", "mine") in api.rules(name)


def test_a_deleted_binding_allows_nothing_any_more() -> None:
    api = Api()
    subject = {"kind": "User", "name": "ann"}
    bound = {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [subject],
    }
    listing = Attributes("list", "", "", "pods")
    assert not api.server.authorizer.is_allowed(ANN, listing)
    api.ask("POST", BINDINGS, bound)
    assert api.server.authorizer.is_allowed(ANN, listing)
    api.ask("DELETE", f"{BINDINGS}/b")
    assert not api.server.authorizer.is_allowed(ANN, listing)


def test_a_loaded_snapshot_has_its_own_roles() -> None:
    api = Api()
    cluster_admin = {"kind": "ClusterRole", "name": "cluster-admin"}
    group = {"kind": "User", "name": "ann"}
    bound = {"metadata": {"name": "b"}, "roleRef": cluster_admin, "subjects": [group]}
    api.ask("POST", BINDINGS, bound)
    other = Api()

    other.server.load(api.server.snapshot())

    assert other.server.authorizer.is_allowed(ANN, Attributes("delete", "", "", "nodes"))
