"""The LeaseCandidate: when it is written, on virtual time, against one object in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mooring.client import Client, Request
from mooring.client.lease_candidate import Candidacy, Candidate, CandidateIdentity
from mooring.client.transport.transport import ChunkedStream, Response, Stream
from mooring.clock import VirtualClock, seeded_random
from mooring.objects.codec.decode import decode
from mooring.objects.meta import LeaseCandidate
from mooring.virtual_loop import LoopClock
from tests.helpers.client_servers import answer, refusal
from tests.helpers.running_scheduler import virtually

COLLECTION = "/apis/coordination.k8s.io/v1beta1/namespaces/kube-system/leasecandidates"
NAME = "host_0b0b7c2e"
IDENTITY = CandidateIdentity("kube-system", NAME, "kube-scheduler", "1.36.3", "1.36.0")


# -- the decisions --------------------------------------------------------------------------------


def candidacy(clock: VirtualClock) -> Candidacy:
    return Candidacy(IDENTITY, clock=clock, rng=seeded_random(1))


def stored(**spec: str) -> LeaseCandidate:
    from mooring.client.lease_candidate import KIND

    document = {"metadata": {"name": NAME, "resourceVersion": "7"}, "spec": spec}
    candidate: LeaseCandidate = decode(json.dumps(document).encode(), KIND)
    return candidate


def test_nothing_is_written_before_the_object_is_known_to_exist_or_not() -> None:
    clock = VirtualClock()
    one = candidacy(clock)
    assert one.wait_s == float("inf")
    one.synced()
    assert one.wait_s == 0.0


def test_it_is_renewed_every_five_minutes() -> None:
    clock = VirtualClock()
    one = candidacy(clock)
    one.synced()
    one.written()
    assert one.wait_s == 300.0
    clock.advance(299)
    assert one.wait_s == 1.0


def test_a_ping_makes_a_renewal_due_and_an_answered_one_does_not() -> None:
    clock = VirtualClock()
    one = candidacy(clock)
    one.written()
    renewed = "2026-01-01T00:00:10.000000Z"
    one.observed(stored(renewTime=renewed))
    one.observed(stored(renewTime=renewed, pingTime="2026-01-01T00:00:09.999999Z"))
    one.observed(stored(renewTime=renewed, pingTime=renewed))
    assert one.wait_s == 300.0
    one.observed(stored(renewTime=renewed, pingTime="2026-01-01T00:00:10.000001Z"))
    assert one.wait_s == 0.0


def test_a_failed_write_is_retried_soon_and_then_less_often() -> None:
    clock = VirtualClock()
    one = candidacy(clock)
    one.synced()
    waits = []
    for _ in range(10):
        one.failed()
        waits.append(one.wait_s)
        clock.advance(one.wait_s)
    assert waits[0] <= 0.4
    assert 30.0 <= waits[-1] <= 60.0


def test_a_late_clock_still_answers_the_ping() -> None:
    one = candidacy(VirtualClock())
    current = stored(
        renewTime="2025-12-31T23:59:00.000000Z", pingTime="2026-01-01T00:00:05.000000Z"
    )
    renewed = one.next_version(current)
    assert renewed.spec.renew_time == current.spec.ping_time
    one.written()
    one.observed(renewed)
    assert one.wait_s == 300.0


# -- against a server -----------------------------------------------------------------------------


class CandidateServer:
    """Stores one candidate; its watch sends every version."""

    def __init__(self) -> None:
        self.candidate: dict[str, Any] | None = None
        self.writes: list[tuple[float, str, str]] = []
        self.queries: list[dict[str, str]] = []
        self.troubles: list[Response] = []
        self._version = 10
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()

    def store(self, candidate: dict[str, Any] | None) -> None:
        """Stores a version, or deletes the candidate, and sends the event."""
        event = "MODIFIED" if self.candidate is not None else "ADDED"
        if candidate is None:
            assert self.candidate is not None
            event, candidate, self.candidate = "DELETED", self.candidate, None
        else:
            self.candidate = candidate
        self._version += 1
        candidate["metadata"] |= {"resourceVersion": str(self._version), "uid": "1"}
        self._lines.put_nowait(_line(event, candidate))

    def ping(self, at: str) -> None:
        """Asks for an answer, as kube-apiserver's controller does."""
        candidate = json.loads(json.dumps(self.candidate))
        candidate["spec"]["pingTime"] = at
        self.store(candidate)

    async def request(self, request: Request) -> Response:
        now_s = asyncio.get_running_loop().time()
        self.writes.append((now_s, request.method, request.path))
        if self.troubles:
            return self.troubles.pop(0)
        candidate = json.loads(request.body)
        if request.method == "PUT":
            assert self.candidate is not None
            version = self.candidate["metadata"]["resourceVersion"]
            assert candidate["metadata"]["resourceVersion"] == version
        self.store(candidate)
        return answer(200, candidate)

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_s: float) -> AsyncIterator[Stream]:
        assert request.path == COLLECTION
        self.queries.append(dict(request.query))
        yield ChunkedStream(200, {}, self._events(), idle_s=1e9)

    async def _events(self) -> AsyncIterator[bytes]:
        metadata = {
            "resourceVersion": str(self._version),
            "annotations": {"k8s.io/initial-events-end": "true"},
        }
        yield _line("BOOKMARK", {"kind": "LeaseCandidate", "metadata": metadata})
        while True:
            yield await self._lines.get()

    async def close(self) -> None:
        """Has nothing to close."""


def _line(event: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": event, "object": obj}).encode() + b"\n"


@asynccontextmanager
async def running(server: CandidateServer) -> AsyncIterator[Candidate]:
    clock = LoopClock(asyncio.get_running_loop())
    client = Client(server, rng=seeded_random(1))
    candidate = Candidate(client, IDENTITY, clock=clock, rng=seeded_random(2))
    task = asyncio.create_task(candidate.run())
    yield candidate
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])


@virtually
async def test_the_candidate_is_created_with_its_versions() -> None:
    server = CandidateServer()
    async with running(server) as candidate:
        assert candidate.check_synced() is not None
        await asyncio.sleep(1)
        assert candidate.check_synced() is None
        assert server.candidate is not None
        assert server.candidate["metadata"]["name"] == NAME
        assert server.candidate["spec"] == {
            "leaseName": "kube-scheduler",
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "binaryVersion": "1.36.3",
            "emulationVersion": "1.36.0",
            "strategy": "OldestEmulationVersion",
        }
        assert server.writes == [(0.0, "POST", COLLECTION)]
        assert server.queries[0]["fieldSelector"] == f"metadata.name={NAME}"


@virtually
async def test_a_ping_is_answered_at_once_and_only_once() -> None:
    server = CandidateServer()
    async with running(server):
        await asyncio.sleep(50)
        server.ping("2026-01-01T00:00:50.000000Z")
        await asyncio.sleep(100)
        assert server.writes[1:] == [(50.0, "PUT", f"{COLLECTION}/{NAME}")]
        assert server.candidate is not None
        assert server.candidate["spec"]["renewTime"] == "2026-01-01T00:00:50.000000Z"
        assert server.candidate["spec"]["pingTime"] == "2026-01-01T00:00:50.000000Z"


@virtually
async def test_without_pings_it_is_renewed_every_five_minutes() -> None:
    server = CandidateServer()
    async with running(server):
        await asyncio.sleep(700)
        assert [at for at, _, _ in server.writes] == pytest.approx([0.0, 300.0, 600.0])


@virtually
async def test_a_candidate_that_was_deleted_is_created_at_its_next_renewal() -> None:
    server = CandidateServer()
    async with running(server):
        await asyncio.sleep(10)
        server.store(None)
        await asyncio.sleep(300)
        assert [method for _, method, _ in server.writes] == ["POST", "POST"]


@virtually
async def test_a_refused_write_is_retried() -> None:
    server = CandidateServer()
    server.troubles = [refusal(403, "Forbidden"), refusal(500, "InternalError")]
    async with running(server):
        await asyncio.sleep(5)
        assert [method for _, method, _ in server.writes] == ["POST"] * 3
        assert server.candidate is not None
