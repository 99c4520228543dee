"""The waits of a candidate, its logs meanwhile, its health, and the loss of the lease."""

from __future__ import annotations

import itertools
import logging
from contextlib import suppress

import pytest

from mooring.client.leader_election import EXPIRY_JITTER_S, HEALTH_TOLERANCE_S
from mooring.clock import seeded_random
from mooring.errors import LeaseLost, Unreachable
from tests.helpers.client_servers import refusal
from tests.helpers.lease_fixture import PATH, World, run

REFUSED = Unreachable("refused")


class Enough(Exception):
    """A test has seen enough."""


def keep(world: World, *, renewals: int) -> None:
    """Makes ``Elector.keep`` end with ``Enough`` after some waits."""
    waits = itertools.count(1)

    def stop() -> None:
        if next(waits) > renewals:
            raise Enough

    world.after_wait = stop


@pytest.mark.parametrize("seed", range(8))
def test_a_candidate_tries_right_after_the_lease_has_expired(seed: int) -> None:
    async def test(world: World) -> None:
        one, two = world.candidate("one"), world.candidate("two")
        two._rng = seeded_random(seed)
        await one.wait_until_leading()
        started_s = world.clock.monotonic_s()

        await two.wait_until_leading()

        # It has observed the lease at its first try, so it expires 15 s later.
        took_s = world.clock.monotonic_s() - started_s
        assert 15.0 <= took_s <= 15.0 + EXPIRY_JITTER_S

    run(test)


def test_a_lease_without_a_duration_is_tried_for_as_often_as_any_other() -> None:
    async def test(world: World) -> None:
        one, two = world.candidate("one"), world.candidate("two")
        await one.wait_until_leading()
        del world.server.leases[PATH]["spec"]["leaseDurationSeconds"]
        started_s = world.clock.monotonic_s()
        world.server.troubles = [REFUSED]

        await two.wait_until_leading()

        assert 2.0 <= world.clock.monotonic_s() - started_s < 4.4
        assert world.lease["holderIdentity"] == "two"

    run(test)


def test_after_the_loss_no_renewal_makes_it_lead_again() -> None:
    async def test(world: World) -> None:
        one = world.candidate("one")
        await one.wait_until_leading()
        world.server.troubles = [REFUSED] * 100
        with pytest.raises(LeaseLost):
            await one.keep()
        world.server.troubles.clear()

        # The lease on the server still names it.
        assert not await one._try(10)
        assert not one.is_leading
        with pytest.raises(LeaseLost, match="was held before"):
            await one.wait_until_leading()

    run(test)


def test_a_renewal_that_has_to_read_is_reported_and_a_candidate_that_waits_is_not() -> None:
    async def test(world: World) -> None:
        reads: list[str] = []
        one, two = world.candidate("one"), world.candidate("two")
        one._on_slow_path = lambda: reads.append("one")
        two._on_slow_path = lambda: reads.append("two")
        await one.wait_until_leading()
        assert not await two._try(10)
        assert reads == []

        world.server.troubles = [REFUSED]
        keep(world, renewals=4)
        with pytest.raises(Enough):
            await one.keep()

        # Only the renewal after the failed one reads the lease first.
        assert reads == ["one"]

    run(test)


@pytest.mark.parametrize(
    ("late_s", "is_healthy"),
    [(0.0, True), (15.0 + HEALTH_TOLERANCE_S, True), (15.0 + HEALTH_TOLERANCE_S + 0.1, False)],
)
def test_a_leader_that_has_not_renewed_for_far_too_long_is_not_healthy(
    late_s: float, *, is_healthy: bool
) -> None:
    async def test(world: World) -> None:
        one, waiting = world.candidate("one"), world.candidate("two")
        assert one.check_health() is None, "it does not lead yet"
        world.clock.advance(100.0)
        await one.wait_until_leading()

        world.clock.advance(late_s)

        problem = "failed election to renew leadership on lease mooring"
        assert one.check_health() == (None if is_healthy else problem)
        assert waiting.check_health() is None

    run(test)


def test_a_process_that_has_lost_its_lease_is_not_unhealthy_as_well() -> None:
    async def test(world: World) -> None:
        one = world.candidate("one")
        await one.wait_until_leading()
        world.server.troubles = [REFUSED] * 100
        with suppress(LeaseLost):
            await one.keep()
        world.clock.advance(100.0)

        assert one.check_health() is None

    run(test)


# -- logs -----------------------------------------------------------------------------------------


def test_failures_in_a_row_are_one_warning_and_a_success_ends_the_row(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(world: World) -> None:
        one = world.candidate("one")
        await one.wait_until_leading()
        world.server.troubles = [REFUSED, REFUSED]
        keep(world, renewals=3)
        with pytest.raises(Enough):
            await one.keep()
        world.server.troubles = [TimeoutError()]
        keep(world, renewals=2)
        with pytest.raises(Enough):
            await one.keep()

    with caplog.at_level(logging.INFO, logger="mooring"):
        run(test)

    failures = [
        (record.levelname, record.error)  # type: ignore[attr-defined]
        for record in caplog.records
        if record.message == "cannot acquire or renew lease"
    ]
    assert failures == [
        ("WARNING", "refused"),
        ("INFO", "refused"),
        # An exception without a text has its name.
        ("WARNING", "TimeoutError"),
    ]


@pytest.mark.parametrize(("code", "reason"), [(401, "Unauthorized"), (403, "Forbidden")])
def test_missing_rights_are_an_error_each_time(
    code: int, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(world: World) -> None:
        one = world.candidate("one")
        await one.wait_until_leading()
        world.server.troubles = [refusal(code, reason)] * 2
        keep(world, renewals=3)
        with pytest.raises(Enough):
            await one.keep()

    with caplog.at_level(logging.INFO, logger="mooring"):
        run(test)

    levels = [
        record.levelname
        for record in caplog.records
        if record.message == "cannot acquire or renew lease"
    ]
    assert levels == ["ERROR", "ERROR"]


def test_a_candidate_names_the_holder_once(caplog: pytest.LogCaptureFixture) -> None:
    async def test(world: World) -> None:
        one, two = world.candidate("one"), world.candidate("two")
        await one.wait_until_leading()
        await two.wait_until_leading()

    with caplog.at_level(logging.INFO, logger="mooring"):
        run(test)

    waiting = [record for record in caplog.records if record.message == "waiting for the lease"]
    assert [record.holder for record in waiting] == ["one"]  # type: ignore[attr-defined]
