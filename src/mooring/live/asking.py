"""Decisions that wait: what extenders are asked is carried to them, and their answers back.

::

    decide yields questions ──> all asked at once ──> answers are sent in ──> ... ──> its result

While it waits, the news of the cluster is kept back, so that every node keeps its row; pods that
are on their way to nodes go on, and may give room back. So each answer is taken in with a new
snapshot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from mooring.errors import ExtenderError
from mooring.framework.extender import Ask, Questions

T = TypeVar("T")


async def answered(questions: Questions[T], renew: Callable[[], None]) -> T:
    """The result of what asks these questions; ``renew`` is called whenever it has waited.

    Raises whatever it raises.
    """
    try:
        asks = next(questions)
        while True:
            answers = await _all(asks)
            renew()
            asks = questions.send(answers)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    finally:
        questions.close()


async def _all(asks: list[Ask]) -> list[Any]:
    if len(asks) == 1:
        return [await _one(asks[0])]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_one(ask)) for ask in asks]
    return [task.result() for task in tasks]


async def _one(ask: Ask) -> Any:
    """The answer, or the error as a value: one that failed is no reason to break off the others."""
    try:
        return await ask()
    except ExtenderError as error:
        return error
