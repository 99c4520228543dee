"""The model of an elector: a right one has no difference, a wrong one has."""

from __future__ import annotations

import asyncio

import pytest

from mooring.client import Elector
from mooring.errors import LeaseLost, OutcomeUnknown, Unreachable
from tests.faults.twins.attached_elector import AttachedElector
from tests.helpers.lease_fixture import World


def attached(world: World, identity: str, problems: list[str]) -> Elector:
    elector = world.candidate(identity)
    AttachedElector(elector, world.clock, problems.append)
    return elector


async def lead_and_fail(world: World, problems: list[str]) -> None:
    """Leads, loses an answer and some requests, and then the lease."""
    elector = attached(world, "a", problems)
    await elector.wait_until_leading()
    for trouble in (OutcomeUnknown(""), Unreachable("")):
        world.server.is_answer_lost = isinstance(trouble, OutcomeUnknown)
        world.server.troubles.append(trouble)
        world.clock.advance(2.0)
        await elector._try(1.0)
        await elector._try(1.0)
    world.server.troubles += [Unreachable("")] * 20
    with pytest.raises(LeaseLost):
        await elector.keep()
    await asyncio.sleep(0)


def test_an_elector_whose_requests_fail_has_no_difference() -> None:
    problems: list[str] = []
    asyncio.run(lead_and_fail(World(), problems))
    assert problems == []


def test_a_candidate_that_takes_over_has_no_difference() -> None:
    async def main() -> None:
        world = World()
        first, second = (attached(world, name, problems) for name in "ab")
        await first.wait_until_leading()
        await second.wait_until_leading()
        await asyncio.sleep(0)
        assert (first.leader, second.leader) == ("a", "b")
        await second.release()

    problems: list[str] = []
    asyncio.run(main())
    assert problems == []


def test_a_renewal_that_counts_from_the_answer_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = Elector._try

    async def late(self: Elector, deadline_s: float) -> bool:
        is_ours = await real(self, deadline_s)
        self._leads_until_s += 3.0 * is_ours
        return is_ours

    monkeypatch.setattr(Elector, "_try", late)
    problems: list[str] = []
    asyncio.run(lead_and_fail(World(), problems))
    assert any("leads until" in problem for problem in problems)


def test_a_write_without_a_read_after_a_failure_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = Elector._try

    async def trusting(self: Elector, deadline_s: float) -> bool:
        is_ours = await real(self, deadline_s)
        self._needs_read = self.lease is None
        return is_ours

    monkeypatch.setattr(Elector, "_try", trusting)
    problems: list[str] = []
    asyncio.run(lead_and_fail(World(), problems))
    assert "sends replace, not read" in problems[0]
