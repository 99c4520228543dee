"""Authorizes requests: privileged groups, paths that are always allowed, SubjectAccessReviews.

Source: k8s.io/apiserver pkg/server/options/authorization.go, pkg/authorization/path/path.go,
plugin/pkg/authorizer/webhook/webhook.go.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mooring.clock import Clock
from mooring.errors import ConfigError, SchedulerError
from mooring.objects.go_text import go_quote, valid_unicode
from mooring.serving.client_ca import User
from mooring.serving.delegation import ReviewCache, Reviews

ACCESS_REVIEW_PATH: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
#: Members may do everything; the API server is not asked.
PRIVILEGED_GROUP: Final = "system:masters"

_log = logging.getLogger(__name__)


class Decision(NamedTuple):
    """Allows or refuses a request, with the reason."""

    is_allowed: bool
    reason: str = ""


class AuthorizationFailed(Exception):
    """The authorizer is broken: no decision."""


class AllowedPaths:
    """Paths that are always allowed: exact, or with a ``*`` at the end.

    Raises:
        ConfigError: a path has a ``*`` elsewhere.

    Example:
        >>> allowed = AllowedPaths(["/healthz", "/livez/*"])
        >>> [allowed.allows(path) for path in ("/healthz", "/healthz/ping", "/livez/ping")]
        [True, False, True]
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._exact: set[str] = set()
        self._prefixes: list[str] = []
        for text in paths:
            path = text.removeprefix("/")
            if "*" in path[:-1]:
                raise ConfigError(f"only trailing * allowed in {go_quote(path)}")
            if path.endswith("*"):
                self._prefixes.append(path[:-1])
            else:
                self._exact.add(path)

    def allows(self, path: str) -> bool:
        """Returns whether a path is always allowed."""
        path = path.removeprefix("/")
        return path in self._exact or any(map(path.startswith, self._prefixes))


class AccessReviewer:
    """Decides by SubjectAccessReviews.

    Args:
        reviews: Posts to ``ACCESS_REVIEW_PATH``.
        clock: For the cache.
        allowed_ttl_s: How long permissions are cached.
        refused_ttl_s: How long refusals are cached.
    """

    def __init__(
        self, reviews: Reviews, clock: Clock, *, allowed_ttl_s: float, refused_ttl_s: float
    ) -> None:
        self._reviews = reviews
        self._allowed_ttl_s = allowed_ttl_s
        self._refused_ttl_s = refused_ttl_s
        self._cache: ReviewCache[dict[str, Any]] = ReviewCache(clock)

    async def decide(self, user: User, verb: str, path: str) -> Decision:
        """Returns the API server's decision.

        Raises:
            AuthorizationFailed: it made none, or one that contradicts itself.
        """
        spec: dict[str, Any] = {
            "nonResourceAttributes": {"path": valid_unicode(path), "verb": verb},
            "user": valid_unicode(user.name),
            "groups": list(map(valid_unicode, user.groups)),
        }
        if user.extra:
            spec["extra"] = {
                valid_unicode(key): list(map(valid_unicode, values))
                for key, values in user.extra.items()
            }
        if user.uid:
            spec["uid"] = valid_unicode(user.uid)
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": spec,
        }
        try:
            key = msgspec.json.encode(spec)
            status = await self._cache.get(key, lambda: self._reviews.post(review), self._ttl_s)
        except SchedulerError as error:
            _log.error(f"Failed to make webhook authorizer request: {error}")
            raise AuthorizationFailed(str(error)) from error
        if status.get("denied") and status.get("allowed"):
            message = "webhook subject access review returned both allow and deny response"
            raise AuthorizationFailed(message)
        return Decision(bool(status.get("allowed")), status.get("reason") or "")

    def _ttl_s(self, status: dict[str, Any]) -> float:
        return self._allowed_ttl_s if status.get("allowed") else self._refused_ttl_s


class Authorizer:
    """Authorizes requests.

    Args:
        allowed_paths: See ``AllowedPaths``.
        reviewer: None = all that is not allowed otherwise is refused.
    """

    def __init__(self, allowed_paths: AllowedPaths, reviewer: AccessReviewer | None) -> None:
        self._allowed_paths = allowed_paths
        self._reviewer = reviewer

    async def decide(self, user: User, method: str, path: str) -> Decision:
        """Returns whether a user may send a request.

        Raises:
            AuthorizationFailed: there is no decision.
        """
        if PRIVILEGED_GROUP in user.groups or self._allowed_paths.allows(path):
            return Decision(True)
        if self._reviewer is None:
            return Decision(False)
        return await self._reviewer.decide(user, method.lower(), path)
