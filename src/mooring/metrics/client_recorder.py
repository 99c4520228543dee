"""Records requests to the API server, and who holds the lease."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from mooring.metrics.series import Registered

#: The status code of a request without a response.
NO_RESPONSE: Final = "<error>"

#: kube-scheduler's value of the label ``name``; it is not the name of the lease.
LEASE: Final = "kube-scheduler"


class ClientRecorder:
    """Records into the series of the registry.

    Args:
        metrics: Has the series.
        now: Returns monotonic seconds.
    """

    __slots__ = (
        "_limiter_s",
        "_master",
        "_request_bytes",
        "_request_s",
        "_requests",
        "_response_bytes",
        "_retries",
        "_slow_path",
        "now",
    )

    def __init__(self, metrics: Registered, now: Callable[[], float]) -> None:
        numbers, distributions = metrics.numbers, metrics.distributions
        self.now = now
        self._requests = numbers("rest_client_requests_total")
        self._retries = numbers("rest_client_request_retries_total")
        self._request_s = distributions("rest_client_request_duration_seconds")
        self._limiter_s = distributions("rest_client_rate_limiter_duration_seconds")
        self._request_bytes = distributions("rest_client_request_size_bytes")
        self._response_bytes = distributions("rest_client_response_size_bytes")
        self._master = numbers("leader_election_master_status")
        self._slow_path = numbers("leader_election_slowpath_total")

    def answered(self, method: str, host: str, code: str) -> None:
        """Records a stream that has begun, or failed with ``NO_RESPONSE``.

        Args:
            method: GET, POST, PUT, PATCH or DELETE.
            host: Host and port of the server.
            code: The HTTP status.
        """
        self._requests.labels(code, method, host).value += 1

    def finished(
        self,
        method: str,
        host: str,
        code: str,
        seconds: float,
        *,
        request_bytes: int,
        response_bytes: int | None,
    ) -> None:
        """Records a request, which has ended: its duration and the sizes of the bodies.

        Every request calls it, so it looks the series up without a call for each.

        Args:
            method: GET, POST, PUT, PATCH or DELETE.
            host: Host and port of the server.
            code: The HTTP status, or ``NO_RESPONSE``.
            seconds: Until the response was complete.
            request_bytes: Of the request's body.
            response_bytes: Of the response's body; None = no response.
        """
        key, status_key = (method, host), (code, method, host)
        count = self._requests.children.get(status_key) or self._requests.labels(*status_key)
        count.value += 1
        for family, value in (
            (self._request_s, seconds),
            (self._request_bytes, request_bytes),
            (self._response_bytes, response_bytes),
        ):
            if value is not None:
                child = family.children.get(key) or family.labels(*key)
                child.counts[bisect_left(child.bounds, value)] += 1
                child.sum += value

    def limited(self, method: str, host: str, seconds: float) -> None:
        """Records how long a request waited for the client's rate limit, 0 included."""
        self._limiter_s.labels(method, host).observe(seconds)

    def retried(self, method: str, host: str, code: str) -> None:
        """Counts a request that is sent again."""
        self._retries.labels(code, method, host).value += 1

    def set_leading(self, *, is_leading: bool) -> None:
        """Records whether this process holds the lease; call it when the elector is created."""
        self._master.labels(LEASE).value = float(is_leading)

    def renewed_slowly(self) -> None:
        """Counts a renewal that had to read the lease first."""
        self._slow_path.labels(LEASE).value += 1
