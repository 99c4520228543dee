"""Service accounts: the tokens that they get, and what the tokens are bound to."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.integration.contract.api import Answer, Api
from tests.integration.contract.objects import pod
from tests.integration.contract.scenario import path, pods, scenario

_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


def _account(api: Api, namespace: str, name: str = "bot") -> str:
    accounts = path("api/v1", namespace, "serviceaccounts")
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    assert api.post(accounts, body).code == 201
    return f"{accounts}/{name}"


def _request(api: Api, account: str, metadata: dict[str, Any] | None = None, **spec: Any) -> Answer:
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": metadata or {},
        "spec": spec,
    }
    answer = api.post(f"{account}/token", body)
    if answer.code == 201:
        what, code, noted = api.notes[-1]
        # The token is a secret of each server, and upstream's request has a field manager.
        kept = {key: value for key, value in noted["metadata"].items() if key != "managedFields"}
        api.notes[-1] = (what, code, {**noted, "metadata": kept, "status": sorted(noted["status"])})
    return answer


def _review(api: Api, token: str, **spec: Any) -> dict[str, Any]:
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, **spec},
    }
    status: dict[str, Any] = api.post(_REVIEWS, body).body["status"]
    api.notes.pop()
    user = {key: value for key, value in status.get("user", {}).items() if key != "extra"}
    api.note("review", status.get("authenticated", False), user)
    return status


@scenario
def a_token_is_issued_and_reviewed(api: Api, namespace: str) -> None:
    account = _account(api, namespace)
    answer = _request(api, account)
    assert answer.body["spec"]["expirationSeconds"] == 3600
    token = answer.body["status"]["token"]
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert claims["sub"] == f"system:serviceaccount:{namespace}:bot"
    api.note("claims", sorted(claims), sorted(claims["kubernetes.io"]))
    assert claims["exp"] - claims["iat"] == 3600
    status = _review(api, token)
    assert status["user"]["username"] == claims["sub"]
    assert status["audiences"] == ["https://kubernetes.default.svc"]
    assert not _review(api, f"{token}x").get("authenticated")
    assert not _review(api, token, audiences=["vault"]).get("authenticated")


@scenario
def a_token_has_a_duration_and_audiences(api: Api, namespace: str) -> None:
    account = _account(api, namespace)
    assert _request(api, account, expirationSeconds=7200).code == 201
    assert _request(api, account, expirationSeconds=599).code == 422
    assert _request(api, account, expirationSeconds=(1 << 32) + 1).code == 422
    other = _request(api, account, audiences=["vault"])
    assert other.body["spec"]["audiences"] == ["vault"]
    assert not _review(api, other.body["status"]["token"]).get("authenticated")
    assert _request(api, account, {"name": "other"}).code == 422
    assert _request(api, account, {"uid": "other"}).code == 409
    missing = path("api/v1", namespace, "serviceaccounts", "none")
    assert _request(api, missing).code == 404
    assert api.get(f"{account}/token").code == 405


@scenario
def a_token_is_bound_to_an_object(api: Api, namespace: str) -> None:
    account = _account(api, namespace)
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p"}
    assert _request(api, account, boundObjectRef=reference).code == 404
    api.post(pods(namespace), pod("other"))
    other = {**reference, "name": "other"}
    assert _request(api, account, boundObjectRef=other).code == 400
    api.post(pods(namespace), pod("p", serviceAccountName="bot"))
    wrong = {**reference, "uid": "1-2-3"}
    assert _request(api, account, boundObjectRef=wrong).code == 409
    strange = {**reference, "kind": "Lamp"}
    assert _request(api, account, boundObjectRef=strange).code == 400
    token = _request(api, account, boundObjectRef=reference).body["status"]["token"]
    assert _review(api, token)["authenticated"]


@scenario
def tokens_have_audiences(api: Api, namespace: str) -> None:
    account = _account(api, namespace)
    server = "https://kubernetes.default.svc"
    for issued in ([], ["vault"], ["vault", "b"], ["vault", server]):
        token = _request(api, account, audiences=issued).body["status"]["token"]
        for demanded in ([], [server], ["vault"], ["b", "vault"], [server, "vault"], ["other"]):
            status = _review(api, token, audiences=demanded)
            api.note("audiences", status.get("audiences"), status.get("error"))
            expected = [name for name in demanded or [server] if name in (issued or [server])]
            assert status.get("audiences", []) == expected
    assert _review(api, "unknown", audiences=["vault"])["error"] == "invalid bearer token"
