"""The tasks of the scheduler end by themselves, by their scheduler, or loudly."""

from __future__ import annotations

import asyncio

import pytest

from mooring.errors import InvariantViolation
from mooring.scheduler.service import lasting


async def _leaks() -> None:
    task = asyncio.ensure_future(asyncio.sleep(3600))
    await asyncio.sleep(0)
    task.cancel()
    await task


async def _waits() -> None:
    await asyncio.Event().wait()


def test_a_cancellation_from_within_ends_all() -> None:
    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(lasting(_leaks))
            group.create_task(lasting(_waits))

    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(main())
    (error,) = raised.value.exceptions
    assert isinstance(error, InvariantViolation)
    assert "_leaks" in str(error)


def test_a_cancellation_of_the_task_is_its_end() -> None:
    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(lasting(_waits))
            await asyncio.sleep(0)
            task.cancel()

    asyncio.run(main())
