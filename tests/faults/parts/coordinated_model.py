"""An elector that kube-apiserver names: what it was answered, and what follows from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import msgspec

from mooring.client.transport.transport import Pool, Request, Response
from mooring.config.types import LeaderElection
from mooring.virtual_loop import LoopClock

#: Differences of times up to this are rounding.
ROUNDING_S: Final = 1e-3
JITTER: Final = 1.2
EXPIRY_JITTER_S: Final = 0.5
WAIT_S_MIN: Final = 0.01


class Wire:
    """The way to the server: the model hears of each request and of its answer."""

    def __init__(self, inner: Any, model: Model) -> None:
        self._inner, self._model = inner, model

    async def request(self, request: Request) -> Response:
        """Sends a request."""
        self._model.sent(request)
        try:
            response: Response = await self._inner.request(request)
        except BaseException:
            # Also when the try takes too long, and is cancelled.
            self._model.answered(None)
            raise
        self._model.answered(response)
        return response

    def stream(self, *_: Any, **__: Any) -> Any:
        """Is not called."""
        raise AssertionError("a lease is not watched")

    async def close(self) -> None:
        """Has nothing to close."""


class Model:
    """The elector as it should be: what it has been answered, and what follows.

    Attributes:
        problems: Differences.
        leads_until_s: When the lease ends.
        term: "over" or "lost" once the term has ended by an answer, "" before.
        slow_count: The reads while it leads.
        leaders: Each holder that was read, when it is another than before.
    """

    def __init__(self, election: LeaderElection, clock: LoopClock, *, is_named: bool) -> None:
        self.problems: list[str] = []
        self.identity = ""
        self.leads_until_s = self.renewed_at_s = self.failed_at_s = -math.inf
        self.term = ""
        self.is_releasing = False
        #: It is being renewed; a request has no answer yet.
        self._is_kept = self._is_open = False
        #: The task that tries was cancelled.
        self.is_stopped = False
        #: Whether the elector leads: for the slow renewals of one that takes the Lease itself.
        self.is_leading: Callable[[], bool] = lambda: False
        self.slow_count = 0
        self.leaders: list[str] = []
        self.holder = ""
        self._election, self._clock = election, clock
        #: Kube-apiserver names the holder; else only what is common to both is compared.
        self._is_named = is_named
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{election.resource_namespace}/leases"
        self._method = ""
        self._read: dict[str, Any] = {}
        self._spec: dict[str, Any] | None = None
        self._written: dict[str, Any] = {}
        self._seen_at_s = self._started_s = -math.inf
        self._next_is_put = False
        #: The next read is sent between these two.
        self._due_s: tuple[float, float] | None = None

    @property
    def now_s(self) -> float:
        """The time of the elector."""
        return self._clock.monotonic_s()

    @property
    def leads(self) -> bool:
        """True if it leads now."""
        return self.now_s < self.leads_until_s

    def keeps(self) -> None:
        """Notes that it is renewed from now on."""
        self._is_kept = True
        self._wait_to_renew()

    def check_late(self) -> None:
        """Checks that a request was sent when it was due."""
        is_idle = not self._is_open and not self.is_stopped and not self.term
        if not self._is_named or not is_idle or self._due_s is None:
            return
        has_led = self.leads_until_s > -math.inf
        due_s = self._due_s[1]
        # Without a lease there is nothing to renew.
        if has_led and (not self._is_kept or due_s > self.leads_until_s - ROUNDING_S):
            return
        if self.now_s > due_s + ROUNDING_S:
            self._differ(f"sends nothing at {due_s:.3f} s")

    def _wait_to_renew(self) -> None:
        left_s = max(WAIT_S_MIN, self.leads_until_s - self.now_s)
        due_s = self.now_s + min(self._election.retry_period_s, left_s)
        self._due_s = due_s, due_s

    def _wait_for_turn(self) -> None:
        retry_s, now_s = self._election.retry_period_s, self.now_s
        least_s, most_s = retry_s, retry_s * (1 + JITTER)
        duration_s = (self._spec or {}).get("leaseDurationSeconds") or 0
        if (left_s := self._seen_at_s + duration_s - now_s) > 0:
            least_s, most_s = min(least_s, left_s), min(most_s, left_s + EXPIRY_JITTER_S)
        self._due_s = now_s + least_s, now_s + most_s

    # -- requests ---------------------------------------------------------------------------------

    def sent(self, request: Request) -> None:
        """Compares a request."""
        self._is_open = True
        path = f"{self._path}/{self._election.resource_name}" if request.method != "POST" else None
        real = request.path, request.pool, request.deadline_s, dict(request.headers)
        headers = {"content-type": "application/json", "accept": "application/json"}
        deadline_s = self._election.renew_deadline_s / 2
        if real != (path or self._path, Pool.LEASE, deadline_s, headers):
            self._differ(f"sends {request.method} {real}")
        self._method = request.method
        if request.method == "GET" and not self.is_releasing:
            self.slow_count += self.leads if self._is_named else self.is_leading()
        if not self._is_named:
            return
        if self.is_releasing and request.method == "GET":
            return
        if request.method == "GET":
            self._begin()
        elif request.method != "PUT" or not self._next_is_put:
            self._differ(f"sends {request.method}, which is not its turn")
        else:
            self._compare_written(msgspec.json.decode(request.body))
        self._next_is_put = False

    def _begin(self) -> None:
        now_s, due_s = self.now_s, self._due_s
        if self._next_is_put:
            self._differ("reads, and does not write")
        if self.term:
            self._differ(f"tries although its term is {self.term}")
        if due_s is not None and not due_s[0] - ROUNDING_S <= now_s <= due_s[1] + ROUNDING_S:
            self._differ(f"reads at {now_s:.3f} s, not between {due_s[0]:.3f} and {due_s[1]:.3f} s")
        self._started_s = now_s

    def _compare_written(self, real: dict[str, Any]) -> None:
        before = self._read["spec"]
        now = self._clock.wall_s()
        expected = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self._election.lease_duration_s),
            "leaseTransitions": before.get("leaseTransitions") or 0,
            "renewTime": now,
            "acquireTime": _seconds(before.get("acquireTime")),
        }
        if "strategy" in before:
            expected["strategy"] = before["strategy"]
        if self.is_releasing:
            expected |= {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now}
            expected.pop("strategy", None)
        self._written = real["spec"]
        spec = dict(real["spec"])
        for name in ("renewTime", "acquireTime"):
            spec[name] = _seconds(spec.get(name))
            if spec[name] is not None and abs(spec[name] - (expected[name] or 0.0)) < ROUNDING_S:
                spec[name] = expected[name]
        if spec != expected or real["metadata"] != self._read["metadata"]:
            self._differ(f"writes {spec} of {real['metadata']}, not {expected}")

    # -- answers ----------------------------------------------------------------------------------

    def answered(self, response: Response | None) -> None:
        """Follows the answer to the last request; None = there is none."""
        status = 0 if response is None else response.status
        self._is_open = False
        if self.is_stopped and not self.is_releasing:
            return
        if self._is_named and not self.is_releasing:
            if response is not None and status < 300:
                self._accepted(msgspec.json.decode(response.body))
            else:
                if status != 404 or self._method != "GET":
                    self.failed_at_s = self.now_s
                self._end(is_ours=False)
        elif response is not None and status < 300:
            self._observe(msgspec.json.decode(response.body))
            self._next_is_put = self._method == "GET" and self.holder == self.identity

    def _accepted(self, lease: dict[str, Any]) -> None:
        self._observe(lease)
        if self._method == "PUT":
            self.leads_until_s = self._started_s + self._election.renew_deadline_s
            self.renewed_at_s = self._started_s
            self._end(is_ours=True)
            return
        spec = lease["spec"]
        expires_s = self._seen_at_s + (spec.get("leaseDurationSeconds") or 0)
        is_ours = spec.get("holderIdentity") == self.identity and expires_s >= self._started_s
        if is_ours and spec.get("preferredHolder"):
            self.term = "over" if self.leads else ""
        self._next_is_put = is_ours and not spec.get("preferredHolder")
        if not self._next_is_put:
            self._end(is_ours=False)

    def _observe(self, lease: dict[str, Any]) -> None:
        if lease["spec"] != self._spec:
            self._seen_at_s = self.now_s
        self._read, self._spec = lease, lease["spec"]
        holder = self._spec.get("holderIdentity") or ""
        if holder not in (self.holder, ""):
            self.leaders.append(holder)
        self.holder = holder

    def _end(self, *, is_ours: bool) -> None:
        """Ends a try."""
        self._next_is_put = False
        if self.leads_until_s == -math.inf:
            self._wait_for_turn()
        elif not self.term:
            if not is_ours and (not self.leads or self.holder != self.identity):
                self.term = "lost"
            self._wait_to_renew()
        if is_ours and self.renewed_at_s == self._started_s and self._due_s is None:
            self._wait_to_renew()

    def _differ(self, message: str) -> None:
        self.problems.append(f"{self.identity} {message}")


def _seconds(text: str | None) -> float | None:
    return datetime.fromisoformat(text).timestamp() if text else None
