"""Checks that no wakeup is lost when tasks are cancelled in the moment in which they are woken."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Final

from mooring.client.transport.turns import Turns

TRIALS: Final = 6
WAITS_S: Final = 100.0
#: Virtual seconds in which nothing else happens.
SETTLED_S: Final = 0.01


async def turn_problems(rng: Random) -> list[str]:
    """Returns what is wrong."""
    return [problem for _ in range(TRIALS) for problem in await _trial(rng)]


async def _trial(rng: Random) -> list[str]:
    loop, spare = asyncio.get_running_loop(), list[int | None]()

    def release(item: int | None) -> None:
        if not turns.wake_next(item):
            spare.append(item)

    turns: Turns[int] = Turns(release)
    tasks = []
    for _ in range(rng.randint(1, 6)):
        tasks.append(asyncio.create_task(turns.wait(loop, loop.time() + WAITS_S)))
        await asyncio.sleep(SETTLED_S)
    items = [rng.choice((None, number)) for number in range(rng.randint(1, 4))]
    cancelled = [task for task in tasks if rng.random() < 0.4]
    late = rng.random() < 0.7
    if not late:
        _cancel(cancelled)
    unused = [item for item in items if not turns.wake_next(item)]
    if late:
        _cancel(cancelled)
    await asyncio.sleep(SETTLED_S)
    problems = list(_differences(tasks, cancelled, items, unused + spare))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return problems


def _cancel(tasks: list[asyncio.Task[int | None]]) -> None:
    for task in tasks:
        task.cancel()


def _differences(
    tasks: list[asyncio.Task[int | None]],
    cancelled: list[asyncio.Task[int | None]],
    items: list[int | None],
    unused: list[int | None],
) -> Iterator[str]:
    """Yields what is lost: wakeups are for the tasks that have waited longest and go on."""
    going_on = [task for task in tasks if task not in cancelled]
    woken = [task for task in going_on if task.done()]
    count = min(len(going_on), len(items))
    if woken != going_on[:count]:
        yield f"{len(woken)} of {len(going_on)} tasks are woken by {items}, not the first {count}"
    if Counter(task.result() for task in woken) + Counter(unused) != Counter(items):
        yield f"of {items} tasks get {[task.result() for task in woken]}, {unused} are left"
