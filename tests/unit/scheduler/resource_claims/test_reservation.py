"""The writes of one reservation: what is sent, what each answer means, and the texts of errors.

The texts are those of kube-scheduler v1.36.3, dynamicresources.go (bindClaim).
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.client import Client
from mooring.client.transport.transport import Request, Response
from mooring.clock import seeded_random
from mooring.errors import Conflict, OutcomeUnknown, SchedulerError, ServerError, Unreachable
from mooring.objects.codec.decode import encode
from mooring.objects.resource import FINALIZER, ResourceClaim, devices_in, pod_as_user
from mooring.scheduler.resource_claims.reservation import ClaimWriteFailed, Reservation, text_of
from mooring.state import PodInfo
from mooring.testing import make_pod
from mooring.virtual_loop import LoopClock
from tests.helpers.client_servers import answer, refusal
from tests.helpers.devices import exactly, make_claim, result_of
from tests.helpers.running_scheduler import virtually

WEB = PodInfo(make_pod("web", uid="u-web"))
OTHER = PodInfo(make_pod("other", uid="u-other"))
#: The answer to a request is lost: it has not arrived, or has been carried out.
CUT, LOST = OutcomeUnknown("cut off"), OutcomeUnknown("no answer")
NOW = "2026-01-01T00:00:00Z"


def claim(*users: PodInfo, device: str = "d", **metadata: Any) -> ResourceClaim:
    """Returns the claim "gpu"; without a device it is not allocated."""
    results = [result_of(device, "pool")] if device else None
    metadata = {"resourceVersion": "1", **metadata}
    made = make_claim("gpu", exactly(), allocated=results, **metadata)
    reserved = tuple(pod_as_user(user.metadata) for user in users)
    return replace(made, status=replace(made.status, reserved_for=reserved))


class Server:
    """Stores the claim; the next requests are handled by ``steps``.

    A step is an error or a response instead of the answer; with LOST the request is carried out. A
    claim is stored just before the request, as if another client had written it.
    """

    def __init__(self, stored: ResourceClaim | None, *steps: Any) -> None:
        self.stored = stored
        self.steps = list(steps)
        self.requests: list[tuple[str, str]] = []
        self.written: list[Any] = []

    async def request(self, request: Request) -> Response:
        kind = "status" if request.path.endswith("/status") else ""
        self.requests.append((request.method, kind))
        step = self.steps.pop(0) if self.steps else None
        if isinstance(step, ResourceClaim):
            self.stored, step = step, None
        if step is not None and step is not LOST:
            if isinstance(step, Exception):
                raise step
            assert isinstance(step, Response)
            return step
        response = self._handle(request)
        if step is LOST:
            raise OutcomeUnknown("no answer")
        return response

    def _handle(self, request: Request) -> Response:
        if self.stored is None:
            return refusal(404, "NotFound", "no such claim")
        if request.method == "PUT":
            document = json.loads(request.body)
            self.written.append(document)
            if document["metadata"]["resourceVersion"] != self.stored.metadata.resource_version:
                return refusal(409, "Conflict", "changed")
            metadata = {key: it for key, it in document["metadata"].items() if key != "name"}
            new = make_claim("gpu", exactly(), **metadata, status=document.get("status"))
            version = str(int(self.stored.metadata.resource_version) + 1)
            self.stored = replace(new, metadata=replace(new.metadata, resource_version=version))
        return answer(200, encode(self.stored))


def reservation(server: Any, cached: ResourceClaim, *, writes: bool, **options: Any) -> Reservation:
    """Returns a reservation of the claim in this version; ``writes``: its allocation, too."""
    clock = LoopClock(asyncio.get_running_loop())
    client = Client(server, rng=seeded_random(0), sleep=asyncio.sleep)
    allocation = claim().status.allocation
    options.setdefault("devices", devices_in(allocation))
    return Reservation(client, cached, allocation if writes else None, WEB, clock, **options)


async def write(work: Reservation) -> ResourceClaim:
    return await work.write_until_known(seeded_random(1), asyncio.sleep)


def now_s() -> float:
    return asyncio.get_running_loop().time()


GET, PUT, STATUS = ("GET", ""), ("PUT", ""), ("PUT", "status")


# ---- what is written ----


@pytest.mark.parametrize("has_time", [True, False])
@virtually
async def test_an_allocation_has_a_finalizer_a_user_and_a_time(has_time: bool) -> None:
    cached = claim(device="")
    server = Server(cached)
    stored = await write(reservation(server, cached, writes=True, has_time=has_time))
    assert server.requests == [PUT, STATUS]
    first, second = server.written
    assert first["metadata"]["finalizers"] == [FINALIZER]
    assert "allocation" not in first.get("status", {})
    status = second["status"]
    assert status["allocation"].get("allocationTimestamp") == (NOW if has_time else None)
    assert status["reservedFor"] == [{"resource": "pods", "name": "web", "uid": "u-web"}]
    assert second["metadata"]["resourceVersion"] == "2"
    assert stored.metadata.resource_version == "3"


@virtually
async def test_a_finalizer_that_is_there_is_not_written_and_others_stay() -> None:
    cached = claim(device="", finalizers=["other", FINALIZER])
    server = Server(cached)
    await write(reservation(server, cached, writes=True))
    assert server.requests == [STATUS]
    cached = claim(device="", finalizers=["other"])
    server = Server(cached)
    await write(reservation(server, cached, writes=True))
    assert server.written[0]["metadata"]["finalizers"] == ["other", FINALIZER]


@virtually
async def test_a_user_is_added_to_those_of_an_allocated_claim() -> None:
    cached = claim(OTHER)
    server = Server(cached)
    stored = await write(reservation(server, cached, writes=False))
    assert server.requests == [STATUS]
    assert [user.name for user in stored.status.reserved_for] == ["other", "web"]
    assert stored.status.allocation == cached.status.allocation


# ---- claims that have changed ----


@pytest.mark.parametrize(
    ("cached", "writes", "text"),
    [
        (claim(device="", deletionTimestamp=NOW), True, "got deleted in the meantime"),
        (claim(deletionTimestamp=NOW), False, "got deleted in the meantime"),
        (claim(device="e"), True, "got allocated elsewhere in the meantime"),
        (claim(device="e"), False, "got deallocated elsewhere in the meantime"),
        (claim(device=""), False, "got deallocated elsewhere in the meantime"),
    ],
)
@virtually
async def test_a_claim_that_cannot_be_reserved_is_not_written(
    cached: ResourceClaim, writes: bool, text: str
) -> None:
    server = Server(cached)
    with pytest.raises(ClaimWriteFailed) as caught:
        await write(reservation(server, cached, writes=writes))
    assert str(caught.value) == f"claim default/gpu {text}"
    assert server.requests == []


@pytest.mark.parametrize(
    ("newer", "text"),
    [
        (claim(uid="another", resourceVersion="5"), "got deleted in the meantime"),
        (claim(WEB, uid="another", resourceVersion="5"), "got deleted in the meantime"),
        (claim(deletionTimestamp=NOW, resourceVersion="5"), "got deleted in the meantime"),
        (claim(device="e", resourceVersion="5"), "got deallocated elsewhere in the meantime"),
        (claim(WEB, device="e", resourceVersion="5"), "got deallocated elsewhere in the meantime"),
    ],
)
@virtually
async def test_after_a_conflict_the_newest_claim_counts(newer: ResourceClaim, text: str) -> None:
    server = Server(newer)
    with pytest.raises(ClaimWriteFailed) as caught:
        await write(reservation(server, claim(), writes=False))
    assert str(caught.value) == f"claim default/gpu {text}"
    assert server.requests == [STATUS, GET]


@virtually
async def test_after_a_conflict_the_users_of_the_newest_claim_stay() -> None:
    server = Server(claim(OTHER, resourceVersion="5"))
    stored = await write(reservation(server, claim(), writes=False))
    assert server.requests == [STATUS, GET, STATUS]
    assert [user.name for user in stored.status.reserved_for] == ["other", "web"]


@virtually
async def test_a_claim_that_is_reserved_for_the_pod_is_not_written() -> None:
    server = Server(claim(OTHER, WEB, resourceVersion="5"))
    stored = await write(reservation(server, claim(), writes=False))
    assert stored.metadata.resource_version == "5"
    assert server.requests == [STATUS, GET]


@virtually
async def test_five_conflicts_are_an_error() -> None:
    conflict = refusal(409, "Conflict", "changed")
    server = Server(claim(), *[conflict, None] * 5)
    with pytest.raises(ClaimWriteFailed) as caught:
        await write(reservation(server, claim(), writes=False))
    assert str(caught.value) == "add reservation to claim default/gpu: changed"
    assert isinstance(caught.value.__cause__, Conflict)
    assert server.requests.count(STATUS) == 5
    assert server.requests.count(GET) == 4  # nothing was lost: no read at the end
    assert 0.04 <= now_s() < 0.05


@virtually
async def test_after_a_lost_request_five_conflicts_end_with_a_read() -> None:
    conflict = refusal(409, "Conflict", "changed")
    reserved = claim(WEB, resourceVersion="9")
    steps = [CUT, None, conflict, None, conflict, None, conflict, None, conflict, None, conflict]
    server = Server(claim(), *steps, reserved)
    stored = await write(reservation(server, claim(), writes=False))
    assert stored.metadata.resource_version == "9"
    assert server.requests[-2:] == [STATUS, GET]


# ---- refusals ----


@pytest.mark.parametrize(
    ("writes", "steps", "text"),
    [
        (False, [refusal(403, "Forbidden", "not you")], "add reservation to claim default/gpu"),
        (
            True,
            [None, refusal(403, "Forbidden", "not you")],
            "add allocation and reservation to claim default/gpu",
        ),
        (True, [refusal(403, "Forbidden", "not you")], "add finalizer to claim default/gpu"),
        (
            False,
            [refusal(409, "Conflict"), refusal(403, "Forbidden", "not you")],
            "get updated claim default/gpu after conflict",
        ),
    ],
)
@virtually
async def test_a_refusal_names_the_step(writes: bool, steps: list[Any], text: str) -> None:
    cached = claim(device="" if writes else "d")
    with pytest.raises(ClaimWriteFailed) as caught:
        await write(reservation(Server(cached, *steps), cached, writes=writes))
    assert str(caught.value) == f"{text}: not you"


@virtually
async def test_a_claim_that_was_deleted_after_a_conflict_is_an_error() -> None:
    server = Server(None, refusal(409, "Conflict"))
    with pytest.raises(ClaimWriteFailed) as caught:
        await write(reservation(server, claim(), writes=False))
    text = "get updated claim default/gpu after conflict: no such claim"
    assert str(caught.value) == text
    assert now_s() < 1.0


# ---- lost answers ----


@pytest.mark.parametrize("step", [CUT, LOST])
@virtually
async def test_a_request_without_an_answer_is_followed_by_a_read_and_a_write(step: Any) -> None:
    server = Server(claim(), step)
    stored = await write(reservation(server, claim(), writes=False))
    assert [user.name for user in stored.status.reserved_for] == ["web"]
    assert server.requests == ([STATUS, GET] if step is LOST else [STATUS, GET, STATUS])
    assert 0.1 <= now_s() <= 0.2


@virtually
async def test_a_request_that_was_not_sent_is_an_error_at_once() -> None:
    server = Server(claim(), Unreachable("refused"))
    with pytest.raises(ClaimWriteFailed) as caught:
        await write(reservation(server, claim(), writes=False))
    assert str(caught.value) == "add reservation to claim default/gpu: refused"
    assert (server.requests, now_s()) == ([STATUS], 0.0)


@virtually
async def test_only_two_minutes_without_any_answer_are_an_error() -> None:
    class Silent(Server):
        async def request(self, request: Request) -> Response:
            self.requests.append((request.method, ""))
            raise OutcomeUnknown("no answer")

    server = Silent(claim())
    with pytest.raises(ClaimWriteFailed) as caught:
        await write(reservation(server, claim(), writes=False))
    # The write was lost, and so were all reads after it: the last step is a read.
    assert str(caught.value) == "get updated claim default/gpu: no answer"
    assert server.requests[0] == PUT
    assert set(server.requests[1:]) == {GET}
    assert 120.0 <= now_s() < 130.0


@virtually
async def test_the_two_minutes_begin_when_the_request_is_sent() -> None:
    class Slow(Server):
        async def request(self, request: Request) -> Response:
            if request.method == "GET":
                return refusal(403, "Forbidden", "not you")
            await asyncio.sleep(20.0)
            raise OutcomeUnknown("no answer")

    with pytest.raises(ClaimWriteFailed) as caught:
        await write(reservation(Slow(claim()), claim(), writes=False))
    assert str(caught.value) == "get updated claim default/gpu after conflict: not you"
    assert 120.0 <= now_s() < 130.0


@virtually
async def test_a_deleted_claim_is_an_error_though_a_request_has_no_answer() -> None:
    server = Server(None, CUT)
    with pytest.raises(ClaimWriteFailed) as caught:
        await write(reservation(server, claim(), writes=False))
    text = "get updated claim default/gpu after conflict: no such claim"
    assert str(caught.value) == text
    assert now_s() < 1.0


@virtually
async def test_a_refused_read_says_nothing_about_a_request_without_an_answer() -> None:
    server = Server(claim(), CUT, refusal(403, "Forbidden", "not you"))
    stored = await write(reservation(server, claim(), writes=False))
    assert [user.name for user in stored.status.reserved_for] == ["web"]
    assert server.requests == [STATUS, GET, GET, STATUS]


@virtually
async def test_a_failure_of_the_server_is_an_answer_if_the_claim_was_deleted() -> None:
    server = Server(None, refusal(500, "InternalError", "disk full"))
    with pytest.raises(ClaimWriteFailed) as caught:
        await write(reservation(server, claim(), writes=False))
    assert str(caught.value) == "add reservation to claim default/gpu: disk full"
    assert (server.requests, now_s()) == ([STATUS, GET], 0.0)


@virtually
async def test_another_pod_of_the_name_is_another_user() -> None:
    former = PodInfo(make_pod("web", uid="u-former"))
    server = Server(claim(former, resourceVersion="5"))
    stored = await write(reservation(server, claim(), writes=False))
    assert [user.uid for user in stored.status.reserved_for] == ["u-former", "u-web"]


@pytest.mark.parametrize("is_stored", [True, False])
@virtually
async def test_a_failure_of_the_server_is_an_answer_once_the_claim_was_read(
    is_stored: bool,
) -> None:
    cached = claim()
    after = claim(WEB, resourceVersion="2") if is_stored else claim()
    server = Server(cached, refusal(500, "InternalError", "disk full"), after)
    work = reservation(server, cached, writes=False)
    if is_stored:
        assert (await write(work)).metadata.resource_version == "2"
    else:
        with pytest.raises(ClaimWriteFailed) as caught:
            await write(work)
        assert str(caught.value) == "add reservation to claim default/gpu: disk full"
        assert isinstance(caught.value.__cause__, ServerError)
    assert server.requests == [STATUS, GET]
    assert now_s() == 0.0


@virtually
async def test_a_failure_of_the_server_is_no_answer_while_the_claim_cannot_be_read() -> None:
    forbidden = refusal(403, "Forbidden")
    server = Server(claim(), refusal(500, "InternalError", "disk full"), forbidden)
    stored = await write(reservation(server, claim(), writes=False))
    assert [user.name for user in stored.status.reserved_for] == ["web"]
    assert server.requests == [STATUS, GET, GET, STATUS]


@virtually
async def test_a_refusal_counts_only_when_an_earlier_request_cannot_arrive_any_more() -> None:
    refused = refusal(403, "Forbidden", "not you")
    server = Server(claim(), CUT, *[None, refused] * 200)
    with pytest.raises(ClaimWriteFailed) as caught:
        await write(reservation(server, claim(), writes=False))
    assert str(caught.value) == "add reservation to claim default/gpu: not you"
    assert 120.0 <= now_s() < 128.0
    # Waits of 0.1, 0.2, 0.4 ... 5 s.
    assert 20 < server.requests.count(STATUS) < 40


def test_the_text_of_an_error_is_the_servers_own() -> None:
    assert text_of(Conflict("PUT /x: changed", status=409, server_message="changed")) == "changed"
    assert text_of(Conflict("PUT /x: no message", status=409)) == "PUT /x: no message"
    error: SchedulerError = Unreachable("cut off")
    assert text_of(error) == "cut off"
