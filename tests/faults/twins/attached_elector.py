"""Follows a candidate for a lease: each request, the lease's end by its clock, and its waits.

The model is the one of ``tests/machines/test_elector_machine.py``. Here requests fail, answers are
lost, and a try may be cancelled at any moment.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Final

from mooring.client import Elector
from mooring.client.leader_election import EXPIRY_JITTER_S, JITTER, LeaseTimes
from mooring.clock import Clock
from mooring.errors import Conflict, LeaseLost, NotFound
from mooring.objects.meta import Lease
from tests.machines.elector_model import Answer, Ask, ModelElector, Record, Try

ROUNDING_S: Final = 1e-3


class AttachedElector:
    """Compares an elector with the model at each request, try, wait, and use of its fence.

    Args:
        elector: Used by no client yet.
        clock: The elector's.
        times: The elector's.
        report: Called with each difference.
    """

    def __init__(
        self,
        elector: Elector,
        clock: Clock,
        report: Callable[[str], None],
        times: LeaseTimes | None = None,
    ) -> None:
        self._times = times or LeaseTimes()
        self._model = ModelElector(
            elector.identity, math.ceil(self._times.duration_s), clock.monotonic_s
        )
        self._now_s = clock.monotonic_s
        self._wall_s = clock.wall_s
        #: The last answer of the server.
        self._last: Lease | None = None
        self._report = report
        self._leads_until_s = -math.inf
        self._is_over = self._has_led = self._is_overtaken = False
        #: A renewal is due: the wait for it is over.
        self._must_try = False
        self._attempt: Try | None = None
        self._expected: Ask | None = None
        self._result = False
        real: Any = elector
        self._elector = real
        requests = real._requests
        for verb in ("read", "create", "replace"):
            setattr(requests, verb, self._followed(verb, getattr(requests, verb)))
        self._try, real._try = real._try, self._tries
        self._fence, real.fence = real.fence, self._fences
        self._release, real.release = real.release, self._releases
        self._keep, real.keep = real.keep, self._keeps
        self._sleep, real._sleep = real._sleep, self._sleeps

    # -- requests ---------------------------------------------------------------------------------

    def _followed(self, verb: str, real: Callable[..., Awaitable[Lease]]) -> Any:
        async def request(*leases: Lease) -> Lease:
            written = _record(leases[0]) if leases else None
            self._check(Ask(verb, written))
            if leases:
                self._check_times(leases[0], is_new=verb == "create")
            answer: Record | Answer = Answer.FAILED
            try:
                lease = self._last = await real(*leases)
                answer = _record(lease)
                return lease
            except NotFound:
                answer = Answer.MISSING
                raise
            except Conflict:
                answer = Answer.CONFLICT
                raise
            finally:
                self._answer(answer)

        return request

    def _check(self, request: Ask) -> None:
        expected = self._expected
        if expected is None or expected.verb != request.verb:
            self._differ(f"sends {request.verb}, not {expected.verb if expected else 'nothing'}")
            return
        if request.record is None or expected.record is None:
            return
        if request.record[:3] != expected.record[:3]:
            self._differ(f"writes {request.record}, not {expected.record}")

    def _check_times(self, lease: Lease, *, is_new: bool) -> None:
        """Checks the times of a Lease that is written, and of which version it is a change."""
        spec, before, now_s = lease.spec, self._last, self._wall_s()
        holder = before.spec.holder_identity if before is not None else ""
        acquired_s = now_s
        if before is not None and holder == spec.holder_identity and before.spec.acquire_time:
            acquired_s = _wall_s_of(before.spec.acquire_time)
        real = _wall_s_of(spec.acquire_time), _wall_s_of(spec.renew_time)
        wrong_s = abs(real[0] - acquired_s), abs(real[1] - now_s)
        if max(wrong_s) > ROUNDING_S:
            self._differ(f"writes the times {real}, not {(acquired_s, now_s)}")
        version = "" if is_new or before is None else before.metadata.resource_version
        if lease.metadata.resource_version != version:
            self._differ(f"changes version {lease.metadata.resource_version}, not {version}")

    def _begin(self, attempt: Try) -> None:
        self._attempt, self._expected, self._result = attempt, next(attempt), False

    def _answer(self, answer: Record | Answer) -> None:
        if self._attempt is None or self._expected is None:
            return
        try:
            self._expected = self._attempt.send(answer)
        except StopIteration as end:
            self._attempt = self._expected = None
            self._result = bool(end.value)
        # The elector observes the answer after this.
        leader = self._model.observed.holder
        asyncio.get_running_loop().call_soon(self._compare_leader, leader)

    def _compare_leader(self, leader: str) -> None:
        if leader == self._model.observed.holder and self._elector.leader != leader:
            self._differ(f"takes {self._elector.leader!r} for the leader, not {leader!r}")

    # -- tries ------------------------------------------------------------------------------------

    async def _tries(self, deadline_s: float) -> bool:
        started_at_s, self._must_try = self._now_s(), False
        if self._is_over:
            self._differ("tries although it was lost or released")
        if self._is_overtaken:
            self._differ("tries although another candidate holds the lease")
        left_s = self._leads_until_s - started_at_s
        if self._has_led and (left_s <= 0 or deadline_s > left_s + ROUNDING_S):
            self._differ(f"renews for {deadline_s:.2f} s, but has {left_s:.2f} s left")
        if deadline_s > self._times.renew_s:
            self._differ(f"tries for {deadline_s:.2f} s")
        self._begin(self._model.tries())
        is_ours: bool = False
        has_ended = False
        try:
            is_ours = await self._try(deadline_s)
            has_ended = True
        finally:
            # A try that was cancelled between two requests has failed too.
            if self._attempt is not None:
                is_in_time = self._now_s() - started_at_s < deadline_s - ROUNDING_S
                if has_ended and is_in_time and self._expected is not None:
                    self._differ(f"ends a try without its next request: {self._expected.verb}")
                self._model.is_doubtful = True
                self._attempt = self._expected = None
                self._result = False
        expected = self._result and not self._is_over
        if expected:
            self._leads_until_s, self._has_led = started_at_s + self._times.renew_s, True
        if is_ours != expected:
            self._differ(f"a try returns {is_ours}, not {expected}")
        self._is_overtaken = self._has_led and self._model.observed.holder != self._elector.identity
        self._compare_lead()
        return is_ours

    def _compare_lead(self) -> None:
        real_s, expected_s = self._elector._leads_until_s, self._leads_until_s
        if real_s != expected_s and abs(real_s - expected_s) > ROUNDING_S:
            self._differ(f"leads until {real_s:.3f} s, not {expected_s:.3f} s")

    def _fences(self) -> float:
        left_s = self._leads_until_s - self._now_s()
        self._check_ends()
        try:
            seconds: float = self._fence()
        except LeaseLost:
            if left_s > ROUNDING_S:
                self._differ(f"refuses a write {left_s:.2f} s before its end")
            raise
        if abs(seconds - left_s) > ROUNDING_S:
            self._differ(f"allows a write for {seconds:.2f} s, not {left_s:.2f} s")
        return seconds

    def _check_ends(self) -> None:
        """Checks the very moments of two ends: of our lease, and of another's.

        No request meets them, so the elector is asked what it would do just before and at each.
        """
        ends_s = self._elector._leads_until_s
        if math.isfinite(ends_s):
            self._check_lead_at(math.nextafter(ends_s, -math.inf), leads=True)
            self._check_lead_at(ends_s, leads=False)
        lease, observed_s = self._elector.lease, self._elector._observed_at_s
        if lease is None or not math.isfinite(observed_s):
            return
        expires_s = observed_s + (lease.spec.lease_duration_seconds or 0)
        is_others = (lease.spec.holder_identity or "") not in ("", self._elector.identity)
        before_s = math.nextafter(expires_s, -math.inf)
        is_theirs = [self._elector._is_held_by_another(at_s) for at_s in (before_s, expires_s)]
        if is_theirs != [is_others and expires_s > observed_s, False]:
            self._differ("takes the lease at another time than its end")

    def _check_lead_at(self, now_s: float, *, leads: bool) -> None:
        clock, self._elector._clock = self._elector._clock, _At(now_s)
        try:
            if self._may_write() != leads or self._elector.is_leading != leads:
                self._differ(f"leads or may write is {not leads} at the end of its lease")
        finally:
            self._elector._clock = clock

    def _may_write(self) -> bool:
        try:
            self._fence()
        except LeaseLost:
            return False
        return True

    async def _keeps(self) -> None:
        try:
            await self._keep()
        except LeaseLost:
            self._leads_until_s, self._is_over = -math.inf, True
            self._compare_lead()
            if not self._elector._is_over:
                self._differ("was lost, but may be renewed")
            raise

    async def _releases(self) -> bool:
        leads = self._leads_until_s > self._now_s()
        if leads:
            self._leads_until_s, self._is_over = -math.inf, True
            self._begin(self._model.releases())
        is_released: bool = await self._release()
        if is_released != (leads and self._result):
            self._differ(f"release returns {is_released}")
        return is_released

    async def _sleeps(self, seconds: float) -> None:
        left_s = self._leads_until_s - self._now_s()
        if self._must_try:
            self._differ("waits again, and has not tried")
        if self._has_led:
            most_s = min(self._times.retry_s, max(left_s, 0.01))
        else:
            most_s = self._times.retry_s * (1 + JITTER)
            expires_s = self._model.expires_s() - self._now_s()
            if self._model.observed.holder and expires_s > 0:
                most_s = min(most_s, expires_s + EXPIRY_JITTER_S)
        if seconds > most_s + ROUNDING_S:
            self._differ(f"waits {seconds:.2f} s, not {most_s:.2f} s at most")
        await self._sleep(seconds)
        self._must_try = not self._has_led or self._leads_until_s - self._now_s() > ROUNDING_S

    def _differ(self, message: str) -> None:
        self._report(f"lease: {self._elector.identity} {message}")


class _At:
    """A clock that stands still."""

    def __init__(self, now_s: float) -> None:
        self._now_s = now_s

    def monotonic_s(self) -> float:
        """Returns the time."""
        return self._now_s


def _wall_s_of(text: str | None) -> float:
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def _record(lease: Lease) -> Record:
    spec = lease.spec
    renewed = datetime.fromisoformat(spec.renew_time).timestamp() if spec.renew_time else 0.0
    return Record(
        spec.holder_identity or "",
        float(spec.lease_duration_seconds or 0),
        spec.lease_transitions or 0,
        renewed,
    )
