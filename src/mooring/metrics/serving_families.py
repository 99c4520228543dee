"""The families of the server of health, metrics and debugging: who asks, and who may.

Names, labels and buckets are those of k8s.io/apiserver v0.36.3: pkg/endpoints/filters/metrics.go,
pkg/authentication/token/cache/stats.go and pkg/authentication/authenticatorfactory/metrics.go.
"""

from __future__ import annotations

from typing import Final

from mooring.metrics.family import ALPHA, counter, exponential_buckets, gauge, histogram

_DURATION_S: Final = exponential_buckets(0.001, 2, 15)
_REVIEW_S: Final = (0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0)
_LOOKUP_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

SERVING: Final = (
    counter(
        ALPHA,
        "authenticated_user_requests",
        "Authenticated requests by user; names that are not common to all clusters are other.",
        "username",
    ),
    counter(ALPHA, "authentication_attempts", "Requests by result of authentication.", "result"),
    histogram(
        ALPHA,
        "authentication_duration_seconds",
        _DURATION_S,
        "Duration of authentications by result.",
        "result",
    ),
    counter(
        ALPHA, "authorization_attempts_total", "Requests by result of authorization.", "result"
    ),
    histogram(
        ALPHA,
        "authorization_duration_seconds",
        _DURATION_S,
        "Duration of authorizations by result.",
        "result",
    ),
    counter(
        ALPHA, "authentication_token_cache_request_total", "Tokens that were looked up.", "status"
    ),
    histogram(
        ALPHA,
        "authentication_token_cache_request_duration_seconds",
        _LOOKUP_S,
        "Duration of lookups of tokens, whole milliseconds.",
        "status",
    ),
    counter(
        ALPHA,
        "authentication_token_cache_fetch_total",
        "Tokens that the API server was asked about, by whether it knows them.",
        "status",
    ),
    gauge(
        ALPHA,
        "authentication_token_cache_active_fetch_count",
        "Requests about tokens in progress (in_flight), and requests that wait for one (blocked).",
        "status",
    ),
    counter(
        ALPHA, "apiserver_delegated_authn_request_total", "TokenReviews by status code.", "code"
    ),
    histogram(
        ALPHA,
        "apiserver_delegated_authn_request_duration_seconds",
        _REVIEW_S,
        "Duration of TokenReviews by status code.",
        "code",
    ),
    counter(
        ALPHA,
        "apiserver_delegated_authz_request_total",
        "SubjectAccessReviews by status code.",
        "code",
    ),
    histogram(
        ALPHA,
        "apiserver_delegated_authz_request_duration_seconds",
        _REVIEW_S,
        "Duration of SubjectAccessReviews by status code.",
        "code",
    ),
)
