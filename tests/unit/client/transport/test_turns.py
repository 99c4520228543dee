"""Items go to the tasks that wait for them, in the order of their calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.client.transport.turns import Turns
from tests.helpers.memory_network import some_rounds
from tests.helpers.running_scheduler import virtually


class Line:
    """Tasks that wait, and what the cancelled ones have released."""

    def __init__(self) -> None:
        self.released: list[str | None] = []
        self.turns: Turns[str] = Turns(self.released.append)

    def wait(self, until_s: float = 60.0) -> asyncio.Task[str | None]:
        loop = asyncio.get_running_loop()
        return asyncio.create_task(self.turns.wait(loop, until_s))


@virtually
async def test_the_longest_wait_gets_the_item() -> None:
    line = Line()
    first, second, third = line.wait(), line.wait(), line.wait()
    await some_rounds()
    assert line.turns.wake_next("a")
    assert line.turns.wake_next("b")
    await some_rounds()
    assert (first.result(), second.result(), third.done()) == ("a", "b", False)
    assert line.turns.wake_next()
    assert await third is None
    assert not line.turns.wake_next("c")


@virtually
async def test_a_wait_ends_without_an_item_at_its_time() -> None:
    line, loop = Line(), asyncio.get_running_loop()
    late, later = line.wait(3.0), line.wait(5.0)
    assert await late is None
    assert loop.time() == 3.0
    assert line.turns.wake_next("a")
    assert await later == "a"
    assert loop.time() == 3.0


@virtually
async def test_an_item_that_comes_at_the_end_of_a_wait_goes_to_the_next_one() -> None:
    line, loop = Line(), asyncio.get_running_loop()
    late, later = line.wait(3.0), line.wait(5.0)
    await some_rounds()
    woken: list[bool] = []
    loop.call_at(3.0, lambda: woken.append(line.turns.wake_next("a")))
    assert await late is None
    assert (await later, woken) == ("a", [True])


@pytest.mark.parametrize("item", ["a", None])
@virtually
async def test_a_task_that_is_cancelled_when_its_turn_has_come_releases_it(
    item: str | None,
) -> None:
    line = Line()
    waiting = line.wait()
    await some_rounds()
    assert line.turns.wake_next(item)
    waiting.cancel()
    await some_rounds()
    assert waiting.cancelled()
    assert line.released == [item]


@virtually
async def test_a_task_that_is_cancelled_before_is_skipped() -> None:
    line, loop = Line(), asyncio.get_running_loop()
    first, second = line.wait(), line.wait()
    await some_rounds()
    first.cancel()
    assert line.turns.wake_next("a")
    assert await second == "a"
    assert line.released == []
    timers: Any = loop
    assert [timer for timer in timers._scheduled if not timer.cancelled()] == []
