"""Logs what keeps informers from following the API server: each cause once, and when it has ended.

All informers fail together when the API server is away, or does not accept the credentials: that is
one line, not one for each kind. A kind that is refused is an error of its own. Errors are repeated
after waits that double.

A new leader waits here for objects that are fresh.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from mooring.client import Informer
from mooring.client.retry import Sleep
from mooring.clock import Clock
from mooring.errors import Forbidden, SchedulerError, Unauthorized, Unreachable

CHECK_INTERVAL_S: Final = 1.0

#: Time until the error of a kind is logged again: doubled up to the maximum.
REPEAT_S: Final = 5.0
REPEAT_S_MAX: Final = 300.0

#: A new leader waits this long for objects that are fresh.
FRESH_S_MAX: Final = 30.0

_log = logging.getLogger(__name__)


class _Failing(NamedTuple):
    """An error that lasts: since when, and when it is logged again."""

    since_s: float
    repeat_at_s: float
    repeat_s: float


def _repeated(before: _Failing | None, now_s: float) -> _Failing | None:
    """Returns the next state of an error that lasts; None: it is not logged again yet."""
    if before is None:
        return _Failing(now_s, now_s + REPEAT_S, REPEAT_S)
    if now_s < before.repeat_at_s:
        return None
    repeat_s = min(2 * before.repeat_s, REPEAT_S_MAX)
    return _Failing(before.since_s, now_s + repeat_s, repeat_s)


class InformerHealth:
    """Compares the state of informers with what was logged.

    Args:
        informers: Returns all informers.
        clock: Monotonic seconds.
        sleep: Waits between two checks.
    """

    def __init__(
        self,
        informers: Callable[[], Sequence[Informer]],
        *,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._informers = informers
        self._clock = clock
        self._sleep = sleep
        self._unreachable_since_s: float | None = None
        self._unauthorized: _Failing | None = None
        self._failing: dict[str, _Failing] = {}

    async def run(self) -> None:
        """Checks every second until cancelled."""
        while True:
            await self._sleep(CHECK_INTERVAL_S)
            self.check()

    def check(self) -> None:
        """Logs what has changed since the last check."""
        errors = {informer: informer.last_error for informer in self._informers()}
        self._check_reachable(errors)
        self._check_credentials(errors)
        for informer, error in errors.items():
            is_common = isinstance(error, Unreachable | Unauthorized)
            self._check_kind(informer, None if is_common else error)

    def _check_reachable(self, errors: dict[Informer, SchedulerError | None]) -> None:
        now_s, since_s = self._clock.monotonic_s(), self._unreachable_since_s
        away = [informer for informer, error in errors.items() if isinstance(error, Unreachable)]
        if away and since_s is None:
            self._unreachable_since_s = now_s
            waits_s = [informer.next_try_at_s - now_s for informer in away]
            fields = {
                "error": str(away[0].last_error),
                "next_try_s": round(min((s for s in waits_s if s > 0), default=0.0), 1),
                "scheduling": "not started" if _are_unsynced(away) else "paused",
            }
            _log.warning("API server cannot be reached", extra=fields)
        elif not away and since_s is not None:
            self._unreachable_since_s = None
            fields = {"after_s": round(now_s - since_s, 1)}
            _log.warning("API server can be reached again", extra=fields)

    def _check_credentials(self, errors: dict[Informer, SchedulerError | None]) -> None:
        now_s, before = self._clock.monotonic_s(), self._unauthorized
        refused = [informer for informer, error in errors.items() if type(error) is Unauthorized]
        if refused and (failing := _repeated(before, now_s)):
            self._unauthorized = failing
            fields = {
                "error": str(refused[0].last_error),
                "scheduling": "not started" if _are_unsynced(refused) else "paused",
            }
            _log.error("API server does not accept the credentials", extra=fields)
        elif before is not None and not any(errors.values()):
            self._unauthorized = None
            after_s = round(now_s - before.since_s, 1)
            _log.info("API server accepts the credentials again", extra={"after_s": after_s})

    def _check_kind(self, informer: Informer, error: SchedulerError | None) -> None:
        kind, now_s = informer.kind.name, self._clock.monotonic_s()
        before = self._failing.get(kind)
        if error is None:
            if before is not None and informer.last_error is None:
                del self._failing[kind]
                fields = {"kind": kind, "after_s": round(now_s - before.since_s, 1)}
                _log.info("kind can be listed and watched again", extra=fields)
            return
        if informer.has_synced and not isinstance(error, Forbidden):
            return  # a watch that broke is started again at once
        failing = _repeated(before, now_s)
        if failing is None:
            return
        self._failing[kind] = failing
        level = logging.ERROR if isinstance(error, Forbidden) else logging.WARNING
        message = "cannot watch a kind" if informer.has_synced else "cannot list a kind"
        suffix = "" if informer.has_synced else ", scheduling has not started"
        _log.log(level, message + suffix, extra={"kind": kind, "error": str(error)})


async def wait_until_fresh(informers: Sequence[Informer], since_s: float) -> None:
    """Returns when the objects of all kinds are at least as new as ``since_s``.

    A standby may have been cut off from the server, so that its objects are older than the bindings
    of the last leader. A kind that cannot be listed is logged after
    30 s, and not waited for any longer.

    Args:
        informers: All that scheduling reads.
        since_s: When the server was last known to be out of reach; monotonic seconds.
    """
    stale = {informer.kind.name for informer in informers}

    async def wait(informer: Informer) -> None:
        await informer.wait_until_fresh(since_s)
        stale.discard(informer.kind.name)

    try:
        async with asyncio.timeout(FRESH_S_MAX), asyncio.TaskGroup() as tasks:
            for informer in informers:
                tasks.create_task(wait(informer))
    except TimeoutError:
        fields = {"kinds": sorted(stale)}
        _log.warning("scheduling starts with kinds that may be stale", extra=fields)


def _are_unsynced(informers: Sequence[Informer]) -> bool:
    return any(not informer.has_synced for informer in informers)
