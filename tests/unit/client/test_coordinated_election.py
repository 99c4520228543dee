"""An elector that kube-apiserver has to name, on virtual time, against leases in a dict."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from mooring.client.coordinated_election import CoordinatedElector
from mooring.client.leader_election import Elector
from mooring.errors import LeaseLost, Unreachable
from tests.helpers.lease_fixture import PATH, World, run


def elector(world: World, identity: str = "one") -> Elector:
    return world.candidate(identity, CoordinatedElector)


def elect(world: World, holder: str, **changes: Any) -> None:
    """Writes the lease as kube-apiserver's controller does."""
    world.server.version += 1
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": 5,
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "strategy": "OldestEmulationVersion",
        **changes,
    }
    metadata = {
        "name": "mooring",
        "namespace": "kube-system",
        "resourceVersion": str(world.server.version),
    }
    world.server.leases[PATH] = {"metadata": metadata, "spec": spec}


def test_it_never_creates_or_takes_a_lease() -> None:
    async def test(world: World) -> None:
        one = elector(world)
        assert not await one._try(10)
        elect(world, "")
        assert not await one._try(10)
        elect(world, "two")
        assert not await one._try(10)
        world.clock.advance(100)
        assert not await one._try(10), "the controller chooses the next holder"
        assert {method for method, _ in world.server.requests} == {"GET"}
        assert not one.is_leading

    run(test)


def test_it_leads_once_the_lease_names_it() -> None:
    async def test(world: World) -> None:
        one = elector(world)
        waits = itertools.count(1)

        def after_wait() -> None:
            if next(waits) == 3:
                elect(world, "one")

        world.after_wait = after_wait
        await one.wait_until_leading()
        assert one.is_leading
        assert 6.0 <= world.clock.monotonic_s() < 3 * 4.4
        lease = world.lease
        assert lease.pop("renewTime") > "2026-01-01T00:00:06"
        # The strategy and the absent acquireTime stay; the duration is ours; transitions stay 0.
        assert lease == {
            "holderIdentity": "one",
            "leaseDurationSeconds": 15,
            "leaseTransitions": 0,
            "strategy": "OldestEmulationVersion",
        }

    run(test)


def test_a_lease_that_named_it_too_long_ago_is_not_taken() -> None:
    async def test(world: World) -> None:
        one = elector(world)
        elect(world, "one")
        world.server.troubles = [Unreachable("refused")]
        assert not await one._try(10)
        # Its age counts from the first time that it is observed.
        one._observe(await one._requests.read())
        world.clock.advance(5.1)
        assert not await one._try(10)
        elect(world, "one", renewTime="2026-01-01T00:00:05.000000Z")
        assert await one._try(10)

    run(test)


def test_each_renewal_reads_the_lease_first() -> None:
    async def test(world: World) -> None:
        one = elector(world)
        elect(world, "one")
        assert await one._try(10)
        assert await one._try(10)
        assert world.server.requests == [("GET", PATH), ("PUT", PATH)] * 2

    run(test)


def test_its_term_is_over_when_another_candidate_is_preferred() -> None:
    async def test(world: World) -> None:
        one = elector(world)
        elect(world, "one")
        await one.wait_until_leading()
        world.server.leases[PATH]["spec"]["preferredHolder"] = "two"
        await one.keep()
        assert one.is_term_over
        assert one.is_leading, "what is in progress may still be written"
        assert await one.release()
        assert world.lease["holderIdentity"] == ""
        assert "preferredHolder" not in world.lease
        assert "strategy" not in world.lease
        with pytest.raises(LeaseLost):
            one.fence()

    run(test)


def test_a_candidate_that_does_not_lead_has_no_term() -> None:
    async def test(world: World) -> None:
        one = elector(world)
        elect(world, "one", preferredHolder="two")
        assert not await one._try(10)
        assert not one.is_term_over

    run(test)


def test_the_lease_is_lost_when_it_names_another_candidate() -> None:
    async def test(world: World) -> None:
        one = elector(world)
        elect(world, "one")
        await one.wait_until_leading()
        elect(world, "two")
        with pytest.raises(LeaseLost, match="its holder is two"):
            await one.keep()

    run(test)


def test_the_lease_is_lost_when_it_is_deleted_and_not_created_again() -> None:
    async def test(world: World) -> None:
        one = elector(world)
        elect(world, "one")
        await one.wait_until_leading()
        del world.server.leases[PATH]
        with pytest.raises(LeaseLost, match=r"not renewed for 10\.0 s"):
            await one.keep()
        assert world.clock.monotonic_s() == 10.0
        assert not world.server.leases

    run(test)


def test_it_goes_on_when_a_deleted_lease_names_it_again() -> None:
    async def test(world: World) -> None:
        one = elector(world)
        elect(world, "one")
        await one.wait_until_leading()
        del world.server.leases[PATH]
        waits = itertools.count(1)

        def after_wait() -> None:
            number = next(waits)
            if number == 3:
                elect(world, "one")
            if number == 6:
                raise KeyError("enough")

        world.after_wait = after_wait
        with pytest.raises(KeyError):
            await one.keep()
        assert one.is_leading
        assert world.lease["renewTime"] == "2026-01-01T00:00:10.000000Z"

    run(test)
