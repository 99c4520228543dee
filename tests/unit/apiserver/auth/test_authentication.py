"""Authentication and authorization: tokens, kubeconfig files, rules, reviews.

Messages are those of k8s.io/apiserver v0.36.3 handlers/responsewriters/errors_test.go and of
k8s.io/kubernetes v1.36.3 pkg/apis/authorization/validation.
"""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml

from mooring.apiserver.auth.authentication import (
    ADMIN,
    ANONYMOUS,
    IDENTITIES,
    Tokens,
    UserInfo,
    identity_in,
    kubeconfig,
)
from mooring.apiserver.auth.authorization import Attributes, attributes_of
from mooring.apiserver.endpoints.reviews import review
from mooring.apiserver.errors import ApiStatusError
from mooring.apiserver.patch.managed_fields import FieldManager
from mooring.apiserver.resources import resource_named
from mooring.apiserver.server import ApiServer
from mooring.clock import VirtualClock, seeded_random

SCHEDULER = IDENTITIES["system:kube-scheduler"]
AUTHORIZER = ApiServer(VirtualClock(), seeded_random(0)).authorizer
MOORING = IDENTITIES["mooring"]
NOBODY = IDENTITIES["nobody"]
TOKEN_REVIEWS = resource_named("authentication.k8s.io", "tokenreviews")
ACCESS_REVIEWS = resource_named("authorization.k8s.io", "subjectaccessreviews")
SELF_REVIEWS = resource_named("authorization.k8s.io", "selfsubjectaccessreviews")


# ---------------------------------------------------------------- tokens


def test_a_token_is_known_until_it_is_revoked() -> None:
    tokens = Tokens()
    token = tokens.issue(UserInfo("ann", ("ops",)))

    assert tokens.authenticate(f"Bearer {token}") == UserInfo(
        "ann", ("ops", "system:authenticated")
    )
    assert tokens.authenticate(f"bearer  {token} ") is not None
    tokens.revoke(token)
    tokens.revoke(token)
    with pytest.raises(ApiStatusError):
        tokens.authenticate(f"Bearer {token}")


def test_two_tokens_are_never_the_same_and_hard_to_guess() -> None:
    tokens = Tokens()
    issued = {tokens.issue(ADMIN) for _ in range(100)}

    assert len(issued) == 100
    assert min(map(len, issued)) >= 43  # 256 bits


def test_the_server_does_not_keep_the_token_itself() -> None:
    tokens = Tokens()
    token = tokens.issue(ADMIN)

    assert token not in repr(vars(tokens))


@pytest.mark.parametrize(
    "header",
    ["Bearer guessed", "Basic YTpi", "Bearer", "", "Bearer \udcff", "Bearer " + "x" * 9999],
)
def test_what_is_no_token_of_ours_is_401(header: str) -> None:
    with pytest.raises(ApiStatusError) as error:
        Tokens().authenticate(header)

    assert (error.value.code, error.value.reason) == (401, "Unauthorized")
    assert error.value.message == "Unauthorized"


def test_without_a_header_there_is_no_identity() -> None:
    assert Tokens().authenticate(None) is None


def test_headers_carry_an_identity_to_the_handler() -> None:
    identity = UserInfo("ann", ("a", "b"))

    assert identity_in(identity.headers()) == identity
    assert identity_in(ANONYMOUS.headers()) == ANONYMOUS
    assert identity_in({}) == ADMIN


def test_a_kubeconfig_names_cluster_user_and_context() -> None:
    text = kubeconfig(url="https://127.0.0.1:1", authority=b"PEM", token="secret")
    result = yaml.safe_load(text)

    assert result["kind"] == "Config"
    assert result["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"
    data = result["clusters"][0]["cluster"]["certificate-authority-data"]
    assert base64.b64decode(data) == b"PEM"
    assert result["users"] == [{"name": "mooring", "user": {"token": "secret"}}]
    assert result["contexts"][0]["context"] == {"cluster": "mooring", "user": "mooring"}
    assert result["current-context"] == "mooring"


# ---------------------------------------------------------------- what a request wants


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/pods", [], ("list", "", "pods", "", "", "")),
        ("GET", "/api/v1/pods", [("watch", "1")], ("watch", "", "pods", "", "", "")),
        ("GET", "/api/v1/pods", [("watch", "false")], ("list", "", "pods", "", "", "")),
        (
            "GET",
            "/api/v1/nodes",
            [("watch", "true"), ("fieldSelector", "metadata.name==n-1")],
            ("watch", "", "nodes", "", "", "n-1"),
        ),
        ("HEAD", "/api/v1/nodes/n-1", [], ("get", "", "nodes", "", "", "n-1")),
        (
            "POST",
            "/api/v1/namespaces/a/pods/p/binding",
            [],
            ("create", "", "pods", "binding", "a", "p"),
        ),
        ("DELETE", "/api/v1/namespaces/a/pods", [], ("deletecollection", "", "pods", "", "a", "")),
        ("DELETE", "/api/v1/namespaces/a", [], ("delete", "", "namespaces", "", "a", "a")),
        (
            "PUT",
            "/api/v1/namespaces/a/status",
            [],
            ("update", "", "namespaces", "status", "a", "a"),
        ),
        (
            "PATCH",
            "/apis/apps/v1/namespaces/a/deployments/d",
            [],
            ("patch", "apps", "deployments", "", "a", "d"),
        ),
        ("GET", "/api/v1/watch/nodes", [], ("watch", "", "nodes", "", "", "")),
        ("POST", "/api/v1/watch/namespaces/a/pods/p", [], ("watch", "", "pods", "", "a", "p")),
        (
            "GET",
            "/apis/apps/v1/watch/deployments",
            [],
            ("watch", "apps", "deployments", "", "", ""),
        ),
        ("GET", "/api/v1/proxy/nodes/n/metrics", [], ("proxy", "", "nodes", "", "", "n")),
        ("GET", "/api/v1/watch", [], ("list", "", "watch", "", "", "")),
    ],
)
def test_a_request_is_taken_apart_as_upstream_does(
    method: str, path: str, query: list[tuple[str, str]], expected: tuple[str, ...]
) -> None:
    attributes = attributes_of(method, path, query)

    assert (
        attributes.verb,
        attributes.group,
        attributes.resource,
        attributes.subresource,
        attributes.namespace,
        attributes.name,
    ) == expected


@pytest.mark.parametrize("path", ["/", "/api", "/api/v1", "/apis/apps/v1", "/version", "/x/y/z"])
def test_a_path_without_resource_is_a_non_resource_request(path: str) -> None:
    assert attributes_of("GET", path, []) == Attributes("get", path)


# ---------------------------------------------------------------- rules


@pytest.mark.parametrize(
    ("identity", "method", "path", "allowed"),
    [
        (ANONYMOUS, "GET", "/healthz", True),
        (ANONYMOUS, "GET", "/version", True),
        (ANONYMOUS, "POST", "/version", False),
        (ANONYMOUS, "GET", "/api", False),
        (ANONYMOUS, "GET", "/api/v1/pods", False),
        (NOBODY, "GET", "/api", True),
        (NOBODY, "GET", "/openapi/v3/api/v1", True),
        (NOBODY, "GET", "/apis/apps/v1", True),
        (NOBODY, "GET", "/apisecret", False),
        (NOBODY, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", True),
        (NOBODY, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", False),
        (NOBODY, "GET", "/api/v1/pods", False),
        (SCHEDULER, "GET", "/api/v1/pods", True),
        (SCHEDULER, "POST", "/api/v1/namespaces/a/pods/p/binding", True),
        (SCHEDULER, "PATCH", "/api/v1/namespaces/a/pods/p/status", True),
        (SCHEDULER, "PATCH", "/api/v1/namespaces/a/pods/p", False),
        (SCHEDULER, "POST", "/api/v1/namespaces/a/pods", False),
        (SCHEDULER, "GET", "/api/v1/secrets", False),
        (SCHEDULER, "POST", "/apis/events.k8s.io/v1/namespaces/a/events", True),
        (SCHEDULER, "PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x", True),
        (SCHEDULER, "PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/x", False),
        (MOORING, "PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x", False),
        (
            MOORING,
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/mooring",
            True,
        ),
        (ADMIN, "DELETE", "/api/v1/nodes", True),
        (ADMIN, "GET", "/anything", True),
    ],
)
def test_the_rules_are_those_of_the_bootstrap_roles(
    identity: UserInfo, method: str, path: str, allowed: bool
) -> None:
    assert AUTHORIZER.is_allowed(identity, attributes_of(method, path, [])) is allowed


def test_the_authentication_map_is_one_name_in_one_namespace() -> None:
    path = "/api/v1/namespaces/kube-system/configmaps"
    name = "extension-apiserver-authentication"

    assert AUTHORIZER.is_allowed(SCHEDULER, attributes_of("GET", f"{path}/{name}", []))
    chosen = [("watch", "true"), ("fieldSelector", f"metadata.name={name}")]
    assert AUTHORIZER.is_allowed(SCHEDULER, attributes_of("GET", path, chosen))
    assert not AUTHORIZER.is_allowed(SCHEDULER, attributes_of("GET", f"{path}/other", []))
    assert not AUTHORIZER.is_allowed(SCHEDULER, attributes_of("GET", path, []))


@pytest.mark.parametrize(
    ("method", "path", "message"),
    [
        ("GET", "/whatever", 'forbidden: User "NAME" cannot get path "/whatever"'),
        (
            "GET",
            "/api/v1/namespaces/a/pods/p",
            'pods "p" is forbidden: User "NAME" cannot get resource "pods" in API group "" '
            'in the namespace "a"',
        ),
        (
            "POST",
            "/apis/apps/v1/namespaces/a/deployments/d/scale",
            'deployments.apps "d" is forbidden: User "NAME" cannot create resource '
            '"deployments/scale" in API group "apps" in the namespace "a"',
        ),
        (
            "GET",
            "/api/v1/nodes",
            'nodes is forbidden: User "NAME" cannot list resource "nodes" in API group "" '
            "at the cluster scope",
        ),
        ("GET", "/<b>&", 'forbidden: User "NAME" cannot get path "/&lt;b&gt;&amp;"'),
    ],
)
def test_a_refusal_says_who_may_not_do_what_where(method: str, path: str, message: str) -> None:
    with pytest.raises(ApiStatusError) as error:
        AUTHORIZER.check(UserInfo("NAME"), attributes_of(method, path, []))

    assert (error.value.code, error.value.reason) == (403, "Forbidden")
    assert error.value.message == message


def test_a_refusals_details_name_the_resource() -> None:
    with pytest.raises(ApiStatusError) as error:
        AUTHORIZER.check(
            NOBODY, attributes_of("GET", "/apis/apps/v1/namespaces/a/deployments/d", [])
        )

    assert error.value.details == {"name": "d", "group": "apps", "kind": "deployments"}


# ---------------------------------------------------------------- reviews


NOW = "2026-01-01T00:00:00Z"


TOKEN_WRITER = FieldManager("me", TOKEN_REVIEWS, "", NOW)


def review_status(
    resource: Any, spec: dict[str, Any], identity: UserInfo = ADMIN, **body: Any
) -> Any:
    return review(
        resource,
        {"spec": spec, **body},
        identity,
        tokens=Tokens(),
        authorizer=AUTHORIZER,
        writer=FieldManager("me", resource, "", NOW),
    )["status"]


def test_a_token_review_names_the_owner_of_a_token() -> None:
    tokens = Tokens()
    spec = {"token": tokens.issue(UserInfo("ann", ("ops",), "u-1"))}

    result = review(
        TOKEN_REVIEWS,
        {"spec": spec},
        SCHEDULER,
        tokens=tokens,
        authorizer=AUTHORIZER,
        writer=TOKEN_WRITER,
    )

    assert (result["kind"], result["apiVersion"]) == ("TokenReview", "authentication.k8s.io/v1")
    assert result["status"] == {
        "authenticated": True,
        "user": {"username": "ann", "uid": "u-1", "groups": ["ops", "system:authenticated"]},
        "audiences": ["https://kubernetes.default.svc"],
    }
    [entry] = result["metadata"]["managedFields"]
    assert (entry["manager"], entry["fieldsV1"]) == ("me", {"f:spec": {"f:token": {}}})


def test_a_token_review_does_not_know_strangers_and_other_audiences() -> None:
    tokens = Tokens()
    mine = tokens.issue(ADMIN)

    for spec in ({"token": "guessed"}, {"token": mine, "audiences": ["vault"]}):
        status = review(
            TOKEN_REVIEWS,
            {"spec": spec},
            ADMIN,
            tokens=tokens,
            authorizer=AUTHORIZER,
            writer=TOKEN_WRITER,
        )["status"]
        assert not status.get("authenticated")
        assert status["user"] == {}


def test_a_token_review_needs_a_token() -> None:
    with pytest.raises(ApiStatusError) as error:
        review_status(TOKEN_REVIEWS, {})

    assert error.value.message == "token is required for TokenReview in authentication"


METRICS = {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}
BIND = {
    "resourceAttributes": {
        "verb": "create",
        "resource": "pods",
        "subresource": "binding",
        "namespace": "a",
    }
}


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({**METRICS, "user": "ann", "groups": ["system:masters"]}, True),
        ({**METRICS, "user": "ann"}, False),
        ({**BIND, "user": "system:kube-scheduler"}, True),
        ({**BIND, "groups": ["system:authenticated"]}, False),
        # A review uses only the groups that it names.
        (
            {
                "user": "ann",
                "nonResourceAttributes": {"path": "/api", "verb": "get"},
            },
            False,
        ),
    ],
)
def test_an_access_review_applies_the_rules(spec: dict[str, Any], allowed: bool) -> None:
    assert review_status(ACCESS_REVIEWS, spec, NOBODY)["allowed"] is allowed


def test_a_self_review_is_about_who_asks() -> None:
    assert review_status(SELF_REVIEWS, BIND, SCHEDULER)["allowed"] is True
    assert review_status(SELF_REVIEWS, BIND, NOBODY)["allowed"] is False


@pytest.mark.parametrize(
    ("resource", "spec", "problem"),
    [
        (ACCESS_REVIEWS, BIND, "at least one of user or group must be specified"),
        (SELF_REVIEWS, {**BIND, **METRICS}, "cannot be specified in combination with"),
        (SELF_REVIEWS, {}, "exactly one of nonResourceAttributes or resourceAttributes must be"),
    ],
)
def test_an_unclear_question_is_refused(resource: Any, spec: dict[str, Any], problem: str) -> None:
    with pytest.raises(ApiStatusError) as error:
        review_status(resource, spec)

    assert (error.value.code, error.value.reason) == (422, "Invalid")
    assert problem in error.value.message


def test_a_question_has_no_name() -> None:
    empty = {"name": "", "creationTimestamp": None}
    assert review_status(SELF_REVIEWS, BIND, metadata=empty)["allowed"]

    with pytest.raises(ApiStatusError, match="must be empty"):
        review_status(SELF_REVIEWS, BIND, metadata={"name": "x"})
