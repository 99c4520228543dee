"""Records the server's authentications and authorizations as metrics, with upstream's labels."""

from __future__ import annotations

from typing import Final

from mooring.metrics.registry import Metrics
from mooring.serving.observer import ServingObserver

#: The users that kube-scheduler counts by name.
KNOWN_USERS: Final = frozenset(
    ("admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default")
)
MILLISECONDS: Final = 1000


class ServingMetrics(ServingObserver):
    """Counts into ``metrics``.

    Source: k8s.io/apiserver v0.36.3, pkg/endpoints/filters/metrics.go,
    pkg/authentication/token/cache/stats.go.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def authenticated(self, result: str, username: str, seconds: float) -> None:
        """Counts a request by result, and by user if it has one."""
        if username:
            self._count("authenticated_user_requests", user_label(username))
        self._count("authentication_attempts", result)
        self._observe("authentication_duration_seconds", result, seconds)

    def authorized(self, result: str, seconds: float) -> None:
        """Counts a request by what the authorizer decided."""
        self._count("authorization_attempts_total", result)
        self._observe("authorization_duration_seconds", result, seconds)

    def token_lookup(self, hit: bool, seconds: float) -> None:
        """Counts a lookup of a token."""
        status, prefix = "hit" if hit else "miss", "authentication_token_cache_request"
        self._count(f"{prefix}_total", status)
        whole = int(seconds * MILLISECONDS) / MILLISECONDS
        self._observe(f"{prefix}_duration_seconds", status, whole)

    def token_fetches(self, status: str, change: int) -> None:
        """Adds to the number of requests about tokens in progress, or waiting for one."""
        numbers = self._metrics.numbers("authentication_token_cache_active_fetch_count")
        numbers.labels(status).value += change

    def token_fetched(self, ok: bool) -> None:
        """Counts the end of a request about a token."""
        self._count("authentication_token_cache_fetch_total", "ok" if ok else "error")

    def token_review(self, code: str, seconds: float) -> None:
        """Counts a TokenReview."""
        self._count("apiserver_delegated_authn_request_total", code)
        self._observe("apiserver_delegated_authn_request_duration_seconds", code, seconds)

    def access_review(self, code: str, seconds: float) -> None:
        """Counts a SubjectAccessReview."""
        self._count("apiserver_delegated_authz_request_total", code)
        self._observe("apiserver_delegated_authz_request_duration_seconds", code, seconds)

    def _count(self, family: str, label: str) -> None:
        self._metrics.numbers(family).labels(label).value += 1

    def _observe(self, family: str, label: str, seconds: float) -> None:
        self._metrics.distributions(family).labels(label).observe(seconds)


def user_label(username: str) -> str:
    """Returns the label of a user: few values, and no names of people."""
    if username in KNOWN_USERS:
        return username
    return "email_id" if "@" in username else "other"
