"""Who a client is: bearer tokens, client certificates, and the kubeconfig that carries a token.

Tokens are made when the server starts and are forgotten when it stops. The server keeps only
their digests, so that neither a core dump nor the time that a comparison takes gives one away.
What an identity may do stands in ``authorization``.
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
    from collections.abc import Mapping

#: 256 bits: as many as the digest has.
TOKEN_BYTES = 32
#: A longer Authorization header is none of ours.
TOKEN_LENGTH_MAX = 4096
MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
#: Carry the identity from the door to the handler; a client's own are thrown away at the door.
USER_HEADER, GROUPS_HEADER = "x-remote-user", "x-remote-group"


class Identity(NamedTuple):
    """A client as the API server sees it.

    Attributes:
        user: The user's name.
        groups: All of them: nobody is given more when it is asked what one may do.
        uid: "" where there is none.
    """

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""

    def known(self) -> Identity:
        """Returns the same, in the group of all whom the server knows."""
        if AUTHENTICATED in self.groups:
            return self
        return self._replace(groups=(*self.groups, AUTHENTICATED))

    def headers(self) -> dict[str, str]:
        """Returns the request headers that tell a handler who asks."""
        return {USER_HEADER: self.user, GROUPS_HEADER: ",".join(self.groups)}


ANONYMOUS = Identity("system:anonymous", (UNAUTHENTICATED,))
ADMIN = Identity("kubernetes-admin", (MASTERS, AUTHENTICATED))

#: By the name under which people ask for a kubeconfig. As in ``mooring.testing.controlplane``.
IDENTITIES: Mapping[str, Identity] = MappingProxyType(
    {
        "admin": ADMIN,
        "system:kube-scheduler": Identity("system:kube-scheduler").known(),
        "mooring": Identity("mooring").known(),
        "nobody": Identity("nobody").known(),
    }
)


def identity_in(headers: Mapping[str, str]) -> Identity:
    """Who asks, by the headers that the door has set; who calls in process is the administrator."""
    user = headers.get(USER_HEADER)
    if user is None:
        return ADMIN
    groups = headers.get(GROUPS_HEADER, "")
    return Identity(user, tuple(group for group in groups.split(",") if group))


class Tokens:
    """The bearer tokens that a server takes.

    Example:
        >>> tokens = Tokens()
        >>> tokens.identity_of(tokens.issue(IDENTITIES["mooring"])).user
        'mooring'
        >>> tokens.identity_of("guessed") is None
        True
    """

    def __init__(self) -> None:
        self._by_digest: dict[bytes, Identity] = {}

    def issue(self, identity: Identity) -> str:
        """Returns a new token for an identity; older ones of the same go on being good."""
        # Not from an rng that is handed in: a token must not be guessed, and no run depends on it.
        token = base64.urlsafe_b64encode(ssl.RAND_bytes(TOKEN_BYTES)).decode("ascii").rstrip("=")
        self._by_digest[_digest(token)] = identity.known()
        return token

    def revoke(self, token: str) -> None:
        """Takes it no longer. A token that is not known is no error."""
        self._by_digest.pop(_digest(token), None)

    def identity_of(self, token: str) -> Identity | None:
        """Whose token it is; None if it is nobody's."""
        return self._by_digest.get(_digest(token))

    def authenticate(self, authorization: str | None) -> Identity | None:
        """Who sends this Authorization header; None if there is none.

        Raises:
            ApiStatusError: 401, there is one, and it is not a token that we know.
        """
        if authorization is None:
            return None
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or len(authorization) > TOKEN_LENGTH_MAX:
            raise unauthorized()
        found = self.identity_of(token.strip())
        if found is None:
            raise unauthorized()
        return found


def unauthorized() -> ApiStatusError:
    """401: we do not know who that is."""
    return ApiStatusError(401, "Unauthorized", "Unauthorized")


def kubeconfig(*, url: str, authority: bytes, token: str, name: str = "mooring") -> str:
    """A kubeconfig file: one cluster, one user with a token, one context, all called ``name``.

    It is JSON, and so YAML as well.

    Args:
        url: Of the API server.
        authority: The certificate (PEM) that signed the server's.
        token: A secret: who has the file, is the user.
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
