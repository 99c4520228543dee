"""The removal of a pod from the users of a claim, over requests that fail in every way.

Other writers change the claim meanwhile, or make it anew, also with the pod as a user. What was
removed is stored so, each patch names the newest version that was seen, and a removal does not fail
before a read has shown what its last request that was refused with a conflict, or had no answer,
has stored; nor while that may still arrive.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from msgspec.structs import replace

from mooring.clock import Rng, seeded_random
from mooring.errors import LeaseLost, OutcomeUnknown, SchedulerError
from mooring.objects.meta import ObjectMeta
from mooring.objects.resource import ResourceClaim, ResourceClaimConsumerReference
from mooring.objects.resource import ResourceClaimStatus as Status
from mooring.scheduler.resource_claims.removal import Removal
from mooring.virtual_loop import LoopClock, VirtualLoop
from tests.faults.parts.claim_waits import Sent, removal_problems
from tests.faults.parts.errors_run import ERRORS
from tests.helpers.virtual_loop import run_virtually

TRIALS: Final = 20
UID: Final = "pod-uid"
OTHER: Final = "other-uid"
#: A claim that does not exist is drawn apart.
REFUSED: Final = tuple(name for name in ERRORS if name != "404")
#: A write that the server itself has failed.
FAILED: Final = OutcomeUnknown("not known")
FAILED.__cause__ = ERRORS["500"]
#: A request that has no answer may arrive so long after it was sent, at least.
ARRIVES_S: Final = 120.0


class UserServer:
    """Stores one claim; fails requests at random.

    Attributes:
        claim: The stored claim; None = it was deleted.
        problems: Requests that must not be sent.
        sent: The requests.
        unseen: Whether the effect of a patch is not known, since no read has followed it.
        unanswered_at_s: When the last patch without an answer was sent.
    """

    def __init__(self, rng: Rng, others: Rng, claim: ResourceClaim) -> None:
        self.claim: ResourceClaim | None = claim
        self.problems: list[str] = []
        self.sent: list[Sent] = []
        self.unseen = False
        self.unanswered_at_s = -math.inf
        self._rng, self._others = rng, others
        self._seen, self._is_seen_anew = claim.metadata.resource_version, False
        self._errors = rng.choice((("409",), ("no answer", "409"), ("500", "429"), REFUSED))
        self._read_errors = rng.choice(((), ("unreachable", "500", "no answer", "403")))
        self._failing = rng.choice((0.0, 0.3, 0.9))

    async def get(self, kind: str, name: str, namespace: str) -> ResourceClaim:
        """Reads the claim."""
        with self._noted("GET"):
            return await self._get(kind, name, namespace)

    @contextmanager
    def _noted(self, method: str) -> Iterator[None]:
        """Notes a request, its times and its error."""
        begun_s, error = asyncio.get_running_loop().time(), ""
        try:
            yield
        except SchedulerError as raised:
            error = next((name for name, it in ERRORS.items() if it is raised), "failed")
            raise
        finally:
            self.sent.append(Sent(method, begun_s, asyncio.get_running_loop().time(), error))

    async def _get(self, kind: str, name: str, namespace: str) -> ResourceClaim:
        await asyncio.sleep(self._rng.random())
        if self._read_errors and self._rng.random() < self._failing:
            raise ERRORS[self._rng.choice(self._read_errors)]
        self.unseen = False
        if self.claim is None:
            raise ERRORS["404"]
        self._seen = self.claim.metadata.resource_version
        self._is_seen_anew = self.claim.metadata.uid != "c-1"
        if (kind, name, namespace) != ("ResourceClaim", "c", "default"):
            self.problems.append(f"{kind} {namespace}/{name} is read")
        return self.claim

    async def patch(
        self, kind: str, name: str, body: Any, *, on_send: Callable[[], None], **_: Any
    ) -> ResourceClaim:
        """Removes a user, if the version is the newest one."""
        on_send()
        with self._noted("PATCH"):
            return await self._patch(kind, name, body)

    async def _patch(self, kind: str, name: str, body: Any) -> ResourceClaim:
        rng = self._rng
        sent_at_s = asyncio.get_running_loop().time()
        version = body["metadata"]["resourceVersion"]
        if version != self._seen:
            self.problems.append(f"{kind} {name} is patched in version {version}, not {self._seen}")
        await asyncio.sleep(rng.random())
        if rng.random() < 0.2:
            self._change()
        error = rng.choice(self._errors) if rng.random() < self._failing else ""
        if error == "409":
            self._change()
        is_stored = error in ("", "no answer") and rng.random() < (0.5 if error else 1.0)
        if error == "500":
            # The server's own failure of a write: it may have stored it, and nothing arrives later.
            self.unseen, is_stored = self.claim is not None, self._others.random() < 0.5
        if error == "no answer":
            self.unseen, self.unanswered_at_s = True, sent_at_s
        if self.claim is None:
            raise ERRORS[error if error == "no answer" else "404"]
        if self._is_seen_anew:
            raise AssertionError("a user is removed from another claim of the name")
        is_stored = is_stored and self.claim.metadata.uid == body["metadata"]["uid"]
        if is_stored and version == self.claim.metadata.resource_version:
            self._store([it for it in _users(self.claim) if it != UID])
        elif not error:
            error = "409"
        if error:
            self.unseen = self.unseen or error in ("409", "exists")
            raise FAILED if error == "500" else ERRORS[error]
        self._seen = self.claim.metadata.resource_version
        return self.claim

    def _change(self) -> None:
        """Deletes the claim, removes a user, or changes nothing of them."""
        if self.claim is None:
            return
        draw = self._rng.random()
        if draw < 0.1:
            version, users = int(self.claim.metadata.resource_version) + 1, [OTHER]
            users += [UID] * (self._others.random() < 0.7)
            is_made_anew = self._others.random() < 0.5
            self.claim = claim_of(version, users, uid="c-2") if is_made_anew else None
        elif draw < 0.3:
            self._store([it for it in _users(self.claim) if it != UID])
        else:
            self._store(_users(self.claim))

    def _store(self, users: list[str]) -> None:
        assert self.claim is not None
        metadata = self.claim.metadata
        self.claim = claim_of(int(metadata.resource_version) + 1, users, uid=metadata.uid)


def _users(claim: ResourceClaim) -> list[str]:
    return [user.uid for user in claim.status.reserved_for]


def claim_of(version: int, users: list[str], *, uid: str = "c-1") -> ResourceClaim:
    """Returns the claim in a version."""
    metadata = ObjectMeta(name="c", namespace="default", uid=uid, resource_version=str(version))
    references = tuple(
        ResourceClaimConsumerReference(resource="pods", name=uid, uid=uid) for uid in users
    )
    return replace(ResourceClaim(metadata=metadata), status=Status(reserved_for=references))


async def _remove(rng: Rng, others: Rng, clock: LoopClock) -> str:
    """Removes the pod once; returns what is wrong."""
    server = UserServer(rng, others, claim_of(1, [UID, OTHER]))
    problem = await _end_of(server, rng, clock)
    return problem or next(removal_problems(server.sent), "")


async def _end_of(server: UserServer, rng: Rng, clock: LoopClock) -> str:
    """Removes the pod once; returns what is wrong with the end."""
    claim = server.claim
    assert claim is not None
    client: Any = server
    removal = Removal(client, claim, UID, clock)
    try:
        stored = await removal.write_until_known(rng, asyncio.sleep)
    except LeaseLost:
        return next(iter(server.problems), "")
    except SchedulerError as error:
        may_arrive = asyncio.get_running_loop().time() < server.unanswered_at_s + ARRIVES_S
        if server.unseen or may_arrive:
            return f"it fails with {error}, but what its last patch has stored is not known"
    else:
        if stored is not None and UID in _users(stored):
            return "it ends with the pod as a user"
        left: ResourceClaim | None = server.claim
        if left is not None and left.metadata.uid == "c-1" and UID in _users(left):
            return "it ends, but the pod is a user"
    return next(iter(server.problems), "")


def run_removal(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a removal ends too early, or in another state than it says.
    """

    async def run() -> list[str]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        rng, others = seeded_random(seed), seeded_random(seed + 2_000_000)
        clock = LoopClock(loop)
        problems = [await _remove(rng, others, clock) for _ in range(TRIALS)]
        return [problem for problem in problems if problem]

    problems = run_virtually(run(), seeded_random(seed + 1_000_000))
    assert not problems, problems[0]
