"""The writes of claims besides reservations, each answered with drawn errors.

A claim for extended resources is created, observed, recorded in the status of its pod, and deleted
again; PostFilter deallocates or deletes another pod's. The model says which requests follow an
error, with which content, and how the write ends. At the end the claim is reserved: whether its
allocation has a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from types import SimpleNamespace
from typing import Any, Final

from msgspec.structs import replace

from mooring.clock import rfc3339, seeded_random
from mooring.errors import LeaseLost, SchedulerError
from mooring.framework.status import ClaimChange
from mooring.objects.meta import ObjectMeta
from mooring.objects.pod import ContainerExtendedResourceRequest
from mooring.objects.resource import (
    FINALIZER,
    AllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
)
from mooring.scheduler.resource_claims.claim_writer import ClaimWriter
from mooring.scheduler.resource_claims.reservation import ClaimWriteFailed
from mooring.state import PodInfo
from mooring.state.devices.claims import ClaimNotFound
from mooring.testing import make_pod
from mooring.virtual_loop import LoopClock, VirtualLoop
from tests.faults.parts.errors_run import ERRORS, TRANSIENT
from tests.faults.parts.virtual_runs import check_run

TRIALS: Final = 40
CONFLICTS: Final = ("409", "exists")
#: The most tries of a write that is repeated after a conflict, and of a patch of a pod's status.
CONFLICT_TRIES: Final = 5
STATUS_TRIES: Final = 4
OBSERVED_WITHIN_S: Final = 120
OTHER_FINALIZER: Final = "example.com/other"


class Server:
    """The client of the writer: it raises what is planned, and notes all requests.

    Attributes:
        planned: The errors of the next requests; "" or no more = none.
        sent: The requests: a word, and the object.
        version: That of the stored claim.
    """

    def __init__(self, claim: ResourceClaim) -> None:
        self.planned: list[str] = []
        self.sent: list[tuple[str, Any]] = []
        self.version = 1
        self._claim = claim

    def _send(self, word: str, what: Any = None) -> None:
        self.sent.append((word, what))
        name = self.planned.pop(0) if self.planned else ""
        if name:
            self.version += name in CONFLICTS
            raise ERRORS[name]

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Creates a claim."""
        self._send("create", claim)
        return replace(claim, metadata=replace(claim.metadata, name="made", uid="made"))

    async def replace(
        self,
        claim: ResourceClaim,
        *,
        subresource: str = "",
        on_send: Callable[[], None] | None = None,
    ) -> ResourceClaim:
        """Replaces a claim."""
        if on_send is not None:
            on_send()
        self._send(f"replace {subresource}".strip(), claim)
        return claim

    async def get(self, kind: str, name: str, namespace: str) -> ResourceClaim:
        """Reads the claim."""
        self._send("get", (kind, name, namespace))
        return versioned(self._claim, self.version)

    async def delete(self, kind: str, name: str, namespace: str) -> None:
        """Deletes the claim."""
        self._send("delete", (kind, name, namespace))

    async def patch_pod_status(self, pod: Any, status: Any) -> Any:
        """Patches the status of a pod."""
        self._send("status", status)
        return pod


def versioned(claim: ResourceClaim, version: int) -> ResourceClaim:
    """Returns a claim in a version."""
    return replace(claim, metadata=replace(claim.metadata, resource_version=str(version)))


class ClaimErrorsRun:
    """One run.

    Attributes:
        problems: Differences to the model.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = seeded_random(seed)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self._loop = loop
        metadata = ObjectMeta(
            name="c",
            namespace="default",
            uid="c-1",
            resource_version="1",
            generate_name="web-extended-",
            finalizers=self._rng.choice(
                ((FINALIZER,), (FINALIZER, OTHER_FINALIZER), (OTHER_FINALIZER,), ())
            ),
        )
        status = ResourceClaimStatus(allocation=AllocationResult())
        self._claim = ResourceClaim(metadata=metadata, status=status)
        self._counted: list[bool] = []
        #: The claim is in the cache after so many looks; the claims that were stored there.
        self._looks, self._assumed = 0, list[ResourceClaim]()
        self._server = Server(self._claim)
        claims = SimpleNamespace(assume=self._assume, get=lambda _: None)
        self._has_time = Random(f"{seed} time").random() < 0.6
        features = SimpleNamespace(has_binding_conditions=self._has_time)
        devices: Any = SimpleNamespace(claims=claims, features=features)
        recorder: Any = SimpleNamespace(claim_created=self._count)
        client: Any = self._server
        self._writer = ClaimWriter(
            client,
            devices,
            clock=LoopClock(loop),
            rng=self._rng,
            sleep=asyncio.sleep,
            recorder=recorder,
        )

    def _count(self, *, succeeded: bool) -> None:
        self._counted.append(succeeded)

    def _assume(self, claim: ResourceClaim) -> None:
        self._looks -= 1
        if self._looks >= 0:
            raise ClaimNotFound("not observed yet")
        self._assumed.append(claim)

    async def run(self) -> None:
        """Makes all trials, until one differs."""
        for _ in range(TRIALS):
            trial: Callable[[], Awaitable[None]] = getattr(
                self, self._rng.choice(("_create", "_record", "_delete", "_apply", "_observe"))
            )
            self._server.sent, self._server.version = [], 1
            self._counted.clear()
            await trial()
            if self.problems:
                return
        await self._reserve()

    def _plan(self) -> list[str]:
        """Plans some errors: many conflicts, or any."""
        rng = self._rng
        names = rng.choice((CONFLICTS, TRANSIENT, (*CONFLICTS, *TRANSIENT), tuple(ERRORS)))
        planned = rng.choices(names, k=rng.choice((0, 1, 2, 3, 4, 5)))
        self._server.planned = list(planned)
        return planned

    def _compare(self, what: str, real: Any, expected: Any) -> None:
        if real != expected:
            self.problems.append(f"{what}: {real}, not {expected}")

    # -- one write --------------------------------------------------------------------------------

    async def _create(self) -> None:
        planned = self._plan()[:1]
        error = await _error(self._writer.create(self._claim))
        self._compare("a creation ends", _word(error), _failed(planned[0]) if planned else "")
        if _is_lost(planned):
            return
        self._compare("creations that are counted", self._counted, [not planned])
        metadata = replace(self._claim.metadata, name="", uid="", finalizers=())
        new = replace(self._claim, metadata=metadata, status=ResourceClaimStatus())
        self._compare("a creation", self._server.sent, [("create", new)])
        if planned:
            self._compare("the text", str(error).partition("/: ")[0], _CREATION)

    async def _record(self) -> None:
        """Writes the claim into the status of the pod: at most four tries."""
        planned, pod = self._plan(), PodInfo(make_pod("web"))
        mapping = ContainerExtendedResourceRequest(
            container_name="c", resource_name="gpu", request_name="r"
        )
        mappings = (mapping,) if self._rng.random() < 0.8 else ()
        error = await _error(self._writer.record(pod, self._claim, mappings))
        if not mappings:
            self._compare("a record without mappings", _word(error), "failed")
            self._compare("its requests", self._server.sent, [])
            return
        tries, last = _retried(planned, (*TRANSIENT, *CONFLICTS), STATUS_TRIES)
        self._compare(f"a record with {planned} ends", _word(error), _failed(last))
        names = {"containerName": "c", "resourceName": "gpu", "requestName": "r"}
        written = {"requestMappings": (names,), "resourceClaimName": "c"}
        status = {"extendedResourceClaimStatus": written}
        self._compare(f"a record with {planned}", self._server.sent, [("status", status)] * tries)

    async def _delete(self) -> None:
        """Deletes a claim in the background: first its finalizer, whatever has changed it."""
        planned = self._plan()
        self._writer.delete(self._claim)
        await self._end()
        requests, _ = self._deletion(planned)
        self._compare(f"a deletion with {planned}", self._words(), requests)

    async def _apply(self) -> None:
        """Applies what PostFilter asks for; a failure is reported once."""
        planned, failures = self._plan(), list[int]()
        is_deletion = self._rng.random() < 0.5
        change = ClaimChange(self._claim, is_deletion=is_deletion)
        self._writer.start(change, lambda: failures.append(1))
        await self._end()
        if is_deletion:
            requests, error = self._deletion(planned)
        else:
            requests, error = ["replace status 1"], planned[0] if planned else ""
            (_, claim), *_ = self._server.sent
            self._compare("deallocated", claim.status, ResourceClaimStatus())
        self._compare(f"a change with {planned}", self._words(), requests)
        self._compare(f"failures of {planned}", len(failures), int(bool(error)))

    async def _end(self) -> None:
        await asyncio.sleep(60.0)
        self._compare("open writes", len(self._writer), 0)

    def _deletion(self, planned: list[str]) -> tuple[list[str], str]:
        """Returns the requests of a deletion, and the error that ends it."""
        left, version = list(planned), 1
        requests: list[str] = []
        for number in range(CONFLICT_TRIES):
            words = ["replace"] if not number else ["get", "replace"]
            error = ""
            for word in words:
                requests.append(word if word == "get" else f"{word} {version}")
                error = left.pop(0) if left else ""
                version += error in CONFLICTS
                if error:
                    break
            if not error or error not in CONFLICTS:
                break
        if error:
            return requests, error
        return [*requests, "delete"], left[0] if left else ""

    def _words(self) -> list[str]:
        """Returns the requests; one with a claim has its version, and no finalizer of ours."""
        words = []
        for word, what in self._server.sent:
            if not isinstance(what, ResourceClaim):
                words.append(word)
                continue
            words.append(f"{word} {what.metadata.resource_version}")
            others = [it for it in self._claim.metadata.finalizers if it != FINALIZER]
            if word == "replace":
                self._compare("finalizers", list(what.metadata.finalizers), others)
        return words

    async def _reserve(self) -> None:
        """Reserves the claim with an allocation: its time is for binding conditions alone."""
        self._server.sent, self._server.planned, self._server.version = [], [], 1
        claim = replace(self._claim, status=ResourceClaimStatus())
        await self._writer.reserve(claim, PodInfo(make_pod("web")), AllocationResult())
        times = [
            what.status.allocation.allocation_timestamp
            for _, what in self._server.sent
            if isinstance(what, ResourceClaim) and what.status.allocation is not None
        ]
        now = rfc3339(LoopClock(self._loop).wall_s())
        self._compare("times of allocations", times, [now if self._has_time else None])

    async def _observe(self) -> None:
        """Stores a created claim as soon as the watch has it, for two minutes."""
        self._looks = looks = self._rng.choice((0, 1, 7, 119, 120, 130))
        self._assumed.clear()
        began_s = self._loop.time()
        await self._writer.observe(self._claim)
        is_stored = looks < OBSERVED_WITHIN_S
        self._compare(f"stored after {looks} s", self._assumed, [self._claim] * is_stored)
        waited_s = round(self._loop.time() - began_s, 3)
        self._compare("observed for", waited_s, float(min(looks, OBSERVED_WITHIN_S)))


_CREATION: Final = "create claim for extended resources default"


def _retried(planned: list[str], retried: tuple[str, ...], tries_max: int) -> tuple[int, str]:
    """Returns the number of tries, and the error of the last one."""
    for number in range(1, tries_max + 1):
        error = planned[number - 1] if number <= len(planned) else ""
        if error not in retried:
            return number, error
    return tries_max, error


def _is_lost(planned: list[str]) -> bool:
    return planned[:1] == ["lease"]


def _failed(error: str) -> str:
    return {"": "", "lease": "lost"}.get(error, "failed")


async def _error(work: Awaitable[Any]) -> SchedulerError | None:
    try:
        await work
    except SchedulerError as error:
        return error
    return None


def _word(error: SchedulerError | None) -> str:
    if error is None:
        return ""
    if isinstance(error, LeaseLost):
        return "lost"
    return "failed" if isinstance(error, ClaimWriteFailed) else repr(error)


def run_claim_errors(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a write of a claim differs from the model.
    """
    check_run(ClaimErrorsRun, seed)
