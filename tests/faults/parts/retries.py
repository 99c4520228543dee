"""The waits between the tries of a request, of a loop without an end, and which errors end both.

The jitter is drawn by the run, so that each wait is an exact number. The reference computes it from
the number of the try alone.

Source: client-go, tools/cache/reflector.go (backoff); apimachinery, pkg/util/wait/backoff.go.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Final

from mooring.client.retry import Backoff, RetryPolicy, requested_wait_s, retry
from mooring.clock import Rng, VirtualClock
from mooring.errors import (
    Conflict,
    Forbidden,
    LeaseLost,
    NotFound,
    OutcomeUnknown,
    SchedulerError,
    ServerError,
    TooManyRequests,
    Unreachable,
)

WAITS: Final = 12
REQUESTS: Final = 4
#: The numbers of the policies, written down here and not imported.
REQUESTED_JITTER: Final = 0.1
FIRST_S: Final = 0.8
LONGEST_S: Final = 30.0
QUIET_S: Final = 120.0
ROUNDING: Final = 1e-9
#: Errors, and whether a request is retried.
AGAIN: Final = (Unreachable, OutcomeUnknown)
FINAL: Final = (LeaseLost, SchedulerError)


def retry_problems(rng: Rng) -> Iterator[str]:
    """Yields the waits, and the ends, that differ from the reference."""
    for _ in range(REQUESTS):
        yield from asyncio.run(_retried(rng))
    yield from _backoffs(rng)


def _error(rng: Rng) -> tuple[SchedulerError, bool, float]:
    """Returns an error, whether the request is retried, and the wait that is requested."""
    draw, seconds = rng.random(), rng.choice((None, None, 0.0, 0.4, 7.0, 90.0))
    if draw < 0.3:
        return rng.choice(AGAIN)("no answer"), True, 0.0
    if draw < 0.4:
        return rng.choice(FINAL)("no"), False, 0.0
    if draw < 0.5:
        refusal, status = rng.choice(((Conflict, 409), (NotFound, 404), (Forbidden, 403)))
        return refusal("no", status=status, retry_after_s=seconds), False, seconds or 0.0
    kind, status = rng.choice(((ServerError, 503), (TooManyRequests, 429)))
    error = kind("no", status=status, retry_after_s=seconds)
    if draw < 0.6:
        unknown = OutcomeUnknown("no answer")
        unknown.__cause__ = error
        return unknown, True, seconds or 0.0
    return error, True, seconds or 0.0


async def _retried(rng: Rng) -> list[str]:
    """Compares the tries of a request."""
    first_s, factor = rng.choice((0.1, 1.0)), rng.choice((1.0, 2.0, 3.0))
    longest_s, jitter = rng.choice((math.inf, 5.0)), rng.choice((0.0, 0.5, 1.0))
    tries_max = rng.choice((1, 3, 8, math.inf))
    policy = RetryPolicy(tries_max, first_s, factor, longest_s, jitter)
    errors = [_error(rng) for _ in range(rng.randrange(WAITS))]
    share = rng.random()
    n_tries, waits_s, due_s = 0, list[float](), list[float]()
    expected: Any = "done"
    for number, (error, is_again, requested_s) in enumerate(errors, start=1):
        if not is_again or number >= tries_max:
            expected = error
            break
        own_s = min(first_s * factor ** (number - 1), longest_s) * (1 + jitter * share)
        more = REQUESTED_JITTER * share if jitter else 0.0
        due_s.append(max(own_s, requested_s * (1 + more)))

    async def call() -> str:
        nonlocal n_tries
        await asyncio.sleep(0)
        n_tries += 1
        if n_tries <= len(errors):
            raise errors[n_tries - 1][0]
        return "done"

    async def sleep(seconds: float) -> None:
        waits_s.append(seconds)

    jitters: Any = SimpleNamespace(random=lambda: share)
    real: Any
    try:
        real = await retry(call, policy, sleep=sleep, rng=jitters)
    except SchedulerError as error:
        real = error
    problems = [
        f"{error!r} requests {requested_wait_s(error)} s, not {seconds}"
        for error, _, seconds in errors
        if requested_wait_s(error) != seconds
    ]
    if real is not expected and real != expected:
        problems.append(f"{errors} end with {real!r}, not {expected!r}")
    if n_tries != len(due_s) + 1 or _differ(waits_s, due_s):
        problems.append(f"{n_tries} tries by {policy}, waits of {waits_s}, not {due_s}")
    return problems


def _differ(real: list[float], due: list[float]) -> bool:
    pairs = zip(real, due, strict=False)
    return len(real) != len(due) or any(abs(a - b) > ROUNDING * max(1.0, b) for a, b in pairs)


def _backoffs(rng: Rng) -> Iterator[str]:
    """Compares the waits of a loop, some of them after a quiet time."""
    clock, share = VirtualClock(), rng.random()
    own = (
        {}
        if rng.random() < 0.5
        else {"initial_s": 0.1, "cap_s": 5.0, "jitter": 0.3, "reset_s": 50.0}
    )
    first_s, longest_s = own.get("initial_s", FIRST_S), own.get("cap_s", LONGEST_S)
    jitter, quiet_s = own.get("jitter", 1.0), own.get("reset_s", QUIET_S)
    jitters: Any = SimpleNamespace(random=lambda: share)
    backoff = Backoff(clock, jitters, **own)
    n_before = 0
    for _ in range(WAITS):
        passed_s = rng.choice((0.0, 1.0, quiet_s, quiet_s + 0.5))
        clock.advance(passed_s)
        n_before = 0 if passed_s > quiet_s else n_before
        at_least_s = rng.choice((None, None, 0.5, 200.0))
        due_s = min(first_s * 2**n_before, longest_s) * (1 + jitter * share)
        due_s = max(due_s, at_least_s or 0.0)
        real_s = backoff.next_s(at_least_s=at_least_s)
        if _differ([real_s], [due_s]):
            yield f"wait {n_before} of {own} is {real_s} s, not {due_s} s"
        n_before += 1
