"""Writes of claims in the background: removed users, deleted claims, and their end."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from mooring.client import Client
from mooring.clock import seeded_random
from mooring.objects.resource import FINALIZER
from mooring.scheduler.resource_claims.claim_writer import ClaimWriter
from mooring.state.cache import Cache
from mooring.virtual_loop import LoopClock
from tests.helpers.client_servers import answer, refusal
from tests.helpers.memory_network import some_rounds
from tests.helpers.running_scheduler import virtually
from tests.unit.scheduler.resource_claims.test_removal import GET, PATCH, Patched
from tests.unit.scheduler.resource_claims.test_reservation import OTHER, PUT, WEB, Server, claim


def writer_to(server: Any) -> tuple[ClaimWriter, Cache]:
    cache, rng = Cache(), seeded_random(0)
    cache.devices.claims.put(claim(WEB, OTHER))
    writer = ClaimWriter(
        Client(server, rng=rng, sleep=asyncio.sleep),
        cache.devices,
        clock=LoopClock(asyncio.get_running_loop()),
        rng=rng,
        sleep=asyncio.sleep,
    )
    return writer, cache


def users(cache: Cache) -> list[str]:
    stored = cache.devices.claims.get("default/gpu")
    assert stored is not None
    return [user.name for user in stored.status.reserved_for]


@virtually
async def test_a_removed_user_is_removed_from_the_cache_before_the_watch_reports_it() -> None:
    server = Patched(claim(WEB, OTHER))
    writer, cache = writer_to(server)
    writer.unreserve(claim(WEB, OTHER), WEB)
    writer.unreserve(claim(WEB, OTHER), WEB)  # one runs already
    assert (len(writer), users(cache)) == (1, ["web", "other"])
    await writer.wait_removed(claim(), WEB)
    assert (len(writer), users(cache)) == (0, ["other"])
    assert server.requests == [PATCH]
    await writer.wait_removed(claim(), WEB)  # none runs
    writer.unreserve(claim(OTHER), OTHER)
    await writer.wait_removed(claim(), OTHER)
    assert (users(cache), server.requests) == ([], [PATCH, PATCH])


@virtually
async def test_removals_from_a_claim_take_turns_and_write_the_version_of_the_cache() -> None:
    server = Patched(claim(WEB, OTHER))
    writer, cache = writer_to(server)
    for pod in (WEB, OTHER):
        writer.unreserve(claim(WEB, OTHER), pod)
    for pod in (WEB, OTHER):
        await writer.wait_removed(claim(), pod)
    assert (users(cache), server.requests) == ([], [PATCH, PATCH])  # without a conflict


@virtually
async def test_a_removal_from_a_claim_that_is_gone_changes_nothing_in_the_cache() -> None:
    writer, cache = writer_to(Patched(None))
    writer.unreserve(claim(WEB, OTHER), WEB)
    await writer.wait_removed(claim(), WEB)
    assert (len(writer), users(cache)) == (0, ["web", "other"])


@virtually
async def test_a_claim_is_deleted_after_its_finalizer_is_removed() -> None:
    stored = claim(finalizers=["other", FINALIZER])
    server = Server(stored, None, answer(200, {}))
    writer, _ = writer_to(server)
    writer.delete(stored)
    await some_rounds()
    assert server.requests == [PUT, ("DELETE", "")]
    assert server.written[0]["metadata"]["finalizers"] == ["other"]
    assert len(writer) == 0


@virtually
async def test_after_a_conflict_the_finalizer_of_the_newest_version_is_removed() -> None:
    newest = claim(finalizers=["newer", FINALIZER], resourceVersion="5")
    server = Server(newest, None, None, None, answer(200, {}))
    writer, _ = writer_to(server)
    writer.delete(claim(finalizers=[FINALIZER]))
    await asyncio.sleep(1.0)
    assert server.requests == [PUT, GET, PUT, ("DELETE", "")]
    assert server.written[-1]["metadata"]["finalizers"] == ["newer"]


@virtually
async def test_a_write_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    writer, _ = writer_to(Server(claim(), refusal(403, "Forbidden", "not you")))
    writer.delete(claim())
    await some_rounds()
    [line] = [vars(record) for record in caplog.records]
    assert (line["levelno"], line["message"]) == (logging.ERROR, "claim could not be written")
    assert (line["step"], line["claim"]) == ("delete", "default/gpu")
    assert "not you" in line["error"]
    assert len(writer) == 0


@virtually
async def test_at_the_end_all_writes_are_cancelled() -> None:
    class Silent(Server):
        async def request(self, request: object) -> None:  # type: ignore[override]
            del request
            await asyncio.Event().wait()

    writer, _ = writer_to(Silent(claim()))
    writer.delete(claim())
    writer.unreserve(claim(WEB), WEB)
    await some_rounds()
    assert len(writer) == 2
    writer.cancel()
    await some_rounds()
    assert len(writer) == 0
    await writer.wait_removed(claim(), WEB)
