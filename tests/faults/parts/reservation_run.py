"""The reservation of a claim for a pod, over requests that fail in every way.

Others change the claim before any request: the last leader allocates it, with the pod among its
users or not, it is freed, deleted, and made anew. What counts as reserved has these devices and
the pod, by what was answered last. A failure has a reason that was seen, its text names the request
that has failed, and no request of it is stored later, nor was one just before. The wait before each
request is that of ``claim_waits.py``.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from mooring.clock import Rng, seeded_random
from mooring.errors import (
    ApiError,
    Conflict,
    Forbidden,
    LeaseLost,
    NotFound,
    OutcomeUnknown,
    SchedulerError,
    ServerError,
    Unreachable,
)
from mooring.objects.meta import ObjectMeta
from mooring.objects.resource import (
    FINALIZER,
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
    devices_in,
)
from mooring.scheduler.resource_claims.reservation import Reservation
from mooring.state import PodInfo
from mooring.testing import make_pod
from mooring.virtual_loop import LoopClock
from tests.faults.parts.claim_texts import requests_after_the_end, text_problem
from tests.faults.parts.claim_waits import reservation_waits
from tests.faults.parts.virtual_runs import check_run

TRIALS: Final = 60
KEY: Final = "default/c"
PATH: Final = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c"
OTHER: Final = "other-uid"
#: The device of the reservation.
OURS: Final = "ours"
#: A request without an answer may arrive so long after it was sent; one that was sent so short
#: before a failure, and is stored, must have been seen.
ARRIVES_S: Final = 120.0
SEEN_S: Final = 115.0
CONFLICTS_MAX: Final = 5
#: In so many trials the first writes meet so many conflicts, then no answer, and then none of both.
CONFLICT: Final = 409
SCRIPTED_SHARE: Final = 0.2
SCRIPTED_CONFLICTS: Final = (0, 3, 4, 4)
SCRIPTED_LATE_S: Final = (0.0, 0.3, 0.6, 1.0)
GONE, ELSEWHERE, FREED = "got deleted", "got allocated elsewhere", "got deallocated elsewhere"


class Answer(NamedTuple):
    """The answer to a request; ``status`` is 0 if there was none."""

    request: Any
    status: int
    body: bytes


class OneClaim:
    """Stores one claim, which others change; fails requests at random.

    Attributes:
        claim: The stored claim; None = there is none.
        answers: To the requests.
        last: The claim in the last answer that had one; None = it does not exist.
        times: When each request was sent, and answered.
        ours_s: When our reservation that was stored last was sent.
        problems: Requests that must not be sent.
    """

    def __init__(
        self, rng: Rng, claim: ResourceClaim, pod: PodInfo, script: Sequence[float]
    ) -> None:
        self.claim: ResourceClaim | None = claim
        self.answers: list[Answer] = []
        self.times: list[tuple[float, float]] = []
        self._begun_s = 0.0
        self.last: ResourceClaim | None = claim
        self.problems: list[str] = []
        self.ours_s = -math.inf
        self._rng, self._pod, self._count = rng, pod, 10
        #: What the next writes meet: a conflict (409), or no answer and so many seconds on the way.
        self._script, self._is_scripted = list(script), bool(script)
        self._errors = rng.choice(
            ((409,), (0, 409), (0,), (500, 409), (-1, 409), (-1, 0, 409, 403, 500))
        )
        self._failing = rng.choice((0.0, 0.3, 0.8))
        self._changing = rng.choice((0.0, 0.2, 0.6))

    # -- requests ---------------------------------------------------------------------------------

    async def get(self, kind: str, name: str, namespace: str) -> ResourceClaim:
        """Reads the claim."""
        if (kind, name, namespace) != ("ResourceClaim", "c", "default"):
            self.problems.append(f"{kind} {namespace}/{name} is read")
        error = await self._fails("GET", "")
        if error is not None:
            raise error
        self.last = self.claim
        if self.claim is None:
            raise self._answered("GET", "", NotFound("", status=404, server_message="not there"))
        return self._sends("GET", "", self.claim)

    async def replace(
        self, claim: ResourceClaim, *, subresource: str, on_send: Callable[[], None]
    ) -> ResourceClaim:
        """Writes the claim, or its status, if the version is the newest one."""
        on_send()
        sent_s = asyncio.get_running_loop().time()
        self._check(claim, subresource)
        if self._script:
            scripted = await self._scripted(subresource)
            late_s = self._script.pop(0)
            if isinstance(scripted, OutcomeUnknown):
                asyncio.get_running_loop().call_later(
                    late_s, self._store_of, claim, subresource, sent_s
                )
            raise scripted
        error = await self._fails("PUT", subresource)
        if isinstance(error, OutcomeUnknown) and self._rng.random() < 0.7:
            late_s = self._rng.choice((0.0, 0.0, 1.0, 60.0)) if error.__cause__ is None else 0.0
            asyncio.get_running_loop().call_later(
                late_s, self._store_of, claim, subresource, sent_s
            )
        if error is not None:
            raise error
        if not self._store_of(claim, subresource, sent_s):
            what = NotFound if self.claim is None else Conflict
            status = 404 if self.claim is None else 409
            error = what("", status=status, server_message="changed")
            raise self._answered("PUT", subresource, error)
        assert self.claim is not None
        self.last = self.claim
        return self._sends("PUT", subresource, self.claim)

    async def _scripted(self, subresource: str) -> SchedulerError:
        """Takes a while; returns the next error of the script."""
        self._begun_s = asyncio.get_running_loop().time()
        await asyncio.sleep(self._rng.random())
        if self._script[0] < CONFLICT:
            return self._answered("PUT", subresource, OutcomeUnknown("no response"))
        self._store()
        conflict = Conflict("", status=409, server_message="changed")
        return self._answered("PUT", subresource, conflict)

    async def _fails(self, method: str, subresource: str) -> SchedulerError | None:
        """Takes a while, in which others may change the claim; returns an error, or None."""
        rng = self._rng
        self._begun_s = asyncio.get_running_loop().time()
        await asyncio.sleep(rng.random())
        if self._is_scripted:
            return None
        if rng.random() < self._changing:
            self._change()
        if rng.random() >= self._failing:
            return None
        status = rng.choice(self._errors)
        if status == 409 and method == "GET":
            return None
        error: SchedulerError
        if status == 409:
            self._store()
            error = Conflict("", status=409, server_message="changed")
        elif status == 403:
            error = Forbidden("", status=403, server_message="no right")
        elif status == 500 and method == "GET":
            error = ServerError("", status=500, server_message="broken")
        elif status == 500:
            error = OutcomeUnknown("not known")
            error.__cause__ = ServerError("", status=500, server_message="broken")
        elif status == 0 and method == "PUT":
            error = OutcomeUnknown("no response")
        else:
            error = Unreachable("refused")
        return self._answered(method, subresource, error)

    def _answered(self, method: str, subresource: str, error: SchedulerError) -> SchedulerError:
        """Notes an error as an answer."""
        cause = error.__cause__ if isinstance(error.__cause__, ApiError) else error
        status = cause.status if isinstance(cause, ApiError) else 0
        text = cause.server_message if isinstance(cause, ApiError) else ""
        self._note(method, subresource, status or 0, {"message": text})
        return error

    def _sends(self, method: str, subresource: str, claim: ResourceClaim) -> ResourceClaim:
        self._note(method, subresource, 200, {})
        return claim

    def _note(self, method: str, subresource: str, status: int, body: Any) -> None:
        path = f"{PATH}/{subresource}" if subresource else PATH
        request = SimpleNamespace(method=method, path=path)
        self.times.append((self._begun_s, asyncio.get_running_loop().time()))
        self.answers.append(Answer(request, status, json.dumps(body).encode()))

    def _check(self, claim: ResourceClaim, subresource: str) -> None:
        """Checks a write: it adds the finalizer, or the pod, to what was seen last."""
        latest = self.last
        if latest is None:
            self.problems.append("a claim is written that does not exist")
            return
        finalizers = latest.metadata.finalizers
        if not subresource:
            metadata = replace(latest.metadata, finalizers=(*finalizers, FINALIZER))
            if claim != replace(latest, metadata=metadata) or FINALIZER in finalizers:
                self.problems.append(f"{claim} is written, and {latest} was seen")
            return
        users = [user.uid for user in claim.status.reserved_for]
        expected = [*(user.uid for user in latest.status.reserved_for), self._pod.uid]
        if users != expected or claim.metadata != latest.metadata or claim.spec != latest.spec:
            self.problems.append(f"{claim} is written for {users}, not for {expected}")
        if _device(claim) != OURS or _device(latest) not in ("", OURS):
            self.problems.append(f"{_device(claim)} is written, and {_device(latest)} was seen")
        if FINALIZER not in claim.metadata.finalizers:
            self.problems.append("a claim is allocated without a finalizer")

    # -- the store --------------------------------------------------------------------------------

    def _store_of(self, claim: ResourceClaim, subresource: str, sent_s: float) -> bool:
        """Stores a write of ours; returns False if the claim was changed."""
        stored = self.claim
        if stored is None or claim.metadata.uid != stored.metadata.uid:
            return False
        if claim.metadata.resource_version != stored.metadata.resource_version:
            return False
        if subresource:
            self.ours_s = sent_s
        self._store(claim=claim)
        return True

    def _store(self, claim: ResourceClaim | None = None) -> None:
        """Stores a claim, by default as it is, in a new version."""
        claim = claim or self.claim
        if claim is not None:
            self._count += 1
            version = str(self._count)
            metadata = replace(claim.metadata, resource_version=version)
            self.claim = replace(claim, metadata=metadata)

    def _change(self) -> None:
        """Lets others change the claim: all that they may do to it."""
        rng, claim = self._rng, self.claim
        what = rng.choice(("touch", "touch", "leader", "free", "terminate", "delete", "create"))
        if what == "delete":
            self.claim = None
            return
        if claim is None or what == "create":
            self._count += 1
            claim = claim_of(f"c-{self._count}", None, ())
            what = rng.choice(("touch", "leader", "leader"))
        if what == "leader" and claim.status.allocation is None:
            users = rng.choice(((), (self._pod.uid,), (OTHER,), (self._pod.uid, OTHER)))
            claim = claim_of(claim.metadata.uid, rng.choice((OURS, "others")), users)
        elif what == "free":
            claim = claim_of(claim.metadata.uid, None, ())
        elif what == "terminate" and claim.metadata.finalizers:
            deleted = {"deletion_timestamp": "2026-01-01T00:00:00Z"}
            claim = replace(claim, metadata=replace(claim.metadata, **deleted))
        self._store(claim)


def _device(claim: ResourceClaim) -> str:
    """Returns the device that a claim has; "" = none."""
    allocation = claim.status.allocation
    return "" if allocation is None else "".join(it.device for it in allocation.devices.results)


def allocation_of(device: str | None) -> AllocationResult | None:
    """Returns an allocation of one device; None = none."""
    if device is None:
        return None
    result = DeviceRequestAllocationResult(request="r", driver="d", pool="p", device=device)
    return AllocationResult(devices=DeviceAllocationResult(results=(result,)))


def claim_of(uid: str, device: str | None, users: tuple[str, ...]) -> ResourceClaim:
    """Returns a claim."""
    finalizers = (FINALIZER,) if device else ()
    metadata = ObjectMeta(
        name="c", namespace="default", uid=uid, resource_version="1", finalizers=finalizers
    )
    references = tuple(
        ResourceClaimConsumerReference(resource="pods", name=it, uid=it) for it in users
    )
    status = ResourceClaimStatus(allocation=allocation_of(device), reserved_for=references)
    return replace(ResourceClaim(metadata=metadata), status=status)


class ReservationRun:
    """One run.

    Attributes:
        problems: What is wrong.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng, self._scripts = seeded_random(seed), Random(f"{seed} scripts")
        self._clock = LoopClock(asyncio.get_running_loop())
        self._pod = PodInfo(make_pod("web", uid="pod-uid"))

    async def run(self) -> None:
        """Makes all trials, until one differs."""
        for _ in range(TRIALS):
            await self._trial()
            if self.problems:
                return

    async def _trial(self) -> None:
        """Reserves a claim once, which is allocated already or not."""
        is_new = self._rng.random() < 0.6
        claim = claim_of("c-1", None if is_new else OURS, () if is_new else (OTHER,))
        allocation = allocation_of(OURS) if is_new else None
        server = OneClaim(self._rng, claim, self._pod, self._script())
        devices = devices_in(allocation_of(OURS))
        client: Any = server
        reservation = Reservation(
            client, claim, allocation, self._pod, self._clock, devices=devices
        )
        try:
            stored = await reservation.write_until_known(self._rng, asyncio.sleep)
        except LeaseLost:
            self.problems.append("the lease is lost")
        except SchedulerError as error:
            what = f"it fails with {str(error)!r}, but"
            self._check_failure(server, claim, what, str(error), is_new=is_new)
            before_s, failed_s = server.ours_s, self._now_s()
            await asyncio.sleep(ARRIVES_S)
            is_later = before_s < server.ours_s and server.ours_s > failed_s - SEEN_S
            if is_later and self._is_reserved(server.claim):
                self.problems.append(f"{what} it is reserved later")
        else:
            if stored is not server.last or not self._is_reserved(stored):
                self.problems.append(f"it ends with {stored}, but {server.last} was seen last")
        self.problems += [*server.problems, *reservation_waits(server.answers, server.times)]

    def _script(self) -> list[float]:
        """Returns what the first writes of a trial meet; mostly nothing that is certain."""
        rng = self._scripts
        if rng.random() >= SCRIPTED_SHARE:
            return []
        late_s = [rng.choice(SCRIPTED_LATE_S) for _ in range(rng.choice((1, 1, 2)))]
        return [float(CONFLICT)] * rng.choice(SCRIPTED_CONFLICTS) + late_s

    def _now_s(self) -> float:
        return self._clock.monotonic_s()

    def _is_reserved(self, claim: ResourceClaim | None) -> bool:
        """Returns whether a claim is the first one, with our devices and the pod."""
        if claim is None or claim.metadata.uid != "c-1":
            return False
        is_user = any(user.uid == self._pod.uid for user in claim.status.reserved_for)
        return is_user and _device(claim) == OURS

    def _check_failure(
        self, server: OneClaim, claim: ResourceClaim, what: str, text: str, *, is_new: bool
    ) -> None:
        """Checks the reason of a failure, by what was seen last."""
        latest = server.last
        if self._is_reserved(latest) and server.answers[-1].status == 200:
            self.problems.append(f"{what} it was seen to be reserved")
        elif server.ours_s > self._now_s() - SEEN_S and self._is_reserved(server.claim):
            self.problems.append(f"{what} it is reserved")
        uid = claim.metadata.uid
        is_gone = latest is None or latest.metadata.uid != uid
        is_deleted = is_gone or (latest is not None and bool(latest.metadata.deletion_timestamp))
        device = "" if latest is None else _device(latest)
        reasons = {
            GONE: is_deleted,
            ELSEWHERE: is_new and bool(device),
            FREED: not is_new and device != OURS,
        }
        for part, is_so in reasons.items():
            if part in text and not is_so:
                self.problems.append(f"{what} {latest} was seen last")
        conflicts = sum(answer.status == 409 for answer in server.answers)
        if server.answers[-1].status == 409 and conflicts < CONFLICTS_MAX:
            self.problems.append(f"{what} there were {conflicts} conflicts")
        if requests_after_the_end(server.answers) > 0:
            self.problems.append(f"{what} requests follow a read that shows that it is gone")
        if problem := text_problem(text, KEY, server.answers, is_allocated=is_new):
            self.problems.append(f"{what} {problem}")


def run_reservation(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a reservation ends in another state than it says, or without a reason.
    """
    check_run(ReservationRun, seed)
