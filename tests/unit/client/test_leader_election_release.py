"""A lease that is given back: others need not wait, and we never write again."""

from __future__ import annotations

import pytest

from mooring.client.transport.transport import Request, Response
from mooring.errors import LeaseLost, OutcomeUnknown, Unreachable
from tests.helpers.lease_fixture import PATH, World, run


def test_a_lease_that_is_given_back_is_free_at_once() -> None:
    async def test(world: World) -> None:
        one, two = world.candidate("one"), world.candidate("two")
        await one.wait_until_leading()
        assert not await two._try(10)
        assert await one.release()
        assert not one.is_leading
        assert world.lease["holderIdentity"] == ""
        assert world.lease["leaseDurationSeconds"] == 1
        assert await two._try(10)
        assert world.lease["leaseTransitions"] == 1
        assert world.lease["leaseDurationSeconds"] == 15

    run(test)


def test_who_does_not_lead_has_nothing_to_give_back() -> None:
    async def test(world: World) -> None:
        one = world.candidate("one")
        assert not await one.release()
        await one.wait_until_leading()
        world.clock.advance(10)
        world.server.requests.clear()
        assert not await one.release()
        assert world.server.requests == []

    run(test)


def test_a_lease_that_cannot_be_given_back_runs_out() -> None:
    async def test(world: World) -> None:
        one = world.candidate("one")
        await one.wait_until_leading()
        world.server.troubles = [Unreachable("gone")]
        assert not await one.release()
        with pytest.raises(LeaseLost):
            one.fence()
        assert world.lease["holderIdentity"] == "one"

    run(test)


def test_a_lease_whose_renewal_was_not_answered_is_given_back_too() -> None:
    async def test(world: World) -> None:
        one = world.candidate("one")
        await one.wait_until_leading()
        world.server.troubles = [OutcomeUnknown("no answer")]
        world.server.is_answer_lost = True
        assert not await one._try(10)
        assert await one.release()
        assert world.lease["holderIdentity"] == ""

    run(test)


def test_a_lease_that_another_client_took_is_not_given_back() -> None:
    async def test(world: World) -> None:
        one = world.candidate("one")
        await one.wait_until_leading()
        world.server.leases[PATH]["spec"]["holderIdentity"] = "two"
        assert not await one.release()
        assert world.lease["holderIdentity"] == "two"

    run(test)


def test_a_lease_that_another_client_changed_is_released() -> None:
    async def test(world: World) -> None:
        one = world.candidate("one")
        await one.wait_until_leading()
        lease = world.server.leases[PATH]
        lease["metadata"] |= {"labels": {"a": "b"}, "resourceVersion": "99"}
        assert await one.release()
        assert world.lease["holderIdentity"] == ""

    run(test)


def test_a_lease_without_transitions_is_released_with_none() -> None:
    async def test(world: World) -> None:
        one = world.candidate("one")
        await one.wait_until_leading()
        lease = world.server.leases[PATH]
        del lease["spec"]["leaseTransitions"]
        lease["metadata"]["resourceVersion"] = "99"
        assert await one.release()
        assert world.lease["leaseTransitions"] == 0

    run(test)


def test_a_renewal_under_way_does_not_undo_the_release() -> None:
    async def test(world: World) -> None:
        one = world.candidate("one")
        await one.wait_until_leading()
        send = world.server.request

        async def release_first(request: Request) -> Response:
            world.server.request = send  # type: ignore[method-assign]
            answer_of_renewal = await send(request)
            await one.release()
            return answer_of_renewal

        world.server.request = release_first  # type: ignore[method-assign]
        assert not await one._try(10)
        assert not one.is_leading
        with pytest.raises(LeaseLost, match="was held before"):
            await one.wait_until_leading()

    run(test)
