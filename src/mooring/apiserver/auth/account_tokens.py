"""Tokens of service accounts: signed, with an expiry, bound to objects that must still exist.

They are JSON Web Tokens with the claims of upstream's. The key is new with each start of the
server, which alone verifies them: hence a symmetric one.

Source: pkg/serviceaccount/claims.go, pkg/registry/core/serviceaccount/storage/token.go.
Differs: signed with HS256; no leeway after the deletion of an object.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ssl
from typing import TYPE_CHECKING, Any

import msgspec

from mooring.apiserver.auth.authentication import (
    API_AUDIENCE,
    SERVICE_ACCOUNT_PREFIX,
    Credential,
    UserInfo,
    service_account_groups,
)
from mooring.apiserver.resources import resource_named
from mooring.apiserver.storage.stored_object import key_of
from mooring.clock import random_uuid

if TYPE_CHECKING:
    from mooring.apiserver.storage.store import Store
    from mooring.apiserver.types import Object
    from mooring.clock import Clock, Rng

ISSUER = API_AUDIENCE
_KEY_BYTES = 32
ACCOUNTS = resource_named("", "serviceaccounts")
#: What a token can be bound to: kind -> resource and the name of the claim.
BOUND = {
    "Pod": (resource_named("", "pods"), "pod"),
    "Secret": (resource_named("", "secrets"), "secret"),
    "Node": (resource_named("", "nodes"), "node"),
}
_HEADER = {"alg": "HS256", "typ": "JWT"}


class AccountTokens:
    """Issues and verifies the tokens of the service accounts of one server."""

    def __init__(self, store: Store, *, clock: Clock, rng: Rng) -> None:
        """Makes a new key; tokens of an earlier start are invalid."""
        self._store = store
        self._clock = clock
        self._rng = rng
        # Not from an injected rng: a key must not be predictable, and no decision depends on it.
        self._key = ssl.RAND_bytes(_KEY_BYTES)

    def issue(
        self,
        account: Object,
        *,
        audiences: list[str],
        expires_s: float,
        bound: dict[str, dict[str, str]],
    ) -> str:
        """Returns a new token for a stored service account.

        Args:
            account: The service account.
            audiences: The servers that accept the token.
            expires_s: On the wall clock.
            bound: By claim ("pod"), the name and uid of an object that must exist.
        """
        metadata = account["metadata"]
        namespace, name, now_s = metadata["namespace"], metadata["name"], self._clock.wall_s()
        reference = {"name": name, "uid": metadata["uid"]}
        claims = {
            "aud": audiences,
            "exp": int(expires_s),
            "iat": int(now_s),
            "iss": ISSUER,
            "jti": random_uuid(self._rng),
            "kubernetes.io": {"namespace": namespace, **bound, "serviceaccount": reference},
            "nbf": int(now_s),
            "sub": f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}",
        }
        signed = f"{_encoded(_HEADER)}.{_encoded(claims)}"
        return f"{signed}.{self._signature(signed)}"

    def credential_of(self, token: str) -> Credential | None:
        """Returns the identity and the audiences of a token; None if it is not valid."""
        signed, _, signature = token.rpartition(".")
        expected = self._signature(signed).encode()
        if not hmac.compare_digest(expected, signature.encode("utf-8", "surrogateescape")):
            return None
        claims = _decoded(signed.rpartition(".")[2])
        if claims is None or claims["exp"] <= self._clock.wall_s():
            return None
        private = claims["kubernetes.io"]
        namespace, account = private["namespace"], private["serviceaccount"]
        is_bound = all(
            self._exists(resource, namespace, private[claim])
            for resource, claim in BOUND.values()
            if claim in private and (claim != "node" or "pod" not in private)
        )
        if not is_bound or not self._exists(ACCOUNTS, namespace, account):
            return None
        groups = service_account_groups(namespace)
        identity = UserInfo(claims["sub"], groups, account["uid"]).authenticated()
        return Credential(identity, tuple(claims["aud"]))

    def _exists(self, resource: Any, namespace: str, reference: dict[str, str]) -> bool:
        in_namespace = namespace if resource.namespaced else ""
        stored = self._store.collection(resource).get(key_of(in_namespace, reference["name"]))
        return stored is not None and stored.object()["metadata"]["uid"] == reference["uid"]

    def _signature(self, signed: str) -> str:
        text = signed.encode("utf-8", "surrogateescape")
        return _base64(hmac.digest(self._key, text, hashlib.sha256))


def _encoded(value: Any) -> str:
    return _base64(msgspec.json.encode(value))


def _decoded(text: str) -> dict[str, Any] | None:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        claims: dict[str, Any] = msgspec.json.decode(raw, type=dict)
    except (binascii.Error, ValueError):
        return None
    return claims


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")
