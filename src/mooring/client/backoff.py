"""How long to wait before trying again: longer each time, never all clients at once.

Source: ``DelayWithReset`` of https://pkg.go.dev/k8s.io/apimachinery/pkg/util/wait, with the numbers
of client-go's reflector: an API server that is ill gets 0.22 requests a second from each informer.
"""

from __future__ import annotations

from typing import Final

from mooring.clock import Clock, Rng

INITIAL_S: Final = 0.8
FACTOR: Final = 2.0
CAP_S: Final = 30.0
JITTER: Final = 1.0
RESET_S: Final = 120.0


class Backoff:
    """Waits that double up to a cap, and begin anew when none was needed for a while.

    Args:
        clock: Its monotonic reading decides when to begin anew.
        rng: For the jitter.
        initial_s: The first wait, in seconds, before jitter.
        cap_s: The longest one, before jitter.
        jitter: A wait of t is one between t and t * (1 + jitter).
        reset_s: After so long without a wait the next one is the first again.

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
        self._asked_at_s = clock.monotonic_s()

    def next_s(self, *, at_least_s: float | None = None) -> float:
        """Seconds to wait now; ``at_least_s`` is what the server asked for."""
        now_s = self._clock.monotonic_s()
        if now_s - self._asked_at_s > self._reset_s:
            self._wait_s = self._initial_s
        self._asked_at_s = now_s
        wait_s = self._wait_s * (1 + self._jitter * self._rng.random())
        self._wait_s = min(self._wait_s * FACTOR, self._cap_s)
        return max(wait_s, at_least_s or 0.0)
