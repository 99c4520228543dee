"""The times of a lease that are accepted, and how loudly tries for it that fail are logged.

Source: client-go, tools/leaderelection/leaderelection.go (NewLeaderElector).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Final

from mooring.client import Elector
from mooring.client import leader_election as module
from mooring.client.leader_election import LeaseTimes
from mooring.clock import Rng, VirtualClock
from mooring.errors import ConfigError, Forbidden, ServerError, Unreachable
from tests.faults.parts.logged import logged
from tests.helpers.client_servers import LeaseServer

JITTER: Final = 1.2
TRIES: Final = 12
DRAWS: Final = 8
#: A try fails by one of these; None = it succeeds.
ERRORS: Final = (
    (None, 0),
    (Unreachable("no answer"), logging.WARNING),
    (ServerError("busy", status=503), logging.WARNING),
    (Forbidden("no", status=403), logging.ERROR),
)


def lease_problems(rng: Rng) -> Iterator[str]:
    """Yields the times and levels that differ from the reference."""
    for _ in range(DRAWS):
        yield from _times(rng)
    yield from asyncio.run(_levels(rng))


def _times(rng: Rng) -> Iterator[str]:
    """Compares the check of times; each may be just at its limit."""
    retry_s = rng.choice((-1.0, 0.0, 0.5, 2.0))
    renew_s = retry_s * JITTER + rng.choice((-0.5, 0.0, 0.25, 5.0))
    duration_s = renew_s + rng.choice((-0.5, 0.0, 0.25, 5.0))
    expected: Any = None
    if retry_s <= 0.0:
        expected = "retryPeriod", "must be greater than zero", retry_s
    if renew_s <= retry_s * JITTER:
        expected = "renewDeadline", "must be greater than 1.2 x retryPeriod", renew_s
    if duration_s <= renew_s:
        expected = "leaseDuration", "must be greater than renewDeadline", duration_s
    if expected is not None:
        expected = f"leaderElection.{expected[0]}", *expected[1:]
    real: Any = None
    try:
        LeaseTimes(duration_s, renew_s, retry_s)
    except ConfigError as error:
        real = error.path, error.problem, error.value
    if real != expected:
        yield f"{duration_s}, {renew_s}, {retry_s} s: {real}, not {expected}"


async def _levels(rng: Rng) -> list[str]:
    """Compares the levels of tries that fail: what repeats itself is a warning once."""
    try:
        Elector(_any(None), "a", "b", identity="", clock=VirtualClock(), rng=rng)
    except ConfigError as error:
        if (error.path, error.problem) != ("identity", "must not be empty"):
            return [f"no identity: {error}"]
    else:
        return ["an elector has no identity"]
    clock, server = VirtualClock(), LeaseServer()
    failure: Any = None

    async def request(request: Any) -> Any:
        if failure is not None:
            raise failure
        return await server.request(request)

    transport = _any(SimpleNamespace(request=request))
    elector = Elector(transport, "kube-system", "mooring", identity="me", clock=clock, rng=rng)
    expected, has_failed = [], False
    with logged(module) as log:
        for _ in range(TRIES):
            failure, level = rng.choice(ERRORS)
            clock.advance(1.0)
            is_held = await elector._try(10.0)
            if is_held is not (failure is None):
                return [f"a try that ends with {failure!r} holds the lease: {is_held}"]
            if failure is not None:
                is_again = has_failed and level == logging.WARNING
                fields = {"lease": "kube-system/mooring", "error": str(failure)}
                level = logging.INFO if is_again else level
                expected.append((level, "cannot acquire or renew lease", fields))
            has_failed = failure is not None
    return [] if log.lines == expected else [f"logs {log.lines}, not {expected}"]


def _any(it: Any) -> Any:
    return it
