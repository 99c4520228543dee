"""The LeaseCandidate of coordinated leader election: pings, failing writes, and a watch that lags.

The informer is a dict. The model says when the candidate is written, and what: at once when it is
known whether it exists, after five minutes, at an unanswered ping, and after a failure with a
backoff.
"""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mooring.client import ObjectChange
from mooring.client.lease_candidate import KIND, Candidate, CandidateIdentity
from mooring.clock import rfc3339_micro, seeded_random
from mooring.errors import Conflict, OutcomeUnknown, TooManyRequests, Unreachable
from mooring.objects.codec.decode import decode
from mooring.objects.meta import LeaseCandidate
from mooring.virtual_loop import LoopClock, VirtualLoop
from tests.faults.parts.virtual_runs import check_run

ACTIONS: Final = 40
RENEWED_S: Final = 300.0
#: The first wait after a failure is at least so long, and at most that with its jitter; no later
#: one is longer than the longest with its jitter.
RETRY_S: Final = 0.2
RETRY_S_MAX: Final = 30.0
ROUNDING_S: Final = 1e-6
NAME: Final = "kube-system/host_1"
PATH: Final = "/apis/coordination.k8s.io/v1beta1/namespaces/kube-system/leasecandidates"
UNSYNCED: Final = "1 informers not started yet: [*v1beta1.LeaseCandidate]"
SPEC: Final = {
    "leaseName": "kube-scheduler",
    "binaryVersion": "1.36.3",
    "emulationVersion": "1.36.0",
    "strategy": "OldestEmulationVersion",
}
ERRORS: Final = (
    Unreachable("refused"),
    OutcomeUnknown("no response"),
    Conflict("changed", status=409),
    TooManyRequests("busy", status=429),
)


class CandidateRun:
    """One run.

    Attributes:
        problems: Differences to the model.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = rng = seeded_random(seed)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self._clock = LoopClock(loop)
        self._failing, self._lag_s = rng.choice((0.0, 0.3, 0.8)), rng.choice((0.0, 1.0, 20.0))
        self._objects: dict[str, LeaseCandidate] = {}
        self._stored: LeaseCandidate | None = None
        self._is_synced = asyncio.Event()
        identity = CandidateIdentity("kube-system", "host_1", "kube-scheduler", "1.36.3", "1.36.0")
        client: Any = SimpleNamespace(write=self._write)
        real: Any = Candidate(client, identity, clock=self._clock, rng=seeded_random(seed + 1))
        self._candidate = real
        # It watches its own object alone.
        informer = real._informer
        watched = informer._path, informer._label_selector, informer._field_selector
        if watched != (PATH, "", "metadata.name=host_1") or informer.kind is not KIND:
            self.problems.append(f"watches {watched}")
        real._informer = SimpleNamespace(
            objects=self._objects,
            run=self._is_synced.wait,
            wait_until_synced=self._is_synced.wait,
            has_synced=False,
        )
        #: Between these the next write is sent, if nothing happens.
        self._due_s, self._due_until_s = math.inf, math.inf
        self._failures = self._versions = 0

    async def run(self) -> None:
        """Pings, and lets time pass."""
        rng = self._rng
        if rng.random() < 0.5:
            self._objects[NAME] = self._stored = self._new(renewTime=self._wall())
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(self._candidate.run())
            await asyncio.sleep(rng.choice((0.0, 3.0)))
            self._candidate._informer.has_synced = True
            self._due(0.0)
            self._is_synced.set()
            for _ in range(ACTIONS):
                await asyncio.sleep(rng.choice((0.0, 0.1, 2.0, 40.0, 299.0, 301.0)))
                self._check_late()
                if rng.random() < 0.6:
                    self._ping()
                if rng.random() < 0.1:
                    self._check_health()
            running.cancel()

    def _check_health(self) -> None:
        if self._candidate.check_synced() is not None:
            self.problems.append("is not synced")
        informer: Any = self._candidate._informer
        informer.has_synced = False
        if self._candidate.check_synced() != UNSYNCED:
            self.problems.append(f"is synced: {self._candidate.check_synced()}")
        informer.has_synced = True

    def _due(self, after_s: float, until_s: float | None = None) -> None:
        now_s = self._clock.monotonic_s()
        self._due_s = now_s + after_s
        self._due_until_s = now_s + (after_s if until_s is None else until_s)

    def _check_late(self) -> None:
        late_s = self._clock.monotonic_s() - self._due_until_s
        if late_s > ROUNDING_S:
            self.problems.append(f"a write is {late_s:.2f} s late")

    def _wall(self) -> str:
        return rfc3339_micro(self._clock.wall_s())

    def _new(self, **spec: str) -> LeaseCandidate:
        document = {"metadata": {"name": "host_1", "namespace": "kube-system"}, "spec": SPEC | spec}
        candidate: LeaseCandidate = decode(msgspec.json.encode(document), KIND)
        return candidate

    # -- the server -------------------------------------------------------------------------------

    def _ping(self) -> None:
        """Asks whether the candidate lives; the server's clock is up to a second off."""
        if self._stored is not None:
            at_s = self._clock.wall_s() + self._rng.choice((-400.0, -1.0, 0.0, 1.0))
            spec = replace(self._stored.spec, ping_time=rfc3339_micro(at_s))
            self._store(replace(self._stored, spec=spec))

    def _store(self, new: LeaseCandidate) -> None:
        self._versions += 1
        metadata = replace(new.metadata, resource_version=str(self._versions), uid="1-2")
        new = self._stored = replace(new, metadata=metadata)
        loop = asyncio.get_running_loop()
        loop.call_later(self._rng.random() * self._lag_s, self._report, new)

    def _report(self, new: LeaseCandidate) -> None:
        old = self._objects.get(NAME)
        self._objects[NAME] = new
        is_unanswered = (new.spec.ping_time or "") > (new.spec.renew_time or "")
        if old is not None and is_unanswered:
            self._due(0.0)
        self._candidate._on_change(ObjectChange(old, new))

    async def _write(self, method: str, path: str, body: bytes, **_: Any) -> bytes:
        now_s = self._clock.monotonic_s()
        if now_s < self._due_s - ROUNDING_S:
            self.problems.append(f"a write is {self._due_s - now_s:.2f} s too early")
        self._check_late()
        self._check_body(method, path, body)
        self._due_s = self._due_until_s = math.inf
        if self._rng.random() < self._failing:
            self._failures += 1
            longest_s = min(RETRY_S * 2 ** (self._failures - 1), RETRY_S_MAX)
            self._due(RETRY_S, 2 * longest_s)
            raise self._rng.choice(ERRORS)
        self._due(RENEWED_S)
        self._store(decode(body, KIND))
        return body

    def _check_body(self, method: str, path: str, body: bytes) -> None:
        current, now = self._objects.get(NAME), self._wall()
        expected = "POST", PATH
        spec = SPEC | {"renewTime": now}
        if current is not None:
            expected = "PUT", f"{PATH}/host_1"
            spec["renewTime"] = max(now, current.spec.ping_time or "")
            spec |= {"pingTime": current.spec.ping_time} if current.spec.ping_time else {}
        metadata = {"name": "host_1", "namespace": "kube-system"}
        if current is not None and current.metadata.resource_version:
            metadata |= {"uid": "1-2", "resourceVersion": current.metadata.resource_version}
        kind = {"apiVersion": "coordination.k8s.io/v1beta1", "kind": "LeaseCandidate"}
        real, document = msgspec.json.decode(body), kind | {"metadata": metadata, "spec": spec}
        if (method, path) != expected or real != document:
            self.problems.append(f"{method} {path} {real}, not {expected} {document}")


def run_candidate(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: the candidate is written at another time, or with another content.
    """
    check_run(CandidateRun, seed)
