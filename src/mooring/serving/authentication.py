"""Authenticates clients: front proxy, client certificate, bearer token, or anonymous.

::

    front proxy's certificate + X-Remote-User ─┐
    client certificate ────────────────────────┼── the first that succeeds
    bearer token (TokenReview, cached) ────────┘
    none of them given ── system:anonymous          one given, none accepted ── 401

Source: k8s.io/apiserver pkg/authentication (authenticatorfactory/delegating.go and
request/{headerrequest,x509,bearertoken,union,anonymous}).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import unquote

from mooring.clock import Clock
from mooring.errors import SchedulerError
from mooring.objects.go_text import valid_unicode
from mooring.serving.client_ca import (
    Authority,
    CertificateRejected,
    User,
    common_name,
    user_of,
)
from mooring.serving.cluster_authentication import RequestHeaders
from mooring.serving.delegation import ReviewCache, Reviews
from mooring.serving.messages import ServingRequest
from mooring.serving.observer import ServingObserver

TOKEN_REVIEW_PATH: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
ANONYMOUS: Final = User("system:anonymous", groups=(UNAUTHENTICATED,))

_log = logging.getLogger(__name__)


class NotAuthenticated(Exception):
    """Credentials that were not accepted; the message is for our log, not for the client."""


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """A proxy that passes on the identity of its clients in headers."""

    authority: Callable[[], Authority | None]
    headers: Callable[[], RequestHeaders]


class TokenReviewer:
    """Authenticates bearer tokens by TokenReviews.

    Args:
        reviews: Posts to ``TOKEN_REVIEW_PATH``.
        clock: For the cache.
        ttl_s: How long an answer is cached, good or bad.
        observer: Is called for lookups and fetches of tokens.
    """

    def __init__(
        self,
        reviews: Reviews,
        clock: Clock,
        ttl_s: float,
        *,
        observer: ServingObserver | None = None,
    ) -> None:
        self._reviews = reviews
        self._clock = clock
        self._ttl_s = ttl_s
        self._observer = observer or ServingObserver()
        self._cache: ReviewCache[User | None] = ReviewCache(clock)

    async def user(self, token: str) -> User:
        """Returns the owner of a token.

        Raises:
            NotAuthenticated: it is not valid, or the API server does not say.
        """
        # Only a hash is kept, so that no token can be read from our memory.
        key = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        is_hit, started_s = self._cache.is_cached(key), self._clock.monotonic_s()
        self._observer.token_fetches("blocked", int(not is_hit))
        try:
            user = await self._cache.get(key, lambda: self._fetch(token), lambda _: self._ttl_s)
        except SchedulerError as error:
            _log.error(f"Failed to make webhook authenticator request: {error}")
            raise NotAuthenticated(str(error)) from error
        finally:
            self._observer.token_fetches("blocked", -int(not is_hit))
            self._observer.token_lookup(is_hit, self._clock.monotonic_s() - started_s)
        if user is None:
            raise NotAuthenticated("invalid bearer token")
        return user

    async def _fetch(self, token: str) -> User | None:
        is_known = False
        self._observer.token_fetches("in_flight", 1)
        try:
            user = await self._ask(token)
            is_known = user is not None
            return user
        finally:
            self._observer.token_fetches("in_flight", -1)
            self._observer.token_fetched(is_known)

    async def _ask(self, token: str) -> User | None:
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": valid_unicode(token)},
        }
        status = await self._reviews.post(review)
        if not status.get("authenticated"):
            if status.get("error"):
                raise NotAuthenticated(str(status["error"]))  # not cached
            return None
        user: Mapping[str, Any] = status.get("user") or {}
        return User(
            name=user.get("username", ""),
            uid=user.get("uid", ""),
            groups=tuple(user.get("groups") or ()),
            extra=user.get("extra") or {},
        )


class Authenticator:
    """Authenticates requests.

    Args:
        clock: For the validity of certificates.
        front_proxy: None = its headers are ignored.
        client_ca: Returns the authority of client certificates; None = certificates are ignored.
        tokens: None = tokens are ignored.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        front_proxy: FrontProxy | None = None,
        client_ca: Callable[[], Authority | None] | None = None,
        tokens: TokenReviewer | None = None,
    ) -> None:
        self._clock = clock
        self._front_proxy = front_proxy
        self._client_ca = client_ca
        self._tokens = tokens

    async def authenticate(self, request: ServingRequest) -> User:
        """Returns the client's identity.

        Raises:
            NotAuthenticated: it gave credentials, and none was accepted.
        """
        failures = []
        for method in (self._by_front_proxy, self._by_certificate, self._by_token):
            try:
                user = await method(request)
            except (CertificateRejected, NotAuthenticated) as error:
                failures.append(str(error))
                continue
            if user is not None:
                return _with_group(user)
        if failures:
            text = failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]"
            raise NotAuthenticated(text)
        return ANONYMOUS

    async def _by_front_proxy(self, request: ServingRequest) -> User | None:
        if self._front_proxy is None or not request.peer_chain:
            return None
        authority = self._front_proxy.authority()
        if authority is None:
            return None
        headers = self._front_proxy.headers()
        certificate = authority.verify(request.peer_chain, self._clock.wall_s())
        name = common_name(certificate)
        if headers.allowed_names and name not in headers.allowed_names:
            raise CertificateRejected(f"x509: subject with cn={name} is not in the allowed list")
        return _user_in_headers(request, headers)

    async def _by_certificate(self, request: ServingRequest) -> User | None:
        if self._client_ca is None or not request.peer_chain:
            return None
        authority = self._client_ca()
        if authority is None:
            return None
        certificate = authority.verify(request.peer_chain, self._clock.wall_s())
        return user_of(certificate, request.peer_chain[0])

    async def _by_token(self, request: ServingRequest) -> User | None:
        if self._tokens is None:
            return None
        scheme, _, rest = request.headers.get("Authorization", "").strip().partition(" ")
        token = rest.split(" ", 1)[0]
        if scheme.lower() != "bearer" or not token:
            return None
        return await self._tokens.user(token)


def _user_in_headers(request: ServingRequest, headers: RequestHeaders) -> User | None:
    """Returns the identity that a front proxy passes on; None if there is none."""
    name = _first(request, headers.username)
    if not name:
        return None
    groups = [
        value for header in headers.group for value in request.headers.getall(header, []) if value
    ]
    extra: dict[str, list[str]] = {}
    for prefix in headers.extra_prefixes:
        for header, value in request.headers.items():
            if header.lower().startswith(prefix.lower()):
                key = unquote(header[len(prefix) :].lower())
                extra.setdefault(key, []).append(value)
    return User(name, _first(request, headers.uid), tuple(groups), extra)


def _first(request: ServingRequest, names: Sequence[str]) -> str:
    return next((value for name in names if (value := request.headers.get(name, ""))), "")


def _with_group(user: User) -> User:
    """Returns the user as a member of all authenticated users."""
    is_known = AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups
    if user.name == ANONYMOUS.name or is_known:
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))
