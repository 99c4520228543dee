"""Tokens of service accounts end with their time, their account and what they are bound to."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mooring.apiserver.auth.authentication import UserInfo
from mooring.apiserver.server import ApiServer
from mooring.clock import VirtualClock, seeded_random

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
PODS = "/api/v1/namespaces/default/pods"


class Api:
    """An API server in this process."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = ApiServer(self.clock, seeded_random(0))

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        content = b"" if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        code, _, answer = asyncio.run(self.server.handle(method, path, [], headers, content))
        assert code in (200, 201), answer
        assert isinstance(answer, bytes)
        return json.loads(answer)

    def token(self, **spec: Any) -> str:
        answer = self.ask("POST", f"{ACCOUNTS}/default/token", {"spec": spec})
        return str(answer["status"]["token"])

    def identity(self, token: str) -> UserInfo | None:
        return self.server.tokens.identity_of(token)


def test_the_identity_is_that_of_the_account() -> None:
    api = Api()
    uid = api.ask("GET", f"{ACCOUNTS}/default")["metadata"]["uid"]
    identity = api.identity(api.token())

    assert identity is not None
    assert identity.user == "system:serviceaccount:default:default"
    assert identity.uid == uid
    assert identity.groups == (
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    )


def test_a_token_expires() -> None:
    api = Api()
    token = api.token(expirationSeconds=600)
    api.clock.advance(599)
    assert api.identity(token) is not None
    api.clock.advance(1)
    assert api.identity(token) is None


def test_a_token_of_a_deleted_account_is_invalid_also_for_a_new_one() -> None:
    api = Api()
    token = api.token()
    api.ask("DELETE", f"{ACCOUNTS}/default")

    assert api.ask("GET", f"{ACCOUNTS}/default")["metadata"]["name"] == "default"  # a new one
    assert api.identity(token) is None


def test_a_bound_token_ends_with_its_object() -> None:
    api = Api()
    spec = {"containers": [{"name": "c", "image": "x"}], "serviceAccountName": "default"}
    api.ask("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    token = api.token(boundObjectRef=reference)
    assert api.identity(token) is not None
    api.ask("DELETE", f"{PODS}/p")
    assert api.identity(token) is None


@pytest.mark.parametrize("change", ["claims", "signature", "server"])
def test_a_changed_token_is_invalid(change: str) -> None:
    api = Api()
    header, claims, signature = api.token().split(".")
    if change == "claims":
        claims = claims[:-4] + "AAAA"
    elif change == "signature":
        signature = signature[::-1]
    server = Api() if change == "server" else api
    assert server.identity(f"{header}.{claims}.{signature}") is None


@pytest.mark.parametrize("token", ["", ".", "..", "a.b.c", "\udcff.x.y"])
def test_texts_that_are_no_tokens_are_invalid(token: str) -> None:
    assert Api().identity(token) is None


def test_each_new_namespace_has_an_account() -> None:
    api = Api()
    api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})

    everywhere = api.ask("GET", "/api/v1/serviceaccounts")["items"]
    namespaces = {"default", "kube-node-lease", "kube-public", "kube-system", "shop"}
    assert {item["metadata"]["namespace"] for item in everywhere} == namespaces
