"""Retries of requests: backoff, and the ``retry`` loop.

``RetryPolicy`` is for one request that is retried a limited number of times; ``Backoff`` is for a
loop without an end, whose backoff is reset after a quiet time.

Source: ``DelayWithReset`` of https://pkg.go.dev/k8s.io/apimachinery/pkg/util/wait, with the numbers
of client-go's reflector: a failing API server gets 0.22 requests a second from each informer.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from mooring.clock import Clock, Rng
from mooring.errors import (
    ApiError,
    OutcomeUnknown,
    SchedulerError,
    ServerError,
    TooManyRequests,
    Unreachable,
)

INITIAL_S: Final = 0.8
FACTOR: Final = 2.0
CAP_S: Final = 30.0
JITTER: Final = 1.0
RESET_S: Final = 120.0

#: A wait of t seconds requested by the server is between t and t * (1 + this).
REQUESTED_WAIT_JITTER: Final = 0.1

#: Transient failures, after which a request is retried.
TRANSIENT: Final = (Unreachable, OutcomeUnknown, ServerError, TooManyRequests)

Sleep = Callable[[float], Awaitable[None]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The number of tries of a request, and the waits between them.

    Attributes:
        tries_max: Tries in all; ``math.inf`` = until it succeeds.
        initial_s: The first wait, in seconds, before jitter.
        factor: Each wait is this many times as long as the one before.
        max_s: The longest wait, in seconds, before jitter.
        jitter: A wait of t is one between t and t * (1 + jitter).
    """

    tries_max: float
    initial_s: float
    factor: float = FACTOR
    max_s: float = math.inf
    jitter: float = 1.0

    def wait_s(self, tries: int, error: SchedulerError, rng: Rng) -> float:
        """Returns the seconds to wait after ``tries`` failed tries, the last one with ``error``."""
        share = rng.random() if self.jitter else 0.0
        backoff_s = min(self.initial_s * self.factor ** min(tries - 1, 64), self.max_s)
        requested_s = requested_wait_s(error) * (1 + REQUESTED_WAIT_JITTER * share)
        return max(requested_s, backoff_s * (1 + self.jitter * share))


async def retry(
    call: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    *,
    sleep: Sleep,
    rng: Rng,
    should_retry: Callable[[SchedulerError], bool] = lambda error: isinstance(error, TRANSIENT),
) -> T:
    """Returns the result of ``call``, which is retried after transient failures.

    Args:
        call: Sends the request once.
        policy: Number of tries, and waits. A longer wait requested by the server takes precedence.
        sleep: Waits.
        rng: For jitter.
        should_retry: Returns whether to retry after this error. It may also log the failure, and
        stop the retries when the request has become pointless.

    Raises:
        SchedulerError: the last try's error, or the first one that is not retried.
    """
    assert policy.tries_max >= 1, "a request is tried at least once"
    tries = 0
    while True:
        tries += 1
        try:
            return await call()
        except SchedulerError as error:
            if tries >= policy.tries_max or not should_retry(error):
                raise
            wait_s = policy.wait_s(tries, error, rng)
        await sleep(wait_s)


def requested_wait_s(error: BaseException) -> float:
    """Returns the wait requested by the server (Retry-After), in seconds; 0 if none."""
    cause = error.__cause__ if isinstance(error, OutcomeUnknown) else error
    return (isinstance(cause, ApiError) and cause.retry_after_s) or 0.0


class Backoff:
    """Waits that double up to a cap, and are reset after a quiet time.

    Args:
        clock: Its monotonic reading decides when a quiet time is over.
        rng: For the jitter.
        initial_s: The first wait, in seconds, before jitter.
        cap_s: The longest one, before jitter.
        jitter: A wait of t is one between t and t * (1 + jitter).
        reset_s: The backoff is reset after this time without a wait.

    Example:
        >>> from mooring.clock import VirtualClock, seeded_random
        >>> backoff = Backoff(VirtualClock(), seeded_random(1), jitter=0.0)
        >>> [backoff.next_s() for _ in range(7)]
        [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0]
    """

    def __init__(
        self,
        clock: Clock,
        rng: Rng,
        *,
        initial_s: float = INITIAL_S,
        cap_s: float = CAP_S,
        jitter: float = JITTER,
        reset_s: float = RESET_S,
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._initial_s = initial_s
        self._cap_s = cap_s
        self._jitter = jitter
        self._reset_s = reset_s
        self._wait_s = initial_s
        self._called_at_s = clock.monotonic_s()

    def next_s(self, *, at_least_s: float | None = None) -> float:
        """Returns the seconds to wait now; ``at_least_s`` is the wait requested by the server."""
        now_s = self._clock.monotonic_s()
        if now_s - self._called_at_s > self._reset_s:
            self._wait_s = self._initial_s
        self._called_at_s = now_s
        wait_s = self._wait_s * (1 + self._jitter * self._rng.random())
        self._wait_s = min(self._wait_s * FACTOR, self._cap_s)
        return max(wait_s, at_least_s or 0.0)
