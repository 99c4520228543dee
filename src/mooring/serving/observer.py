"""Reports what happens to requests, for metrics of the server itself."""

from __future__ import annotations


class ServingObserver:
    """Ignores everything; a subclass counts what it wants.

    All durations are in seconds. The metrics of kube-scheduler that correspond to the methods are
    authentication_attempts, authentication_token_cache_*, apiserver_delegated_authn_request_*,
    authorization_attempts_total and apiserver_delegated_authz_request_*.
    """

    def authenticated(self, result: str, username: str, seconds: float) -> None:
        """Is called once per request; ``result`` is "success", "failure" or "error"."""

    def authorized(self, result: str, seconds: float) -> None:
        """Is called after authentication; ``result`` is "allowed", "no-opinion" or "error"."""

    def token_lookup(self, hit: bool, seconds: float) -> None:
        """Is called after a token was looked up; ``hit``: the answer was in the cache."""

    def token_fetches(self, status: str, change: int) -> None:
        """Is called with +1 and -1; ``status`` is "in_flight", or "blocked" for who waits."""

    def token_fetched(self, ok: bool) -> None:
        """Is called when the API server knows a token (``ok``), or has not confirmed it."""

    def token_review(self, code: str, seconds: float) -> None:
        """Is called after each request for a TokenReview; ``code`` may be "<error>"."""

    def access_review(self, code: str, seconds: float) -> None:
        """Is called after each request for a SubjectAccessReview."""
