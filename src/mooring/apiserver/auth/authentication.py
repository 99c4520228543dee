"""Authentication: identities, bearer tokens, and kubeconfig files with a token.

Tokens are valid until the server stops. The server stores only their digests, so that neither a
core dump nor the duration of a comparison reveals a token. ``authorization`` has the rules of
identities.
"""

from __future__ import annotations

import base64
import hashlib
import json
import ssl
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from mooring.apiserver.errors import ApiStatusError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: 256 bits: the size of the digest.
TOKEN_BYTES = 32
#: A longer Authorization header has no token of this server.
TOKEN_LENGTH_MAX = 4096
MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
#: The audience of this server: its tokens are meant for it unless they have others.
API_AUDIENCE = "https://kubernetes.default.svc"
#: The start of the user names of service accounts: "system:serviceaccount:NAMESPACE:NAME".
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"
#: Pass the identity from the HTTP front end to the handler; a client's own are removed.
USER_HEADER, GROUPS_HEADER, UID_HEADER = "x-remote-user", "x-remote-group", "x-remote-uid"


class UserInfo(NamedTuple):
    """The identity of a client.

    Attributes:
        user: The user's name.
        groups: All groups, including ``AUTHENTICATED``.
        uid: "" = none.
    """

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""

    def authenticated(self) -> UserInfo:
        """Returns the same identity with the group system:authenticated."""
        if AUTHENTICATED in self.groups:
            return self
        return self._replace(groups=(*self.groups, AUTHENTICATED))

    def headers(self) -> dict[str, str]:
        """Returns the request headers that pass the identity to a handler."""
        headers = {USER_HEADER: self.user, GROUPS_HEADER: ",".join(self.groups)}
        return {**headers, UID_HEADER: self.uid} if self.uid else headers


class Credential(NamedTuple):
    """The content of a valid token.

    Attributes:
        identity: The client that has the token.
        audiences: The servers that accept the token.
        is_for_any: True if the token itself has no audiences.
    """

    identity: UserInfo
    audiences: tuple[str, ...]
    is_for_any: bool = False


ANONYMOUS = UserInfo("system:anonymous", (UNAUTHENTICATED,))
ADMIN = UserInfo("kubernetes-admin", (MASTERS, AUTHENTICATED))

#: By the name in kubeconfig requests. As in ``mooring.testing.controlplane``.
IDENTITIES: Mapping[str, UserInfo] = MappingProxyType(
    {
        "admin": ADMIN,
        "system:kube-scheduler": UserInfo("system:kube-scheduler").authenticated(),
        "mooring": UserInfo("mooring").authenticated(),
        "nobody": UserInfo("nobody").authenticated(),
    }
)


def service_account_groups(namespace: str) -> tuple[str, ...]:
    """Returns the groups of the service accounts of a namespace."""
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def identity_in(headers: Mapping[str, str]) -> UserInfo:
    """Returns the identity in the headers; without one (in-process calls) the administrator."""
    user = headers.get(USER_HEADER)
    if user is None:
        return ADMIN
    groups = headers.get(GROUPS_HEADER, "")
    uid = headers.get(UID_HEADER, "")
    return UserInfo(user, tuple(group for group in groups.split(",") if group), uid)


class Tokens:
    """The bearer tokens that a server accepts.

    Example:
        >>> tokens = Tokens()
        >>> tokens.identity_of(tokens.issue(IDENTITIES["mooring"])).user
        'mooring'
        >>> tokens.identity_of("guessed") is None
        True
    """

    def __init__(self) -> None:
        self._by_digest: dict[bytes, UserInfo] = {}
        self._sources: list[Callable[[str], Credential | None]] = []

    def accept_from(self, source: Callable[[str], Credential | None]) -> None:
        """Accepts the tokens for which a function returns a credential."""
        self._sources.append(source)

    def issue(self, identity: UserInfo) -> str:
        """Returns a new token for an identity; its older tokens stay valid."""
        # Not from an injected rng: a token must not be predictable, and no decision depends on it.
        token = base64.urlsafe_b64encode(ssl.RAND_bytes(TOKEN_BYTES)).decode("ascii").rstrip("=")
        self._by_digest[_digest(token)] = identity.authenticated()
        return token

    def revoke(self, token: str) -> None:
        """Revokes a token; an unknown token is ignored."""
        self._by_digest.pop(_digest(token), None)

    def identity_of(self, token: str) -> UserInfo | None:
        """Returns the identity of a token for this server; None if it is unknown."""
        credential = self.credential_of(token)
        if credential is None or API_AUDIENCE not in credential.audiences:
            return None
        return credential.identity

    def credential_of(self, token: str) -> Credential | None:
        """Returns the identity and the audiences of a token; None if it is unknown."""
        identity = self._by_digest.get(_digest(token))
        if identity is not None:
            return Credential(identity, (API_AUDIENCE,), is_for_any=True)
        credentials = (source(token) for source in self._sources)
        return next((credential for credential in credentials if credential is not None), None)

    def authenticate(self, authorization: str | None) -> UserInfo | None:
        """Returns the identity of an Authorization header; None without one.

        Raises:
            ApiStatusError: 401, the header has no valid token.
        """
        if authorization is None:
            return None
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or len(authorization) > TOKEN_LENGTH_MAX:
            raise unauthorized()
        identity = self.identity_of(token.strip())
        if identity is None:
            raise unauthorized()
        return identity


def unauthorized() -> ApiStatusError:
    """Returns error 401: the client is unknown."""
    return ApiStatusError(401, "Unauthorized", "Unauthorized")


def kubeconfig(*, url: str, authority: bytes, token: str, name: str = "mooring") -> str:
    """Returns a kubeconfig file: one cluster, one user with a token, one context, named ``name``.

    The text is JSON, which is valid YAML.

    Args:
        url: The API server's.
        authority: The CA certificate (PEM) that signed the server's.
        token: A secret: anything that can read the file can act as the user.
        name: Of cluster, user and context.
    """
    cluster = {
        "server": url,
        "certificate-authority-data": base64.b64encode(authority).decode("ascii"),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return json.dumps(document, indent=2) + "\n"


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
