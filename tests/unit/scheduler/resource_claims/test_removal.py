"""The removal of a user from a claim: what is sent, and until when it is tried."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.client import Client
from mooring.client.transport.transport import Request, Response
from mooring.clock import seeded_random
from mooring.errors import Forbidden, LeaseLost, Unreachable
from mooring.objects.codec.decode import encode
from mooring.objects.resource import ResourceClaim
from mooring.scheduler.resource_claims.removal import Removal
from mooring.virtual_loop import LoopClock
from tests.helpers.client_servers import answer, refusal
from tests.helpers.running_scheduler import virtually
from tests.unit.scheduler.resource_claims.test_reservation import (
    CUT,
    LOST,
    OTHER,
    WEB,
    Server,
    claim,
    now_s,
)

GET, PATCH = ("GET", ""), ("PATCH", "status")


class Patched(Server):
    """A server that removes users by a patch of this resourceVersion and UID."""

    def _handle(self, request: Request) -> Response:
        if request.method == "GET" or self.stored is None:
            return super()._handle(request)
        patch = json.loads(request.body)
        self.written.append(patch)
        metadata = self.stored.metadata
        if patch["metadata"] != {"uid": metadata.uid, "resourceVersion": metadata.resource_version}:
            return refusal(409, "Conflict", "changed")
        [item] = patch["status"]["reservedFor"]
        status = self.stored.status
        users = tuple(user for user in status.reserved_for if user.uid != item["uid"])
        version = str(int(metadata.resource_version) + 1)
        self.stored = replace(
            self.stored,
            metadata=replace(metadata, resource_version=version),
            status=replace(status, reserved_for=users),
        )
        return answer(200, encode(self.stored))


async def remove(server: Any, cached: ResourceClaim, fence: Any = lambda: 60.0) -> Any:
    """Returns the names of the users that are stored; None = there is no such claim."""
    clock = LoopClock(asyncio.get_running_loop())
    client = Client(server, rng=seeded_random(0), sleep=asyncio.sleep, fence=fence)
    removal = Removal(client, cached, WEB.uid, clock)
    stored = await removal.write_until_known(seeded_random(1), asyncio.sleep)
    return None if stored is None else [user.name for user in stored.status.reserved_for]


@virtually
async def test_a_user_is_removed_from_the_version_of_the_cache() -> None:
    server = Patched(claim(OTHER, WEB))
    assert await remove(server, claim(OTHER, WEB)) == ["other"]
    assert server.requests == [PATCH]
    assert server.written == [
        {
            "metadata": {"uid": "uid-gpu", "resourceVersion": "1"},
            "status": {"reservedFor": [{"$patch": "delete", "uid": "u-web"}]},
        }
    ]


@virtually
async def test_a_pod_that_is_no_user_is_not_removed() -> None:
    server = Patched(claim(OTHER))
    assert await remove(server, claim(OTHER)) == ["other"]
    assert server.requests == []


@pytest.mark.parametrize(
    ("stored", "expected", "requests"),
    [
        (claim(WEB, OTHER, resourceVersion="5"), ["other"], [PATCH, GET, PATCH]),
        (claim(OTHER, resourceVersion="5"), ["other"], [PATCH, GET]),
        (claim(WEB, uid="another", resourceVersion="5"), None, [PATCH, GET]),
        (None, None, [PATCH]),
    ],
)
@virtually
async def test_after_a_conflict_the_newest_claim_counts(
    stored: ResourceClaim | None, expected: Any, requests: Any
) -> None:
    server = Patched(stored)
    assert await remove(server, claim(WEB, OTHER)) == expected
    assert server.requests == requests


@pytest.mark.parametrize("step", [CUT, LOST])
@virtually
async def test_after_a_request_without_an_answer_the_claim_is_read(step: Any) -> None:
    server = Patched(claim(WEB), step)
    assert await remove(server, claim(WEB)) == []
    assert server.requests == [PATCH, GET, PATCH][: 2 if step is LOST else 3]


@virtually
async def test_after_a_request_that_was_not_sent_the_same_version_is_written() -> None:
    server = Patched(claim(WEB), *[Unreachable("refused")] * 3)
    assert await remove(server, claim(WEB)) == []
    assert server.requests == [PATCH] * 4
    # 0.01, 0.05 and 0.25 s, and up to a tenth more.
    assert 0.31 <= now_s() <= 0.341


@virtually
async def test_a_request_that_cannot_be_sent_is_tried_four_times() -> None:
    server = Patched(claim(WEB), *[Unreachable("refused")] * 9)
    with pytest.raises(Unreachable):
        await remove(server, claim(WEB))
    assert server.requests == [PATCH] * 4


@virtually
async def test_a_refusal_is_an_error_at_once() -> None:
    server = Patched(claim(WEB), refusal(403, "Forbidden"))
    with pytest.raises(Forbidden):
        await remove(server, claim(WEB))
    assert (server.requests, now_s()) == ([PATCH], 0.0)


@virtually
async def test_a_refusal_counts_only_when_an_earlier_request_cannot_arrive_any_more() -> None:
    refused = refusal(403, "Forbidden")
    server = Patched(claim(WEB), CUT, None, *[refused] * 200)
    with pytest.raises(Forbidden):
        await remove(server, claim(WEB))
    assert 120.0 <= now_s() < 128.0


@pytest.mark.parametrize(
    "failure", [refusal(500, "InternalError", "disk full"), refusal(409, "Conflict", "changed")]
)
@virtually
async def test_while_it_is_not_known_what_is_stored_there_is_a_read_before_each_try(
    failure: Response,
) -> None:
    server = Patched(claim(WEB), *[failure, None] * 8)
    assert await remove(server, claim(WEB)) == []
    assert server.requests == [PATCH, GET] * 8 + [PATCH]
    # Waits of 0.01, 0.05, 0.25, 1.25 and four times 5 s, and up to a tenth more.
    assert 21.56 <= now_s() <= 23.72


@virtually
async def test_a_read_that_fails_is_tried_again_as_well() -> None:
    refused = refusal(403, "Forbidden")
    server = Patched(claim(WEB), LOST, *[refused] * 3)
    assert await remove(server, claim(WEB)) == []
    assert server.requests == [PATCH, GET, GET, GET, GET]


@virtually
async def test_without_the_lease_nothing_is_sent() -> None:
    def lost() -> float:
        raise LeaseLost("over")

    server = Patched(claim(WEB))
    with pytest.raises(LeaseLost):
        await remove(server, claim(WEB), lost)
    assert (server.requests, now_s()) == ([], 0.0)
