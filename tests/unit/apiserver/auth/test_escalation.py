"""Roles whose permissions cannot be compared one by one with those of their author."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.apiserver.auth.authentication import UserInfo
from mooring.apiserver.auth.escalation import PARTS_MAX, check_escalation
from mooring.apiserver.auth.rbac import CLUSTER_ROLES
from mooring.apiserver.errors import ApiStatusError
from mooring.apiserver.registry.registry import Target
from tests.helpers.api import Api

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ANN = UserInfo("ann")


def rule(verbs: int, groups: int, resources: int, names: int = 0) -> dict[str, Any]:
    return {
        "verbs": [f"v{number}" for number in range(verbs)],
        "apiGroups": [f"g{number}" for number in range(groups)],
        "resources": [f"r{number}" for number in range(resources)],
        "resourceNames": [f"n{number}" for number in range(names)],
    }


def role(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "new"}, "rules": list(rules)}


def allow(api: Api, *rules: dict[str, Any]) -> None:
    api.post(f"{RBAC}/clusterroles", {"metadata": {"name": "own"}, "rules": list(rules)})
    bound = {
        "metadata": {"name": "ann"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "own"},
        "subjects": [{"kind": "User", "name": "ann"}],
    }
    api.post(f"{RBAC}/clusterrolebindings", bound)


def check(api: Api, new: dict[str, Any]) -> None:
    check_escalation(api.server.authorizer, ANN, Target(CLUSTER_ROLES, "", ""), new, None)


def test_a_role_of_trillions_of_permissions_is_refused_at_once() -> None:
    api = Api()
    allow(api, rule(2, 2, 2))
    with pytest.raises(ApiStatusError) as refusal:
        check(api, role(rule(1000, 1000, 1000, 1000), rule(1, 1, 1)))
    assert refusal.value.code == 403
    assert f"the rules grant {1000**4} single permissions" in str(refusal.value)


def test_as_many_permissions_as_can_be_compared_are_compared() -> None:
    api = Api()
    allow(api, rule(10, 10, 50), rule(10, 10, 100))
    largest = role(rule(10, 10, PARTS_MAX // 100))
    check(api, largest)
    with pytest.raises(ApiStatusError, match=r'Resources:\["r100"\]'):
        check(api, role(rule(10, 10, 99), {**rule(1, 1, 1), "resources": ["r100"]}))


def test_permissions_that_one_rule_covers_are_not_counted() -> None:
    api = Api()
    allow(api, {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
    check(api, role(rule(1000, 1000, 1000, 1000)))


def test_paths_count_for_each_verb() -> None:
    api = Api()
    paths = {"verbs": ["get"] * 101, "nonResourceURLs": [f"/{number}" for number in range(100)]}
    with pytest.raises(ApiStatusError, match="the rules grant 10100 single permissions"):
        check(api, role(paths))
