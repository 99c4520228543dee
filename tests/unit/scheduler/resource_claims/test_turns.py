"""Writes of a claim take turns; those of different claims do not wait for each other."""

from __future__ import annotations

import asyncio

import pytest

from mooring.scheduler.resource_claims.turns import Turns
from tests.helpers.running_scheduler import virtually


@virtually
async def test_tasks_of_a_claim_write_one_after_another_in_their_order() -> None:
    turns, written = Turns(), []

    async def write(uid: str, name: str) -> None:
        async with turns.of(uid):
            await asyncio.sleep(1.0)
            written.append((name, asyncio.get_running_loop().time()))

    async with asyncio.TaskGroup() as tasks:
        for uid, name in (("u1", "a"), ("u1", "b"), ("u2", "c"), ("u1", "d")):
            tasks.create_task(write(uid, name))
        await asyncio.sleep(0.5)
        assert len(turns) == 2
        await asyncio.sleep(1.0)
        assert len(turns) == 1
    assert written == [("a", 1.0), ("c", 1.0), ("b", 2.0), ("d", 3.0)]
    assert len(turns) == 0


@virtually
async def test_a_failure_or_a_cancelled_wait_ends_a_turn() -> None:
    turns = Turns()

    async def hold() -> None:
        async with turns.of("u1"):
            await asyncio.sleep(1.0)

    with pytest.raises(KeyError):
        async with turns.of("u1"):
            raise KeyError
    assert len(turns) == 0
    first, second, third = (asyncio.create_task(hold()) for _ in range(3))
    await asyncio.sleep(0.5)
    second.cancel()
    await asyncio.gather(first, third)
    assert asyncio.get_running_loop().time() == 2.0
    assert len(turns) == 0
